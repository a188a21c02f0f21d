//! The export, read in full: a history with every kind of event and every kind of failure.

use outlast_model::EventKind::{self, TaskCompleted, TaskStarted};
use outlast_model::event::CancelOf;
use outlast_model::failure::RetryState;
use outlast_model::{Failure, FailureKind, Resolution, Seq, grammar, temporal_json};
use serde_json::Value;

use crate::samples::{
    activity_cancel_requested, activity_canceled, activity_completed, activity_failed,
    activity_scheduled, activity_started, activity_timed_out, admitted_update_accepted,
    cancel_delivered, cancel_failed, cancel_initiated, cancel_requested, child_canceled,
    child_completed, child_failed, child_failure, child_initiated, child_start_failed,
    child_started, child_terminated, child_timed_out, completed, continued_as_new, continued_child,
    every_kind, failed, history, json, of_an_edition, patched, signal_delivered, signal_failed,
    signal_initiated, signaled, started, step_completed, step_recorded, task_failed,
    task_scheduled, terminated, timer_canceled, timer_fired, timer_started, update_accepted,
    update_admitted, update_completed, update_failed, with_headers,
};

/// A run in which everything happens that can happen to one run.
fn long_story() -> Vec<EventKind> {
    let server = FailureKind::Server {
        non_retryable: true,
    };
    let broken = Resolution::Failed(Failure::new(server, "no room"), RetryState::Timeout);
    let mut kinds = vec![
        started(),
        task_scheduled(1),
        TaskStarted,
        task_failed(),
        signaled("req-2"),
    ];
    kinds.extend([task_scheduled(2), TaskStarted, TaskCompleted]);
    kinds.extend((1..=4).map(activity_scheduled));
    kinds.extend((1..=2).map(timer_started));
    kinds.extend([
        activity_started(1),
        activity_completed(1),
        activity_started(2),
        activity_failed(2),
    ]);
    kinds.extend([activity_timed_out(3), timer_fired(1), cancel_requested()]);
    kinds.extend([
        task_scheduled(1),
        TaskStarted,
        TaskCompleted,
        step_completed(1),
    ]);
    kinds.extend([
        step_recorded(2, broken),
        step_recorded(3, Resolution::Canceled(Some(json("0")))),
    ]);
    kinds.extend([activity_cancel_requested(4), timer_canceled(2)]);
    kinds.extend([
        activity_canceled(4),
        task_scheduled(1),
        TaskStarted,
        TaskCompleted,
    ]);
    kinds
}

/// A run that talks to others in every way: six children with every end, three requests to stop,
/// two messages, three updates, a patch, a successor.
fn talkative_story() -> Vec<EventKind> {
    let cancels = [
        CancelOf::Child(Seq(3)),
        CancelOf::External(Seq(1)),
        CancelOf::External(Seq(2)),
    ];
    let mut kinds = vec![continued_child(), update_admitted("u-1")];
    kinds.extend([task_scheduled(1), TaskStarted, TaskCompleted]);
    kinds.extend([patched("eu-tax"), admitted_update_accepted("u-1", 2)]);
    kinds.extend((1..=6).map(child_initiated));
    kinds.extend((1..=2).map(signal_initiated));
    kinds.extend([activity_scheduled(1), child_start_failed(6)]);
    kinds.extend((1..=5).map(child_started));
    kinds.extend([signal_delivered(1), signal_failed(2)]);
    kinds.extend([task_scheduled(1), TaskStarted, TaskCompleted]);
    kinds.extend([update_accepted("u-2", 17), update_accepted("u-3", 23)]);
    kinds.extend([update_completed("u-1"), update_failed("u-2")]);
    kinds.extend(cancels.map(cancel_initiated));
    kinds.extend([cancel_delivered(cancels[0]), cancel_delivered(cancels[1])]);
    kinds.extend([cancel_failed(cancels[2]), child_completed(1)]);
    kinds.extend([child_failed(2), child_canceled(3)]);
    kinds.extend([child_timed_out(4), child_terminated(5)]);
    kinds.extend([task_scheduled(1), TaskStarted, TaskCompleted]);
    kinds
}

fn exported(kinds: Vec<EventKind>) -> String {
    let events = history(kinds);
    grammar::check(&events).expect("a history that can exist");
    temporal_json::export(&events)
}

#[test]
fn a_long_story_is_exported_as_temporal_writes_it() {
    let mut kinds = long_story();
    kinds.push(failed());
    insta::assert_snapshot!(exported(kinds));
}

