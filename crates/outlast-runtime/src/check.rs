//! Whether replayed code asks for what the history says it asked for.
//!
//! Commands and command events are matched one to one, in order: kind, number, type or name.
//! The first one that is changed, extra or missing stops the replay, named on both sides. What
//! may be tuned under an open run (options, input, delay) is told and does not stop it, unless
//! the checks are strict. Asking for a step leaves no event; its marker must find the step open.

use std::fmt::Write;
use std::time::Duration;

use outlast_model::command::ScheduleActivity;
use outlast_model::event::{ActivityScheduled, Site};
use outlast_model::{Command, Event, EventKind, Seq, limits};

use crate::failure::TaskFailure;
use crate::instance::Instance;
use crate::task::ReplayChecks;
use crate::turn::{RecordedStep, Turn};

const REMEDY: &str = "put the durable calls back in their old order, or let open runs finish on \
                      the build that started them";

/// How a command compares with an event.
enum Likeness {
    Same,
    /// The same operation, tuned: what differs.
    Tuned(String),
    Other,
}

/// Matches all commands of a turn with its command events.
pub(crate) fn commands(
    turn: &Turn<'_>,
    made: &[Command],
    instance: &Instance,
    checks: ReplayChecks,
) -> Result<(), TaskFailure> {
    let mut recorded = turn.commands.iter().filter(|event| !is_marker(event));
    let mut made = made.iter().filter(|command| leaves_event(command));
    loop {
        match (recorded.next(), made.next()) {
            (None, None) => return Ok(()),
            (Some(event), Some(command)) => compare(event, command, instance, checks)?,
            (Some(event), None) => {
                return Err(mismatch(&said(event), &idle(instance)));
            }
            (None, Some(command)) => {
                let end = format!(
                    "nothing more in the task that event {} completed",
                    turn.completed
                );
                return Err(mismatch(&end, &done(command)));
            }
        }
    }
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
    Err(mismatch(&said, &code))
}

fn compare(
    event: &Event,
    command: &Command,
    instance: &Instance,
    checks: ReplayChecks,
) -> Result<(), TaskFailure> {
    match likeness(&event.kind, command) {
        Likeness::Same => Ok(()),
        Likeness::Other => Err(mismatch(&said(event), &done(command))),
        Likeness::Tuned(difference) if checks.strict => {
            let code = format!("{}: {difference}", done(command));
            Err(mismatch(&said(event), &code))
        }
        Likeness::Tuned(difference) => {
            let (said, done) = (said(event), done(command));
            instance.warn(|| format!("{said} holds, but the code says {done}: {difference}"));
            Ok(())
        }
    }
}

fn likeness(event: &EventKind, command: &Command) -> Likeness {
    let is_same = match command {
        Command::ScheduleActivity(command) => return activity(event, command),
        Command::StartTimer { seq, delay, .. } => {
            return timer(event, *seq, (*delay).min(limits::DELAY));
        }
        Command::RequestCancelActivity { seq } => {
            *event == EventKind::ActivityCancelRequested { seq: *seq }
        }
        Command::CancelTimer { seq } => *event == EventKind::TimerCanceled { seq: *seq },
        Command::CompleteWorkflow { .. } => matches!(event, EventKind::Completed { .. }),
        Command::FailWorkflow { .. } => matches!(event, EventKind::Failed { .. }),
        Command::CancelWorkflow => matches!(event, EventKind::Canceled),
        Command::ScheduleStep { .. }
        | Command::CancelStep { .. }
        | Command::StartChild(_)
        | Command::CancelChild { .. }
        | Command::SignalExternal(_)
        | Command::CancelExternal(_)
        | Command::SetPatch { .. }
        | Command::AcceptUpdate { .. }
        | Command::RejectUpdate { .. }
        | Command::CompleteUpdate { .. }
        | Command::ContinueAsNew(_) => false,
    };
    if is_same {
        Likeness::Same
    } else {
        Likeness::Other
    }
}

fn activity(event: &EventKind, made: &ScheduleActivity) -> Likeness {
    let EventKind::ActivityScheduled(recorded) = event else {
        return Likeness::Other;
    };
    if recorded.seq != made.seq || recorded.activity_type != made.activity_type {
        return Likeness::Other;
    }
    tuned(&activity_differences(recorded, made))
}

fn timer(event: &EventKind, made: Seq, delay: Duration) -> Likeness {
    let EventKind::TimerStarted {
        seq,
        delay: recorded,
        ..
    } = event
    else {
        return Likeness::Other;
    };
    if *seq != made {
        return Likeness::Other;
    }
    if *recorded == delay {
        return Likeness::Same;
    }
    tuned(&[format!("delay {delay:?} instead of {recorded:?}")])
}

fn tuned(differences: &[String]) -> Likeness {
    if differences.is_empty() {
        return Likeness::Same;
    }
    Likeness::Tuned(differences.join(", "))
}

