//! What runs say to each other, and what the world asks of them.
//!
//! Temporal repeats in every event of a child, and of a message to another run, whom it is
//! about; our records say it once, in the event that began it.

use alloc::format;
use alloc::string::ToString;

use serde_json::{Value, json};

use super::ids::{Ids, Sent};
use super::value::{self, duration, header, id, payloads};
use super::{TASK_TIMEOUT, name};
use crate::event::{
    CancelOf, ChildEvent, ChildInitiated, ContinuedAsNew, ExternalEvent, UpdateAccepted,
    UpdateEvent, UpdateOutcome, UpdateRequest,
};
use crate::id::{PatchId, Seq};
use crate::payload::Payload;

pub(super) fn continued_as_new(next: &ContinuedAsNew, ids: &Ids) -> Value {
    json!({
        "newExecutionRunId": next.new_run_id.to_string(),
        "workflowType": value::named(next.workflow_type.as_str()),
        "taskQueue": value::queue(&next.queue),
        "input": payloads(&next.input),
        "header": header(&next.headers),
        "workflowRunTimeout": next.run_timeout.map(duration),
        "workflowTaskTimeout": TASK_TIMEOUT,
        "workflowTaskCompletedEventId": id(ids.task_completed),
        "initiator": name::CONTINUED_BY_WORKFLOW,
    })
}

/// What the SDK core writes and looks for ahead of a replayed task.
pub(super) fn patched(patch: &PatchId, is_deprecated: bool, ids: &Ids) -> Value {
    let data = json!({ "id": patch.as_str(), "deprecated": is_deprecated });
    json!({
        "markerName": "core_patch",
        "details": { "patch-data": payloads(&Payload::raw_json(data.to_string())) },
        "workflowTaskCompletedEventId": id(ids.task_completed),
    })
}

pub(super) fn child(event: &ChildEvent, ids: &Ids) -> Value {
    match event {
        ChildEvent::Initiated(child) => child_initiated(child, ids),
        ChildEvent::StartFailed { seq, cause } => {
            let child = ids.child(*seq);
            json!({
                "workflowId": child.map(|c| c.workflow_id.as_str()),
                "workflowType": child.map(|c| value::named(c.workflow_type.as_str())),
                "cause": name::start_failed_cause(*cause),
                "initiatedEventId": child.map(|c| id(c.initiated)),
            })
        }
        ChildEvent::Started { seq, .. } => of_child(ids, *seq, json!({})),
        ChildEvent::Completed { seq, result } => {
            child_ended(ids, *seq, json!({ "result": payloads(result) }))
        }
        ChildEvent::Failed { seq, failure } => {
            // As the child said it: numbers in it are of the child's own history.
            let how = json!({
                "failure": value::failure(failure, &Ids::default()),
                "retryState": name::NOT_RETRIED,
            });
            child_ended(ids, *seq, how)
        }
        ChildEvent::TimedOut { seq } => {
            child_ended(ids, *seq, json!({ "retryState": name::OUT_OF_TIME }))
        }
        ChildEvent::Canceled { seq } | ChildEvent::Terminated { seq } => {
            child_ended(ids, *seq, json!({}))
        }
    }
}

fn child_initiated(child: &ChildInitiated, ids: &Ids) -> Value {
    json!({
        "workflowId": child.workflow_id.as_str(),
        "workflowType": value::named(child.workflow_type.as_str()),
        "taskQueue": value::queue(&child.queue),
        "input": payloads(&child.input),
        "header": header(&child.headers),
        "workflowRunTimeout": child.options.run_timeout.map(duration),
        "workflowTaskTimeout": TASK_TIMEOUT,
        "parentClosePolicy": name::parent_close(child.options.parent_close),
        "priority": child.options.priority.map(value::priority),
        "workflowIdReusePolicy": name::reuse(child.options.reuse),
        "workflowTaskCompletedEventId": id(ids.task_completed),
    })
}

fn of_child(ids: &Ids, seq: Seq, mut how: Value) -> Value {
    if let Some(child) = ids.child(seq) {
        how["workflowExecution"] = value::execution(&child.workflow_id, child.run_id);
        how["workflowType"] = value::named(child.workflow_type.as_str());
        how["initiatedEventId"] = id(child.initiated);
    }
    how
}

fn child_ended(ids: &Ids, seq: Seq, mut how: Value) -> Value {
    how["startedEventId"] = ids.child(seq).map_or(Value::Null, |c| id(c.started));
    of_child(ids, seq, how)
}

pub(super) fn external(event: &ExternalEvent, ids: &Ids) -> Value {
    match event {
        ExternalEvent::CancelInitiated(cancel) => {
            let is_child = match cancel.of {
                CancelOf::Child(_) => Some(true),
                CancelOf::External(_) => None,
            };
            json!({
                "workflowExecution": value::target(&cancel.target),
                "childWorkflowOnly": is_child,
                "reason": cancel.reason,
                "workflowTaskCompletedEventId": id(ids.task_completed),
            })
        }
        ExternalEvent::CancelFailed { of, cause } => {
            let cause = name::cancel_failed_cause(*cause);
            sent(ids.cancel(*of), json!({ "cause": cause }))
        }
        ExternalEvent::CancelDelivered { of } => sent(ids.cancel(*of), json!({})),
        ExternalEvent::SignalInitiated(signal) => json!({
            "workflowExecution": value::target(&signal.target),
            "signalName": signal.name.as_str(),
            "input": payloads(&signal.input),
            "header": header(&signal.headers),
            "workflowTaskCompletedEventId": id(ids.task_completed),
        }),
        ExternalEvent::SignalFailed { seq, cause } => {
            let cause = name::signal_failed_cause(*cause);
            sent(ids.signal(*seq), json!({ "cause": cause }))
        }
        ExternalEvent::SignalDelivered { seq } => sent(ids.signal(*seq), json!({})),
    }
}

fn sent(sent: Option<&Sent>, mut how: Value) -> Value {
    if let Some(sent) = sent {
        how["initiatedEventId"] = id(sent.initiated);
        how["workflowExecution"] = value::target(&sent.target);
    }
    how
}

pub(super) fn update(event: &UpdateEvent, ids: &Ids) -> Value {
    match event {
        UpdateEvent::Accepted(accepted) => update_accepted(accepted),
        UpdateEvent::Completed {
            id: update,
            outcome,
        } => json!({
            "meta": { "updateId": update.as_str() },
            "acceptedEventId": id(ids.accepted(update)),
            "outcome": match outcome {
                UpdateOutcome::Completed(result) => json!({ "success": payloads(result) }),
                UpdateOutcome::Failed(failure) => json!({ "failure": value::failure(failure, ids) }),
            },
        }),
        UpdateEvent::Admitted(request) => json!({ "request": update_request(request) }),
    }
}

/// The id of the message is the one that the SDK core gives to an admitted update as well.
fn update_accepted(accepted: &UpdateAccepted) -> Value {
    json!({
        "protocolInstanceId": accepted.id.as_str(),
        "acceptedRequestMessageId": format!("{}/request", accepted.id),
        "acceptedRequestSequencingEventId": id(accepted.behind),
        "acceptedRequest": accepted.request.as_ref().map(update_request),
    })
}

fn update_request(request: &UpdateRequest) -> Value {
    json!({
        "meta": { "updateId": request.id.as_str() },
        "input": {
            "header": header(&request.headers),
            "name": request.name.as_str(),
            "args": payloads(&request.input),
        },
    })
}
