//! Numbers that one thread counts while another reads them: relaxed atomics and nothing else, so
//! that counting costs next to nothing and reading is never exact to the last one.
//!
//! A histogram has a bucket for every power of two. That is coarse enough to be one addition, and
//! fine enough to tell 1 ms from 5 ms, which is what latencies are looked at for.

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;

/// Buckets of a histogram: up to 2^26, which is 67 s in microseconds; the last has no bound.
pub const BUCKETS: usize = 28;

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// One more.
    pub fn one(&self) {
        self.add(1);
    }

    /// So many more.
    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    /// How many so far.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// How values are spread.
#[derive(Debug)]
pub struct Histogram {
    buckets: [AtomicU64; BUCKETS],
    sum: AtomicU64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self {
            buckets: [const { AtomicU64::new(0) }; BUCKETS],
            sum: AtomicU64::new(0),
        }
    }
}

impl Histogram {
    /// One value.
    pub fn record(&self, value: u64) {
        self.buckets[bucket(value)].fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add(value, Ordering::Relaxed);
    }

    /// One value, in microseconds.
    pub fn record_time(&self, time: Duration) {
        self.record(u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
    }

    /// What was recorded so far.
    pub fn read(&self) -> Spread {
        Spread {
            counts: core::array::from_fn(|i| self.buckets[i].load(Ordering::Relaxed)),
            sum: self.sum.load(Ordering::Relaxed),
        }
    }
}

/// What a histogram held when it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spread {
    /// Values in each bucket: more than half its bound, at most its bound.
    pub counts: [u64; BUCKETS],
    /// All values together.
    pub sum: u64,
}

impl Spread {
    /// Nothing.
    pub const EMPTY: Self = Self {
        counts: [0; BUCKETS],
        sum: 0,
    };

    /// The largest value of a bucket; `None` for the last.
    pub fn bound(bucket: usize) -> Option<u64> {
        (bucket + 1 < BUCKETS).then(|| 1 << bucket)
    }

    /// How many values there are.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Both together.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            counts: core::array::from_fn(|i| self.counts[i] + other.counts[i]),
            sum: self.sum.wrapping_add(other.sum),
        }
    }
}

fn bucket(value: u64) -> usize {
    let bits = u64::BITS - value.saturating_sub(1).leading_zeros();
    (bits as usize).min(BUCKETS - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_in_the_first_bucket_that_has_room_for_it() {
        for value in [0, 1, 2, 3, 4, 5, 1_000, 1 << 26, (1 << 26) + 1, u64::MAX] {
            let found = bucket(value);
            assert!(
                Spread::bound(found).is_none_or(|bound| value <= bound),
                "{value}"
            );
            let below = found.checked_sub(1).and_then(Spread::bound);
            assert!(below.is_none_or(|bound| value > bound), "{value}");
        }
    }

    #[test]
    fn a_histogram_holds_what_was_recorded() {
        let histogram = Histogram::default();
        histogram.record_time(Duration::from_micros(3));
        histogram.record(1_000);
        let spread = histogram.read();
        assert_eq!((spread.count(), spread.sum), (2, 1_003));
        assert_eq!(spread.plus(&spread).count(), 4);
    }
}
