//! Health, judged from how a worker stands: every reason can be reached.

use std::time::Duration;

use outlast_model::QueueName;
use outlast_worker::WorkerEvent;
use outlast_worker::event::StopPhase;
use outlast_worker::state::ThreadState;

use super::*;

const LIMIT: Duration = Duration::from_secs(2);

fn thread(inside: Option<Duration>, is_given_up: bool) -> ThreadState {
    ThreadState {
        shard: 0,
        inside,
        is_given_up,
        cached: 0,
    }
}

/// A worker of one shard that has seen these events.
fn state(events: &[WorkerEvent], threads: Vec<ThreadState>) -> WorkerState {
    let bus = Bus::default();
    for event in events {
        bus.emit(event.clone());
    }
    WorkerState {
        standing: bus.standing(),
        shards: 1,
        threads,
        stacks: 1,
        spare_threads: 1,
        slots: Vec::new(),
        attempts: 0,
    }
}

fn running() -> Vec<WorkerEvent> {
    let queue = QueueName::new("default");
    vec![
        WorkerEvent::Starting,
        WorkerEvent::Started { shards: 1 },
        WorkerEvent::QueueRegistered { queue },
    ]
}

fn after(more: WorkerEvent) -> Health {
    let events: Vec<WorkerEvent> = running().into_iter().chain([more]).collect();
    Health::judge(&state(&events, vec![thread(None, false)]), LIMIT)
}

#[test]
fn a_worker_that_runs_is_live_and_ready() {
    let health = Health::judge(&state(&running(), vec![thread(None, false)]), LIMIT);
    assert_eq!(health, Health::of(Vec::new()));
    assert!(health.live && health.ready);
}

#[test]
fn a_worker_that_starts_or_stops_is_live_and_not_ready() {
    let fresh = Health::judge(&state(&[], Vec::new()), LIMIT);
    assert_eq!(fresh.reasons, [HealthReason::NotStarted]);
    let phase = StopPhase::Finishing;
    let stopping = after(WorkerEvent::Stopping { phase, attempts: 1 });
    assert_eq!(stopping.reasons, [HealthReason::Stopping]);
    assert!(fresh.live && stopping.live && !fresh.ready && !stopping.ready);
}

#[test]
fn a_store_or_a_backend_that_is_away_needs_no_restart() {
    let away = after(WorkerEvent::BackendUnavailable {
        backend: "the cluster".into(),
        error: "refused".into(),
        retry_in: LIMIT,
    });
    let told: Vec<String> = away.reasons.iter().map(ToString::to_string).collect();
    assert!(away.live && !away.ready, "{told:?}");
    assert!(told[0].starts_with("the cluster does not answer: refused; "));
    let error = "the disk is full".to_owned();
    let retry_in = LIMIT;
    let store = after(WorkerEvent::StoreAway {
        error: error.clone(),
        retry_in,
    });
    assert_eq!(store.reasons, [HealthReason::StoreAway { error }]);
    assert!(store.live && !store.ready);
}

#[test]
fn a_shard_without_a_thread_that_answers_is_not_live() {
    let stuck = thread(Some(LIMIT), true);
    let alone = Health::judge(&state(&running(), vec![stuck.clone()]), LIMIT);
    assert_eq!(alone.reasons, [HealthReason::ShardSilent { shard: 0 }]);
    assert!(!alone.live);
    let taken_over = vec![stuck, thread(None, false)];
    let health = Health::judge(&state(&running(), taken_over), LIMIT);
    assert!(health.live && health.ready, "{health:?}");
}

#[test]
fn a_worker_without_a_queue_or_with_too_many_zombies_says_so() {
    let queue = QueueName::new("default");
    let none = after(WorkerEvent::QueueUnregistered { queue });
    assert_eq!(none.reasons, [HealthReason::NoQueue]);
    let zombies = after(WorkerEvent::ZombieLimit {
        zombies: 11,
        limit: 10,
    });
    assert!(!zombies.live, "{zombies:?}");
    assert!(zombies.reasons[0].to_string().contains("restart"));
}
