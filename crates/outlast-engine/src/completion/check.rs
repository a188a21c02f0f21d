//! Commands are checked before anything is written.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;

use outlast_model::id::Seq;
use outlast_model::{Command, limits};

use crate::run::{Run, Used};
use crate::{measure, update};

/// Payloads of the commands of one task: they share a commit with the stimuli that caused them.
const COMMAND_BYTES: usize = limits::COMMIT_BYTES / 4 * 3;

/// Checks all commands before any is carried out.
pub(super) fn check(run: &Run, commands: &[Command]) -> Result<(), String> {
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
