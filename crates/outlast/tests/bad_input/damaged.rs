//! A run whose history cannot be read: it can be ended, its id is free then, and whoever waits for
//! it hears of the end. On both stores, and again after they were opened anew.

use std::path::PathBuf;
use std::sync::Arc;

use outlast::prelude::*;
use outlast::{App, ConflictPolicy, ParentClose, ReusePolicy, Status};
use outlast_service::memory::MemoryStore;
use outlast_service::sqlite::SqliteStore;
use outlast_service::store::Store as _;

use crate::support::{code, drive, until};

const LINE: Signal<String> = signal("line");

/// Keeps what it is told, until it is told to end.
#[workflow]
async fn listens(ctx: Ctx) -> Result<u64> {
    let mut lines = 0;
    while ctx.recv(LINE).await? != "end" {
        lines += 1;
    }
    Ok(lines)
}

#[workflow]
async fn has_child(ctx: Ctx) -> Result<String> {
    let child = ctx.child(listens, ()).id("child").await;
    Ok(match child {
        Ok(lines) => format!("{lines} lines"),
        Err(CallError::Terminated(_)) => "terminated".into(),
        Err(error) => error.to_string(),
    })
}

#[workflow]
async fn takes_child_along(ctx: Ctx) -> Result<()> {
    let child = ctx.child(listens, ()).id("child");
    let child = child.parent_close(ParentClose::Terminate);
    child.started().await?;
    child.detach();
    ctx.recv(LINE).await?;
    Ok(())
}

#[workflow]
async fn calls_off(ctx: Ctx) -> Result<bool> {
    let told = ctx.external("child").cancel().await;
    Ok(matches!(told, Err(CallError::NotFound(_))))
}

/// Events of a run whose code has begun and waits.
const SETTLED: u64 = 4;

/// Which blobs of a run are spoilt.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Spoilt {
    Newest,
    All,
    /// Not there at all.
    Gone,
}

enum Place {
    Memory(MemoryStore),
    File(tempfile::TempDir),
}

impl Place {
    /// Each kind of store with each kind of damage that can be made there.
    fn all() -> [(Self, Spoilt); 4] {
        [
            (Self::Memory(MemoryStore::new()), Spoilt::Newest),
            (Self::file(), Spoilt::Newest),
            (Self::file(), Spoilt::All),
            (Self::file(), Spoilt::Gone),
        ]
    }

    fn file() -> Self {
        Self::File(tempfile::tempdir().expect("a directory"))
    }

    async fn open(&self) -> App {
        let env = match self {
            Self::Memory(store) => TestEnv::on(Arc::new(store.clone())),
            Self::File(directory) => {
                let store = SqliteStore::open(file_in(directory)).expect("it opens");
                TestEnv::on(Arc::new(store))
            }
        };
        let env = env
            .workflow(listens)
            .workflow(has_child)
            .workflow(calls_off);
        let env = env.workflow(takes_child_along).real_time();
        env.report(|_| ()).start().await
    }

    /// Of the newest run of this id, while nobody has the store.
    fn spoil(&self, id: &str, spoilt: Spoilt) {
        match self {
            Self::Memory(store) => {
                let run = store.find(&id.into(), 1).expect("memory").remove(0);
                store.damage(run.no);
            }
            Self::File(directory) => {
                let file = rusqlite::Connection::open(file_in(directory)).expect("it opens");
                let head = "SELECT head FROM run WHERE workflow_id = ?1 ORDER BY id DESC";
                let head = file.query_row(head, [id], |row| row.get(0));
                spoil_chain(&file, head.expect("it is there"), spoilt);
            }
        }
    }
}

fn file_in(directory: &tempfile::TempDir) -> PathBuf {
    directory.path().join("runs.db")
}

fn spoil_chain(file: &rusqlite::Connection, head: i64, spoilt: Spoilt) {
    let change = match spoilt {
        Spoilt::Newest | Spoilt::All => {
            "UPDATE hist SET data = CAST(substr(data, 1, length(data) - 1) || x'ff' AS BLOB) \
             WHERE id = ?1"
        }
        Spoilt::Gone => "DELETE FROM hist WHERE id = ?1",
    };
    let mut at = head;
    while at != 0 {
        let prev = "SELECT prev FROM hist WHERE id = ?1";
        let prev: i64 = file.query_row(prev, [at], |row| row.get(0)).expect("there");
        assert_eq!(file.execute(change, [at]).expect("it is changed"), 1);
        at = match spoilt {
            Spoilt::All => prev,
            Spoilt::Newest | Spoilt::Gone => 0,
        };
    }
}

/// A run that was told something, then closed in order and spoilt.
async fn spoilt(place: &Place, start: impl AsyncFn(&App), id: &str, spoilt: Spoilt) -> App {
    let app = place.open().await;
    start(&app).await;
    let run = app.get(listens, id);
    // A child begins in its own time; what it is told is in a blob of its own.
    while !matches!(run.describe().await, Ok(found) if found.summary.events == SETTLED) {
        tokio::task::yield_now().await;
    }
    run.send(LINE, "one").await.expect("it is durable");
    run.describe().await.expect("it is there");
    app.shutdown().await;
    drop(app);
    place.spoil(id, spoilt);
    place.open().await
}

