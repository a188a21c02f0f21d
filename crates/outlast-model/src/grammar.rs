//! Which histories can exist.
//!
//! ```text
//!   history  = Started { stimulus | task | attempt } [Terminated | TimedOut]
//!   task     = TaskScheduled { stimulus | attempt } TaskStarted ( TaskFailed | turn )
//!   turn     = TaskCompleted { command } [Completed | Failed | Canceled | ContinuedAsNew]
//!   attempt  = ActivityStarted ( ActivityCompleted | ActivityFailed | ActivityTimedOut
//!                              | ActivityCanceled )
//! ```
//!
//! And every operation lives by a small grammar of its own, in `operation.rs`.
//!
//! Every history that any test produces goes through [`check`]: a rule that the engine breaks
//! shows here first, named, and not as a strange replay much later.

mod operation;

use crate::event::{Event, EventKind, Role};
use crate::id::{Attempt, EventId, Seq};
use crate::time::Timestamp;

use operation::Operations;

/// The first event that cannot be where it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("event {event} ({name}): {rule}")]
pub struct Violation {
    /// Which event; one past the last for a history that ends too early.
    pub event: EventId,
    /// Its name.
    pub name: &'static str,
    /// What it breaks.
    pub rule: Rule,
}

/// What a history must obey.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rule {
    /// Ids leave no gap.
    #[error("ids count from 1 without a gap")]
    DenseIds,
    /// Time stands or goes on.
    #[error("time never goes back")]
    Time,
    /// A run begins once.
    #[error("Started is the first event, and only the first")]
    StartedOnce,
    /// Nothing follows the end.
    #[error("nothing follows the end of a run")]
    Closed,
    /// One task at a time.
    #[error("a task is scheduled while none is pending")]
    OneTask,
    /// Attempts count from 1.
    #[error("attempts count from 1")]
    AttemptNumber,
    /// Code runs because a task was scheduled.
    #[error("a task starts after it was scheduled")]
    TaskStart,
    /// The start of a task and its outcome are written together.
    #[error("TaskStarted and the task's outcome come one behind the other")]
    TaskOutcome,
    /// Commands belong to a completed task.
    #[error("commands come right behind TaskCompleted")]
    CommandPlace,
    /// The start of an attempt and the outcome it gave are written together.
    #[error("ActivityStarted and the outcome of the same activity come one behind the other")]
    AttemptOutcome,
    /// Only an attempt can complete or fail.
    #[error("only an attempt that started completes or fails")]
    NoAttempt,
    /// Numbers name one operation.
    #[error("the sequence number was used before by an operation of its kind")]
    SeqTwice,
    /// Only what was asked for can move.
    #[error("no operation of its kind has this sequence number")]
    NeverScheduled,
    /// Outcomes are recorded once.
    #[error("the operation has ended before")]
    OutcomeTwice,
    /// A cancel is asked for once.
    #[error("the operation was asked to stop before")]
    CancelTwice,
    /// Nothing is cancelled by itself.
    #[error("the activity was never asked to stop")]
    CanceledUnasked,
    /// Requests have their effect once.
    #[error("the request had its effect before")]
    RequestTwice,
    /// A child starts once, or does not.
    #[error("the child has started, or could not be started, before")]
    ChildStartTwice,
    /// What never ran has no outcome.
    #[error("a child ends after it has started")]
    ChildNotStarted,
    /// An update waits for workflow code once.
    #[error("the update was admitted before")]
    AdmittedTwice,
    /// An update that runs no longer waits.
    #[error("an update is admitted before it is accepted")]
    AdmittedLate,
    /// An update passes its validator once.
    #[error("the update was accepted before")]
    AcceptedTwice,
    /// Only an update that runs completes.
    #[error("an update completes after it was accepted")]
    NeverAccepted,
    /// Replay needs the request.
    #[error("the request of an accepted update is in UpdateAdmitted before it, else in its event")]
    UpdateRequest,
    /// Replay needs the place of the request.
    #[error("an accepted update came in behind an event before the start of its task")]
    UpdateBehind,
    /// A change of the code is recorded once.
    #[error("the patch was recorded before")]
    PatchTwice,
}

