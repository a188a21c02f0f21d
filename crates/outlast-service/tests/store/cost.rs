//! What a commit costs: pages written to the log, counted and held.

use std::path::Path;

use outlast_model::Timestamp;
use outlast_model::post::PostNo;
use outlast_service::conformance::{finish, follow, post, start};
use outlast_service::sqlite::SqliteStore;
use outlast_service::store::{Commit, Store};

/// A page and its head in the log.
const FRAME: u64 = 8192 + 24;

struct Log {
    store: SqliteStore,
    before: u64,
}

impl Log {
    fn new(dir: &Path) -> Self {
        let store = SqliteStore::open(dir.join("runs.db")).expect("opens");
        store.boot().expect("boots");
        let mut log = Self { store, before: 0 };
        log.grown();
        log
    }

    /// Frames since the last look.
    fn grown(&mut self) -> u64 {
        let mut path = self.store.path().to_owned().into_os_string();
        path.push("-wal");
        let now = std::fs::metadata(path).expect("the log is there").len();
        let grown = now - self.before;
        self.before = now;
        grown / FRAME
    }

    fn pages_of(&mut self, group: &[Commit]) -> u64 {
        self.store.commit(group).expect("writes");
        self.grown()
    }
}

#[test]
fn a_one_activity_workflow_writes_no_page_more_than_it_must() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut log = Log::new(dir.path());
    let one = start(1, 1, "a");
    let two = finish(&one, 2);
    assert_eq!(log.pages_of(&[one]), 2, "row and blob");
    assert_eq!(log.pages_of(&[two]), 2, "row and blob");
    let other = start(2, 3, "b");
    log.pages_of(std::slice::from_ref(&other));
    assert_eq!(log.pages_of(&[follow(&other, 4)]), 2, "row and blob");
}

#[test]
fn what_is_said_costs_one_page_and_what_is_forgotten_none_of_its_own() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut log = Log::new(dir.path());
    let mut last = start(1, 1, "a");
    log.pages_of(std::slice::from_ref(&last));
    let mut next = |last: &mut Commit, posts: &[u64], taken: &[u64]| {
        *last = follow(last, last.id.0 + 1);
        last.posts = posts.iter().map(|number| post(*number)).collect();
        last.taken = taken.iter().map(|number| PostNo(*number)).collect();
        log.pages_of(std::slice::from_ref(last))
    };
    assert_eq!(
        next(&mut last, &[1], &[]),
        4,
        "and the mark of numbers, at first"
    );
    assert_eq!(next(&mut last, &[2], &[]), 3, "row, blob, post");
    assert_eq!(next(&mut last, &[3], &[1, 2]), 3, "an answer to two");
    assert_eq!(next(&mut last, &[], &[3]), 3, "the last one taken");
    assert_eq!(next(&mut last, &[], &[3]), 2, "not there any more");
    assert_eq!(next(&mut last, &[4, 5], &[]), 3);
    log.store.forget(&[PostNo(4)]).expect("the store is owned");
    assert_eq!(log.grown(), 0, "no transaction of its own");
    last = follow(&last, last.id.0 + 1);
    assert_eq!(log.pages_of(&[last]), 3, "it rides along");
    assert_eq!(log.store.boot().expect("boots").posts, [post(5)]);
}

/// Rows are written one after the other and fill their pages: one that grew would split its page.
#[test]
fn runs_that_end_take_no_page_more_than_they_took_open() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let log = Log::new(dir.path());
    let pages = || {
        let conn = rusqlite::Connection::open(log.store.path()).expect("opens");
        let sql = "SELECT count(*) FROM dbstat WHERE name = 'run'";
        conn.query_row(sql, (), |row| row.get::<_, u32>(0))
            .expect("counts")
    };
    let starts: Vec<Commit> = (1..=1000).map(|run| start(run, run, "an id")).collect();
    log.store.commit(&starts).expect("writes");
    let open = pages();
    assert!(open > 10, "many pages");
    let end = |one: &Commit| {
        let mut end = finish(one, one.id.0 + 1000);
        end.row.state.closed = Some(Timestamp(1_794_838_906_088_628));
        end
    };
    let ends: Vec<Commit> = starts.iter().map(end).collect();
    log.store.commit(&ends).expect("writes");
    assert_eq!(pages(), open);
}
