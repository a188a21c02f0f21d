//! Every reason is reached by a description, and says what to do.

use std::time::Duration;

use outlast_model::event::Site;
use outlast_model::view::{RunOutcome, Summary, Waiting};
use outlast_model::{Attempt, Failure, Payload, RunId, Seq};
use outlast_worker::event::{AttemptIn, StopPhase};
use outlast_worker::state::{SlotState, WorkerState};
use outlast_worker::{Bus, WorkerEvent};

use super::*;

const NOW: Timestamp = Timestamp(1_000_000_000);

fn description(waiting: Vec<Waiting>, cause: Option<TaskFailedCause>) -> Description {
    let trouble = cause.map(|cause| Trouble {
        cause,
        since: Timestamp(900_000_000),
        attempts: 3,
        failure: Failure::panic("no such shelf"),
        next_try: cause
            .is_transient()
            .then_some(NOW.after(Duration::from_secs(4))),
    });
    Description {
        summary: Summary {
            workflow_id: "order-1".into(),
            run_id: Default::default(),
            workflow_type: "order".into(),
            queue: "default".into(),
            status: Status::Running,
            is_blocked: false,
            started: Timestamp(0),
            closed: None,
            events: 3,
            bytes: 100,
            wake: None,
            first_run: None,
        },
        input: Payload::null(),
        outcome: None,
        waiting,
        trouble,
        notes: Vec::new(),
        unhandled_signals: 0,
        unread: Vec::new(),
    }
}

fn pending(due: Timestamp) -> Waiting {
    Waiting::ActivityPending {
        seq: Seq(1),
        activity_type: "charge".into(),
        attempt: Attempt(2),
        due,
        last_failure: Some(Failure::application("", "the bank did not answer")),
        site: Site::default(),
    }
}

fn first(waiting: Vec<Waiting>, cause: Option<TaskFailedCause>) -> Answer {
    let answers = reasons(
        &description(waiting, cause),
        &Around::Elsewhere,
        NOW,
        "--db x.db",
    );
    answers
        .into_iter()
        .next()
        .expect("an open run has a reason")
}

#[test]
fn what_a_run_waits_for_is_a_reason() {
    let site = Site::default();
    let cases = [
        (
            pending(NOW.after(Duration::from_secs(5))),
            Reason::RetryBackOff,
        ),
        (pending(Timestamp(1)), Reason::ActivityPending),
        (
            Waiting::Timer {
                seq: Seq(1),
                due: NOW,
                site: site.clone(),
            },
            Reason::Timer,
        ),
        (
            Waiting::ActivityOutside {
                seq: Seq(1),
                activity_type: "approve".into(),
                attempt: Attempt(1),
                since: Timestamp(1),
                due: Some(NOW.after(Duration::from_secs(60))),
                site: Site::default(),
            },
            Reason::Outside,
        ),
        (Waiting::Task, Reason::Task),
        (Waiting::Message { at: Vec::new() }, Reason::Message),
        (
            Waiting::Step {
                seq: Seq(1),
                name: "x".into(),
                attempt: Attempt(1),
                site,
            },
            Reason::Step,
        ),
    ];
    for (waiting, reason) in cases {
        let answer = first(vec![waiting], None);
        assert_eq!(answer.reason, reason);
        assert!(!answer.next.is_empty() && !answer.text.is_empty());
    }
}

#[test]
fn a_back_off_names_the_last_error_and_the_next_try() {
    let answer = first(vec![pending(NOW.after(Duration::from_secs(5)))], None);
    assert!(answer.text.contains("in 5.0 s"), "{}", answer.text);
    assert!(
        answer.text.contains("the bank did not answer"),
        "{}",
        answer.text
    );
}

#[test]
fn trouble_of_the_code_comes_before_everything_it_waits_for() {
    let cases = [
        (TaskFailedCause::NonDeterminism, Reason::Mismatch),
        (TaskFailedCause::Stuck, Reason::Stuck),
        (TaskFailedCause::Quarantined, Reason::Quarantined),
        (TaskFailedCause::BadCommand, Reason::BadCommand),
        (TaskFailedCause::WorkerUnhandledFailure, Reason::Failing),
    ];
    for (cause, reason) in cases {
        let run = description(vec![Waiting::Task, pending(NOW)], Some(cause));
        let answers = reasons(&run, &Around::Elsewhere, NOW, "");
        let found: Vec<Reason> = answers.iter().map(|answer| answer.reason).collect();
        // That its code is due is no news: it ran, and failed.
        assert_eq!(found, [reason, Reason::ActivityPending]);
        let text = &answers[0].text;
        assert!(text.contains("no such shelf"), "{text}");
    }
}

#[test]
fn an_ended_run_says_how() {
    let mut run = description(Vec::new(), None);
    run.summary.status = Status::Failed;
    run.summary.closed = Some(Timestamp(400_000_000));
    run.outcome = Some(RunOutcome::Failed(Failure::application(
        "",
        "the card was declined",
    )));
    let answers = reasons(&run, &Around::Elsewhere, NOW, "--db x.db");
    let text = "it has ended (failed, 10 min ago): the card was declined";
    assert_eq!(
        answers.iter().map(|a| a.text.as_str()).collect::<Vec<_>>(),
        [text]
    );
}

