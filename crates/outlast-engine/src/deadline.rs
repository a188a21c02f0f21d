//! When a run must look at the clock again: an index over everything in it that has a time.
//!
//! The index is derived, never stored: it is rebuilt when a run is loaded, so that a lost
//! wake-up cannot outlive the process.
//!
//! Two sorted queues and no trees: times and numbers rise, so that almost everything is added at
//! the end and taken from the front, which costs a queue a few instructions. What comes in the
//! middle moves its neighbours; `PENDING_OPERATIONS` says how many those can be.

use alloc::collections::VecDeque;

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
#[derive(Clone, Debug, Default)]
pub struct Deadlines {
    /// Sorted.
    by_time: VecDeque<(Timestamp, Deadline)>,
    /// The same, sorted by thing. Empty while there are few: those are found by looking.
    by_thing: VecDeque<(Deadline, Timestamp)>,
}

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
        let old = self.time_of(thing);
        if let Some(old) = old {
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
        self.by_time.front().map(|(time, _)| *time)
    }

    /// Takes the next thing that is due.
    pub fn pop_due(&mut self, now: Timestamp) -> Option<Deadline> {
        let (time, thing) = *self.by_time.front()?;
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
        if self.by_thing.is_empty() {
            let mut all = self.by_time.iter();
            return all.find(|(_, t)| *t == thing).map(|(time, _)| *time);
        }
        let (first, last) = (self.by_thing.front()?, self.by_thing.back()?);
        if first.0 == thing {
            return Some(first.1);
        }
        if last.0 < thing {
            return None;
        }
        let at = self.by_thing.binary_search_by_key(&thing, |(t, _)| *t);
        at.ok().map(|at| self.by_thing[at].1)
    }

    fn insert(&mut self, thing: Deadline, time: Timestamp) {
        insert(&mut self.by_time, (time, thing));
        if !self.by_thing.is_empty() {
            insert(&mut self.by_thing, (thing, time));
        } else if self.by_time.len() > FEW {
            self.by_thing = self.by_time.iter().map(|(time, t)| (*t, *time)).collect();
            self.by_thing.make_contiguous().sort_unstable();
        }
    }

    fn remove(&mut self, thing: Deadline, time: Timestamp) {
        remove(&mut self.by_time, &(time, thing));
        remove(&mut self.by_thing, &(thing, time));
    }
}

fn insert<T: Ord>(queue: &mut VecDeque<T>, item: T) {
    if queue.back().is_none_or(|last| *last < item) {
        return queue.push_back(item);
    }
    let at = queue.partition_point(|other| *other < item);
    queue.insert(at, item);
}

fn remove<T: Ord>(queue: &mut VecDeque<T>, item: &T) {
    if queue.front() == Some(item) {
        queue.pop_front();
    } else if let Ok(at) = queue.binary_search(item) {
        queue.remove(at);
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
