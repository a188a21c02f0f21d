//! Waiting for something inside the run: conditions on state.
//!
//! A condition is tested when it is registered, and then whenever everything waits and state was
//! written. Whoever awaits it directly finds it true. A wait for a value takes the value in the
//! very test that finds it.

use std::any::Any;
use std::cell::RefCell;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context as Wakers, Poll};
use std::time::Duration;

use futures_core::FusedFuture;
use outlast_runtime::{Context, Operation, Wait, Waited};

use crate::call_error::CallError;
use crate::failure::FailureTrace;
use crate::select::{after_a_deadline, too_late};
use crate::task::observe;

/// A wait for a condition: `ctx.wait_until(|state| ..)`.
#[must_use = "futures do nothing unless awaited"]
pub struct WaitUntil {
    ctx: Context,
    wait: Wait,
    deadline: Option<(Operation, Duration)>,
    is_shielded: bool,
}

impl WaitUntil {
    pub(crate) fn new(ctx: Context, wait: Wait) -> Self {
        Self {
            ctx,
            wait,
            deadline: None,
            is_shielded: false,
        }
    }

    /// Gives up after this time, with [`CallError::TimedOut`].
    #[track_caller]
    pub fn timeout(mut self, after: Duration) -> Self {
        let timer = self.ctx.timer(after);
        let timer = if self.is_shielded {
            timer.shielded()
        } else {
            timer
        };
        self.deadline = Some((timer, after));
        self
    }

    /// Out of reach of cancellation of the workflow or of the branch.
    pub fn shielded(mut self) -> Self {
        self.is_shielded = true;
        self.wait = self.wait.shielded();
        self.deadline = self
            .deadline
            .map(|(timer, after)| (timer.shielded(), after));
        self
    }

    /// Ends the wait, with [`CallError::Cancelled`]. No effect if it has ended.
    #[track_caller]
    pub fn cancel(&self) {
        self.wait.cancel();
    }

    /// Whether it was cancelled before the condition held.
    pub fn is_cancelled(&self) -> bool {
        self.wait.is_cancelled()
    }
}

impl Future for WaitUntil {
    type Output = Result<(), CallError>;

    fn poll(mut self: Pin<&mut Self>, wakers: &mut Wakers<'_>) -> Poll<Self::Output> {
        if let Poll::Ready(waited) = Pin::new(&mut self.wait).poll(wakers) {
            self.deadline = None;
            return Poll::Ready(ended(waited, &self.wait));
        }
        let Some((timer, after)) = &mut self.deadline else {
            return Poll::Pending;
        };
        let after = *after;
        let polled = Pin::new(timer).poll(wakers);
        if polled.is_ready() {
            self.deadline = None;
        }
        after_a_deadline(&polled, || {
            let site = self.wait.site().to_string();
            self.wait.cancel();
            CallError::TimedOut(too_late("the condition did not hold", after, site))
        })
    }
}

/// What a caller sees of a wait that ended.
pub(crate) fn ended(waited: Waited, wait: &Wait) -> Result<(), CallError> {
    match waited {
        Waited::Released => Ok(()),
        Waited::Canceled => {
            let site = wait.site().to_string();
            Err(observe::<crate::Error>(
                FailureTrace::canceled("the wait was cancelled").at(site),
            ))
        }
        Waited::Panicked(failure) => Err(observe::<crate::Error>(failure)),
    }
}

/// A wait for a value: `ctx.wait_for(|state| ..)`.
#[must_use = "futures do nothing unless awaited"]
pub struct WaitFor<T> {
    until: WaitUntil,
    found: Rc<RefCell<Option<T>>>,
}

impl<T: 'static> WaitFor<T> {
    #[track_caller]
    pub(crate) fn new(ctx: Context, look: impl Fn(&dyn Any) -> Option<T> + 'static) -> Self {
        let found = Rc::new(RefCell::new(None));
        let slot = Rc::clone(&found);
        let predicate = move |state: &dyn Any| {
            let value = look(state);
            let is_there = value.is_some();
            *slot.borrow_mut() = value;
            is_there
        };
        let until = WaitUntil::new(ctx, ctx.wait_until(Box::new(predicate)));
        Self { until, found }
    }
}

impl<T> WaitFor<T> {
    /// Gives up after this time, with [`CallError::TimedOut`].
    #[track_caller]
    pub fn timeout(mut self, after: Duration) -> Self {
        self.until = self.until.timeout(after);
        self
    }

    /// Out of reach of cancellation of the workflow or of the branch.
    pub fn shielded(mut self) -> Self {
        self.until = self.until.shielded();
        self
    }

    /// Ends the wait, with [`CallError::Cancelled`]. No effect if it has ended.
    #[track_caller]
    pub fn cancel(&self) {
        self.until.cancel();
    }

    /// Whether it was cancelled before there was a value.
    pub fn is_cancelled(&self) -> bool {
        self.until.is_cancelled()
    }
}

impl<T> Unpin for WaitFor<T> {}

impl<T> Future for WaitFor<T> {
    type Output = Result<T, CallError>;

    fn poll(mut self: Pin<&mut Self>, wakers: &mut Wakers<'_>) -> Poll<Self::Output> {
        let polled = Pin::new(&mut self.until).poll(wakers);
        polled.map_ok(|()| {
            let found = self.found.take();
            found.expect("a wait that was released has its value")
        })
    }
}

impl<T> FusedFuture for WaitFor<T> {
    fn is_terminated(&self) -> bool {
        self.until.is_terminated()
    }
}

impl<T> fmt::Debug for WaitFor<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WaitFor").field(&self.until.wait).finish()
    }
}

impl FusedFuture for WaitUntil {
    fn is_terminated(&self) -> bool {
        self.wait.is_terminated()
    }
}

impl fmt::Debug for WaitUntil {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WaitUntil").field(&self.wait).finish()
    }
}

#[cfg(test)]
mod tests;
