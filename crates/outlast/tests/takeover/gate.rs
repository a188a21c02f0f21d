//! A gate that blocks the thread that comes to it, as no workflow should.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Closed until it is opened.
pub(crate) struct Gate {
    state: Mutex<State>,
    bell: Condvar,
}

#[derive(Clone, Copy)]
struct State {
    is_open: bool,
    waiting: u32,
}

impl Gate {
    pub(crate) const fn new() -> Self {
        let (is_open, waiting) = (false, 0);
        Self {
            state: Mutex::new(State { is_open, waiting }),
            bell: Condvar::new(),
        }
    }

    /// Blocks the thread until somebody opens.
    pub(crate) fn pass(&self) {
        let mut state = self.lock();
        state.waiting += 1;
        while !state.is_open {
            state = self
                .bell
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        state.waiting -= 1;
    }

    pub(crate) fn open(&self) {
        self.lock().is_open = true;
        self.bell.notify_all();
    }

    /// How many threads wait.
    pub(crate) fn waiting(&self) -> u32 {
        self.lock().waiting
    }

    /// Returns when so many threads wait.
    pub(crate) async fn crowd(&self, threads: u32) {
        while self.waiting() < threads {
            tokio::task::yield_now().await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
