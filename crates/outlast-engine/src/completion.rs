//! The answer of workflow code: its commands become events, in its order.
//!
//! A command is checked before anything is written; one bad command fails the task, not the run.
//! Behind the commands comes what arrived while the code ran. A run that wants to close while a
//! message waits that it has not seen goes round again.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use outlast_model::command::{CancelExternal, ScheduleActivity, SignalExternal, StartChild};
use outlast_model::event::{
    ActivityScheduled, CancelInitiated, CancelOf, ChildEvent, ChildInitiated, ExternalEvent,
    SignalInitiated, Site, StepRecorded, TaskFailedCause,
};
use outlast_model::id::Seq;
use outlast_model::job::Job;
use outlast_model::planted::{Bug, is_planted};
use outlast_model::post::PostBody;
use outlast_model::start::UpdateReply;
use outlast_model::task::{AttemptKind, Notes, TaskAnswer};
use outlast_model::view::RunRef;
use outlast_model::{
    ActivityOptions, Command, EventKind, Fact, Failure, RunId, Shared, Timestamp, limits,
};

use crate::apply::{Error, news};
use crate::close;
use crate::decision::{Decision, Effect};
use crate::run::{Run, Used};
use crate::{activity, child, measure, step, successor, timer, update, workflow_task};

type Buffer = Vec<EventKind>;

/// Payloads of the commands of one task: they share a commit with the stimuli that caused them.
const COMMAND_BYTES: usize = limits::COMMIT_BYTES / 4 * 3;

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
        && !has_news(run, notes)
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

fn has_news(run: &Run, notes: &Notes) -> bool {
    !notes.texts.is_empty() || notes.unhandled_signals != run.unhandled_signals()
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
    if has_news(run, &notes) {
        let (notes, unhandled_signals) = (notes.texts, notes.unhandled_signals);
        decision.fact(
            run,
            Fact::Noted {
                notes,
                unhandled_signals,
            },
        )?;
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

fn carry_out(
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
            decision.effect(Effect::Stop(
                token,
                outlast_model::task::StopReason::Cancelled,
            ));
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
            decision.effect(Effect::Stop(
                token,
                outlast_model::task::StopReason::Cancelled,
            ));
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

/// Timeouts as Temporal fills them in; an activity that names none gets ten minutes an attempt.
fn normalise(command: ScheduleActivity, run: &Run) -> ActivityScheduled {
    let mut options: ActivityOptions = command.options;
    let whole = options.schedule_to_close;
    let within = |own: Option<core::time::Duration>| match (own, whole) {
        (Some(own), Some(whole)) => Some(own.min(whole)),
        (Some(one), None) | (None, Some(one)) => Some(one),
        (None, None) => None,
    };
    let default = (whole.is_none()).then_some(limits::START_TO_CLOSE_DEFAULT);
    options.start_to_close = within(options.start_to_close).or(default);
    if whole.is_some() {
        options.schedule_to_start = within(options.schedule_to_start);
    }
    options.heartbeat = match (options.heartbeat, options.start_to_close) {
        (Some(beat), Some(limit)) => Some(beat.min(limit)),
        (beat, _) => beat,
    };
    let started = run.started();
    let queue = options
        .queue
        .take()
        .unwrap_or_else(|| started.queue.clone());
    options.priority = options.priority.or(started.priority());
    ActivityScheduled {
        seq: command.seq,
        activity_type: command.activity_type,
        queue,
        input: command.input,
        options,
        site: command.site,
        headers: command.headers,
    }
}

/// Checks all commands before any is carried out.
fn check(run: &Run, commands: &[Command]) -> Result<(), String> {
    if commands.len() > limits::COMMANDS_PER_TASK {
        let limit = limits::COMMANDS_PER_TASK;
        return Err(format!(
            "{} commands in one task, the limit is {limit}: wait for some before you ask for more",
            commands.len()
        ));
    }
    let bytes: usize = commands.iter().map(measure::weight).sum();
    if bytes > COMMAND_BYTES {
        return Err(format!(
            "the commands of one task have {bytes} bytes, the limit is {COMMAND_BYTES}: wait for \
             some before you ask for more, or pass references"
        ));
    }
    if run.pending() + commands.len() > limits::PENDING_OPERATIONS + limits::COMMANDS_PER_TASK {
        let limit = limits::PENDING_OPERATIONS;
        return Err(format!(
            "more than {limit} operations pending: wait for some first"
        ));
    }
    if run.is_full() && !commands.last().is_some_and(Command::is_closing) {
        return Err("the history is full: the run can only end now".into());
    }
    let mut used = run.used();
    let mut canceled = BTreeSet::new();
    for (index, command) in commands.iter().enumerate() {
        if command.is_closing() && index + 1 != commands.len() {
            return Err(format!("{} is not the last command", command.name()));
        }
        measure::check(command)?;
        check_one(run, command, &mut used)?;
        if let Command::RequestCancelActivity { seq } | Command::CancelChild { seq, .. } = command
            && !canceled.insert((command.name(), *seq))
        {
            return Err(format!("{} names {seq} twice", command.name()));
        }
    }
    update::check(run, commands)
}

/// A new operation takes a number above all before it; any other command names an open one.
fn check_one(run: &Run, command: &Command, used: &mut Used) -> Result<(), String> {
    let (is_fine, seq) = match command {
        Command::ScheduleActivity(c) => (is_next(&mut used.activity, c.seq), c.seq),
        Command::StartTimer { seq, .. } => (is_next(&mut used.timer, *seq), *seq),
        Command::ScheduleStep { seq, .. } => (is_next(&mut used.step, *seq), *seq),
        Command::RequestCancelActivity { seq } => {
            let activity = run.activity(*seq);
            (activity.is_some_and(|a| !a.is_cancel_requested), *seq)
        }
        Command::CancelTimer { seq } => (run.timer(*seq).is_some(), *seq),
        Command::CancelStep { seq } => (run.step(*seq).is_some(), *seq),
        Command::StartChild(c) => (is_next(&mut used.child, c.seq), c.seq),
        Command::SignalExternal(c) => (is_next(&mut used.signal, c.seq), c.seq),
        Command::CancelExternal(c) => (is_next(&mut used.cancel, c.seq), c.seq),
        Command::CancelChild { seq, .. } => {
            let child = run.child(*seq);
            (child.is_some_and(|c| !c.is_cancel_requested), *seq)
        }
        Command::CompleteWorkflow { .. }
        | Command::FailWorkflow { .. }
        | Command::CancelWorkflow
        | Command::SetPatch { .. }
        | Command::AcceptUpdate { .. }
        | Command::RejectUpdate { .. }
        | Command::CompleteUpdate { .. }
        | Command::ContinueAsNew(_) => return Ok(()),
    };
    if is_fine {
        return Ok(());
    }
    let name = command.name();
    Err(format!(
        "{name} names {seq}, which was used before or is not open"
    ))
}

fn is_next(highest: &mut Seq, seq: Seq) -> bool {
    let is_next = seq > *highest;
    *highest = seq.max(*highest);
    is_next
}
