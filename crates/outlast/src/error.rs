//! What your code raises: one error type that takes any other through `?`.
//!
//! Raising and observing are different things, hence two types: [`Error`] here, and
//! [`CallError`](crate::CallError) for callers. `Error` is not a standard error itself: the
//! conversion that takes every error could not exist beside `From<T> for T`.

use std::any::type_name;
use std::error::Error as StdError;
use std::fmt;
use std::panic::Location;

use outlast_model::{FailureKind, limits};

use crate::answer::Later;
use crate::continuing::Continuation;
use crate::failure::{Failure, FailureTrace, IntoFailure, Opaque, typed};
use crate::trace::Trace;

/// `Result` with [`Error`] unless another error is named.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What bodies of activities and workflows return: any error, with the line that raised it.
pub struct Error {
    trace: Trace,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

impl<E: Into<Box<dyn StdError + Send + Sync>>> From<E> for Error {
    #[track_caller]
    fn from(error: E) -> Self {
        let place = Location::caller();
        let source = error.into();
        let mut failure = describe(&*source, stable_name(type_name::<E>()), 1);
        if failure.trace.is_none() {
            failure = failure.at(format!("{}:{}", place.file(), place.line()));
        }
        Self {
            trace: Trace::new(failure),
            source: Some(source),
        }
    }
}

impl Error {
    /// An error that is only a text.
    #[track_caller]
    pub fn msg(message: impl fmt::Display) -> Self {
        Self::from(message.to_string())
    }

    /// Keeps the type of a [`Failure`] (its details and its retry rule) in an untyped error.
    #[track_caller]
    pub fn typed<F: Failure>(failure: F) -> Self {
        let place = Location::caller();
        let stored = typed(&failure).at(format!("{}:{}", place.file(), place.line()));
        Self {
            trace: Trace::new(stored),
            source: Some(Box::new(failure)),
        }
    }

    /// Marks it as not worth a retry.
    #[must_use]
    pub fn terminal(mut self) -> Self {
        let mut failure = self.trace.to_failure();
        if let FailureKind::Application { non_retryable, .. } = &mut failure.kind {
            *non_retryable = true;
        } else {
            failure = raised(failure, true);
        }
        self.trace = Trace::new(failure);
        self
    }

    /// Whether it is, or was caused by, a cancellation.
    pub fn is_cancelled(&self) -> bool {
        self.trace.failure().is_canceled()
    }

    /// Whether it is, or was caused by, a clock that ran out.
    pub fn is_timeout(&self) -> bool {
        self.trace
            .failure()
            .chain()
            .any(|link| matches!(link.kind, FailureKind::Timeout { .. }))
    }

    /// Reads a typed failure back, wherever in the chain it is.
    pub fn find<F: Failure>(&self) -> Option<F> {
        self.trace.find()
    }

    /// The chain of failures.
    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    /// The error it was made from, if it has this type.
    pub fn downcast_ref<E: StdError + 'static>(&self) -> Option<&E> {
        self.source.as_ref()?.downcast_ref()
    }
}

/// A failure as raised by user code: whatever it is, it counts as an application's.
pub(crate) fn raised(failure: FailureTrace, non_retryable: bool) -> FailureTrace {
    let kind = FailureKind::Application {
        type_name: String::new(),
        non_retryable,
        details: None,
        next_retry_delay: None,
    };
    let message = failure.message.clone();
    FailureTrace::new(kind, message).caused_by(failure)
}

/// The chain of an error's sources; where one of them is a [`Trace`], the chain it stands for.
fn describe(error: &(dyn StdError + 'static), name: &str, links: usize) -> FailureTrace {
    if let Some(trace) = error.downcast_ref::<Trace>() {
        return trace.to_failure();
    }
    let source = error.source();
    if let Some(trace) = source.and_then(|source| source.downcast_ref::<Trace>()) {
        return trace.to_failure();
    }
    let failure = FailureTrace::application(name, error.to_string());
    match source {
        Some(source) if links < limits::FAILURE_CAUSES => {
            failure.caused_by(describe(source, "", links + 1))
        }
        Some(_) | None => failure,
    }
}

/// Texts and boxes have no type worth storing.
fn stable_name(name: &'static str) -> &'static str {
    if name.contains("dyn ") || name.contains("str") && name.starts_with('&') {
        return "";
    }
    if name == type_name::<String>() {
        ""
    } else {
        name
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.trace, f)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.trace.summary())
    }
}

impl IntoFailure for Error {
    type Seen = Opaque;

    fn into_failure(self) -> FailureTrace {
        self.trace.to_failure()
    }

    fn see(failure: &FailureTrace) -> Option<Opaque> {
        Some(Opaque(failure.to_string()))
    }

    fn continuation(&self) -> Option<&Continuation> {
        self.downcast_ref()
    }

    fn is_later(&self) -> bool {
        self.downcast_ref::<Later>().is_some()
    }
}

/// `.terminal()?` marks any error as not worth a retry.
pub trait ResultExt<T> {
    /// The same result, its error marked as not worth a retry.
    ///
    /// # Errors
    /// The error it had.
    fn terminal(self) -> Result<T>;
}

impl<T, E: Into<Error>> ResultExt<T> for std::result::Result<T, E> {
    #[track_caller]
    fn terminal(self) -> Result<T> {
        match self {
            Ok(value) => Ok(value),
            // Not `map_err`: a closure would be the place that raised it.
            Err(error) => Err(error.into().terminal()),
        }
    }
}

#[cfg(test)]
mod tests;
