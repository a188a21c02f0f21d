//! How a command compares with the event it must have left.
//!
//! What names an operation (kind, number, type, ids) must be the same. What may be tuned under
//! an open run is compared too, and told. The record has defaults filled in: what the code left
//! open is not compared.

use std::time::Duration;

use outlast_model::command::{
    CancelExternal, ContinueAsNew, ScheduleActivity, SignalExternal, StartChild,
};
use outlast_model::event::{
    ActivityScheduled, CancelOf, ChildEvent, ExternalEvent, UpdateEvent, UpdateOutcome,
};
use outlast_model::view::RunRef;
use outlast_model::{Command, EventKind, Payload, Priority, QueueName, Seq, UpdateId, limits};

/// How a command compares with an event.
pub(super) enum Likeness {
    Same,
    /// The same operation, tuned: what differs.
    Tuned(String),
    Other,
}

/// Compares.
pub(super) fn likeness(event: &EventKind, command: &Command) -> Likeness {
    let is_same = match command {
        Command::ScheduleActivity(command) => return activity(event, command),
        Command::StartTimer { seq, delay, .. } => {
            return timer(event, *seq, (*delay).min(limits::DELAY));
        }
        Command::StartChild(command) => return child(event, command),
        Command::SignalExternal(command) => return signal(event, command),
        Command::CancelExternal(command) => return cancel(event, command),
        Command::CompleteUpdate { id, outcome } => return update(event, id, outcome),
        Command::ContinueAsNew(command) => return continued(event, command),
        Command::RequestCancelActivity { seq } => {
            *event == EventKind::ActivityCancelRequested { seq: *seq }
        }
        Command::CancelTimer { seq } => *event == EventKind::TimerCanceled { seq: *seq },
        Command::CancelChild { seq, .. } => matches!(
            event,
            EventKind::External(ExternalEvent::CancelInitiated(was))
                if was.of == CancelOf::Child(*seq)
        ),
        Command::SetPatch { id, .. } => {
            matches!(event, EventKind::Patched { id: was, .. } if was == id)
        }
        Command::AcceptUpdate { id } => matches!(
            event,
            EventKind::Update(UpdateEvent::Accepted(was)) if was.id == *id
        ),
        Command::CompleteWorkflow { .. } => matches!(event, EventKind::Completed { .. }),
        Command::FailWorkflow { .. } => matches!(event, EventKind::Failed { .. }),
        Command::CancelWorkflow => matches!(event, EventKind::Canceled),
        Command::ScheduleStep { .. }
        | Command::CancelStep { .. }
        | Command::RejectUpdate { .. } => false,
    };
    if is_same {
        Likeness::Same
    } else {
        Likeness::Other
    }
}

