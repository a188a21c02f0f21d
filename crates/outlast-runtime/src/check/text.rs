//! Both sides of a comparison, for people.

use std::fmt::Write;

use outlast_model::command::{ScheduleActivity, StartChild};
use outlast_model::event::{
    ActivityScheduled, CancelOf, ChildEvent, ChildInitiated, ExternalEvent, Site, UpdateEvent,
};
use outlast_model::{Command, Event, EventKind, Job};

use crate::instance::Instance;
use crate::turn::Turn;

/// What a history says.
pub(super) fn said(event: &Event) -> String {
    let mut text = format!("event {} {}", event.id, event.kind.name());
    if let Some(more) = subject(&event.kind) {
        write!(text, ", {more}").unwrap_or(());
    }
    text
}

/// Several things ended at once: what code makes of that must not be left to chance.
pub(super) fn raced(turn: &Turn<'_>) -> String {
    let steps = turn.steps.iter().map(|recorded| recorded.job());
    let jobs = turn.activation.jobs.iter().cloned().chain(steps);
    let ended: Vec<String> = jobs.filter_map(|job| ended(&job)).collect();
    match &*ended {
        [] | [_] => String::new(),
        [first, second, more @ ..] => {
            let more = if more.is_empty() { "" } else { " and others" };
            format!(
                "\n  perhaps: {first}, {second}{more} ended in the same task, and a `select!` of \
                 tokio or futures takes one at random: `outlast::select!` takes the first declared"
            )
        }
    }
}

fn ended(job: &Job) -> Option<String> {
    match job {
        Job::FireTimer { seq } => Some(format!("timer {seq}")),
        Job::ResolveActivity { seq, .. } => Some(format!("activity {seq}")),
        Job::ResolveStep { seq, .. } => Some(format!("step {seq}")),
        Job::ResolveChild { seq, .. } => Some(format!("child {seq}")),
        Job::Signal { name, .. } => Some(format!("the wait for signal `{name}`")),
        Job::Initialize(_)
        | Job::CancelWorkflow { .. }
        | Job::Update(_)
        | Job::NotifyPatch { .. }
        | Job::UpdateRandomSeed { .. }
        | Job::ResolveChildStart { .. }
        | Job::ResolveSignalExternal { .. }
        | Job::ResolveCancelExternal { .. } => None,
    }
}

fn subject(event: &EventKind) -> Option<String> {
    if let EventKind::ActivityScheduled(activity) = event {
        let ActivityScheduled {
            seq,
            activity_type,
            site,
            ..
        } = &**activity;
        return Some(format!("activity {seq} `{activity_type}`{}", asked(site)));
    }
    if let EventKind::TimerStarted { seq, site, .. } = event {
        return Some(format!("timer {seq}{}", asked(site)));
    }
    if let EventKind::ActivityCancelRequested { seq } = event {
        return Some(format!("activity {seq}"));
    }
    if let EventKind::TimerCanceled { seq } = event {
        return Some(format!("timer {seq}"));
    }
    if let EventKind::Patched { id, site, .. } = event {
        return Some(format!("patch `{id}`{}", asked(site)));
    }
    if let EventKind::Child(ChildEvent::Initiated(child)) = event {
        let ChildInitiated {
            seq,
            workflow_id,
            workflow_type,
            site,
            ..
        } = &**child;
        let site = asked(site);
        return Some(format!(
            "child {seq} `{workflow_type}` as `{workflow_id}`{site}"
        ));
    }
    if let EventKind::External(event) = event {
        return said_to_others(event);
    }
    if let EventKind::ContinuedAsNew(next) = event {
        return Some(format!("as `{}`", next.workflow_type));
    }
    if let EventKind::Update(UpdateEvent::Accepted(accepted)) = event {
        return Some(format!("update `{}`", accepted.id));
    }
    if let EventKind::Update(UpdateEvent::Completed { id, .. }) = event {
        return Some(format!("update `{id}`"));
    }
    None
}

fn said_to_others(event: &ExternalEvent) -> Option<String> {
    if let ExternalEvent::SignalInitiated(signal) = event {
        let (seq, name, site) = (signal.seq, &signal.name, asked(&signal.site));
        let to = &signal.target.workflow_id;
        return Some(format!("signal {seq} `{name}` to `{to}`{site}"));
    }
    if let ExternalEvent::CancelInitiated(cancel) = event {
        let (to, site) = (&cancel.target.workflow_id, asked(&cancel.site));
        return Some(match cancel.of {
            CancelOf::Child(seq) => format!("child {seq}{site}"),
            CancelOf::External(seq) => format!("request {seq} to `{to}`{site}"),
        });
    }
    None
}

/// What code did.
pub(super) fn done(command: &Command) -> String {
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
        Command::StartChild(command) => {
            let StartChild {
                seq,
                workflow_id,
                workflow_type,
                site,
                ..
            } = &**command;
            let site = asked(site);
            format!("{name}, child {seq} `{workflow_type}` as `{workflow_id}`{site}")
        }
        Command::CancelChild { seq, site, .. } => format!("{name}, child {seq}{}", asked(site)),
        Command::SignalExternal(signal) => {
            let (seq, signal_name, site) = (signal.seq, &signal.name, asked(&signal.site));
            let to = &signal.target.workflow_id;
            format!("{name}, signal {seq} `{signal_name}` to `{to}`{site}")
        }
        Command::CancelExternal(cancel) => {
            let (seq, to) = (cancel.seq, &cancel.target.workflow_id);
            format!("{name}, request {seq} to `{to}`{}", asked(&cancel.site))
        }
        Command::SetPatch { id, site, .. } => format!("{name}, patch `{id}`{}", asked(site)),
        Command::AcceptUpdate { id }
        | Command::RejectUpdate { id, .. }
        | Command::CompleteUpdate { id, .. } => format!("{name}, update `{id}`"),
        Command::ContinueAsNew(next) => match &next.workflow_type {
            Some(workflow_type) => format!("{name}, as `{workflow_type}`"),
            None => name.into(),
        },
        Command::CompleteWorkflow { .. }
        | Command::FailWorkflow { .. }
        | Command::CancelWorkflow => name.into(),
    }
}

/// What code that did nothing more does instead.
pub(super) fn idle(instance: &Instance) -> String {
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

/// Where something was asked for, if that is known.
pub(super) fn asked(site: &Site) -> String {
    if site.file.is_empty() {
        return String::new();
    }
    format!(", asked at {site}")
}
