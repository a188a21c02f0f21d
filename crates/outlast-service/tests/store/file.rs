//! What can happen to a file: it fills up, it rots, its log is taken away, others look at it.

use std::path::PathBuf;

use outlast_model::record;
use outlast_model::task::RunNo;
use outlast_model::view::ListFilter;
use outlast_service::conformance::{blob, finish, follow, post, run_id, start};
use outlast_service::inspect::{Found, Inspector};
use outlast_service::sqlite::{OpenOptions, SqliteStore};
use outlast_service::store::{Commit, CommitError, ReadError, Store};
use rusqlite::Connection;
use tempfile::TempDir;

struct File {
    dir: TempDir,
}

impl File {
    fn new() -> Self {
        Self {
            dir: tempfile::tempdir().expect("a temporary directory"),
        }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("runs.db")
    }

    fn open(&self) -> SqliteStore {
        let store = SqliteStore::open(self.path()).expect("opens");
        store.boot().expect("boots");
        store
    }

    /// A run of four commits with a snapshot at the second, in a file nobody has open.
    fn with_a_run() -> Self {
        let file = Self::new();
        let store = file.open();
        let mut last = start(1, 1, "a");
        store.commit(std::slice::from_ref(&last)).expect("writes");
        for commit in 2..=4 {
            last = follow(&last, commit);
            last.snapshot = (commit == 2).then(|| record::frame(&2_u64));
            store.commit(std::slice::from_ref(&last)).expect("writes");
        }
        store.close().expect("closes");
        file
    }

    /// Changes the file behind the store's back, while it is closed.
    fn alter(&self, sql: &str) {
        let conn = Connection::open(self.path()).expect("opens");
        assert_eq!(conn.execute(sql, ()).expect("alters"), 1);
    }
}

fn large(run: u64) -> Commit {
    let mut commit = start(run, run, "a");
    commit.blob = record::frame(&vec![7_u8; 100_000]);
    commit
}

