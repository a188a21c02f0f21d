//! Starting runs: what a caller may say, postfix, before awaiting.

use std::borrow::Cow;
use std::fmt;
use std::future::{Future, IntoFuture};
use std::marker::PhantomData;
use std::pin::Pin;
use std::time::Duration;

use outlast_model::start::{ConflictPolicy, ReusePolicy, StartReply, StartRequest};
use outlast_model::view::RunRef;
use outlast_model::{
    Headers, Priority, QueueName, Refusal, RequestId, RunId, WorkflowId, WorkflowType,
};

use crate::call_error::{CallError, ENCODE};
use crate::client::App;
use crate::failure::{FailureTrace, IntoFailure};
use crate::handle::{Handle, read_outcome};
use crate::outgoing::Encoded;
use crate::trace::Trace;
use crate::wire::Data;

type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A start that is still being described.
pub(crate) struct Draft {
    pub(crate) app: App,
    pub(crate) workflow_type: Cow<'static, str>,
    input: Encoded,
    id: Option<String>,
    request_id: Option<String>,
    pub(crate) conflict: Option<ConflictPolicy>,
    reuse: ReusePolicy,
    run_timeout: Option<Duration>,
    task_timeout: Option<Duration>,
    priority: Option<Priority>,
    queue: Option<String>,
    headers: Headers,
}

impl Draft {
    pub(crate) fn new(
        app: App,
        workflow_type: impl Into<Cow<'static, str>>,
        input: Encoded,
    ) -> Self {
        Self {
            app,
            workflow_type: workflow_type.into(),
            input,
            id: None,
            request_id: None,
            conflict: None,
            reuse: ReusePolicy::default(),
            run_timeout: None,
            task_timeout: None,
            priority: None,
            queue: None,
            headers: Headers::new(),
        }
    }

    /// The request, and the application to send it to. Ids and sizes are checked by the service.
    pub(crate) fn request<E>(self) -> Result<(App, StartRequest), CallError<E>> {
        let run_id = self.app.new_run_id();
        let input = self.input.map_err(|error| {
            let message = format!("the input of workflow {}: {error}", self.workflow_type);
            CallError::Other(Trace::new(FailureTrace::application(ENCODE, message)))
        })?;
        let id = self
            .id
            .unwrap_or_else(|| own_id(&self.workflow_type, run_id));
        let request = StartRequest {
            workflow_id: WorkflowId::new(id),
            run_id,
            workflow_type: WorkflowType::new(&*self.workflow_type),
            queue: self
                .queue
                .map_or_else(|| self.app.queue().clone(), QueueName::new),
            input,
            request_id: self.request_id.map(RequestId::new),
            conflict: self.conflict.unwrap_or_default(),
            reuse: self.reuse,
            run_timeout: self.run_timeout,
            task_timeout: self.task_timeout,
            priority: self.priority,
            parent: None,
            headers: self.headers,
        };
        Ok((self.app, request))
    }
}

/// The id of a workflow whose caller gives none: its type and the random end of the run's id
/// (the beginning is the time, which neighbours share).
fn own_id(workflow_type: &str, run_id: RunId) -> String {
    format!("{workflow_type}-{:012x}", run_id.0 & 0xffff_ffff_ffff)
}

impl fmt::Debug for Draft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Draft")
            .field("workflow_type", &self.workflow_type)
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

/// A start: `.await` gives the handle.
#[must_use = "nothing is started until it is awaited"]
pub struct Start<T, E, H> {
    pub(crate) draft: Draft,
    types: Types<T, E, H>,
}

type Types<T, E, H> = PhantomData<fn() -> (T, E, H)>;

impl<T, E, H> Start<T, E, H> {
    pub(crate) fn new(draft: Draft) -> Self {
        Self {
            draft,
            types: PhantomData,
        }
    }

    /// The workflow's id: unique among open runs. Without one it gets an id of its own.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.draft.id = Some(id.into());
        self
    }

    /// The same request again, with the same id, is answered with the same run.
    pub fn request_id(mut self, id: impl Into<String>) -> Self {
        self.draft.request_id = Some(id.into());
        self
    }

    /// What if a run with this id is open: refuse, unless told otherwise.
    pub fn conflict(mut self, policy: ConflictPolicy) -> Self {
        self.draft.conflict = Some(policy);
        self
    }

    /// What if a run with this id has ended: start anew, unless told otherwise.
    pub fn reuse(mut self, policy: ReusePolicy) -> Self {
        self.draft.reuse = policy;
        self
    }

    /// How long the run may take.
    pub fn run_timeout(mut self, limit: Duration) -> Self {
        self.draft.run_timeout = Some(limit);
        self
    }

    /// On a cluster: after how long a worker that says nothing counts as dead, and its workflow
    /// task goes to another one; 10 s unless told otherwise. Embedded, an application that starts
    /// again goes on at once, and this has no meaning.
    pub fn task_timeout(mut self, limit: Duration) -> Self {
        self.draft.task_timeout = Some(limit);
        self
    }

    /// How urgent it is, and all it calls, unless a call says otherwise: from 1, first, to 5, last.
    pub fn priority(mut self, key: u8) -> Self {
        self.draft.priority = Some(Priority::new(key));
        self
    }

    /// The task queue its tasks wait in.
    pub fn queue(mut self, queue: impl Into<String>) -> Self {
        self.draft.queue = Some(queue.into());
        self
    }

    /// What travels with it: interceptors write and read it.
    pub fn headers(mut self, headers: Headers) -> Self {
        self.draft.headers = headers;
        self
    }
}

