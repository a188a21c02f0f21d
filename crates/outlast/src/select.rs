//! Racing: `outlast::select!` and a durable timeout for any block.
//!
//! `futures::select!` and `tokio::select!` pick at random when several branches are ready, and a
//! replay would pick otherwise. This one goes in the order of declaration.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context as Wakers, Poll};
use std::time::Duration;

use outlast_model::{FailureKind, Resolution, TimeoutKind};
use outlast_runtime::{Context, Operation};

use crate::call_error::CallError;
use crate::failure::FailureTrace;
use crate::trace::Trace;

/// Waits for the first of several futures, in the order of declaration. The syntax is that of
/// `tokio::select!`.
#[macro_export]
macro_rules! select {
    ($($branches:tt)*) => {
        $crate::__private::tokio::select! { biased; $($branches)* }
    };
}

/// Postfix operations on any future inside a workflow.
pub trait DurableExt: Future + Sized {
    /// Gives up after this time: the block is dropped, which cancels what it waits for.
    ///
    /// # Panics
    /// Outside a workflow.
    #[track_caller]
    fn timeout(self, after: Duration) -> Timeout<Self> {
        let Some(ctx) = Context::current() else {
            panic!("`.timeout()` of outlast works only inside a workflow");
        };
        Timeout {
            work: Some(Box::pin(self)),
            timer: Some(ctx.limit(after)),
            after,
        }
    }
}

impl<F: Future> DurableExt for F {}

/// A block with a durable deadline.
#[must_use = "futures do nothing unless awaited"]
pub struct Timeout<F> {
    work: Option<Pin<Box<F>>>,
    timer: Option<Operation>,
    after: Duration,
}

impl<F: Future> Future for Timeout<F> {
    type Output = Result<F::Output, CallError>;

    fn poll(mut self: Pin<&mut Self>, wakers: &mut Wakers<'_>) -> Poll<Self::Output> {
        let Some(work) = &mut self.work else {
            panic!("a timeout was polled after it gave its value");
        };
        if let Poll::Ready(value) = work.as_mut().poll(wakers) {
            self.work = None;
            self.timer = None;
            return Poll::Ready(Ok(value));
        }
        let Some(timer) = &mut self.timer else {
            return Poll::Pending;
        };
        let site = timer.site().to_string();
        let polled = Pin::new(timer).poll(wakers);
        if polled.is_ready() {
            self.timer = None;
        }
        after_a_deadline(&polled, || {
            self.work = None;
            CallError::TimedOut(too_late("not done", self.after, site))
        })
    }
}

/// The timer of a deadline was looked at.
pub(crate) fn after_a_deadline<T>(
    polled: &Poll<Resolution>,
    give_up: impl FnOnce() -> CallError,
) -> Poll<Result<T, CallError>> {
    match polled {
        Poll::Ready(Resolution::Completed(_)) => Poll::Ready(Err(give_up())),
        // Cancelled with its scope: the block learns so itself and may clean up.
        Poll::Ready(Resolution::Failed(..) | Resolution::Canceled(_)) | Poll::Pending => {
            Poll::Pending
        }
    }
}

pub(crate) fn too_late(what: &str, after: Duration, site: String) -> Trace {
    let kind = FailureKind::Timeout {
        kind: TimeoutKind::ScheduleToClose,
        last_heartbeat: None,
    };
    Trace::new(FailureTrace::new(kind, format!("{what} within {after:?}")).at(site))
}

impl<F> fmt::Debug for Timeout<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Timeout({:?})", self.after)
    }
}
