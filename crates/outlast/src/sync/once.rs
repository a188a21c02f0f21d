//! A cell that is written once, and those who wait for it.

use std::cell::RefCell;
use std::fmt;
use std::future::Future;
use std::panic::Location;
use std::rc::Rc;

use super::line::Line;
use super::{assert_writable, wait};
use crate::call_error::CallError;
use crate::wait::ended;

/// A cell that is written once. All clones are the same cell.
pub struct WriteOnce<T> {
    inner: Rc<RefCell<Inner<T>>>,
}

struct Inner<T> {
    value: Option<T>,
    line: Line<()>,
}

impl<T> WriteOnce<T> {
    /// An empty cell.
    pub fn new() -> Self {
        let inner = Inner {
            value: None,
            line: Line::default(),
        };
        Self {
            inner: Rc::new(RefCell::new(inner)),
        }
    }

    /// Writes the cell and lets all who wait go. A second value is ignored: the answer is
    /// whether this one counts.
    #[track_caller]
    pub fn put(&self, value: T) -> bool {
        assert_writable("a put");
        let mut inner = self.inner.borrow_mut();
        let ignored = match &inner.value {
            Some(_) => Some(value),
            None => inner.value.replace(value),
        };
        while inner.line.release_first() {}
        drop(inner);
        // Only now: what it owns may come back here.
        ignored.is_none()
    }

    /// Whether it is written.
    pub fn is_written(&self) -> bool {
        self.inner.borrow().value.is_some()
    }
}

impl<T: Clone> WriteOnce<T> {
    /// What is written, without waiting.
    pub fn try_read(&self) -> Option<T> {
        self.inner.borrow().value.clone()
    }

    /// Waits until it is written.
    #[track_caller]
    pub fn wait(&self) -> impl Future<Output = Result<T, CallError>> + use<T> {
        let (cell, place) = (self.clone(), Location::caller());
        async move {
            loop {
                if let Some(value) = cell.try_read() {
                    return Ok(value);
                }
                let mut wait = wait(place);
                cell.inner.borrow_mut().line.join((), &wait);
                let waited = (&mut wait).await;
                ended(waited, &wait)?;
            }
        }
    }
}

impl<T> Default for WriteOnce<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Clone for WriteOnce<T> {
    fn clone(&self) -> Self {
        Self {
            inner: Rc::clone(&self.inner),
        }
    }
}

impl<T> fmt::Debug for WriteOnce<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriteOnce")
            .field("is_written", &self.is_written())
            .finish_non_exhaustive()
    }
}
