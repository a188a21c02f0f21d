//! Where workflow code rests when only a message or its own code can move it, and what came that
//! it has not taken.
//!
//! The engine knows activities, timers and children by their events. A wait for a signal or for
//! a condition has none: nothing but these notes says where such a run stands.

use alloc::vec::Vec;
use core::fmt;

use minicbor::{Decode, Encode};

use crate::event::Site;
use crate::id::{PromiseId, SignalName};

/// Where code rests, and what it has not taken.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct Rest {
    /// Some of its waits. None: it waits for something that has an event.
    #[n(0)]
    pub at: Vec<Await>,
    /// Some of the signals that nobody has taken.
    #[n(1)]
    pub unread: Vec<Unread>,
}

/// A wait that has no event.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Await {
    /// For what.
    #[n(0)]
    pub what: Awaited,
    /// The call.
    #[n(1)]
    pub site: Site,
}

/// What has no event before it comes.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Awaited {
    /// A signal of this name.
    #[n(0)]
    Signal(#[n(0)] SignalName),
    /// A promise.
    #[n(1)]
    Promise(#[n(0)] PromiseId),
    /// A condition on the state of the run.
    #[n(2)]
    Condition,
    /// Another branch: a lock, a message between the two.
    #[n(3)]
    Branch,
}

/// Signals of one name that nobody has taken.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Unread {
    /// Their name.
    #[n(0)]
    pub name: SignalName,
    /// How many.
    #[n(1)]
    pub count: u32,
}

impl fmt::Display for Await {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.what {
            Awaited::Signal(name) => write!(f, "signal {name}")?,
            Awaited::Promise(id) => write!(f, "promise {id}")?,
            Awaited::Condition => f.write_str("a condition")?,
            Awaited::Branch => f.write_str("another branch")?,
        }
        write!(f, " ({})", self.site)
    }
}

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name, self.count)
    }
}
