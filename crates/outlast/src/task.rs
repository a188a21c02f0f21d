//! A branch of a workflow that runs beside the others.

use std::cell::RefCell;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context as Wakers, Poll, Waker};

use futures_core::FusedFuture;
use outlast_runtime::{Branch, Context};

/// A spawned branch. Awaiting gives its value, dropping the handle cancels it.
#[must_use = "a task is cancelled when its handle is dropped: `.await` it, or `.detach()`"]
pub struct Task<T> {
    branch: Branch,
    slot: Rc<RefCell<Slot<T>>>,
    is_detached: bool,
}

/// Where the branch leaves its value.
enum Slot<T> {
    Running(Option<Waker>),
    Finished(T),
    Taken,
}

impl<T: 'static> Task<T> {
    #[track_caller]
    pub(crate) fn spawn(ctx: Context, work: impl Future<Output = T> + 'static) -> Self {
        let slot = Rc::new(RefCell::new(Slot::Running(None)));
        let filled = Rc::clone(&slot);
        let branch = ctx.spawn(Box::pin(async move {
            let value = work.await;
            let before = filled.replace(Slot::Finished(value));
            if let Slot::Running(Some(waker)) = before {
                waker.wake();
            }
        }));
        Self {
            branch,
            slot,
            is_detached: false,
        }
    }
}

impl<T> Task<T> {
    /// Asks the branch to stop: what it waits for resolves as cancelled, clean-up may follow.
    pub fn cancel(&self) {
        self.branch.cancel();
    }

    /// Whether it was asked to stop.
    pub fn is_cancelled(&self) -> bool {
        self.branch.is_cancelled()
    }

    /// Lets it go on with nobody waiting for it.
    pub fn detach(mut self) {
        self.is_detached = true;
    }
}

impl<T> Future for Task<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, wakers: &mut Wakers<'_>) -> Poll<T> {
        let mut slot = self.slot.borrow_mut();
        match std::mem::replace(&mut *slot, Slot::Taken) {
            Slot::Finished(value) => Poll::Ready(value),
            Slot::Running(_) => {
                *slot = Slot::Running(Some(wakers.waker().clone()));
                Poll::Pending
            }
            Slot::Taken => panic!("a task was polled after it gave its value"),
        }
    }
}

impl<T> FusedFuture for Task<T> {
    fn is_terminated(&self) -> bool {
        matches!(*self.slot.borrow(), Slot::Taken)
    }
}

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        if !self.is_detached && matches!(*self.slot.borrow(), Slot::Running(_)) {
            self.branch.cancel();
        }
    }
}

impl<T> fmt::Debug for Task<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Task")
    }
}
