//! Tasks that an activity started beside itself: they end with its attempt.
//!
//! Before the outcome of the attempt counts, they are dropped and waited for; one that does not
//! yield is left to the watchdog, like an attempt that does not.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use outlast_model::Failure;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::running::panicked;

/// The children of one attempt.
#[derive(Default)]
pub(crate) struct Children {
    /// Most attempts have none: they are asked for no lock.
    has_some: AtomicBool,
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

impl Children {
    /// Starts one.
    pub(crate) fn spawn<T: Send + 'static>(
        &self,
        runtime: &tokio::runtime::Handle,
        work: impl Future<Output = T> + Send + 'static,
        on_panic: impl FnOnce(&Failure) + Send + 'static,
    ) -> Child<T> {
        let (sender, outcome) = oneshot::channel();
        let mut work = Box::pin(work);
        let guarded = std::future::poll_fn(move |cx| {
            catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(cx))).map_or_else(
                |panic| Poll::Ready(Err(panicked(panic))),
                |poll| poll.map(Ok),
            )
        });
        let task = runtime.spawn(async move {
            let outcome = guarded.await;
            if let Err(failure) = &outcome {
                on_panic(failure);
            }
            // Whoever asked for it may not wait for it.
            drop(sender.send(outcome));
        });
        let abort = task.abort_handle();
        let mut tasks = self.lock();
        tasks.retain(|task| !task.is_finished());
        tasks.push(task);
        self.has_some.store(true, Ordering::Release);
        Child { outcome, abort }
    }

    /// Whether there ever was one.
    pub(crate) fn has_some(&self) -> bool {
        self.has_some.load(Ordering::Acquire)
    }

    /// Drops all of them and waits; returns those that did not end in time.
    pub(crate) async fn end(&self, patience: Duration) -> Vec<JoinHandle<()>> {
        let mut tasks: Vec<JoinHandle<()>> = std::mem::take(&mut *self.lock());
        tasks.iter().for_each(JoinHandle::abort);
        let all = async {
            for task in &mut tasks {
                // How it ended is its own affair.
                drop(task.await);
            }
        };
        if tokio::time::timeout(patience, all).await.is_ok() {
            return Vec::new();
        }
        tasks.retain(|task| !task.is_finished());
        tasks
    }

    fn lock(&self) -> MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A task beside an activity. Dropping this does not stop it; it ends with the attempt at latest.
#[derive(Debug)]
pub struct Child<T> {
    outcome: oneshot::Receiver<Result<T, Failure>>,
    abort: tokio::task::AbortHandle,
}

impl<T: Send + 'static> Child<T> {
    /// A task of no attempt: in a unit test nobody ends it.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn alone(work: impl Future<Output = T> + Send + 'static) -> Self {
        let runtime = tokio::runtime::Handle::current();
        Children::default().spawn(&runtime, work, |_| ())
    }
}

impl<T> Child<T> {
    /// Drops it at its next await.
    pub fn abort(&self) {
        self.abort.abort();
    }

    /// Whether it has ended.
    pub fn is_finished(&self) -> bool {
        self.abort.is_finished()
    }
}

impl<T> Future for Child<T> {
    /// What it gave, or the panic that ended it; a cancellation if it was dropped.
    type Output = Result<T, Failure>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.outcome).poll(cx).map(|outcome| {
            outcome.unwrap_or_else(|_| Err(Failure::canceled("the task was dropped")))
        })
    }
}
