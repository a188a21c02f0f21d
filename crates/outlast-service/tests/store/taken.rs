//! Files that are taken away under a live owner: nothing is made in their place, nothing that was
//! acknowledged is lost, and when they are back it goes on.

use std::fs;
use std::path::{Path, PathBuf};

use outlast_service::conformance::{run_id, start};
use outlast_service::sqlite::SqliteStore;
use outlast_service::store::{CommitError, Store};
use tempfile::TempDir;

struct Owned {
    dir: TempDir,
    store: SqliteStore,
}

impl Owned {
    /// A store with one run, in a directory of its own.
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        fs::create_dir(dir.path().join("data")).expect("makes");
        let store = booted(&dir.path().join("data/runs.db"));
        store.commit(&[start(1, 1, "a")]).expect("writes");
        Self { dir, store }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn db(&self) -> PathBuf {
        self.path("data/runs.db")
    }

    fn rescued(&self) -> PathBuf {
        self.path("data/runs.db.rescued-1")
    }

    /// What a commit says, which is not written.
    fn refusal(&self) -> String {
        match self.store.commit(&[start(2, 2, "b")]) {
            Err(CommitError::Failed { reason }) => reason,
            other => panic!("{other:?}"),
        }
    }

    fn cannot_reopen(&self, code: &str) {
        let told = self.store.reopen().expect_err("cannot").to_string();
        assert!(told.contains(code), "{told}");
    }

    /// It is open again, knows what was acknowledged, and takes more.
    fn goes_on(&self) {
        let boot = self.store.reopen().expect("opens again");
        assert_eq!(boot.open.len(), 1);
        self.store.commit(&[start(2, 2, "b")]).expect("goes on");
        assert!(self.store.check().expect("reads").is_sound());
    }
}

fn booted(path: &Path) -> SqliteStore {
    let store = SqliteStore::open(path).expect("opens");
    store.boot().expect("boots");
    store
}

fn has_the_run(path: &Path) {
    let reader = SqliteStore::open_reader(path).expect("opens");
    assert!(reader.find_run(run_id(1)).expect("reads").is_some());
    assert!(reader.check().expect("reads").is_sound());
}

#[test]
fn a_file_that_is_moved_away_is_not_made_anew_and_goes_on_when_it_is_back() {
    let owned = Owned::new();
    fs::rename(owned.db(), owned.path("elsewhere.db")).expect("moves");
    let told = owned.refusal();
    assert!(
        told.contains("OL-4115") && told.contains("rescued-1"),
        "{told}"
    );
    for _ in 0..2 {
        owned.cannot_reopen("OL-4115");
        assert!(!owned.db().exists(), "nothing is made");
    }
    assert!(!owned.path("data/runs.db.rescued-2").exists(), "saved once");
    has_the_run(&owned.rescued());
    fs::rename(owned.path("elsewhere.db"), owned.db()).expect("moves back");
    owned.goes_on();
}

#[test]
fn a_file_that_is_removed_is_saved_beside_its_place() {
    use std::os::unix::fs::PermissionsExt;
    let owned = Owned::new();
    fs::write(owned.rescued(), "of an earlier day").expect("writes");
    fs::remove_file(owned.db()).expect("removes");
    let told = owned.refusal();
    assert!(
        told.contains("OL-4115") && told.contains("rescued-2"),
        "{told}"
    );
    let saved = owned.path("data/runs.db.rescued-2");
    let mode = fs::metadata(&saved).expect("there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    has_the_run(&saved);
    assert_eq!(
        fs::read(owned.rescued()).expect("reads"),
        b"of an earlier day"
    );
    owned.cannot_reopen("OL-4115");
    // What the text says: the copy in its place, without the log of the old file.
    fs::rename(&saved, owned.db()).expect("moves");
    owned.cannot_reopen("OL-4113");
    fs::remove_file(owned.path("data/runs.db-wal")).expect("removes");
    owned.goes_on();
}

#[test]
fn a_database_of_others_in_its_place_is_left_alone() {
    let owned = Owned::new();
    let other = booted(&owned.path("other.db"));
    other.commit(&[start(7, 7, "z")]).expect("writes");
    other.close().expect("closes");
    fs::rename(owned.path("other.db"), owned.db()).expect("replaces");
    let before = fs::read(owned.db()).expect("reads");
    let told = owned.refusal();
    assert!(
        told.contains("replaced") && told.contains("rescued-1"),
        "{told}"
    );
    owned.cannot_reopen("OL-4113");
    fs::remove_file(owned.path("data/runs.db-wal")).expect("removes");
    owned.cannot_reopen("OL-4116");
    assert!(fs::read(owned.db()).expect("reads") == before);
    has_the_run(&owned.rescued());
}

fn cut(path: &Path, length: u64) {
    let file = fs::File::options().write(true).open(path);
    file.expect("opens").set_len(length).expect("cuts");
}

#[test]
fn a_file_that_is_emptied_keeps_its_log() {
    let owned = Owned::new();
    let log = owned.path("data/runs.db-wal");
    cut(&owned.db(), 0);
    let before = fs::read(&log).expect("reads");
    let told = owned.refusal();
    assert!(
        told.contains("OL-4117") && told.contains("rescued-1"),
        "{told}"
    );
    owned.cannot_reopen("OL-4114");
    owned.cannot_reopen("OL-4114");
    assert!(fs::read(&log).expect("reads") == before);
    assert_eq!(fs::metadata(owned.db()).expect("there").len(), 0);
    // Everything was in the log still.
    has_the_run(&owned.rescued());
}

#[test]
fn a_file_that_loses_its_end_is_not_filled_up_with_nothing() {
    let owned = Owned::new();
    owned.store.reopen().expect("all of the log is in the file");
    for part in [0, 1, 2] {
        let whole = fs::read(owned.db()).expect("reads");
        let length = [0, whole.len() / 2, whole.len() - 1][part];
        cut(&owned.db(), length as u64);
        let told = owned.refusal();
        assert!(told.contains("OL-4117"), "{told}");
        let code = if length == 0 { "OL-4114" } else { "OL-4117" };
        for _ in 0..2 {
            owned.cannot_reopen(code);
        }
        assert!(fs::read(owned.db()).expect("reads") == whole[..length]);
        fs::write(owned.db(), &whole).expect("puts it back");
        let boot = owned.store.reopen().expect("opens again");
        assert_eq!(boot.open.len(), 1);
    }
    owned.goes_on();
}

#[test]
fn the_log_of_a_file_that_lost_its_end_is_not_copied_into_it() {
    let owned = Owned::new();
    owned.store.reopen().expect("all of the log is in the file");
    let whole = fs::read(owned.db()).expect("reads");
    cut(&owned.db(), 8192);
    fs::remove_file(owned.path("data/runs.db-wal")).expect("removes");
    let told = owned.refusal();
    assert!(told.contains("OL-4117"), "{told}");
    owned.cannot_reopen("OL-4117");
    assert!(fs::read(owned.db()).expect("reads") == whole[..8192]);
}

/// The copy went to a file of another name, and an empty one was said to be it.
#[test]
fn a_file_in_a_directory_whose_name_is_no_text_is_saved_too() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let dir = tempfile::tempdir().expect("a temporary directory");
    let odd = dir.path().join(OsStr::from_bytes(b"data-\xff"));
    fs::create_dir(&odd).expect("makes");
    let store = booted(&odd.join("runs.db"));
    store.commit(&[start(1, 1, "a")]).expect("writes");
    fs::remove_file(odd.join("runs.db")).expect("removes");
    store.commit(&[start(2, 2, "b")]).expect_err("noticed");
    has_the_run(&odd.join("runs.db.rescued-1"));
}

