//! One input to one run: the table of contents of the rules.

mod attempt;

use attempt::{attempt_outcome, from_outside, hand_out, heartbeat, recover};
pub(crate) use attempt::{move_activity, move_step};

use alloc::string::{String, ToString};

use outlast_model::id::{Attempt, RequestId, Seq, SignalName};
use outlast_model::task::{AttemptKind, PROMISE_SIGNAL, StopReason};
use outlast_model::{EventKind, Fact, Refusal, Timestamp, limits};

use crate::activity::{self};
use crate::deadline::Deadline;
use crate::decision::{Decision, Effect};
use crate::input::Input;
use crate::run::{Corrupt, Run};
use crate::{close, completion, post, step, timer, update, workflow_task};

/// Why an input was not applied. The run is as it was only for [`Error::Refused`].
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// The caller is told; nothing was decided.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// This cannot be: the run is set aside.
    #[error("unexpected: {0}")]
    Unexpected(String),
    /// The records contradict each other: the run is set aside.
    #[error(transparent)]
    Corrupt(#[from] Corrupt),
}

/// Applies one input. Adds to `decision` what must be written and released; several inputs may
/// go into one decision. Never panics, whatever the input and the state.
///
/// # Errors
/// [`Error`] says who has to deal with it.
pub fn apply(
    run: &mut Run,
    input: Input,
    now: Timestamp,
    decision: &mut Decision,
) -> Result<(), Error> {
    if !run.status().is_open() {
        return closed(run, &input, decision);
    }
    if !matches!(
        input,
        Input::Update { .. } | Input::Task { .. } | Input::Due
    ) {
        run.is_speculative_no_more();
    }
    match input {
        Input::Signal {
            name,
            input,
            request_id,
            headers,
        } => {
            if is_repeated(run, request_id.as_ref())? {
                return Ok(settled_before(run, &name, request_id.as_ref())?);
            }
            decision.stimulus(
                run,
                EventKind::Signaled {
                    name,
                    input,
                    request_id,
                    headers,
                },
                now,
            )?;
            news(run, decision, now)
        }
        Input::Cancel { reason, request_id } => {
            // A second request while the run is open succeeds and changes nothing.
            if is_repeated(run, request_id.as_ref())? || run.is_cancel_requested() {
                return Ok(());
            }
            let reason = limits::reason(reason);
            decision.stimulus(run, EventKind::CancelRequested { reason, request_id }, now)?;
            news(run, decision, now)
        }
        Input::Update { request, is_fast } => update::arrive(run, request, is_fast, now, decision),
        Input::Admit => update::admit_all(run, now, decision),
        Input::Post(post) => post::receive(run, *post, now, decision),
        Input::Terminate { reason } => {
            let ended = EventKind::Terminated {
                reason: limits::reason(reason),
            };
            Ok(close::force(run, decision, ended, now)?)
        }
        Input::Outcome(outcome) => attempt_outcome(run, outcome, now, decision),
        Input::Heartbeat { token, .. } if token.kind == AttemptKind::Step => Ok(()),
        Input::Heartbeat { token, details } => heartbeat(run, token, details, now, decision),
        Input::Answer { attempt, result } => {
            let input = activity::Input::Outcome(attempt.attempt, attempt.incarnation, result);
            from_outside(run, attempt, input, now, decision)
        }
        Input::Report { attempt, details } => {
            let input = activity::Input::Heartbeat(attempt.attempt, attempt.incarnation, details);
            from_outside(run, attempt, input, now, decision)
        }
        Input::Due => due(run, now, decision),
        Input::HandOut {
            kind,
            seq,
            incarnation,
        } => hand_out(run, kind, seq, incarnation, now, decision),
        Input::Recover { incarnation } => recover(run, incarnation, now, decision),
        Input::Retry => retry(run, workflow_task::Input::Retry, now, decision),
        Input::Returned => retry(run, workflow_task::Input::Returned, now, decision),
        Input::ForeignWake => news(run, decision, now),
        Input::ArmSlice => Ok(decision.fact(run, Fact::SliceArmed)?),
        Input::DisarmSlice => Ok(decision.fact(run, Fact::SliceDisarmed)?),
        Input::Task { started, answer } => completion::answer(run, started, answer, now, decision),
    }
}

/// A blocked run may try again, now or later.
fn retry(
    run: &mut Run,
    input: workflow_task::Input,
    now: Timestamp,
    decision: &mut Decision,
) -> Result<(), Error> {
    match run.task().decide(input, now) {
        workflow_task::Verdict::Unblock => decision.fact(run, Fact::Unblocked)?,
        workflow_task::Verdict::UnblockAt(time) => {
            if let Some(fact) = run.task().streak().map(|streak| streak.postponed(time)) {
                decision.fact(run, fact)?;
            }
        }
        workflow_task::Verdict::Schedule
        | workflow_task::Verdict::HandOut
        | workflow_task::Verdict::Complete
        | workflow_task::Verdict::CompleteRetried(_)
        | workflow_task::Verdict::FirstFailure
        | workflow_task::Verdict::NextFailure(..)
        | workflow_task::Verdict::Ignore
        | workflow_task::Verdict::Unexpected => {}
    }
    Ok(())
}

