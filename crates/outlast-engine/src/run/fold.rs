//! How each record changes a run. Total: a record that does not fit is [`Corrupt`], never a
//! panic.

use alloc::boxed::Box;

use outlast_model::event::Site;
use outlast_model::id::{Attempt, Incarnation, Seq};
use outlast_model::job::Job;
use outlast_model::{Event, EventKind, Fact, Payload, Record, Status, Timestamp};

use super::{Corrupt, Run, out_of_place, streak};
use crate::activity::{self, Activity};
use crate::deadline::Deadline;
use crate::step::{self, Step};
use crate::timer::{self, Timer};
use crate::workflow_task;

impl Run {
    /// Changes the run by one record.
    ///
    /// # Errors
    /// [`Corrupt`] when the record cannot follow what is before it.
    pub fn evolve(&mut self, record: &Record) -> Result<(), Corrupt> {
        if !self.status.is_open() {
            return Err(out_of_place("record", "nothing follows the end of a run"));
        }
        match record {
            Record::Event(event) => self.evolve_event(event),
            Record::Fact(fact) => self.evolve_fact(fact),
        }
    }

    fn evolve_event(&mut self, event: &Event) -> Result<(), Corrupt> {
        if event.id != self.next_event {
            return Err(out_of_place(
                event.kind.name(),
                "event numbers have no gaps",
            ));
        }
        self.next_event.0 += 1;
        self.last_event_time = self.last_event_time.max(event.time);
        let clock = self.clock_behind.take().unwrap_or(event.time);
        if let EventKind::Update(update) = &event.kind {
            return self.change_update(update, event.id);
        }
        self.change(&event.kind, event.time, clock)?;
        if let Some(job) = Job::from_event(event) {
            self.unseen.push(job);
        }
        Ok(())
    }

    /// `clock`: what due times are counted from.
    fn change(
        &mut self,
        kind: &EventKind,
        time: Timestamp,
        clock: Timestamp,
    ) -> Result<(), Corrupt> {
        match kind {
            EventKind::Started(_) => Err(out_of_place(kind.name(), "a run starts once")),
            EventKind::TaskScheduled { .. } => {
                self.set_task(workflow_task::State::Scheduled);
                Ok(())
            }
            EventKind::TaskStarted => Ok(()),
            EventKind::TaskCompleted => {
                self.set_task(workflow_task::State::Idle);
                self.unseen.clear();
                self.speculation = None;
                self.has_history = true;
                self.slice_over();
                Ok(())
            }
            EventKind::TaskFailed { cause, failure } => {
                self.set_task(streak(*cause, failure, time, clock));
                self.slice_over();
                Ok(())
            }
            EventKind::ActivityScheduled(scheduled) => {
                let seq = scheduled.seq;
                self.used.activity = self.used.activity.max(seq);
                let activity = Activity::new(scheduled.clone(), clock);
                // Not armed: its first attempt is asked for at once, or by whoever loads the run.
                self.activities.insert(seq, Box::new(activity));
                Ok(())
            }
            EventKind::ActivityStarted { .. } => Ok(()),
            EventKind::ActivityCompleted { seq, .. }
            | EventKind::ActivityFailed { seq, .. }
            | EventKind::ActivityTimedOut { seq, .. }
            | EventKind::ActivityCanceled { seq, .. } => self.remove_activity(*seq, kind),
            EventKind::ActivityCancelRequested { seq } => {
                self.activity_mut(*seq, kind.name())?.is_cancel_requested = true;
                Ok(())
            }
            EventKind::TimerStarted { seq, delay, site } => {
                self.start_timer(*seq, clock.after(*delay), site);
                Ok(())
            }
            EventKind::TimerFired { seq } | EventKind::TimerCanceled { seq } => {
                self.deadlines.set(Deadline::Timer(*seq), None);
                match self.timers.remove(seq) {
                    Some(_) => Ok(()),
                    None => Err(out_of_place(kind.name(), "there is no such timer")),
                }
            }
            EventKind::StepRecorded(step) => self.remove_step(step.seq, kind),
            EventKind::CancelRequested { request_id, .. } => {
                self.is_cancel_requested = true;
                self.saw(request_id.as_ref(), time);
                Ok(())
            }
            EventKind::Signaled { request_id, .. } => {
                self.saw(request_id.as_ref(), time);
                Ok(())
            }
            EventKind::Completed { .. } => self.closed(Status::Completed),
            EventKind::Failed { .. } => self.closed(Status::Failed),
            EventKind::Canceled => self.closed(Status::Canceled),
            EventKind::TimedOut => self.closed(Status::TimedOut),
            EventKind::Terminated { .. } => self.closed(Status::Terminated),
            EventKind::ContinuedAsNew(_) => self.closed(Status::ContinuedAsNew),
            EventKind::Child(event) => self.change_child(event),
            EventKind::External(event) => self.change_external(event),
            // Its number matters: `evolve_event` has dealt with it.
            EventKind::Update(_) => Ok(()),
            EventKind::Patched { .. } => Ok(()),
        }
    }

