//! Questions about a run: they read its settled state, change nothing and are never recorded.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::marker::PhantomData;
use std::pin::Pin;

use outlast_model::failure::type_name;
use outlast_model::task::Query as Question;
use outlast_model::{Failure as FailureTrace, FailureKind, Headers, QueryName, Refusal};

use crate::call_error::CallError;
use crate::error::Error;
use crate::failure::IntoFailure;
use crate::handle::Handle;
use crate::outgoing::{Encoded, Outgoing};
use crate::subject::Subject;
use crate::trace::Trace;
use crate::wire::{Data, Outcome, read_reply};

/// A named, typed question that a workflow can answer: one constant for both sides.
pub struct Query<I, O, E = Error> {
    name: &'static str,
    types: PhantomData<fn(I) -> (O, E)>,
}

/// A query with this name.
pub const fn query<I, O, E>(name: &'static str) -> Query<I, O, E> {
    Query {
        name,
        types: PhantomData,
    }
}

impl<I, O, E> Query<I, O, E> {
    /// Its name.
    pub fn name(self) -> &'static str {
        self.name
    }
}

impl<I, O, E> Clone for Query<I, O, E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<I, O, E> Copy for Query<I, O, E> {}

impl<I, O, E> fmt::Debug for Query<I, O, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Query({})", self.name)
    }
}

/// A question on its way: `.await` gives the answer.
#[must_use = "nothing is asked until it is awaited"]
pub struct Asking<O, E = Error> {
    outgoing: Outgoing,
    types: PhantomData<fn() -> (O, E)>,
}

/// The question whose handler returns an `R`.
pub type AskingOf<R> = Asking<<R as Outcome>::Ok, <R as Outcome>::Err>;

/// Asks something, for a generated handle.
pub fn ask<T, F, O, E>(
    handle: &Handle<T, F>,
    name: &'static str,
    content: Encoded,
) -> Asking<O, E> {
    Asking::new(Outgoing::new(handle, name, content))
}

impl<O, E> Asking<O, E> {
    pub(crate) fn new(outgoing: Outgoing) -> Self {
        Self {
            outgoing,
            types: PhantomData,
        }
    }

    /// What travels with it.
    pub fn headers(mut self, headers: Headers) -> Self {
        self.outgoing.headers = headers;
        self
    }
}

impl<O: Data, E: IntoFailure> IntoFuture for Asking<O, E> {
    type Output = Result<O, CallError<E::Seen>>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let subject = Subject::Query(self.outgoing.name.clone());
            let Outgoing {
                app,
                run,
                content,
                headers,
                ..
            } = self.outgoing;
            let question = Question {
                name: QueryName::new(&*self.outgoing.name),
                input: content.payload(&subject)?,
                headers,
            };
            let answer = app
                .port()
                .query(run, question)
                .await
                .map_err(refused::<E>)?;
            read_reply(&subject, &answer)
        })
    }
}

impl<O, E> fmt::Debug for Asking<O, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Asking")
            .field("query", &self.outgoing.name)
            .finish_non_exhaustive()
    }
}

/// What a handler returned as its error is the callee's; everything else says what to do in the
/// refusal's own words.
fn refused<E: IntoFailure>(refusal: Refusal) -> CallError<E::Seen> {
    if let Refusal::QueryFailed {
        workflow_id,
        query,
        failure,
    } = &refusal
        && is_raised(failure)
    {
        let origin = format!("query {query} of {workflow_id} failed");
        return CallError::observe::<E>(Trace::of(origin, (**failure).clone()));
    }
    CallError::Refused(refusal)
}

/// Whether a handler raised it, and not the runtime in its place.
fn is_raised(failure: &FailureTrace) -> bool {
    if let FailureKind::Application { type_name, .. } = &failure.kind {
        return !matches!(
            type_name.as_str(),
            type_name::UNKNOWN_HANDLER | type_name::READ_ONLY | type_name::DECODE
        );
    }
    true
}
