//! The token by which a running attempt hears that it should stop.

use std::sync::{Mutex, MutexGuard, PoisonError};

use outlast_model::task::StopReason;
use tokio::sync::Notify;

/// Fires at most once, for the first reason.
#[derive(Debug, Default)]
pub(crate) struct Stop {
    reason: Mutex<Option<StopReason>>,
    fired: Notify,
}

impl Stop {
    pub(crate) fn fire(&self, reason: StopReason) {
        let mut current = self.lock();
        if current.is_none() {
            *current = Some(reason);
            drop(current);
            self.fired.notify_waiters();
        }
    }

    pub(crate) fn reason(&self) -> Option<StopReason> {
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

    fn lock(&self) -> MutexGuard<'_, Option<StopReason>> {
        self.reason.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
