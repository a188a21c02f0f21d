//! What passes between a backend and a worker: workflow tasks, attempts and their outcomes.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use crate::command::Command;
use crate::event::{ActivityScheduled, Event, Started, TaskFailedCause};
use crate::failure::Failure;
use crate::headers::Headers;
use crate::id::{
    ActivityType, Attempt, Epoch, Incarnation, PromiseId, QueryName, QueueName, RequestId, RunId,
    Seq, StepName, WorkflowId, WorkflowType,
};
use crate::job::Activation;
use crate::payload::Payload;
use crate::rest::Rest;
use crate::shared::Shared;
use crate::time::Timestamp;

/// The store's number of a run: dense, in order of starting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunNo(pub u64);

/// Names one hand-out of a workflow task. An answer with an old token is thrown away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskToken {
    /// Which run.
    pub run: RunNo,
    /// The run's epoch when the task was handed out.
    pub epoch: Epoch,
    /// Counts hand-outs.
    pub turn: u64,
}

/// Workflow code has something to see.
#[derive(Clone, Debug)]
pub struct WorkflowTask {
    /// To be given back with the answer.
    pub token: TaskToken,
    /// The run.
    pub run_id: RunId,
    /// The user's id.
    pub workflow_id: WorkflowId,
    /// The registered name.
    pub workflow_type: WorkflowType,
    /// The task queue of the run: whose code it is.
    pub queue: QueueName,
    /// What is new.
    pub activation: Activation,
    /// For a run whose instance is not in memory: everything before what is new.
    pub history: Option<Vec<Event>>,
    /// Questions about its settled state. They come alone: the activation has no jobs then, and
    /// the answer is [`TaskAnswer::Queried`].
    pub queries: Vec<Query>,
    /// Who makes its rounds.
    pub rounds: Rounds,
}

/// Who makes the rounds of a workflow task: the activation, and what follows from its commands
/// before anything else happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounds {
    /// The runtime: it resolves what was cancelled, and replays the history it is given.
    Runtime,
    /// The backend: an activation is one round, replayed ones too, and the instance stays, even
    /// of a run that has ended, until the backend wants it forgotten.
    Backend,
}

/// A question about the state of a run. It changes nothing and is never recorded.
#[derive(Clone, Debug, PartialEq)]
pub struct Query {
    /// Its handler.
    pub name: QueryName,
    /// Its content.
    pub input: Payload,
    /// What travels with it.
    pub headers: Headers,
}

/// Names of the queries that every run answers.
pub mod builtin_query {
    /// The branches that wait, with `file:line`, as text.
    pub const STACK: &str = "__outlast_stack";
    /// The state as JSON.
    pub const STATE: &str = "__outlast_state";
    /// The handlers of messages, as JSON.
    pub const HANDLERS: &str = "__outlast_handlers";
}

/// The signal that settles a promise; its payload says which and how.
pub const PROMISE_SIGNAL: &str = "__outlast_promise";

/// The request id of whatever settles this promise: the first one counts, by the same rule that
/// keeps a repeated message from having its effect twice.
pub fn promise_request(promise: &PromiseId) -> RequestId {
    RequestId::new(alloc::format!("{PROMISE_SIGNAL}/{promise}"))
}

/// Whether a request settles a promise.
pub fn is_settlement(request: &RequestId) -> bool {
    let id = request.as_str().strip_prefix(PROMISE_SIGNAL);
    id.is_some_and(|id| id.starts_with('/'))
}

/// The promise that a request settles, if it is of that kind.
pub fn settled_promise(request: &RequestId) -> Option<PromiseId> {
    let id = request.as_str().strip_prefix(PROMISE_SIGNAL)?;
    Some(PromiseId::new(id.strip_prefix('/')?))
}

/// The answer to a workflow task.
#[derive(Clone, Debug)]
pub enum TaskAnswer {
    /// All branches wait, or the run has ended.
    Completed {
        /// What the code asked for, in its order; a closing command is the last.
        commands: Vec<Command>,
        /// What else there is to say.
        notes: Notes,
    },
    /// The answers to the task's queries, in their order.
    Queried(Vec<Result<Payload, Failure>>),
    /// The code could not go on.
    Failed {
        /// Why, for a program.
        cause: TaskFailedCause,
        /// Why, for a person.
        failure: Failure,
    },
}

/// What workflow code had to say in a slice that is no failure.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notes {
    /// For people: handlers that failed or were left unfinished, commands made too late.
    pub texts: Vec<String>,
    /// Signals that nobody has taken, now.
    pub unhandled_signals: u32,
    /// Where it rests and what it has not taken, if that is known.
    pub rest: Option<Box<Rest>>,
    /// For people: calls that replay found changed. Replay finds them again and again: noted once.
    pub changed: Option<String>,
}

/// Names one attempt: an outcome is refused if any part differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttemptToken {
    /// Where its run is kept in this process.
    pub shard: u32,
    /// Which run.
    pub run: RunNo,
    /// Activity or step.
    pub kind: AttemptKind,
    /// Which one.
    pub seq: Seq,
    /// Which attempt.
    pub attempt: Attempt,
    /// Which process runs it.
    pub incarnation: Incarnation,
}