/// What a run that has ended says: messages are refused, everything else came too late.
fn closed(run: &Run, input: &Input, decision: &mut Decision) -> Result<(), Error> {
    match input {
        Input::Heartbeat { token, .. } => {
            decision.effect(Effect::Stop(*token, StopReason::NotFound));
            return Ok(());
        }
        Input::Signal { .. } | Input::Cancel { .. } => {
            if let Some(answer) = repeated(run, input) {
                return Ok(answer?);
            }
        }
        // Its answer is known for ever: who asks again is told the same.
        Input::Update { request, .. } if run.update(&request.id).is_some() => return Ok(()),
        Input::Terminate { .. }
        | Input::Retry
        | Input::Update { .. }
        | Input::Post(_)
        | Input::Answer { .. }
        | Input::Report { .. } => {}
        Input::Admit
        | Input::Outcome(_)
        | Input::Due
        | Input::HandOut { .. }
        | Input::Recover { .. }
        | Input::Returned
        | Input::ForeignWake
        | Input::ArmSlice
        | Input::DisarmSlice
        | Input::Task { .. } => return Ok(()),
    }
    Err(Error::Refused(Refusal::RunClosed {
        workflow_id: run.started().workflow_id.clone(),
        run_id: run.started().run_id,
        status: run.status(),
    }))
}

/// The answer to a message that had its effect before, if this is one: it is fine, except that of
/// a promise only the first outcome counts.
pub fn repeated(run: &Run, input: &Input) -> Option<Result<(), Refusal>> {
    let (Input::Signal { request_id, .. } | Input::Cancel { request_id, .. }) = input else {
        return None;
    };
    let request_id = request_id.as_ref();
    if !run.has_seen(request_id) {
        return None;
    }
    let Input::Signal { name, .. } = input else {
        return Some(Ok(()));
    };
    Some(settled_before(run, name, request_id))
}

/// Whether the request had its effect before; refuses new ones when the history is full.
fn is_repeated(run: &Run, request_id: Option<&RequestId>) -> Result<bool, Error> {
    if run.has_seen(request_id) {
        return Ok(true);
    }
    refuse_if_full(run)?;
    Ok(false)
}

/// A history at its limit takes no more messages.
pub(crate) fn refuse_if_full(run: &Run) -> Result<(), Error> {
    if !run.is_full() {
        return Ok(());
    }
    Err(Error::Refused(Refusal::HistoryFull {
        workflow_id: run.started().workflow_id.clone(),
        events: run.events(),
        bytes: run.bytes(),
    }))
}

fn settled_before(
    run: &Run,
    name: &SignalName,
    request_id: Option<&RequestId>,
) -> Result<(), Refusal> {
    let promise = request_id.filter(|_| name.as_str() == PROMISE_SIGNAL);
    let Some(promise) = promise.and_then(outlast_model::task::settled_promise) else {
        return Ok(());
    };
    Err(Refusal::AlreadyResolved {
        workflow_id: run.started().workflow_id.clone(),
        promise,
    })
}

/// Workflow code has something to see. While it runs, the buffer waits for it to end.
pub(crate) fn news(run: &mut Run, decision: &mut Decision, now: Timestamp) -> Result<(), Error> {
    if run.is_slice_out() {
        return Ok(());
    }
    if run.task().decide(workflow_task::Input::News, now) == workflow_task::Verdict::Schedule {
        let attempt = Attempt::FIRST;
        decision.event(run, EventKind::TaskScheduled { attempt }, now)?;
    }
    Ok(())
}

fn due(run: &mut Run, now: Timestamp, decision: &mut Decision) -> Result<(), Error> {
    while let Some(thing) = run.pop_due(now) {
        run.is_speculative_no_more();
        match thing {
            Deadline::Run => {
                return Ok(close::force(run, decision, EventKind::TimedOut, now)?);
            }
            // Whoever hands out tasks asks the task itself.
            Deadline::Task => {}
            Deadline::Timer(seq) => clock_timer(run, seq, now, decision)?,
            Deadline::Activity(seq) => {
                move_activity(run, seq, activity::Input::Clock, now, decision)?;
            }
            Deadline::Step(seq) => move_step(run, seq, step::Input::Clock, now, decision)?,
        }
    }
    Ok(())
}

fn clock_timer(
    run: &mut Run,
    seq: Seq,
    now: Timestamp,
    decision: &mut Decision,
) -> Result<(), Error> {
    let Some(timer) = run.timer(seq) else {
        return Ok(());
    };
    match timer.state.decide(timer::Input::Clock, now) {
        timer::Verdict::Fire => {
            decision.stimulus(run, EventKind::TimerFired { seq }, now)?;
            news(run, decision, now)
        }
        timer::Verdict::Wait { due } => {
            run.arm(Deadline::Timer(seq), Some(due));
            Ok(())
        }
        timer::Verdict::Cancel | timer::Verdict::CancelUnseen | timer::Verdict::Ignore => Ok(()),
    }
}

impl Error {
    /// In words, for a report.
    pub fn reason(&self) -> String {
        self.to_string()
    }
}
