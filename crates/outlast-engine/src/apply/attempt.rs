//! Attempts of activities and steps: handed out, reported, ended, lost with their process.

use alloc::boxed::Box;
use alloc::vec::Vec;

use outlast_model::event::StepRecorded;
use outlast_model::id::{Attempt, Incarnation, Seq};
use outlast_model::job::Resolution;
use outlast_model::planted::{Bug, is_planted};
use outlast_model::task::{
    ActivityOrder, AttemptKind, AttemptOutcome, AttemptResult, AttemptToken, OpenAttempt, StepTask,
    StopReason,
};
use outlast_model::{EventKind, Fact, Payload, Refusal, Timestamp};

use super::{Error, news};
use crate::activity::{self, Ending};
use crate::deadline::Deadline;
use crate::decision::{Decision, Effect};
use crate::run::{Corrupt, Run};
use crate::{close, step};

/// A running attempt reports. One that is gone is told so: it would run for nobody.
pub(super) fn heartbeat(
    run: &mut Run,
    token: AttemptToken,
    details: Payload,
    now: Timestamp,
    decision: &mut Decision,
) -> Result<(), Error> {
    let (attempt, incarnation) = (token.attempt, token.incarnation);
    let activity = run.activity(token.seq);
    if !activity.is_some_and(|activity| activity.is_open(attempt, incarnation)) {
        decision.effect(Effect::Stop(token, StopReason::NotFound));
        return Ok(());
    }
    let beat = activity::Input::Heartbeat(attempt, incarnation, details);
    move_activity(run, token.seq, beat, now, decision)
}

/// Whoever answers from outside hears whether the answer counts.
pub(super) fn from_outside(
    run: &mut Run,
    of: OpenAttempt,
    input: activity::Input,
    now: Timestamp,
    decision: &mut Decision,
) -> Result<(), Error> {
    let activity = run.activity(of.seq);
    let is_open = activity.is_some_and(|activity| activity.is_open(of.attempt, of.incarnation));
    if !is_open || run.started().run_id != of.run_id {
        return Err(Error::Refused(Refusal::AttemptEnded {
            workflow_id: run.started().workflow_id.clone(),
            seq: of.seq,
            attempt: of.attempt,
        }));
    }
    move_activity(run, of.seq, input, now, decision)
}

pub(super) fn attempt_outcome(
    run: &mut Run,
    outcome: AttemptOutcome,
    now: Timestamp,
    decision: &mut Decision,
) -> Result<(), Error> {
    let AttemptOutcome { token, result } = outcome;
    match token.kind {
        AttemptKind::Activity => {
            if run.activity(token.seq).is_none() && is_planted(Bug::OutcomeTwice) {
                return record_again(run, token.seq, result, now, decision);
            }
            let input = activity::Input::Outcome(token.attempt, token.incarnation, result);
            move_activity(run, token.seq, input, now, decision)
        }
        AttemptKind::Step => {
            let input = step::Input::Outcome(token.attempt, token.incarnation, result);
            move_step(run, token.seq, input, now, decision)
        }
    }
}

fn record_again(
    run: &mut Run,
    seq: Seq,
    result: AttemptResult,
    now: Timestamp,
    decision: &mut Decision,
) -> Result<(), Error> {
    let AttemptResult::Completed(result) = result else {
        return Ok(());
    };
    decision.event(run, EventKind::ActivityCompleted { seq, result }, now)?;
    news(run, decision, now)
}

