//! The answer of workflow code: its commands become events, in its order.
//!
//! A command is checked before anything is written; one bad command fails the task, not the run.
//! Behind the commands comes what arrived while the code ran. A run that wants to close while a
//! message waits that it has not seen goes round again.

mod carry_out;
mod check;
mod notes;

use carry_out::carry_out;
use check::check;
use notes::Known;

use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;

use outlast_model::event::{StepRecorded, TaskFailedCause};
use outlast_model::id::Seq;
use outlast_model::job::Job;
use outlast_model::planted::{Bug, is_planted};
use outlast_model::start::UpdateReply;
use outlast_model::task::{Notes, TaskAnswer};
use outlast_model::{Command, EventKind, Fact, Failure, Timestamp};

use crate::apply::{Error, news};
use crate::close;
use crate::decision::{Decision, Effect};
use crate::run::Run;
use crate::{step, update, workflow_task};

type Buffer = Vec<EventKind>;

/// Applies an answer.
pub(crate) fn answer(
    run: &mut Run,
    started: Timestamp,
    answer: TaskAnswer,
    now: Timestamp,
    decision: &mut Decision,
) -> Result<(), Error> {
    if !run.is_slice_out() {
        return Err(Error::Unexpected(
            "an answer to a task that is not out".into(),
        ));
    }
    match answer {
        TaskAnswer::Completed { commands, notes } => match check(run, &commands) {
            Ok(()) if is_nothing(run, &commands, &notes) => nothing(run, commands, decision),
            Ok(()) => completed(run, started, (commands, notes), now, decision),
            Err(why) => {
                let failure = Failure::application("BadCommand", why);
                failed(
                    run,
                    started,
                    TaskFailedCause::BadCommand,
                    failure,
                    now,
                    decision,
                )
            }
        },
        TaskAnswer::Queried(_) => Err(Error::Unexpected("answers to queries".into())),
        TaskAnswer::Failed { cause, failure } => {
            failed(run, started, cause, failure, now, decision)
        }
    }
}

/// Whether all that happened is that updates were turned away which nothing has recorded.
fn is_nothing(run: &Run, commands: &[Command], notes: &Notes) -> bool {
    let is_rejection = |command: &Command| matches!(command, Command::RejectUpdate { .. });
    run.is_speculative()
        && !run.has_buffer()
        && commands.iter().all(is_rejection)
        && !notes::must_be_told(Known::of(run), notes)
}

/// Then nothing happened: not even the task.
fn nothing(run: &mut Run, commands: Vec<Command>, decision: &mut Decision) -> Result<(), Error> {
    run.slice_ended();
    run.forget_speculation();
    decision.records.clear();
    for command in commands {
        if let Command::RejectUpdate { id, failure } = command {
            decision.effect(Effect::Update(id, UpdateReply::Rejected(failure)));
        }
    }
    Ok(())
}

fn completed(
    run: &mut Run,
    started: Timestamp,
    (commands, notes): (Vec<Command>, Notes),
    now: Timestamp,
    decision: &mut Decision,
) -> Result<(), Error> {
    let is_closing = commands.last().is_some_and(Command::is_closing);
    let has_unseen = run.has_buffered_messages() && !is_planted(Bug::BufferDroppedAtClose);
    let is_last = !matches!(commands.last(), Some(Command::ContinueAsNew(_)));
    if is_closing && is_last && has_unseen {
        return round_again(run, started, now, decision);
    }
    begin(run, started, now, decision)?;
    let delivered: Vec<Seq> = delivered_steps(run);
    let mut buffer = run.take_buffer();
    run.slice_ended();
    decision.event(run, EventKind::TaskCompleted, now)?;
    for seq in delivered {
        record_step(run, seq, now, decision)?;
    }
    if let Some(noted) = notes::noted(Known::of(run), notes) {
        decision.fact(run, noted)?;
    }
    let mut stopped = Vec::new();
    decision.expect(commands.len());
    for command in commands {
        carry_out(run, command, &mut buffer, &mut stopped, now, decision)?;
    }
    run.forget_positions();
    if is_closing {
        return Ok(());
    }
    after(run, buffer, stopped, now, decision)
}

/// What follows the commands: cancelled activities that were not running, then the buffer.
fn after(
    run: &mut Run,
    buffer: Buffer,
    stopped: Vec<Seq>,
    now: Timestamp,
    decision: &mut Decision,
) -> Result<(), Error> {
    let mut is_news = !buffer.is_empty() || !stopped.is_empty();
    for seq in stopped {
        let details = None;
        decision.event(run, EventKind::ActivityCanceled { seq, details }, now)?;
    }
    close::flush(run, decision, buffer, now)?;
    is_news |= !run.unseen().is_empty();
    if is_news {
        news(run, decision, now)?;
    }
    Ok(())
}

