//! What all calls have in common: they can be asked to stop, and say whether they were.
//!
//! A collection of calls of different kinds and results is one of `dyn Cancellable`, or, to await
//! them too, of `dyn CancellableFuture` with the output that they share.

use std::future::Future;

use crate::call::Call;
use crate::failure::IntoFailure;
use crate::task::Task;
use crate::wait::{WaitFor, WaitUntil};

/// Something that can be asked to stop.
pub trait Cancellable {
    /// Asks it to stop and returns at once; awaiting it gives
    /// [`CallError::Cancelled`](crate::CallError::Cancelled) when it has. No effect on one that has
    /// ended.
    #[track_caller]
    fn cancel(&self);

    /// Whether it was asked to stop before it ended: true from the request on.
    fn is_cancelled(&self) -> bool;
}

/// A future that can be asked to stop: a [`Call`] of any kind, a [`Task`], a wait on state.
pub trait CancellableFuture: Future + Cancellable {}

impl<F: Future + Cancellable + ?Sized> CancellableFuture for F {}

impl<T, E: IntoFailure, K> Cancellable for Call<T, E, K> {
    #[track_caller]
    fn cancel(&self) {
        Self::cancel(self);
    }

    fn is_cancelled(&self) -> bool {
        Self::is_cancelled(self)
    }
}

impl<T, E: IntoFailure> Cancellable for Task<T, E> {
    #[track_caller]
    fn cancel(&self) {
        Self::cancel(self);
    }

    fn is_cancelled(&self) -> bool {
        Self::is_cancelled(self)
    }
}

impl Cancellable for WaitUntil {
    #[track_caller]
    fn cancel(&self) {
        Self::cancel(self);
    }

    fn is_cancelled(&self) -> bool {
        Self::is_cancelled(self)
    }
}

impl<T> Cancellable for WaitFor<T> {
    #[track_caller]
    fn cancel(&self) {
        Self::cancel(self);
    }

    fn is_cancelled(&self) -> bool {
        Self::is_cancelled(self)
    }
}

#[cfg(test)]
mod tests;