/// One attempt of an activity, as somebody outside names it who will answer for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenAttempt {
    /// The very run: a run that continues it has activities of its own.
    pub run_id: RunId,
    /// Which activity.
    pub seq: Seq,
    /// Which attempt.
    pub attempt: Attempt,
    /// Which process ran it.
    pub incarnation: Incarnation,
}

/// What an attempt is an attempt of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AttemptKind {
    /// A registered function.
    Activity,
    /// A closure of a workflow instance.
    Step,
}

/// What a slot is the right to run one of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SlotKind {
    /// A slice of workflow code.
    Workflow,
    /// An attempt of an activity.
    Activity,
    /// An attempt of a step.
    Step,
}

impl From<AttemptKind> for SlotKind {
    fn from(kind: AttemptKind) -> Self {
        match kind {
            AttemptKind::Activity => Self::Activity,
            AttemptKind::Step => Self::Step,
        }
    }
}

/// The answer to whoever wants a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permit {
    /// It is taken, and must be given back.
    Taken,
    /// All are in use: ask again when one was given back.
    Full,
    /// Not now: ask again after this time, or when one was given back.
    Later(Duration),
}

/// One attempt of an activity, ready to run.
#[derive(Clone, Debug, PartialEq)]
pub struct ActivityTask {
    /// To be given back with the outcome.
    pub token: AttemptToken,
    /// The run.
    pub run_id: RunId,
    /// The user's id of the run.
    pub workflow_id: WorkflowId,
    /// What to run.
    pub activity_type: ActivityType,
    /// The task queue it waited in: whose code it is, and whose slot it holds.
    pub queue: QueueName,
    /// Its input.
    pub input: Payload,
    /// What came with it.
    pub headers: Headers,
    /// The newest details an earlier attempt reported.
    pub heartbeat_details: Option<Payload>,
    /// When the activity was asked for.
    pub scheduled: Timestamp,
    /// How long this attempt may take.
    pub start_to_close: Option<Duration>,
    /// How often it must report.
    pub heartbeat: Option<Duration>,
}

/// One attempt of an activity that was handed out. It refers to what is known anyway; whoever begins
/// it makes its task, on a thread of its own: a fan-out hands out hundreds at once.
#[derive(Clone, Debug, PartialEq)]
pub struct ActivityOrder {
    /// To be given back with the outcome.
    pub token: AttemptToken,
    /// The start of the run.
    pub run: Shared<Started>,
    /// What was asked for.
    pub activity: Shared<ActivityScheduled>,
    /// When.
    pub at: Timestamp,
    /// The newest details an earlier attempt reported. Boxed: few have any.
    pub heartbeat_details: Option<Box<Payload>>,
}

impl ActivityOrder {
    /// Everything the attempt needs.
    pub fn task(&self) -> ActivityTask {
        let activity = &*self.activity;
        ActivityTask {
            token: self.token,
            run_id: self.run.run_id,
            workflow_id: self.run.workflow_id.clone(),
            activity_type: activity.activity_type.clone(),
            queue: activity.queue.clone(),
            input: activity.input.clone(),
            headers: activity.headers.clone(),
            heartbeat_details: self.heartbeat_details.as_deref().cloned(),
            scheduled: self.at,
            start_to_close: activity.options.start_to_close,
            heartbeat: activity.options.heartbeat,
        }
    }
}

/// One attempt of a step: its code is with the instance.
#[derive(Clone, Debug, PartialEq)]
pub struct StepTask {
    /// To be given back with the outcome.
    pub token: AttemptToken,
    /// The run.
    pub run_id: RunId,
    /// Its name.
    pub name: StepName,
    /// The task queue of the run: whose slot it holds.
    pub queue: QueueName,
}

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq)]
pub enum AttemptResult {
    /// With a result.
    Completed(Payload),
    /// With a failure; the retry policy decides what follows.
    Failed(Failure),
    /// Because it was asked to stop.
    Canceled(Option<Payload>),
    /// It did not begin, or stopped because its worker goes down: whoever comes next tries the
    /// same attempt again, and none of its retry policy is used up.
    HandedBack,
    /// Not yet: its code has returned, and somebody outside will answer.
    Later,
}

/// An attempt and how it ended.
#[derive(Clone, Debug, PartialEq)]
pub struct AttemptOutcome {
    /// Which attempt.
    pub token: AttemptToken,
    /// How it ended.
    pub result: AttemptResult,
}

/// Why a running attempt should stop. What an attempt that stops with a cancel error then means
/// follows from it; a result or an error of its own is one, whatever the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// Workflow code asked for it: the activity is cancelled.
    Cancelled,
    /// One of its timeouts passed; its outcome will not count.
    TimedOut,
    /// Its run is gone; its outcome will not count.
    NotFound,
    /// The worker goes down: the attempt is handed back.
    Shutdown,
    /// An operator paused the activity: the attempt is handed back.
    Paused,
    /// An operator reset the activity: the attempt is handed back, and begins again from 1.
    Reset,
}
