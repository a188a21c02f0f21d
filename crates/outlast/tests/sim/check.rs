//! Judgement over whole histories: what must be true of every run when all is over, and of
//! memory and disk at any time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use outlast_model::event::{ChildEvent, TaskFailedCause, UpdateEvent};
use outlast_model::id::{Attempt, Incarnation, Seq};
use outlast_model::view::RunOutcome;
use outlast_model::{Event, EventKind, Fact, Record, Resolution, Timestamp, WorkflowId, grammar};
use outlast_runtime::{ForeignWake, ReplayChecks, Unwatched, replay};
use outlast_service::store::{RunRow, Store};

use super::disk::{Disk, event, fact};
use super::driver::Simulation;
use super::ledger::{signal_of, start_request};
use super::program::{Diary, FAILED, Interpreter};
use super::rng::hash;

/// Memory against disk.
impl Simulation {
    /// What the shard has in memory is what is on disk, as far as both can agree.
    pub fn audit(&mut self) {
        for no in self.process.shard.numbers() {
            if let Err(why) = self.audit_one(no) {
                self.desk.violation(format!("run {}: {why}", no.0));
            }
        }
        for row in self.disk.rows() {
            if let Err(why) = self.audit_row(&row) {
                self.desk.violation(format!("{}: {why}", row.workflow_id));
            }
        }
    }

    fn audit_one(&self, no: outlast_model::task::RunNo) -> Result<(), String> {
        let Some(audit) = self.process.shard.audit(no) else {
            return Ok(());
        };
        if let Some(damage) = audit.damage {
            return Err(format!("set aside: {damage}"));
        }
        let Ok(loaded) = self.disk.store.load(no) else {
            return Ok(());
        };
        let is_same_version = loaded.row.state.head == audit.row.state.head;
        let (Some(run), true) = (audit.run, audit.is_sealed && is_same_version) else {
            return Ok(());
        };
        let (whole, _) = self.disk.load_both(no)?;
        if whole.snapshot() != run.snapshot() {
            return Err(format!("memory {run:?}\n  disk {whole:?}"));
        }
        Ok(())
    }

    /// Snapshots are only a short cut, and whatever has a time has a row that says so.
    fn audit_row(&self, row: &RunRow) -> Result<(), String> {
        let (whole, short) = self.disk.load_both(row.no)?;
        if let Some(short) = short {
            self.desk.hit("snapshot.loaded");
            if short.snapshot() != whole.snapshot() || short.wake() != whole.wake() {
                return Err(format!("with snapshot {short:?}\n  without {whole:?}"));
            }
        }
        if whole.status() != row.state.status || whole.events() != row.state.events {
            return Err(format!("{row:?} is not {whole:?}"));
        }
        self.check_due(&whole)?;
        for (seq, timer) in whole.timers() {
            if let outlast_engine::timer::State::Running { due } = timer.state
                && row.state.wake.is_none_or(|wake| wake > due)
            {
                return Err(format!(
                    "timer {seq} is due {due}, its row says {:?}",
                    row.state.wake
                ));
            }
        }
        Ok(())
    }

    /// The content of the disk is part of what a seed came to.
    pub fn hash_disk(&mut self) {
        for row in self.disk.rows() {
            for blob in self.disk.store.history(row.no).unwrap_or_default() {
                self.hash = hash(self.hash, &blob);
            }
        }
    }
}

/// The end.
impl Simulation {
    /// Everything that must hold when all is over.
    pub fn check_all(&mut self) -> Result<(), String> {
        self.audit();
        for row in self.disk.rows() {
            let history = self.disk.history(row.no);
            self.check_run(&row, &history)
                .map_err(|why| format!("{} run {}: {why}", row.workflow_id, row.run_id))?;
            self.mark_history(&history);
            self.disk
                .with_records(row.no, |records| self.mark_facts(records));
        }
        self.check_requests()?;
        self.check_posts()?;
        self.check_promises()?;
        let free = self.process.ramp.free();
        let shape = self.process.shape;
        if free != (shape.activity_slots, shape.step_slots) {
            return Err(format!("slots leaked: {free:?} of {shape:?} are free"));
        }
        let unanswered = self.desk.unanswered();
        if !unanswered.is_empty() {
            return Err(format!("nobody answered {unanswered:?}"));
        }
        match self.desk.lock().violations.first() {
            Some(violation) => Err(violation.clone()),
            None => Ok(()),
        }
    }

