//! Whether replayed code asks for what the history says it asked for.
//!
//! Commands and command events are matched one to one, in order: kind, number, type or name.
//! The first one that is changed, extra or missing stops the replay, named on both sides. What
//! may be tuned under an open run (options, input, delay) is told and does not stop it, unless
//! the checks are strict. Asking for a step leaves no event; its marker must find the step open.
//! A change of the code whose old side is gone may be announced, or no longer. Inputs of a task
//! that are a permutation of the recorded ones are calls in another order: that stops it too.

mod likeness;
mod order;
mod text;

use outlast_model::{Command, Event, EventKind};

use crate::failure::TaskFailure;
use crate::instance::Instance;
use crate::task::ReplayChecks;
use crate::turn::{RecordedStep, Turn};
use likeness::{Likeness, likeness};
use order::{Changed, permuted};
use text::{asked, done, idle, raced, said};

const REMEDY: &str = "keep the old calls for the runs that made them: `if ctx.patched(\"..\") { \
                      new } else { old }`; or put the calls back in their old order, or let open \
                      runs finish on the build that started them";

const SHUFFLED: &str = "\n  perhaps: calls made in the order of a `HashMap`, which is another one \
                        each time: sort first, or use a `BTreeMap`";

/// Matches all commands of a turn with its command events.
pub(crate) fn commands(
    turn: &Turn<'_>,
    made: &[Command],
    instance: &Instance,
    checks: ReplayChecks,
) -> Result<(), TaskFailure> {
    let mut recorded = turn.commands.iter().filter(|event| !is_marker(event));
    let mut made = made.iter().filter(|command| leaves_event(command));
    let (mut event, mut command) = (recorded.next(), made.next());
    let mut same = None;
    let mut changed = Vec::new();
    loop {
        match (event, command) {
            (None, None) => return in_order(&changed),
            (Some(was), is) if may_be_gone(was) && !is.is_some_and(|is| announces(is, was)) => {
                event = recorded.next();
            }
            (was, Some(is)) if may_be_new(is) && !was.is_some_and(|was| announces(is, was)) => {
                command = made.next();
            }
            (Some(was), Some(is)) => {
                compare(was, is, instance, checks)
                    .map_err(|code| mismatch(same, &said(was), &code, turn))?;
                changed.extend(Changed::of(was, is));
                same = Some(was);
                (event, command) = (recorded.next(), made.next());
            }
            (Some(was), None) => return Err(mismatch(same, &said(was), &idle(instance), turn)),
            (None, Some(is)) => {
                let end = format!(
                    "nothing more in the task that event {} completed",
                    turn.completed
                );
                return Err(mismatch(same, &end, &done(is), turn));
            }
        }
    }
}

/// Calls that changed places would be handed each other's results.
fn in_order(changed: &[Changed<'_>]) -> Result<(), TaskFailure> {
    let Some((call, other)) = permuted(changed) else {
        return Ok(());
    };
    let (was, is) = (said(call.event), done(call.command));
    let code = format!("{is}, with the input of {}", said(other.event));
    Err(report(None, &was, &code, SHUFFLED))
}

/// A marker needs its step: open, and of the same name.
pub(crate) fn step(
    recorded: RecordedStep<'_>,
    instance: Option<&Instance>,
) -> Result<(), TaskFailure> {
    let RecordedStep { event, step } = recorded;
    let (seq, name) = (step.seq, &step.name);
    let open = instance.and_then(|instance| instance.open_step(seq));
    let code = match open {
        Some((open, _)) if open == *name => return Ok(()),
        Some((open, site)) => format!("step {seq} is `{open}`{}", asked(&site)),
        None => format!("no step {seq} is open"),
    };
    let said = format!(
        "event {event} MarkerRecorded, step {seq} `{name}`{}",
        asked(&step.site)
    );
    Err(report(None, &said, &code, ""))
}

/// Compares one command with its event; the error is what the code does instead.
fn compare(
    event: &Event,
    command: &Command,
    instance: &Instance,
    checks: ReplayChecks,
) -> Result<(), String> {
    match likeness(&event.kind, command) {
        Likeness::Same => Ok(()),
        Likeness::Other => Err(done(command)),
        Likeness::Tuned(difference) if checks.strict => {
            Err(format!("{}: {difference}", done(command)))
        }
        Likeness::Tuned(difference) => {
            let (said, done) = (said(event), done(command));
            instance.changed(|| format!("{said} holds, but the code says {done}: {difference}"));
            Ok(())
        }
    }
}

/// The first difference, below the last thing on which both sides agree.
fn mismatch(same: Option<&Event>, history: &str, code: &str, turn: &Turn<'_>) -> TaskFailure {
    report(same, history, code, &raced(turn))
}

fn report(same: Option<&Event>, history: &str, code: &str, raced: &str) -> TaskFailure {
    let same = same.map_or(String::new(), |event| {
        format!("\n  same:    {}", said(event))
    });
    TaskFailure::mismatch(format!(
        "the code does not do what its history says{same}\n  history: {history}\n  \
         code:    {code}\n  remedy:  {REMEDY}{raced}"
    ))
}

fn is_marker(event: &Event) -> bool {
    matches!(event.kind, EventKind::StepRecorded(_))
}

/// Whether code need not announce this change any more.
fn may_be_gone(event: &Event) -> bool {
    matches!(
        event.kind,
        EventKind::Patched {
            is_deprecated: true,
            ..
        }
    )
}

/// Whether code may announce this change where history does not.
fn may_be_new(command: &Command) -> bool {
    matches!(
        command,
        Command::SetPatch {
            is_deprecated: true,
            ..
        }
    )
}

/// Whether both announce the same change of the code.
fn announces(command: &Command, event: &Event) -> bool {
    matches!(
        (command, &event.kind),
        (Command::SetPatch { id: is, .. }, EventKind::Patched { id: was, .. }) if is == was
    )
}

/// Whether a command leaves an event; those of steps and the rejection of an update do not.
fn leaves_event(command: &Command) -> bool {
    match command {
        Command::ScheduleStep { .. }
        | Command::CancelStep { .. }
        | Command::RejectUpdate { .. } => false,
        Command::ScheduleActivity(_)
        | Command::RequestCancelActivity { .. }
        | Command::StartTimer { .. }
        | Command::CancelTimer { .. }
        | Command::CompleteWorkflow { .. }
        | Command::FailWorkflow { .. }
        | Command::CancelWorkflow
        | Command::StartChild(_)
        | Command::CancelChild { .. }
        | Command::SignalExternal(_)
        | Command::CancelExternal(_)
        | Command::SetPatch { .. }
        | Command::AcceptUpdate { .. }
        | Command::CompleteUpdate { .. }
        | Command::ContinueAsNew(_) => true,
    }
}
