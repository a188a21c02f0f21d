//! A handle to a run: wait for it, talk to it, stop it, look at it.

use std::any::type_name as rust_type;
use std::fmt;
use std::marker::PhantomData;

use outlast_model::failure::type_name;
use outlast_model::task::builtin_query;
use outlast_model::view::{Description, RunOutcome, RunRef};
use outlast_model::{Event, FailureKind, Refusal, RunId, TimeoutKind, WorkflowId, WorkflowType};
use serde_json::Value;

use crate::arg::Arg;
use crate::call_error::CallError;
use crate::client::App;
use crate::error::Error;
use crate::failure::{FailureTrace, IntoFailure};
use crate::outgoing::Outgoing;
use crate::query::{Asking, Query};
use crate::signal::{Sent, Signal};
use crate::trace::Trace;
use crate::update::{Update, Updating};
use crate::why::{self, Answer};
use crate::wire::Data;

/// A run, or the newest run of an id, that gives a `T` or fails with an `E`. Cheap to clone.
pub struct Handle<T, E = Error> {
    app: App,
    workflow_type: WorkflowType,
    run: RunRef,
    types: PhantomData<fn() -> (T, E)>,
}

impl<T, E> Handle<T, E> {
    pub(crate) fn new(app: App, workflow_type: WorkflowType, run: RunRef) -> Self {
        Self {
            app,
            workflow_type,
            run,
            types: PhantomData,
        }
    }

    /// The workflow's id.
    pub fn id(&self) -> &str {
        self.run.workflow_id.as_str()
    }

    /// The run, if the handle is for a certain one.
    pub fn run_id(&self) -> Option<RunId> {
        self.run.run_id
    }

    pub(crate) fn app(&self) -> &App {
        &self.app
    }

    pub(crate) fn run_ref(&self) -> &RunRef {
        &self.run
    }

    /// Sends a signal; `Ok` means that it is durable.
    pub fn send<S>(&self, signal: Signal<S>, content: impl Arg<S>) -> Sent {
        Sent::new(Outgoing::new(self, signal.name(), content.payload()))
    }

    /// Sends a signal that this program knows by name only.
    pub fn send_raw(&self, signal: &str, content: &Value) -> Sent {
        Sent::new(self.outgoing_raw(signal, content))
    }

    /// Asks about the run's state; a run that has ended answers too.
    pub fn query<I, O, F>(&self, query: Query<I, O, F>, input: impl Arg<I>) -> Asking<O, F> {
        Asking::new(Outgoing::new(self, query.name(), input.payload()))
    }

    /// Asks a question that this program knows by name only: JSON in, JSON out.
    pub fn query_raw(&self, query: &str, input: &Value) -> Asking<Value> {
        Asking::new(self.outgoing_raw(query, input))
    }

    /// Asks something of the run and waits for the answer; see [`Updating`].
    pub fn update<I, O, F>(&self, update: Update<I, O, F>, input: impl Arg<I>) -> Updating<O, F> {
        Updating::new(Outgoing::new(self, update.name(), input.payload()))
    }

    /// Sends an update that this program knows by name only: JSON in, JSON out.
    pub fn update_raw(&self, update: &str, input: &Value) -> Updating<Value> {
        Updating::new(self.outgoing_raw(update, input))
    }

    fn outgoing_raw(&self, name: &str, content: &Value) -> Outgoing {
        Outgoing::new(self, name.to_owned(), Arg::<Value>::payload(content))
    }

    /// The state of a `#[workflow] impl` as JSON, if it serialises.
    pub fn state(&self) -> Asking<Value> {
        self.built_in(builtin_query::STATE)
    }

    /// Where the run's code waits: a line per branch, with file and line.
    pub fn stack(&self) -> Asking<String> {
        self.built_in(builtin_query::STACK)
    }

    /// What the run can be told and asked, as JSON: its signals, updates, queries, promises.
    pub fn handlers(&self) -> Asking<Value> {
        self.built_in(builtin_query::HANDLERS)
    }

    fn built_in<O>(&self, name: &'static str) -> Asking<O> {
        Asking::new(Outgoing::new(self, name, Arg::<()>::payload(())))
    }

    /// Asks the run to stop: what it waits for resolves as cancelled, its clean-up runs.
    ///
    /// # Errors
    /// [`CallError::Refused`] when there is no such run, or it has ended.
    pub async fn cancel(&self) -> Result<(), CallError> {
        Ok(self
            .app
            .port()
            .cancel(self.run.clone(), String::new(), None)
            .await?)
    }

    /// Ends the run at once; none of its code runs again.
    ///
    /// # Errors
    /// [`CallError::Refused`] when there is no such run, or it has ended.
    pub async fn terminate(&self, reason: impl Into<String>) -> Result<(), CallError> {
        Ok(self
            .app
            .port()
            .terminate(self.run.clone(), reason.into())
            .await?)
    }