    fn check_run(&self, row: &RunRow, history: &[Event]) -> Result<(), String> {
        grammar::check(history).map_err(|e| e.to_string())?;
        check_causes(history)?;
        check_outcomes(&self.disk, row, history)?;
        check_cancel_once(history)?;
        // A timer that fires during a slice is written behind it, at the time of then.
        if !self.faults.clock {
            check_times(history)?;
        }
        self.check_signals(history)?;
        self.check_diary(row, history)?;
        self.check_others(row, history)?;
        if history.iter().any(|e| e.kind == EventKind::TaskCompleted) {
            let checks = ReplayChecks { strict: true };
            let foreign: ForeignWake = Arc::new(|_| {});
            let replayed = replay(history, &Interpreter, &foreign, &Unwatched, checks);
            drop(replayed.map_err(|e| format!("replay: {e}"))?);
        }
        Ok(())
    }

    /// Each signal is there once, in the order in which they were sent.
    fn check_signals(&self, history: &[Event]) -> Result<(), String> {
        let mut last = 0;
        let mut seen = BTreeSet::new();
        for value in history.iter().filter_map(signal_value) {
            if !seen.insert(value) {
                return Err(format!("signal {value} is there twice"));
            }
            if self.clients.is_in_order(value) {
                if value < last {
                    return Err(format!("signal {value} comes behind {last}"));
                }
                last = value;
            }
        }
        Ok(())
    }

    /// One request starts one run, as long as no other run takes its id.
    fn check_requests(&self) -> Result<(), String> {
        let ids: BTreeSet<WorkflowId> = self
            .disk
            .rows()
            .into_iter()
            .map(|r| r.workflow_id)
            .collect();
        for id in ids {
            let mut rows = self.disk.runs_of(&id);
            rows.retain(|row| row.first_run.is_none());
            if rows.len() > 1 {
                self.desk.hit("run.second-of-its-id");
            }
            let mut before = None;
            for row in &rows {
                let request = self.disk.with_records(row.no, |records| {
                    records.first().and_then(start_request).cloned()
                });
                if request.is_some() && request == before {
                    return Err(format!("request {request:?} started two runs"));
                }
                before = request;
            }
        }
        Ok(())
    }

    /// What was acknowledged is there, for good.
    fn check_promises(&self) -> Result<(), String> {
        let ledger = self.desk.lock();
        for (id, run_id) in &ledger.started {
            let row = self.disk.store.find_run(*run_id).ok().flatten();
            if row.is_none_or(|row| row.workflow_id != *id) {
                return Err(format!("the start of {id} was lost"));
            }
        }
        for (id, value) in &ledger.signaled {
            let is_there = self.disk.runs_of(id).iter().any(|row| {
                let history = self.disk.history(row.no);
                history.iter().any(|e| signal_value(e) == Some(*value))
            });
            if !is_there {
                return Err(format!("signal {value} to {id} was lost"));
            }
        }
        self.check_kept(&ledger)?;
        for (id, outcome) in &ledger.told {
            let rows = self.disk.runs_of(id);
            let mut outcomes = rows.iter().filter_map(|row| self.disk.outcome(row.no));
            if !outcomes.any(|other| other == *outcome) {
                return Err(format!("{id} did not end as was told: {outcome:?}"));
            }
        }
        Ok(())
    }
}

pub fn signal_value(event: &Event) -> Option<u64> {
    signal_of(&Record::Event(event.clone()))
}

