//! Files of older formats are brought to today's, and read beside it, with nothing lost.

use std::path::Path;

use outlast_model::id::{Epoch, Version};
use outlast_model::post::PostNo;
use outlast_model::task::RunNo;
use outlast_model::view::ListFilter;
use outlast_model::{Status, Timestamp};
use outlast_service::conformance::{blob, follow, post, run_id, start};
use outlast_service::sqlite::SqliteStore;
use outlast_service::store::{Attention, Commit, CommitNo, RowState, RunRow, Store};
use rusqlite::Connection;
use tempfile::TempDir;

/// What the first release wrote into an empty file, word for word.
const FORMAT_1: &str = "
    CREATE TABLE meta(key TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT, WITHOUT ROWID;
    INSERT INTO meta VALUES ('clean', 1), ('indexed', 0);
    CREATE TABLE run(
        id INTEGER PRIMARY KEY,
        status INTEGER NOT NULL,
        version INTEGER NOT NULL,
        epoch INTEGER NOT NULL,
        head INTEGER NOT NULL,
        events INTEGER NOT NULL,
        bytes INTEGER NOT NULL,
        closed INTEGER,
        wake INTEGER,
        attention INTEGER NOT NULL,
        started INTEGER NOT NULL,
        run_id BLOB NOT NULL,
        type TEXT NOT NULL,
        queue TEXT NOT NULL,
        workflow_id TEXT NOT NULL
    ) STRICT;
    CREATE INDEX run_open ON run(id) WHERE status = 1;
    CREATE TABLE hist(id INTEGER PRIMARY KEY, prev INTEGER NOT NULL, data BLOB NOT NULL) STRICT;
    CREATE TABLE snap(
        run INTEGER PRIMARY KEY,
        version INTEGER NOT NULL,
        head INTEGER NOT NULL,
        data BLOB NOT NULL
    ) STRICT;
    CREATE TABLE wf(
        workflow_id TEXT NOT NULL,
        run INTEGER NOT NULL,
        PRIMARY KEY (workflow_id, run)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE rid(run_id BLOB PRIMARY KEY, run INTEGER NOT NULL) STRICT, WITHOUT ROWID;
";

/// And what it wrote for two runs: one that ended, one that waits.
const RUNS_1: &str = "
    UPDATE meta SET value = 1 WHERE key = 'indexed';
    INSERT INTO run VALUES
        (1, 2, 2, 0, 2, 5, 40, 9000002, NULL, 0, 1000001, ?, 'checkout', 'default', 'a'),
        (2, 1, 1, 3, 3, 3, 20, NULL, 5000000, 17, 1000002, ?, 'checkout', 'default', 'b');
    INSERT INTO wf VALUES ('a', 1);
";

fn file_of_format_1() -> TempDir {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let conn = Connection::open(dir.path().join("runs.db")).expect("opens");
    conn.execute_batch("PRAGMA page_size = 8192; PRAGMA journal_mode = WAL")
        .expect("sets");
    conn.execute_batch(FORMAT_1).expect("makes");
    let hex = |run: u64| format!("x'{:032x}'", run_id(run).0);
    let runs = RUNS_1.replacen('?', &hex(1), 1).replacen('?', &hex(2), 1);
    conn.execute_batch(&runs).expect("writes");
    let first = run_id(1).0.to_be_bytes();
    conn.execute("INSERT INTO rid VALUES (?1, 1)", [first])
        .expect("writes");
    for (id, prev) in [(1_u32, 0), (2, 1), (3, 0)] {
        let values = (id, prev, blob(u64::from(id)));
        conn.execute("INSERT INTO hist VALUES (?1, ?2, ?3)", values)
            .expect("writes");
    }
    conn.execute_batch("PRAGMA application_id = 1330992204; PRAGMA user_version = 1")
        .expect("signs");
    dir
}

fn ended() -> RunRow {
    let state = RowState {
        status: Status::Completed,
        version: Version(2),
        epoch: Epoch(0),
        head: CommitNo(2),
        events: 5,
        bytes: 40,
        closed: Some(Timestamp(9_000_002)),
        wake: None,
        attention: Attention::default(),
    };
    RunRow {
        no: RunNo(1),
        workflow_id: "a".into(),
        run_id: run_id(1),
        workflow_type: "checkout".into(),
        queue: "default".into(),
        started: Timestamp(1_000_001),
        first_run: None,
        state,
    }
}

fn waiting() -> RunRow {
    let state = RowState {
        status: Status::Running,
        version: Version(1),
        epoch: Epoch(3),
        head: CommitNo(3),
        events: 3,
        bytes: 20,
        closed: None,
        wake: Some(Timestamp(5_000_000)),
        attention: Attention::TASK.with(Attention::BLOCKED),
    };
    RunRow {
        no: RunNo(2),
        workflow_id: "b".into(),
        run_id: run_id(2),
        started: Timestamp(1_000_002),
        state,
        ..ended()
    }
}

fn format_of(path: &Path) -> i32 {
    let conn = Connection::open(path).expect("opens");
    conn.query_row("PRAGMA user_version", (), |row| row.get(0))
        .expect("reads")
}

/// A commit on top of the waiting run, with a post.
fn next() -> Commit {
    let mut last = start(2, 3, "b");
    last.row = waiting();
    let mut next = follow(&last, 4);
    next.posts = vec![post(1)];
    next
}

#[test]
fn an_owner_brings_a_file_of_format_1_to_todays() {
    let dir = file_of_format_1();
    let path = dir.path().join("runs.db");
    let store = SqliteStore::open(&path).expect("opens");
    assert_eq!(format_of(&path), 5);
    let found = store.boot().expect("boots");
    assert_eq!(found.open, [waiting()]);
    assert_eq!((found.last_run, found.last_commit), (RunNo(2), CommitNo(3)));
    assert_eq!((found.posts, found.last_post), (Vec::new(), PostNo(0)));
    assert!(found.was_clean);
    assert_eq!(store.find(&"a".into(), 9), Ok(vec![ended()]));
    assert_eq!(store.find_run(run_id(2)), Ok(Some(waiting())));
    assert_eq!(store.history(RunNo(1)), Ok(vec![blob(1), blob(2)]));
    store.commit(&[next()]).expect("goes on");
    assert_eq!(store.boot().expect("boots").posts, [post(1)]);
    let report = store.check().expect("reads");
    assert!(report.is_sound(), "{report:?}");
    assert_eq!((report.runs, report.commits, report.posts), (2, 4, 1));
}

#[test]
fn a_file_that_came_the_long_way_is_made_like_a_new_one() {
    let dir = file_of_format_1();
    let shape = |path: &Path| {
        drop(SqliteStore::open(path).expect("opens"));
        let conn = Connection::open(path).expect("opens");
        let sql = "SELECT name, sql FROM sqlite_schema ORDER BY name";
        let mut statement = conn.prepare(sql).expect("reads");
        let rows = statement.query_map((), |row| {
            Ok((row.get::<_, String>(0)?, row.get::<_, Option<String>>(1)?))
        });
        rows.expect("reads")
            .collect::<Result<Vec<_>, _>>()
            .expect("reads")
    };
    let long = shape(&dir.path().join("runs.db"));
    assert_eq!(long, shape(&dir.path().join("new.db")));
    assert!(long.iter().any(|(name, _)| name == "post"), "{long:?}");
}

#[test]
fn a_reader_sees_a_file_of_format_1_and_leaves_it_so() {
    let dir = file_of_format_1();
    let path = dir.path().join("runs.db");
    let reader = SqliteStore::open_reader(&path).expect("opens");
    let both = Ok(vec![waiting(), ended()]);
    assert_eq!(reader.list(&ListFilter::default()), both);
    assert_eq!(reader.find(&"b".into(), 9), Ok(vec![waiting()]));
    assert_eq!(reader.find_run(run_id(1)), Ok(Some(ended())));
    assert_eq!(reader.load(RunNo(2)).expect("there").row, waiting());
    let report = reader.check().expect("reads");
    assert!(report.is_sound(), "{report:?}");
    assert_eq!((report.runs, report.commits, report.posts), (2, 3, 0));
    assert_eq!(format_of(&path), 1, "a reader takes no step");
}

#[test]
fn a_reader_goes_on_when_the_owner_brings_the_file_to_todays_format() {
    let dir = file_of_format_1();
    let path = dir.path().join("runs.db");
    let reader = SqliteStore::open_reader(&path).expect("opens");
    assert_eq!(reader.load(RunNo(2)).expect("there").row, waiting());
    let store = SqliteStore::open(&path).expect("opens beside it");
    store.boot().expect("boots");
    let mut heir = start(3, 5, "a");
    heir.row.first_run = Some(run_id(1));
    store.commit(&[next(), heir.clone()]).expect("writes");
    assert_eq!(reader.load(RunNo(2)).expect("there").row, next().row);
    assert_eq!(reader.find_run(run_id(3)), Ok(Some(heir.row)));
    assert!(reader.check().expect("reads").is_sound());
}
