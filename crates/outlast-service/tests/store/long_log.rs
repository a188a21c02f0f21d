//! Readers that overlap must not keep the log from beginning anew.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use outlast_model::record;
use outlast_model::view::ListFilter;
use outlast_service::conformance::start;
use outlast_service::sqlite::SqliteStore;
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

fn large(run: u64) -> Commit {
    let mut commit = start(run, run, "a");
    commit.blob = record::frame(&vec![7_u8; 400_000]);
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
        for run in 4_001..4_251 {
            store.commit(&[large(run)]).expect("writes");
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
    store.commit(&[start(1, 1, "a")]).expect("writes");
    let conn = Connection::open(&path).expect("opens");
    conn.execute_batch("BEGIN; SELECT count(*) FROM run")
        .expect("reads");
    for run in 2..=180 {
        store.commit(&[large(run)]).expect("writes");
    }
    let grown = log_bytes(&path);
    assert!(grown > LIMIT, "it held: {grown}");
    conn.execute_batch("ROLLBACK").expect("ends");
    for run in 181..=200 {
        store.commit(&[large(run)]).expect("writes");
    }
    assert!(log_bytes(&path) <= 2 * grown, "it begins anew");
    assert!(store.check().expect("reads").is_sound());
}
