//! The end of a run.
//!
//! ```text
//!   Running --CompleteWorkflow--> Completed
//!     |  ----FailWorkflow------> Failed
//!     |  ----CancelWorkflow----> Canceled
//!     |  ----ContinueAsNew-----> ContinuedAsNew (the next run begins in the same commit)
//!     |  ----terminate---------> Terminated   (at once, whatever runs)
//!     +-----run timeout--------> TimedOut     (at once, whatever runs)
//! ```
//!
//! The last three letters of every story: what still runs is told to stop, what still waits is
//! forgotten, buffered messages become events first, so that the history shows all that was
//! acknowledged. The parent is told, children are dealt with by their policies, and whoever waits
//! for an update that was accepted hears that the run has finished.

use alloc::vec::Vec;

use outlast_model::post::PostBody;
use outlast_model::start::UpdateReply;
use outlast_model::task::{AttemptKind, AttemptToken, StopReason};
use outlast_model::view::{RunOutcome, RunRef};
use outlast_model::{EventKind, Fact, Timestamp};

use crate::decision::{Decision, Effect};
use crate::run::{Corrupt, Run};
use crate::{activity, child, step, update};

/// Ends the run from outside: terminate or timeout. Raises the epoch, so that a slice under way
/// is refused.
pub(crate) fn force(
    run: &mut Run,
    decision: &mut Decision,
    kind: EventKind,
    now: Timestamp,
) -> Result<(), Corrupt> {
    run.slice_ended();
    let buffer = run.take_buffer();
    flush(run, decision, buffer, now)?;
    shut_out(run, decision)?;
    close(run, decision, kind, now)
}

/// Whoever still works on the run is refused from here on.
pub(crate) fn shut_out(run: &mut Run, decision: &mut Decision) -> Result<(), Corrupt> {
    let epoch = outlast_model::Epoch(run.epoch().0.saturating_add(1));
    decision.fact(run, Fact::EpochRaised { epoch })
}

/// Writes the closing event, whose kind says the outcome, and releases what follows from it.
pub(crate) fn close(
    run: &mut Run,
    decision: &mut Decision,
    kind: EventKind,
    now: Timestamp,
) -> Result<(), Corrupt> {
    let outcome = outcome(&kind);
    for token in running(run) {
        decision.effect(Effect::Stop(token, StopReason::NotFound));
    }
    tell_children(run, decision);
    if let Some(outcome) = &outcome {
        tell_parent(run, outcome, decision);
    }
    for id in run.accepted_updates() {
        let reply = UpdateReply::Done(update::run_finished());
        decision.effect(Effect::Update(id, reply));
    }
    decision.event(run, kind, now)?;
    if let Some(outcome) = outcome {
        decision.effect(Effect::Closed(outcome));
    }
    Ok(())
}

/// Each child goes on, is asked to stop or is ended, as its policy says.
fn tell_children(run: &Run, decision: &mut Decision) {
    for (_, child) in run.children() {
        if let child::Verdict::Say(body) = child.decide(child::Input::ParentCloses) {
            decision.say(run, child.target(), body);
        }
    }
}

/// The parent hears of the end of the chain, not of each of its runs.
fn tell_parent(run: &Run, outcome: &RunOutcome, decision: &mut Decision) {
    let (Some(parent), false) = (
        &run.started().parent,
        matches!(outcome, RunOutcome::ContinuedAsNew(_)),
    ) else {
        return;
    };
    let to = RunRef {
        workflow_id: parent.workflow_id.clone(),
        run_id: Some(parent.run_id),
    };
    let body = PostBody::ChildEnded {
        seq: parent.seq,
        outcome: outcome.clone(),
    };
    decision.say(run, to, body);
}

/// The outcome a closing event stands for.
pub fn outcome(kind: &EventKind) -> Option<RunOutcome> {
    Some(match kind {
        EventKind::Completed { result } => RunOutcome::Completed(result.clone()),
        EventKind::Failed { failure } => RunOutcome::Failed(failure.clone()),
        EventKind::Canceled => RunOutcome::Canceled,
        EventKind::Terminated { reason } => RunOutcome::Terminated {
            reason: reason.clone(),
        },
        EventKind::TimedOut => RunOutcome::TimedOut,
        EventKind::ContinuedAsNew(ended) => RunOutcome::ContinuedAsNew(ended.new_run_id),
        EventKind::Started(_)
        | EventKind::TaskScheduled { .. }
        | EventKind::TaskStarted
        | EventKind::TaskCompleted
        | EventKind::TaskFailed { .. }
        | EventKind::ActivityScheduled(_)
        | EventKind::ActivityStarted { .. }
        | EventKind::ActivityCompleted { .. }
        | EventKind::ActivityFailed { .. }
        | EventKind::ActivityTimedOut { .. }
        | EventKind::ActivityCancelRequested { .. }
        | EventKind::ActivityCanceled { .. }
        | EventKind::TimerStarted { .. }
        | EventKind::TimerFired { .. }
        | EventKind::TimerCanceled { .. }
        | EventKind::CancelRequested { .. }
        | EventKind::StepRecorded(_)
        | EventKind::Signaled { .. }
        | EventKind::Child(_)
        | EventKind::External(_)
        | EventKind::Update(_)
        | EventKind::Patched { .. } => return None,
    })
}

/// Gives every buffered stimulus its number, in arrival order. The buffer was taken from the run
/// before the record that ends the slice, which clears it.
pub(crate) fn flush(
    run: &mut Run,
    decision: &mut Decision,
    buffer: Vec<EventKind>,
    now: Timestamp,
) -> Result<(), Corrupt> {
    for kind in buffer {
        // A step's outcome is no event of its own: the next task delivers and records it.
        if let EventKind::StepRecorded(step) = kind {
            let (seq, outcome) = (step.seq, step.outcome);
            decision.fact(run, Fact::StepResolved { seq, outcome })?;
        } else {
            decision.event(run, kind, now)?;
        }
    }
    Ok(())
}

/// Attempts that run, of whichever process.
pub fn running(run: &Run) -> Vec<AttemptToken> {
    let activities = run.activities().filter_map(|(seq, a)| match &a.state {
        activity::State::Running {
            attempt,
            incarnation,
            ..
        } => Some(run.token(AttemptKind::Activity, seq, *attempt, *incarnation)),
        activity::State::Waiting { .. }
        | activity::State::Outside { .. }
        | activity::State::Closing => None,
    });
    let steps = run.steps().filter_map(|(seq, s)| match &s.state {
        step::State::Running {
            attempt,
            incarnation,
        } => Some(run.token(AttemptKind::Step, seq, *attempt, *incarnation)),
        step::State::Waiting { .. } | step::State::Resolved { .. } => None,
    });
    activities.chain(steps).collect()
}
