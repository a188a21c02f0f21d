//! Why a request was not carried out: one variant per remedy, each with a stable code, the id
//! concerned and the next step. Nothing is written when a request is refused, with three exceptions:
//! [`Refusal::Indeterminate`] and [`Refusal::Unanswered`] mean exactly that we cannot know, and of
//! [`Refusal::NotAwaited`] the run is there.

use alloc::boxed::Box;
use alloc::string::String;

use crate::failure::Failure;
use crate::id::{Attempt, PromiseId, RunId, Seq, UpdateId, WorkflowId};
use crate::status::Status;

/// Why a request was not carried out.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The id, name or text is not acceptable.
    #[error("{what} {value:?} is not valid: {why}")]
    InvalidId {
        /// What it was meant to be.
        what: &'static str,
        /// The value, cut.
        value: String,
        /// The rule it breaks.
        why: &'static str,
    },
    /// A payload is over the limit.
    #[error(
        "{what} of {workflow_id} has {size} bytes, the limit is {limit}: store the data elsewhere and pass a reference"
    )]
    TooLarge {
        /// What it is.
        what: &'static str,
        /// Whose.
        workflow_id: WorkflowId,
        /// Its size.
        size: usize,
        /// The limit.
        limit: usize,
    },
    /// No worker of this application has the type.
    #[error("no worker has {kind} {name:?}: add .{kind}({name}) to the builder")]
    NotRegistered {
        /// `workflow` or `activity`.
        kind: &'static str,
        /// Its name.
        name: String,
    },
    /// A run with this id exists and the policy says no.
    #[error(
        "workflow {workflow_id} already has run {run_id} ({status}): app.get(workflow, {workflow_id:?}) finds it; to start one more choose another id, or a policy with .conflict(..) (while it is open) or .reuse(..) (when it has ended)"
    )]
    AlreadyStarted {
        /// The id.
        workflow_id: WorkflowId,
        /// Its run.
        run_id: RunId,
        /// Where that stands.
        status: Status,
    },
    /// There is no such run.
    #[error("no run for {what:?}: list them with `outlast ls --db FILE`")]
    NotFound {
        /// Workflow id or run id, as given.
        what: String,
    },
    /// The run has ended.
    #[error("run {run_id} of {workflow_id} has ended ({status})")]
    RunClosed {
        /// The id.
        workflow_id: WorkflowId,
        /// The run.
        run_id: RunId,
        /// How it ended.
        status: Status,
    },
    /// The history is at its limit; only the end of the run can be recorded.
    #[error(
        "history of {workflow_id} is full ({events} events, {bytes} bytes): terminate it, or let it continue as new earlier"
    )]
    HistoryFull {
        /// The id.
        workflow_id: WorkflowId,
        /// Its events.
        events: u64,
        /// Its bytes.
        bytes: u64,
    },
    /// The promise has its outcome; this one does not count.
    #[error("promise {promise} of {workflow_id} was settled before: the first outcome counts")]
    AlreadyResolved {
        /// The run's id.
        workflow_id: WorkflowId,
        /// The promise.
        promise: PromiseId,
    },
    /// Nobody waits for this answer: the attempt was answered before, ran out of time or was lost.
    #[error(
        "attempt {attempt} of activity {seq} of {workflow_id} waits for no answer: it has one, or it ran out of time; see `outlast show {workflow_id}`"
    )]
    AttemptEnded {
        /// The run's id.
        workflow_id: WorkflowId,
        /// The activity.
        seq: Seq,
        /// The attempt.
        attempt: Attempt,
    },
    /// The query's handler failed, or there is none.
    #[error("query {query:?} of {workflow_id} failed: {}", failure.message)]
    QueryFailed {
        /// The run's id.
        workflow_id: WorkflowId,
        /// The query.
        query: String,
        /// Why; an unknown query names the known ones.
        failure: Box<Failure>,
    },
    /// The run cannot answer now: its code cannot go on.
    #[error("run {run_id} of {workflow_id} cannot answer: {why}; see `outlast why {workflow_id}`")]
    NotReady {
        /// The id.
        workflow_id: WorkflowId,
        /// The run.
        run_id: RunId,
        /// What stands in the way.
        why: String,
    },
    /// The disk has no room; nothing was written.
    #[error("the store has no room: free disk space, work goes on by itself")]
    StoreFull,
    /// The store failed under the request: it may or may not have been carried out.
    #[error(
        "the store failed while the request was under way, so its outcome is unknown: {reason}; repeat it with the same request id"
    )]
    Indeterminate {
        /// What the store said.
        reason: String,
    },
    /// The store cannot answer now; nothing was written.
    #[error("the store is not available: {reason}")]
    Unavailable {
        /// What it said.
        reason: String,
    },
    /// The application is going down; nothing was written.
    #[error("the application is shutting down")]
    ShuttingDown,
    /// The application went down while a caller waited for the end of a run that it had started, or
    /// found: the run is there.
    #[error(
        "the application is shutting down; run {run_id} of {workflow_id:?} is there and goes on when it starts again: wait for its result then"
    )]
    NotAwaited {
        /// Whose.
        workflow_id: WorkflowId,
        /// The run.
        run_id: RunId,
    },
    /// The application went down before an update was answered: it may have been taken.
    #[error(
        "the application is shutting down and did not answer update {update:?} of {workflow_id:?}, which it may have taken: ask again with the same update id when it has started again"
    )]
    Unanswered {
        /// Whose.
        workflow_id: WorkflowId,
        /// The update.
        update: UpdateId,
    },
    /// The run's state contradicts itself; it was set aside, nothing was written.
    #[error("run {run_id} is set aside: {reason}; export its history and report it")]
    Quarantined {
        /// The run.
        run_id: RunId,
        /// What was found.
        reason: String,
    },
    /// The cluster does not let this client in.
    #[error(
        "the cluster does not let this client in: {reason}; check TEMPORAL_API_KEY or the client certificate, and its rights in the namespace"
    )]
    Denied {
        /// What it said.
        reason: String,
    },
    /// The cluster has no such namespace.
    #[error(
        "the cluster has no namespace {namespace:?}: correct the URL, or create it with `temporal operator namespace create -n {namespace}`"
    )]
    NoNamespace {
        /// The namespace.
        namespace: String,
    },
    /// The cluster runs a server that lacks what Outlast needs.
    #[error("the cluster is too old: {reason}; it needs a Temporal server of {minimum} or newer")]
    TooOld {
        /// What it runs, or lacks.
        reason: String,
        /// The oldest version that will do.
        minimum: &'static str,
    },
    /// This backend has no such operation.
    #[error("this backend cannot {what}: {instead}")]
    Unsupported {
        /// What was asked.
        what: &'static str,
        /// What to do instead.
        instead: &'static str,
    },
}

