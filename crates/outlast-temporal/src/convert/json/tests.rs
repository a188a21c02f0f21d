//! Events as tools print them.

use super::*;
use crate::proto::enums::{TaskQueueKind, WorkflowTaskFailedCause};

fn one(event: &str) -> wire::HistoryEvent {
    let text = format!("{{\"events\": [{event}]}}");
    let mut read = history(&text).expect("it is a history");
    read.events.pop().expect("it has an event")
}

/// As the server's command line tool prints it, with a field that nobody knows yet.
#[test]
fn a_start_is_read_with_what_it_was_given() {
    let read = one(r#"{
        "eventId": "1",
        "eventTime": "2026-01-02T03:04:05.678Z",
        "eventType": "EVENT_TYPE_WORKFLOW_EXECUTION_STARTED",
        "taskId": "1048587",
        "workflowExecutionStartedEventAttributes": {
            "workflowType": {"name": "order"},
            "taskQueue": {"name": "default", "kind": "TASK_QUEUE_KIND_NORMAL"},
            "input": {"payloads": [
                {"metadata": {"encoding": "anNvbi9wbGFpbg=="}, "data": "NDE="}
            ]},
            "workflowTaskTimeout": "10s",
            "workflowRunTimeout": "0.250s",
            "originalExecutionRunId": "0191f0c0-0000-7000-8000-000000000001",
            "attempt": 1,
            "retryPolicy": {"initialInterval": "1s", "backoffCoefficient": 2},
            "somethingNew": {"a": [1]}
        }
    }"#);
    assert_eq!((read.event_id, read.event_type), (1, 1));
    assert_eq!(read.event_time.expect("a time").nanos, 678_000_000);
    let Some(Attributes::WorkflowExecutionStartedEventAttributes(it)) = read.attributes else {
        panic!("it is a start");
    };
    assert_eq!(it.workflow_type.expect("a type").name, "order");
    let queue = it.task_queue.expect("a queue");
    assert_eq!(queue.kind(), TaskQueueKind::Normal);
    assert_eq!(it.input.expect("an input").payloads[0].data, b"41");
    assert_eq!(it.workflow_run_timeout.expect("a limit").nanos, 250_000_000);
    let retry = it.retry_policy.expect("a policy");
    assert_eq!(retry.initial_interval.expect("an interval").seconds, 1);
    assert_eq!(it.attempt, 1);
}

#[test]
fn failures_and_causes_are_read_by_their_names() {
    let read = one(r#"{
        "eventId": 7,
        "eventType": "EVENT_TYPE_WORKFLOW_TASK_FAILED",
        "workflowTaskFailedEventAttributes": {
            "startedEventId": "6",
            "cause": "WORKFLOW_TASK_FAILED_CAUSE_NON_DETERMINISTIC_ERROR",
            "failure": {"message": "changed", "applicationFailureInfo": {"type": "Odd"}}
        }
    }"#);
    assert_eq!(read.event_id, 7);
    let Some(Attributes::WorkflowTaskFailedEventAttributes(it)) = read.attributes else {
        panic!("it is a failed task");
    };
    assert_eq!(it.started_event_id, 6);
    assert_eq!(it.cause(), WorkflowTaskFailedCause::NonDeterministicError);
    assert_eq!(it.failure.expect("a failure").message, "changed");
}

#[test]
fn what_no_code_hears_of_is_kept_as_an_event_without_a_say() {
    let read = one(r#"{
        "eventId": "3",
        "eventType": "EVENT_TYPE_WORKFLOW_EXECUTION_OPTIONS_UPDATED",
        "workflowExecutionOptionsUpdatedEventAttributes": {"identity": "somebody"}
    }"#);
    assert_eq!(read.attributes, Some(unheard()));
}

#[test]
fn what_outlast_does_not_have_is_named() {
    let text = r#"{"events": [{"nexusOperationScheduledEventAttributes": {}}]}"#;
    let why = history(text).expect_err("it is refused").to_string();
    assert!(why.contains("event 1: Outlast has no Nexus"), "{why}");
}