#[test]
fn a_full_file_refuses_and_goes_on_when_there_is_room() {
    let file = File::new();
    let options = OpenOptions {
        max_bytes: Some(1 << 20),
        ..OpenOptions::default()
    };
    let store = SqliteStore::open_with(file.path(), &options).expect("opens");
    store.boot().expect("boots");
    let mut written = 0;
    let refused = loop {
        match store.commit(&[large(written + 1)]) {
            Ok(()) => written += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(refused, CommitError::Full);
    let group = [start(100, 100, "small"), large(101)];
    assert_eq!(store.commit(&group), Err(CommitError::Full));
    assert_eq!(
        store.load(RunNo(100)),
        Err(ReadError::Missing),
        "nothing of a refused group"
    );
    assert_eq!(store.find(&"small".into(), 1), Ok(Vec::new()));
    store.set_max_bytes(None).expect("raises");
    store.commit(&group).expect("there is room again");
    let report = store.check().expect("reads");
    assert!(report.is_sound(), "{report:?}");
    assert_eq!(report.runs, written + 2);
}

#[test]
fn a_flipped_bit_is_named() {
    let file = File::with_a_run();
    file.alter("UPDATE hist SET data = CAST(x'01' || substr(data, 2, 4) || x'ff' || substr(data, 7) AS BLOB) WHERE id = 3");
    let store = file.open();
    let report = store.check().expect("reads");
    assert_eq!(report.damage.len(), 1, "{report:?}");
    assert!(
        report.damage[0].starts_with("run 1: commit 3 of it: checksum differs"),
        "{report:?}"
    );
    let blobs = store.history(RunNo(1)).expect("the chain itself is whole");
    assert!(record::decode(&blobs[2]).is_err());
}

/// Else the next commit of another run would become its newest blob.
#[test]
fn the_number_of_a_head_that_is_gone_is_not_given_again() {
    let file = File::with_a_run();
    file.alter("DELETE FROM hist WHERE id = (SELECT max(id) FROM hist)");
    let store = SqliteStore::open(file.path()).expect("opens");
    let boot = store.boot().expect("boots");
    assert_eq!(boot.last_commit, boot.open[0].state.head);
}

#[test]
fn a_broken_chain_is_never_a_shorter_history() {
    for (sql, told) in [
        (
            "DELETE FROM hist WHERE id = 3",
            "commit 3 of its history is missing",
        ),
        (
            "UPDATE hist SET prev = 0 WHERE id = 3",
            "commit 0 of its history is missing",
        ),
        (
            "UPDATE hist SET prev = 1 WHERE id = 4",
            "commit 0 of its history is missing",
        ),
        (
            "UPDATE run SET head = 3",
            "commit 0 of its history is missing",
        ),
        (
            "UPDATE run SET version = 3",
            "does not end after the 3 commits",
        ),
        ("UPDATE run SET status = 99", "99"),
    ] {
        let file = File::with_a_run();
        file.alter(sql);
        let store = SqliteStore::open(file.path()).expect("opens");
        // A row of no known status is not among the open ones; everything else boots.
        store.boot().expect("boots");
        let Err(ReadError::Damaged { run, reason }) = store.history(RunNo(1)) else {
            panic!("{sql}: {:?}", store.history(RunNo(1)));
        };
        assert_eq!(run, RunNo(1));
        assert!(reason.contains(told), "{sql}: {reason}");
        assert!(!store.check().expect("reads").is_sound(), "{sql}");
    }
}

#[test]
fn a_snapshot_that_does_not_fit_its_history_is_damage() {
    for sql in [
        "UPDATE snap SET version = 5",
        "UPDATE snap SET version = 3",
        "UPDATE snap SET head = 1",
    ] {
        let file = File::with_a_run();
        file.alter(sql);
        let store = file.open();
        let loaded = store.load(RunNo(1));
        assert!(
            matches!(loaded, Err(ReadError::Damaged { run: RunNo(1), .. })),
            "{sql}: {loaded:?}"
        );
        assert_eq!(
            store.history(RunNo(1)),
            Ok((1..=4).map(blob).collect()),
            "{sql}"
        );
        assert_eq!(store.check().expect("reads").damage.len(), 1, "{sql}");
    }
}

#[test]
fn a_commit_of_no_run_is_found() {
    let file = File::with_a_run();
    file.alter("INSERT INTO hist VALUES (77, 0, x'00')");
    let report = file.open().check().expect("reads");
    assert_eq!(report.damage, ["1 commits belong to no run"]);
}

#[test]
fn a_post_that_rotted_or_may_be_numbered_again_is_found() {
    let file = File::new();
    let store = file.open();
    let mut one = start(1, 1, "a");
    one.posts = vec![post(1), post(2)];
    store.commit(&[one]).expect("writes");
    store.close().expect("closes");
    file.alter("UPDATE post SET data = CAST(substr(data, 1, 5) || x'07' AS BLOB) WHERE id = 2");
    file.alter("UPDATE meta SET value = 1 WHERE key = 'posts'");
    let report = file.open().check().expect("reads");
    assert_eq!((report.posts, report.damage.len()), (2, 2), "{report:?}");
    assert!(report.damage[0].starts_with("post 2: "), "{report:?}");
    assert_eq!(
        report.damage[1],
        "1 posts have numbers past the mark of numbers in use"
    );
}

#[cfg(unix)]
#[test]
fn a_log_that_is_removed_stops_commits_and_loses_nothing() {
    for ending in ["-wal", "-shm"] {
        let file = File::new();
        let store = file.open();
        let one = start(1, 1, "a");
        store.commit(std::slice::from_ref(&one)).expect("writes");
        assert!(store.is_intact());
        let mut log = file.path().into_os_string();
        log.push(ending);
        std::fs::remove_file(log).expect("removes");
        assert!(!store.is_intact());
        let two = follow(&one, 2);
        let refused = store
            .commit(std::slice::from_ref(&two))
            .expect_err("noticed");
        assert!(
            refused
                .to_string()
                .contains("removed; all it held was saved"),
            "{refused}"
        );
        let again = store.commit(std::slice::from_ref(&two));
        assert!(
            matches!(again, Err(CommitError::Failed { .. })),
            "until opened again"
        );
        let found = store.reopen().expect("opens again");
        assert_eq!(found.open, [one.row]);
        store.commit(&[two]).expect("goes on");
        assert!(store.check().expect("reads").is_sound());
    }
}

#[test]
fn a_reader_sees_what_a_living_owner_has_committed() {
    let file = File::new();
    let store = file.open();
    let one = start(1, 1, "a");
    store.commit(std::slice::from_ref(&one)).expect("writes");
    let reader = SqliteStore::open_reader(file.path()).expect("opens beside the owner");
    assert_eq!(reader.find(&"a".into(), 5), Ok(vec![one.row.clone()]));
    let two = start(2, 2, "a");
    store
        .commit(std::slice::from_ref(&two))
        .expect("writes beside the reader");
    let rows = vec![two.row.clone(), one.row.clone()];
    assert_eq!(reader.find(&"a".into(), 5), Ok(rows.clone()));
    assert_eq!(reader.find_run(run_id(2)), Ok(Some(two.row)));
    assert_eq!(reader.list(&ListFilter::default()), Ok(rows));
    let older = ListFilter {
        before: Some(run_id(2)),
        ..ListFilter::default()
    };
    assert_eq!(reader.list(&older), Ok(vec![one.row.clone()]));
    assert_eq!(reader.history(RunNo(1)), Ok(vec![blob(1)]));
    assert_eq!(reader.load(RunNo(1)).expect("there").row, one.row);
    store.close().expect("closes");
    assert!(
        reader.check().expect("reads").is_sound(),
        "and without the owner"
    );
}

#[test]
fn a_list_shows_which_runs_continue_each_other() {
    let file = File::new();
    let store = file.open();
    let one = start(1, 1, "a");
    let mut two = start(2, 3, "a");
    two.row.first_run = Some(run_id(1));
    two.is_joined = true;
    store
        .commit(&[one.clone(), finish(&one, 2), two])
        .expect("writes");
    let inspector = Inspector::open(file.path()).expect("opens beside the owner");
    let runs = inspector.list(&ListFilter::default()).expect("lists");
    let chain: Vec<_> = runs.iter().map(|run| (run.run_id, run.first_run)).collect();
    assert_eq!(chain, [(run_id(2), Some(run_id(1))), (run_id(1), None)]);
    let Ok(Found::One(newest)) = inspector.find("a") else {
        panic!("{:?}", inspector.find("a"));
    };
    assert_eq!(newest.run_id, run_id(2));
}

#[test]
fn the_file_says_whose_it_is_and_is_made_for_durable_commits() {
    let file = File::with_a_run();
    let conn = Connection::open(file.path()).expect("opens");
    let number = |sql: &str| {
        conn.query_row(sql, (), |r| r.get::<_, i64>(0))
            .expect("reads")
    };
    assert_eq!(number("PRAGMA application_id"), 0x4f55_544c);
    assert_eq!(number("PRAGMA user_version"), 5);
    assert_eq!(number("PRAGMA page_size"), 8192);
    let journal: String = conn
        .query_row("PRAGMA journal_mode", (), |r| r.get(0))
        .expect("reads");
    assert_eq!(journal, "wal");
    assert_eq!(number("SELECT value FROM meta WHERE key = 'clean'"), 1);
}