/// Code and history never disagree, and no command is bad.
fn check_causes(history: &[Event]) -> Result<(), String> {
    for event in history {
        if let EventKind::TaskFailed { cause, failure } = &event.kind
            && matches!(
                cause,
                TaskFailedCause::NonDeterminism | TaskFailedCause::BadCommand
            )
        {
            return Err(format!("event {}: {failure}", event.id));
        }
    }
    Ok(())
}

fn check_cancel_once(history: &[Event]) -> Result<(), String> {
    let cancels = history
        .iter()
        .filter(|e| matches!(e.kind, EventKind::CancelRequested { .. }));
    match cancels.count() {
        0 | 1 => Ok(()),
        count => Err(format!("asked to stop {count} times")),
    }
}

/// Nothing happens before its time, on a clock that does not go back.
fn check_times(history: &[Event]) -> Result<(), String> {
    let mut due: BTreeMap<Seq, Timestamp> = BTreeMap::new();
    let mut expires = None;
    for event in history {
        let early = match &event.kind {
            EventKind::Started(started) => {
                expires = started.run_timeout.map(|limit| event.time.after(limit));
                None
            }
            EventKind::TimerStarted { seq, delay, .. } => {
                due.insert(*seq, event.time.after(*delay));
                None
            }
            EventKind::TimerFired { seq } => due.get(seq).filter(|due| **due > event.time).copied(),
            EventKind::TimedOut => expires.filter(|expires| *expires > event.time),
            _ => None,
        };
        if let Some(due) = early {
            return Err(format!("event {} comes before its time, {due}", event.id));
        }
    }
    Ok(())
}

/// The result of an activity is that of the attempt the history names, in the process it was
/// handed to.
fn check_outcomes(disk: &Disk, row: &RunRow, history: &[Event]) -> Result<(), String> {
    let hand_outs = disk.with_records(row.no, hand_outs);
    for pair in history.windows(2) {
        let [first, second] = pair else { continue };
        let (
            EventKind::ActivityStarted { attempt, .. },
            EventKind::ActivityCompleted { seq, result },
        ) = (&first.kind, &second.kind)
        else {
            continue;
        };
        let said: String = result.decode().map_err(|e| e.to_string())?;
        let known = hand_outs.get(&(*seq, *attempt)).into_iter().flatten();
        let mut names = known.map(|incarnation| format!("{seq} {attempt} {incarnation}"));
        if !names.any(|name| name == said) {
            return Err(format!(
                "event {}: attempt {attempt} of activity {seq} has the result of `{said}`",
                second.id
            ));
        }
    }
    Ok(())
}

type HandOuts = BTreeMap<(Seq, Attempt), Vec<Incarnation>>;

/// Who was given which attempt last: an attempt without a bound may be handed out again under
/// its number, and then only the last one counts.
fn hand_outs(records: &[Record]) -> HandOuts {
    let mut known = HandOuts::new();
    for record in records {
        if let Some(Fact::AttemptStarted {
            seq,
            attempt,
            incarnation,
            ..
        }) = fact(record)
        {
            known.insert((*seq, *attempt), vec![*incarnation]);
        }
    }
    known
}

pub fn diary_of(outcome: Option<RunOutcome>) -> Option<Diary> {
    match outcome? {
        RunOutcome::Completed(result) => result.decode().ok(),
        RunOutcome::Failed(failure) if failure.type_name() == Some(FAILED) => {
            serde_json::from_str(&failure.message).ok()
        }
        RunOutcome::Failed(_)
        | RunOutcome::Canceled
        | RunOutcome::Terminated { .. }
        | RunOutcome::TimedOut
        | RunOutcome::ContinuedAsNew(_) => None,
    }
}

