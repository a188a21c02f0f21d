//! Where pollers of one queue and kind wait for what the backend sends.
//!
//! What arrives stands in line until a poller takes it; taking and leaving the line are one step,
//! so that a poller that dies in between takes nothing along. The poll at the backend goes on
//! whoever waits: it belongs to the owner.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::handle::PollError;

/// Something the backend sent, and through which handle.
#[derive(Clone, Debug, PartialEq)]
pub struct Polled<T> {
    /// The handle's number: the answer goes to the same one.
    pub generation: u64,
    /// What it sent.
    pub item: T,
}

/// The waiting line of one queue and kind.
pub(super) struct Line<T> {
    state: Mutex<LineState<T>>,
    /// For pollers: something has arrived or ended.
    changed: Notify,
    /// For the poll: somebody waits, or nothing is left.
    wanted: Notify,
}

struct LineState<T> {
    ready: VecDeque<Polled<T>>,
    pollers: usize,
    /// How many handles have ended.
    endings: u64,
    /// No handle will follow.
    is_over: bool,
}

impl<T> Default for Line<T> {
    fn default() -> Self {
        Self {
            state: Mutex::new(LineState {
                ready: VecDeque::new(),
                pollers: 0,
                endings: 0,
                is_over: false,
            }),
            changed: Notify::new(),
            wanted: Notify::new(),
        }
    }
}

impl<T> Line<T> {
    /// Waits for the next thing. Can be dropped at any moment.
    ///
    /// # Errors
    /// The handle has shut down; another one may follow.
    pub(super) async fn next(&self) -> Result<Polled<T>, PollError> {
        let place = Place::take(self);
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // From here on no change is missed.
            changed.as_mut().enable();
            {
                let mut state = self.lock();
                if let Some(polled) = state.ready.pop_front() {
                    drop(state);
                    self.wanted.notify_one();
                    return Ok(polled);
                }
                if state.is_over || state.endings != place.endings {
                    return Err(PollError::Shutdown);
                }
            }
            changed.await;
        }
    }

    /// Waits until more pollers wait than things stand in line.
    pub(super) async fn wanted(&self) {
        loop {
            let wanted = self.wanted.notified();
            {
                let state = self.lock();
                if state.pollers > state.ready.len() {
                    return;
                }
            }
            wanted.await;
        }
    }

    /// Waits until nothing stands in line.
    pub(super) async fn emptied(&self) {
        loop {
            let wanted = self.wanted.notified();
            if self.lock().ready.is_empty() {
                return;
            }
            wanted.await;
        }
    }

    pub(super) fn put(&self, polled: Polled<T>) {
        self.lock().ready.push_back(polled);
        self.changed.notify_waiters();
    }

    /// A handle has ended: whoever waits hears so.
    pub(super) fn ended(&self) {
        self.lock().endings += 1;
        self.changed.notify_waiters();
    }

    pub(super) fn has_pollers(&self) -> bool {
        self.lock().pollers > 0
    }

    /// Nobody promises any more to take what stands in line: it is left behind, and the backend
    /// hands it out again.
    pub(super) fn left(&self) {
        let left = std::mem::take(&mut self.lock().ready);
        drop(left);
        self.wanted.notify_one();
    }

    /// No handle will follow.
    pub(super) fn close(&self) {
        self.lock().is_over = true;
        self.changed.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, LineState<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A poller's place in the line: left however it ends.
struct Place<'a, T> {
    line: &'a Line<T>,
    endings: u64,
}

impl<'a, T> Place<'a, T> {
    fn take(line: &'a Line<T>) -> Self {
        let endings = {
            let mut state = line.lock();
            state.pollers += 1;
            state.endings
        };
        line.wanted.notify_one();
        Self { line, endings }
    }
}

impl<T> Drop for Place<'_, T> {
    fn drop(&mut self) {
        self.line.lock().pollers -= 1;
    }
}
