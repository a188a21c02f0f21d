//! Every reason is reached by a description, and says what to do.

use std::time::Duration;

use outlast_model::event::Site;
use outlast_model::view::{RunOutcome, Summary};
use outlast_model::{Attempt, Failure, Payload, Seq};

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
    let answers = reasons(&description(waiting, cause), NOW, "--db x.db");
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
        (Waiting::Message, Reason::Message),
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
        let answer = first(vec![Waiting::Task, pending(NOW)], Some(cause));
        assert_eq!(answer.reason, reason);
        assert!(answer.text.contains("no such shelf"), "{}", answer.text);
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
    let answers = reasons(&run, NOW, "--db x.db");
    let text = "it has ended (failed, 10 min ago): the card was declined";
    assert_eq!(
        answers.iter().map(|a| a.text.as_str()).collect::<Vec<_>>(),
        [text]
    );
}
