//! How a run looks from outside: what clients ask for and what they are told.

use alloc::string::String;
use alloc::vec::Vec;

use minicbor::{Decode, Encode};

use crate::event::{CancelOf, Site, TaskFailedCause};
use crate::failure::Failure;
use crate::id::{
    ActivityType, Attempt, QueueName, RunId, Seq, SignalName, StepName, UpdateId, UpdateName,
    WorkflowId, WorkflowType,
};
use crate::payload::Payload;
use crate::rest::{Await, Unread};
use crate::status::Status;
use crate::time::Timestamp;

/// Which run: the newest of a workflow id, or a certain one. The id of a chain's first run stands
/// for the chain: it finds whichever of its runs is open.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub struct RunRef {
    /// The user's id.
    #[n(0)]
    pub workflow_id: WorkflowId,
    /// A certain run of it.
    #[n(1)]
    pub run_id: Option<RunId>,
}

impl RunRef {
    /// The newest run of this id.
    pub fn newest(workflow_id: WorkflowId) -> Self {
        Self {
            workflow_id,
            run_id: None,
        }
    }
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub enum RunOutcome {
    /// With a result.
    #[n(0)]
    Completed(#[n(0)] Payload),
    /// With an error.
    #[n(1)]
    Failed(#[n(0)] Failure),
    /// Because it was asked to stop.
    #[n(2)]
    Canceled,
    /// An operator ended it.
    #[n(3)]
    Terminated {
        /// Why.
        #[n(0)]
        reason: String,
    },
    /// It ran out of time.
    #[n(4)]
    TimedOut,
    /// It went on as this run.
    #[n(5)]
    ContinuedAsNew(#[n(0)] RunId),
}

impl RunOutcome {
    /// The status that goes with it.
    pub fn status(&self) -> Status {
        match self {
            Self::Completed(_) => Status::Completed,
            Self::Failed(_) => Status::Failed,
            Self::Canceled => Status::Canceled,
            Self::Terminated { .. } => Status::Terminated,
            Self::TimedOut => Status::TimedOut,
            Self::ContinuedAsNew(_) => Status::ContinuedAsNew,
        }
    }
}

/// One line of a list.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// The user's id.
    pub workflow_id: WorkflowId,
    /// The run.
    pub run_id: RunId,
    /// Its type.
    pub workflow_type: WorkflowType,
    /// Its task queue.
    pub queue: QueueName,
    /// Where it stands.
    pub status: Status,
    /// Whether it cannot go on by itself.
    pub is_blocked: bool,
    /// When it began.
    pub started: Timestamp,
    /// When it ended.
    pub closed: Option<Timestamp>,
    /// Events in its history.
    pub events: u64,
    /// Bytes of the events in it.
    pub bytes: u64,
    /// When it will look at the clock again.
    pub wake: Option<Timestamp>,
    /// The first run of its chain, if that is another.
    pub first_run: Option<RunId>,
}

/// Everything about one run but its history.
#[derive(Clone, Debug, PartialEq)]
pub struct Description {
    /// The line of the list.
    pub summary: Summary,
    /// Its input.
    pub input: Payload,
    /// How it ended.
    pub outcome: Option<RunOutcome>,
    /// What it waits for.
    pub waiting: Vec<Waiting>,
    /// Why its code cannot go on, if it cannot.
    pub trouble: Option<Trouble>,
    /// What its code had to say that is no failure: handlers that failed or were left unfinished,
    /// commands made too late. The newest last.
    pub notes: Vec<String>,
    /// Signals that nobody has taken.
    pub unhandled_signals: u32,
    /// Some of them, by name.
    pub unread: Vec<Unread>,
}

/// One thing a run waits for.
#[derive(Clone, Debug, PartialEq)]
pub enum Waiting {
    /// An activity that waits for a worker, a slot or its next try.
    ActivityPending {
        /// Which.
        seq: Seq,
        /// Its type.
        activity_type: ActivityType,
        /// The attempt that comes next.
        attempt: Attempt,
        /// When it is due.
        due: Timestamp,
        /// How the last one failed.
        last_failure: Option<Failure>,
        /// The call.
        site: Site,
    },
    /// An activity that runs.
    ActivityRunning {
        /// Which.
        seq: Seq,
        /// Its type.
        activity_type: ActivityType,
        /// The attempt.
        attempt: Attempt,
        /// Since when.
        since: Timestamp,
        /// How the last one failed.
        last_failure: Option<Failure>,
        /// The call.
        site: Site,
    },
    /// An activity whose code has returned: somebody outside will answer.
    ActivityOutside {
        /// Which.
        seq: Seq,
        /// Its type.
        activity_type: ActivityType,
        /// The attempt.
        attempt: Attempt,
        /// Since when the attempt is open.
        since: Timestamp,
        /// When it runs out of time, if it does.
        due: Option<Timestamp>,
        /// The call.
        site: Site,
    },
    /// A timer.
    Timer {
        /// Which.
        seq: Seq,
        /// When it fires.
        due: Timestamp,
        /// The call.
        site: Site,
    },
    /// A step.
    Step {
        /// Which.
        seq: Seq,
        /// Its name.
        name: StepName,
        /// The attempt.
        attempt: Attempt,
        /// The call.
        site: Site,
    },
    /// A child.
    Child {
        /// Which.
        seq: Seq,
        /// Its id.
        workflow_id: WorkflowId,
        /// Its run.
        run_id: RunId,
        /// Whether it has started.
        is_started: bool,
        /// The call.
        site: Site,
    },
    /// The word that a message to another run arrived.
    SignalExternal {
        /// Which.
        seq: Seq,
        /// To whom.
        target: RunRef,
        /// Its name.
        name: SignalName,
        /// The call.
        site: Site,
    },
    /// The word that a request to stop arrived.
    CancelExternal {
        /// Which.
        of: CancelOf,
        /// To whom.
        target: RunRef,
        /// The call.
        site: Site,
    },
    /// An update that runs.
    Update {
        /// Which.
        id: UpdateId,
        /// Its handler.
        name: UpdateName,
    },
    /// Workflow code itself: a task waits or runs.
    Task,
    /// Nothing that has an event yet: a message, a condition.
    Message {
        /// Some of the places where it does, if they are known.
        at: Vec<Await>,
    },
}

/// Why workflow code cannot go on.
#[derive(Clone, Debug, PartialEq)]
pub struct Trouble {
    /// What kind.
    pub cause: TaskFailedCause,
    /// Since when.
    pub since: Timestamp,
    /// Failed attempts in a row.
    pub attempts: u32,
    /// The last failure.
    pub failure: Failure,
    /// The next try; `None`: it waits for a new process, a new build or `retry`.
    pub next_try: Option<Timestamp>,
}

/// Which runs to list, newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListFilter {
    /// Only these.
    pub status: Option<Status>,
    /// Only this type.
    pub workflow_type: Option<WorkflowType>,
    /// At most so many; 0 means 100.
    pub limit: usize,
    /// Only runs older than this one: the next page.
    pub before: Option<RunId>,
}
