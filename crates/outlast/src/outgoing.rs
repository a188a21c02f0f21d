//! A message from a client to a run, before it is sent.

use std::borrow::Cow;

use outlast_model::payload::PayloadError;
use outlast_model::view::RunRef;
use outlast_model::{Headers, Payload, RunId};

use crate::call_error::{CallError, ENCODE};
use crate::client::App;
use crate::failure::FailureTrace;
use crate::handle::Handle;
use crate::subject::Subject;
use crate::trace::Trace;

/// A payload, or why there is none.
pub type Encoded = Result<Payload, PayloadError>;

/// To whom, which handler, with what.
pub(crate) struct Outgoing {
    pub(crate) app: App,
    pub(crate) run: RunRef,
    pub(crate) name: Cow<'static, str>,
    pub(crate) content: Content,
    pub(crate) headers: Headers,
}

impl Outgoing {
    pub(crate) fn new<T, E>(
        handle: &Handle<T, E>,
        name: impl Into<Cow<'static, str>>,
        content: Encoded,
    ) -> Self {
        Self {
            app: handle.app().clone(),
            run: handle.run_ref().clone(),
            name: name.into(),
            content: Content(content),
            headers: Headers::new(),
        }
    }

    /// An id for a request whose caller gave none.
    pub(crate) fn new_id(&self) -> RunId {
        self.app.new_run_id()
    }
}

/// What a message carries.
pub(crate) struct Content(Encoded);

impl Content {
    pub(crate) fn new(content: Encoded) -> Self {
        Self(content)
    }

    pub(crate) fn payload<E>(self, subject: &Subject) -> Result<Payload, CallError<E>> {
        self.0.map_err(|error| {
            let message = format!("the content of {subject}: {error}");
            CallError::Other(Trace::new(FailureTrace::application(ENCODE, message)))
        })
    }
}