fn tuned(differences: &[String]) -> Likeness {
    if differences.is_empty() {
        return Likeness::Same;
    }
    Likeness::Tuned(differences.join(", "))
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

fn child(event: &EventKind, made: &StartChild) -> Likeness {
    let EventKind::Child(ChildEvent::Initiated(recorded)) = event else {
        return Likeness::Other;
    };
    let is_other = recorded.seq != made.seq
        || recorded.workflow_type != made.workflow_type
        || recorded.workflow_id != made.workflow_id;
    if is_other {
        return Likeness::Other;
    }
    let (was, is) = (&recorded.options, &made.options);
    let mut found: Vec<String> = input(&recorded.input, &made.input).into_iter().collect();
    found.extend(queue(&recorded.queue, is.queue.as_ref()));
    found.extend(timeout("run_timeout", was.run_timeout, is.run_timeout));
    found.extend(priority(was.priority, is.priority));
    if was.parent_close != is.parent_close {
        let (was, is) = (was.parent_close, is.parent_close);
        found.push(format!("parent close policy {is:?} instead of {was:?}"));
    }
    if was.cancel != is.cancel {
        let (was, is) = (was.cancel, is.cancel);
        found.push(format!("cancel mode {is:?} instead of {was:?}"));
    }
    if was.reuse != is.reuse {
        found.push(format!(
            "reuse policy {:?} instead of {:?}",
            is.reuse, was.reuse
        ));
    }
    tuned(&found)
}

fn signal(event: &EventKind, made: &SignalExternal) -> Likeness {
    let EventKind::External(ExternalEvent::SignalInitiated(recorded)) = event else {
        return Likeness::Other;
    };
    let is_same = recorded.seq == made.seq
        && recorded.name == made.name
        && is_same_target(&recorded.target, &made.target);
    if !is_same {
        return Likeness::Other;
    }
    tuned(input(&recorded.input, &made.input).as_slice())
}

fn cancel(event: &EventKind, made: &CancelExternal) -> Likeness {
    let EventKind::External(ExternalEvent::CancelInitiated(recorded)) = event else {
        return Likeness::Other;
    };
    let is_same = recorded.of == CancelOf::External(made.seq)
        && is_same_target(&recorded.target, &made.target);
    if !is_same {
        return Likeness::Other;
    }
    if recorded.reason == made.reason {
        return Likeness::Same;
    }
    tuned(&[format!(
        "reason `{}` instead of `{}`",
        made.reason, recorded.reason
    )])
}

fn is_same_target(was: &RunRef, is: &RunRef) -> bool {
    was.workflow_id == is.workflow_id && (is.run_id.is_none() || was.run_id == is.run_id)
}

fn update(event: &EventKind, id: &UpdateId, is: &UpdateOutcome) -> Likeness {
    let EventKind::Update(UpdateEvent::Completed {
        id: recorded,
        outcome: was,
    }) = event
    else {
        return Likeness::Other;
    };
    if recorded != id {
        return Likeness::Other;
    }
    let is_same = match (was, is) {
        (UpdateOutcome::Completed(was), UpdateOutcome::Completed(is)) => was == is,
        // Its text may name lines of the code.
        (UpdateOutcome::Failed(_), UpdateOutcome::Failed(_)) => true,
        (UpdateOutcome::Completed(_), UpdateOutcome::Failed(_))
        | (UpdateOutcome::Failed(_), UpdateOutcome::Completed(_)) => false,
    };
    if is_same {
        return Likeness::Same;
    }
    tuned(&["another outcome".into()])
}

fn continued(event: &EventKind, made: &ContinueAsNew) -> Likeness {
    let EventKind::ContinuedAsNew(recorded) = event else {
        return Likeness::Other;
    };
    let wanted = made.workflow_type.as_ref();
    if wanted.is_some_and(|wanted| *wanted != recorded.workflow_type) {
        return Likeness::Other;
    }
    let mut found: Vec<String> = input(&recorded.input, &made.input).into_iter().collect();
    found.extend(queue(&recorded.queue, made.queue.as_ref()));
    found.extend(timeout(
        "run_timeout",
        recorded.run_timeout,
        made.run_timeout,
    ));
    tuned(&found)
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

/// What differs between a recorded activity and the one the code asks for. The record has all
/// timeouts filled in and shortened to fit each other.
fn activity_differences(recorded: &ActivityScheduled, made: &ScheduleActivity) -> Vec<String> {
    let (was, is) = (&recorded.options, &made.options);
    let mut found: Vec<String> = input(&recorded.input, &made.input).into_iter().collect();
    let whole = is.schedule_to_close;
    let fit = |is: Option<Duration>, bound: Option<Duration>| {
        is.map(|is| bound.map_or(is, |bound| is.min(bound)))
    };
    let timeouts = [
        ("schedule_to_close", was.schedule_to_close, whole),
        (
            "schedule_to_start",
            was.schedule_to_start,
            fit(is.schedule_to_start, whole),
        ),
        (
            "start_to_close",
            was.start_to_close,
            fit(is.start_to_close, whole),
        ),
        (
            "heartbeat",
            was.heartbeat,
            fit(is.heartbeat, was.start_to_close),
        ),
    ];
    found.extend(
        timeouts
            .into_iter()
            .filter_map(|(name, was, is)| timeout(name, was, is)),
    );
    if was.retry != is.retry {
        found.push("another retry policy".into());
    }
    if was.cancel != is.cancel {
        let (was, is) = (was.cancel, is.cancel);
        found.push(format!("cancel mode {is:?} instead of {was:?}"));
    }
    found.extend(queue(&recorded.queue, is.queue.as_ref()));
    found.extend(priority(was.priority, is.priority));
    found
}

fn input(was: &Payload, is: &Payload) -> Option<String> {
    let (was_size, is_size) = (was.size(), is.size());
    (was != is).then(|| format!("other input ({is_size} bytes instead of {was_size})"))
}

/// One that the code leaves open was filled in from its run.
fn priority(was: Option<Priority>, is: Option<Priority>) -> Option<String> {
    let (was, is) = (was.unwrap_or_default().key(), is?.key());
    (was != is).then(|| format!("priority {is} instead of {was}"))
}

fn queue(was: &QueueName, is: Option<&QueueName>) -> Option<String> {
    let is = is.filter(|is| *is != was)?;
    Some(format!("queue `{is}` instead of `{was}`"))
}

fn timeout(name: &str, was: Option<Duration>, is: Option<Duration>) -> Option<String> {
    let is = is.filter(|is| was != Some(*is))?;
    let was = was.map_or("none".into(), |was| format!("{was:?}"));
    Some(format!("{name} {is:?} instead of {was}"))
}
