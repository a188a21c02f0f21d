//! The token by which a running attempt hears that it should stop.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use outlast_model::task::StopReason;
use tokio::sync::Notify;

use crate::clock;

/// Fires at most once, for the first reason.
#[derive(Debug, Default)]
pub(crate) struct Stop {
    told: Mutex<Option<(StopReason, Instant)>>,
    fired: Notify,
    bell: Condvar,
}

impl Stop {
    pub(crate) fn fire(&self, reason: StopReason) {
        let mut told = self.lock();
        if told.is_none() {
            *told = Some((reason, clock::now()));
            drop(told);
            self.again();
        }
    }

    /// Wakes whoever waits for it once more.
    pub(crate) fn again(&self) {
        self.fired.notify_waiters();
        self.bell.notify_all();
    }

    pub(crate) fn reason(&self) -> Option<StopReason> {
        self.told().map(|(reason, _)| reason)
    }

    /// Why it fired, and when.
    pub(crate) fn told(&self) -> Option<(StopReason, Instant)> {
        *self.lock()
    }

    /// Waits until it fires.
    pub(crate) async fn wait(&self) -> StopReason {
        loop {
            let notified = self.fired.notified();
            if let Some(reason) = self.reason() {
                return reason;
            }
            notified.await;
        }
    }

    /// Blocks the thread until it fires, or for so long.
    pub(crate) fn wait_blocking(&self, time: Duration) -> Option<StopReason> {
        let waited = self
            .bell
            .wait_timeout_while(self.lock(), time, |told| told.is_none());
        let (told, _) = waited.unwrap_or_else(PoisonError::into_inner);
        told.map(|(reason, _)| reason)
    }

    fn lock(&self) -> MutexGuard<'_, Option<(StopReason, Instant)>> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
