//! Updates: messages with an answer. A validator may turn one away before anything is recorded;
//! one that is accepted gets an answer, whatever crashes in between.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::marker::PhantomData;
use std::pin::Pin;

use outlast_model::event::{UpdateOutcome, UpdateRequest};
use outlast_model::start::{UpdateReply, UpdateStage};
use outlast_model::view::RunRef;
use outlast_model::{Headers, UpdateId, UpdateName};

use crate::call_error::CallError;
use crate::client::App;
use crate::error::Error;
use crate::failure::{FailureTrace, IntoFailure};
use crate::handle::Handle;
use crate::outgoing::{Encoded, Outgoing};
use crate::subject::Subject;
use crate::trace::Trace;
use crate::wire::{Data, Outcome, read_reply};

type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A named, typed update that a workflow can take: one constant for both sides.
pub struct Update<I, O, E = Error> {
    name: &'static str,
    types: PhantomData<fn(I) -> (O, E)>,
}

/// An update with this name.
pub const fn update<I, O, E>(name: &'static str) -> Update<I, O, E> {
    Update {
        name,
        types: PhantomData,
    }
}

impl<I, O, E> Update<I, O, E> {
    /// Its name.
    pub fn name(self) -> &'static str {
        self.name
    }
}

impl<I, O, E> Clone for Update<I, O, E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<I, O, E> Copy for Update<I, O, E> {}

impl<I, O, E> fmt::Debug for Update<I, O, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Update({})", self.name)
    }
}

/// An update on its way: `.await` gives its result when that is durable.
#[must_use = "nothing is sent until it is awaited"]
pub struct Updating<O, E = Error> {
    pub(crate) outgoing: Outgoing,
    id: Option<String>,
    types: PhantomData<fn() -> (O, E)>,
}

/// The update whose handler returns an `R`.
pub type UpdatingOf<R> = Updating<<R as Outcome>::Ok, <R as Outcome>::Err>;

/// Sends an update, for a generated handle.
pub fn send_update<T, F, O, E>(
    handle: &Handle<T, F>,
    name: &'static str,
    content: Encoded,
) -> Updating<O, E> {
    Updating::new(Outgoing::new(handle, name, content))
}

impl<O, E> Updating<O, E> {
    pub(crate) fn new(outgoing: Outgoing) -> Self {
        Self {
            outgoing,
            id: None,
            types: PhantomData,
        }
    }

    /// The same id again is the same update: it is not done twice, and has the same answer.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// What travels with it.
    pub fn headers(mut self, headers: Headers) -> Self {
        self.outgoing.headers = headers;
        self
    }

    /// Waits only until the update has passed its validator, durably.
    pub fn accepted(self) -> Accepting<O, E> {
        Accepting(self)
    }

    /// The request to send, and where the answer will come from.
    pub(crate) fn request<S>(self) -> Result<(UpdateHandle<O, E>, UpdateRequest), CallError<S>> {
        let id = self
            .id
            .unwrap_or_else(|| self.outgoing.new_id().to_string());
        let subject = Subject::Update(self.outgoing.name.clone());
        let Outgoing {
            app,
            run,
            name,
            content,
            headers,
        } = self.outgoing;
        let request = UpdateRequest {
            id: UpdateId::new(id),
            name: UpdateName::new(&*name),
            input: content.payload(&subject)?,
            headers,
        };
        let handle = UpdateHandle {
            app,
            run,
            request: request.clone(),
            outcome: None,
            types: PhantomData,
        };
        Ok((handle, request))
    }
}

impl<O: Data, E: IntoFailure> IntoFuture for Updating<O, E> {
    type Output = Result<O, CallError<E::Seen>>;
    type IntoFuture = BoxFuture<Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { self.request()?.0.result().await })
    }
}

impl<O, E> fmt::Debug for Updating<O, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Updating")
            .field("update", &self.outgoing.name)
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

