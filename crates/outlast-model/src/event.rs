//! Facts of a run's history, numbered from 1: Temporal's events, one to one.
//!
//! Each kind is stored under Temporal's own number. Where Temporal refers to an operation by the
//! id of the event that scheduled it, the record keeps the operation's sequence number; the
//! projection in [`crate::temporal_json`] turns it back.

mod child;
mod external;
mod update;

pub use child::{ChildEvent, ChildInitiated, StartFailedCause};
pub use external::{
    CancelInitiated, CancelOf, DeliveryFailedCause, ExternalEvent, SignalInitiated,
};
pub use update::{UpdateAccepted, UpdateEvent, UpdateOutcome, UpdateRequest};

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::String;
use core::fmt;
use core::time::Duration;

use minicbor::{Decode, Encode};

use crate::edition::Edition;
use crate::failure::{Failure, RetryState};
use crate::headers::Headers;
use crate::id::{
    ActivityType, Attempt, EventId, PatchId, QueueName, RequestId, RunId, Seq, SignalName,
    StepName, WorkflowId, WorkflowType,
};
use crate::job::Resolution;
use crate::options::{ActivityOptions, Priority};
use crate::payload::Payload;
use crate::shared::Shared;
use crate::time::Timestamp;

/// One fact of a history.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Its number.
    pub id: EventId,
    /// When it happened, by the clock of whoever recorded it. Never before the event before it.
    pub time: Timestamp,
    /// What happened.
    pub kind: EventKind,
}

/// The line of workflow code that asked for something. Ours alone: not projected to Temporal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct Site {
    /// Source file, as the compiler names it.
    #[n(0)]
    pub file: Cow<'static, str>,
    /// Line.
    #[n(1)]
    pub line: u32,
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// What a run was started with. Immutable for its whole life.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct Started {
    /// The user's id.
    #[n(0)]
    pub workflow_id: WorkflowId,
    /// This run.
    #[n(1)]
    pub run_id: RunId,
    /// The registered name.
    #[n(2)]
    pub workflow_type: WorkflowType,
    /// Where its tasks wait.
    #[n(3)]
    pub queue: QueueName,
    /// Its input.
    #[n(4)]
    pub input: Payload,
    /// The request that started its chain: the same request again is answered with the chain's
    /// first run.
    #[n(5)]
    pub request_id: Option<RequestId>,
    /// How long the run may take.
    #[cbor(n(6), with = "crate::cbor::opt_duration", has_nil)]
    pub run_timeout: Option<Duration>,
    /// The run that started it as its child, and is told of its end.
    #[n(7)]
    pub parent: Option<Box<Parent>>,
    /// The first run of its chain, if that is another.
    #[n(8)]
    pub first_run_id: Option<RunId>,
    /// The run it continues.
    #[n(9)]
    pub continued_from: Option<RunId>,
    /// What travels with it.
    #[n(10)]
    pub headers: Headers,
    /// How urgent it is, and what it calls, if whoever started it said so.
    #[n(11)]
    pub priority: Option<Priority>,
    /// The rules it began under; none are the first.
    #[n(12)]
    pub edition: Option<Edition>,
}

impl Started {
    /// The rules it runs under, to its end.
    pub fn edition(&self) -> Edition {
        self.edition.unwrap_or(Edition::FIRST)
    }

    /// How urgent it is, if somebody said so: whoever started it, or the run whose child it is.
    pub fn priority(&self) -> Option<Priority> {
        let handed_down = self.parent.as_ref().and_then(|parent| parent.priority);
        self.priority.or(handed_down)
    }

    /// The first run of its chain.
    pub fn chain(&self) -> RunId {
        self.first_run_id.unwrap_or(self.run_id)
    }
}

/// The run that started another one as its child.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Parent {
    /// The user's id.
    #[n(0)]
    pub workflow_id: WorkflowId,
    /// The run.
    #[n(1)]
    pub run_id: RunId,
    /// The child's number in it.
    #[n(2)]
    pub seq: Seq,
    /// The event in it that asked for the child.
    #[n(3)]
    pub initiated: EventId,
    /// How urgent the child is, and what it calls: its own choice counts first.
    #[n(4)]
    pub priority: Option<Priority>,
}

/// Why a workflow task did not complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
#[cbor(index_only)]
pub enum TaskFailedCause {
    /// Workflow code panicked, or waited on something that is not durable.
    #[n(0)]
    WorkerUnhandledFailure,
    /// Workflow code and history disagree.
    #[n(1)]
    NonDeterminism,
    /// The run wanted to close while messages waited that it had not seen.
    #[n(2)]
    UnhandledCommand,
    /// The commands break a limit or a rule.
    #[n(3)]
    BadCommand,
    /// The code did not come back in time.
    #[n(4)]
    Stuck,
    /// The process died in this run's slice, too often.
    #[n(5)]
    Quarantined,
}