impl<T, E, H> IntoFuture for Start<T, E, H>
where
    T: Data,
    E: IntoFailure,
    H: From<Handle<T, E>> + 'static,
{
    type Output = Result<H, CallError>;
    type IntoFuture = BoxFuture<Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let (app, request) = self.draft.request()?;
            let started = Starting::new(app, &request);
            let reply = started.app.port().start(request).await?;
            Ok(started.handle(reply).into())
        })
    }
}

impl<T, E, H> fmt::Debug for Start<T, E, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.draft.fmt(f)
    }
}

/// A start that is under way, and what its handle will be made of.
pub(crate) struct Starting {
    pub(crate) app: App,
    workflow_type: WorkflowType,
    workflow_id: WorkflowId,
}

impl Starting {
    pub(crate) fn new(app: App, request: &StartRequest) -> Self {
        Self {
            app,
            workflow_type: request.workflow_type.clone(),
            workflow_id: request.workflow_id.clone(),
        }
    }

    pub(crate) fn handle<T, E>(self, reply: StartReply) -> Handle<T, E> {
        let run = RunRef {
            workflow_id: self.workflow_id,
            run_id: Some(reply.run_id),
        };
        Handle::new(self.app, self.workflow_type, run)
    }
}

/// A start, or an attachment to a run, that waits for the result.
#[must_use = "nothing is started until it is awaited"]
pub struct Run<T, E> {
    draft: Draft,
    is_again: bool,
    types: PhantomData<fn() -> (T, E)>,
}

impl<T, E> Run<T, E> {
    pub(crate) fn new(draft: Draft) -> Self {
        Self {
            draft,
            is_again: false,
            types: PhantomData,
        }
    }

    /// The workflow's id. An open run of it is waited for, a completed one gives its result, a
    /// failed one its error.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.draft.id = Some(id.into());
        self.draft.conflict = Some(ConflictPolicy::UseExisting);
        if !self.is_again {
            self.draft.reuse = ReusePolicy::UseExisting;
        }
        self
    }

    /// If the newest run of the id did not complete, starts a new one instead of giving its
    /// error.
    pub fn again(mut self) -> Self {
        self.is_again = true;
        self.draft.reuse = ReusePolicy::AllowDuplicateFailedOnly;
        self
    }

    /// The same request again, with the same id, is answered with the same run.
    pub fn request_id(mut self, id: impl Into<String>) -> Self {
        self.draft.request_id = Some(id.into());
        self
    }

    /// How long the run may take.
    pub fn run_timeout(mut self, limit: Duration) -> Self {
        self.draft.run_timeout = Some(limit);
        self
    }

    /// On a cluster: after how long a worker that says nothing counts as dead, and its workflow
    /// task goes to another one; 10 s unless told otherwise. Embedded, an application that starts
    /// again goes on at once, and this has no meaning.
    pub fn task_timeout(mut self, limit: Duration) -> Self {
        self.draft.task_timeout = Some(limit);
        self
    }

    /// How urgent it is, and all it calls, unless a call says otherwise: from 1, first, to 5, last.
    pub fn priority(mut self, key: u8) -> Self {
        self.draft.priority = Some(Priority::new(key));
        self
    }

    /// The task queue its tasks wait in.
    pub fn queue(mut self, queue: impl Into<String>) -> Self {
        self.draft.queue = Some(queue.into());
        self
    }

    /// What travels with it: interceptors write and read it.
    pub fn headers(mut self, headers: Headers) -> Self {
        self.draft.headers = headers;
        self
    }
}

impl<T: Data, E: IntoFailure> IntoFuture for Run<T, E> {
    type Output = Result<T, CallError<E::Seen>>;
    type IntoFuture = BoxFuture<Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        let is_again = self.is_again;
        Box::pin(async move {
            let (app, request) = self.draft.request()?;
            let (workflow_type, workflow_id) =
                (request.workflow_type.clone(), request.workflow_id.clone());
            let outcome = match app.port().run(request).await {
                Ok((_, outcome)) => outcome,
                // Only a completed run is in the way of `again`: its result is the answer.
                Err(Refusal::AlreadyStarted {
                    workflow_id,
                    run_id,
                    ..
                }) if is_again => {
                    app.port()
                        .result(RunRef {
                            workflow_id,
                            run_id: Some(run_id),
                        })
                        .await?
                }
                Err(refusal) => return Err(refusal.into()),
            };
            read_outcome::<T, E>(&app, &workflow_type, &workflow_id, outcome).await
        })
    }
}

impl<T, E> fmt::Debug for Run<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.draft.fmt(f)
    }
}

#[cfg(test)]
pub(crate) mod script;
#[cfg(test)]
mod tests;
