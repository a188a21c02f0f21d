//! Whether a stuck shard gets a spare thread.
//!
//! A take-over is not free: the instances of the shard stay behind, and its runs are built again
//! by replay. Code that is merely slow, poll after poll, would have the shard wander from thread
//! to thread and replay for ever. So a shard is taken over at most once a second, and there are
//! only so many spares; threads that were given up do not count against them.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// A shard is left where it is for so long after it was taken over.
const PAUSE: Duration = Duration::from_secs(1);

/// When each shard was taken over.
#[derive(Debug, Default)]
pub(crate) struct Spares {
    last: BTreeMap<usize, Instant>,
}

impl Spares {
    /// Takes a spare for this shard, if it may have one now: so many threads are in use of so
    /// many that there may be.
    pub(crate) fn take(&mut self, shard: usize, now: Instant, busy: usize, most: usize) -> bool {
        let last = self.last.get(&shard);
        let is_settled = last.is_none_or(|last| now.duration_since(*last) >= PAUSE);
        let may = is_settled && busy < most;
        if may {
            self.last.insert(shard, now);
        }
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    #[test]
    fn a_shard_is_taken_over_at_most_once_a_second() {
        let (mut spares, begin) = (Spares::default(), clock::now());
        let mut taken = Vec::new();
        // Code that is slow in every poll, for ten seconds.
        for millis in (0..10_000).step_by(10) {
            if spares.take(0, begin + Duration::from_millis(millis), 1, 4) {
                taken.push(millis);
            }
        }
        let each_second: Vec<u64> = (0..10).map(|n| n * 1_000).collect();
        assert_eq!(taken, each_second);
    }

    #[test]
    fn each_shard_has_its_own_second() {
        let (mut spares, now) = (Spares::default(), clock::now());
        assert!(spares.take(0, now, 2, 4));
        assert!(spares.take(1, now, 3, 4));
        assert!(!spares.take(1, now, 3, 4));
    }

    #[test]
    fn a_refusal_for_want_of_threads_does_not_use_up_the_second() {
        let (mut spares, now) = (Spares::default(), clock::now());
        assert!(!spares.take(0, now, 4, 4));
        assert!(spares.take(0, now, 3, 4));
    }
}
