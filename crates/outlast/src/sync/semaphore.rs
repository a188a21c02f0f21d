//! A number of permits, given out in the order in which they were asked for.

use std::cell::RefCell;
use std::fmt;
use std::future::Future;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context as Wakers, Poll};

use futures_core::FusedFuture;
use outlast_runtime::Wait;

use super::line::Line;
use super::{Place, assert_writable, wait};
use crate::call_error::CallError;
use crate::wait::ended;

/// A number of permits for the branches of one run.
pub struct Semaphore {
    inner: RefCell<Inner>,
}

struct Inner {
    free: usize,
    line: Line<usize>,
}

impl Semaphore {
    /// So many permits.
    pub fn new(permits: usize) -> Self {
        let line = Line::default();
        let inner = RefCell::new(Inner {
            free: permits,
            line,
        });
        Self { inner }
    }

    /// Waits for a permit; dropping it gives it back.
    #[track_caller]
    pub fn acquire(&self) -> Acquire<'_> {
        self.acquire_many(1)
    }

    /// Waits until so many permits are free at once. Those who come later wait behind.
    #[track_caller]
    pub fn acquire_many(&self, permits: usize) -> Acquire<'_> {
        Acquire {
            semaphore: self,
            permits,
            place: Location::caller(),
            stage: Stage::New,
        }
    }

    /// A permit, if one is free and nobody waits for it.
    #[track_caller]
    pub fn try_acquire(&self) -> Option<Permit<'_>> {
        assert_writable("an acquired permit");
        self.take(1)
    }

    /// Adds permits.
    #[track_caller]
    pub fn add(&self, permits: usize) {
        assert_writable("a new permit");
        self.give_back(permits);
    }

    /// How many are free.
    pub fn available(&self) -> usize {
        self.inner.borrow().free
    }

    fn take(&self, permits: usize) -> Option<Permit<'_>> {
        let mut inner = self.inner.borrow_mut();
        if inner.line.first().is_some() || inner.free < permits {
            return None;
        }
        inner.free -= permits;
        Some(self.permit(permits))
    }

    fn permit(&self, permits: usize) -> Permit<'_> {
        Permit {
            semaphore: self,
            permits,
        }
    }

    pub(super) fn give_back(&self, permits: usize) {
        let mut inner = self.inner.borrow_mut();
        inner.free = inner.free.saturating_add(permits);
        drop(inner);
        self.serve();
    }

    /// Lets all go whose turn it is.
    fn serve(&self) {
        let mut inner = self.inner.borrow_mut();
        while let Some(want) = inner.line.first().copied()
            && want <= inner.free
        {
            inner.free -= want;
            inner.line.release_first();
        }
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Semaphore")
            .field("available", &self.available())
            .finish_non_exhaustive()
    }
}

/// A wait for permits.
#[must_use = "futures do nothing unless awaited"]
pub struct Acquire<'a> {
    semaphore: &'a Semaphore,
    permits: usize,
    place: Place,
    stage: Stage,
}

enum Stage {
    New,
    Waiting(Wait),
    Done,
}

impl<'a> Future for Acquire<'a> {
    type Output = Result<Permit<'a>, CallError>;

    fn poll(mut self: Pin<&mut Self>, wakers: &mut Wakers<'_>) -> Poll<Self::Output> {
        if let Stage::New = self.stage {
            if let Some(permit) = self.semaphore.take(self.permits) {
                self.stage = Stage::Done;
                return Poll::Ready(Ok(permit));
            }
            let wait = wait(self.place);
            let line = &mut self.semaphore.inner.borrow_mut().line;
            line.join(self.permits, &wait);
            self.stage = Stage::Waiting(wait);
        }
        let Stage::Waiting(wait) = &mut self.stage else {
            panic!("a permit was asked for after it was given");
        };
        let Poll::Ready(waited) = Pin::new(&mut *wait).poll(wakers) else {
            return Poll::Pending;
        };
        let result = ended(waited, wait);
        self.stage = Stage::Done;
        if result.is_err() {
            // It may have stood in the way of those behind it.
            self.semaphore.serve();
        }
        Poll::Ready(result.map(|()| self.semaphore.permit(self.permits)))
    }
}

impl FusedFuture for Acquire<'_> {
    fn is_terminated(&self) -> bool {
        matches!(self.stage, Stage::Done)
    }
}

impl Drop for Acquire<'_> {
    fn drop(&mut self) {
        match std::mem::replace(&mut self.stage, Stage::Done) {
            Stage::New | Stage::Done => {}
            // Given, and never seen.
            Stage::Waiting(wait) if wait.is_released() => self.semaphore.give_back(self.permits),
            Stage::Waiting(wait) => {
                drop(wait);
                self.semaphore.serve();
            }
        }
    }
}

impl fmt::Debug for Acquire<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acquire")
            .field("permits", &self.permits)
            .finish_non_exhaustive()
    }
}

/// Permits, given back when dropped.
#[must_use = "a permit is given back when dropped"]
#[derive(Debug)]
pub struct Permit<'a> {
    semaphore: &'a Semaphore,
    permits: usize,
}

impl Permit<'_> {
    /// Never gives them back.
    pub fn forget(mut self) {
        self.permits = 0;
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        if self.permits > 0 {
            self.semaphore.give_back(self.permits);
        }
    }
}
