//! Readers that overlap must not keep the log from beginning anew.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use outlast_model::record;
use outlast_model::view::ListFilter;
use outlast_service::conformance::start;
use outlast_service::sqlite::{HeldLog, SqliteStore};
use outlast_service::store::{Commit, Store};
use rusqlite::Connection;

const LIMIT: u64 = 64 << 20;

fn booted(path: &Path) -> SqliteStore {
    let store = SqliteStore::open(path).expect("opens");
    store.boot().expect("boots");
    store
}

fn log_bytes(path: &Path) -> u64 {
    let log = format!("{}-wal", path.display());
    std::fs::metadata(log).expect("there").len()
}

fn large(run: u64, bytes: usize) -> Commit {
    let mut commit = start(run, run, "a");
    commit.blob = record::frame(&vec![7_u8; bytes]);
    commit
}

#[test]
fn overlapping_readers_of_ours_keep_the_log_short() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("runs.db");
    let store = booted(&path);
    let starts: Vec<Commit> = (1..=4_000).map(|run| start(run, run, "a")).collect();
    store.commit(&starts).expect("writes");
    let (is_over, lists) = (AtomicBool::new(false), AtomicU64::new(0));
    let all = ListFilter {
        limit: 4_000,
        ..ListFilter::default()
    };
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    assert_eq!(store.list(&all).expect("lists").len(), 4_000);
                    lists.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let mut most = 0;
        for run in 4_001..4_065 {
            store.commit(&[large(run, 1_600_000)]).expect("writes");
            most = most.max(log_bytes(&path));
        }
        is_over.store(true, Ordering::Relaxed);
        assert!(most <= LIMIT, "{most} bytes");
    });
    assert!(lists.load(Ordering::Relaxed) >= 3);
}

#[test]
fn a_reader_of_others_that_never_ends_stops_no_commit() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("runs.db");
    let store = booted(&path);
    let told: Arc<Mutex<Vec<HeldLog>>> = Arc::default();
    let teller = told.clone();
    store.when_log_is_held(move |held| teller.lock().expect("whole").push(held.clone()));
    store.commit(&[start(1, 1, "a")]).expect("writes");
    let conn = Connection::open(&path).expect("opens");
    conn.execute_batch("BEGIN; SELECT count(*) FROM run")
        .expect("reads");
    for run in 2..=26 {
        store.commit(&[large(run, 4_000_000)]).expect("writes");
    }
    let grown = log_bytes(&path);
    assert!(grown > LIMIT, "it held: {grown}");
    let held = told.lock().expect("whole").clone();
    assert_eq!(held.len(), 1, "once, however long it becomes: {held:?}");
    assert_eq!(held[0].path, path.canonicalize().expect("there"));
    assert!(held[0].bytes >= LIMIT, "{held:?}");
    conn.execute_batch("ROLLBACK").expect("ends");
    for run in 27..=30 {
        store.commit(&[large(run, 4_000_000)]).expect("writes");
    }
    assert!(log_bytes(&path) <= LIMIT, "it begins anew");
    assert_eq!(told.lock().expect("whole").len(), 1);
    assert!(store.check().expect("reads").is_sound());
}