impl TaskFailedCause {
    /// Whether the same code could succeed later by itself. If not, the run is blocked until
    /// something changes: a new process, a new build, or an operator's `retry`.
    pub fn is_transient(self) -> bool {
        match self {
            Self::WorkerUnhandledFailure | Self::UnhandledCommand => true,
            Self::NonDeterminism | Self::BadCommand | Self::Stuck | Self::Quarantined => false,
        }
    }

    /// For people and programs.
    pub fn name(self) -> &'static str {
        match self {
            Self::WorkerUnhandledFailure => "failing",
            Self::NonDeterminism => "replay-mismatch",
            Self::UnhandledCommand => "unhandled-command",
            Self::BadCommand => "bad-command",
            Self::Stuck => "stuck",
            Self::Quarantined => "quarantined",
        }
    }
}

/// An activity, as workflow code asked for it and the engine normalised it.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct ActivityScheduled {
    /// Its number among the run's activities.
    #[n(0)]
    pub seq: Seq,
    /// Its type.
    #[n(1)]
    pub activity_type: ActivityType,
    /// Where it waits for a worker.
    #[n(2)]
    pub queue: QueueName,
    /// Its input.
    #[n(3)]
    pub input: Payload,
    /// Timeouts, retries, cancel mode; all filled in. Shared: code that asks for many things mostly
    /// asks for all of them in the same way.
    #[n(4)]
    pub options: Shared<ActivityOptions>,
    /// The call.
    #[n(5)]
    pub site: Site,
    /// What travels with it.
    #[n(6)]
    pub headers: Headers,
}

/// The outcome of a step: Temporal's marker `core_local_activity`.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct StepRecorded {
    /// Its number among the run's steps.
    #[n(0)]
    pub seq: Seq,
    /// Its name.
    #[n(1)]
    pub name: StepName,
    /// The attempt that gave the outcome.
    #[n(2)]
    pub attempt: Attempt,
    /// How it ended.
    #[n(3)]
    pub outcome: Resolution,
    /// Which activation of the task delivered it, from 0: replay resolves it at the same point.
    #[n(4)]
    pub activation: u32,
    /// The call.
    #[n(5)]
    pub site: Site,
}

