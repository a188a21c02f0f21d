//! Editions of the rules that workflow code runs under.
//!
//! A change of what the runtime makes of the same code (which commands it sends, and when) would
//! make open runs contradict their histories. So such a change is a new edition: the start of a
//! run records the newest one, and the run keeps it to its end. A start without one is of the
//! first.
//!
//! | edition | what is new |
//! |---|---|
//! | 1 | |
//! | 2 | a call with an undo stays registered when nobody waits for it any more; the timer of a block's time limit is out of reach of cancellation |

use core::fmt;

use minicbor::{Decode, Encode};

/// Which rules a run began under.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
#[cbor(transparent)]
pub struct Edition(#[n(0)] pub u32);

impl Edition {
    /// Of runs whose start says nothing.
    pub const FIRST: Self = Self(1);
    /// Undo and time limits hold through races, drops and cancels.
    pub const SECOND: Self = Self(2);
    /// What new runs begin under.
    pub const NEWEST: Self = Self::SECOND;
}

impl fmt::Display for Edition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}
