//! Histories of a cluster, read as ours.

use super::*;
use crate::proto::{common, enums};
use outlast_model::Edition;
use outlast_model::event::UpdateEvent;
use outlast_model::grammar;
use outlast_model::job::Resolution;

const RUN: &str = "0191f0c0-0000-7000-8000-000000000001";

fn history(attributes: Vec<Attributes>) -> wire::History {
    let events = attributes.into_iter().zip(1_i64..);
    let events = events.map(|(attributes, event_id)| wire::HistoryEvent {
        event_id,
        attributes: Some(attributes),
        ..wire::HistoryEvent::default()
    });
    wire::History {
        events: events.collect(),
    }
}

fn read(attributes: Vec<Attributes>) -> Vec<Event> {
    let events = from_wire(history(attributes), &WorkflowId::new("order-1")).expect("reads");
    grammar::check(&events).expect("a history that can exist");
    events
}

fn names(events: &[Event]) -> Vec<&'static str> {
    events.iter().map(|event| event.kind.name()).collect()
}

fn started() -> Attributes {
    Attributes::WorkflowExecutionStartedEventAttributes(
        wire::WorkflowExecutionStartedEventAttributes {
            workflow_type: Some(common::WorkflowType {
                name: "order".into(),
            }),
            original_execution_run_id: RUN.into(),
            first_execution_run_id: RUN.into(),
            ..Default::default()
        },
    )
}

fn scheduled() -> Attributes {
    Attributes::WorkflowTaskScheduledEventAttributes(Default::default())
}

fn begun() -> Attributes {
    Attributes::WorkflowTaskStartedEventAttributes(Default::default())
}

fn completed() -> Attributes {
    Attributes::WorkflowTaskCompletedEventAttributes(Default::default())
}

#[test]
fn the_first_completed_task_says_the_edition() {
    let flagged = || {
        let metadata = crate::proto::sdk::WorkflowTaskCompletedMetadata {
            lang_used_flags: vec![2],
            ..Default::default()
        };
        Attributes::WorkflowTaskCompletedEventAttributes(
            wire::WorkflowTaskCompletedEventAttributes {
                sdk_metadata: Some(metadata),
                ..Default::default()
            },
        )
    };
    let edition = |first: Attributes, second: Attributes| {
        let tasks = vec![scheduled(), begun(), first, scheduled(), begun(), second];
        let events = read([vec![started()], tasks].concat());
        let EventKind::Started(started) = &events[0].kind else {
            panic!("{events:?}");
        };
        started.edition()
    };
    assert_eq!(edition(completed(), completed()), Edition::FIRST);
    assert_eq!(edition(flagged(), completed()), Edition::SECOND);
    assert_eq!(edition(completed(), flagged()), Edition::FIRST, "too late");
}

fn marker(name: &str, key: &str, data: &str) -> Attributes {
    let data = payload::list(&outlast_model::Payload::raw_json(data.to_owned()));
    Attributes::MarkerRecordedEventAttributes(wire::MarkerRecordedEventAttributes {
        marker_name: name.into(),
        details: [(key.to_owned(), data)].into(),
        ..Default::default()
    })
}

fn end() -> Attributes {
    Attributes::WorkflowExecutionCompletedEventAttributes(Default::default())
}

#[test]
fn an_activity_is_found_by_the_event_that_scheduled_it() {
    let events = read(vec![
        started(),
        scheduled(),
        begun(),
        completed(),
        Attributes::ActivityTaskScheduledEventAttributes(
            wire::ActivityTaskScheduledEventAttributes {
                activity_id: "7".into(),
                ..Default::default()
            },
        ),
        Attributes::ActivityTaskStartedEventAttributes(wire::ActivityTaskStartedEventAttributes {
            scheduled_event_id: 5,
            attempt: 1,
            ..Default::default()
        }),
        Attributes::ActivityTaskCompletedEventAttributes(
            wire::ActivityTaskCompletedEventAttributes {
                scheduled_event_id: 5,
                started_event_id: 6,
                ..Default::default()
            },
        ),
        scheduled(),
        begun(),
        completed(),
        end(),
    ]);
    assert!(matches!(
        events[6].kind,
        EventKind::ActivityCompleted { seq: Seq(7), .. }
    ));
    assert_eq!(events.len(), 11);
}

