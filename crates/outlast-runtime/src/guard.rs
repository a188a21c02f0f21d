//! The read-only guard: code that looks at a run and must not change it.
//!
//! Conditions, queries and validators are not recorded, so a command, a drawn random number or a
//! write of state in one of them could not be repeated. Inside the guard each of these panics
//! with the line that tried; the guard catches it, and the code's own result is the error:
//! nothing else of the run is touched.

use std::fmt;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::rc::Rc;

use outlast_model::Failure;

use crate::panic;
use crate::shared::{Place, Shared};

/// Who only reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    /// A condition somebody waits for.
    Condition,
    /// A query.
    Query,
    /// The validator of an update.
    Validator,
}

impl fmt::Display for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Condition => "a condition",
            Self::Query => "a query",
            Self::Validator => "a validator",
        })
    }
}

impl Shared {
    /// Runs code that only reads.
    ///
    /// # Errors
    /// It panicked, or tried to change something.
    pub(crate) fn read_only<R>(
        self: &Rc<Self>,
        reader: Reader,
        look: impl FnOnce() -> R,
    ) -> Result<R, Failure> {
        let _guard = Guard::new(self, reader);
        guarded(look)
    }

    /// For everything that changes a run.
    ///
    /// # Panics
    /// Under a read-only guard.
    #[track_caller]
    pub(crate) fn assert_writable(&self, what: &str) {
        self.assert_writable_at(what, Location::caller());
    }

    /// For a change that was asked for at this place.
    pub(crate) fn assert_writable_at(&self, what: &str, place: Place) {
        if let Some(reader) = self.reader.get() {
            panic!(
                "{what} at {place} was made in {reader}, which may only read: do it in main, a branch or a handler"
            );
        }
    }
}

/// What guarded code returns, or its panic.
pub(crate) fn guarded<R>(look: impl FnOnce() -> R) -> Result<R, Failure> {
    catch_unwind(AssertUnwindSafe(look)).map_err(|payload| Failure::panic(panic::text(payload)))
}

/// Keeps the guard up until it is dropped.
pub(crate) struct Guard {
    shared: Rc<Shared>,
    before: Option<Reader>,
}

impl Guard {
    pub(crate) fn new(shared: &Rc<Shared>, reader: Reader) -> Self {
        Self {
            shared: Rc::clone(shared),
            before: shared.reader.replace(Some(reader)),
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.shared.reader.set(self.before);
    }
}
