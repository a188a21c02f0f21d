//! The export, read in full: a history with every kind of event and every kind of failure.

use outlast_model::EventKind::{self, TaskCompleted, TaskStarted};
use outlast_model::failure::RetryState;
use outlast_model::{Failure, FailureKind, Resolution, grammar, temporal_json};
use serde_json::Value;

use crate::samples::{
    activity_cancel_requested, activity_canceled, activity_completed, activity_failed,
    activity_scheduled, activity_started, activity_timed_out, cancel_requested, completed,
    every_kind, failed, history, json, signaled, started, step_completed, step_recorded,
    task_failed, task_scheduled, terminated, timer_canceled, timer_fired, timer_started,
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
    let mut kinds = long_story();
    kinds.push(completed());
    assert!(!exported(kinds).contains("orders.rs"));
}