async fn started(app: &App) {
    app.start(listens, ()).id("child").await.expect("it starts");
}

/// Ended, says so with a reason, and takes nothing.
async fn assert_ended(app: &App, kind: Spoilt) {
    let run = app.get(listens, "child");
    let found = run.describe().await.expect("it is there");
    assert_eq!(found.summary.status, Status::Terminated, "{kind:?}");
    assert!(found.notes[0].contains("cannot be read"), "{found:?}");
    let outcome = run.result().await.expect_err("it has no result");
    assert!(matches!(outcome, CallError::Terminated(_)), "{outcome}");
    let has_reason = outcome.to_string().contains("no use");
    assert_eq!(has_reason, kind != Spoilt::Gone, "{outcome}");
    assert_eq!(code(run.terminate("again").await), "OL-1006");
    assert_eq!(code(run.send(LINE, "two").await), "OL-1006");
    assert_eq!(code(run.history().await), "OL-3001", "its bytes stay");
}

#[test]
fn a_run_that_cannot_be_read_is_terminated_and_its_id_is_used_again() {
    drive(async {
        for (place, kind) in Place::all() {
            let app = spoilt(&place, started, "child", kind).await;
            let broken = app.get(listens, "child");
            assert_eq!(code(broken.describe().await), "OL-3001", "{kind:?}");
            assert_eq!(code(broken.send(LINE, "two").await), "OL-3001");
            broken.terminate("no use").await.expect("it is ended");
            assert_ended(&app, kind).await;
            app.shutdown().await;
            drop(app);

            let app = place.open().await;
            assert_ended(&app, kind).await;
            let only_failed = ReusePolicy::AllowDuplicateFailedOnly;
            let next = app.start(listens, ()).id("child").reuse(only_failed).await;
            let next = next.expect("the id is free");
            next.send(LINE, "end").await.expect("it is told");
            assert_eq!(next.result().await.expect("it ends"), 0);
            app.shutdown().await;
        }
    });
}

#[test]
fn a_start_replaces_a_run_that_cannot_be_read() {
    drive(async {
        for (place, kind) in Place::all() {
            let app = spoilt(&place, started, "child", kind).await;
            let start = app.start(listens, ()).id("child");
            assert_eq!(code(start.await), "OL-1004", "{kind:?}");
            let start = app.start(listens, ()).id("child");
            let next = start.conflict(ConflictPolicy::TerminateExisting).await;
            let next = next.expect("it takes the place");
            app.shutdown().await;
            drop(app);
            let app = place.open().await;
            let found = app.get(listens, "child");
            assert_eq!(
                found.describe().await.expect("it is there").summary.run_id,
                { next.run_id().expect("a start gives a certain run") }
            );
            found.send(LINE, "end").await.expect("it is told");
            assert_eq!(found.result().await.expect("it ends"), 0);
            app.shutdown().await;
        }
    });
}

#[test]
fn the_parent_hears_of_the_end_of_a_child_that_cannot_be_read() {
    drive(async {
        let start = async |app: &App| {
            app.start(has_child, ()).id("parent").await.expect("starts");
        };
        for place in [Place::Memory(MemoryStore::new()), Place::file()] {
            let app = spoilt(&place, start, "child", Spoilt::Newest).await;
            let child = app.get(listens, "child");
            child.terminate("no use").await.expect("it is ended");
            let heard = app.get(has_child, "parent").result().await;
            assert_eq!(heard.expect("it ends"), "terminated");
            app.shutdown().await;
        }
    });
}

#[test]
fn a_child_that_cannot_be_read_ends_with_its_parent() {
    drive(async {
        let start = async |app: &App| {
            let parent = app.start(takes_child_along, ()).id("parent").await;
            parent.expect("it starts");
        };
        for (place, kind) in Place::all() {
            let app = spoilt(&place, start, "child", kind).await;
            let parent = app.get(takes_child_along, "parent");
            parent.send(LINE, "end").await.expect("it is told");
            parent.result().await.expect("it ends");
            loop {
                match app.get(listens, "child").describe().await {
                    Ok(found) if !found.summary.status.is_open() => break,
                    Ok(_) | Err(_) => tokio::task::yield_now().await,
                }
            }
            app.shutdown().await;
        }
    });
}

/// Both when it was said before the end and when the store was opened anew in between.
#[test]
fn what_was_said_to_a_run_that_cannot_be_read_is_answered_at_its_end() {
    drive(async {
        for (place, kind) in Place::all() {
            let app = spoilt(&place, started, "child", kind).await;
            let first = app.start(calls_off, ()).id("first").await.expect("starts");
            until(&first, |found| !found.waiting.is_empty()).await;
            app.shutdown().await;
            drop(app);
            let app = place.open().await;
            let second = app.start(calls_off, ()).id("second").await.expect("starts");
            until(&second, |found| !found.waiting.is_empty()).await;
            // What was said has arrived when what is said after it is answered.
            let child = app.get(listens, "child");
            assert_eq!(code(child.send(LINE, "two").await), "OL-3001");
            child.terminate("no use").await.expect("it is ended");
            for id in ["first", "second"] {
                let told = app.get(calls_off, id).result().await;
                assert!(told.expect("it ends"), "{kind:?}");
            }
            app.shutdown().await;
        }
    });
}
