//! A run's state: the fold of its records, and nothing else.
//!
//! [`Run::evolve`] is the only way state changes, live and when a run is loaded. What is not in
//! the records is either derived (the index of [deadlines](crate::deadline)) or gone with the
//! process on purpose (that a slice is under way). Which wins: the records.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

use minicbor::{Decode, Encode};
use outlast_model::event::{
    CancelInitiated, CancelOf, SignalInitiated, Started, TaskFailedCause, UpdateEvent,
};
use outlast_model::id::{Attempt, Epoch, EventId, Incarnation, RequestId, RunId, Seq, UpdateId};
use outlast_model::job::Job;
use outlast_model::record::{self, Damaged};
use outlast_model::rest::Rest;
use outlast_model::task::{AttemptKind, AttemptToken, RunNo};
use outlast_model::{Event, EventKind, Line, Record, Shared, Status, Timestamp, limits};

use crate::activity::Activity;
use crate::child::Child;
use crate::deadline::{Deadline, Deadlines};
use crate::rare::Rare;
use crate::request::{Requests, Window};
use crate::step::Step;
use crate::timer::Timer;
use crate::update::{Unwritten, Update};
use crate::workflow_task;

mod fold;
mod others;

/// The records contradict each other: damage, or a bug. The run is set aside.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Corrupt {
    /// A record that cannot be where it is.
    #[error("{record} cannot follow what is before it: {why}")]
    OutOfPlace {
        /// Which record.
        record: String,
        /// Which rule it breaks.
        why: &'static str,
    },
    /// A blob that cannot be read.
    #[error(transparent)]
    Damaged(#[from] Damaged),
}

/// The highest sequence number used so far, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct Used {
    /// Of activities.
    #[n(0)]
    pub activity: Seq,
    /// Of timers.
    #[n(1)]
    pub timer: Seq,
    /// Of steps.
    #[n(2)]
    pub step: Seq,
    /// Of children.
    #[cbor(n(3), default)]
    pub child: Seq,
    /// Of messages to other runs.
    #[cbor(n(4), default)]
    pub signal: Seq,
    /// Of requests to other runs to stop.
    #[cbor(n(5), default)]
    pub cancel: Seq,
}

/// One execution of a workflow.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct Run {
    #[n(0)]
    started: Shared<Started>,
    #[n(1)]
    start_time: Timestamp,
    #[n(2)]
    status: Status,
    #[n(3)]
    epoch: Epoch,
    #[n(4)]
    next_event: EventId,
    #[n(5)]
    last_event_time: Timestamp,
    #[n(6)]
    task: workflow_task::State,
    /// Boxed: most runs have one or two, and a line makes room for four at once.
    #[n(7)]
    activities: Line<Seq, Box<Activity>>,
    #[n(8)]
    timers: Rare<BTreeMap<Seq, Timer>>,
    #[n(9)]
    steps: Rare<BTreeMap<Seq, Step>>,
    /// What workflow code has not seen.
    #[n(10)]
    unseen: Vec<Job>,
    /// What arrived while workflow code ran.
    #[n(11)]
    buffer: Vec<EventKind>,
    /// Requests that settled a promise.
    #[n(12)]
    pub(crate) settled: Rare<BTreeSet<RequestId>>,
    /// The others, the newest.
    #[cbor(n(26), default)]
    pub(crate) requests: Rare<Requests>,
    #[cbor(skip)]
    pub(crate) window: Window,
    #[n(13)]
    is_cancel_requested: bool,
    /// Unclean stops of the process since a slice of this run last ended.
    #[n(14)]
    crashes: u32,
    /// Whether workflow code ever answered: if so, an instance is rebuilt by replay.
    #[n(15)]
    has_history: bool,
    /// The highest number used so far, by kind: a number is never used twice.
    #[n(16)]
    used: Used,
    #[cbor(n(17), default)]
    children: Rare<BTreeMap<Seq, Child>>,
    /// Messages to other runs that have not been answered for.
    #[cbor(n(18), default)]
    signals: Rare<BTreeMap<Seq, Box<SignalInitiated>>>,
    /// Requests to other runs that have not been answered for.
    #[cbor(n(19), default)]
    cancels: Rare<BTreeMap<CancelOf, Box<CancelInitiated>>>,
    #[cbor(n(20), default)]
    updates: Rare<BTreeMap<UpdateId, Update>>,
    /// What workflow code had to say that is no failure, the newest last.
    #[cbor(n(21), default)]
    notes: Vec<String>,
    #[cbor(n(22), default)]
    unhandled_signals: u32,
    /// Where its code rests, and what it has not taken.
    #[n(24)]
    rest: Option<Box<Rest>>,
    /// When it began by the clock, if that was behind the time of its start.
    #[n(25)]
    start_clock: Option<Timestamp>,
    /// Those of the updates that have not come to their end: a run may have answered very many.
    #[cbor(skip)]
    open_updates: Rare<BTreeSet<UpdateId>>,
    /// Updates that earlier runs of the chain accepted, and which run.
    #[cbor(n(23), default)]
    accepted_before: Rare<BTreeMap<UpdateId, RunId>>,
    /// Updates that workflow code is given before history knows them.
    #[cbor(skip)]
    unwritten: Rare<BTreeMap<UpdateId, Unwritten>>,
    /// Updates that were written while the slice under way had seen them already, and where it
    /// stood when it was given them: replay must deliver them there.
    #[cbor(skip)]
    seen_behind: Rare<BTreeMap<UpdateId, EventId>>,
    /// Where the run stood before a task that only unwritten updates asked for.
    #[cbor(skip)]
    speculation: Option<(EventId, Timestamp)>,
    #[cbor(skip)]
    no: RunNo,
    #[cbor(skip)]
    shard: u32,
    #[cbor(skip)]
    deadlines: Deadlines,
    /// When the slice under way began. Not recorded: a crash simply ends it.
    #[cbor(skip)]
    slice: Option<Timestamp>,
    #[cbor(skip)]
    bytes: u64,
    /// What the clock said when the next event was recorded, if that is behind its time.
    #[cbor(skip)]
    clock_behind: Option<Timestamp>,
}

