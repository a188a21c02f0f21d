//! The messages inside an event: payloads, failures, durations, queues, retry policies.

use alloc::format;
use alloc::string::{String, ToString};
use core::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::ids::Ids;
use super::name;
use crate::failure::{Failure, FailureKind};
use crate::headers::Headers;
use crate::id::{EventId, QueueName, RunId, WorkflowId};
use crate::options::{Priority, RetryPolicy};
use crate::payload::Payload;
use crate::view::RunRef;

/// A 64-bit number is a string; 0 is absent.
pub(super) fn id(id: EventId) -> Value {
    if id.0 == 0 {
        return Value::Null;
    }
    Value::String(id.to_string())
}

/// Seconds with no, three or six digits behind the point, as protobuf prints them.
pub(super) fn duration(d: Duration) -> String {
    let (seconds, micros) = (d.as_secs(), d.subsec_micros());
    if micros == 0 {
        return format!("{seconds}s");
    }
    if micros % 1_000 == 0 {
        return format!("{seconds}.{:03}s", micros / 1_000);
    }
    format!("{seconds}.{micros:06}s")
}

pub(super) fn named(name: &str) -> Value {
    json!({ "name": name })
}

pub(super) fn priority(priority: Priority) -> Value {
    json!({ "priorityKey": priority.key() })
}

pub(super) fn queue(name: &QueueName) -> Value {
    json!({ "name": name.as_str(), "kind": "TASK_QUEUE_KIND_NORMAL" })
}

pub(super) fn execution(workflow_id: &WorkflowId, run_id: Option<RunId>) -> Value {
    json!({ "workflowId": workflow_id.as_str(), "runId": run_id.map(|run| run.to_string()) })
}

pub(super) fn target(target: &RunRef) -> Value {
    execution(&target.workflow_id, target.run_id)
}

pub(super) fn retry_policy(policy: &RetryPolicy) -> Value {
    let types = &policy.non_retryable;
    json!({
        "initialInterval": duration(policy.initial),
        "backoffCoefficient": policy.factor(),
        "maximumInterval": duration(policy.max_interval),
        "maximumAttempts": policy.is_bounded().then_some(policy.max_attempts),
        "nonRetryableErrorTypes": (!types.is_empty()).then_some(types),
    })
}

/// Temporal's list of payloads, with the one we have.
pub(super) fn payloads(one: &Payload) -> Value {
    json!({ "payloads": [payload(one)] })
}

/// What travels with a call; null where nothing does.
pub(super) fn header(headers: &Headers) -> Value {
    if headers.is_empty() {
        return Value::Null;
    }
    let fields: Map<String, Value> = headers
        .iter()
        .map(|(name, value)| (name.into(), payload(value)))
        .collect();
    json!({ "fields": fields })
}

fn payload(payload: &Payload) -> Value {
    let mut metadata = Map::new();
    for (key, bytes) in payload.metadata.as_deref().into_iter().flatten() {
        metadata.insert(key.clone(), json!(STANDARD.encode(bytes)));
    }
    metadata.insert(
        "encoding".into(),
        json!(STANDARD.encode(payload.encoding.as_str())),
    );
    let data = (!payload.data.is_empty()).then(|| STANDARD.encode(&payload.data));
    json!({ "metadata": metadata, "data": data })
}

/// A chain of causes, outermost first. Its length is bounded where failures are made. What lies
/// behind a child's failure happened in the child: its numbers are of another history, which is
/// not at hand.
pub(super) fn failure(failure: &Failure, ids: &Ids) -> Value {
    let (field, info) = failure_info(&failure.kind, ids);
    let elsewhere = Ids::default();
    let is_child = matches!(failure.kind, FailureKind::Child { .. });
    let ids = if is_child { &elsewhere } else { ids };
    let mut fields = json!({
        "message": failure.message,
        "source": "Outlast",
        "stackTrace": failure.trace,
        "cause": failure.cause.as_ref().map(|cause| self::failure(cause, ids)),
    });
    fields[field] = info;
    fields
}

fn failure_info(kind: &FailureKind, ids: &Ids) -> (&'static str, Value) {
    match kind {
        FailureKind::Application {
            type_name,
            non_retryable,
            details,
            next_retry_delay,
        } => {
            let info = json!({
                "type": type_name,
                "nonRetryable": non_retryable.then_some(true),
                "details": details.as_ref().map(payloads),
                "nextRetryDelay": next_retry_delay.map(duration),
            });
            ("applicationFailureInfo", info)
        }
        FailureKind::Timeout {
            kind,
            last_heartbeat,
        } => {
            let info = json!({
                "timeoutType": name::timeout_type(*kind),
                "lastHeartbeatDetails": last_heartbeat.as_ref().map(payloads),
            });
            ("timeoutFailureInfo", info)
        }
        FailureKind::Canceled { details } => (
            "canceledFailureInfo",
            json!({ "details": details.as_ref().map(payloads) }),
        ),
        FailureKind::Terminated => ("terminatedFailureInfo", json!({})),
        FailureKind::Server { non_retryable } => (
            "serverFailureInfo",
            json!({ "nonRetryable": non_retryable.then_some(true) }),
        ),
        FailureKind::Activity {
            activity_type,
            seq,
            retry_state,
        } => {
            let activity = ids.activity(*seq);
            let info = json!({
                "scheduledEventId": id(activity.scheduled),
                "startedEventId": id(activity.started),
                "activityType": named(activity_type.as_str()),
                "activityId": seq.to_string(),
                "retryState": name::retry_state(*retry_state),
            });
            ("activityFailureInfo", info)
        }
        FailureKind::Child {
            workflow_id,
            workflow_type,
            seq,
        } => {
            let child = ids.child(*seq);
            let info = json!({
                "workflowExecution": execution(workflow_id, child.and_then(|c| c.run_id)),
                "workflowType": named(workflow_type.as_str()),
                "initiatedEventId": child.map(|c| id(c.initiated)),
                "startedEventId": child.map(|c| id(c.started)),
                "retryState": name::NOT_RETRIED,
            });
            ("childWorkflowExecutionFailureInfo", info)
        }
    }
}

/// A field without a value is absent.
pub(super) fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let set = fields.into_iter().filter(|(_, value)| !value.is_null());
            Value::Object(
                set.map(|(key, value)| (key, without_nulls(value)))
                    .collect(),
            )
        }
        Value::Array(items) => items.into_iter().map(without_nulls).collect(),
        other @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_print_as_protobuf_does() {
        assert_eq!(duration(Duration::ZERO), "0s");
        assert_eq!(duration(Duration::from_millis(3_500)), "3.500s");
        assert_eq!(duration(Duration::from_micros(1_000_001)), "1.000001s");
    }
}