/// Checks a whole history.
///
/// # Errors
/// [`Violation`] names the first event that cannot be where it is, and why.
pub fn check(history: &[Event]) -> Result<(), Violation> {
    let mut reader = Reader::default();
    for event in history {
        reader.read(event).map_err(|rule| Violation {
            event: event.id,
            name: event.kind.name(),
            rule,
        })?;
    }
    reader.end().map_err(|rule| Violation {
        event: EventId(reader.last.0.saturating_add(1)),
        name: "end",
        rule,
    })
}

/// What the events so far allow.
#[derive(Default)]
struct Reader {
    place: Place,
    task: Task,
    last: EventId,
    time: Timestamp,
    operations: Operations,
}

/// Where in the grammar the next event stands.
#[derive(Clone, Copy, Default)]
enum Place {
    /// Before Started.
    #[default]
    Begin,
    /// Anything but commands.
    Open,
    /// Behind TaskStarted.
    Slice,
    /// Behind TaskCompleted or one of its commands.
    Commands,
    /// Behind ActivityStarted.
    Attempt(Seq),
    /// Behind the end.
    Closed,
}

#[derive(Clone, Copy, Default)]
enum Task {
    #[default]
    Idle,
    Scheduled,
}

/// What part an event plays, finer than [`crate::event::Role`].
#[derive(Clone, Copy)]
enum Part {
    Start,
    TaskScheduled(Attempt),
    TaskStarted,
    TaskCompleted,
    TaskFailed,
    Command,
    ClosingCommand,
    Close,
    AttemptStarted(Seq),
    /// An outcome that only an attempt can give.
    AttemptEnd(Seq),
    /// An outcome that comes with or without an attempt.
    ActivityEnd(Seq),
    Stimulus,
}

impl Reader {
    fn read(&mut self, event: &Event) -> Result<(), Rule> {
        if event.id.0 != self.last.0.saturating_add(1) {
            return Err(Rule::DenseIds);
        }
        if event.time < self.time {
            return Err(Rule::Time);
        }
        (self.last, self.time) = (event.id, event.time);
        let part = part(&event.kind);
        self.place = next_place(self.place, part)?;
        self.task = next_task(self.task, part)?;
        self.operations.read(event)
    }

    /// What is written together is there together.
    fn end(&self) -> Result<(), Rule> {
        match self.place {
            Place::Begin => Err(Rule::StartedOnce),
            Place::Slice => Err(Rule::TaskOutcome),
            Place::Attempt(_) => Err(Rule::AttemptOutcome),
            Place::Open | Place::Commands | Place::Closed => Ok(()),
        }
    }
}

fn part(kind: &EventKind) -> Part {
    match kind {
        EventKind::Started(_) => Part::Start,
        EventKind::TaskScheduled { attempt } => Part::TaskScheduled(*attempt),
        EventKind::TaskStarted => Part::TaskStarted,
        EventKind::TaskCompleted => Part::TaskCompleted,
        EventKind::TaskFailed { .. } => Part::TaskFailed,
        EventKind::ActivityScheduled(_)
        | EventKind::ActivityCancelRequested { .. }
        | EventKind::TimerStarted { .. }
        | EventKind::TimerCanceled { .. }
        | EventKind::StepRecorded(_)
        | EventKind::Patched { .. } => Part::Command,
        EventKind::Child(_) | EventKind::External(_) | EventKind::Update(_) => match kind.role() {
            Role::Command => Part::Command,
            Role::Stimulus | Role::Task | Role::ClosingCommand | Role::Close => Part::Stimulus,
        },
        EventKind::Completed { .. }
        | EventKind::Failed { .. }
        | EventKind::Canceled
        | EventKind::ContinuedAsNew(_) => Part::ClosingCommand,
        EventKind::TimedOut | EventKind::Terminated { .. } => Part::Close,
        EventKind::ActivityStarted { seq, .. } => Part::AttemptStarted(*seq),
        EventKind::ActivityCompleted { seq, .. } | EventKind::ActivityFailed { seq, .. } => {
            Part::AttemptEnd(*seq)
        }
        EventKind::ActivityTimedOut { seq, .. } | EventKind::ActivityCanceled { seq, .. } => {
            Part::ActivityEnd(*seq)
        }
        EventKind::TimerFired { .. }
        | EventKind::CancelRequested { .. }
        | EventKind::Signaled { .. } => Part::Stimulus,
    }
}