/// Moves one activity and records what follows. One that is gone lost its race.
pub(crate) fn move_activity(
    run: &mut Run,
    seq: Seq,
    input: activity::Input,
    now: Timestamp,
    decision: &mut Decision,
) -> Result<(), Error> {
    let Some(activity) = run.activity(seq) else {
        return Ok(());
    };
    let attempt_of = |who: (Attempt, Incarnation), run: &Run| {
        run.token(AttemptKind::Activity, seq, who.0, who.1)
    };
    match activity.decide(input, now) {
        activity::Verdict::Ready => {
            run.queued(seq);
            decision.ready.push((AttemptKind::Activity, seq));
        }
        // Handing out is `hand_out`'s alone: it knows the process.
        activity::Verdict::Start(_) => {}
        activity::Verdict::Beat(details) => {
            decision.fact(
                run,
                Fact::Heartbeat {
                    seq,
                    details,
                    at: now,
                },
            )?;
        }
        activity::Verdict::HandBack => {
            decision.fact(run, Fact::AttemptHandedBack { seq, at: now })?;
        }
        activity::Verdict::Leave => decision.fact(run, Fact::AttemptLeft { seq })?,
        activity::Verdict::Retry(failure, due, stop) => {
            decision.fact(run, Fact::AttemptFailed { seq, failure, due })?;
            if let Some(who) = stop {
                decision.effect(Effect::Stop(attempt_of(who, run), StopReason::TimedOut));
            }
        }
        activity::Verdict::Close(outcome, stop) => {
            if let Some(who) = stop {
                decision.effect(Effect::Stop(attempt_of(who, run), StopReason::TimedOut));
            }
            end_activity(run, seq, outcome, now, decision)?;
            news(run, decision, now)?;
        }
        activity::Verdict::Stop(attempt, incarnation) => {
            let token = attempt_of((attempt, incarnation), run);
            decision.effect(Effect::Stop(token, StopReason::Cancelled));
        }
        activity::Verdict::Wait(time) => run.arm(Deadline::Activity(seq), time),
        activity::Verdict::Ignore => {}
    }
    Ok(())
}

/// The events of an activity's end: the attempt that gave it, then the outcome.
fn end_activity(
    run: &mut Run,
    seq: Seq,
    outcome: activity::Outcome,
    now: Timestamp,
    decision: &mut Decision,
) -> Result<(), Corrupt> {
    if let Some(attempt) = outcome.attempt {
        let last_failure = run.activity(seq).and_then(|a| a.last_failure.clone());
        let started = EventKind::ActivityStarted {
            seq,
            attempt,
            last_failure,
        };
        decision.stimulus(run, started, now)?;
    }
    let ended = match outcome.ending {
        Ending::Completed(result) => EventKind::ActivityCompleted { seq, result },
        Ending::Failed(failure, retry_state) => EventKind::ActivityFailed {
            seq,
            failure,
            retry_state,
        },
        Ending::TimedOut(failure, retry_state) => EventKind::ActivityTimedOut {
            seq,
            failure,
            retry_state,
        },
        Ending::Canceled(details) => EventKind::ActivityCanceled { seq, details },
    };
    decision.stimulus(run, ended, now)
}

/// Moves one step and records what follows.
pub(crate) fn move_step(
    run: &mut Run,
    seq: Seq,
    input: step::Input,
    now: Timestamp,
    decision: &mut Decision,
) -> Result<(), Error> {
    let Some(step) = run.step(seq) else {
        return Ok(());
    };
    match step.decide(input, now) {
        step::Verdict::Ready => {
            run.arm(Deadline::Step(seq), None);
            decision.ready.push((AttemptKind::Step, seq));
        }
        step::Verdict::Start(_) => {}
        step::Verdict::HandBack => {
            decision.fact(run, Fact::StepHandedBack { seq, at: now })?;
        }
        step::Verdict::Retry(failure, due) => {
            decision.fact(run, Fact::StepFailed { seq, failure, due })?;
        }
        step::Verdict::Resolve(outcome) => resolve_step(run, seq, outcome, decision, now)?,
        step::Verdict::Stop(attempt, incarnation) => {
            let token = run.token(AttemptKind::Step, seq, attempt, incarnation);
            decision.effect(Effect::Stop(token, StopReason::Cancelled));
        }
        step::Verdict::Wait(due) => run.arm(Deadline::Step(seq), Some(due)),
        step::Verdict::Ignore => {}
    }
    Ok(())
}

fn resolve_step(
    run: &mut Run,
    seq: Seq,
    outcome: Resolution,
    decision: &mut Decision,
    now: Timestamp,
) -> Result<(), Error> {
    if !run.is_buffering() {
        decision.fact(run, Fact::StepResolved { seq, outcome })?;
        return news(run, decision, now);
    }
    let Some(step) = run.step(seq) else {
        return Ok(());
    };
    let recorded = StepRecorded {
        seq,
        name: step.name.clone(),
        attempt: step.attempt(),
        outcome,
        activation: 0,
        site: step.site.clone(),
    };
    let kind = Box::new(EventKind::StepRecorded(Box::new(recorded)));
    Ok(decision.fact(run, Fact::Buffered { kind })?)
}

