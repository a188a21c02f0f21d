//! What a worker does that somebody should know, as one closed list.
//!
//! Each event carries ids, a severity and a stable code, and prints as one sentence that ends
//! with the next step, if there is one to take. Logs, metrics, health and a test that looks for
//! trouble all read the same list, so that none of them can know less than the others.
//!
//! Reading order: [`WorkerEvent`], then [`Bus`](crate::bus::Bus), which carries it to whoever
//! listens.

#[cfg(test)]
pub(crate) mod tests;
mod text;

use std::time::Duration;

use outlast_model::event::{Site, TaskFailedCause};
use outlast_model::task::{ActivityTask, AttemptKind, StepTask, StopReason, WorkflowTask};
use outlast_model::{Attempt, Failure, QueueName, RunId, Seq, WorkflowId, WorkflowType};

/// How much an event matters. Ordered: more is worse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Severity {
    /// For whoever looks closely: happens all the time in a healthy worker.
    Debug,
    /// Life cycle: a few lines in the life of a process.
    Info,
    /// Something is wrong, and the worker copes with it.
    Warning,
    /// Something is wrong that does not mend itself.
    Error,
}

/// Which run an event speaks of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunIn {
    /// The run.
    pub run_id: RunId,
    /// The user's id.
    pub workflow_id: WorkflowId,
    /// The registered name.
    pub workflow_type: WorkflowType,
}

impl From<&WorkflowTask> for RunIn {
    fn from(task: &WorkflowTask) -> Self {
        Self {
            run_id: task.run_id,
            workflow_id: task.workflow_id.clone(),
            workflow_type: task.workflow_type.clone(),
        }
    }
}

/// Which attempt an event speaks of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptIn {
    /// Its run.
    pub run_id: RunId,
    /// Activity or step.
    pub kind: AttemptKind,
    /// The activity's type or the step's name.
    pub name: String,
    /// Which one of its run.
    pub seq: Seq,
    /// Which attempt of it.
    pub attempt: Attempt,
}

impl From<&ActivityTask> for AttemptIn {
    fn from(task: &ActivityTask) -> Self {
        Self {
            run_id: task.run_id,
            kind: AttemptKind::Activity,
            name: task.activity_type.as_str().to_owned(),
            seq: task.token.seq,
            attempt: task.token.attempt,
        }
    }
}

impl From<&StepTask> for AttemptIn {
    fn from(task: &StepTask) -> Self {
        Self {
            run_id: task.run_id,
            kind: AttemptKind::Step,
            name: task.name.as_str().to_owned(),
            seq: task.token.seq,
            attempt: task.token.attempt,
        }
    }
}

/// Workflow code that has not come back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stuck {
    /// Its run.
    pub run: RunIn,
    /// Which branch was polled.
    pub branch: String,
    /// Its last durable call.
    pub site: Option<Site>,
    /// The thread that is inside.
    pub thread: String,
    /// For how long.
    pub spent: Duration,
}

/// How far a stopping worker is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StopPhase {
    /// No new work is taken; running work may finish or is handed back.
    Finishing,
    /// What still runs is told to stop.
    Cancelling,
    /// Instances leave memory.
    Evicting,
    /// What is left is abandoned.
    HardStop,
}

/// Code of the user that panicked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PanicIn {
    /// A slice: main, a branch, a handler, a predicate, an interceptor of workflows.
    Workflow(RunIn),
    /// An attempt: its code, its decoding, an interceptor of activities.
    Attempt(AttemptIn),
    /// Something else that the worker calls, by name: a slot supplier, an observer.
    Callback(&'static str),
}

/// Why an instance left memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvictCause {
    /// Its queue keeps no more runs, and it was used least recently.
    Runs,
    /// Its queue keeps no more bytes of history, and it was used least recently.
    Bytes,
    /// Its run has ended.
    Closed,
    /// The backend asked for it: the run was reset or moved.
    Asked,
    /// Its task failed; what is in memory cannot be trusted.
    Failed,
    /// Its code was given up as stuck.
    Stuck,
    /// Its thread leaves: another one drives the shard, or the worker stops.
    Thread,
}

impl EvictCause {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Runs,
        Self::Bytes,
        Self::Closed,
        Self::Asked,
        Self::Failed,
        Self::Stuck,
        Self::Thread,
    ];

    /// Its name, as metrics have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Runs => "runs",
            Self::Bytes => "bytes",
            Self::Closed => "closed",
            Self::Asked => "asked",
            Self::Failed => "failed",
            Self::Stuck => "stuck",
            Self::Thread => "thread",
        }
    }
}