/// What differs between a recorded activity and the one the code asks for. The record has all
/// timeouts filled in and shortened to fit each other; what the code left open is not compared.
fn activity_differences(recorded: &ActivityScheduled, made: &ScheduleActivity) -> Vec<String> {
    let mut found = Vec::new();
    let (was, is) = (&recorded.options, &made.options);
    if recorded.input != made.input {
        let (was, is) = (recorded.input.size(), made.input.size());
        found.push(format!("other input ({is} bytes instead of {was})"));
    }
    let whole = is.schedule_to_close;
    let timeouts = [
        (
            "schedule_to_close",
            was.schedule_to_close,
            is.schedule_to_close,
            None,
        ),
        (
            "schedule_to_start",
            was.schedule_to_start,
            is.schedule_to_start,
            whole,
        ),
        (
            "start_to_close",
            was.start_to_close,
            is.start_to_close,
            whole,
        ),
        ("heartbeat", was.heartbeat, is.heartbeat, was.start_to_close),
    ];
    for (name, was, is, bound) in timeouts {
        let Some(is) = is else { continue };
        let fitted = bound.map_or(is, |bound| is.min(bound));
        if was != Some(fitted) {
            let was = was.map_or("none".into(), |was| format!("{was:?}"));
            found.push(format!("{name} {is:?} instead of {was}"));
        }
    }
    if was.retry != is.retry {
        found.push("another retry policy".into());
    }
    if was.cancel != is.cancel {
        found.push(format!(
            "cancel mode {:?} instead of {:?}",
            is.cancel, was.cancel
        ));
    }
    if let Some(queue) = &is.queue
        && *queue != recorded.queue
    {
        found.push(format!("queue `{queue}` instead of `{}`", recorded.queue));
    }
    found
}

fn mismatch(history: &str, code: &str) -> TaskFailure {
    TaskFailure::mismatch(format!(
        "the code does not do what its history says\n  history: {history}\n  code:    {code}\n  \
         remedy:  {REMEDY}"
    ))
}

/// What a history says, for people.
fn said(event: &Event) -> String {
    let mut text = format!("event {} {}", event.id, event.kind.name());
    let written = if let EventKind::ActivityScheduled(activity) = &event.kind {
        let ActivityScheduled {
            seq,
            activity_type,
            site,
            ..
        } = &**activity;
        write!(text, ", activity {seq} `{activity_type}`{}", asked(site))
    } else if let EventKind::TimerStarted { seq, site, .. } = &event.kind {
        write!(text, ", timer {seq}{}", asked(site))
    } else if let EventKind::ActivityCancelRequested { seq } = &event.kind {
        write!(text, ", activity {seq}")
    } else if let EventKind::TimerCanceled { seq } = &event.kind {
        write!(text, ", timer {seq}")
    } else {
        Ok(())
    };
    written.map_or_else(|_| event.kind.name().into(), |()| text)
}

/// What code did, for people.
fn done(command: &Command) -> String {
    let name = command.name();
    match command {
        Command::ScheduleActivity(command) => {
            let ScheduleActivity {
                seq,
                activity_type,
                site,
                ..
            } = &**command;
            format!("{name}, activity {seq} `{activity_type}`{}", asked(site))
        }
        Command::StartTimer { seq, site, .. } => format!("{name}, timer {seq}{}", asked(site)),
        Command::ScheduleStep {
            seq,
            name: step,
            site,
            ..
        } => {
            format!("{name}, step {seq} `{step}`{}", asked(site))
        }
        Command::RequestCancelActivity { seq } => format!("{name}, activity {seq}"),
        Command::CancelTimer { seq } => format!("{name}, timer {seq}"),
        Command::CancelStep { seq } => format!("{name}, step {seq}"),
        Command::CompleteWorkflow { .. }
        | Command::FailWorkflow { .. }
        | Command::CancelWorkflow
        | Command::StartChild(_)
        | Command::CancelChild { .. }
        | Command::SignalExternal(_)
        | Command::CancelExternal(_)
        | Command::SetPatch { .. }
        | Command::AcceptUpdate { .. }
        | Command::RejectUpdate { .. }
        | Command::CompleteUpdate { .. }
        | Command::ContinueAsNew(_) => name.into(),
    }
}

/// What code that did nothing more does instead.
fn idle(instance: &Instance) -> String {
    let waiting = instance.waiting();
    let Some(first) = waiting.first() else {
        return "nothing more: it has ended".into();
    };
    let site = first
        .site
        .as_ref()
        .map(|site| format!(" after its call at {site}"));
    format!(
        "nothing more: {} waits{}",
        first.name,
        site.unwrap_or_default()
    )
}

fn asked(site: &Site) -> String {
    if site.file.is_empty() {
        return String::new();
    }
    format!(", asked at {site}")
}

fn is_marker(event: &Event) -> bool {
    matches!(event.kind, EventKind::StepRecorded(_))
}

/// Whether a command leaves an event; those of steps do not.
fn leaves_event(command: &Command) -> bool {
    match command {
        Command::ScheduleStep { .. } | Command::CancelStep { .. } => false,
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
        | Command::RejectUpdate { .. }
        | Command::CompleteUpdate { .. }
        | Command::ContinueAsNew(_) => true,
    }
}
