//! What each command does to the run, and which event it leaves.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use outlast_model::command::{CancelExternal, ScheduleActivity, SignalExternal, StartChild};
use outlast_model::event::{
    ActivityScheduled, CancelInitiated, CancelOf, ChildEvent, ChildInitiated, ExternalEvent,
    SignalInitiated, Site,
};
use outlast_model::id::Seq;
use outlast_model::post::PostBody;
use outlast_model::task::{AttemptKind, StopReason};
use outlast_model::view::RunRef;
use outlast_model::{
    ActivityOptions, Command, EventKind, Fact, Priority, RunId, Shared, Timestamp, limits,
};

use super::Buffer;
use crate::apply::Error;
use crate::close;
use crate::decision::{Decision, Effect};
use crate::run::Run;
use crate::{activity, child, step, successor, timer, update};

/// Carries out one command that passed the check.
pub(super) fn carry_out(
    run: &mut Run,
    command: Command,
    buffer: &mut Buffer,
    stopped: &mut Vec<Seq>,
    now: Timestamp,
    decision: &mut Decision,
) -> Result<(), Error> {
    match command {
        Command::ScheduleActivity(command) => {
            let seq = command.seq;
            let scheduled = Shared::new(normalise(*command, run));
            decision.event(run, EventKind::ActivityScheduled(scheduled), now)?;
            run.queued(seq);
            decision.ready.push((AttemptKind::Activity, seq));
        }
        Command::RequestCancelActivity { seq } => {
            decision.event(run, EventKind::ActivityCancelRequested { seq }, now)?;
            cancel_activity(run, seq, stopped, now, decision);
        }
        Command::StartTimer { seq, delay, site } => {
            let delay = delay.min(limits::DELAY);
            decision.event(run, EventKind::TimerStarted { seq, delay, site }, now)?;
        }
        Command::CancelTimer { seq } => cancel_timer(run, seq, buffer, now, decision)?,
        Command::ScheduleStep {
            seq,
            name,
            options,
            site,
        } => {
            decision.fact(
                run,
                Fact::StepScheduled {
                    seq,
                    name,
                    options,
                    site,
                    at: now,
                },
            )?;
            decision.ready.push((AttemptKind::Step, seq));
        }
        Command::CancelStep { seq } => cancel_step(run, seq, now, decision)?,
        Command::CompleteWorkflow { result } => {
            close::close(run, decision, EventKind::Completed { result }, now)?;
        }
        Command::FailWorkflow { failure } => {
            close::close(run, decision, EventKind::Failed { failure }, now)?;
        }
        Command::CancelWorkflow => close::close(run, decision, EventKind::Canceled, now)?,
        Command::StartChild(_)
        | Command::CancelChild { .. }
        | Command::SignalExternal(_)
        | Command::CancelExternal(_) => say(run, command, now, decision)?,
        Command::SetPatch {
            id,
            is_deprecated,
            site,
        } => {
            let kind = EventKind::Patched {
                id,
                is_deprecated,
                site,
            };
            decision.event(run, kind, now)?;
        }
        Command::AcceptUpdate { id } => update::accept(run, id, now, decision)?,
        Command::RejectUpdate { id, failure } => update::reject(run, id, failure, decision)?,
        Command::CompleteUpdate { id, outcome } => {
            update::complete(run, id, outcome, now, decision)?;
        }
        Command::ContinueAsNew(command) => {
            let buffer = core::mem::take(buffer);
            successor::continue_as_new(run, *command, buffer, now, decision)?;
        }
    }
    Ok(())
}

/// What a run asks of others: an event here, and a post that leaves with it.
fn say(
    run: &mut Run,
    command: Command,
    now: Timestamp,
    decision: &mut Decision,
) -> Result<(), Error> {
    let (event, target, body) = match command {
        Command::StartChild(command) => {
            let initiated = initiated(*command, run, now);
            let target = RunRef {
                workflow_id: initiated.workflow_id.clone(),
                run_id: Some(initiated.run_id),
            };
            let body = child::request(run, &initiated);
            let event = ChildEvent::Initiated(Box::new(initiated));
            (EventKind::Child(event), target, body)
        }
        Command::CancelChild { seq, reason, site } => {
            let Some(child) = run.child(seq) else {
                return Ok(());
            };
            cancel_other(CancelOf::Child(seq), child.target(), reason, site)
        }
        Command::CancelExternal(command) => {
            let CancelExternal {
                seq,
                target,
                reason,
                site,
            } = *command;
            cancel_other(CancelOf::External(seq), target, reason, site)
        }
        Command::SignalExternal(command) => {
            let SignalExternal {
                seq,
                target,
                name,
                input,
                site,
                headers,
            } = *command;
            let body = PostBody::Signal {
                seq,
                name: name.clone(),
                input: input.clone(),
                headers: headers.clone(),
            };
            let to = target.clone();
            let event = ExternalEvent::SignalInitiated(Box::new(SignalInitiated {
                seq,
                target,
                name,
                input,
                site,
                headers,
            }));
            (EventKind::External(event), to, body)
        }
        Command::ScheduleActivity(_)
        | Command::RequestCancelActivity { .. }
        | Command::StartTimer { .. }
        | Command::CancelTimer { .. }
        | Command::ScheduleStep { .. }
        | Command::CancelStep { .. }
        | Command::SetPatch { .. }
        | Command::AcceptUpdate { .. }
        | Command::RejectUpdate { .. }
        | Command::CompleteUpdate { .. }
        | Command::ContinueAsNew(_)
        | Command::CompleteWorkflow { .. }
        | Command::FailWorkflow { .. }
        | Command::CancelWorkflow => return Ok(()),
    };
    decision.event(run, event, now)?;
    decision.say(run, target, body);
    Ok(())
}