/// Which situations a history shows.
impl Simulation {
    fn mark_history(&self, history: &[Event]) {
        for event in history {
            let name = match &event.kind {
                EventKind::Completed { .. } => "run.completed",
                EventKind::Failed { .. } => "run.failed",
                EventKind::Canceled => "run.canceled",
                EventKind::Terminated { .. } => "run.terminated",
                EventKind::TimedOut => "run.timed-out",
                EventKind::ContinuedAsNew(_) => "run.continued",
                EventKind::Patched { .. } => "patch",
                EventKind::Update(event) => update_marker(event),
                EventKind::Child(event) => child_marker(event),
                EventKind::ActivityCompleted { .. } => "activity.completed",
                EventKind::ActivityFailed { .. } => "activity.failed",
                EventKind::ActivityTimedOut { .. } => "activity.timed-out",
                EventKind::ActivityCanceled { .. } => "activity.canceled",
                EventKind::TimerFired { .. } => "timer.fired",
                EventKind::TimerCanceled { .. } => "timer.canceled",
                EventKind::StepRecorded(step) => match &step.outcome {
                    Resolution::Completed(_) => "step.completed",
                    Resolution::Failed(..) => "step.failed",
                    Resolution::Canceled(_) => "step.canceled",
                },
                EventKind::TaskFailed {
                    cause: TaskFailedCause::UnhandledCommand,
                    ..
                } => "run.unhandled-message",
                EventKind::TaskFailed {
                    cause: TaskFailedCause::Quarantined,
                    ..
                } => "task.quarantined",
                EventKind::ActivityScheduled(scheduled)
                    if *scheduled.options == undo_options(&scheduled.options) =>
                {
                    "undo"
                }
                _ => continue,
            };
            self.desk.hit(name);
        }
    }

    fn mark_facts(&self, records: &[Record]) {
        for known in records.iter().filter_map(fact) {
            let name = match known {
                Fact::AttemptFailed { failure, .. }
                    if failure.type_name() == Some("outlast.WorkerLost") =>
                {
                    "attempt.lost-with-its-process"
                }
                Fact::Heartbeat { .. } => "heartbeat.recorded",
                Fact::UpdateRejected { .. } => "update.rejection-recorded",
                Fact::TaskRetry { .. } => "task.failed-again",
                Fact::SliceArmed => "slice.armed",
                Fact::EpochRaised { .. } => "epoch.raised",
                Fact::Buffered { kind } => match &**kind {
                    EventKind::Signaled { .. } => "signal.buffered",
                    EventKind::CancelRequested { .. } => "cancel.buffered",
                    EventKind::Child(_) => "child.buffered",
                    EventKind::External(_) => "answer.buffered",
                    EventKind::Update(_) => "update.buffered",
                    _ => continue,
                },
                _ => continue,
            };
            self.desk.hit(name);
        }
        debug_assert!(records.iter().filter_map(event).next().is_some());
    }
}

/// An undo is the one activity that names no timeout and two attempts.
fn undo_options(like: &outlast_model::ActivityOptions) -> outlast_model::ActivityOptions {
    outlast_model::ActivityOptions {
        start_to_close: Some(outlast_model::limits::START_TO_CLOSE_DEFAULT),
        retry: outlast_model::RetryPolicy::times(2),
        schedule_to_close: None,
        schedule_to_start: None,
        heartbeat: None,
        cancel: outlast_model::CancelMode::Try,
        queue: like.queue.clone(),
        priority: like.priority,
    }
}

fn update_marker(event: &UpdateEvent) -> &'static str {
    match event {
        UpdateEvent::Admitted(_) => "update.admitted",
        UpdateEvent::Accepted(_) => "update.accepted",
        UpdateEvent::Completed { .. } => "update.completed",
    }
}

fn child_marker(event: &ChildEvent) -> &'static str {
    match event {
        ChildEvent::Initiated(_) => "child.initiated",
        ChildEvent::StartFailed { .. } => "child.not-started",
        ChildEvent::Started { .. } => "child.started",
        ChildEvent::Completed { .. } => "child.completed",
        ChildEvent::Failed { .. } => "child.failed",
        ChildEvent::Canceled { .. } => "child.canceled",
        ChildEvent::TimedOut { .. } => "child.timed-out",
        ChildEvent::Terminated { .. } => "child.terminated",
    }
}
