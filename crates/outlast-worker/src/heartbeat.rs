//! Heartbeats of one attempt, throttled: the first goes out at once, then at most one in a share
//! of the heartbeat timeout. The newest details always win; a crash loses at most one
//! interval.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use outlast_model::Payload;
use outlast_model::task::AttemptToken;

use crate::clock;
use crate::port::WorkerPort;
use crate::settings::Settings;

/// The heartbeats of one attempt.
pub(crate) struct Heartbeats {
    token: AttemptToken,
    interval: Duration,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    last_sent: Option<Instant>,
    /// The newest details that are not reported yet.
    unsent: Option<Payload>,
    is_flush_set: bool,
}

impl Heartbeats {
    pub(crate) fn new(token: AttemptToken, timeout: Option<Duration>, settings: &Settings) -> Self {
        Self {
            token,
            interval: interval(timeout, settings),
            state: Mutex::new(State::default()),
        }
    }

    /// Reports now, or keeps the details: then it says when they must be flushed, unless somebody
    /// was told before.
    #[must_use = "whoever is told must flush"]
    pub(crate) fn beat(&self, port: &dyn WorkerPort, details: Payload) -> Option<Duration> {
        let now = clock::now();
        let mut state = self.lock();
        let wait = state.last_sent.map_or(Duration::ZERO, |last| {
            self.interval.saturating_sub(now.duration_since(last))
        });
        if wait.is_zero() {
            state.last_sent = Some(now);
            state.unsent = None;
            drop(state);
            port.heartbeat(self.token, details);
            return None;
        }
        state.unsent = Some(details);
        let is_told = std::mem::replace(&mut state.is_flush_set, true);
        (!is_told).then_some(wait)
    }

    /// Reports what is still unsent: before a failure, a cancel, a hand-back.
    pub(crate) fn flush(&self, port: &dyn WorkerPort) {
        let mut state = self.lock();
        state.is_flush_set = false;
        let Some(details) = state.unsent.take() else {
            return;
        };
        state.last_sent = Some(clock::now());
        drop(state);
        port.heartbeat(self.token, details);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The time between two reports.
fn interval(timeout: Option<Duration>, settings: &Settings) -> Duration {
    let usual = timeout.map_or(settings.heartbeat_interval, |timeout| {
        timeout.mul_f64(settings.heartbeat_share.clamp(0.0, 1.0))
    });
    usual.min(settings.heartbeat_interval_max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_go_out_in_a_share_of_the_timeout_and_once_a_minute_at_least() {
        let settings = Settings::default();
        let seconds =
            |timeout: Option<u64>| interval(timeout.map(Duration::from_secs), &settings).as_secs();
        assert_eq!(seconds(Some(10)), 8);
        assert_eq!(seconds(None), 30);
        assert_eq!(seconds(Some(600)), 60);
    }
}