#[test]
fn what_no_worker_has_is_named() {
    let mut run = description(vec![Waiting::Task], Some(TaskFailedCause::BadCommand));
    let text = "no worker has workflow order; add .workflow(order) to the builder";
    if let Some(trouble) = &mut run.trouble {
        trouble.failure = Failure::application(type_name::NOT_REGISTERED, text);
    }
    let answers = reasons(&run, &Around::Elsewhere, NOW, "");
    assert_eq!(answers[0].reason, Reason::NotRegistered);
    assert!(answers[0].text.ends_with(text), "{answers:?}");
}

/// A worker of queue `default` that has seen these events.
fn worker(events: Vec<WorkerEvent>, used: usize) -> WorkerState {
    let bus = Bus::default();
    let queue = "default".into();
    bus.emit(WorkerEvent::Started { shards: 1 });
    bus.emit(WorkerEvent::QueueRegistered { queue });
    for event in events {
        bus.emit(event);
    }
    WorkerState {
        standing: bus.standing(),
        shards: 1,
        threads: Vec::new(),
        stacks: 0,
        spare_threads: 0,
        slots: vec![SlotState {
            queue: "default".into(),
            kind: "activity",
            used,
            slots: Some(2),
        }],
        attempts: used,
    }
}

fn seen_from(worker: &WorkerState) -> Vec<Reason> {
    let around = Around::Here { worker };
    let run = description(vec![pending(Timestamp(1))], None);
    let answers = reasons(&run, &around, NOW, "");
    answers.into_iter().map(|answer| answer.reason).collect()
}

#[test]
fn a_worker_that_is_well_is_no_reason() {
    let well = worker(Vec::new(), 1);
    assert_eq!(seen_from(&well), [Reason::ActivityPending]);
}

#[test]
fn whoever_should_run_it_and_does_not_is_the_reason() {
    let spent = Duration::from_secs(12);
    let attempt = AttemptIn {
        run_id: RunId::default(),
        kind: outlast_model::task::AttemptKind::Activity,
        name: "charge".into(),
        seq: Seq(1),
        attempt: Attempt(1),
    };
    let (phase, queue) = (StopPhase::Finishing, "default".into());
    let cases = [
        (
            vec![WorkerEvent::Stopping { phase, attempts: 1 }],
            Reason::ShuttingDown,
        ),
        (
            vec![WorkerEvent::QueueUnregistered { queue }],
            Reason::NoWorker,
        ),
        (vec![WorkerEvent::Zombie { attempt, spent }], Reason::Zombie),
        (
            vec![WorkerEvent::BackendUnavailable {
                backend: "the cluster".into(),
                error: "refused".into(),
                retry_in: spent,
            }],
            Reason::BackendAway,
        ),
        (
            vec![WorkerEvent::StoreAway {
                error: "the disk is full".into(),
                retry_in: spent,
            }],
            Reason::BackendAway,
        ),
    ];
    for (events, reason) in cases {
        let seen = seen_from(&worker(events, 1));
        assert_eq!(seen, [reason, Reason::ActivityPending]);
    }
    let full = seen_from(&worker(Vec::new(), 2));
    assert_eq!(full, [Reason::SlotsBusy, Reason::ActivityPending]);
}

#[test]
fn nobody_is_a_reason_only_for_what_is_due() {
    let due = description(vec![Waiting::Task], None);
    let answers = reasons(&due, &Around::Nobody { last: None }, NOW, "");
    assert_eq!(answers[0].reason, Reason::NoWorker);
    let not_due = description(vec![Waiting::Message { at: Vec::new() }], None);
    let answers = reasons(&not_due, &Around::Nobody { last: None }, NOW, "");
    assert_eq!(answers[0].reason, Reason::Message);
}

#[test]
fn a_try_that_is_due_is_told_as_such() {
    let mut it = description(Vec::new(), Some(TaskFailedCause::Stuck));
    let trouble = it.trouble.as_mut().expect("it has some");
    let (_, text) = troubled(trouble, NOW);
    assert!(text.contains("when its thread comes back"), "{text}");
    trouble.next_try = Some(Timestamp(0));
    let (_, text) = troubled(trouble, NOW);
    assert!(text.contains("tried again now"), "{text}");
}

#[test]
fn what_was_lost_with_its_process_is_told_as_lost() {
    let nobody = Around::Nobody { last: Some(4711) };
    let running = Waiting::ActivityRunning {
        seq: Seq(1),
        activity_type: "charge".into(),
        attempt: Attempt(1),
        since: Timestamp(1),
        last_failure: None,
        site: Site::default(),
    };
    let run = description(vec![running.clone()], None);
    let answers = reasons(&run, &nobody, NOW, "");
    let found: Vec<Reason> = answers.iter().map(|answer| answer.reason).collect();
    assert_eq!(found, [Reason::NoWorker, Reason::ActivityPending]);
    assert!(answers[0].text.contains("pid 4711"), "{answers:?}");
    assert!(
        answers[1].text.contains("the process that ran it is gone"),
        "{answers:?}"
    );
    // Of a process that may live nothing is known but what it wrote.
    assert_eq!(first(vec![running], None).reason, Reason::ActivityRunning);
}
