//! The application, seen by whoever starts runs and asks about them.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, OnceLock};

use outlast_model::view::{ListFilter, RunRef, Summary};
use outlast_model::{QueueName, RunId, WorkflowId};
use outlast_worker::port::ClientPort;
use serde_json::Value;

use crate::arg::Arg;
use crate::call_error::CallError;
use crate::error::Error;
use crate::handle::Handle;
use crate::intercept::Interceptors;
use crate::start::{Draft, Run, Start};
use crate::witness::Witness;
use crate::workflow::Workflow;

/// Makes ids of runs: the one source of randomness on the client's side.
pub(crate) type Ids = Arc<dyn Fn() -> RunId + Send + Sync>;

/// A running application. Cheap to clone.
#[derive(Clone)]
pub struct App {
    inner: Arc<Inner>,
}

struct Inner {
    port: Arc<dyn ClientPort>,
    ids: Ids,
    queue: QueueName,
    /// What lives as long as the application: engine threads, the store.
    keep: Option<Arc<dyn Any + Send + Sync>>,
    /// What a test must not see.
    witness: OnceLock<Witness>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        // First the end, during which there is still something to see.
        self.keep = None;
        if let Some(witness) = self.witness.get() {
            witness.speak();
        }
    }
}

impl App {
    /// A client of a backend; runs wait in `queue` unless they say otherwise. `keep` is dropped
    /// with the last clone.
    pub(crate) fn new(
        port: Arc<dyn ClientPort>,
        ids: Ids,
        queue: QueueName,
        keep: Option<Arc<dyn Any + Send + Sync>>,
    ) -> Self {
        Self {
            inner: Arc::new(Inner {
                port,
                ids,
                queue,
                keep,
                witness: OnceLock::new(),
            }),
        }
    }

    /// The same application, with interceptors before everything it is asked for.
    pub(crate) fn behind(self, interceptors: &Interceptors) -> Self {
        let inner = &self.inner;
        Self::new(
            interceptors.before(inner.port.clone()),
            inner.ids.clone(),
            inner.queue.clone(),
            inner.keep.clone(),
        )
    }

    /// The same application; whoever ends it hears what the witness saw.
    pub(crate) fn witnessed(self, witness: Witness) -> Self {
        drop(self.inner.witness.set(witness));
        self
    }

    pub(crate) fn witness(&self) -> Option<&Witness> {
        self.inner.witness.get()
    }

    /// Starts a workflow; awaiting gives its handle when the start is durable.
    pub fn start<W, K>(
        &self,
        workflow: W,
        input: impl Arg<W::Input>,
    ) -> Start<W::Output, W::Error, W::Handle>
    where
        W: Workflow<K>,
    {
        Start::new(Draft::new(self.clone(), workflow.name(), input.payload()))
    }

    /// Starts a workflow and waits for its result. With `.id(x)` it attaches: to an open run of
    /// that id, to the result of a completed one, to the error of a failed one.
    pub fn run<W, K>(&self, workflow: W, input: impl Arg<W::Input>) -> Run<W::Output, W::Error>
    where
        W: Workflow<K>,
    {
        Run::new(Draft::new(self.clone(), workflow.name(), input.payload()))
    }

    /// Starts a workflow that this program knows by name only: JSON in, JSON out.
    pub fn start_raw(&self, workflow: &str, input: &Value) -> Start<Value, Error, Handle<Value>> {
        Start::new(self.draft_raw(workflow, input))
    }

    /// As [`run`](Self::run), for a workflow that this program knows by name only.
    pub fn run_raw(&self, workflow: &str, input: &Value) -> Run<Value, Error> {
        Run::new(self.draft_raw(workflow, input))
    }

    fn draft_raw(&self, workflow: &str, input: &Value) -> Draft {
        let payload = Arg::<Value>::payload(input);
        Draft::new(self.clone(), workflow.to_owned(), payload)
    }

    /// The handle of the newest run of an id, whatever its type.
    pub fn get_raw(&self, id: impl AsRef<str>) -> Handle<Value> {
        let run = RunRef::newest(WorkflowId::new(id.as_ref()));
        Handle::new(self.clone(), "".into(), run)
    }

    /// The handle of the newest run of an id; whether there is one shows at its first use.
    pub fn get<W, K>(&self, workflow: W, id: impl AsRef<str>) -> W::Handle
    where
        W: Workflow<K>,
    {
        let run = RunRef::newest(WorkflowId::new(id.as_ref()));
        Handle::new(self.clone(), workflow.name().into(), run).into()
    }

    /// Runs that match, newest first.
    ///
    /// # Errors
    /// [`CallError::Refused`] when the store cannot answer.
    pub async fn list(&self, filter: ListFilter) -> Result<Vec<Summary>, CallError> {
        Ok(self.port().list(filter).await?)
    }

    /// What the builder gave to be kept.
    pub(crate) fn kept(&self) -> Option<&Arc<dyn Any + Send + Sync>> {
        self.inner.keep.as_ref()
    }

    pub(crate) fn port(&self) -> &dyn ClientPort {
        &*self.inner.port
    }

    pub(crate) fn new_run_id(&self) -> RunId {
        (self.inner.ids)()
    }

    pub(crate) fn queue(&self) -> &QueueName {
        &self.inner.queue
    }
}

impl fmt::Debug for App {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("App")
            .field("queue", &self.inner.queue)
            .finish_non_exhaustive()
    }
}
