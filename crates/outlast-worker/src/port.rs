//! The backend port: where runs live, seen from whoever runs user code. Two halves: a worker
//! asks for work and answers; a client starts runs and asks about them.
//!
//! The worker half is synchronous and belongs to an engine thread: `next_task` applies what
//! waits and hands out a slice, `complete_task` applies its answer. The worker cannot tell which
//! backend it talks to.

use std::future::Future;
use std::pin::Pin;

use outlast_model::event::{Event, UpdateRequest};
use outlast_model::start::{SignalRequest, StartReply, StartRequest, UpdateReply, UpdateStage};
use outlast_model::task::{
    ActivityTask, AttemptOutcome, AttemptResult, AttemptToken, Query, StopReason, TaskAnswer,
    TaskToken, WorkflowTask,
};
use outlast_model::view::{Description, ListFilter, RunOutcome, RunRef, Summary};
use outlast_model::{AnswerToken, Failure, Payload, Refusal, RequestId, RunId};

/// The right of one engine thread to drive one shard. A thread that lost its shard to a spare
/// one learns so by [`Next::Replaced`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lane {
    /// Which shard.
    pub shard: usize,
    /// Which driver of it, counting from the first.
    pub driver: u64,
}

/// What an engine thread does next.
#[derive(Debug)]
pub enum Next {
    /// Run a slice.
    Task(Box<WorkflowTask>),
    /// Forget this instance: its run was reset, ended or moved.
    Evict(RunId),
    /// Another thread drives the shard now: drop all instances and leave.
    Replaced,
    /// The backend has shut down: drop all instances and leave.
    Shutdown,
}

/// The worker half.
pub trait WorkerPort: Send + Sync {
    /// How many shards there are to drive.
    fn shards(&self) -> usize;

    /// Takes a shard over; whoever drove it before is replaced.
    fn drive(&self, shard: usize) -> Lane;

    /// Waits for something to do.
    fn next_task(&self, lane: Lane) -> Next;

    /// The answer to a task. Takes effect only if the token is still good.
    fn complete_task(&self, lane: Lane, token: TaskToken, answer: TaskAnswer);

    /// The slice of this task takes long: acknowledge and keep what it was given, so that
    /// nobody waits for it. Called between two polls, or by the watchdog.
    fn go_slow(&self, lane: Lane, token: TaskToken);

    /// The slice of this task does not come back: its task fails, the run is blocked as stuck,
    /// and whatever its thread still produces is thrown away.
    fn give_up(&self, lane: Lane, token: TaskToken, failure: Failure);

    /// The instance is no longer in memory.
    fn evicted(&self, lane: Lane, run_id: RunId);

    /// Something outside a slice woke this run's code: give it a task, which will fail.
    fn foreign_wake(&self, run_id: RunId);

    /// A run whose task was refused, since code of its own or of its type had not come back, may
    /// try again. A backend that tries by itself needs no word.
    fn may_go_on(&self, _run_id: RunId) {}

    /// Attempts that ended.
    fn complete_attempts(&self, outcomes: Vec<AttemptOutcome>);

    /// A running attempt reports; throttled by the caller.
    fn heartbeat(&self, token: AttemptToken, details: Payload);

    /// What answers this attempt from outside, also when this process is gone. Asked for only if
    /// the attempt's code wants it.
    fn answer_token(&self, task: &ActivityTask) -> AnswerToken;

    /// Hands out no new work. Answers, outcomes and what is handed back are still taken and
    /// made durable.
    fn drain(&self);

    /// Stops: parked calls return when everything that was taken is durable.
    fn shutdown(&self);
}

/// A boxed future of the client half.
pub type Answer<T> = Pin<Box<dyn Future<Output = Result<T, Refusal>> + Send>>;

/// The client half.
pub trait ClientPort: Send + Sync {
    /// Starts a run; `Ok` means durable.
    fn start(&self, request: StartRequest) -> Answer<StartReply>;

    /// Starts a run, or attaches to one, and waits for its end.
    fn run(&self, request: StartRequest) -> Answer<(RunId, RunOutcome)>;

    /// Waits for the end of a run.
    fn result(&self, run: RunRef) -> Answer<RunOutcome>;

    /// Sends a message.
    fn signal(&self, run: RunRef, signal: SignalRequest) -> Answer<()>;

    /// Starts a run with a message that its code sees first, or sends it to the open run that the
    /// request's conflict policy chose. One commit: both or neither.
    fn signal_with_start(&self, request: StartRequest, signal: SignalRequest)
    -> Answer<StartReply>;

    /// Asks something of a run and waits until it has come this far. The same id again is the same
    /// update: it is not done twice, and its answer is known for as long as the run is.
    fn update(&self, run: RunRef, update: UpdateRequest, stage: UpdateStage)
    -> Answer<UpdateReply>;

    /// As `signal_with_start`, for an update.
    fn update_with_start(
        &self,
        request: StartRequest,
        update: UpdateRequest,
        stage: UpdateStage,
    ) -> Answer<(StartReply, UpdateReply)>;

    /// Asks about the settled state of a run, open or ended; changes nothing.
    fn query(&self, run: RunRef, query: Query) -> Answer<Payload>;

    /// Asks a run to stop.
    fn cancel(&self, run: RunRef, reason: String, request_id: Option<RequestId>) -> Answer<()>;

    /// Ends a run at once.
    fn terminate(&self, run: RunRef, reason: String) -> Answer<()>;

    /// Answers for an attempt from outside: with a result, a failure or a cancellation. `Ok` means
    /// durable; an attempt that waits for no answer is refused as
    /// [`Refusal::AttemptEnded`].
    fn answer_attempt(&self, token: AnswerToken, result: AttemptResult) -> Answer<()>;

    /// Reports for an attempt from outside; hears whether whoever works on it should stop.
    fn report_attempt(&self, token: AnswerToken, details: Payload) -> Answer<Option<StopReason>>;

    /// Lets a blocked run try again.
    fn retry(&self, run: RunRef) -> Answer<()>;

    /// How a run stands.
    fn describe(&self, run: RunRef) -> Answer<Description>;

    /// A run's history.
    fn history(&self, run: RunRef) -> Answer<Vec<Event>>;

    /// Runs that match, newest first.
    fn list(&self, filter: ListFilter) -> Answer<Vec<Summary>>;
}