impl Refusal {
    /// A stable code for programs and for the manual.
    pub fn code(&self) -> &'static str {
        match self {
            Self::InvalidId { .. } => "OL-1001",
            Self::TooLarge { .. } => "OL-1002",
            Self::NotRegistered { .. } => "OL-1003",
            Self::AlreadyStarted { .. } => "OL-1004",
            Self::NotFound { .. } => "OL-1005",
            Self::RunClosed { .. } => "OL-1006",
            Self::HistoryFull { .. } => "OL-1007",
            Self::AlreadyResolved { .. } => "OL-1008",
            Self::QueryFailed { .. } => "OL-1009",
            Self::NotReady { .. } => "OL-1010",
            Self::AttemptEnded { .. } => "OL-1011",
            Self::StoreFull => "OL-2001",
            Self::Indeterminate { .. } => "OL-2002",
            Self::Unavailable { .. } => "OL-2003",
            Self::ShuttingDown => "OL-2004",
            Self::NotAwaited { .. } => "OL-2020",
            Self::Unanswered { .. } => "OL-2021",
            Self::Quarantined { .. } => "OL-3001",
            Self::Denied { .. } => "OL-4001",
            Self::NoNamespace { .. } => "OL-4002",
            Self::TooOld { .. } => "OL-4003",
            Self::Unsupported { .. } => "OL-4004",
        }
    }
}
