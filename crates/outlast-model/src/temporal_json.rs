//! A history as Temporal's tools read it: proto3 JSON of `temporal.api.history.v1.History`.
//!
//! Our records name operations by their sequence numbers, Temporal's by the ids of the events
//! that scheduled or started them. The ids are found by one scan, in step with the writing.
//! What Temporal has no field for (call sites, cancel modes) is left out; what it demands and
//! we do not have (a workflow task timeout) is written as its default.
//!
//! Rules of the format: 64-bit numbers are strings, durations end in `s`, bytes are base64,
//! enum values are names, fields that have no value are absent.

mod between;
mod ids;
mod name;
mod value;

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde_json::{Map, Value, json};

use crate::event::{ActivityScheduled, Event, EventKind, Started, StepRecorded};
use crate::failure::{Failure, FailureKind, RetryState};
use crate::id::{Attempt, RequestId, Seq};
use crate::job::Resolution;
use crate::payload::Payload;
use crate::time::Timestamp;

use ids::Ids;
use value::{duration, failure, header, id, payloads, without_nulls};

/// Temporal's default; its SDKs take a missing one for zero and go round without end.
const TASK_TIMEOUT: &str = "10s";

/// Temporal's JSON of a whole history.
pub fn export(history: &[Event]) -> String {
    let mut ids = Ids::default();
    let mut events = Vec::with_capacity(history.len());
    for event in history {
        ids.note(event);
        events.push(project(event, &ids));
    }
    // Writing a value with text keys into a string has no way to fail.
    serde_json::to_string_pretty(&json!({ "events": events })).unwrap_or_default()
}

fn project(event: &Event, ids: &Ids) -> Value {
    let mut fields = Map::new();
    fields.insert("eventId".into(), id(event.id));
    fields.insert("eventTime".into(), json!(event.time.to_string()));
    fields.insert("eventType".into(), json!(name::event_type(&event.kind)));
    fields.insert("taskId".into(), id(event.id));
    fields.insert(
        name::attributes(&event.kind),
        without_nulls(attributes(event, ids)),
    );
    Value::Object(fields)
}

fn attributes(event: &Event, ids: &Ids) -> Value {
    let task = || id(ids.task_completed);
    match &event.kind {
        EventKind::Started(started) => run_started(started),
        EventKind::Completed { result } => {
            json!({ "result": payloads(result), "workflowTaskCompletedEventId": task() })
        }
        EventKind::Failed { failure: error } => json!({
            "failure": failure(error, ids),
            "retryState": name::NOT_RETRIED,
            "workflowTaskCompletedEventId": task(),
        }),
        EventKind::TimedOut => json!({ "retryState": name::OUT_OF_TIME }),
        EventKind::TaskScheduled { attempt } => task_scheduled(ids, *attempt),
        EventKind::TaskStarted => json!({ "scheduledEventId": id(ids.task_scheduled) }),
        EventKind::TaskCompleted => task_ended(ids, json!({ "sdkMetadata": metadata(ids) })),
        EventKind::TaskFailed {
            cause,
            failure: why,
        } => task_ended(
            ids,
            json!({ "cause": name::task_failed_cause(*cause), "failure": failure(why, ids) }),
        ),
        EventKind::ActivityScheduled(scheduled) => activity_scheduled(scheduled, &task()),
        EventKind::ActivityStarted {
            seq,
            attempt,
            last_failure,
        } => activity_started(ids, *seq, *attempt, last_failure.as_ref()),
        EventKind::ActivityCompleted { seq, result } => {
            activity_ended(ids, *seq, json!({ "result": payloads(result) }))
        }
        EventKind::ActivityFailed {
            seq,
            failure,
            retry_state,
        }
        | EventKind::ActivityTimedOut {
            seq,
            failure,
            retry_state,
        } => activity_failed(ids, *seq, failure, *retry_state),
        EventKind::ActivityCancelRequested { seq } => json!({
            "scheduledEventId": id(ids.activity(*seq).scheduled),
            "workflowTaskCompletedEventId": task(),
        }),
        EventKind::ActivityCanceled { seq, details } => {
            activity_canceled(ids, *seq, details.as_ref())
        }
        EventKind::TimerStarted { seq, delay, .. } => json!({
            "timerId": seq.to_string(),
            "startToFireTimeout": duration(*delay),
            "workflowTaskCompletedEventId": task(),
        }),
        EventKind::TimerFired { seq } => timer_ended(ids, *seq, &Value::Null),
        EventKind::TimerCanceled { seq } => timer_ended(ids, *seq, &task()),
        EventKind::CancelRequested { reason, .. } => json!({ "cause": reason }),
        EventKind::Canceled => json!({ "workflowTaskCompletedEventId": task() }),
        EventKind::StepRecorded(step) => marker(step, ids),
        EventKind::Signaled {
            name,
            input,
            request_id,
            headers,
        } => json!({
            "signalName": name.as_str(),
            "input": payloads(input),
            "requestId": request_id.as_ref().map(RequestId::as_str),
            "header": header(headers),
        }),
        EventKind::Terminated { reason } => json!({ "reason": reason }),
        EventKind::ContinuedAsNew(next) => between::continued_as_new(next, ids),
        EventKind::Child(event) => between::child(event, ids),
        EventKind::External(event) => between::external(event, ids),
        EventKind::Update(event) => between::update(event, ids),
        EventKind::Patched {
            id, is_deprecated, ..
        } => between::patched(id, *is_deprecated, ids),
    }
}

