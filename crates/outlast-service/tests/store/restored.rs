//! A backup that is put in the place of a database whose log was left behind, and everything that
//! looks like it and must open.

use std::fs;
use std::path::{Path, PathBuf};

use outlast_service::conformance::{run_id, start};
use outlast_service::sqlite::{OpenError, SqliteStore};
use outlast_service::store::Store;
use rusqlite::Connection;
use tempfile::TempDir;

/// Puts a whole database in the place of another, as `cp` does.
fn restore(from: &Path, to: &Path) {
    fs::write(to, fs::read(from).expect("reads")).expect("writes");
}

/// The files of one database: its own, and the log's.
struct Files {
    db: Vec<u8>,
    log: Vec<u8>,
}

impl Files {
    /// As a crash at this moment leaves them.
    fn of(path: &Path) -> Self {
        Self {
            db: fs::read(path).expect("reads"),
            log: fs::read(log_of(path)).unwrap_or_default(),
        }
    }

    fn put(&self, path: &Path) {
        fs::write(path, &self.db).expect("writes");
        fs::write(log_of(path), &self.log).expect("writes");
    }
}

fn log_of(path: &Path) -> PathBuf {
    let mut name = path.to_owned().into_os_string();
    name.push("-wal");
    PathBuf::from(name)
}

fn folder() -> TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

/// One life of an owner that starts this run and closes in order, or dies.
fn life(path: &Path, run: u64) -> SqliteStore {
    let store = SqliteStore::open(path).expect("opens");
    store.boot().expect("boots");
    store.commit(&[start(run, run, "a")]).expect("writes");
    store
}

fn runs(path: &Path) -> Vec<u64> {
    let store = SqliteStore::open(path).expect("opens");
    let boot = store.boot().expect("boots");
    assert!(store.check().expect("reads").is_sound());
    boot.open.iter().map(|row| row.no.0).collect()
}

/// Refused with nothing changed; without the log it opens.
fn is_refused_for_its_log(path: &Path, left: &[u64]) {
    let (before, canonical) = (Files::of(path), path.canonicalize().expect("there"));
    for _ in 0..2 {
        let refused = SqliteStore::open(path).expect_err("refused");
        let path = canonical.clone();
        assert_eq!(refused, OpenError::StaleLog { path });
        assert!(refused.to_string().contains("-wal and open again"));
    }
    let after = Files::of(path);
    assert!(before.db == after.db && before.log == after.log);
    fs::remove_file(log_of(path)).expect("removes");
    assert_eq!(runs(path), left);
}

#[test]
fn a_backup_of_the_same_life_over_a_crash_is_refused_until_the_log_is_gone() {
    let (dir, crashed) = (folder(), folder());
    let (live, backup) = (dir.path().join("a.db"), dir.path().join("backup.db"));
    let store = life(&live, 1);
    let conn = Connection::open(&live).expect("opens");
    conn.execute("VACUUM INTO ?1", [backup.to_string_lossy()])
        .expect("copies");
    drop(conn);
    store.commit(&[start(2, 2, "b")]).expect("writes");
    let path = crashed.path().join("a.db");
    Files::of(&live).put(&path);
    restore(&backup, &path);
    is_refused_for_its_log(&path, &[1]);
}

#[test]
fn a_copy_of_an_earlier_life_over_a_crash_is_refused_until_the_log_is_gone() {
    let (dir, crashed) = (folder(), folder());
    let live = dir.path().join("a.db");
    life(&live, 1).close().expect("closes");
    let backup = fs::read(&live).expect("reads");
    life(&live, 2).close().expect("closes");
    let _store = life(&live, 3);
    let path = crashed.path().join("a.db");
    Files::of(&live).put(&path);
    fs::write(&path, backup).expect("restores");
    is_refused_for_its_log(&path, &[1]);
}

#[test]
fn a_copy_from_before_the_log_began_anew_is_refused_until_the_log_is_gone() {
    let (dir, crashed) = (folder(), folder());
    let live = dir.path().join("a.db");
    let store = life(&live, 1);
    let fill = |run: u64| {
        let mut commit = start(run, run, "a");
        commit.blob = outlast_model::record::frame(&vec![7_u8; 9_000_000]);
        store.commit(&[commit]).expect("writes");
    };
    // Each is more than a thousand pages: the log is copied behind it, and begins anew.
    fill(2);
    let backup = fs::read(&live).expect("reads");
    let left = [1, 2];
    for run in 3..6 {
        fill(run);
    }
    store.commit(&[start(6, 6, "a")]).expect("writes");
    let path = crashed.path().join("a.db");
    Files::of(&live).put(&path);
    fs::write(&path, backup).expect("restores");
    is_refused_for_its_log(&path, &left);
}

#[test]
fn a_database_of_others_over_a_crash_is_refused_until_the_log_is_gone() {
    let (dir, crashed) = (folder(), folder());
    let (live, other) = (dir.path().join("a.db"), dir.path().join("b.db"));
    let _store = life(&live, 1);
    life(&other, 7).close().expect("closes");
    let path = crashed.path().join("a.db");
    Files::of(&live).put(&path);
    restore(&other, &path);
    is_refused_for_its_log(&path, &[7]);
}

#[test]
fn a_crash_opens_with_its_own_log_whichever_life_it_was() {
    let (dir, crashed) = (folder(), folder());
    let live = dir.path().join("a.db");
    let path = crashed.path().join("a.db");
    life(&live, 1).close().expect("closes");
    let closed = fs::read(&live).expect("reads");
    let store = life(&live, 2);
    Files::of(&live).put(&path);
    assert_eq!(runs(&path), [1, 2]);
    // A copy made when the log began is what the log was built on.
    Files {
        db: closed,
        log: Files::of(&live).log,
    }
    .put(&path);
    assert_eq!(runs(&path), [1, 2]);
    for run in 3..6 {
        store.reopen().expect("opens again");
        store.commit(&[start(run, run, "a")]).expect("writes");
        Files::of(&live).put(&path);
        assert!(runs(&path).contains(&run));
    }
    let reader = SqliteStore::open_reader(&path).expect("opens");
    assert!(reader.find_run(run_id(5)).expect("reads").is_some());
}

#[test]
fn a_log_that_holds_nothing_whole_is_no_reason() {
    let (dir, crashed) = (folder(), folder());
    let live = dir.path().join("a.db");
    life(&live, 1).close().expect("closes");
    let backup = fs::read(&live).expect("reads");
    life(&live, 2).close().expect("closes");
    let _store = life(&live, 3);
    let path = crashed.path().join("a.db");
    let log = Files::of(&live).log;
    for length in [0, 31, 32, 700, 32 + 24 + 8191] {
        fs::write(&path, &backup).expect("restores");
        fs::write(log_of(&path), &log[..length]).expect("writes");
        assert_eq!(runs(&path), [1], "{length}");
    }
}
