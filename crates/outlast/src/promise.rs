//! Promises: a workflow waits, somebody outside settles it. The door for people and webhooks.
//!
//! Workflow code makes one with `ctx.promise::<T>()`, hands its token out (in a mail, to a
//! queue), and awaits it. Whoever has the token, or the workflow's id and the promise's name,
//! resolves or rejects it: the first outcome counts.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::marker::PhantomData;
use std::pin::Pin;

use outlast_model::promise::Settlement;
use outlast_model::start::SignalRequest;
use outlast_model::task::{PROMISE_SIGNAL, promise_request};
use outlast_model::view::RunRef;
use outlast_model::{Headers, PromiseId, SignalName, WorkflowId};
use serde::Serialize;

use crate::arg::Arg;
use crate::call::{Call, kind};
use crate::call_error::CallError;
use crate::client::App;
use crate::ctx::Ctx;
use crate::error::Error;
use crate::failure::{FailureTrace, IntoFailure};
use crate::outgoing::{Content, Encoded};
use crate::subject::Subject;
use crate::wire::Data;

pub(crate) mod token;

/// Promises.
impl<S> Ctx<S> {
    /// A promise without a name: whoever gets its [`token`](Call::token) can settle it.
    #[track_caller]
    pub fn promise<T: Data>(self) -> Call<T, Error, kind::Promise> {
        // The number alone would come again in a run that continues this one.
        let (run_id, number) = (self.run_id(), self.raw().next_promise_id());
        let id = format!("{:012x}{number}", run_id.0 & 0xffff_ffff_ffff);
        self.promise_named(&id)
    }

    /// A promise with a name: it can be settled by workflow id and name, even before this line
    /// runs. A name is settled once, in this run and in those that continue it.
    #[track_caller]
    pub fn promise_named<T: Data>(self, name: &str) -> Call<T, Error, kind::Promise> {
        let id = PromiseId::new(name);
        let operation = self.raw().promise(id.clone());
        Call::new(self.raw(), operation, Subject::Promise(id))
    }
}

/// A promise, made by workflow code.
impl<T, E: IntoFailure> Call<T, E, kind::Promise> {
    /// What settles it from anywhere: text that fits into a URL.
    pub fn token(&self) -> String {
        let run = RunRef {
            workflow_id: self.ctx.workflow_id(),
            run_id: Some(self.ctx.run_id()),
        };
        let Subject::Promise(id) = &self.subject else {
            unreachable!("{} is no promise", self.subject);
        };
        token::write(&run, id)
    }
}

impl App {
    /// A promise of the newest run of an id, by its name.
    pub fn promise<T: Data>(
        &self,
        workflow_id: impl AsRef<str>,
        name: impl AsRef<str>,
    ) -> PromiseHandle<T> {
        let run = RunRef::newest(WorkflowId::new(workflow_id.as_ref()));
        PromiseHandle::new(self.clone(), run, PromiseId::new(name.as_ref()))
    }

    /// Resolves a promise by its token.
    pub fn resolve_token<T: Serialize>(&self, token: &str, value: T) -> Settling {
        self.settle_token(token, Outcome::Resolved(value.payload()))
    }

    /// Rejects a promise by its token: whoever waits for it gets the error.
    pub fn reject_token(&self, token: &str, error: impl Into<Error>) -> Settling {
        self.settle_token(token, Outcome::Rejected(error.into().into_failure()))
    }

    fn settle_token(&self, token: &str, outcome: Outcome) -> Settling {
        let promise = token::read(token);
        Settling {
            app: self.clone(),
            promise,
            outcome,
        }
    }
}

/// A promise of a run, from outside.
pub struct PromiseHandle<T> {
    app: App,
    run: RunRef,
    id: PromiseId,
    value: PhantomData<fn(T)>,
}

impl<T> PromiseHandle<T> {
    fn new(app: App, run: RunRef, id: PromiseId) -> Self {
        Self {
            app,
            run,
            id,
            value: PhantomData,
        }
    }

    /// Gives it its value. [`Refusal::AlreadyResolved`](crate::Refusal::AlreadyResolved) if it has
    /// an outcome.
    pub fn resolve(&self, value: impl Arg<T>) -> Settling {
        self.settle(Outcome::Resolved(value.payload()))
    }

    /// Makes whoever waits for it get this error.
    pub fn reject(&self, error: impl Into<Error>) -> Settling {
        self.settle(Outcome::Rejected(error.into().into_failure()))
    }

    fn settle(&self, outcome: Outcome) -> Settling {
        Settling {
            app: self.app.clone(),
            promise: Ok((self.run.clone(), self.id.clone())),
            outcome,
        }
    }
}

impl<T> fmt::Debug for PromiseHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PromiseHandle")
            .field("run", &self.run)
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

enum Outcome {
    Resolved(Encoded),
    Rejected(FailureTrace),
}

/// The outcome of a promise on its way: `.await` returns when it is durable.
#[must_use = "nothing is settled until it is awaited"]
pub struct Settling {
    app: App,
    promise: Result<(RunRef, PromiseId), token::NotAToken>,
    outcome: Outcome,
}

impl IntoFuture for Settling {
    type Output = Result<(), CallError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let (run, id) = self.promise.map_err(token::NotAToken::refusal)?;
            let subject = Subject::Promise(id.clone());
            let outcome = match self.outcome {
                Outcome::Resolved(value) => Ok(Content::new(value).payload(&subject)?),
                Outcome::Rejected(failure) => Err(failure),
            };
            let request = promise_request(&id);
            let settlement = Settlement { id, outcome }.encode();
            let content = Content::new(settlement).payload(&subject)?;
            let signal = SignalRequest {
                name: SignalName::new(PROMISE_SIGNAL),
                input: content,
                request_id: Some(request),
                headers: Headers::new(),
            };
            Ok(self.app.port().signal(run, signal).await?)
        })
    }
}

impl fmt::Debug for Settling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settling")
            .field("promise", &self.promise)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