    fn evolve_fact(&mut self, fact: &Fact) -> Result<(), Corrupt> {
        match fact {
            Fact::AttemptStarted {
                seq,
                attempt,
                incarnation,
                at,
            } => self.attempt_started(*seq, (*attempt, *incarnation), *at),
            Fact::AttemptFailed { seq, failure, due } => self.attempt_failed(*seq, failure, *due),
            Fact::AttemptHandedBack { seq, at } => self.attempt_handed_back(*seq, *at),
            Fact::AttemptLeft { seq } => self.attempt_left(*seq),
            Fact::Heartbeat { seq, details, at } => self.beat(*seq, details, *at),
            Fact::StepScheduled { .. }
            | Fact::StepStarted { .. }
            | Fact::StepFailed { .. }
            | Fact::StepHandedBack { .. }
            | Fact::StepResolved { .. } => self.evolve_step(fact),
            Fact::Buffered { kind } => self.buffered(kind),
            Fact::Inherited { request_ids, seen } => {
                self.inherit_requests(request_ids, seen.as_deref());
                Ok(())
            }
            Fact::UpdatesInherited { updates } => {
                self.inherit_updates(updates);
                Ok(())
            }
            Fact::Noted {
                notes,
                unhandled_signals,
                rest,
            } => {
                self.note(notes, *unhandled_signals, rest.as_deref());
                Ok(())
            }
            Fact::UpdateRejected { id, failure } => self.reject_update(id, failure),
            Fact::ClockBehind { at } => {
                self.clock_behind = Some(*at);
                Ok(())
            }
            Fact::BeganBehind { at } => {
                self.start_clock = Some(*at);
                self.arm_run_timeout();
                Ok(())
            }
            Fact::TaskRetry { .. }
            | Fact::SliceArmed
            | Fact::SliceDisarmed
            | Fact::Unblocked
            | Fact::EpochRaised { .. } => {
                self.evolve_task(fact);
                Ok(())
            }
        }
    }