/// The order of events, whatever operations they speak of. Where only one thing may follow,
/// everything else is refused, a part that is added later included.
fn next_place(place: Place, part: Part) -> Result<Place, Rule> {
    match (place, part) {
        (Place::Closed, _) => Err(Rule::Closed),
        (Place::Begin, Part::Start) => Ok(Place::Open),
        (Place::Begin, _) => Err(Rule::StartedOnce),
        (Place::Slice, Part::TaskCompleted) => Ok(Place::Commands),
        (Place::Slice, Part::TaskFailed) => Ok(Place::Open),
        (Place::Slice, _) => Err(Rule::TaskOutcome),
        (Place::Attempt(of), Part::AttemptEnd(seq) | Part::ActivityEnd(seq)) if of == seq => {
            Ok(Place::Open)
        }
        (Place::Attempt(_), _) => Err(Rule::AttemptOutcome),

        (Place::Commands, Part::Command) => Ok(Place::Commands),
        (Place::Commands, Part::ClosingCommand) => Ok(Place::Closed),
        (Place::Open, Part::Command | Part::ClosingCommand) => Err(Rule::CommandPlace),

        (Place::Open | Place::Commands, Part::Start) => Err(Rule::StartedOnce),
        (Place::Open | Place::Commands, Part::Close) => Ok(Place::Closed),
        (Place::Open | Place::Commands, Part::TaskStarted) => Ok(Place::Slice),
        (Place::Open | Place::Commands, Part::TaskCompleted | Part::TaskFailed) => {
            Err(Rule::TaskOutcome)
        }
        (Place::Open | Place::Commands, Part::AttemptStarted(seq)) => Ok(Place::Attempt(seq)),
        (Place::Open | Place::Commands, Part::AttemptEnd(_)) => Err(Rule::NoAttempt),
        (
            Place::Open | Place::Commands,
            Part::TaskScheduled(_) | Part::ActivityEnd(_) | Part::Stimulus,
        ) => Ok(Place::Open),
    }
}

/// At most one task is pending; a task that failed is scheduled anew.
fn next_task(task: Task, part: Part) -> Result<Task, Rule> {
    match (task, part) {
        (Task::Idle | Task::Scheduled, Part::TaskScheduled(Attempt(0))) => Err(Rule::AttemptNumber),
        (Task::Idle, Part::TaskScheduled(_)) => Ok(Task::Scheduled),
        (Task::Scheduled, Part::TaskScheduled(_)) => Err(Rule::OneTask),
        (Task::Scheduled, Part::TaskStarted) => Ok(Task::Idle),
        (Task::Idle, Part::TaskStarted) => Err(Rule::TaskStart),
        (
            Task::Idle | Task::Scheduled,
            Part::Start
            | Part::TaskCompleted
            | Part::TaskFailed
            | Part::Command
            | Part::ClosingCommand
            | Part::Close
            | Part::AttemptStarted(_)
            | Part::AttemptEnd(_)
            | Part::ActivityEnd(_)
            | Part::Stimulus,
        ) => Ok(task),
    }
}