/// Hands an attempt out. The clock may have gone back since the attempt was asked for: a first one
/// starts all the same, since it was due when it was asked for; any other waits for its time again.
pub(super) fn hand_out(
    run: &mut Run,
    kind: AttemptKind,
    seq: Seq,
    incarnation: Incarnation,
    now: Timestamp,
    decision: &mut Decision,
) -> Result<(), Error> {
    match kind {
        AttemptKind::Activity => {
            let Some(activity) = run.activity(seq) else {
                return Ok(());
            };
            match activity.decide(activity::Input::HandOut, now) {
                activity::Verdict::Start(attempt) => {
                    start_activity(run, seq, attempt, incarnation, now, decision)
                }
                activity::Verdict::Wait(time) => {
                    run.arm(Deadline::Activity(seq), time);
                    Ok(())
                }
                activity::Verdict::Ready
                | activity::Verdict::Leave
                | activity::Verdict::Beat(_)
                | activity::Verdict::HandBack
                | activity::Verdict::Retry(..)
                | activity::Verdict::Close(..)
                | activity::Verdict::Stop(..)
                | activity::Verdict::Ignore => Ok(()),
            }
        }
        AttemptKind::Step => {
            let Some(step) = run.step(seq) else {
                return Ok(());
            };
            match step.decide(step::Input::HandOut, now) {
                step::Verdict::Start(attempt) => {
                    start_step(run, seq, attempt, incarnation, decision)
                }
                step::Verdict::Wait(due) => {
                    run.arm(Deadline::Step(seq), Some(due));
                    Ok(())
                }
                step::Verdict::Ready
                | step::Verdict::HandBack
                | step::Verdict::Retry(..)
                | step::Verdict::Resolve(_)
                | step::Verdict::Stop(..)
                | step::Verdict::Ignore => Ok(()),
            }
        }
    }
}

fn start_activity(
    run: &mut Run,
    seq: Seq,
    attempt: Attempt,
    incarnation: Incarnation,
    now: Timestamp,
    decision: &mut Decision,
) -> Result<(), Error> {
    let fact = Fact::AttemptStarted {
        seq,
        attempt,
        incarnation,
        at: now,
    };
    decision.fact(run, fact)?;
    if let Some(activity) = run.activity(seq) {
        let details = activity.heartbeat_details.as_ref();
        decision.effect(Effect::StartActivity(ActivityOrder {
            token: run.token(AttemptKind::Activity, seq, attempt, incarnation),
            run: run.shared_start(),
            activity: activity.scheduled.clone(),
            at: activity.at,
            heartbeat_details: details.cloned().map(Box::new),
        }));
    }
    Ok(())
}

fn start_step(
    run: &mut Run,
    seq: Seq,
    attempt: Attempt,
    incarnation: Incarnation,
    decision: &mut Decision,
) -> Result<(), Error> {
    let Some(name) = run.step(seq).map(|step| step.name.clone()) else {
        return Ok(());
    };
    let fact = Fact::StepStarted {
        seq,
        attempt,
        incarnation,
    };
    decision.fact(run, fact)?;
    let token = run.token(AttemptKind::Step, seq, attempt, incarnation);
    let started = run.started();
    let task = StepTask {
        token,
        run_id: started.run_id,
        name,
        queue: started.queue.clone(),
    };
    decision.effect(Effect::StartStep(task));
    Ok(())
}

/// Attempts of other processes are lost; those that waited want a slot again. If it was not the
/// process that was lost but its store, they still run, and are told to stop.
pub(super) fn recover(
    run: &mut Run,
    incarnation: Incarnation,
    now: Timestamp,
    decision: &mut Decision,
) -> Result<(), Error> {
    for token in close::running(run) {
        if token.incarnation != incarnation {
            decision.effect(Effect::Stop(token, StopReason::NotFound));
        }
    }
    let activities: Vec<Seq> = run.activities().map(|(seq, _)| seq).collect();
    for seq in activities {
        move_activity(
            run,
            seq,
            activity::Input::Recover(incarnation),
            now,
            decision,
        )?;
    }
    let steps: Vec<Seq> = run.steps().map(|(seq, _)| seq).collect();
    for seq in steps {
        move_step(run, seq, step::Input::Recover(incarnation), now, decision)?;
    }
    Ok(())
}
