//! Continue-as-new: this run ends, and another one of the same id goes on in its place with a
//! short history. What keeps a workflow that never ends from growing for ever.
//!
//! `return ctx.continue_as_new(input)` in main. The request travels as an error, because that is
//! how Rust leaves a function early; whoever catches it by mistake is told so.

use std::error::Error as StdError;
use std::fmt;

use outlast_model::command::ContinueAsNew;
use outlast_model::{Headers, Payload, WorkflowType};
use outlast_runtime::Context;
use serde::Serialize;

use crate::arg::Arg;
use crate::ctx::Ctx;
use crate::error::Error;
use crate::failure::{FailureTrace, IntoFailure};
use crate::outgoing::Encoded;
use crate::subject::Subject;
use crate::wire::store_or_panic;
use crate::workflow::Workflow;

/// Going on as a new run.
impl<S> Ctx<S> {
    /// Ends this run and goes on as a new one, with this input: `return ctx.continue_as_new(n)`.
    /// Messages that nobody took go with it; open calls and children do not.
    ///
    /// # Errors
    /// Always: return it from main. Returned from a branch or a scope it fails the task.
    ///
    /// # Panics
    /// If the input does not serialise or is over the limit.
    #[track_caller]
    pub fn continue_as_new<A, T, E>(self, input: A) -> Result<T, E>
    where
        S: ContinuesWith<A>,
        E: CarriesOn,
    {
        Err(E::carry(Continuation::new(None, S::payload(input))))
    }

    /// Ends this run and goes on as a run of another workflow, which gives the same result.
    ///
    /// # Errors
    /// Always: return it from main.
    ///
    /// # Panics
    /// If the input does not serialise or is over the limit.
    #[track_caller]
    pub fn continue_as<W, K, E>(
        self,
        workflow: W,
        input: impl Arg<W::Input>,
    ) -> Result<W::Output, E>
    where
        W: Workflow<K>,
        E: CarriesOn,
    {
        let next = Continuation::new(Some(workflow.name()), input.payload());
        Err(E::carry(next))
    }

    /// Whether the history is so long that it is time to [`continue_as_new`](Self::continue_as_new).
    pub fn should_continue_as_new(self) -> bool {
        self.raw().suggest_continue_as_new()
    }
}

/// What a run goes on with.
#[derive(Clone)]
pub struct Continuation(Box<ContinueAsNew>);

impl Continuation {
    #[track_caller]
    fn new(workflow: Option<&'static str>, input: Encoded) -> Self {
        let subject = Subject::Workflow(workflow.unwrap_or("that continues this one"));
        Self(Box::new(ContinueAsNew {
            workflow_type: workflow.map(WorkflowType::new),
            queue: None,
            input: store_or_panic(&subject, input),
            run_timeout: None,
            signals: Vec::new(),
            headers: Headers::new(),
        }))
    }

    /// The input, if the next run is of the same workflow.
    pub(crate) fn own_input(&self) -> Option<&Payload> {
        let is_same = self.0.workflow_type.is_none();
        is_same.then_some(&self.0.input)
    }

    pub(crate) fn command(&self) -> Box<ContinueAsNew> {
        self.0.clone()
    }
}

impl fmt::Debug for Continuation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Continuation").finish_non_exhaustive()
    }
}

/// Read only when it ends up where it has no effect.
impl fmt::Display for Continuation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("`continue_as_new` has its effect only as the result of the workflow's main routine: return it from there")
    }
}

impl StdError for Continuation {}

/// What a branch or a scope failed with. A request to go on as a new run has no effect there: it
/// fails the task, so that fixed code resumes the run. What was recorded before stays as it was.
pub(crate) fn failure_of<E: IntoFailure>(ctx: Context, error: E, what: &str) -> FailureTrace {
    let request = error.continuation().map(ToString::to_string);
    let failure = error.into_failure();
    if let Some(remedy) = request
        && !ctx.is_replaying()
    {
        let place = failure.trace.as_deref().unwrap_or("an unknown place");
        panic!("{what} returned the request made at {place}: {remedy}");
    }
    failure
}

/// An error that can carry the request to go on as a new run.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot carry `continue_as_new`",
    label = "this workflow's error is a `{Self}`",
    note = "return `outlast::Result<T>` from the workflow; `Error::typed(error)` keeps the type of an error"
)]
pub trait CarriesOn {
    /// The request as an error.
    #[track_caller]
    fn carry(next: Continuation) -> Self;
}

impl CarriesOn for Error {
    #[track_caller]
    fn carry(next: Continuation) -> Self {
        Self::from(next)
    }
}

// What the compiler proposes does not depend on features.
#[cfg(feature = "anyhow")]
#[diagnostic::do_not_recommend]
impl CarriesOn for anyhow::Error {
    fn carry(next: Continuation) -> Self {
        Self::new(next)
    }
}

/// What a workflow with this state takes as input. A function workflow has no state that could
/// say so: there the input is checked when the run ends.
pub trait ContinuesWith<A> {
    /// The input, encoded.
    ///
    /// # Errors
    /// The value's own `Serialize` failed.
    fn payload(input: A) -> Encoded;
}

impl<A: Serialize> ContinuesWith<A> for () {
    fn payload(input: A) -> Encoded {
        Payload::encode(&input)
    }
}

#[cfg(test)]
mod tests;