/// What somebody should know.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum WorkerEvent {
    /// The worker is about to take work.
    Starting,
    /// Its threads run.
    Started {
        /// Engine threads.
        shards: usize,
    },
    /// A thread could not be started.
    ThreadFailed {
        /// Its name.
        thread: String,
        /// What the system said.
        error: String,
    },
    /// A queue is served from now on.
    QueueRegistered {
        /// Which.
        queue: QueueName,
    },
    /// A queue is no longer served.
    QueueUnregistered {
        /// Which.
        queue: QueueName,
    },
    /// The connection for a queue was made anew.
    QueueRecycled {
        /// Which.
        queue: QueueName,
        /// What was wrong with the old one.
        reason: String,
    },
    /// The worker goes down and has come this far.
    Stopping {
        /// How far.
        phase: StopPhase,
        /// Attempts that still run.
        attempts: usize,
    },
    /// The worker is down.
    Stopped {
        /// What is still inside user code, by name.
        left_behind: Vec<String>,
    },
    /// The async runtime that it was started on has ended, so it stops.
    RuntimeGone,
    /// A slice takes long and went over to the slow path.
    SlowSlice(Stuck),
    /// A spare thread drives a shard whose thread is busy.
    ShardTakenOver {
        /// Which shard.
        shard: usize,
    },
    /// Workflow code does not come back: a warning.
    DeadlockWarning(Stuck),
    /// Workflow code did not come back: its task failed, the run is blocked.
    StuckGivenUp(Stuck),
    /// The thread of a run that was given up has come back.
    ThreadReturned(Stuck),
    /// Too many threads have not come back from the code of one workflow type: its runs wait, the
    /// others go on.
    TypeBlocked {
        /// Which.
        workflow_type: WorkflowType,
        /// How many threads.
        threads: usize,
    },
    /// A thread came back from the code of a workflow type that was blocked: its runs go on.
    TypeReleased {
        /// Which.
        workflow_type: WorkflowType,
    },
    /// An attempt was told to stop and goes on.
    CancelIgnored {
        /// Which.
        attempt: AttemptIn,
        /// Why it should stop.
        reason: StopReason,
        /// Since when it was told.
        spent: Duration,
    },
    /// An attempt that should have ended is counted as a zombie.
    Zombie {
        /// Which.
        attempt: AttemptIn,
        /// Since when it was told to stop.
        spent: Duration,
    },
    /// A zombie has ended after all.
    ZombieEnded {
        /// Which.
        attempt: AttemptIn,
        /// How long that took since it was told to stop.
        spent: Duration,
    },
    /// Nobody waits for this zombie any longer.
    ZombieGivenUp {
        /// Which.
        attempt: AttemptIn,
        /// Since when it was told to stop.
        spent: Duration,
    },
    /// Too many zombies: the worker stops claiming and goes down.
    ZombieLimit {
        /// How many there are.
        zombies: usize,
        /// How many there may be.
        limit: usize,
    },
    /// User code panicked, and the panic was caught.
    PanicCaught {
        /// Where.
        place: PanicIn,
        /// What it said.
        message: String,
    },
    /// Workflow code had something to say: a handler left unfinished, a command made too late.
    CodeWarning {
        /// Its run.
        run: RunIn,
        /// What.
        text: String,
    },
    /// A workflow task failed; it will be tried again by itself.
    TaskFailed {
        /// Its run.
        run: RunIn,
        /// Why, for a program.
        cause: TaskFailedCause,
        /// Why, for a person.
        failure: Failure,
    },
    /// A workflow task failed in a way that does not pass: the run is blocked.
    RunBlocked {
        /// The run.
        run: RunIn,
        /// Why, for a program.
        cause: TaskFailedCause,
        /// Why, for a person.
        failure: Failure,
    },
    /// Something waits for code that nobody here has.
    NotRegistered {
        /// Where it waits.
        queue: QueueName,
        /// What it is, and what to do.
        text: String,
    },
    /// An attempt failed, and so did the one before it: said once of each activity and step.
    FailsAgain {
        /// Which.
        attempt: AttemptIn,
        /// Why.
        failure: Failure,
    },
    /// An instance left memory.
    Evicted {
        /// Its run.
        run_id: RunId,
        /// The task queue of the run.
        queue: QueueName,
        /// Why.
        cause: EvictCause,
    },
    /// All slots of a kind are taken: work waits.
    SlotsExhausted {
        /// In which queue.
        queue: QueueName,
        /// Of which kind: `activity`, `step`, `slice`.
        kind: &'static str,
    },
    /// The backend does not answer; the worker tries again.
    BackendUnavailable {
        /// Which: its queue or its place.
        backend: String,
        /// What it said.
        error: String,
        /// When it is tried again.
        retry_in: Duration,
    },
    /// The backend answers again.
    BackendBack {
        /// Which.
        backend: String,
        /// For how long it did not.
        away: Duration,
    },
    /// An answer found no taker; the backend hands the work out again.
    AnswerDropped {
        /// Of which queue.
        queue: QueueName,
        /// What it was about, and why.
        text: String,
    },
    /// A part of a queue ended before its time and began again; nothing is lost by it.
    PartRestarted {
        /// Of which queue.
        queue: QueueName,
        /// Which part, and its last words.
        text: String,
    },
    /// The store does not take what is decided: its disk is full, or it failed. Said once, until it
    /// is back.
    StoreAway {
        /// What it said.
        error: String,
        /// When it is tried again.
        retry_in: Duration,
    },
    /// The store takes what is decided again.
    StoreBack {
        /// For how long it did not.
        away: Duration,
    },
    /// Another program reads the database file without end, so that its log grows. Said once, until
    /// it ends.
    LogHeld {
        /// The file.
        path: String,
        /// Bytes of its log.
        bytes: u64,
    },
    /// This subscriber was too slow and has not seen some events.
    Missed {
        /// How many.
        count: u64,
    },
}

