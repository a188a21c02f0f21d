//! What `apply` decided: records to write, and effects to release once they are durable.

use alloc::boxed::Box;
use alloc::vec::Vec;

use outlast_model::id::{Seq, UpdateId};
use outlast_model::planted::{Bug, is_planted};
use outlast_model::post::{Post, PostBody};
use outlast_model::start::UpdateReply;
use outlast_model::task::{ActivityOrder, AttemptKind, AttemptToken, StepTask, StopReason};
use outlast_model::view::{RunOutcome, RunRef};
use outlast_model::{Event, EventKind, Fact, Record, Timestamp};

use crate::run::{Corrupt, Run};
use crate::successor::Successor;

/// Something the outside must do, not before everything decided so far is durable.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Run an attempt of an activity.
    StartActivity(ActivityOrder),
    /// Run an attempt of a step.
    StartStep(StepTask),
    /// Tell a running attempt to stop.
    Stop(AttemptToken, StopReason),
    /// The run has ended: whoever waits for its result gets this.
    Closed(RunOutcome),
    /// An update has come this far: whoever waits for that is told.
    Update(UpdateId, UpdateReply),
}

/// What to write and what to do about it. Several inputs may be decided into one.
#[derive(Debug, Default)]
pub struct Decision {
    /// To write, in order, in one commit.
    pub records: Vec<Record>,
    /// To release when the commit is durable.
    pub effects: Vec<Effect>,
    /// Attempts that want a slot now.
    pub ready: Vec<(AttemptKind, Seq)>,
    /// Whether workflow code must be rebuilt: its slice was refused.
    pub round_again: bool,
    /// What the run says to others, in order: written in the same commit, delivered after it.
    pub posts: Vec<Post>,
    /// The run that continues this one: begun in the same commit.
    pub successor: Option<Box<Successor>>,
}

/// So many operations fit into the room that every decision has.
const FEW: usize = 2;
/// The events of a task, and those of a few operations.
const USUAL_RECORDS: usize = 8;

impl Decision {
    /// Adds an event at the end of the history. Its time never goes back.
    pub(crate) fn event(
        &mut self,
        run: &mut Run,
        kind: EventKind,
        time: Timestamp,
    ) -> Result<(), Corrupt> {
        let (clock, time) = (time, time.max(run.last_event_time()));
        if clock < time && sets_due_time(&kind) && !is_planted(Bug::DueFromShownTime) {
            self.fact(run, Fact::ClockBehind { at: clock })?;
        }
        let id = run.next_event();
        self.push(run, Record::Event(Event { id, time, kind }))
    }

    /// Adds a fact.
    pub(crate) fn fact(&mut self, run: &mut Run, fact: Fact) -> Result<(), Corrupt> {
        self.push(run, Record::Fact(fact))
    }

    /// Adds what came from outside: an event, or, while stimuli are buffered, one that gets its
    /// number when workflow code is done.
    pub(crate) fn stimulus(
        &mut self,
        run: &mut Run,
        kind: EventKind,
        time: Timestamp,
    ) -> Result<(), Corrupt> {
        if run.is_buffering() {
            return self.fact(
                run,
                Fact::Buffered {
                    kind: Box::new(kind),
                },
            );
        }
        self.event(run, kind, time)
    }

    /// Says something to another run.
    pub(crate) fn say(&mut self, run: &Run, to: RunRef, body: PostBody) {
        let started = run.started();
        let from = RunRef {
            workflow_id: started.workflow_id.clone(),
            run_id: Some(started.run_id),
        };
        self.posts.push(Post { from, to, body });
    }

    /// Makes room for this many operations: each is recorded when it is asked for and when it is
    /// handed out, or when it started and how it ended.
    pub fn expect(&mut self, operations: usize) {
        if operations > FEW {
            self.records.reserve(2 * operations + USUAL_RECORDS);
        }
    }

    pub(crate) fn effect(&mut self, effect: Effect) {
        self.effects.push(effect);
    }

    fn push(&mut self, run: &mut Run, record: Record) -> Result<(), Corrupt> {
        run.evolve(&record)?;
        self.keep(record);
        Ok(())
    }

    /// Adds a record that the run knows of.
    pub(crate) fn keep(&mut self, record: Record) {
        if self.records.capacity() == 0 {
            self.records.reserve(USUAL_RECORDS);
        }
        self.records.push(record);
    }
}

/// Whether something is due a while after such an event: the clock counts that while.
fn sets_due_time(kind: &EventKind) -> bool {
    match kind {
        EventKind::TimerStarted { .. }
        | EventKind::ActivityScheduled(_)
        | EventKind::TaskFailed { .. } => true,
        EventKind::Started(_)
        | EventKind::Completed { .. }
        | EventKind::Failed { .. }
        | EventKind::TimedOut
        | EventKind::TaskScheduled { .. }
        | EventKind::TaskStarted
        | EventKind::TaskCompleted
        | EventKind::ActivityStarted { .. }
        | EventKind::ActivityCompleted { .. }
        | EventKind::ActivityFailed { .. }
        | EventKind::ActivityTimedOut { .. }
        | EventKind::ActivityCancelRequested { .. }
        | EventKind::ActivityCanceled { .. }
        | EventKind::TimerFired { .. }
        | EventKind::TimerCanceled { .. }
        | EventKind::CancelRequested { .. }
        | EventKind::Canceled
        | EventKind::StepRecorded(_)
        | EventKind::Signaled { .. }
        | EventKind::Terminated { .. }
        | EventKind::ContinuedAsNew(_)
        | EventKind::Child(_)
        | EventKind::External(_)
        | EventKind::Update(_)
        | EventKind::Patched { .. } => false,
    }
}
