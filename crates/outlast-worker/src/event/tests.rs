//! One event of each kind: its code, its sentence, its next step.

use std::collections::BTreeSet;
use std::time::Duration;

use super::*;

/// One of each, in the order of the list.
pub(crate) fn all() -> Vec<WorkerEvent> {
    let run = run();
    let spent = Duration::from_secs(12);
    let queue = QueueName::new("default");
    let failure = || Failure::panic("no such order".to_owned());
    let mut all = vec![
        WorkerEvent::Starting,
        WorkerEvent::Started { shards: 2 },
        WorkerEvent::ThreadFailed {
            thread: "outlast-watch".into(),
            error: "no memory".into(),
        },
    ];
    all.extend(queues(&queue));
    all.extend([
        WorkerEvent::Stopping {
            phase: StopPhase::Cancelling,
            attempts: 4,
        },
        WorkerEvent::Stopped {
            left_behind: vec!["attempt 1 of activity 2".into()],
        },
        WorkerEvent::RuntimeGone,
    ]);
    all.extend(stuck_code());
    all.extend(zombies(spent));
    all.extend([
        WorkerEvent::PanicCaught {
            place: PanicIn::Attempt(attempt()),
            message: "on purpose".into(),
        },
        WorkerEvent::CodeWarning {
            run: run.clone(),
            text: "handler tell is unfinished".into(),
        },
        WorkerEvent::TaskFailed {
            run: run.clone(),
            cause: TaskFailedCause::WorkerUnhandledFailure,
            failure: failure(),
        },
        WorkerEvent::RunBlocked {
            run: run.clone(),
            cause: TaskFailedCause::NonDeterminism,
            failure: failure(),
        },
        WorkerEvent::NotRegistered {
            queue: "orders".into(),
            text: "no worker has activity chrage; did you mean charge?".into(),
        },
        WorkerEvent::FailsAgain {
            attempt: attempt(),
            failure: failure(),
        },
        WorkerEvent::Evicted {
            run_id: run.run_id,
            queue: "orders".into(),
            cause: EvictCause::Runs,
        },
        WorkerEvent::SlotsExhausted {
            queue,
            kind: "activity",
        },
    ]);
    all.extend(backends());
    all
}

fn run() -> RunIn {
    RunIn {
        run_id: RunId::v7(0, 7),
        workflow_id: "order-1".into(),
        workflow_type: "checkout".into(),
    }
}

fn stuck_code() -> [WorkerEvent; 7] {
    let stuck = Stuck {
        run: run(),
        branch: "main".into(),
        site: None,
        thread: "outlast-engine-0".into(),
        spent: Duration::from_millis(1_200),
    };
    let workflow_type = WorkflowType::from("checkout");
    [
        WorkerEvent::SlowSlice(stuck.clone()),
        WorkerEvent::ShardTakenOver { shard: 0 },
        WorkerEvent::DeadlockWarning(stuck.clone()),
        WorkerEvent::StuckGivenUp(stuck.clone()),
        WorkerEvent::ThreadReturned(stuck),
        WorkerEvent::TypeBlocked {
            workflow_type: workflow_type.clone(),
            threads: 8,
        },
        WorkerEvent::TypeReleased { workflow_type },
    ]
}

fn attempt() -> AttemptIn {
    AttemptIn {
        run_id: run().run_id,
        kind: AttemptKind::Activity,
        name: "charge".into(),
        seq: Seq(3),
        attempt: Attempt(2),
    }
}

fn queues(queue: &QueueName) -> [WorkerEvent; 3] {
    let queue = || queue.clone();
    [
        WorkerEvent::QueueRegistered { queue: queue() },
        WorkerEvent::QueueUnregistered { queue: queue() },
        WorkerEvent::QueueRecycled {
            queue: queue(),
            reason: "the server closed the stream".into(),
        },
    ]
}

fn backends() -> [WorkerEvent; 8] {
    let backend = || "temporal://127.0.0.1:7233/default".to_owned();
    [
        WorkerEvent::BackendUnavailable {
            backend: backend(),
            error: "connection refused".into(),
            retry_in: Duration::from_millis(200),
        },
        WorkerEvent::BackendBack {
            backend: backend(),
            away: Duration::from_secs(61),
        },
        WorkerEvent::AnswerDropped {
            queue: "default".into(),
            text: "the answer to an attempt was dropped: its handle has stopped".into(),
        },
        WorkerEvent::PartRestarted {
            queue: "default".into(),
            text: "the poller of activities begins again: cancelled".into(),
        },
        WorkerEvent::StoreAway {
            error: "the disk or the database file is full".into(),
            retry_in: Duration::from_secs(1),
        },
        WorkerEvent::StoreBack {
            away: Duration::from_secs(12),
        },
        WorkerEvent::LogHeld {
            path: "orders.db".into(),
            bytes: 70 << 20,
        },
        WorkerEvent::Missed { count: 9 },
    ]
}

pub(crate) fn zombies(spent: Duration) -> [WorkerEvent; 5] {
    [
        WorkerEvent::CancelIgnored {
            attempt: attempt(),
            reason: StopReason::Cancelled,
            spent,
        },
        WorkerEvent::Zombie {
            attempt: attempt(),
            spent,
        },
        WorkerEvent::ZombieEnded {
            attempt: attempt(),
            spent,
        },
        WorkerEvent::ZombieGivenUp {
            attempt: attempt(),
            spent,
        },
        WorkerEvent::ZombieLimit {
            zombies: 11,
            limit: 10,
        },
    ]
}

#[test]
fn every_event_has_a_code_of_its_own_in_order() {
    let codes: Vec<&str> = all().iter().map(WorkerEvent::code).collect();
    let sorted: BTreeSet<&str> = codes.iter().copied().collect();
    assert!(sorted.into_iter().eq(codes.iter().copied()), "{codes:?}");
}

#[test]
fn whatever_is_wrong_says_who_and_what_to_do() {
    for event in all() {
        let text = event.to_string();
        assert!(text.len() < 400 && !text.ends_with('.'), "{text}");
        if event.severity() == Severity::Error {
            assert!(event.next_step().is_some(), "{text}");
        }
        if let Some(run_id) = event.run_id() {
            assert!(text.contains(&run_id.to_string()), "{text}");
        }
    }
}

#[test]
fn only_what_passes_by_itself_is_a_failed_task() {
    let severities: Vec<Severity> = all().iter().map(WorkerEvent::severity).collect();
    let texts: Vec<String> = all().iter().map(ToString::to_string).collect();
    assert!(severities.contains(&Severity::Debug) && severities.contains(&Severity::Error));
    let tried_again: Vec<&String> = texts
        .iter()
        .filter(|t| t.contains("tried again by"))
        .collect();
    assert_eq!(tried_again.len(), 1, "{tried_again:?}");
}