fn cancel_other(
    of: CancelOf,
    target: RunRef,
    reason: String,
    site: Site,
) -> (EventKind, RunRef, PostBody) {
    let reason = limits::reason(reason);
    let body = PostBody::Cancel {
        of: Some(of),
        reason: reason.clone(),
    };
    let to = target.clone();
    let event = ExternalEvent::CancelInitiated(Box::new(CancelInitiated {
        of,
        target,
        reason,
        site,
    }));
    (EventKind::External(event), to, body)
}

fn initiated(command: StartChild, run: &Run, now: Timestamp) -> ChildInitiated {
    let mut options = command.options;
    let queue = options.queue.take();
    options.priority = options.priority.or(run.started().priority());
    ChildInitiated {
        seq: command.seq,
        workflow_id: command.workflow_id,
        run_id: RunId::derived(run.started().run_id, command.seq, now.0 / 1_000),
        workflow_type: command.workflow_type,
        queue: queue.unwrap_or_else(|| run.started().queue.clone()),
        input: command.input,
        options,
        site: command.site,
        headers: command.headers,
    }
}

/// A running attempt is told; one that does not run is over, right behind the commands.
fn cancel_activity(
    run: &Run,
    seq: Seq,
    stopped: &mut Vec<Seq>,
    now: Timestamp,
    decision: &mut Decision,
) {
    let Some(activity) = run.activity(seq) else {
        return;
    };
    match activity.decide(activity::Input::Cancel, now) {
        activity::Verdict::Close(..) if stopped.contains(&seq) => {}
        activity::Verdict::Close(..) => stopped.push(seq),
        activity::Verdict::Stop(attempt, incarnation) => {
            let token = run.token(AttemptKind::Activity, seq, attempt, incarnation);
            decision.effect(Effect::Stop(token, StopReason::Cancelled));
        }
        activity::Verdict::Ready
        | activity::Verdict::Start(_)
        | activity::Verdict::Leave
        | activity::Verdict::Beat(_)
        | activity::Verdict::Retry(..)
        | activity::Verdict::Wait(_)
        | activity::Verdict::HandBack
        | activity::Verdict::Ignore => {}
    }
}

/// A running attempt is told; one that does not run has its outcome, which the next task brings.
fn cancel_step(
    run: &mut Run,
    seq: Seq,
    now: Timestamp,
    decision: &mut Decision,
) -> Result<(), Error> {
    let Some(step) = run.step(seq) else {
        return Ok(());
    };
    match step.decide(step::Input::Cancel, now) {
        step::Verdict::Resolve(outcome) => {
            decision.fact(run, Fact::StepResolved { seq, outcome })?;
        }
        step::Verdict::Stop(attempt, incarnation) => {
            let token = run.token(AttemptKind::Step, seq, attempt, incarnation);
            decision.effect(Effect::Stop(token, StopReason::Cancelled));
        }
        step::Verdict::Ready
        | step::Verdict::Start(_)
        | step::Verdict::Retry(..)
        | step::Verdict::Wait(_)
        | step::Verdict::HandBack
        | step::Verdict::Ignore => {}
    }
    Ok(())
}

fn cancel_timer(
    run: &mut Run,
    seq: Seq,
    buffer: &mut Buffer,
    now: Timestamp,
    decision: &mut Decision,
) -> Result<(), Error> {
    let Some(timer) = run.timer(seq) else {
        return Ok(());
    };
    if timer.state.decide(timer::Input::Cancel, now) == timer::Verdict::CancelUnseen {
        buffer
            .retain(|kind| !matches!(*kind, EventKind::TimerFired { seq: fired } if fired == seq));
    }
    Ok(decision.event(run, EventKind::TimerCanceled { seq }, now)?)
}

/// An activity as it is recorded: nothing is left open.
fn normalise(command: ScheduleActivity, run: &Run) -> ActivityScheduled {
    let started = run.started();
    let queue = command.options.queue.as_ref().unwrap_or(&started.queue);
    ActivityScheduled {
        seq: command.seq,
        activity_type: command.activity_type,
        queue: queue.clone(),
        input: command.input,
        options: filled_in(command.options, started.priority()),
        site: command.site,
        headers: command.headers,
    }
}

/// Timeouts as Temporal fills them in; an activity that names none gets ten minutes an attempt. Mostly
/// the code has said everything, and what all its activities share stays shared.
fn filled_in(
    mut options: Shared<ActivityOptions>,
    priority: Option<Priority>,
) -> Shared<ActivityOptions> {
    let whole = options.schedule_to_close;
    let within = |own: Option<Duration>| match (own, whole) {
        (Some(own), Some(whole)) => Some(own.min(whole)),
        (Some(one), None) | (None, Some(one)) => Some(one),
        (None, None) => None,
    };
    let default = (whole.is_none()).then_some(limits::START_TO_CLOSE_DEFAULT);
    let start_to_close = within(options.start_to_close).or(default);
    let schedule_to_start = match whole {
        Some(_) => within(options.schedule_to_start),
        None => options.schedule_to_start,
    };
    let heartbeat = match (options.heartbeat, start_to_close) {
        (Some(beat), Some(limit)) => Some(beat.min(limit)),
        (beat, _) => beat,
    };
    let priority = options.priority.or(priority);
    let given = (options.start_to_close, options.schedule_to_start);
    let is_full = options.queue.is_none()
        && given == (start_to_close, schedule_to_start)
        && (options.heartbeat, options.priority) == (heartbeat, priority);
    if !is_full {
        let options = &mut *options;
        options.start_to_close = start_to_close;
        options.schedule_to_start = schedule_to_start;
        options.heartbeat = heartbeat;
        options.priority = priority;
        options.queue = None;
    }
    options
}
