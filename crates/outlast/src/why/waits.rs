//! What a run waits for, as a reason and a sentence.

use outlast_model::rest::Await;
use outlast_model::time::{ago, span};
use outlast_model::view::Waiting;
use outlast_model::{Failure, Timestamp};

use super::Reason;

/// `is_left` says that the process which ran it is gone and no other has come.
pub(super) fn waits(waiting: &Waiting, now: Timestamp, is_left: bool) -> (Reason, String) {
    match waiting {
        Waiting::ActivityRunning { .. } | Waiting::Step { .. } if is_left => left(waiting, now),
        Waiting::ActivityPending { .. }
        | Waiting::ActivityRunning { .. }
        | Waiting::ActivityOutside { .. } => waits_for_activity(waiting, now),
        Waiting::Step {
            name,
            attempt,
            site,
            ..
        } => (
            Reason::Step,
            format!("step {name:?} is not done (attempt {attempt}, {site})"),
        ),
        Waiting::Timer { due, site, .. } if *due > now => (
            Reason::Timer,
            format!("a timer fires {} ({site})", ago(*due, now)),
        ),
        Waiting::Timer { due, site, .. } => (
            Reason::Timer,
            format!("a timer was due {} ({site})", ago(*due, now)),
        ),
        Waiting::Child { .. }
        | Waiting::SignalExternal { .. }
        | Waiting::CancelExternal { .. }
        | Waiting::Update { .. } => waits_for_others(waiting),
        Waiting::Task => (
            Reason::Task,
            "its code has something to see: it waits for its turn, or runs just now".into(),
        ),
        Waiting::Message { at } => (Reason::Message, rests(at)),
    }
}

/// What only a message or its own code can bring.
fn rests(at: &[Await]) -> String {
    if at.is_empty() {
        return "it waits for a message or a condition".into();
    }
    let places: Vec<String> = at.iter().map(ToString::to_string).collect();
    format!("it waits for {}", places.join(", "))
}

/// What was lost with its process.
fn left(waiting: &Waiting, now: Timestamp) -> (Reason, String) {
    const AGAIN: &str = "the process that ran it is gone; that attempt counts, and the next one, \
                         if it may have one, is made when a process opens the file";
    match waiting {
        Waiting::ActivityRunning {
            activity_type,
            attempt,
            since,
            last_failure,
            site,
            ..
        } => {
            let (since, last) = (ago(*since, now), after(last_failure.as_ref()));
            let text = format!(
                "activity {activity_type} began {since} (attempt {attempt}, {site}): {AGAIN}{last}"
            );
            (Reason::ActivityPending, text)
        }
        Waiting::Step {
            name,
            attempt,
            site,
            ..
        } => (
            Reason::Step,
            format!("step {name:?} is not done (attempt {attempt}, {site}): {AGAIN}"),
        ),
        Waiting::ActivityPending { .. }
        | Waiting::ActivityOutside { .. }
        | Waiting::Timer { .. }
        | Waiting::Child { .. }
        | Waiting::SignalExternal { .. }
        | Waiting::CancelExternal { .. }
        | Waiting::Update { .. }
        | Waiting::Task
        | Waiting::Message { .. } => (Reason::Task, String::new()),
    }
}

/// How the attempt before this one failed.
fn after(failure: Option<&Failure>) -> String {
    failure.map_or_else(String::new, |failure| format!("; last error: {failure}"))
}

/// What an activity has to bring.
fn waits_for_activity(waiting: &Waiting, now: Timestamp) -> (Reason, String) {
    match waiting {
        Waiting::ActivityPending {
            activity_type,
            attempt,
            due,
            last_failure,
            site,
            ..
        } if *due > now => {
            let (due, last) = (ago(*due, now), after(last_failure.as_ref()));
            let text = format!(
                "activity {activity_type} tries again {due} (attempt {attempt}, {site}){last}"
            );
            (Reason::RetryBackOff, text)
        }
        Waiting::ActivityPending {
            activity_type,
            attempt,
            due,
            last_failure,
            site,
            ..
        } => {
            let (due, last) = (span(now.since(*due)), after(last_failure.as_ref()));
            let text = format!(
                "activity {activity_type} has been due for {due} (attempt {attempt}, {site}){last}"
            );
            (Reason::ActivityPending, text)
        }
        Waiting::ActivityRunning {
            activity_type,
            attempt,
            since,
            last_failure,
            site,
            ..
        } => {
            let (since, last) = (span(now.since(*since)), after(last_failure.as_ref()));
            let text = format!(
                "activity {activity_type} runs for {since} (attempt {attempt}, {site}){last}"
            );
            (Reason::ActivityRunning, text)
        }
        Waiting::ActivityOutside {
            activity_type,
            attempt,
            since,
            due,
            site,
            ..
        } => {
            let since = span(now.since(*since));
            let due = due.map_or_else(String::new, |due| {
                format!("; it runs out of time {}", ago(due, now))
            });
            let text = format!(
                "activity {activity_type} has waited {since} for an answer from outside \
                 (attempt {attempt}, {site}){due}"
            );
            (Reason::Outside, text)
        }
        Waiting::Timer { .. }
        | Waiting::Step { .. }
        | Waiting::Child { .. }
        | Waiting::SignalExternal { .. }
        | Waiting::CancelExternal { .. }
        | Waiting::Update { .. }
        | Waiting::Task
        | Waiting::Message { .. } => (Reason::Task, String::new()),
    }
}

/// What only another run, or a handler, can bring to an end.
fn waits_for_others(waiting: &Waiting) -> (Reason, String) {
    match waiting {
        Waiting::Child {
            workflow_id,
            is_started,
            site,
            ..
        } => {
            let state = if *is_started {
                "runs"
            } else {
                "is being started"
            };
            (
                Reason::OtherRun,
                format!("its child {workflow_id} {state} ({site})"),
            )
        }
        Waiting::SignalExternal {
            target, name, site, ..
        } => (
            Reason::OtherRun,
            format!(
                "signal {name} is on its way to {} ({site})",
                target.workflow_id
            ),
        ),
        Waiting::CancelExternal { target, site, .. } => (
            Reason::OtherRun,
            format!("a cancel is on its way to {} ({site})", target.workflow_id),
        ),
        Waiting::Update { id, name } => {
            (Reason::Update, format!("update {name} ({id}) is not done"))
        }
        Waiting::ActivityPending { .. }
        | Waiting::ActivityRunning { .. }
        | Waiting::ActivityOutside { .. }
        | Waiting::Timer { .. }
        | Waiting::Step { .. }
        | Waiting::Task
        | Waiting::Message { .. } => (Reason::Task, String::new()),
    }
}
