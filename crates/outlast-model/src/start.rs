//! What a caller says to start a run.

use alloc::boxed::Box;
use core::time::Duration;

use minicbor::{Decode, Encode};

use crate::event::{Parent, UpdateOutcome};
use crate::failure::Failure;
use crate::headers::Headers;
use crate::id::{QueueName, RequestId, RunId, SignalName, WorkflowId, WorkflowType};
use crate::options::Priority;
use crate::payload::Payload;

/// A request to start a run. Ids are made by the caller: the rules know no randomness.
#[derive(Clone, Debug, PartialEq)]
pub struct StartRequest {
    /// The user's id.
    pub workflow_id: WorkflowId,
    /// The id of the run, should it be started.
    pub run_id: RunId,
    /// The registered name.
    pub workflow_type: WorkflowType,
    /// Where its tasks wait.
    pub queue: QueueName,
    /// Its input.
    pub input: Payload,
    /// The same request again is answered with the same run.
    pub request_id: Option<RequestId>,
    /// What if a run with this id is open.
    pub conflict: ConflictPolicy,
    /// What if a run with this id has ended.
    pub reuse: ReusePolicy,
    /// How long the run may take.
    pub run_timeout: Option<Duration>,
    /// After how long a worker that says nothing counts as dead: a cluster hands its workflow
    /// task to another one then. An engine in the worker's own process knows without it.
    pub task_timeout: Option<Duration>,
    /// How urgent it is, and what it calls; a child's is its parent's business.
    pub priority: Option<Priority>,
    /// The run that starts it as its child.
    pub parent: Option<Box<Parent>>,
    /// What travels with it.
    pub headers: Headers,
}

/// A message to a run.
#[derive(Clone, Debug, PartialEq)]
pub struct SignalRequest {
    /// Its name.
    pub name: SignalName,
    /// Its content.
    pub input: Payload,
    /// The same request again has its effect once.
    pub request_id: Option<RequestId>,
    /// What travels with it.
    pub headers: Headers,
}

/// How far an update must have come before its caller is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum UpdateStage {
    /// It passed its validator, durably.
    Accepted,
    /// It has its outcome, durably.
    Completed,
}

/// How far an update has come.
#[derive(Clone, Debug, PartialEq)]
pub enum UpdateReply {
    /// It passed its validator and runs.
    Accepted,
    /// It has its outcome.
    Done(UpdateOutcome),
    /// It was turned away: by its validator, or because nobody handles it.
    Rejected(Failure),
}

/// What to do when a run with the same id is open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ConflictPolicy {
    /// Refuse with `AlreadyStarted`.
    #[default]
    Fail,
    /// Answer with the open run.
    UseExisting,
    /// End the open run and start anew.
    TerminateExisting,
}

/// What to do when a run with the same id has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum ReusePolicy {
    /// Start anew.
    #[default]
    #[n(1)]
    AllowDuplicate,
    /// Start anew unless it completed.
    #[n(2)]
    AllowDuplicateFailedOnly,
    /// Refuse with `AlreadyStarted`.
    #[n(3)]
    RejectDuplicate,
    /// Answer with the ended run: `run(..).id(x)` attaches.
    #[n(4)]
    UseExisting,
}

/// The answer to a start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StartReply {
    /// The run that answers to the id now.
    pub run_id: RunId,
    /// Whether this request started it.
    pub started: bool,
}