impl WorkerEvent {
    /// A failed workflow task, told by whether it can pass by itself.
    pub fn task_failed(task: &WorkflowTask, cause: TaskFailedCause, failure: Failure) -> Self {
        let run = RunIn::from(task);
        if cause.is_transient() {
            Self::TaskFailed {
                run,
                cause,
                failure,
            }
        } else {
            Self::RunBlocked {
                run,
                cause,
                failure,
            }
        }
    }

    /// How much it matters.
    pub fn severity(&self) -> Severity {
        match self {
            Self::SlowSlice(_)
            | Self::ShardTakenOver { .. }
            | Self::Evicted { .. }
            | Self::SlotsExhausted { .. } => Severity::Debug,
            Self::Starting
            | Self::Started { .. }
            | Self::QueueRegistered { .. }
            | Self::QueueUnregistered { .. }
            | Self::Stopping { .. }
            | Self::ThreadReturned(_)
            | Self::TypeReleased { .. }
            | Self::ZombieEnded { .. }
            | Self::BackendBack { .. }
            | Self::StoreBack { .. } => Severity::Info,
            Self::Stopped { left_behind } if left_behind.is_empty() => Severity::Info,
            Self::Stopped { .. }
            | Self::QueueRecycled { .. }
            | Self::DeadlockWarning(_)
            | Self::CancelIgnored { .. }
            | Self::Zombie { .. }
            | Self::PanicCaught { .. }
            | Self::CodeWarning { .. }
            | Self::TaskFailed { .. }
            | Self::NotRegistered { .. }
            | Self::FailsAgain { .. }
            | Self::BackendUnavailable { .. }
            | Self::AnswerDropped { .. }
            | Self::PartRestarted { .. }
            | Self::LogHeld { .. }
            | Self::Missed { .. } => Severity::Warning,
            Self::ThreadFailed { .. }
            | Self::RuntimeGone
            | Self::StuckGivenUp(_)
            | Self::TypeBlocked { .. }
            | Self::ZombieGivenUp { .. }
            | Self::ZombieLimit { .. }
            | Self::RunBlocked { .. }
            | Self::StoreAway { .. } => Severity::Error,
        }
    }