fn run_started(started: &Started) -> Value {
    let parent = started.parent.as_deref();
    let continued = started.continued_from;
    json!({
        "workflowType": value::named(started.workflow_type.as_str()),
        "workflowId": started.workflow_id.as_str(),
        "parentWorkflowExecution":
            parent.map(|p| value::execution(&p.workflow_id, Some(p.run_id))),
        "parentInitiatedEventId": parent.map(|p| id(p.initiated)),
        "taskQueue": value::queue(&started.queue),
        "input": payloads(&started.input),
        "header": header(&started.headers),
        "workflowRunTimeout": started.run_timeout.map(duration),
        "workflowTaskTimeout": TASK_TIMEOUT,
        "continuedExecutionRunId": continued.map(|run| run.to_string()),
        "initiator": continued.map(|_| name::CONTINUED_BY_WORKFLOW),
        "originalExecutionRunId": started.run_id.to_string(),
        "firstExecutionRunId": started.chain().to_string(),
        "priority": started.priority.map(value::priority),
        "attempt": 1,
    })
}

fn task_scheduled(ids: &Ids, attempt: Attempt) -> Value {
    json!({
        "taskQueue": ids.queue.as_ref().map(value::queue),
        "startToCloseTimeout": TASK_TIMEOUT,
        "attempt": attempt.0,
    })
}

fn task_ended(ids: &Ids, mut how: Value) -> Value {
    how["scheduledEventId"] = id(ids.task_scheduled);
    how["startedEventId"] = id(ids.task_started);
    how
}

/// What the SDK core may count on when it replays: ids and types of operations are those that
/// the code named (1), and a closing command is the last of its task (3). What the language side
/// must do, it says with its first task: keep to the edition of that number.
fn metadata(ids: &Ids) -> Value {
    let is_first = ids.task_completed == ids.first_task;
    let edition = ids.edition.filter(|_| is_first).map(|edition| [edition.0]);
    without_nulls(json!({ "coreUsedFlags": [1, 3], "langUsedFlags": edition }))
}

fn activity_scheduled(scheduled: &ActivityScheduled, task: &Value) -> Value {
    let options = &scheduled.options;
    json!({
        "activityId": scheduled.seq.to_string(),
        "activityType": value::named(scheduled.activity_type.as_str()),
        "taskQueue": value::queue(&scheduled.queue),
        "input": payloads(&scheduled.input),
        "header": header(&scheduled.headers),
        "scheduleToCloseTimeout": options.schedule_to_close.map(duration),
        "scheduleToStartTimeout": options.schedule_to_start.map(duration),
        "startToCloseTimeout": options.start_to_close.map(duration),
        "heartbeatTimeout": options.heartbeat.map(duration),
        "retryPolicy": value::retry_policy(&options.retry),
        "priority": options.priority.map(value::priority),
        "workflowTaskCompletedEventId": task,
    })
}

fn activity_started(
    ids: &Ids,
    seq: Seq,
    attempt: Attempt,
    last_failure: Option<&Failure>,
) -> Value {
    json!({
        "scheduledEventId": id(ids.activity(seq).scheduled),
        "attempt": attempt.0,
        "lastFailure": last_failure.map(|f| failure(f, ids)),
    })
}

fn activity_failed(ids: &Ids, seq: Seq, why: &Failure, retry_state: RetryState) -> Value {
    let retry_state = name::retry_state(retry_state);
    let how = json!({ "failure": failure(why, ids), "retryState": retry_state });
    activity_ended(ids, seq, how)
}

fn activity_ended(ids: &Ids, seq: Seq, mut how: Value) -> Value {
    let activity = ids.activity(seq);
    how["scheduledEventId"] = id(activity.scheduled);
    how["startedEventId"] = id(activity.started);
    how
}

fn activity_canceled(ids: &Ids, seq: Seq, details: Option<&Payload>) -> Value {
    let request = id(ids.activity(seq).cancel_requested);
    let how = json!({
        "details": details.map(payloads),
        "latestCancelRequestedEventId": request,
    });
    activity_ended(ids, seq, how)
}

fn timer_ended(ids: &Ids, seq: Seq, task: &Value) -> Value {
    json!({
        "timerId": seq.to_string(),
        "startedEventId": id(ids.timer(seq)),
        "workflowTaskCompletedEventId": task,
    })
}

/// A step is the SDK core's local activity: its marker carries the outcome.
fn marker(step: &StepRecorded, ids: &Ids) -> Value {
    let mut details = json!({ "data": payloads(&marker_data(step, ids.now)) });
    let failure = match &step.outcome {
        Resolution::Completed(result) => {
            details["result"] = payloads(result);
            Value::Null
        }
        Resolution::Failed(why, _) => failure(why, ids),
        Resolution::Canceled(payload) => {
            let details = payload.clone();
            let canceled = FailureKind::Canceled { details };
            failure(&Failure::new(canceled, "the step was cancelled"), ids)
        }
    };
    json!({
        "markerName": "core_local_activity",
        "details": details,
        "failure": failure,
        "workflowTaskCompletedEventId": id(ids.task_completed),
    })
}

/// What the SDK core writes and must find. It moves workflow time to `complete_time`; our time
/// does not move within a task, so that is the task's own.
fn marker_data(step: &StepRecorded, now: Timestamp) -> Payload {
    let now = json!({ "seconds": now.0 / 1_000_000, "nanos": now.0 % 1_000_000 * 1_000 });
    let data = json!({
        "seq": step.seq.0,
        "attempt": step.attempt.0,
        "activity_id": step.seq.to_string(),
        "activity_type": step.name.as_str(),
        "complete_time": now,
        "backoff": null,
        "original_schedule_time": now,
        "activation_index": step.activation,
    });
    Payload::raw_json(data.to_string())
}
