//! How the demo is doing: one line that changes on a terminal, a line now and then in a pipe.

use std::time::{Duration, Instant};

use super::shop::Shop;
use crate::{clock, out};

/// How often a pipe hears something.
const QUIET: Duration = Duration::from_secs(2);

/// What became of the orders this process looked after.
#[derive(Debug)]
pub(crate) struct Progress {
    shop: Shop,
    begin: Instant,
    told: Instant,
    is_live: bool,
    pub(crate) started: u64,
    pub(crate) carried_on: u64,
    completed: u64,
    failed: u64,
}

/// How an order ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Completed,
    Failed,
}

impl Progress {
    pub(crate) fn new(shop: Shop) -> Self {
        let now = clock::now();
        Self {
            shop,
            begin: now,
            told: now,
            is_live: out::is_terminal(),
            started: 0,
            carried_on: 0,
            completed: 0,
            failed: 0,
        }
    }

    pub(crate) fn ended(&mut self, how: Ended) {
        match how {
            Ended::Completed => self.completed += 1,
            Ended::Failed => self.failed += 1,
        }
    }

    /// Tells, if it is time to.
    pub(crate) fn tell(&mut self) {
        if self.is_live {
            return out::redraw(&self.line());
        }
        if self.told.elapsed() >= QUIET {
            self.told = clock::now();
            out::line(&self.line());
        }
    }

    /// The last words.
    pub(crate) fn sum_up(&self) {
        if self.is_live {
            out::clear();
        }
        let seconds = self.begin.elapsed().as_secs_f64();
        out::line(&self.line());
        out::line(&format!(
            "done in {seconds:.1} s: {:.0} orders/s, {} things undone for failed orders",
            self.ends() as f64 / seconds.max(0.001),
            self.shop.undone(),
        ));
    }

    fn ends(&self) -> u64 {
        self.completed + self.failed
    }

    fn line(&self) -> String {
        let open = (self.started + self.carried_on).saturating_sub(self.ends());
        format!(
            "completed {}, failed {} (declined cards), open {open}, retries {}",
            self.completed,
            self.failed,
            self.shop.retries(),
        )
    }
}
