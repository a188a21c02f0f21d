//! The indexes of ids and of open runs are written behind, and nobody can tell.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use outlast_model::Status;
use outlast_model::task::RunNo;
use outlast_model::view::ListFilter;
use outlast_service::conformance::{finish, follow, run_id, start};
use outlast_service::sqlite::{OpenOptions, SqliteStore};
use outlast_service::store::{Commit, CommitError, RunRow, Store};
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

/// Some runs end at once, some go on, some end when the index of open runs has them for long.
#[test]
fn every_open_run_is_taken_up_again_whatever_is_written_of_the_index() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("runs.db");
    let mut open: BTreeMap<RunNo, Commit> = BTreeMap::new();
    let (mut number, mut commit) = (0, 0);
    for batch in [10, 3, 64, 1, 100, 1000] {
        let store = open_at(&path, batch, &open);
        for step in 1..=150_u64 {
            commit += 1;
            if step % 5 < 3 {
                number += 1;
                let begun = start(number, commit, &name(number));
                store.commit(std::slice::from_ref(&begun)).expect("writes");
                open.insert(begun.row.no, begun);
                continue;
            }
            let at = commit.wrapping_mul(7919) as usize % open.len();
            let (no, last) = open.iter().nth(at).expect("there");
            let (no, last) = (*no, last.clone());
            let next = match step % 5 {
                3 => follow(&last, commit),
                _ => finish(&last, commit),
            };
            store.commit(std::slice::from_ref(&next)).expect("writes");
            open.remove(&no);
            if next.row.state.status.is_open() {
                open.insert(no, next);
            }
            if step % 40 == 0 {
                assert_listed(&store, &open);
            }
        }
    }
    let store = open_at(&path, 8, &open);
    store.close().expect("closes");
    assert_eq!(watermark(&path), i64::try_from(number).expect("small"));
    open_at(&path, 8, &open);
}

/// Opens the file and holds what it says against the runs that are open.
fn open_at(path: &Path, index_batch: usize, open: &BTreeMap<RunNo, Commit>) -> SqliteStore {
    let options = OpenOptions {
        index_batch,
        ..OpenOptions::default()
    };
    let store = SqliteStore::open_with(path, &options).expect("opens");
    let found = store.boot().expect("boots").open;
    assert_eq!(found, rows(open.values()));
    assert_listed(&store, open);
    store
}

fn assert_listed(store: &SqliteStore, open: &BTreeMap<RunNo, Commit>) {
    for limit in [1, 7, 1000] {
        let filter = ListFilter {
            status: Some(Status::Running),
            limit,
            ..ListFilter::default()
        };
        let newest = rows(open.values().rev().take(limit));
        assert_eq!(store.list(&filter), Ok(newest), "limit {limit}");
    }
    let report = store.check().expect("reads");
    assert!(report.is_sound(), "{report:?}");
}

fn rows<'a>(commits: impl Iterator<Item = &'a Commit>) -> Vec<RunRow> {
    commits.map(|commit| commit.row.clone()).collect()
}

#[test]
fn an_open_run_that_the_index_should_have_is_damage() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("runs.db");
    let store = open(&path, 1000);
    (1..=3).for_each(|run| write(&store, run));
    store.close().expect("closes");
    let conn = Connection::open(&path).expect("opens");
    let altered = conn.execute("UPDATE run SET status = 0 WHERE id = 2", ());
    assert_eq!(altered, Ok(1));
    drop(conn);
    let report = open(&path, 1000).check().expect("reads");
    assert_eq!(
        report.damage,
        ["1 open runs are not in the index of open runs"]
    );
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