#[test]
fn search_attributes_of_a_patch_are_left_out_and_ids_stay_dense() {
    let events = read(vec![
        started(),
        scheduled(),
        begun(),
        completed(),
        marker(
            "core_patch",
            "patch-data",
            r#"{"id":"p","deprecated":true}"#,
        ),
        Attributes::UpsertWorkflowSearchAttributesEventAttributes(Default::default()),
        end(),
    ]);
    assert!(matches!(
        &events[4].kind,
        EventKind::Patched { id, is_deprecated: true, .. } if id.as_str() == "p"
    ));
    assert_eq!(events.len(), 6);
}

#[test]
fn a_task_that_kept_itself_alive_for_a_step_stays_a_task() {
    let data = r#"{"seq":1,"attempt":2,"activity_id":"1","activity_type":"fetch",
        "complete_time":null,"backoff":null,"original_schedule_time":null,"activation_index":1}"#;
    let events = read(vec![
        started(),
        scheduled(),
        begun(),
        completed(),
        scheduled(),
        begun(),
        completed(),
        marker("core_local_activity", "data", data),
        end(),
    ]);
    let tasks = names(&events)
        .iter()
        .filter(|name| name.starts_with("WorkflowTask"))
        .count();
    assert_eq!(tasks, 6, "{:?}", names(&events));
    let EventKind::StepRecorded(step) = &events[7].kind else {
        panic!("{:?}", names(&events));
    };
    assert_eq!(
        (step.seq, step.name.as_str(), step.activation),
        (Seq(1), "fetch", 1)
    );
    assert!(matches!(step.outcome, Resolution::Completed(_)));
}

#[test]
fn an_update_stands_behind_the_event_it_came_behind() {
    let request = crate::proto::update::Request {
        meta: Some(crate::proto::update::Meta {
            update_id: "u".into(),
            ..Default::default()
        }),
        ..Default::default()
    };
    let events = read(vec![
        started(),
        scheduled(),
        begun(),
        completed(),
        Attributes::UpsertWorkflowSearchAttributesEventAttributes(Default::default()),
        scheduled(),
        begun(),
        completed(),
        Attributes::WorkflowExecutionUpdateAcceptedEventAttributes(
            wire::WorkflowExecutionUpdateAcceptedEventAttributes {
                protocol_instance_id: "u".into(),
                accepted_request_sequencing_event_id: 6,
                accepted_request: Some(request),
                ..Default::default()
            },
        ),
        end(),
    ]);
    let accepted = events.iter().find_map(|event| match &event.kind {
        EventKind::Update(UpdateEvent::Accepted(accepted)) => Some(accepted.clone()),
        _ => None,
    });
    // The event numbered 6 there is number 5 here.
    assert_eq!(accepted.expect("an update").behind, EventId(5));
}

#[test]
fn a_task_that_timed_out_is_one_that_failed() {
    let timed_out = wire::WorkflowTaskTimedOutEventAttributes {
        timeout_type: enums::TimeoutType::StartToClose.into(),
        ..Default::default()
    };
    let events = read(vec![
        started(),
        scheduled(),
        begun(),
        Attributes::WorkflowTaskTimedOutEventAttributes(timed_out),
        scheduled(),
        begun(),
        completed(),
        end(),
    ]);
    assert!(matches!(events[3].kind, EventKind::TaskFailed { .. }));
}

#[test]
fn what_another_sdk_recorded_is_named() {
    let nexus = Attributes::NexusOperationScheduledEventAttributes(Default::default());
    let error = from_wire(history(vec![started(), nexus]), &WorkflowId::new("x"));
    assert_eq!(error, Err(Unsupported::kind("a Nexus operation")));
    let version = marker("Version", "change-id", "1");
    let error = from_wire(history(vec![started(), version]), &WorkflowId::new("x"));
    assert_eq!(error, Err(Unsupported::kind("a marker \"Version\"")));
}
