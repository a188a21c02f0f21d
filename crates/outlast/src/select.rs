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
            timer: Some(ctx.timer(after)),
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
        let Poll::Ready(resolution) = Pin::new(&mut *timer).poll(wakers) else {
            return Poll::Pending;
        };
        let site = timer.site().to_string();
        self.timer = None;
        match resolution {
            Resolution::Completed(_) => {
                self.work = None;
                Poll::Ready(Err(CallError::TimedOut(too_late(self.after, site))))
            }
            // Cancelled with its scope: the block learns so itself and may clean up.
            Resolution::Failed(..) | Resolution::Canceled(_) => Poll::Pending,
        }
    }
}

fn too_late(after: Duration, site: String) -> Trace {
    let kind = FailureKind::Timeout {
        kind: TimeoutKind::ScheduleToClose,
        last_heartbeat: None,
    };
    Trace::new(FailureTrace::new(kind, format!("not done within {after:?}")).at(site))
}

impl<F> fmt::Debug for Timeout<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Timeout({:?})", self.after)
    }
}
