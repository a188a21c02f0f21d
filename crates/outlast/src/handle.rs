//! A handle to a run: wait for it, talk to it, stop it, look at it.

use std::any::type_name as rust_type;
use std::fmt;
use std::future::{Future, IntoFuture};
use std::marker::PhantomData;
use std::pin::Pin;

use outlast_model::failure::type_name;
use outlast_model::payload::PayloadError;
use outlast_model::view::{Description, RunOutcome, RunRef};
use outlast_model::{
    Event, FailureKind, Payload, RequestId, RunId, SignalName, TimeoutKind, WorkflowId,
    WorkflowType,
};

use crate::arg::Arg;
use crate::call_error::{CallError, ENCODE};
use crate::client::App;
use crate::error::Error;
use crate::failure::{FailureTrace, IntoFailure};
use crate::signal::Signal;
use crate::trace::Trace;
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

    /// Sends a signal; `Ok` means that it is durable.
    pub fn send<S>(&self, signal: Signal<S>, content: impl Arg<S>) -> Sent {
        Sent::new(self, signal.name(), content.payload())
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
        read_outcome::<T, E>(&self.workflow_type, &self.run.workflow_id, outcome)
    }
}

/// The typed result of a run.
pub(crate) fn read_outcome<T: Data, E: IntoFailure>(
    workflow_type: &WorkflowType,
    workflow_id: &WorkflowId,
    outcome: RunOutcome,
) -> Result<T, CallError<E::Seen>> {
    let failure = match outcome {
        RunOutcome::Completed(result) => match result.decode() {
            Ok(value) => return Ok(value),
            Err(error) => FailureTrace::application(
                type_name::DECODE,
                format!("its result is not a `{}`: {error}", rust_type::<T>()),
            ),
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
    let origin = format!("workflow {workflow_type} ({workflow_id})");
    Err(CallError::observe::<E>(Trace::of(origin, failure)))
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

/// A signal on its way: `.await` returns when it is durable.
#[must_use = "nothing is sent until it is awaited"]
pub struct Sent {
    app: App,
    run: RunRef,
    name: &'static str,
    content: Result<Payload, PayloadError>,
    request_id: Option<String>,
}

impl Sent {
    pub(crate) fn new<T, E>(
        handle: &Handle<T, E>,
        name: &'static str,
        content: Result<Payload, PayloadError>,
    ) -> Self {
        let (app, run) = (handle.app.clone(), handle.run.clone());
        Self {
            app,
            run,
            name,
            content,
            request_id: None,
        }
    }

    /// The same request again, with the same id, has no further effect.
    pub fn request_id(mut self, id: impl Into<String>) -> Self {
        self.request_id = Some(id.into());
        self
    }
}

impl IntoFuture for Sent {
    type Output = Result<(), CallError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let content = self.content.map_err(|error| {
                let message = format!("the content of signal {}: {error}", self.name);
                CallError::Other(Trace::new(FailureTrace::application(ENCODE, message)))
            })?;
            let (name, request_id) = (SignalName::new(self.name), self.request_id);
            let request_id = request_id.map(RequestId::new);
            Ok(self
                .app
                .port()
                .signal(self.run, name, content, request_id)
                .await?)
        })
    }
}

impl fmt::Debug for Sent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sent")
            .field("signal", &self.name)
            .finish_non_exhaustive()
    }
}

/// Sends a signal for a generated handle.
pub fn send<T, E>(
    handle: &Handle<T, E>,
    name: &'static str,
    content: Result<Payload, PayloadError>,
) -> Sent {
    Sent::new(handle, name, content)
}
