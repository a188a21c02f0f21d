//! The same facts for programs. Names of fields are part of the contract: added, never changed.

use outlast_model::payload::Encoding;
use outlast_model::rest::{Await, Awaited, Unread};
use outlast_model::view::{Description, RunOutcome, Summary, Trouble, Waiting};
use outlast_model::{Event, Payload, temporal_json};
use serde_json::{Value, json};

/// Text of a value.
pub(super) fn print(value: &Value) -> String {
    // Text keys only: writing into a string has no way to fail.
    serde_json::to_string_pretty(value).unwrap_or_default()
}

pub(super) fn list(runs: &[Summary]) -> Value {
    runs.iter().map(summary).collect()
}

pub(super) fn summary(run: &Summary) -> Value {
    json!({
        "workflow_id": run.workflow_id.as_str(),
        "run_id": run.run_id.to_string(),
        "type": run.workflow_type.as_str(),
        "queue": run.queue.as_str(),
        "status": run.status.name(),
        "blocked": run.is_blocked,
        "started": run.started.to_string(),
        "closed": run.closed.map(|t| t.to_string()),
        "wake": run.wake.map(|t| t.to_string()),
        "events": run.events,
        "bytes": run.bytes,
        "first_run_id": run.first_run.map(|id| id.to_string()),
    })
}

/// One run with its history in Temporal's JSON.
pub(super) fn run(description: &Description, events: &[Event]) -> Value {
    let history = temporal_json::export(events);
    json!({
        "run": summary(&description.summary),
        "input": value(&description.input),
        "outcome": description.outcome.as_ref().map(outcome),
        "waiting": description.waiting.iter().map(waiting).collect::<Value>(),
        "unread_signals": description.unread.iter().map(unread).collect::<Value>(),
        "trouble": description.trouble.as_ref().map(trouble),
        "history": serde_json::from_str::<Value>(&history).unwrap_or(Value::Null),
    })
}

/// A value of a user: itself if it is JSON.
pub(super) fn value(payload: &Payload) -> Value {
    match &payload.encoding {
        Encoding::Null => Value::Null,
        Encoding::Json => serde_json::from_slice(&payload.data).unwrap_or(Value::Null),
        other @ (Encoding::Bytes | Encoding::Other(_)) => {
            json!({ "encoding": other.as_str(), "bytes": payload.size() })
        }
    }
}

fn outcome(outcome: &RunOutcome) -> Value {
    let status = outcome.status().name();
    match outcome {
        RunOutcome::Completed(result) => json!({ "status": status, "result": value(result) }),
        RunOutcome::Failed(failure) => json!({ "status": status, "error": failure.to_string() }),
        RunOutcome::Terminated { reason } => json!({ "status": status, "reason": reason }),
        RunOutcome::ContinuedAsNew(next) => json!({ "status": status, "next": next.to_string() }),
        RunOutcome::Canceled | RunOutcome::TimedOut => json!({ "status": status }),
    }
}

pub(super) fn waiting(waiting: &Waiting) -> Value {
    match waiting {
        Waiting::ActivityPending {
            seq,
            activity_type,
            attempt,
            due,
            last_failure,
            site,
        } => json!({
            "for": "activity", "seq": seq.0, "type": activity_type.as_str(),
            "attempt": attempt.0, "due": due.to_string(),
            "last_error": last_failure.as_ref().map(ToString::to_string),
            "site": site.to_string(),
        }),
        Waiting::ActivityRunning {
            seq,
            activity_type,
            attempt,
            since,
            last_failure,
            site,
        } => json!({
            "for": "activity", "seq": seq.0, "type": activity_type.as_str(),
            "attempt": attempt.0, "running_since": since.to_string(),
            "last_error": last_failure.as_ref().map(ToString::to_string),
            "site": site.to_string(),
        }),
        Waiting::ActivityOutside {
            seq,
            activity_type,
            attempt,
            since,
            due,
            site,
        } => json!({
            "for": "answer", "seq": seq.0, "type": activity_type.as_str(),
            "attempt": attempt.0, "running_since": since.to_string(),
            "due": due.map(|due| due.to_string()), "site": site.to_string(),
        }),
        Waiting::Timer { seq, due, site } => json!({
            "for": "timer", "seq": seq.0, "due": due.to_string(), "site": site.to_string(),
        }),
        Waiting::Step {
            seq,
            name,
            attempt,
            site,
        } => json!({
            "for": "step", "seq": seq.0, "name": name.as_str(),
            "attempt": attempt.0, "site": site.to_string(),
        }),
        Waiting::Child {
            seq,
            workflow_id,
            run_id,
            is_started,
            site,
        } => json!({
            "for": "child", "seq": seq.0, "workflow_id": workflow_id.as_str(),
            "run_id": run_id.to_string(), "is_started": is_started, "site": site.to_string(),
        }),
        Waiting::SignalExternal {
            seq,
            target,
            name,
            site,
        } => json!({
            "for": "signal", "seq": seq.0, "to": target.workflow_id.as_str(),
            "name": name.as_str(), "site": site.to_string(),
        }),
        Waiting::CancelExternal { target, site, .. } => json!({
            "for": "cancel", "to": target.workflow_id.as_str(), "site": site.to_string(),
        }),
        Waiting::Update { id, name } => json!({
            "for": "update", "id": id.as_str(), "name": name.as_str(),
        }),
        Waiting::Task => json!({ "for": "task" }),
        Waiting::Message { at } => message(at),
    }
}

fn unread(unread: &Unread) -> Value {
    json!({ "name": unread.name.as_str(), "count": unread.count })
}

fn message(at: &[Await]) -> Value {
    json!({ "for": "message", "at": at.iter().map(place).collect::<Value>() })
}

fn place(at: &Await) -> Value {
    let site = at.site.to_string();
    match &at.what {
        Awaited::Signal(name) => json!({ "signal": name.as_str(), "site": site }),
        Awaited::Promise(id) => json!({ "promise": id.as_str(), "site": site }),
        Awaited::Condition => json!({ "condition": true, "site": site }),
        Awaited::Branch => json!({ "branch": true, "site": site }),
    }
}

fn trouble(trouble: &Trouble) -> Value {
    json!({
        "cause": trouble.cause.name(),
        "since": trouble.since.to_string(),
        "attempts": trouble.attempts,
        "error": trouble.failure.to_string(),
        "next_try": trouble.next_try.map(|t| t.to_string()),
    })
}