impl Run {
    /// A run from its first event.
    ///
    /// # Errors
    /// [`Corrupt`] when the event is not a start.
    pub fn from_first(first: &Event) -> Result<Self, Corrupt> {
        let EventKind::Started(started) = &first.kind else {
            return Err(out_of_place(
                first.kind.name(),
                "a history begins with its start",
            ));
        };
        let mut run = Self {
            started: started.clone(),
            start_time: first.time,
            status: Status::Running,
            epoch: Epoch(0),
            next_event: EventId(first.id.0 + 1),
            last_event_time: first.time,
            task: workflow_task::State::Idle,
            activities: Line::default(),
            timers: Rare::default(),
            steps: Rare::default(),
            unseen: Vec::from([Job::Initialize(started.clone())]),
            buffer: Vec::new(),
            settled: Rare::default(),
            requests: Rare::default(),
            window: Window::default(),
            is_cancel_requested: false,
            crashes: 0,
            has_history: false,
            used: Used::default(),
            children: Rare::default(),
            signals: Rare::default(),
            cancels: Rare::default(),
            updates: Rare::default(),
            notes: Vec::new(),
            unhandled_signals: 0,
            rest: None,
            start_clock: None,
            open_updates: Rare::default(),
            accepted_before: Rare::default(),
            unwritten: Rare::default(),
            seen_behind: Rare::default(),
            speculation: None,
            no: RunNo(0),
            shard: 0,
            deadlines: Deadlines::default(),
            slice: None,
            bytes: 0,
            clock_behind: None,
        };
        run.arm_run_timeout();
        Ok(run)
    }

    /// A run from all its blobs, or from a snapshot and the blobs after it.
    ///
    /// # Errors
    /// [`Corrupt`] when the blobs do not fit together.
    pub fn load(snapshot: Option<&[u8]>, blobs: &[Vec<u8>]) -> Result<Self, Corrupt> {
        Self::load_with(snapshot, blobs, Window::default())
    }

