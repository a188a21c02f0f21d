//! What a log shows may be in memory only: it is written again and synced before anything is
//! built on it, and a page of the new owner is on the disk before anything is answered.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use outlast_service::conformance::start;
use outlast_service::sqlite::{SqliteStore, Touch, witness};
use outlast_service::store::Store;

static SEEN: Mutex<Vec<(PathBuf, Seen)>> = Mutex::new(Vec::new());
static BROKEN: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

#[derive(Clone, Debug, PartialEq, Eq)]
enum Seen {
    Written(u64, Vec<u8>),
    Synced,
    SyncedDirectory,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Other tests of this process are heard too, and told apart by their paths.
fn hear(path: &Path, touch: Touch<'_>) -> io::Result<()> {
    let seen = match touch {
        Touch::Write { at, bytes } => Seen::Written(at, bytes.to_vec()),
        Touch::Sync => Seen::Synced,
        Touch::SyncDirectory => Seen::SyncedDirectory,
    };
    let fails = seen == Seen::Synced && lock(&BROKEN).iter().any(|broken| broken == path);
    if path.starts_with(std::env::temp_dir()) {
        lock(&SEEN).push((path.to_owned(), seen));
    }
    if fails {
        return Err(io::Error::other("the disk does not answer"));
    }
    Ok(())
}

fn heard(path: &Path) -> Vec<Seen> {
    let mut seen = lock(&SEEN);
    let (mine, others) = seen.drain(..).partition(|(of, _)| of == path);
    *seen = others;
    let mine: Vec<(PathBuf, Seen)> = mine;
    mine.into_iter().map(|(_, seen)| seen).collect()
}

#[test]
fn a_log_is_written_again_and_a_page_behind_it_before_a_reopened_store_answers() {
    witness(Some(hear));
    let dir = tempfile::tempdir().expect("a temporary directory");
    let folder = dir.path().canonicalize().expect("there");
    let (path, log) = (folder.join("runs.db"), folder.join("runs.db-wal"));
    let store = SqliteStore::open(&path).expect("opens");
    assert_eq!(heard(&path), [Seen::SyncedDirectory], "the file is made");
    store.boot().expect("boots");
    assert_eq!(heard(&log), [Seen::SyncedDirectory], "and the log");
    store.commit(&[start(1, 1, "a")]).expect("writes");
    for round in 2..5 {
        let shown = std::fs::read(&log).expect("reads");
        lock(&BROKEN).push(log.clone());
        let told = store.reopen().expect_err("cannot be made sure of");
        assert!(told.to_string().contains("does not answer"), "{told}");
        assert!(store.commit(&[start(9, 9, "z")]).is_err(), "takes nothing");
        lock(&BROKEN).retain(|broken| *broken != log);
        heard(&log);
        let boot = store.reopen().expect("opens again");
        assert_eq!(boot.open.len() as u64, round - 1);
        let (written, rest) = (Seen::Written(0, shown.clone()), heard(&log));
        assert_eq!(rest, [written, Seen::Synced, Seen::SyncedDirectory]);
        let now = std::fs::read(&log).expect("reads");
        assert!(now.len() > 32, "a page of its own, in every life");
        assert_ne!(
            now[16..24],
            shown[16..24],
            "in a log that no old frame fits"
        );
        store.commit(&[start(round, round, "a")]).expect("goes on");
    }
}