    /// Facts about steps.
    fn evolve_step(&mut self, fact: &Fact) -> Result<(), Corrupt> {
        match fact {
            Fact::StepScheduled {
                seq,
                name,
                options,
                site,
                at,
            } => {
                let state = waiting_step(Attempt::FIRST, *at);
                self.used.step = self.used.step.max(*seq);
                let (name, options, site) = (name.clone(), (**options).clone(), site.clone());
                let step = Step {
                    name,
                    options,
                    site,
                    state,
                };
                // Not armed, like an activity.
                self.steps.insert(*seq, step);
                Ok(())
            }
            Fact::StepStarted {
                seq,
                attempt,
                incarnation,
            } => self.step_started(*seq, *attempt, *incarnation),
            Fact::StepFailed { seq, due, .. } => {
                let next = self.step_mut(*seq)?.attempt().next();
                self.step_waits(*seq, next, *due)
            }
            Fact::StepHandedBack { seq, at } => {
                let same = self.step_mut(*seq)?.attempt();
                self.step_waits(*seq, same, *at)
            }
            Fact::StepResolved { seq, outcome } => {
                self.resolve_step(*seq, outcome)?;
                let (seq, resolution) = (*seq, outcome.clone());
                self.unseen.push(Job::ResolveStep { seq, resolution });
                Ok(())
            }
            Fact::AttemptStarted { .. }
            | Fact::AttemptFailed { .. }
            | Fact::AttemptHandedBack { .. }
            | Fact::AttemptLeft { .. }
            | Fact::Heartbeat { .. }
            | Fact::Buffered { .. }
            | Fact::TaskRetry { .. }
            | Fact::Inherited { .. }
            | Fact::UpdatesInherited { .. }
            | Fact::Noted { .. }
            | Fact::UpdateRejected { .. }
            | Fact::ClockBehind { .. }
            | Fact::BeganBehind { .. }
            | Fact::EpochRaised { .. }
            | Fact::SliceArmed
            | Fact::SliceDisarmed
            | Fact::Unblocked => Ok(()),
        }
    }

    /// Facts about workflow code itself.
    fn evolve_task(&mut self, fact: &Fact) {
        match fact {
            Fact::TaskRetry {
                attempt,
                cause,
                failure,
                next_try,
            } => {
                let since = self.task.streak().map_or(self.last_event_time, |s| s.since);
                let streak = workflow_task::Streak {
                    attempts: *attempt,
                    since,
                    cause: *cause,
                    failure: failure.clone(),
                    next_try: *next_try,
                };
                self.set_task(workflow_task::State::Failing(Box::new(streak)));
                self.slice_over();
            }
            Fact::SliceArmed => self.crashes = self.crashes.saturating_add(1),
            Fact::SliceDisarmed => self.crashes = 0,
            Fact::Unblocked => {
                if let workflow_task::State::Failing(streak) = &mut self.task {
                    streak.next_try = Some(Timestamp(0));
                    self.deadlines.set(Deadline::Task, Some(Timestamp(0)));
                }
                self.crashes = 0;
            }
            Fact::EpochRaised { epoch } => self.epoch = *epoch,
            Fact::AttemptStarted { .. }
            | Fact::AttemptFailed { .. }
            | Fact::AttemptHandedBack { .. }
            | Fact::AttemptLeft { .. }
            | Fact::Heartbeat { .. }
            | Fact::StepScheduled { .. }
            | Fact::StepStarted { .. }
            | Fact::StepFailed { .. }
            | Fact::StepHandedBack { .. }
            | Fact::StepResolved { .. }
            | Fact::Inherited { .. }
            | Fact::UpdatesInherited { .. }
            | Fact::Noted { .. }
            | Fact::UpdateRejected { .. }
            | Fact::ClockBehind { .. }
            | Fact::BeganBehind { .. }
            | Fact::Buffered { .. } => {}
        }
    }

    fn attempt_started(
        &mut self,
        seq: Seq,
        (attempt, incarnation): (Attempt, Incarnation),
        at: Timestamp,
    ) -> Result<(), Corrupt> {
        let state = activity::State::Running {
            attempt,
            incarnation,
            since: at,
            beat: at,
        };
        self.activity_mut(seq, "AttemptStarted")?.state = state;
        self.arm_activity(seq);
        Ok(())
    }

    fn beat(&mut self, seq: Seq, details: &Payload, at: Timestamp) -> Result<(), Corrupt> {
        let activity = self.activity_mut(seq, "Heartbeat")?;
        activity.heartbeat_details = Some(details.clone());
        if let activity::State::Running { beat, .. } | activity::State::Outside { beat, .. } =
            &mut activity.state
        {
            *beat = at;
        }
        self.arm_activity(seq);
        Ok(())
    }

