//! Errors that can end an activity or a workflow, and how a caller sees them again.
//!
//! Two ways: a type with `#[derive(Failure)]`, named in a signature, keeps its type through the
//! history; [`Error`](crate::Error) takes anything and shows as [`Opaque`].

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use outlast_model::{FailureKind, Payload, limits};
use serde::Serialize;
use serde::de::DeserializeOwned;

#[cfg(feature = "anyhow")]
use crate::answer::Later;
use crate::continuing::Continuation;
use crate::trace;

/// A stored failure: one link of a chain.
pub use outlast_model::Failure as FailureTrace;

/// Whether one more attempt makes sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// As the retry policy of the call says.
    ByPolicy,
    /// Never again: the same input gives the same error.
    Never,
    /// After this pause, whatever the policy's own pause is.
    After(Duration),
}

/// A typed application error that keeps its type through the history.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the error of an activity or a workflow",
    label = "not an outlast failure",
    note = "add `#[derive(Failure)]` (with thiserror::Error, Serialize, Deserialize) to keep the type for callers,",
    note = "or return `outlast::Result<T>`, which takes any error through `?`"
)]
pub trait Failure: StdError + Serialize + DeserializeOwned + Send + Sync + 'static {
    /// The name of the type in the history: keep it when you rename the type.
    const TYPE: &'static str;

    /// Whether one more attempt makes sense.
    fn retry(&self) -> Retry {
        Retry::ByPolicy
    }
}

/// Anything that may stand behind `Err` in the signature of a durable function.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the error of an activity or a workflow",
    label = "not an outlast failure",
    note = "add `#[derive(Failure)]` (with thiserror::Error, Serialize, Deserialize) to keep the type for callers,",
    note = "or return `outlast::Result<T>`, which takes any error through `?`"
)]
pub trait IntoFailure: Send + 'static {
    /// What a caller sees of it.
    type Seen: fmt::Debug + Send + 'static;

    /// The failure to store.
    fn into_failure(self) -> FailureTrace;

    /// What a caller sees in a stored application failure, if it is of this type.
    fn see(failure: &FailureTrace) -> Option<Self::Seen>;

    /// The request to go on as a new run, if it is one.
    #[doc(hidden)]
    fn continuation(&self) -> Option<&Continuation> {
        None
    }

    /// Whether it says that somebody outside will answer.
    #[doc(hidden)]
    fn is_later(&self) -> bool {
        false
    }
}

impl<E: Failure> IntoFailure for E {
    type Seen = E;

    fn into_failure(self) -> FailureTrace {
        typed(&self)
    }

    fn see(failure: &FailureTrace) -> Option<E> {
        trace::read(failure)
    }
}

/// The failure of a typed error: its message for people, itself for programs.
pub(crate) fn typed<E: Failure>(error: &E) -> FailureTrace {
    let retry = error.retry();
    // Details over the limit would make the failure itself unstorable: the message must do.
    let details = Payload::encode(error)
        .ok()
        .filter(|p| p.size() <= limits::PAYLOAD_BYTES);
    let kind = FailureKind::Application {
        type_name: E::TYPE.into(),
        non_retryable: retry == Retry::Never,
        details,
        next_retry_delay: match retry {
            Retry::After(pause) => Some(pause),
            Retry::ByPolicy | Retry::Never => None,
        },
    };
    FailureTrace::new(kind, error.to_string())
}

/// The error of a callee that returns the untyped [`Result`](crate::Result): its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opaque(pub String);

impl fmt::Display for Opaque {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl StdError for Opaque {}

/// `anyhow::Error` may also be named in a signature.
#[cfg(feature = "anyhow")]
impl IntoFailure for anyhow::Error {
    type Seen = Opaque;

    fn into_failure(self) -> FailureTrace {
        crate::Error::from(self).into_failure()
    }

    fn see(failure: &FailureTrace) -> Option<Opaque> {
        crate::Error::see(failure)
    }

    fn continuation(&self) -> Option<&Continuation> {
        self.downcast_ref()
    }

    fn is_later(&self) -> bool {
        self.is::<Later>()
    }
}
