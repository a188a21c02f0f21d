//! Between Rust values and payloads: what may cross, and what is said when it does not.
//!
//! A workflow whose value does not encode, decode or fit panics with a text that names the value
//! and its type: the task fails, not the run, and fixed code resumes it. An activity's result
//! that cannot be stored fails the activity for good, because trying again would only repeat the
//! effect.

use std::any::type_name as rust_type;

use outlast_model::failure::type_name;
use outlast_model::payload::PayloadError;
use outlast_model::task::{AttemptResult, StopReason};
use outlast_model::{FailureKind, Payload, limits};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::call_error::{CallError, ENCODE};
use crate::error::raised;
use crate::failure::{FailureTrace, IntoFailure};
use crate::subject::Subject;
use crate::trace::Trace;

/// A value that can be an input or a result.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot cross the history",
    label = "this type is an input or a result of a durable function",
    note = "add `#[derive(Serialize, Deserialize)]` to `{Self}`",
    note = "if this is a dependency (a client, a pool), take it as `State<{Self}>`"
)]
pub trait Data: Serialize + DeserializeOwned + Send + 'static {}

#[diagnostic::do_not_recommend]
impl<T: Serialize + DeserializeOwned + Send + 'static> Data for T {}

/// Asks whether a type is data, where the user wrote it.
pub fn assert_data<T: Data>() {}

/// What a durable function returns: a `Result` whose sides can be stored.
#[diagnostic::on_unimplemented(
    message = "an activity or a workflow returns `Result<T>`, but this one returns `{Self}`",
    label = "wrap the value in `Ok(..)` and return `Result<{Self}>`"
)]
pub trait Outcome: Sized {
    /// The result.
    type Ok: Data;
    /// The error.
    type Err: IntoFailure;

    /// The `Result` it is.
    ///
    /// # Errors
    /// The error it holds.
    fn into_result(self) -> Result<Self::Ok, Self::Err>;
}

impl<T: Data, E: IntoFailure> Outcome for Result<T, E> {
    type Ok = T;
    type Err = E;

    fn into_result(self) -> Self {
        self
    }
}

/// Reads the input of an activity or a workflow.
pub(crate) fn read_input<T: DeserializeOwned>(
    subject: &Subject,
    input: &Payload,
) -> Result<T, Box<FailureTrace>> {
    input.decode().map_err(|error| {
        let message = format!(
            "the input of {subject} is not a `{}`: {error}",
            rust_type::<T>()
        );
        Box::new(FailureTrace::application(type_name::DECODE, message))
    })
}

/// The outcome of an attempt, which may have been asked to stop.
pub(crate) fn attempt_result<R: Outcome>(
    subject: &Subject,
    result: R,
    asked: Option<StopReason>,
) -> AttemptResult {
    let value = match result.into_result() {
        Ok(value) => value,
        Err(error) => {
            if error.is_later() {
                return AttemptResult::Later;
            }
            let failure = error.into_failure();
            if asked.is_some() && failure.is_canceled() {
                return AttemptResult::Canceled(None);
            }
            return AttemptResult::Failed(as_application(failure));
        }
    };
    match encode(&value) {
        Ok(payload) => AttemptResult::Completed(payload),
        Err(unstorable) => AttemptResult::Failed(unstorable.failure(subject)),
    }
}

/// What the handler of a query or an update answers.
pub(crate) fn answer<R: Outcome>(subject: &Subject, result: R) -> Result<Payload, FailureTrace> {
    let value = result.into_result().map_err(IntoFailure::into_failure)?;
    encode(&value).map_err(|unstorable| unstorable.failure(subject))
}

/// The answer as its asker sees it.
pub(crate) fn read_reply<T: DeserializeOwned, E>(
    subject: &Subject,
    answer: &Payload,
) -> Result<T, CallError<E>> {
    answer.decode().map_err(|error| {
        let message = format!(
            "the answer to {subject} is not a `{}`: {error}",
            rust_type::<T>()
        );
        CallError::Other(Trace::new(FailureTrace::application(
            type_name::DECODE,
            message,
        )))
    })
}

/// An attempt fails with what user code raised: a timeout or a cancellation of something else it
/// used must not read as its own.
pub(crate) fn as_application(failure: FailureTrace) -> FailureTrace {
    if let FailureKind::Application { .. } = failure.kind {
        failure
    } else {
        raised(failure, false)
    }
}

/// The payload of an input that workflow code hands out.
#[track_caller]
pub(crate) fn store_or_panic(subject: &Subject, payload: Result<Payload, PayloadError>) -> Payload {
    match checked(payload) {
        Ok(payload) => payload,
        Err(unstorable) => panic!("{}", unstorable.text("input", subject)),
    }
}

/// The payload of a value, within the limit.
pub(crate) fn encode<T: Serialize>(value: &T) -> Result<Payload, Unstorable> {
    checked(Payload::encode(value))
}

fn checked(payload: Result<Payload, PayloadError>) -> Result<Payload, Unstorable> {
    let payload = payload.map_err(Unstorable::Encode)?;
    if payload.size() > limits::PAYLOAD_BYTES {
        return Err(Unstorable::TooLarge {
            size: payload.size(),
        });
    }
    Ok(payload)
}

/// The value workflow code was given.
///
/// # Panics
/// If it is not a `T`: see the module's documentation.
pub(crate) fn read_or_panic<T: DeserializeOwned>(subject: &Subject, payload: &Payload) -> T {
    match payload.decode() {
        Ok(value) => value,
        Err(error) => panic!(
            "the {} of {subject} is not a `{}`: {error}; deploy code that reads it and the run goes on",
            subject.value(),
            rust_type::<T>()
        ),
    }
}

/// Why a value cannot be stored.
pub(crate) enum Unstorable {
    Encode(PayloadError),
    TooLarge { size: usize },
}

impl Unstorable {
    pub(crate) fn text(&self, role: &str, subject: &Subject) -> String {
        let limit = limits::PAYLOAD_BYTES;
        match self {
            Self::Encode(error) => format!("the {role} of {subject} cannot be stored: {error}"),
            Self::TooLarge { size } => format!(
                "the {role} of {subject} has {size} bytes, the limit is {limit}: store the data \
                 elsewhere and pass a reference"
            ),
        }
    }

    pub(crate) fn failure(&self, subject: &Subject) -> FailureTrace {
        let name = match self {
            Self::Encode(_) => ENCODE,
            Self::TooLarge { .. } => type_name::TOO_LARGE,
        };
        let kind = FailureKind::Application {
            type_name: name.into(),
            non_retryable: true,
            details: None,
            next_retry_delay: None,
        };
        FailureTrace::new(kind, self.text("result", subject))
    }
}

#[cfg(test)]
mod tests;