    fn set_task(&mut self, state: workflow_task::State) {
        let next_try = state.streak().and_then(|s| s.next_try);
        self.deadlines.set(Deadline::Task, next_try);
        self.task = state;
    }

    /// Workflow code answered: what was buffered follows as records of its own.
    fn slice_over(&mut self) {
        self.buffer.clear();
        self.crashes = 0;
    }

    fn attempt_failed(
        &mut self,
        seq: Seq,
        failure: &outlast_model::Failure,
        due: Timestamp,
    ) -> Result<(), Corrupt> {
        let activity = self.activity_mut(seq, "AttemptFailed")?;
        let (activity::State::Running { attempt, .. } | activity::State::Outside { attempt, .. }) =
            activity.state
        else {
            return Err(out_of_place(
                "AttemptFailed",
                "no attempt of this activity is open",
            ));
        };
        activity.state = activity::State::Waiting {
            attempt: attempt.next(),
            due,
        };
        activity.last_failure = Some(failure.clone());
        activity.waiting_since = due;
        self.arm_activity(seq);
        Ok(())
    }

    fn step_started(
        &mut self,
        seq: Seq,
        attempt: Attempt,
        incarnation: Incarnation,
    ) -> Result<(), Corrupt> {
        self.step_mut(seq)?.state = step::State::Running {
            attempt,
            incarnation,
        };
        self.deadlines.set(Deadline::Step(seq), None);
        Ok(())
    }

    fn step_waits(&mut self, seq: Seq, attempt: Attempt, due: Timestamp) -> Result<(), Corrupt> {
        self.step_mut(seq)?.state = waiting_step(attempt, due);
        self.deadlines.set(Deadline::Step(seq), Some(due));
        Ok(())
    }

    fn attempt_handed_back(&mut self, seq: Seq, at: Timestamp) -> Result<(), Corrupt> {
        let activity = self.activity_mut(seq, "AttemptHandedBack")?;
        let activity::State::Running { attempt, .. } = activity.state else {
            return Err(out_of_place(
                "AttemptHandedBack",
                "no attempt of this activity runs",
            ));
        };
        activity.state = activity::State::Waiting { attempt, due: at };
        activity.waiting_since = at;
        self.arm_activity(seq);
        Ok(())
    }

    fn attempt_left(&mut self, seq: Seq) -> Result<(), Corrupt> {
        let activity = self.activity_mut(seq, "AttemptLeft")?;
        let activity::State::Running {
            attempt,
            incarnation,
            since,
            beat,
        } = activity.state
        else {
            let why = "no attempt of this activity runs";
            return Err(out_of_place("AttemptLeft", why));
        };
        activity.state = activity::State::Outside {
            attempt,
            incarnation,
            since,
            beat,
        };
        Ok(())
    }