#[test]
fn a_run_that_talks_to_others_is_exported_as_temporal_writes_it() {
    let mut kinds = talkative_story();
    kinds.push(continued_as_new());
    insta::assert_snapshot!(exported(kinds));
}

/// The activity that failed is the child's: the parent's own activity of that number is not it.
#[test]
fn numbers_of_another_history_are_not_looked_up_in_this_one() {
    let failure = child_failure(2);
    let mut kinds = talkative_story();
    kinds.push(EventKind::Failed { failure });
    let parsed: Value = serde_json::from_str(&exported(kinds)).expect("is JSON");
    let end = parsed["events"].as_array().and_then(|e| e.last());
    let failed = &end.expect("an end")["workflowExecutionFailedEventAttributes"]["failure"];
    let child = &failed["childWorkflowExecutionFailureInfo"];
    assert_eq!(
        (&child["initiatedEventId"], &child["startedEventId"]),
        (&"9".into(), &"19".into())
    );
    let activity = &failed["cause"]["activityFailureInfo"];
    assert_eq!(activity["activityId"], "1");
    assert_eq!(activity["scheduledEventId"], Value::Null);
}

#[test]
fn every_end_is_exported() {
    let turn = || vec![started(), task_scheduled(1), TaskStarted, TaskCompleted];
    let mut ends = String::new();
    for end in [
        completed(),
        EventKind::Canceled,
        EventKind::TimedOut,
        terminated(),
    ] {
        let mut kinds = turn();
        kinds.push(end);
        let parsed: Value = serde_json::from_str(&exported(kinds)).expect("is JSON");
        ends += &format!("{:#}\n", parsed["events"][4]);
    }
    insta::assert_snapshot!(ends);
}

/// Eight kinds can have headers; they stand where Temporal's parsers look for them.
#[test]
fn what_travels_with_a_call_is_exported() {
    let mut found = String::new();
    for kind in every_kind().into_iter().filter_map(with_headers) {
        let name = kind.name();
        let parsed: Value =
            serde_json::from_str(&temporal_json::export(&history([kind]))).expect("is JSON");
        let attributes = format!("{}{}EventAttributes", name[..1].to_lowercase(), &name[1..]);
        let attributes = &parsed["events"][0][attributes];
        let update = ["request", "acceptedRequest"]
            .map(|of| &attributes[of]["input"])
            .into_iter()
            .find(|input| input.is_object());
        let header = &update.unwrap_or(attributes)["header"];
        found += &format!("{name} {header}\n");
    }
    insta::assert_snapshot!(found);
}

/// The outer form holds for each kind: Temporal's parsers refuse an event without it.
#[test]
fn every_kind_has_type_and_attributes_of_the_same_name() {
    for kind in every_kind() {
        let name = kind.name();
        let parsed: Value =
            serde_json::from_str(&temporal_json::export(&history([kind]))).expect("is JSON");
        let event = parsed["events"][0].as_object().expect("an event");
        let kind_name = event["eventType"]
            .as_str()
            .expect("a type")
            .replace('_', "");
        assert_eq!(kind_name, format!("EVENTTYPE{}", name.to_uppercase()));
        let attributes = format!("{}{}EventAttributes", name[..1].to_lowercase(), &name[1..]);
        assert!(event[&attributes].is_object(), "{attributes}");
        assert_eq!((&event["eventId"], event.len()), (&Value::from("1"), 5));
    }
}

#[test]
fn no_call_site_leaves_the_house() {
    for mut kinds in [long_story(), talkative_story()] {
        kinds.push(completed());
        assert!(!exported(kinds).contains("orders.rs"));
    }
}

#[test]
fn the_first_completed_task_says_the_edition_of_the_run() {
    let task = || [task_scheduled(1), TaskStarted, TaskCompleted];
    let kinds = [vec![of_an_edition()], task().into(), task().into()].concat();
    let exported: Value =
        serde_json::from_str(&temporal_json::export(&history(kinds))).expect("it is JSON");
    let flags: Vec<&Value> = exported["events"]
        .as_array()
        .expect("events")
        .iter()
        .filter_map(|event| event.get("workflowTaskCompletedEventAttributes"))
        .map(|task| &task["sdkMetadata"]["langUsedFlags"])
        .collect();
    assert_eq!(flags, [&serde_json::json!([2]), &Value::Null]);
}
