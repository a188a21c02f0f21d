//! The world around the orders: slow, and now and then out of order. Which order meets which
//! trouble depends on its number and attempt alone, so that a demo looks the same each time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::lot::mix;

/// One in so many cards is declined.
const DECLINED: u64 = 12;

/// The shop, as its activities see it.
#[derive(Clone, Debug)]
pub(crate) struct Shop {
    fail: u64,
    counts: Arc<Counts>,
}

/// What happened to activities since this process started.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    retries: AtomicU64,
    undone: AtomicU64,
}

/// How a charge goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Odd {
    Fine,
    Declined,
    NoAnswer,
}

impl Shop {
    pub(crate) fn new(fail: u8) -> Self {
        Self {
            fail: u64::from(fail),
            counts: Arc::default(),
        }
    }

    pub(crate) fn retries(&self) -> u64 {
        self.counts.retries.load(Ordering::Relaxed)
    }

    pub(crate) fn undone(&self) -> u64 {
        self.counts.undone.load(Ordering::Relaxed)
    }

    /// How the charge of this order goes at this attempt.
    pub(crate) fn odd(&self, order: u64, attempt: u32) -> Odd {
        if mix(order).is_multiple_of(DECLINED) {
            return Odd::Declined;
        }
        if mix(order ^ mix(u64::from(attempt))) % 100 < self.fail {
            self.counts.retries.fetch_add(1, Ordering::Relaxed);
            return Odd::NoAnswer;
        }
        Odd::Fine
    }

    /// Something is put right again.
    pub(crate) async fn put_back(&self, _order: u64) {
        self.take_a_moment().await;
        self.counts.undone.fetch_add(1, Ordering::Relaxed);
    }

    /// Other systems are far away.
    pub(crate) async fn take_a_moment(&self) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trouble_is_as_frequent_as_asked_for_and_ends() {
        let shop = Shop::new(20);
        let odds: Vec<Odd> = (0..10_000).map(|order| shop.odd(order, 1)).collect();
        let share = |odd| odds.iter().filter(|o| **o == odd).count();
        assert!((700..1000).contains(&share(Odd::Declined)));
        assert!((1600..2100).contains(&share(Odd::NoAnswer)));
        let ends = |order| (1..20).any(|attempt| shop.odd(order, attempt) != Odd::NoAnswer);
        assert!((0..1000).all(ends));
    }
}
