//! A history as Temporal's tools read it: proto3 JSON of `temporal.api.history.v1.History`.
//!
//! Our records name operations by their sequence numbers, Temporal's by the ids of the events
//! that scheduled or started them. The ids are found by one scan, in step with the writing.
//! What Temporal has no field for (call sites, cancel modes) is left out; what it demands and
//! we do not have (a workflow task timeout) is written as its default.
//!
//! Rules of the format: 64-bit numbers are strings, durations end in `s`, bytes are base64,
//! enum values are names, fields that have no value are absent.

mod name;
mod value;

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde_json::{Map, Value, json};

use crate::event::{ActivityScheduled, Event, EventKind, Started, StepRecorded};
use crate::failure::{Failure, FailureKind};
use crate::id::{EventId, QueueName, Seq};
use crate::job::Resolution;
use crate::payload::Payload;
use crate::time::Timestamp;

use value::{duration, id, payloads, without_nulls};

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

/// The ids and times that later events refer to.
#[derive(Default)]
struct Ids {
    task_scheduled: EventId,
    task_started: EventId,
    task_completed: EventId,
    /// The workflow's time in the newest task.
    now: Timestamp,
    queue: Option<QueueName>,
    activities: BTreeMap<Seq, ActivityIds>,
    timers: BTreeMap<Seq, EventId>,
}

/// Events of one activity; 0 is none.
#[derive(Clone, Copy, Default)]
struct ActivityIds {
    scheduled: EventId,
    started: EventId,
    cancel_requested: EventId,
}

impl Ids {
    fn note(&mut self, event: &Event) {
        match &event.kind {
            EventKind::Started(started) => self.queue = Some(started.queue.clone()),
            EventKind::TaskScheduled { .. } => self.task_scheduled = event.id,
            EventKind::TaskStarted => (self.task_started, self.now) = (event.id, event.time),
            EventKind::TaskCompleted => self.task_completed = event.id,
            EventKind::ActivityScheduled(a) => self.entry(a.seq).scheduled = event.id,
            EventKind::ActivityStarted { seq, .. } => self.entry(*seq).started = event.id,
            EventKind::ActivityCancelRequested { seq } => {
                self.entry(*seq).cancel_requested = event.id;
            }
            EventKind::TimerStarted { seq, .. } => {
                self.timers.insert(*seq, event.id);
            }
            EventKind::Completed { .. }
            | EventKind::Failed { .. }
            | EventKind::TimedOut
            | EventKind::TaskFailed { .. }
            | EventKind::ActivityCompleted { .. }
            | EventKind::ActivityFailed { .. }
            | EventKind::ActivityTimedOut { .. }
            | EventKind::ActivityCanceled { .. }
            | EventKind::TimerFired { .. }
            | EventKind::TimerCanceled { .. }
            | EventKind::CancelRequested { .. }
            | EventKind::Canceled
            | EventKind::StepRecorded(_)
            | EventKind::Signaled { .. }
            | EventKind::Terminated { .. }
            | EventKind::ContinuedAsNew(_)
            | EventKind::Child(_)
            | EventKind::External(_)
            | EventKind::Update(_)
            | EventKind::Patched { .. } => {}
        }
    }

    fn entry(&mut self, seq: Seq) -> &mut ActivityIds {
        self.activities.entry(seq).or_default()
    }

    fn activity(&self, seq: Seq) -> ActivityIds {
        self.activities.get(&seq).copied().unwrap_or_default()
    }

    fn timer(&self, seq: Seq) -> EventId {
        self.timers.get(&seq).copied().unwrap_or_default()
    }

    fn failure(&self, failure: &Failure) -> Value {
        value::failure(failure, &|seq| {
            let found = self.activity(seq);
            (found.scheduled, found.started)
        })
    }
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
        EventKind::Failed { failure } => json!({
            "failure": ids.failure(failure),
            "retryState": "RETRY_STATE_RETRY_POLICY_NOT_SET",
            "workflowTaskCompletedEventId": task(),
        }),
        EventKind::TimedOut => json!({ "retryState": "RETRY_STATE_TIMEOUT" }),
        EventKind::TaskScheduled { attempt } => json!({
            "taskQueue": ids.queue.as_ref().map(value::queue),
            "startToCloseTimeout": TASK_TIMEOUT,
            "attempt": attempt.0,
        }),
        EventKind::TaskStarted => json!({ "scheduledEventId": id(ids.task_scheduled) }),
        EventKind::TaskCompleted => task_ended(ids, json!({})),
        EventKind::TaskFailed { cause, failure } => task_ended(
            ids,
            json!({ "cause": name::task_failed_cause(*cause), "failure": ids.failure(failure) }),
        ),
        EventKind::ActivityScheduled(scheduled) => activity_scheduled(scheduled, &task()),
        EventKind::ActivityStarted {
            seq,
            attempt,
            last_failure,
        } => json!({
            "scheduledEventId": id(ids.activity(*seq).scheduled),
            "attempt": attempt.0,
            "lastFailure": last_failure.as_ref().map(|f| ids.failure(f)),
        }),
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
        } => {
            let retry_state = name::retry_state(*retry_state);
            let how = json!({ "failure": ids.failure(failure), "retryState": retry_state });
            activity_ended(ids, *seq, how)
        }
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
        } => json!({
            "signalName": name.as_str(),
            "input": payloads(input),
            "requestId": request_id.as_ref().map(|r| r.as_str()),
        }),
        EventKind::Terminated { reason } => json!({ "reason": reason }),
        EventKind::ContinuedAsNew(_)
        | EventKind::Child(_)
        | EventKind::External(_)
        | EventKind::Update(_)
        | EventKind::Patched { .. } => json!({}),
    }
}

fn run_started(started: &Started) -> Value {
    let run_id = started.run_id.to_string();
    json!({
        "workflowType": value::named(started.workflow_type.as_str()),
        "workflowId": started.workflow_id.as_str(),
        "taskQueue": value::queue(&started.queue),
        "input": payloads(&started.input),
        "workflowRunTimeout": started.run_timeout.map(duration),
        "workflowTaskTimeout": TASK_TIMEOUT,
        "originalExecutionRunId": run_id,
        "firstExecutionRunId": run_id,
        "attempt": 1,
    })
}

fn task_ended(ids: &Ids, mut how: Value) -> Value {
    how["scheduledEventId"] = id(ids.task_scheduled);
    how["startedEventId"] = id(ids.task_started);
    how
}

fn activity_scheduled(scheduled: &ActivityScheduled, task: &Value) -> Value {
    let options = &scheduled.options;
    json!({
        "activityId": scheduled.seq.to_string(),
        "activityType": value::named(scheduled.activity_type.as_str()),
        "taskQueue": value::queue(&scheduled.queue),
        "input": payloads(&scheduled.input),
        "scheduleToCloseTimeout": options.schedule_to_close.map(duration),
        "scheduleToStartTimeout": options.schedule_to_start.map(duration),
        "startToCloseTimeout": options.start_to_close.map(duration),
        "heartbeatTimeout": options.heartbeat.map(duration),
        "retryPolicy": value::retry_policy(&options.retry),
        "workflowTaskCompletedEventId": task,
    })
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
        Resolution::Failed(failure, _) => ids.failure(failure),
        Resolution::Canceled(payload) => {
            let mut failure = Failure::canceled("the step was cancelled");
            failure.kind = FailureKind::Canceled {
                details: payload.clone(),
            };
            ids.failure(&failure)
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
