//! Heartbeats of one attempt, throttled: the first goes out at once, then at most one in four
//! fifths of the heartbeat timeout. The newest details always win; a crash loses at most one
//! interval.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use outlast_model::Payload;
use outlast_model::task::AttemptToken;

use crate::clock;
use crate::port::WorkerPort;

/// Without a heartbeat timeout, details are reported this often.
const WITHOUT_TIMEOUT: Duration = Duration::from_secs(30);
/// The longest interval.
const LONGEST: Duration = Duration::from_secs(60);

/// The heartbeats of one attempt.
pub(crate) struct Heartbeats {
    token: AttemptToken,
    interval: Duration,
    port: Arc<dyn WorkerPort>,
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
    pub(crate) fn new(
        token: AttemptToken,
        timeout: Option<Duration>,
        port: Arc<dyn WorkerPort>,
    ) -> Self {
        let interval = timeout
            .map_or(WITHOUT_TIMEOUT, |t| t.mul_f64(0.8))
            .min(LONGEST);
        Self {
            token,
            interval,
            port,
            state: Mutex::new(State::default()),
        }
    }

    /// Reports now, or keeps the details: then it says when they must be flushed, unless somebody
    /// was told before.
    #[must_use = "whoever is told must flush"]
    pub(crate) fn beat(&self, details: Payload) -> Option<Duration> {
        let now = clock::now();
        let mut state = self.lock();
        let wait = state.last_sent.map_or(Duration::ZERO, |last| {
            self.interval.saturating_sub(now.duration_since(last))
        });
        if wait.is_zero() {
            state.last_sent = Some(now);
            state.unsent = None;
            drop(state);
            self.port.heartbeat(self.token, details);
            return None;
        }
        state.unsent = Some(details);
        let is_told = std::mem::replace(&mut state.is_flush_set, true);
        (!is_told).then_some(wait)
    }

    /// Reports what is still unsent: before a failure, a cancel, a hand-back.
    pub(crate) fn flush(&self) {
        let mut state = self.lock();
        state.is_flush_set = false;
        let Some(details) = state.unsent.take() else {
            return;
        };
        state.last_sent = Some(clock::now());
        drop(state);
        self.port.heartbeat(self.token, details);
    }

    pub(crate) fn port(&self) -> &dyn WorkerPort {
        &*self.port
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