/// The end of a run that goes on as a new one.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct ContinuedAsNew {
    /// The new run.
    #[n(0)]
    pub new_run_id: RunId,
    /// Its type.
    #[n(1)]
    pub workflow_type: WorkflowType,
    /// Where its tasks wait.
    #[n(2)]
    pub queue: QueueName,
    /// Its input.
    #[n(3)]
    pub input: Payload,
    /// How long it may take.
    #[cbor(n(4), with = "crate::cbor::opt_duration", has_nil)]
    pub run_timeout: Option<Duration>,
    /// What travels with it.
    #[n(5)]
    pub headers: Headers,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub enum EventKind {
    /// The run began.
    #[n(1)]
    Started(#[n(0)] Shared<Started>),
    /// It returned a result.
    #[n(2)]
    Completed {
        /// The result.
        #[n(0)]
        result: Payload,
    },
    /// It returned an error.
    #[n(3)]
    Failed {
        /// The error.
        #[n(0)]
        failure: Failure,
    },
    /// It ran out of time.
    #[n(4)]
    TimedOut,
    /// Workflow code has something to see.
    #[n(5)]
    TaskScheduled {
        /// 1, or more if the task failed before.
        #[n(0)]
        attempt: Attempt,
    },
    /// Workflow code began to run; its time is the workflow's `now`.
    #[n(6)]
    TaskStarted,
    /// Workflow code waits again; its commands follow.
    #[n(7)]
    TaskCompleted,
    /// Workflow code could not go on.
    #[n(9)]
    TaskFailed {
        /// Why, for a program.
        #[n(0)]
        cause: TaskFailedCause,
        /// Why, for a person.
        #[n(1)]
        failure: Failure,
    },
    /// An activity was asked for.
    #[n(10)]
    ActivityScheduled(#[n(0)] Shared<ActivityScheduled>),
    /// The attempt that gave the outcome; written with it.
    #[n(11)]
    ActivityStarted {
        /// Which activity.
        #[n(0)]
        seq: Seq,
        /// Which attempt.
        #[n(1)]
        attempt: Attempt,
        /// How the attempt before it failed.
        #[n(2)]
        last_failure: Option<Failure>,
    },
    /// An activity returned a result.
    #[n(12)]
    ActivityCompleted {
        /// Which activity.
        #[n(0)]
        seq: Seq,
        /// The result.
        #[n(1)]
        result: Payload,
    },
    /// An activity failed for good.
    #[n(13)]
    ActivityFailed {
        /// Which activity.
        #[n(0)]
        seq: Seq,
        /// The failure of its last attempt.
        #[n(1)]
        failure: Failure,
        /// Why there was no further attempt.
        #[n(2)]
        retry_state: RetryState,
    },
    /// An activity ran out of time for good.
    #[n(14)]
    ActivityTimedOut {
        /// Which activity.
        #[n(0)]
        seq: Seq,
        /// Which clock, and what came before.
        #[n(1)]
        failure: Failure,
        /// Why there was no further attempt.
        #[n(2)]
        retry_state: RetryState,
    },
    /// Workflow code asked an activity to stop.
    #[n(15)]
    ActivityCancelRequested {
        /// Which activity.
        #[n(0)]
        seq: Seq,
    },
    /// An activity stopped because it was asked to.
    #[n(16)]
    ActivityCanceled {
        /// Which activity.
        #[n(0)]
        seq: Seq,
        /// What it had to say.
        #[n(1)]
        details: Option<Payload>,
    },
    /// A timer runs.
    #[n(17)]
    TimerStarted {
        /// Its number among the run's timers.
        #[n(0)]
        seq: Seq,
        /// How long.
        #[cbor(n(1), with = "crate::cbor::duration")]
        delay: Duration,
        /// The call.
        #[n(2)]
        site: Site,
    },
    /// A timer is due.
    #[n(18)]
    TimerFired {
        /// Which timer.
        #[n(0)]
        seq: Seq,
    },
    /// Workflow code stopped a timer.
    #[n(19)]
    TimerCanceled {
        /// Which timer.
        #[n(0)]
        seq: Seq,
    },
    /// Somebody asked the run to stop.
    #[n(20)]
    CancelRequested {
        /// Why.
        #[n(0)]
        reason: String,
        /// The request, for dedup.
        #[n(1)]
        request_id: Option<RequestId>,
    },
    /// The run stopped because it was asked to.
    #[n(21)]
    Canceled,
    /// A step's outcome.
    #[n(25)]
    StepRecorded(#[n(0)] Box<StepRecorded>),
    /// A message.
    #[n(26)]
    Signaled {
        /// Its name.
        #[n(0)]
        name: SignalName,
        /// Its content.
        #[n(1)]
        input: Payload,
        /// The request, for dedup.
        #[n(2)]
        request_id: Option<RequestId>,
        /// What travels with it.
        #[n(3)]
        headers: Headers,
    },
    /// An operator ended the run.
    #[n(27)]
    Terminated {
        /// Why.
        #[n(0)]
        reason: String,
    },
    /// It went on as a new run.
    #[n(28)]
    ContinuedAsNew(#[n(0)] Box<ContinuedAsNew>),
    /// About a child.
    #[n(100)]
    Child(#[n(0)] ChildEvent),
    /// About what the run says to others.
    #[n(101)]
    External(#[n(0)] ExternalEvent),
    /// About an update.
    #[n(102)]
    Update(#[n(0)] UpdateEvent),
    /// This change of the code is in use here: Temporal's marker `core_patch`.
    #[n(103)]
    Patched {
        /// Which change.
        #[n(0)]
        id: PatchId,
        /// Whether the code before the change is gone.
        #[n(1)]
        is_deprecated: bool,
        /// The call.
        #[n(2)]
        site: Site,
    },
}

impl EventKind {
    /// Its name, for people.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Started(_) => "WorkflowExecutionStarted",
            Self::Completed { .. } => "WorkflowExecutionCompleted",
            Self::Failed { .. } => "WorkflowExecutionFailed",
            Self::TimedOut => "WorkflowExecutionTimedOut",
            Self::TaskScheduled { .. } => "WorkflowTaskScheduled",
            Self::TaskStarted => "WorkflowTaskStarted",
            Self::TaskCompleted => "WorkflowTaskCompleted",
            Self::TaskFailed { .. } => "WorkflowTaskFailed",
            Self::ActivityScheduled(_) => "ActivityTaskScheduled",
            Self::ActivityStarted { .. } => "ActivityTaskStarted",
            Self::ActivityCompleted { .. } => "ActivityTaskCompleted",
            Self::ActivityFailed { .. } => "ActivityTaskFailed",
            Self::ActivityTimedOut { .. } => "ActivityTaskTimedOut",
            Self::ActivityCancelRequested { .. } => "ActivityTaskCancelRequested",
            Self::ActivityCanceled { .. } => "ActivityTaskCanceled",
            Self::TimerStarted { .. } => "TimerStarted",
            Self::TimerFired { .. } => "TimerFired",
            Self::TimerCanceled { .. } => "TimerCanceled",
            Self::CancelRequested { .. } => "WorkflowExecutionCancelRequested",
            Self::Canceled => "WorkflowExecutionCanceled",
            Self::StepRecorded(_) => "MarkerRecorded",
            Self::Signaled { .. } => "WorkflowExecutionSignaled",
            Self::Terminated { .. } => "WorkflowExecutionTerminated",
            Self::ContinuedAsNew(_) => "WorkflowExecutionContinuedAsNew",
            Self::Child(ChildEvent::Initiated(_)) => "StartChildWorkflowExecutionInitiated",
            Self::Child(ChildEvent::StartFailed { .. }) => "StartChildWorkflowExecutionFailed",
            Self::Child(ChildEvent::Started { .. }) => "ChildWorkflowExecutionStarted",
            Self::Child(ChildEvent::Completed { .. }) => "ChildWorkflowExecutionCompleted",
            Self::Child(ChildEvent::Failed { .. }) => "ChildWorkflowExecutionFailed",
            Self::Child(ChildEvent::Canceled { .. }) => "ChildWorkflowExecutionCanceled",
            Self::Child(ChildEvent::TimedOut { .. }) => "ChildWorkflowExecutionTimedOut",
            Self::Child(ChildEvent::Terminated { .. }) => "ChildWorkflowExecutionTerminated",
            Self::External(ExternalEvent::CancelInitiated(_)) => {
                "RequestCancelExternalWorkflowExecutionInitiated"
            }
            Self::External(ExternalEvent::CancelFailed { .. }) => {
                "RequestCancelExternalWorkflowExecutionFailed"
            }
            Self::External(ExternalEvent::CancelDelivered { .. }) => {
                "ExternalWorkflowExecutionCancelRequested"
            }
            Self::External(ExternalEvent::SignalInitiated(_)) => {
                "SignalExternalWorkflowExecutionInitiated"
            }
            Self::External(ExternalEvent::SignalFailed { .. }) => {
                "SignalExternalWorkflowExecutionFailed"
            }
            Self::External(ExternalEvent::SignalDelivered { .. }) => {
                "ExternalWorkflowExecutionSignaled"
            }
            Self::Update(UpdateEvent::Accepted(_)) => "WorkflowExecutionUpdateAccepted",
            Self::Update(UpdateEvent::Completed { .. }) => "WorkflowExecutionUpdateCompleted",
            Self::Update(UpdateEvent::Admitted(_)) => "WorkflowExecutionUpdateAdmitted",
            Self::Patched { .. } => "MarkerRecorded",
        }
    }

    /// What part an event plays in the order of a history.
    pub fn role(&self) -> Role {
        match self {
            Self::TaskScheduled { .. }
            | Self::TaskStarted
            | Self::TaskCompleted
            | Self::TaskFailed { .. } => Role::Task,
            Self::ActivityScheduled(_)
            | Self::ActivityCancelRequested { .. }
            | Self::TimerStarted { .. }
            | Self::TimerCanceled { .. }
            | Self::StepRecorded(_)
            | Self::Patched { .. }
            | Self::Child(ChildEvent::Initiated(_))
            | Self::External(
                ExternalEvent::CancelInitiated(_) | ExternalEvent::SignalInitiated(_),
            )
            | Self::Update(UpdateEvent::Accepted(_) | UpdateEvent::Completed { .. }) => {
                Role::Command
            }
            Self::Completed { .. }
            | Self::Failed { .. }
            | Self::Canceled
            | Self::ContinuedAsNew(_) => Role::ClosingCommand,
            Self::TimedOut | Self::Terminated { .. } => Role::Close,
            Self::Started(_)
            | Self::ActivityStarted { .. }
            | Self::ActivityCompleted { .. }
            | Self::ActivityFailed { .. }
            | Self::ActivityTimedOut { .. }
            | Self::ActivityCanceled { .. }
            | Self::TimerFired { .. }
            | Self::CancelRequested { .. }
            | Self::Signaled { .. }
            | Self::Child(
                ChildEvent::StartFailed { .. }
                | ChildEvent::Started { .. }
                | ChildEvent::Completed { .. }
                | ChildEvent::Failed { .. }
                | ChildEvent::Canceled { .. }
                | ChildEvent::TimedOut { .. }
                | ChildEvent::Terminated { .. },
            )
            | Self::External(
                ExternalEvent::CancelFailed { .. }
                | ExternalEvent::CancelDelivered { .. }
                | ExternalEvent::SignalFailed { .. }
                | ExternalEvent::SignalDelivered { .. },
            )
            | Self::Update(UpdateEvent::Admitted(_)) => Role::Stimulus,
        }
    }
}

/// What part an event plays in the order of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Life of a workflow task: the cuts between activations.
    Task,
    /// What workflow code asked for, right behind the completed task, in its order.
    Command,
    /// A command that ends the run; the last event.
    ClosingCommand,
    /// The end of a run that its code did not ask for; the last event.
    Close,
    /// What came from outside.
    Stimulus,
}