    fn buffered(&mut self, kind: &EventKind) -> Result<(), Corrupt> {
        match kind {
            EventKind::ActivityCompleted { seq, .. }
            | EventKind::ActivityFailed { seq, .. }
            | EventKind::ActivityTimedOut { seq, .. }
            | EventKind::ActivityCanceled { seq, .. } => {
                self.activity_mut(*seq, kind.name())?.state = activity::State::Closing;
                self.deadlines.set(Deadline::Activity(*seq), None);
            }
            EventKind::TimerFired { seq } => {
                let Some(timer) = self.timers.get_mut(seq) else {
                    return Err(out_of_place(kind.name(), "there is no such timer"));
                };
                timer.state = timer::State::Firing;
                self.deadlines.set(Deadline::Timer(*seq), None);
            }
            EventKind::StepRecorded(step) => self.resolve_step(step.seq, &step.outcome)?,
            EventKind::CancelRequested { request_id, .. } => {
                self.is_cancel_requested = true;
                self.saw(request_id.as_ref(), self.last_event_time);
            }
            EventKind::Signaled { request_id, .. } => {
                self.saw(request_id.as_ref(), self.last_event_time);
            }
            EventKind::ActivityStarted { .. } => (),
            EventKind::Child(event) => self.buffered_child(event)?,
            EventKind::External(event) => self.buffered_external(event)?,
            EventKind::Update(event) => self.buffered_update(event)?,
            EventKind::Started(_)
            | EventKind::Completed { .. }
            | EventKind::Failed { .. }
            | EventKind::TimedOut
            | EventKind::TaskScheduled { .. }
            | EventKind::TaskStarted
            | EventKind::TaskCompleted
            | EventKind::TaskFailed { .. }
            | EventKind::ActivityScheduled(_)
            | EventKind::ActivityCancelRequested { .. }
            | EventKind::TimerStarted { .. }
            | EventKind::TimerCanceled { .. }
            | EventKind::Canceled
            | EventKind::Terminated { .. }
            | EventKind::ContinuedAsNew(_)
            | EventKind::Patched { .. } => {
                return Err(out_of_place(kind.name(), "only stimuli are buffered"));
            }
        }
        self.buffer.push(kind.clone());
        Ok(())
    }

    fn resolve_step(
        &mut self,
        seq: Seq,
        outcome: &outlast_model::Resolution,
    ) -> Result<(), Corrupt> {
        let step = self.step_mut(seq)?;
        let attempt = step.attempt();
        step.state = step::State::Resolved {
            attempt,
            outcome: outcome.clone(),
        };
        self.deadlines.set(Deadline::Step(seq), None);
        Ok(())
    }

    fn start_timer(&mut self, seq: Seq, due: Timestamp, site: &Site) {
        self.used.timer = self.used.timer.max(seq);
        let (state, site) = (timer::State::Running { due }, site.clone());
        self.timers.insert(seq, Timer { state, site });
        self.deadlines.set(Deadline::Timer(seq), Some(due));
    }

    fn remove_step(&mut self, seq: Seq, kind: &EventKind) -> Result<(), Corrupt> {
        match self.steps.remove(&seq) {
            Some(_) => Ok(()),
            None => Err(out_of_place(kind.name(), "there is no such step")),
        }
    }

    fn remove_activity(&mut self, seq: Seq, kind: &EventKind) -> Result<(), Corrupt> {
        use outlast_model::planted::{Bug, is_planted};
        self.deadlines.set(Deadline::Activity(seq), None);
        match self.activities.remove(seq) {
            Some(_) => Ok(()),
            None if is_planted(Bug::OutcomeTwice) => Ok(()),
            None => Err(out_of_place(kind.name(), "there is no such activity")),
        }
    }

    fn closed(&mut self, status: Status) -> Result<(), Corrupt> {
        self.status = status;
        self.task = workflow_task::State::Idle;
        self.activities.clear();
        self.timers.clear();
        self.steps.clear();
        self.children.clear();
        self.signals.clear();
        self.cancels.clear();
        self.unwritten.clear();
        self.speculation = None;
        self.unseen.clear();
        self.buffer.clear();
        self.deadlines.clear();
        self.crashes = 0;
        Ok(())
    }

    fn activity_mut(&mut self, seq: Seq, record: &str) -> Result<&mut Activity, Corrupt> {
        self.activities
            .get_mut(seq)
            .map(|activity| &mut **activity)
            .ok_or_else(|| out_of_place(record, "there is no such activity"))
    }

    fn step_mut(&mut self, seq: Seq) -> Result<&mut Step, Corrupt> {
        self.steps
            .get_mut(&seq)
            .ok_or_else(|| out_of_place("step", "there is no such step"))
    }
}

fn waiting_step(attempt: Attempt, due: Timestamp) -> step::State {
    step::State::Waiting { attempt, due }
}