#[test]
fn an_older_copy_in_its_place_is_left_alone() {
    let owned = Owned::new();
    owned.store.reopen().expect("all of the log is in the file");
    let older = fs::read(owned.db()).expect("reads");
    for run in 2..5 {
        owned.store.reopen().expect("opens again");
        let more = start(run, run, "b");
        owned.store.commit(&[more]).expect("writes");
    }
    fs::write(owned.path("older.db"), &older).expect("writes");
    fs::rename(owned.path("older.db"), owned.db()).expect("replaces");
    let told = owned
        .store
        .commit(&[start(5, 5, "b")])
        .expect_err("noticed");
    assert!(told.to_string().contains("rescued-1"), "{told}");
    owned.cannot_reopen("OL-4113");
    fs::remove_file(owned.path("data/runs.db-wal")).expect("removes");
    owned.cannot_reopen("OL-4116");
    assert!(fs::read(owned.db()).expect("reads") == older);
    let saved = SqliteStore::open_reader(owned.rescued()).expect("opens");
    for run in 1..5 {
        assert!(saved.find_run(run_id(run)).expect("reads").is_some());
    }
}

#[test]
fn a_directory_that_is_renamed_is_gone_until_it_is_back() {
    let owned = Owned::new();
    fs::rename(owned.path("data"), owned.path("date")).expect("renames");
    let told = owned.refusal();
    assert!(
        told.contains("OL-4115") && told.contains("not be saved"),
        "{told}"
    );
    owned.cannot_reopen("OL-4115");
    fs::rename(owned.path("date"), owned.path("data")).expect("renames back");
    owned.goes_on();
}

/// Locks of this process on a file, where the system tells.
#[cfg(target_os = "linux")]
fn locks_on(path: &Path) -> usize {
    use std::os::unix::fs::MetadataExt;
    let inode = fs::metadata(path).expect("there").ino();
    let me = std::process::id().to_string();
    let all = fs::read_to_string("/proc/locks").expect("reads");
    let is_mine = |line: &&str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        words.contains(&me.as_str()) && words.iter().any(|w| w.ends_with(&format!(":{inode}")))
    };
    all.lines().filter(is_mine).count()
}

/// Whoever opens a file without SQLite, and closes it, drops all locks of the process; SQLite would
/// take none for the connections it opens after that.
#[cfg(target_os = "linux")]
#[test]
fn opening_again_drops_no_lock_of_a_connection_of_the_program() {
    let owned = Owned::new();
    let conn = rusqlite::Connection::open(owned.db()).expect("opens");
    conn.execute_batch("BEGIN; SELECT count(*) FROM run")
        .expect("reads");
    assert!(locks_on(&owned.db()) > 0, "the system tells");
    owned.store.reopen().expect("opens again");
    assert!(locks_on(&owned.db()) > 0, "of both");
    conn.execute_batch("ROLLBACK").expect("ends");
    drop(conn);
    assert!(locks_on(&owned.db()) > 0, "of the owner");
    owned.goes_on();
}
