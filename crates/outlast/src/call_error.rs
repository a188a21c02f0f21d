//! What a caller observes: one variant per remedy.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;

use outlast_model::failure::type_name;
use outlast_model::{FailureKind, Refusal};

use crate::failure::{Failure, FailureTrace, IntoFailure, Opaque};
use crate::trace::Trace;

/// The type name of a result that did not serialise.
pub(crate) const ENCODE: &str = type_name::ENCODE;

/// Why a durable call did not give its result. `E` is the error type in the callee's signature,
/// or [`Opaque`] if that is the untyped [`Error`](crate::Error).
#[derive(Clone)]
#[non_exhaustive]
pub enum CallError<E = Opaque> {
    /// The callee returned this error.
    Failed(E, Trace),
    /// It was asked to stop, and did.
    Cancelled(Trace),
    /// A clock ran out.
    TimedOut(Trace),
    /// The callee panicked.
    Panicked(Trace),
    /// No worker has the callee.
    NotRegistered(Trace),
    /// An operator ended the run.
    Terminated(Trace),
    /// The update was turned away, by its validator or because nobody handles it; nothing of it
    /// was recorded. [`CallError::find`] reads a typed reason.
    Rejected(Trace),
    /// The run ended before the update that it had accepted.
    RunFinished(Trace),
    /// The child's id is taken: choose another one.
    AlreadyExists(Trace),
    /// There is no open run to send this to.
    NotFound(Trace),
    /// The request was not carried out; the refusal has a code and the way out.
    Refused(Refusal),
    /// Something no signature names: a value that does not encode, decode or fit, a process
    /// that was lost, an error of another version of the code.
    Other(Trace),
}

impl<E> CallError<E> {
    /// Sorts a failure by what the caller can do about it. `F` is the callee's error type.
    pub(crate) fn observe<F: IntoFailure<Seen = E>>(trace: Trace) -> Self {
        let root = trace.root();
        match &root.kind {
            FailureKind::Canceled { .. } => Self::Cancelled(trace),
            FailureKind::Timeout { .. } => Self::TimedOut(trace),
            FailureKind::Terminated => Self::Terminated(trace),
            FailureKind::Server { .. }
            | FailureKind::Activity { .. }
            | FailureKind::Child { .. } => Self::Other(trace),
            FailureKind::Application { type_name, .. } => match type_name.as_str() {
                type_name::PANIC => Self::Panicked(trace),
                type_name::NOT_REGISTERED => Self::NotRegistered(trace),
                type_name::RUN_FINISHED => Self::RunFinished(trace),
                type_name::ALREADY_EXISTS => Self::AlreadyExists(trace),
                type_name::NOT_FOUND => Self::NotFound(trace),
                type_name::WORKER_LOST | type_name::DECODE | type_name::TOO_LARGE | ENCODE => {
                    Self::Other(trace)
                }
                _ => match F::see(root) {
                    Some(error) => Self::Failed(error, trace),
                    None => Self::Other(trace),
                },
            },
        }
    }

    pub(crate) fn cancelled(message: &str) -> Self {
        Self::Cancelled(Trace::new(FailureTrace::canceled(message)))
    }

    /// The chain of failures.
    pub fn trace(&self) -> Cow<'_, Trace> {
        match self.stored() {
            Some(trace) => Cow::Borrowed(trace),
            None => Cow::Owned(Trace::new(FailureTrace::application("", self.to_string()))),
        }
    }

    fn stored(&self) -> Option<&Trace> {
        self.known().ok()
    }

    /// What is known: how the call ended, or why it was never made.
    fn known(&self) -> Result<&Trace, &Refusal> {
        match self {
            Self::Failed(_, trace)
            | Self::Cancelled(trace)
            | Self::TimedOut(trace)
            | Self::Panicked(trace)
            | Self::NotRegistered(trace)
            | Self::Terminated(trace)
            | Self::Rejected(trace)
            | Self::RunFinished(trace)
            | Self::AlreadyExists(trace)
            | Self::NotFound(trace)
            | Self::Other(trace) => Ok(trace),
            Self::Refused(refusal) => Err(refusal),
        }
    }

    /// Whether it was asked to stop.
    pub fn is_cancelled(&self) -> bool {
        matches!(self, Self::Cancelled(_))
    }

    /// Whether a clock ran out.
    pub fn is_timeout(&self) -> bool {
        matches!(self, Self::TimedOut(_))
    }

    /// A stable code for programs and for the manual.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Failed(..) => "OL-4201",
            Self::Cancelled(_) => "OL-4202",
            Self::TimedOut(_) => "OL-4203",
            Self::Panicked(_) => "OL-4204",
            Self::NotRegistered(_) => "OL-4205",
            Self::Terminated(_) => "OL-4206",
            Self::Rejected(_) => "OL-4207",
            Self::RunFinished(_) => "OL-4208",
            Self::AlreadyExists(_) => "OL-4209",
            Self::NotFound(_) => "OL-4210",
            Self::Other(_) => "OL-4211",
            Self::Refused(refusal) => refusal.code(),
        }
    }

    /// Why the request was refused, if it was.
    pub fn refusal(&self) -> Option<&Refusal> {
        self.known().err()
    }

    /// Reads a typed failure back, wherever in the chain it is: across workflows, too.
    pub fn find<F: Failure>(&self) -> Option<F> {
        self.stored()?.find()
    }
}

impl<E> fmt::Display for CallError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.known() {
            Ok(trace) => f.write_str(&trace.summary()),
            Err(refusal) => write!(f, "{refusal} [{}]", refusal.code()),
        }
    }
}

/// A program that gives up prints this: the code, and everything that is known.
impl<E> fmt::Debug for CallError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let code = self.code();
        match self.known() {
            Ok(trace) => write!(f, "{code}: {trace}"),
            Err(refusal) => write!(f, "{code}: {refusal}"),
        }
    }
}

impl<E> StdError for CallError<E> {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.stored().map(|trace| trace as _)
    }
}

/// A branch may return what its own calls gave it.
impl IntoFailure for CallError {
    type Seen = Opaque;

    fn into_failure(self) -> FailureTrace {
        self.trace().to_failure()
    }

    fn see(failure: &FailureTrace) -> Option<Opaque> {
        crate::Error::see(failure)
    }
}

/// The type goes on with it.
impl<E: Failure> IntoFailure for CallError<E> {
    type Seen = E;

    fn into_failure(self) -> FailureTrace {
        self.trace().to_failure()
    }

    fn see(failure: &FailureTrace) -> Option<E> {
        E::see(failure)
    }
}

impl<E> From<Refusal> for CallError<E> {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}
