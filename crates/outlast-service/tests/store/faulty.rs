//! The wrapper for crash tests does what its faults say.

use outlast_model::Timestamp;
use outlast_model::event::{ChildEvent, Event, EventKind, ExternalEvent};
use outlast_model::id::{EventId, Seq, Version};
use outlast_model::post::PostNo;
use outlast_model::record::{self, Record};
use outlast_model::task::RunNo;
use outlast_service::conformance::{blob, follow, post, replace, start};
use outlast_service::faulty::{Fault, FaultyStore, Lie};
use outlast_service::memory::MemoryStore;
use outlast_service::store::{Commit, CommitError, ReadError, Store};

fn booted() -> (MemoryStore, FaultyStore<MemoryStore>) {
    let disk = MemoryStore::new();
    let store = FaultyStore::memory(disk.clone());
    store.boot().expect("boots");
    (disk, store)
}

fn failed(outcome: &Result<(), CommitError>) -> bool {
    matches!(outcome, Err(CommitError::Failed { .. }))
}

#[test]
fn a_death_before_the_commit_leaves_nothing() {
    let (disk, store) = booted();
    store.commit(&[start(1, 1, "a")]).expect("writes");
    store.fail_at(2, Fault::Before);
    assert!(failed(&store.commit(&[start(2, 2, "b")])));
    assert!(failed(&store.commit(&[start(2, 2, "b")])), "and stays dead");
    assert!(store.is_dead() && store.load(RunNo(1)).is_err() && store.reopen().is_err());
    assert_eq!(store.calls(), 2, "the dead are not counted");
    assert_eq!(disk.boot().expect("boots").open.len(), 1);
}

#[test]
fn a_death_after_the_commit_leaves_it_unknown_to_the_dead() {
    let (disk, store) = booted();
    store.fail_at(1, Fault::After);
    assert!(failed(&store.commit(&[start(1, 1, "a")])));
    assert_eq!(disk.boot().expect("boots").open.len(), 1);
}

#[test]
fn a_load_is_a_call_like_any_other() {
    let (_, store) = booted();
    store.commit(&[start(1, 1, "a")]).expect("writes");
    store.fail_at(2, Fault::Before);
    assert!(matches!(
        store.load(RunNo(1)),
        Err(ReadError::Failed { .. })
    ));
    assert!(store.is_dead());
}

#[test]
fn a_full_disk_refuses_once() {
    let (_, store) = booted();
    store.fail_at(1, Fault::Full);
    assert_eq!(store.commit(&[start(1, 1, "a")]), Err(CommitError::Full));
    assert_eq!(store.commit(&[start(1, 1, "a")]), Ok(()));
}

#[test]
fn a_losing_store_says_yes_and_forgets() {
    let (disk, store) = booted();
    store.lie(Lie::Loses { every: 3 });
    for run in 1..=6 {
        store.commit(&[start(run, run, "a")]).expect("says yes");
    }
    let left: Vec<u64> = disk
        .boot()
        .expect("boots")
        .open
        .iter()
        .map(|row| row.no.0)
        .collect();
    assert_eq!(left, [1, 2, 4, 5]);
}

#[test]
fn a_doubling_store_writes_each_outcome_twice_and_the_service_does_not_notice() {
    let (disk, store) = booted();
    store.lie(Lie::Doubles);
    let one = start(1, 1, "a");
    let two = fired(follow(&one, 2));
    let three = fired(follow(&two, 3));
    let four = follow(&three, 4);
    store.commit(&[one.clone(), two.clone()]).expect("writes");
    store
        .commit(&[three.clone(), four.clone()])
        .expect("fits, as far as anybody can tell");
    let outcome = two.blob.clone();
    let written = [
        blob(1),
        outcome.clone(),
        outcome.clone(),
        outcome.clone(),
        outcome,
        blob(4),
    ];
    assert_eq!(disk.history(RunNo(1)), Ok(written.to_vec()));
    let loaded = store.load(RunNo(1)).expect("loads");
    assert_eq!(loaded.row.state.version, Version(6));
    let next = Commit {
        row: loaded.row,
        ..four
    };
    store
        .commit(&[follow(&next, 5)])
        .expect("goes on from what was loaded");
}