    /// The same, of a run that remembers so many requests.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn load_with(
        snapshot: Option<&[u8]>,
        blobs: &[Vec<u8>],
        window: Window,
    ) -> Result<Self, Corrupt> {
        let mut run = Self::thawed(snapshot, window)?;
        for blob in blobs {
            Self::absorb(&mut run, blob, window)?;
        }
        let mut run = run.ok_or_else(|| out_of_place("end", "a run has at least one record"))?;
        run.rearm();
        Ok(run)
    }

    /// As much of it as can be read before the first record that cannot be, or does not fit: who
    /// began it and whom it began, of a run that is set aside.
    pub fn load_part(snapshot: Option<&[u8]>, blobs: &[Vec<u8>], window: Window) -> Option<Self> {
        let mut run = Self::thawed(snapshot, window).ok()?;
        for blob in blobs {
            if Self::absorb(&mut run, blob, window).is_err() {
                break;
            }
        }
        run
    }

    fn thawed(snapshot: Option<&[u8]>, window: Window) -> Result<Option<Self>, Corrupt> {
        let mut run: Option<Self> = snapshot.map(record::unframe).transpose()?;
        if let Some(run) = &mut run {
            run.remembers(window);
            run.part_requests();
            run.find_open_updates();
        }
        Ok(run)
    }

    fn absorb(run: &mut Option<Self>, blob: &[u8], window: Window) -> Result<(), Corrupt> {
        for record in record::decode(blob)? {
            match (&mut *run, &record) {
                (Some(run), record) => run.evolve(record)?,
                (None, Record::Event(first)) => {
                    run.insert(Self::from_first(first)?).remembers(window);
                }
                (None, Record::Fact(_)) => {
                    return Err(out_of_place("fact", "a history begins with its start"));
                }
            }
        }
        Ok(())
    }

    /// Its state as bytes: a cache of the fold.
    pub fn snapshot(&self) -> Vec<u8> {
        record::frame(self)
    }

    /// Where the run is kept: the shard, its number in the store and the bytes it has there. Known
    /// to the service alone.
    pub fn placed(&mut self, shard: u32, no: RunNo, bytes: u64) {
        self.shard = shard;
        self.no = no;
        self.bytes = bytes;
    }

    /// What it was started with.
    pub fn started(&self) -> &Started {
        &self.started
    }

    /// The same, for whoever keeps it.
    pub(crate) fn shared_start(&self) -> Shared<Started> {
        self.started.clone()
    }

    /// When it began.
    pub fn start_time(&self) -> Timestamp {
        self.start_time
    }

    /// Where it stands.
    pub fn status(&self) -> Status {
        self.status
    }

    /// Its fence.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Events so far.
    pub fn events(&self) -> u64 {
        self.next_event.0 - 1
    }

    /// Bytes in the store so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The number of the next event.
    pub fn next_event(&self) -> EventId {
        self.next_event
    }

    /// The time of the last event.
    pub fn last_event_time(&self) -> Timestamp {
        self.last_event_time
    }

    /// The state of its workflow task.
    pub fn task(&self) -> &workflow_task::State {
        &self.task
    }

    /// What workflow code has not seen, in history order.
    pub fn unseen(&self) -> &[Job] {
        &self.unseen
    }

    /// Whether an instance must be rebuilt from the history.
    pub fn has_history(&self) -> bool {
        self.has_history
    }

    /// Unclean stops since a slice of this run last ended.
    pub fn crashes(&self) -> u32 {
        self.crashes
    }

    /// Whether somebody asked the run to stop.
    pub fn is_cancel_requested(&self) -> bool {
        self.is_cancel_requested
    }

    /// Open activities.
    pub fn activities(&self) -> impl Iterator<Item = (Seq, &Activity)> {
        self.activities.iter().map(|(seq, a)| (seq, &**a))
    }

    /// Open timers.
    pub fn timers(&self) -> impl Iterator<Item = (Seq, &Timer)> {
        self.timers.iter().map(|(seq, t)| (*seq, t))
    }

    /// Open steps.
    pub fn steps(&self) -> impl Iterator<Item = (Seq, &Step)> {
        self.steps.iter().map(|(seq, s)| (*seq, s))
    }

    /// One open activity.
    pub fn activity(&self, seq: Seq) -> Option<&Activity> {
        self.activities.get(seq).map(|activity| &**activity)
    }

    /// One open step.
    pub fn step(&self, seq: Seq) -> Option<&Step> {
        self.steps.get(&seq)
    }

    /// The highest number used so far, by kind.
    pub fn used(&self) -> Used {
        self.used
    }

    /// How many operations wait for their outcome.
    pub fn pending(&self) -> usize {
        self.activities.len()
            + self.timers.len()
            + self.steps.len()
            + self.children.len()
            + self.signals.len()
            + self.cancels.len()
    }

    /// Whether only the end of the run can still be recorded.
    pub fn is_full(&self) -> bool {
        self.events() >= limits::HISTORY_EVENTS || self.bytes >= limits::HISTORY_BYTES
    }

    /// When it must look at the clock again.
    pub fn wake(&self) -> Option<Timestamp> {
        self.deadlines.next()
    }

    /// Whether messages wait in the buffer: a closing run must see them first.
    pub fn has_buffered_messages(&self) -> bool {
        self.buffer.iter().any(is_message)
    }

    pub(crate) fn has_buffer(&self) -> bool {
        !self.buffer.is_empty()
    }

    /// Whether workflow code runs now.
    pub fn is_slice_out(&self) -> bool {
        self.slice.is_some()
    }

    /// Whether stimuli wait in the buffer: while workflow code runs, and after a crash in it until
    /// it has run again, so that nothing overtakes what came before.
    pub(crate) fn is_buffering(&self) -> bool {
        self.slice.is_some() || !self.buffer.is_empty()
    }

    /// Workflow code begins to run: from here stimuli are buffered. Returns the workflow's time,
    /// which never goes back.
    pub fn slice_begins(&mut self, clock: Timestamp) -> Timestamp {
        let now = clock.max(self.last_event_time);
        self.slice = Some(now);
        self.seen_behind.clear();
        now
    }

    /// Workflow code does not run any more, or its answer will not count.
    pub fn slice_ended(&mut self) {
        self.slice = None;
    }

    /// Names one attempt of this run.
    pub fn token(
        &self,
        kind: AttemptKind,
        seq: Seq,
        attempt: Attempt,
        incarnation: Incarnation,
    ) -> AttemptToken {
        AttemptToken {
            shard: self.shard,
            run: self.no,
            kind,
            seq,
            attempt,
            incarnation,
        }
    }

    pub(crate) fn timer(&self, seq: Seq) -> Option<&Timer> {
        self.timers.get(&seq)
    }

    pub(crate) fn take_buffer(&mut self) -> Vec<EventKind> {
        core::mem::take(&mut self.buffer)
    }

    pub(crate) fn pop_due(&mut self, now: Timestamp) -> Option<Deadline> {
        self.deadlines.pop_due(now)
    }

    pub(crate) fn arm(&mut self, thing: Deadline, time: Option<Timestamp>) {
        self.deadlines.set(thing, time);
    }

    /// An activity was told to wait for a slot: its due time is behind it.
    pub(crate) fn queued(&mut self, seq: Seq) {
        let time = self.activity(seq).and_then(Activity::deadline_in_queue);
        self.deadlines.set(Deadline::Activity(seq), time);
    }

    fn arm_activity(&mut self, seq: Seq) {
        let time = self.activity(seq).and_then(Activity::deadline);
        self.deadlines.set(Deadline::Activity(seq), time);
    }

    fn arm_run_timeout(&mut self) {
        let began = self.start_clock.unwrap_or(self.start_time);
        let time = self.started.run_timeout.map(|d| began.after(d));
        self.deadlines.set(Deadline::Run, time);
    }

    fn rearm(&mut self) {
        if !self.status.is_open() {
            return;
        }
        self.arm_run_timeout();
        let next_try = self.task.streak().and_then(|s| s.next_try);
        self.deadlines.set(Deadline::Task, next_try);
        let timers: Vec<_> = self.timers.iter().map(|(seq, t)| (*seq, t.state)).collect();
        for (seq, state) in timers {
            if let crate::timer::State::Running { due } = state {
                self.deadlines.set(Deadline::Timer(seq), Some(due));
            }
        }
        let activities: Vec<_> = self.activities.keys().collect();
        for seq in activities {
            self.arm_activity(seq);
        }
        let steps: Vec<_> = self
            .steps
            .iter()
            .map(|(seq, s)| (*seq, s.state.clone()))
            .collect();
        for (seq, state) in steps {
            if let crate::step::State::Waiting { due, .. } = state {
                self.deadlines.set(Deadline::Step(seq), Some(due));
            }
        }
    }
}

/// Whether a buffered stimulus is a message, which somebody was told is safe.
fn is_message(kind: &EventKind) -> bool {
    matches!(
        kind,
        EventKind::Signaled { .. }
            | EventKind::CancelRequested { .. }
            | EventKind::Update(UpdateEvent::Admitted(_))
    )
}

fn out_of_place(record: &str, why: &'static str) -> Corrupt {
    Corrupt::OutOfPlace {
        record: record.into(),
        why,
    }
}

/// The streak that begins with this failure, or none if the task is simply scheduled again.
fn streak(
    cause: TaskFailedCause,
    failure: &outlast_model::Failure,
    at: Timestamp,
    clock: Timestamp,
) -> workflow_task::State {
    if cause == TaskFailedCause::UnhandledCommand {
        return workflow_task::State::Idle;
    }
    workflow_task::State::Failing(Box::new(workflow_task::Streak {
        attempts: Attempt::FIRST,
        since: at,
        cause,
        failure: failure.clone(),
        next_try: workflow_task::next_try(cause, Attempt::FIRST, clock),
    }))
}