    /// Lets a blocked run try again.
    ///
    /// # Errors
    /// [`CallError::Refused`] when there is no such run, or it has ended.
    pub async fn retry(&self) -> Result<(), CallError> {
        Ok(self.app.port().retry(self.run.clone()).await?)
    }

    /// How the run stands, what it waits for, and why it does not go on if it does not.
    ///
    /// # Errors
    /// [`CallError::Refused`] when there is no such run.
    pub async fn describe(&self) -> Result<Description, CallError> {
        Ok(self.app.port().describe(self.run.clone()).await?)
    }

    /// Why the run does not move, what counts most first, each with what would help.
    ///
    /// # Errors
    /// [`CallError::Refused`] when there is no such run.
    pub async fn why(&self) -> Result<Vec<Answer>, CallError> {
        let run = match self.describe().await {
            Err(CallError::Refused(Refusal::Quarantined { reason, .. })) => {
                return Ok(vec![why::damaged(&reason, "")]);
            }
            described => described?,
        };
        Ok(self.app.why(&run))
    }

    /// The run's history.
    ///
    /// # Errors
    /// [`CallError::Refused`] when there is no such run.
    pub async fn history(&self) -> Result<Vec<Event>, CallError> {
        Ok(self.app.port().history(self.run.clone()).await?)
    }
}

impl<T: Data, E: IntoFailure> Handle<T, E> {
    /// Waits for the end of the run and gives its result.
    ///
    /// # Errors
    /// How it failed, or why the backend cannot say.
    pub async fn result(&self) -> Result<T, CallError<E::Seen>> {
        let outcome = self.app.port().result(self.run.clone()).await?;
        read_outcome::<T, E>(
            &self.app,
            &self.workflow_type,
            &self.run.workflow_id,
            outcome,
        )
        .await
    }
}

/// The end of the chain: a run that went on as another has no result of its own.
async fn follow<E>(
    app: &App,
    workflow_id: &WorkflowId,
    mut outcome: RunOutcome,
) -> Result<RunOutcome, CallError<E>> {
    while let RunOutcome::ContinuedAsNew(next) = outcome {
        let run = RunRef {
            workflow_id: workflow_id.clone(),
            run_id: Some(next),
        };
        outcome = app.port().result(run).await?;
    }
    Ok(outcome)
}

/// The typed result of a chain of which one run has ended.
pub(crate) async fn read_outcome<T: Data, E: IntoFailure>(
    app: &App,
    workflow_type: &WorkflowType,
    workflow_id: &WorkflowId,
    outcome: RunOutcome,
) -> Result<T, CallError<E::Seen>> {
    let failure = match follow(app, workflow_id, outcome).await? {
        RunOutcome::Completed(result) => match result.decode() {
            Ok(value) => return Ok(value),
            Err(error) => {
                let wanted = rust_type::<T>();
                let doubt = mistyped(app, workflow_type, workflow_id).await;
                let text = format!("its result is not a `{wanted}`: {error}; {doubt}");
                FailureTrace::application(type_name::DECODE, text)
            }
        },
        RunOutcome::Failed(failure) => failure,
        RunOutcome::Canceled => FailureTrace::canceled("the run was cancelled"),
        RunOutcome::Terminated { reason } => FailureTrace::new(
            FailureKind::Terminated,
            format!("the run was terminated: {reason}"),
        ),
        RunOutcome::TimedOut => {
            let kind = TimeoutKind::ScheduleToClose;
            let kind = FailureKind::Timeout {
                kind,
                last_heartbeat: None,
            };
            FailureTrace::new(kind, "the run took longer than its run timeout")
        }
        // Results follow the chain; only one that was cut off ends here.
        RunOutcome::ContinuedAsNew(next) => FailureTrace::application(
            type_name::NOT_FOUND,
            format!("the run went on as {next}, which is not there"),
        ),
    };
    let origin = match workflow_type.as_str() {
        "" => format!("workflow {workflow_id} failed"),
        name => format!("workflow {name} ({workflow_id}) failed"),
    };
    Err(CallError::observe::<E>(Trace::of(origin, failure)))
}

/// Why a result has another type than was asked for: mostly the run is of another workflow.
async fn mistyped(app: &App, asked: &WorkflowType, workflow_id: &WorkflowId) -> String {
    let found = app.port().describe(RunRef::newest(workflow_id.clone()));
    match found.await {
        Ok(run) if run.summary.workflow_type != *asked => format!(
            "run {workflow_id} is of workflow {}, and workflow {asked} was asked for: give `get` \
             the one that it is",
            run.summary.workflow_type
        ),
        Ok(_) | Err(_) => format!(
            "the type wanted of workflow {asked} may be wrong: compare it with what the code that \
             ran it returns"
        ),
    }
}

impl<T, E> Clone for Handle<T, E> {
    fn clone(&self) -> Self {
        Self::new(
            self.app.clone(),
            self.workflow_type.clone(),
            self.run.clone(),
        )
    }
}

impl<T, E> fmt::Debug for Handle<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle")
            .field("workflow_type", &self.workflow_type)
            .field("run", &self.run)
            .finish()
    }
}