/// The messages that arrived meanwhile become events, and workflow code is rebuilt to see them.
fn round_again(
    run: &mut Run,
    started: Timestamp,
    now: Timestamp,
    decision: &mut Decision,
) -> Result<(), Error> {
    let cause = TaskFailedCause::UnhandledCommand;
    let failure = Failure::application(
        "UnhandledCommand",
        "the run wanted to end while messages waited that it had not seen",
    );
    begin(run, started, now, decision)?;
    let buffer = run.take_buffer();
    run.slice_ended();
    decision.event(run, EventKind::TaskFailed { cause, failure }, now)?;
    update::admit_all(run, now, decision)?;
    run.forget_positions();
    close::flush(run, decision, buffer, now)?;
    decision.round_again = true;
    news(run, decision, now)
}

fn failed(
    run: &mut Run,
    started: Timestamp,
    cause: TaskFailedCause,
    failure: Failure,
    now: Timestamp,
    decision: &mut Decision,
) -> Result<(), Error> {
    let verdict = run.task().decide(workflow_task::Input::Failed(cause), now);
    let buffer = run.take_buffer();
    run.slice_ended();
    match verdict {
        workflow_task::Verdict::FirstFailure => {
            decision.event(run, EventKind::TaskStarted, started)?;
            decision.event(run, EventKind::TaskFailed { cause, failure }, now)?;
        }
        workflow_task::Verdict::NextFailure(attempt, next_try) => {
            decision.fact(
                run,
                Fact::TaskRetry {
                    attempt,
                    cause,
                    failure,
                    next_try,
                },
            )?;
        }
        verdict @ (workflow_task::Verdict::Schedule
        | workflow_task::Verdict::HandOut
        | workflow_task::Verdict::Complete
        | workflow_task::Verdict::CompleteRetried(_)
        | workflow_task::Verdict::Unblock
        | workflow_task::Verdict::UnblockAt(_)
        | workflow_task::Verdict::Ignore
        | workflow_task::Verdict::Unexpected) => return Err(unexpected(verdict)),
    }
    decision.round_again = true;
    update::admit_all(run, now, decision)?;
    run.forget_positions();
    close::flush(run, decision, buffer, now)?;
    if cause == TaskFailedCause::UnhandledCommand {
        news(run, decision, now)?;
    }
    if cause == TaskFailedCause::Stuck {
        // Its code may still come back, and must not be heard.
        close::shut_out(run, decision)?;
    }
    Ok(())
}

/// The task events up to its start; a task that failed before is scheduled anew first.
fn begin(
    run: &mut Run,
    started: Timestamp,
    now: Timestamp,
    decision: &mut Decision,
) -> Result<(), Error> {
    match run.task().decide(workflow_task::Input::Completed, now) {
        workflow_task::Verdict::Complete => {}
        workflow_task::Verdict::CompleteRetried(attempt) => {
            decision.event(run, EventKind::TaskScheduled { attempt }, started)?;
        }
        verdict @ (workflow_task::Verdict::Schedule
        | workflow_task::Verdict::HandOut
        | workflow_task::Verdict::FirstFailure
        | workflow_task::Verdict::NextFailure(..)
        | workflow_task::Verdict::Unblock
        | workflow_task::Verdict::UnblockAt(_)
        | workflow_task::Verdict::Ignore
        | workflow_task::Verdict::Unexpected) => return Err(unexpected(verdict)),
    }
    Ok(decision.event(run, EventKind::TaskStarted, started)?)
}

fn unexpected(verdict: workflow_task::Verdict) -> Error {
    Error::Unexpected(format!("an answer, but the task says {verdict:?}"))
}

/// Steps whose outcome this slice was given.
fn delivered_steps(run: &Run) -> Vec<Seq> {
    run.unseen()
        .iter()
        .filter_map(|job| match job {
            Job::ResolveStep { seq, .. } => Some(*seq),
            Job::Initialize(_)
            | Job::Signal { .. }
            | Job::FireTimer { .. }
            | Job::ResolveActivity { .. }
            | Job::CancelWorkflow { .. }
            | Job::Update(_)
            | Job::NotifyPatch { .. }
            | Job::UpdateRandomSeed { .. }
            | Job::ResolveChildStart { .. }
            | Job::ResolveChild { .. }
            | Job::ResolveSignalExternal { .. }
            | Job::ResolveCancelExternal { .. } => None,
        })
        .collect()
}

fn record_step(
    run: &mut Run,
    seq: Seq,
    now: Timestamp,
    decision: &mut Decision,
) -> Result<(), Error> {
    let Some(step) = run.step(seq) else {
        return Ok(());
    };
    let step::State::Resolved { attempt, outcome } = &step.state else {
        return Ok(());
    };
    let recorded = StepRecorded {
        seq,
        name: step.name.clone(),
        attempt: *attempt,
        outcome: outcome.clone(),
        activation: 0,
        site: step.site.clone(),
    };
    Ok(decision.event(run, EventKind::StepRecorded(Box::new(recorded)), now)?)
}
