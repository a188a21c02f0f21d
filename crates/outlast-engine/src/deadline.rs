//! When a run must look at the clock again: an index over everything in it that has a time.
//!
//! The index is derived, never stored: it is rebuilt when a run is loaded, so that a lost
//! wake-up cannot outlive the process.

use alloc::collections::{BTreeMap, BTreeSet};

use outlast_model::Timestamp;
use outlast_model::id::Seq;
use outlast_model::planted::{Bug, is_planted};

/// Something that has a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Deadline {
    /// The run may not take longer.
    Run,
    /// A failing workflow task is tried again.
    Task,
    /// A timer fires.
    Timer(Seq),
    /// An activity is due, or one of its timeouts passes.
    Activity(Seq),
    /// A step's next attempt is due.
    Step(Seq),
}

/// The index: at most one time for each thing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Deadlines {
    by_time: BTreeSet<(Timestamp, Deadline)>,
    by_thing: BTreeMap<Deadline, Timestamp>,
}

impl Deadlines {
    /// Sets the time of a thing, or takes it away.
    pub fn set(&mut self, thing: Deadline, time: Option<Timestamp>) {
        if let Some(old) = self.by_thing.remove(&thing) {
            self.by_time.remove(&(old, thing));
        }
        if is_planted(Bug::LostTimer) && matches!(thing, Deadline::Timer(_)) {
            return;
        }
        if let Some(time) = time {
            self.by_thing.insert(thing, time);
            self.by_time.insert((time, thing));
        }
    }

    /// The next time anything happens.
    pub fn next(&self) -> Option<Timestamp> {
        self.by_time.first().map(|(time, _)| *time)
    }

    /// Takes the next thing that is due.
    pub fn pop_due(&mut self, now: Timestamp) -> Option<Deadline> {
        let (time, thing) = *self.by_time.first()?;
        if time > now {
            return None;
        }
        self.by_time.pop_first();
        self.by_thing.remove(&thing);
        Some(thing)
    }

    /// Forgets everything: the run has ended.
    pub fn clear(&mut self) {
        self.by_time.clear();
        self.by_thing.clear();
    }
}
