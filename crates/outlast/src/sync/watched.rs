//! A value that branches wait on: conditions for workflows without a state type.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::panic::Location;
use std::rc::Rc;

use outlast_runtime::Context;

use super::{Place, assert_writable};
use crate::wait::{WaitFor, WaitUntil};

/// A value with conditions on it, for function workflows: what `ctx.with` and `ctx.wait_until`
/// are for a `#[workflow] impl`. All clones are the same value.
pub struct Watched<T> {
    inner: Rc<Inner<T>>,
}

struct Inner<T> {
    value: RefCell<T>,
    borrowed: Cell<Option<Place>>,
}

impl<T: 'static> Watched<T> {
    /// A value.
    pub fn new(value: T) -> Self {
        let inner = Inner {
            value: RefCell::new(value),
            borrowed: Cell::new(None),
        };
        Self {
            inner: Rc::new(inner),
        }
    }

    /// Reads or changes the value. Conditions are tested when everything waits.
    ///
    /// # Panics
    /// Inside another `with` or `read` of the same value: both places are named. Inside a
    /// condition, a query or a validator.
    #[track_caller]
    pub fn with<R>(&self, look: impl FnOnce(&mut T) -> R) -> R {
        assert_writable("a change of a watched value");
        let _borrowed = self.inner.borrow(Location::caller());
        if let Some(ctx) = Context::current() {
            ctx.written();
        }
        look(&mut self.inner.value.borrow_mut())
    }

    /// Looks at the value.
    ///
    /// # Panics
    /// Inside a `with` or `read` of the same value: both places are named.
    #[track_caller]
    pub fn read<R>(&self, look: impl FnOnce(&T) -> R) -> R {
        let _borrowed = self.inner.borrow(Location::caller());
        look(&self.inner.value.borrow())
    }

    /// Waits until the condition holds. It is tested now, and then whenever everything waits and
    /// something was written.
    ///
    /// # Panics
    /// Outside a workflow.
    #[track_caller]
    pub fn wait_until(&self, condition: impl Fn(&T) -> bool + 'static) -> WaitUntil {
        let Some(ctx) = Context::current() else {
            panic!("`wait_until` works only inside a workflow");
        };
        let (watched, place) = (self.clone(), Location::caller());
        let predicate = move |_: &dyn Any| {
            let _borrowed = watched.inner.borrow(place);
            condition(&watched.inner.value.borrow())
        };
        WaitUntil::new(ctx, ctx.wait_until(Box::new(predicate)))
    }

    /// Waits until the closure gives a value, and gives it.
    ///
    /// # Panics
    /// Outside a workflow.
    #[track_caller]
    pub fn wait_for<V: 'static>(&self, look: impl Fn(&T) -> Option<V> + 'static) -> WaitFor<V> {
        let Some(ctx) = Context::current() else {
            panic!("`wait_for` works only inside a workflow");
        };
        let (watched, place) = (self.clone(), Location::caller());
        WaitFor::new(ctx, move |_| {
            let _borrowed = watched.inner.borrow(place);
            look(&watched.inner.value.borrow())
        })
    }
}

impl<T> Inner<T> {
    fn borrow(&self, here: Place) -> Borrowed<'_> {
        if let Some(there) = self.borrowed.get() {
            panic!(
                "the watched value is borrowed at {here} inside a borrow at {there}: finish the \
                 first closure before you start the second"
            );
        }
        self.borrowed.set(Some(here));
        Borrowed(&self.borrowed)
    }
}

/// Says that a value is borrowed, until it is dropped.
struct Borrowed<'a>(&'a Cell<Option<Place>>);

impl Drop for Borrowed<'_> {
    fn drop(&mut self) {
        self.0.set(None);
    }
}

impl<T> Clone for Watched<T> {
    fn clone(&self) -> Self {
        Self {
            inner: Rc::clone(&self.inner),
        }
    }
}

impl<T> fmt::Debug for Watched<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Watched")
    }
}
