//! Attempts that one task of the runtime begins, one after the other. What has ended and what has
//! not begun is kept where the watchdog finds it: neither must wait behind an attempt whose code
//! does not come back.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use outlast_model::task::AttemptOutcome;

use crate::dispatch::Start;

/// A task that has been at it for so long is held up by one of its attempts.
const HELD: Duration = Duration::from_millis(10);

/// Attempts of one task of the runtime.
pub(crate) struct Chunk {
    begun: Instant,
    state: Mutex<(Vec<AttemptOutcome>, VecDeque<Start>)>,
}

impl Chunk {
    pub(crate) fn new(starts: Vec<Start>, begun: Instant) -> Self {
        let state = Mutex::new((Vec::with_capacity(starts.len()), starts.into()));
        Self { begun, state }
    }

    /// Keeps what has ended, gives what begins next.
    pub(crate) fn next(&self, ended: Option<AttemptOutcome>) -> Option<Start> {
        let mut state = self.lock();
        state.0.extend(ended);
        state.1.pop_front()
    }

    /// Takes all there is: what has ended, and what has not begun.
    pub(crate) fn take(&self) -> (Vec<AttemptOutcome>, Vec<Start>) {
        let (done, rest) = std::mem::take(&mut *self.lock());
        (done, rest.into())
    }

    /// Whether one of its attempts holds it up.
    pub(crate) fn is_held(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.begun) > HELD
    }

    fn lock(&self) -> MutexGuard<'_, (Vec<AttemptOutcome>, VecDeque<Start>)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
