//! What a test saw of code that is stuck or ignores that it should stop: such a test fails, however
//! well the rest went.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use outlast_worker::WorkerEvent;

/// What was seen, until somebody says it aloud.
#[derive(Clone, Debug)]
pub(crate) struct Witness {
    /// Nothing, if nobody looks.
    seen: Arc<Mutex<Option<Vec<String>>>>,
}

impl Default for Witness {
    fn default() -> Self {
        let seen = Arc::new(Mutex::new(Some(Vec::new())));
        Self { seen }
    }
}

impl Witness {
    /// From here on nothing is seen.
    pub(crate) fn look_away(&self) {
        *self.lock() = None;
    }

    /// Whether stuck code would fail the test.
    pub(crate) fn is_looking(&self) -> bool {
        self.lock().is_some()
    }

    /// A poll that is merely slow, as on a busy machine, is nothing to fail for.
    pub(crate) fn see(&self, event: &WorkerEvent) {
        let is_slow = matches!(event, WorkerEvent::DeadlockWarning(_));
        if let Some(seen) = &mut *self.lock()
            && event.is_stuck_or_zombie()
            && !is_slow
        {
            seen.push(event.to_string());
        }
    }

    /// Fails the test, once, if there was something to see.
    ///
    /// # Panics
    /// If there was.
    pub(crate) fn speak(&self) {
        let seen = self.lock().as_mut().map(std::mem::take).unwrap_or_default();
        assert!(
            seen.is_empty() || std::thread::panicking(),
            "code was stuck, or ignored that it should stop; if the test is about that, say \
             .expect_stuck_code(): {}",
            seen.join("; ")
        );
    }

    fn lock(&self) -> MutexGuard<'_, Option<Vec<String>>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
