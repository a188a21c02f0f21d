//! Signals: typed messages to a running workflow, and their way from a client to it.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::marker::PhantomData;
use std::pin::Pin;

use outlast_model::start::SignalRequest;
use outlast_model::{Headers, RequestId, SignalName};

use crate::call_error::CallError;
use crate::outgoing::Outgoing;
use crate::subject::Subject;

/// A named, typed message that a running workflow can receive: one constant for both sides.
pub struct Signal<T> {
    name: &'static str,
    content: PhantomData<fn() -> T>,
}

/// A signal with this name.
pub const fn signal<T>(name: &'static str) -> Signal<T> {
    Signal {
        name,
        content: PhantomData,
    }
}

impl<T> Signal<T> {
    /// Its name.
    pub fn name(self) -> &'static str {
        self.name
    }
}

impl<T> Clone for Signal<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Signal<T> {}

impl<T> fmt::Debug for Signal<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Signal({})", self.name)
    }
}

/// A signal on its way: `.await` returns when it is durable.
#[must_use = "nothing is sent until it is awaited"]
pub struct Sent {
    pub(crate) outgoing: Outgoing,
    request_id: Option<String>,
}

impl Sent {
    pub(crate) fn new(outgoing: Outgoing) -> Self {
        Self {
            outgoing,
            request_id: None,
        }
    }

    /// The same request again, with the same id, has no further effect.
    pub fn request_id(mut self, id: impl Into<String>) -> Self {
        self.request_id = Some(id.into());
        self
    }

    /// What travels with it.
    pub fn headers(mut self, headers: Headers) -> Self {
        self.outgoing.headers = headers;
        self
    }

    /// What is sent.
    pub(crate) fn request(self) -> Result<SignalRequest, CallError> {
        let name = self.outgoing.name;
        let subject = Subject::Signal(name.clone());
        Ok(SignalRequest {
            name: SignalName::new(&*name),
            input: self.outgoing.content.payload(&subject)?,
            request_id: self.request_id.map(RequestId::new),
            headers: self.outgoing.headers,
        })
    }
}

impl IntoFuture for Sent {
    type Output = Result<(), CallError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let (app, run) = (self.outgoing.app.clone(), self.outgoing.run.clone());
            let signal = self.request()?;
            Ok(app.port().signal(run, signal).await?)
        })
    }
}

impl fmt::Debug for Sent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sent")
            .field("signal", &self.outgoing.name)
            .finish_non_exhaustive()
    }
}