#[test]
fn a_doubling_store_lets_facts_behind_an_outcome_be_replaced() {
    let (disk, store) = booted();
    store.lie(Lie::Doubles);
    let one = start(1, 1, "a");
    let two = fired(follow(&one, 2));
    let three = follow(&two, 3);
    let four = replace(&[&three], 4);
    let five = follow(&four, 5);
    let outcome = two.blob.clone();
    for commit in [one, two, three, four, five] {
        store.commit(&[commit]).expect("fits");
    }
    let written = [blob(1), outcome.clone(), outcome, blob(4), blob(5)];
    assert_eq!(disk.history(RunNo(1)), Ok(written.to_vec()));
}

#[test]
fn what_comes_back_from_other_runs_is_an_outcome_too() {
    let seq = Seq(1);
    for kind in [
        EventKind::Child(ChildEvent::Terminated { seq }),
        EventKind::External(ExternalEvent::SignalDelivered { seq }),
    ] {
        let (disk, store) = booted();
        store.lie(Lie::Doubles);
        let one = start(1, 1, "a");
        let two = with_event(follow(&one, 2), kind);
        store.commit(&[one, two]).expect("writes");
        assert_eq!(disk.history(RunNo(1)).expect("there").len(), 3);
    }
}

fn fired(commit: Commit) -> Commit {
    with_event(commit, EventKind::TimerFired { seq: Seq(1) })
}

fn with_event(mut commit: Commit, kind: EventKind) -> Commit {
    commit.blob = record::encode(&[Record::Event(Event {
        id: EventId(5),
        time: Timestamp(1),
        kind,
    })]);
    commit
}

#[test]
fn a_losing_store_loses_posts_with_their_group() {
    let (disk, store) = booted();
    store.lie(Lie::Loses { every: 2 });
    let mut one = start(1, 1, "a");
    one.posts = vec![post(1), post(2)];
    let mut two = follow(&one, 2);
    two.posts = vec![post(3)];
    two.taken = vec![PostNo(1)];
    store.commit(&[one]).expect("says yes");
    store.commit(&[two]).expect("says yes");
    assert_eq!(disk.boot().expect("boots").posts, [post(1), post(2)]);
}

#[test]
fn a_doubling_store_says_everything_once() {
    let (disk, store) = booted();
    store.lie(Lie::Doubles);
    let one = start(1, 1, "a");
    let mut two = fired(follow(&one, 2));
    two.posts = vec![post(1)];
    let mut three = fired(follow(&two, 3));
    three.posts = vec![post(2)];
    three.taken = vec![PostNo(1)];
    store.commit(&[one, two]).expect("writes");
    store.commit(&[three]).expect("writes");
    assert_eq!(disk.history(RunNo(1)).expect("there").len(), 5);
    assert_eq!(disk.boot().expect("boots").posts, [post(2)]);
}

#[test]
fn the_dead_forget_nothing() {
    let (disk, store) = booted();
    let mut one = start(1, 1, "a");
    one.posts = vec![post(1)];
    store.commit(&[one]).expect("writes");
    store.kill();
    assert!(failed(&store.forget(&[PostNo(1)])));
    assert_eq!(disk.boot().expect("boots").posts, [post(1)]);
}

#[cfg(feature = "planted")]
#[test]
fn with_the_bug_planted_a_snapshot_outlives_its_commit() {
    use outlast_model::planted::{Bug, plant};
    let (disk, store) = booted();
    let one = start(1, 1, "a");
    store.commit(std::slice::from_ref(&one)).expect("writes");
    let mut two = follow(&one, 2);
    two.snapshot = Some(record::frame(&2_u64));
    plant(Some(Bug::SnapshotNewerThanHistory));
    store.fail_at(2, Fault::Before);
    assert!(failed(&store.commit(&[two])));
    let loaded = disk.load(RunNo(1)).expect("loads");
    plant(None);
    assert_eq!(loaded.row.state.version, Version(1));
    assert_eq!(
        loaded.snapshot.map(|(version, _)| version),
        Some(Version(2))
    );
}
