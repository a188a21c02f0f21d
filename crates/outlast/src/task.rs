//! A branch of a workflow that runs beside the others.
//!
//! Branches are structured: one that fails fails the scope it was spawned in, unless it is
//! supervised, and one whose handle is dropped is cancelled, unless it is detached.

use std::cell::RefCell;
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context as Wakers, Poll, Waker};

use futures_core::FusedFuture;
use outlast_runtime::{Branch, Context};

use crate::call_error::CallError;
use crate::continuing::failure_of;
use crate::error::Error;
use crate::failure::{FailureTrace, IntoFailure};
use crate::trace::Trace;

/// What a branch or a scope may return: nothing, or a `Result`.
#[diagnostic::on_unimplemented(
    message = "a branch returns nothing or a `Result`, but this one returns `{Self}`",
    label = "wrap the value: `outlast::Ok(..)`"
)]
pub trait Ending: 'static {
    /// What it gives.
    type Value: 'static;
    /// How it fails.
    type Error: IntoFailure;

    /// The `Result` it is.
    ///
    /// # Errors
    /// The error it holds.
    fn into_result(self) -> Result<Self::Value, Self::Error>;
}

impl Ending for () {
    type Value = ();
    type Error = Error;

    fn into_result(self) -> Result<(), Error> {
        Ok(())
    }
}

impl<T: 'static, E: IntoFailure> Ending for Result<T, E> {
    type Value = T;
    type Error = E;

    fn into_result(self) -> Self {
        self
    }
}

/// A spawned branch. Awaiting gives its result, dropping the handle cancels it.
#[must_use = "a task is cancelled when its handle is dropped: `.await` it, or `.detach()`"]
pub struct Task<T, E: IntoFailure = Error> {
    branch: Branch,
    slot: SharedSlot<T>,
    is_detached: bool,
    error: PhantomData<fn() -> E>,
}

pub(crate) type SharedSlot<T> = Rc<RefCell<Slot<T>>>;

/// Where the branch leaves its result.
pub(crate) enum Slot<T> {
    Running(Option<Waker>),
    Ended(Result<T, FailureTrace>),
    Taken,
}

/// What is to be spawned, and the slot where its result will be.
pub(crate) fn prepare<R: Ending>(
    ctx: Context,
    work: impl Future<Output = R> + 'static,
) -> (
    impl Future<Output = Result<(), FailureTrace>> + 'static,
    SharedSlot<R::Value>,
) {
    let slot = Rc::new(RefCell::new(Slot::Running(None)));
    let filler = Filler(Rc::clone(&slot));
    let branch = async move {
        let result = work.await.into_result();
        let result = result.map_err(|error| failure_of(ctx, error, "a branch"));
        // A branch it spawned has failed: so has it, whatever it made of that.
        let result = ctx.scope_failure().map_or(result, Err);
        let told = result.as_ref().map(drop).map_err(Clone::clone);
        filler.fill(result);
        told
    };
    (branch, slot)
}

impl<T, E: IntoFailure> Task<T, E> {
    pub(crate) fn new(branch: Branch, slot: SharedSlot<T>) -> Self {
        Self {
            branch,
            slot,
            is_detached: false,
            error: PhantomData,
        }
    }

    /// Its failure is seen by whoever awaits it, and by nobody else: the scope it was spawned in
    /// goes on.
    pub fn supervised(mut self) -> Self {
        self.branch = self.branch.clone().supervised();
        self
    }

    /// Asks the branch to stop: what it waits for resolves as cancelled, clean-up may follow.
    #[track_caller]
    pub fn cancel(&self) {
        self.branch.cancel();
    }

    /// Whether it was asked to stop.
    pub fn is_cancelled(&self) -> bool {
        self.branch.is_cancelled()
    }

    /// Whether it has ended.
    pub fn is_finished(&self) -> bool {
        !matches!(*self.slot.borrow(), Slot::Running(_))
    }

    /// Lets it go on with nobody waiting for it but the scope it was spawned in.
    pub fn detach(mut self) {
        self.is_detached = true;
        self.branch.leave();
    }
}

impl<T, E: IntoFailure> Unpin for Task<T, E> {}

impl<T, E: IntoFailure> Future for Task<T, E> {
    type Output = Result<T, CallError<E::Seen>>;

    fn poll(self: Pin<&mut Self>, wakers: &mut Wakers<'_>) -> Poll<Self::Output> {
        let mut slot = self.slot.borrow_mut();
        match std::mem::replace(&mut *slot, Slot::Taken) {
            Slot::Ended(result) => Poll::Ready(result.map_err(observe::<E>)),
            Slot::Running(_) if self.branch.is_out_of_reach() => {
                Poll::Ready(Err(CallError::cancelled("the run is over")))
            }
            Slot::Running(_) => {
                *slot = Slot::Running(Some(wakers.waker().clone()));
                Poll::Pending
            }
            Slot::Taken => panic!("a task was polled after it gave its result"),
        }
    }
}

/// The failure of a branch or of a scope, as its caller sees it.
pub(crate) fn observe<E: IntoFailure>(failure: FailureTrace) -> CallError<E::Seen> {
    CallError::observe::<E>(Trace::new(failure))
}

impl<T, E: IntoFailure> FusedFuture for Task<T, E> {
    fn is_terminated(&self) -> bool {
        matches!(*self.slot.borrow(), Slot::Taken)
    }
}

impl<T, E: IntoFailure> Drop for Task<T, E> {
    fn drop(&mut self) {
        if !self.is_detached && matches!(*self.slot.borrow(), Slot::Running(_)) {
            self.branch.abandon();
        }
    }
}

impl<T, E: IntoFailure> fmt::Debug for Task<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task")
            .field("is_finished", &self.is_finished())
            .field("is_cancelled", &self.is_cancelled())
            .finish_non_exhaustive()
    }
}

/// Fills the slot; a branch that is dropped half-way was cancelled.
struct Filler<T>(SharedSlot<T>);

impl<T> Filler<T> {
    fn fill(&self, result: Result<T, FailureTrace>) {
        let before = self.0.replace(Slot::Ended(result));
        if let Slot::Running(Some(waker)) = before {
            waker.wake();
        }
    }
}

impl<T> Drop for Filler<T> {
    fn drop(&mut self) {
        if matches!(*self.0.borrow(), Slot::Running(_)) {
            let message = "the branch was dropped when main had returned";
            self.fill(Err(FailureTrace::canceled(message)));
        }
    }
}