    /// A stable code for programs and for the manual.
    pub fn code(&self) -> &'static str {
        self.label().0
    }

    /// Its name, as metrics have it.
    pub fn name(&self) -> &'static str {
        self.label().1
    }

    fn label(&self) -> (&'static str, &'static str) {
        match self {
            Self::Starting => ("OL-5001", "starting"),
            Self::Started { .. } => ("OL-5002", "started"),
            Self::ThreadFailed { .. } => ("OL-5003", "thread-failed"),
            Self::QueueRegistered { .. } => ("OL-5004", "queue-registered"),
            Self::QueueUnregistered { .. } => ("OL-5005", "queue-unregistered"),
            Self::QueueRecycled { .. } => ("OL-5006", "queue-recycled"),
            Self::Stopping { .. } => ("OL-5007", "stopping"),
            Self::Stopped { .. } => ("OL-5008", "stopped"),
            Self::RuntimeGone => ("OL-5009", "runtime-gone"),
            Self::SlowSlice(_) => ("OL-5101", "slow-slice"),
            Self::ShardTakenOver { .. } => ("OL-5102", "shard-taken-over"),
            Self::DeadlockWarning(_) => ("OL-5103", "deadlock-warning"),
            Self::StuckGivenUp(_) => ("OL-5104", "stuck-given-up"),
            Self::ThreadReturned(_) => ("OL-5105", "thread-returned"),
            Self::TypeBlocked { .. } => ("OL-5106", "type-blocked"),
            Self::TypeReleased { .. } => ("OL-5107", "type-released"),
            Self::CancelIgnored { .. } => ("OL-5201", "cancel-ignored"),
            Self::Zombie { .. } => ("OL-5202", "zombie"),
            Self::ZombieEnded { .. } => ("OL-5203", "zombie-ended"),
            Self::ZombieGivenUp { .. } => ("OL-5204", "zombie-given-up"),
            Self::ZombieLimit { .. } => ("OL-5205", "zombie-limit"),
            Self::PanicCaught { .. } => ("OL-5301", "panic-caught"),
            Self::CodeWarning { .. } => ("OL-5302", "code-warning"),
            Self::TaskFailed { .. } => ("OL-5303", "task-failed"),
            Self::RunBlocked { .. } => ("OL-5304", "run-blocked"),
            Self::NotRegistered { .. } => ("OL-5305", "not-registered"),
            Self::FailsAgain { .. } => ("OL-5306", "fails-again"),
            Self::Evicted { .. } => ("OL-5401", "evicted"),
            Self::SlotsExhausted { .. } => ("OL-5402", "slots-exhausted"),
            Self::BackendUnavailable { .. } => ("OL-5501", "backend-unavailable"),
            Self::BackendBack { .. } => ("OL-5502", "backend-back"),
            Self::AnswerDropped { .. } => ("OL-5503", "answer-dropped"),
            Self::PartRestarted { .. } => ("OL-5504", "part-restarted"),
            Self::StoreAway { .. } => ("OL-5505", "store-away"),
            Self::StoreBack { .. } => ("OL-5506", "store-back"),
            Self::LogHeld { .. } => ("OL-5507", "log-held"),
            Self::Missed { .. } => ("OL-5601", "missed"),
        }
    }

    /// The run it speaks of, if it speaks of one.
    pub fn run_id(&self) -> Option<RunId> {
        match self {
            Self::SlowSlice(stuck)
            | Self::DeadlockWarning(stuck)
            | Self::StuckGivenUp(stuck)
            | Self::ThreadReturned(stuck) => Some(stuck.run.run_id),
            Self::CancelIgnored { attempt, .. }
            | Self::Zombie { attempt, .. }
            | Self::ZombieEnded { attempt, .. }
            | Self::ZombieGivenUp { attempt, .. }
            | Self::FailsAgain { attempt, .. } => Some(attempt.run_id),
            Self::PanicCaught { place, .. } => match place {
                PanicIn::Workflow(run) => Some(run.run_id),
                PanicIn::Attempt(attempt) => Some(attempt.run_id),
                PanicIn::Callback(_) => None,
            },
            Self::CodeWarning { run, .. }
            | Self::TaskFailed { run, .. }
            | Self::RunBlocked { run, .. } => Some(run.run_id),
            Self::Evicted { run_id, .. } => Some(*run_id),
            Self::Starting
            | Self::Started { .. }
            | Self::ThreadFailed { .. }
            | Self::RuntimeGone
            | Self::QueueRegistered { .. }
            | Self::QueueUnregistered { .. }
            | Self::QueueRecycled { .. }
            | Self::Stopping { .. }
            | Self::Stopped { .. }
            | Self::ShardTakenOver { .. }
            | Self::TypeBlocked { .. }
            | Self::TypeReleased { .. }
            | Self::ZombieLimit { .. }
            | Self::NotRegistered { .. }
            | Self::SlotsExhausted { .. }
            | Self::BackendUnavailable { .. }
            | Self::BackendBack { .. }
            | Self::StoreAway { .. }
            | Self::StoreBack { .. }
            | Self::LogHeld { .. }
            | Self::AnswerDropped { .. }
            | Self::PartRestarted { .. }
            | Self::Missed { .. } => None,
        }
    }

    /// Whether user code is stuck or undead: a test that saw this fails.
    pub fn is_stuck_or_zombie(&self) -> bool {
        matches!(
            self,
            Self::StuckGivenUp(_)
                | Self::DeadlockWarning(_)
                | Self::TypeBlocked { .. }
                | Self::Zombie { .. }
                | Self::ZombieGivenUp { .. }
                | Self::ZombieLimit { .. }
        )
    }
}