/// An update on its way: `.await` gives its handle when it has been accepted.
#[must_use = "nothing is sent until it is awaited"]
#[derive(Debug)]
pub struct Accepting<O, E = Error>(pub(crate) Updating<O, E>);

impl<O: Data, E: IntoFailure> IntoFuture for Accepting<O, E> {
    type Output = Result<UpdateHandle<O, E>, CallError<E::Seen>>;
    type IntoFuture = BoxFuture<Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let (handle, request) = self.0.request()?;
            let sent = handle
                .app
                .port()
                .update(handle.run.clone(), request, UpdateStage::Accepted);
            let reply = sent.await?;
            handle.told(reply)
        })
    }
}

/// An accepted update.
pub struct UpdateHandle<O, E = Error> {
    app: App,
    run: RunRef,
    request: UpdateRequest,
    /// Its outcome, if it came with the acceptance.
    outcome: Option<UpdateOutcome>,
    types: PhantomData<fn() -> (O, E)>,
}

impl<O, E> UpdateHandle<O, E> {
    /// Its id.
    pub fn id(&self) -> &str {
        self.request.id.as_str()
    }

    /// The run it was sent to is now known.
    pub(crate) fn to(mut self, run: RunRef) -> Self {
        self.run = run;
        self
    }
}

impl<O: Data, E: IntoFailure> UpdateHandle<O, E> {
    /// Waits for its result.
    ///
    /// # Errors
    /// How it failed, or why the backend cannot say.
    pub async fn result(&self) -> Result<O, CallError<E::Seen>> {
        if let Some(outcome) = &self.outcome {
            return self.read(outcome.clone());
        }
        let (run, request) = (self.run.clone(), self.request.clone());
        let asked = self.app.port().update(run, request, UpdateStage::Completed);
        match asked.await? {
            UpdateReply::Done(outcome) => self.read(outcome),
            UpdateReply::Rejected(failure) => Err(self.rejected(failure)),
            UpdateReply::Accepted => {
                let still = FailureTrace::application("", "it still runs: ask again");
                Err(CallError::Other(self.trace("has no result", still)))
            }
        }
    }

    /// The handle, unless the update was turned away.
    pub(crate) fn told(mut self, reply: UpdateReply) -> Result<Self, CallError<E::Seen>> {
        match reply {
            UpdateReply::Accepted => {}
            UpdateReply::Done(outcome) => self.outcome = Some(outcome),
            UpdateReply::Rejected(failure) => return Err(self.rejected(failure)),
        }
        Ok(self)
    }

    fn read(&self, outcome: UpdateOutcome) -> Result<O, CallError<E::Seen>> {
        match outcome {
            UpdateOutcome::Completed(result) => read_reply(&self.subject(), &result),
            UpdateOutcome::Failed(failure) => {
                Err(CallError::observe::<E>(self.trace("failed", failure)))
            }
        }
    }

    fn rejected(&self, failure: FailureTrace) -> CallError<E::Seen> {
        CallError::Rejected(self.trace("was rejected", failure))
    }

    fn trace(&self, what: &str, failure: FailureTrace) -> Trace {
        let (subject, id) = (self.subject(), &self.run.workflow_id);
        Trace::of(format!("{subject} of {id} {what}"), failure)
    }

    fn subject(&self) -> Subject {
        Subject::Update(self.request.name.as_str().to_owned().into())
    }
}

impl<O, E> Clone for UpdateHandle<O, E> {
    fn clone(&self) -> Self {
        Self {
            app: self.app.clone(),
            run: self.run.clone(),
            request: self.request.clone(),
            outcome: self.outcome.clone(),
            types: PhantomData,
        }
    }
}

impl<O, E> fmt::Debug for UpdateHandle<O, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UpdateHandle")
            .field("update", &self.request.name)
            .field("id", &self.request.id)
            .finish_non_exhaustive()
    }
}
