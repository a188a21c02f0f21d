//! A statement that fails in the middle of a group, one by one: nothing of the group is there
//! afterwards, and the store goes on once it was opened again.
//!
//! The failures are triggers that another connection puts into the file: not a broken disk, but
//! every place in a transaction can be hit.

use std::path::PathBuf;

use outlast_model::post::PostNo;
use outlast_model::record;
use outlast_model::task::RunNo;
use outlast_service::conformance::{blob, follow, post, replace, run_id, start};
use outlast_service::sqlite::{OpenOptions, SqliteStore};
use outlast_service::store::{Commit, CommitError, ReadError, Store};
use rusqlite::Connection;
use tempfile::TempDir;

struct Breakable {
    dir: TempDir,
}

impl Breakable {
    fn new() -> Self {
        Self {
            dir: tempfile::tempdir().expect("a temporary directory"),
        }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("runs.db")
    }

    /// Each commit that starts a run writes the index entries of those before it.
    fn open(&self) -> SqliteStore {
        let options = OpenOptions {
            index_batch: 1,
            ..OpenOptions::default()
        };
        let store = SqliteStore::open_with(self.path(), &options).expect("opens");
        store.boot().expect("boots");
        store
    }

    /// From now on what `place` names fails.
    fn break_at(&self, place: &str) {
        let (event, condition) = place.split_once(" WHEN ").unwrap_or((place, "true"));
        self.alter(&format!(
            "CREATE TRIGGER broken BEFORE {event} WHEN {condition} \
             BEGIN SELECT abs(-9223372036854775808); END"
        ));
    }

    fn mend(&self) {
        self.alter("DROP TRIGGER broken");
    }

    fn alter(&self, sql: &str) {
        let conn = Connection::open(self.path()).expect("opens");
        conn.execute_batch(sql).expect("alters");
    }
}

/// A run with a post, and the group after it, which writes to every table and takes from two.
fn story() -> (Commit, [Commit; 4]) {
    let mut first = start(1, 1, "a");
    first.posts = vec![post(1)];
    let mut next = follow(&first, 2);
    next.snapshot = Some(record::frame(&2_u64));
    next.posts = vec![post(5000)];
    next.taken = vec![PostNo(1)];
    let passing = follow(&next, 4);
    let newer = replace(&[&passing], 5);
    (first, [next, start(2, 3, "b"), passing, newer])
}

fn assert_failed<T: std::fmt::Debug>(outcome: &Result<T, CommitError>, place: &str) {
    let is_failed = matches!(outcome, Err(CommitError::Failed { .. }));
    assert!(is_failed, "{place}: {outcome:?}");
}

#[test]
fn a_failure_at_any_statement_leaves_nothing_of_the_group() {
    for place in [
        "INSERT ON run",
        "UPDATE ON run",
        "INSERT ON hist",
        "INSERT ON hist WHEN NEW.id = 3",
        "DELETE ON hist",
        "INSERT ON hist WHEN NEW.id = 4",
        "INSERT ON snap",
        "INSERT ON post",
        "DELETE ON post",
        "UPDATE ON meta WHEN NEW.key = 'posts'",
        "UPDATE ON meta WHEN NEW.key = 'indexed'",
        "INSERT ON wf",
        "INSERT ON rid",
        "UPDATE ON run WHEN OLD.status = 0 AND NEW.status = 1",
    ] {
        let file = Breakable::new();
        let store = file.open();
        let (first, group) = story();
        store.commit(std::slice::from_ref(&first)).expect("writes");
        file.break_at(place);
        assert_failed(&store.commit(&group), place);
        file.mend();
        assert_failed(&store.commit(&group), "until it is opened again");
        let found = store.reopen().expect("opens again");
        assert_eq!(found.open, [first.row], "{place}");
        assert_eq!(found.posts, [post(1)], "{place}");
        assert_eq!(store.history(RunNo(1)), Ok(vec![blob(1)]), "{place}");
        assert_eq!(store.find_run(run_id(2)), Ok(None), "{place}");
        store.commit(&group).expect("nothing is in its way");
        assert_eq!(store.boot().expect("boots").posts, [post(5000)], "{place}");
        let report = store.check().expect("reads");
        assert!(report.is_sound(), "{place}: {report:?}");
    }
}

#[test]
fn possession_that_cannot_be_marked_is_not_taken() {
    let file = Breakable::new();
    let (first, group) = story();
    let store = file.open();
    store.commit(std::slice::from_ref(&first)).expect("writes");
    store.close().expect("closes");
    file.break_at("UPDATE ON meta WHEN NEW.key = 'clean'");
    assert!(matches!(store.boot(), Err(ReadError::Failed { .. })));
    assert_failed(&store.commit(&group), "not booted");
    file.mend();
    assert!(store.boot().expect("boots").was_clean, "nobody was there");
    store.commit(&group).expect("writes");
}

#[test]
fn a_stop_that_cannot_be_marked_is_not_clean_and_loses_nothing() {
    let file = Breakable::new();
    let (first, group) = story();
    let store = file.open();
    store.commit(&[first]).expect("writes");
    store.commit(&group).expect("writes");
    store.forget(&[PostNo(5000)]).expect("the store is owned");
    file.break_at("UPDATE ON meta WHEN NEW.key = 'clean'");
    assert!(matches!(store.close(), Err(ReadError::Failed { .. })));
    file.mend();
    let found = store.boot().expect("boots");
    assert!(!found.was_clean);
    assert_eq!((found.open.len(), found.posts), (2, vec![post(5000)]));
    assert!(store.check().expect("reads").is_sound());
}

#[test]
fn a_full_file_refuses_a_post_with_its_commit_and_keeps_what_is_to_be_forgotten() {
    let file = Breakable::new();
    let store = file.open();
    let (first, _) = story();
    store.commit(std::slice::from_ref(&first)).expect("writes");
    store.forget(&[PostNo(1)]).expect("the store is owned");
    store.set_max_bytes(Some(1 << 20)).expect("limits");
    let mut next = follow(&first, 2);
    next.posts = vec![(PostNo(2), record::frame(&vec![7_u8; 2 << 20]))];
    let group = [next];
    assert_eq!(store.commit(&group), Err(CommitError::Full));
    store.set_max_bytes(None).expect("raises");
    store.commit(&group).expect("there is room again");
    drop(store);
    let found = file.open().boot().expect("boots");
    assert_eq!(found.posts, group[0].posts);
}
