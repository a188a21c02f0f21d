//! When a run must look at the clock again: an index over everything in it that has a time.
//!
//! The index is derived, never stored: it is rebuilt when a run is loaded, so that a lost
//! wake-up cannot outlive the process.
//!
//! Two [lines](outlast_model::line) and no trees: times and numbers rise, so that almost
//! everything is added at the end and taken from the front.

use outlast_model::id::Seq;
use outlast_model::line::Numbered;
use outlast_model::planted::{Bug, is_planted};
use outlast_model::{Line, Timestamp};

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
#[derive(Clone, Debug, Default)]
pub struct Deadlines {
    by_time: Line<Moment, ()>,
    /// The same by thing. Empty while there are few: those are found by looking.
    by_thing: Line<Deadline, Timestamp>,
}

/// When what happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Moment(Timestamp, Deadline);

/// So many things are found by looking at all of them.
const FEW: usize = 16;

impl PartialEq for Deadlines {
    fn eq(&self, other: &Self) -> bool {
        self.by_time == other.by_time
    }
}

impl Deadlines {
    /// Sets the time of a thing, or takes it away.
    pub fn set(&mut self, thing: Deadline, time: Option<Timestamp>) {
        if let Some(old) = self.time_of(thing) {
            self.remove(thing, old);
        }
        if is_planted(Bug::LostTimer) && matches!(thing, Deadline::Timer(_)) {
            return;
        }
        if let Some(time) = time {
            self.insert(thing, time);
        }
    }

    /// The next time anything happens.
    pub fn next(&self) -> Option<Timestamp> {
        self.by_time.first().map(|Moment(time, _)| time)
    }

    /// Takes the next thing that is due.
    pub fn pop_due(&mut self, now: Timestamp) -> Option<Deadline> {
        let Moment(time, thing) = self.by_time.first()?;
        if time > now {
            return None;
        }
        self.remove(thing, time);
        Some(thing)
    }

    /// Forgets everything: the run has ended.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    fn time_of(&self, thing: Deadline) -> Option<Timestamp> {
        if !self.by_thing.is_empty() {
            return self.by_thing.get(thing).copied();
        }
        let mut all = self.by_time.keys();
        let found = all.find(|Moment(_, other)| *other == thing);
        found.map(|Moment(time, _)| time)
    }

    fn insert(&mut self, thing: Deadline, time: Timestamp) {
        self.by_time.insert(Moment(time, thing), ());
        if !self.by_thing.is_empty() {
            self.by_thing.insert(thing, time);
        } else if self.by_time.len() > FEW {
            let all = self.by_time.keys();
            self.by_thing = all.map(|Moment(time, thing)| (thing, time)).collect();
        }
    }

    fn remove(&mut self, thing: Deadline, time: Timestamp) {
        self.by_time.remove(Moment(time, thing));
        self.by_thing.remove(thing);
    }
}

/// Times mostly rise with numbers.
impl Numbered for Moment {
    fn behind(self, first: Self) -> usize {
        self.1.behind(first.1)
    }
}

impl Numbered for Deadline {
    fn behind(self, first: Self) -> usize {
        self.seq().behind(first.seq())
    }
}

impl Deadline {
    fn seq(self) -> Seq {
        match self {
            Self::Run | Self::Task => Seq(0),
            Self::Timer(seq) | Self::Activity(seq) | Self::Step(seq) => seq,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;

    /// The next thing by a plain map: the earliest time, then the order of things.
    fn first(all: &BTreeMap<Deadline, Timestamp>) -> Option<(Timestamp, Deadline)> {
        all.iter().map(|(thing, time)| (*time, *thing)).min()
    }

    #[test]
    fn few_or_many_in_any_order_the_index_says_what_a_plain_map_says() {
        let mut state = 1u64;
        let mut random = |below: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) % below
        };
        for things in [3, FEW as u64, 60] {
            let (mut index, mut plain) = (Deadlines::default(), BTreeMap::new());
            for _ in 0..4_000 {
                let seq = Seq(u32::try_from(random(things)).unwrap_or(0));
                let thing = match random(4) {
                    0 => Deadline::Task,
                    1 => Deadline::Timer(seq),
                    2.. => Deadline::Activity(seq),
                };
                match (random(3), Timestamp(random(50))) {
                    (0, _) => {
                        index.set(thing, None);
                        plain.remove(&thing);
                    }
                    (1, now) => {
                        let due = first(&plain).filter(|(time, _)| *time <= now);
                        assert_eq!(index.pop_due(now), due.map(|(_, thing)| thing));
                        due.map(|(_, thing)| plain.remove(&thing));
                    }
                    (_, time) => {
                        index.set(thing, Some(time));
                        plain.insert(thing, time);
                    }
                }
                assert_eq!(index.next(), first(&plain).map(|(time, _)| time));
                assert_eq!(index.by_time.len(), plain.len());
            }
        }
    }
}
