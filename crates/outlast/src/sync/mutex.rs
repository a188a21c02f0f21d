//! A value that one branch holds at a time, across awaits.

use std::cell::{RefCell, RefMut};
use std::fmt;
use std::future::Future;
use std::ops::{Deref, DerefMut};

use super::semaphore::{Permit, Semaphore};
use crate::call_error::CallError;

/// A value that one branch of a run holds at a time. For a change without an await no lock is
/// needed: nothing runs in between.
pub struct Mutex<T> {
    permits: Semaphore,
    value: RefCell<T>,
}

impl<T> Mutex<T> {
    /// Nobody holds it.
    pub fn new(value: T) -> Self {
        Self {
            permits: Semaphore::new(1),
            value: RefCell::new(value),
        }
    }

    /// Waits until nobody holds it.
    #[track_caller]
    pub fn lock(&self) -> impl Future<Output = Result<MutexGuard<'_, T>, CallError>> {
        let acquire = self.permits.acquire();
        async move { Ok(self.guard(acquire.await?)) }
    }

    /// The value, if nobody holds it or waits for it.
    #[track_caller]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.permits.try_acquire().map(|permit| self.guard(permit))
    }

    /// The value.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }

    fn guard<'a>(&'a self, permit: Permit<'a>) -> MutexGuard<'a, T> {
        let value = self.value.borrow_mut();
        MutexGuard {
            value,
            _permit: permit,
        }
    }
}

impl<T> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mutex")
            .field("is_locked", &(self.permits.available() == 0))
            .finish_non_exhaustive()
    }
}

/// The value of a [`Mutex`], until it is dropped.
#[must_use = "the lock is given back when dropped"]
#[derive(Debug)]
pub struct MutexGuard<'a, T> {
    // First: it must be back when the next one gets the permit.
    value: RefMut<'a, T>,
    _permit: Permit<'a>,
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}
