//! What a caller says to start a run.

use core::time::Duration;

use crate::id::{QueueName, RequestId, RunId, WorkflowId, WorkflowType};
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReusePolicy {
    /// Start anew.
    #[default]
    AllowDuplicate,
    /// Start anew unless it completed.
    AllowDuplicateFailedOnly,
    /// Refuse with `AlreadyStarted`.
    RejectDuplicate,
    /// Answer with the ended run: `run(..).id(x)` attaches.
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
