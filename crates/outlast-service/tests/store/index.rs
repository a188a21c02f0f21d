//! The index of ids is written behind, and nobody can tell.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use outlast_service::conformance::{run_id, start};
use outlast_service::sqlite::{OpenOptions, SqliteStore};
use outlast_service::store::{CommitError, Store};
use rusqlite::Connection;

fn open(path: &Path, index_batch: usize) -> SqliteStore {
    let options = OpenOptions {
        index_batch,
        ..OpenOptions::default()
    };
    let store = SqliteStore::open_with(path, &options).expect("opens");
    store.boot().expect("boots");
    store
}

fn write(store: &SqliteStore, run: u64) {
    let id = format!("order-{}", run.wrapping_mul(7919) % 10);
    store.commit(&[start(run, run, &id)]).expect("writes");
}

fn assert_all_found(store: &SqliteStore, runs: &[u64]) {
    for digit in 0..10 {
        let rows = store
            .find(&format!("order-{digit}").as_str().into(), 1000)
            .expect("finds");
        let found: Vec<u64> = rows.iter().map(|row| row.no.0).collect();
        let mut expected: Vec<u64> = runs
            .iter()
            .copied()
            .filter(|run| run.wrapping_mul(7919) % 10 == digit)
            .collect();
        expected.sort_unstable_by(|a, b| b.cmp(a));
        assert_eq!(found, expected);
    }
    for run in runs {
        let row = store.find_run(run_id(*run)).expect("finds");
        assert_eq!(row.map(|row| row.no.0), Some(*run));
    }
    let report = store.check().expect("reads");
    assert!(report.is_sound(), "{report:?}");
}

fn watermark(path: &Path) -> i64 {
    let conn = Connection::open(path).expect("opens");
    conn.query_row("SELECT value FROM meta WHERE key = 'indexed'", (), |r| {
        r.get(0)
    })
    .expect("reads")
}

#[test]
fn every_run_is_found_whatever_is_written_of_the_index() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("runs.db");
    let mut runs = Vec::new();
    for (crash, batch) in (0..).zip([10, 3, 64, 1, 1000]) {
        let store = open(&path, batch);
        for step in 1..=37 {
            let run = crash * 37 + step;
            write(&store, run);
            runs.push(run);
            if step % 12 == 0 {
                assert_all_found(&store, &runs);
            }
        }
        assert_all_found(&store, &runs);
    }
    assert_all_found(&open(&path, 8), &runs);
}

#[test]
fn runs_that_come_out_of_order_are_not_lost_behind_the_watermark() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("runs.db");
    let store = open(&path, 4);
    let mut runs: Vec<u64> = (1..=60).collect();
    // Neighbours change places, and one comes after everybody.
    runs.chunks_exact_mut(3).for_each(<[u64]>::reverse);
    let last = runs.remove(1);
    runs.push(last);
    for run in &runs {
        write(&store, *run);
    }
    assert_all_found(&store, &runs);
    drop(store);
    assert!(
        watermark(&path) > 40,
        "the index was written, for the most part"
    );
    assert_all_found(&open(&path, 4), &runs);
}

#[test]
fn an_orderly_stop_completes_the_index() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("runs.db");
    let store = open(&path, 1000);
    (1..=20).for_each(|run| write(&store, run));
    store.close().expect("closes");
    assert_eq!(watermark(&path), 20);
    assert_all_found(&open(&path, 1000), &(1..=20).collect::<Vec<_>>());
}

/// Entries move from memory to the tables while others look for them.
#[test]
fn what_is_acknowledged_is_found_at_every_moment() {
    const RUNS: u64 = 1500;
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = open(&dir.path().join("runs.db"), 40);
    let acknowledged = AtomicU64::new(0);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| look_around(&store, &acknowledged, &is_over));
        }
        let written = (1..=RUNS).step_by(3).try_for_each(|first| {
            let group = [first, first + 1, first + 2].map(|run| start(run, run, &name(run)));
            store.commit(&group)?;
            acknowledged.store(first + 2, Ordering::SeqCst);
            Ok::<_, CommitError>(())
        });
        is_over.store(true, Ordering::SeqCst);
        assert_eq!(written, Ok(()));
    });
}

fn look_around(store: &SqliteStore, acknowledged: &AtomicU64, is_over: &AtomicBool) {
    let mut random = 0_u64;
    while !is_over.load(Ordering::SeqCst) {
        let newest = acknowledged.load(Ordering::SeqCst);
        if newest == 0 {
            continue;
        }
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let run = (random >> 33) % newest + 1;
        let row = store.find_run(run_id(run)).expect("finds");
        assert_eq!(row.map(|row| row.no.0), Some(run));
        let rows = store.find(&name(run).as_str().into(), 9).expect("finds");
        assert_eq!(rows.len(), 1);
    }
}

fn name(run: u64) -> String {
    format!("invoice-{run}")
}
