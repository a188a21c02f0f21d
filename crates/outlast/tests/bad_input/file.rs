//! Files that cannot be opened, and files that break while they are open.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use outlast::prelude::*;
use outlast::{App, Events, OpenError, Outlast, Severity, Status};
use outlast_service::sqlite::{OpenOptions, SqliteStore};
use tokio::sync::Semaphore;

use crate::support::{code, drive, until};

const GO: Signal<u64> = signal("go");

#[activity]
async fn add(n: u64) -> Result<u64> {
    Ok(n + 1)
}

#[workflow]
async fn waits(ctx: Ctx, _mark: String) -> Result<u64> {
    let n = ctx.recv(GO).await?;
    Ok(ctx.run(add, n).await?)
}

async fn open(path: &Path) -> Result<App> {
    let builder = Outlast::sqlite(path).activity(add).workflow(waits);
    builder.report(|_| ()).start().await
}

/// The code and the text of the refusal to open.
async fn refused(path: &Path) -> (&'static str, String) {
    let error = open(path).await.expect_err("it does not open");
    let text = error.to_string();
    let error: &OpenError = error.downcast_ref().expect("a typed error");
    (error.code(), text)
}

fn place() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("runs.db");
    (directory, path)
}

/// A file with an open run, closed in order.
async fn made(path: &Path, marks: &[&str]) {
    let app = open(path).await.expect("it opens");
    for mark in marks {
        let run = app.start(waits, *mark).id(*mark).await.expect("it starts");
        run.describe().await.expect("it is there");
    }
    app.shutdown().await;
}

#[test]
fn a_file_that_this_process_has_open_is_refused_and_the_way_out_is_said() {
    drive(async {
        let (_directory, path) = place();
        let app = open(&path).await.expect("it opens");
        let (code, text) = refused(&path).await;
        assert_eq!(code, "OL-4120");
        assert!(text.contains("open in this process already"), "{text}");
        assert!(text.contains("app.shutdown().await"), "{text}");
        let run = app
            .start(waits, "x")
            .id("a")
            .await
            .expect("the owner goes on");
        run.send(GO, 1).await.expect("it is durable");
        assert_eq!(run.result().await.expect("it ends"), 2);
        app.shutdown().await;
        let again = open(&path).await.expect("the first has let it go");
        again.shutdown().await;
    });
}

/// Where SQLite keeps two numbers of its users in the first page: the format and the owner.
const USER_VERSION: usize = 60;
const APPLICATION_ID: usize = 68;

fn patch(path: &Path, at: usize, number: u32) {
    let mut content = std::fs::read(path).expect("a file");
    content[at..at + 4].copy_from_slice(&number.to_be_bytes());
    std::fs::write(path, content).expect("written");
}

#[test]
fn a_newer_or_foreign_file_is_refused_and_left_as_it_is() {
    drive(async {
        let (directory, path) = place();
        made(&path, &["a"]).await;
        let newer = directory.path().join("newer.db");
        let foreign = directory.path().join("theirs.db");
        let text_file = directory.path().join("notes.txt");
        std::fs::copy(&path, &newer).expect("copied");
        patch(&newer, USER_VERSION, 99);
        std::fs::copy(&path, &foreign).expect("copied");
        patch(&foreign, APPLICATION_ID, 7);
        std::fs::write(&text_file, "dear diary, this is not a database").expect("written");
        for (file, expected) in [
            (newer, "OL-4102"),
            (foreign, "OL-4103"),
            (text_file, "OL-4103"),
        ] {
            let before = std::fs::read(&file).expect("a file");
            let (code, text) = refused(&file).await;
            assert_eq!(code, expected, "{text}");
            assert_eq!(std::fs::read(&file).expect("a file"), before);
        }
    });
}

#[test]
fn a_path_that_cannot_be_is_named() {
    drive(async {
        let (directory, path) = place();
        assert_eq!(refused(directory.path()).await.0, "OL-4111");
        assert_eq!(
            refused(&directory.path().join("no/runs.db")).await.0,
            "OL-4109"
        );
        std::fs::write(&path, "").expect("written");
        assert_eq!(refused(&path.join("runs.db")).await.0, "OL-4110");
        let error = Outlast::connect("mysql://x").start().await;
        let text = error.expect_err("no such backend").to_string();
        assert!(
            text.contains("mysql://x") && text.contains("sqlite:FILE"),
            "{text}"
        );
    });
}

#[test]
fn a_flipped_bit_costs_one_run_and_is_named() {
    drive(async {
        let (_directory, path) = place();
        let marks = ["mark-one", "mark-two", "mark-three"];
        made(&path, &marks).await;
        flip(&path, b"\"mark-two\"");
        let app = open(&path).await.expect("the others are whole");
        let broken = app.get(waits, "mark-two");
        assert_eq!(code(broken.describe().await), "OL-3001");
        assert_eq!(code(broken.history().await), "OL-3001");
        assert_eq!(code(broken.send(GO, 1).await), "OL-3001");
        for mark in ["mark-one", "mark-three"] {
            let run = app.get(waits, mark);
            run.send(GO, 1).await.expect("it is durable");
            assert_eq!(run.result().await.expect("it ends"), 2);
        }
        app.shutdown().await;
    });
}

/// Flips a bit in the middle of every place where these bytes are.
fn flip(path: &Path, bytes: &[u8]) {
    let mut content = std::fs::read(path).expect("a file");
    let places: Vec<usize> = content
        .windows(bytes.len())
        .enumerate()
        .filter(|(_, window)| *window == bytes)
        .map(|(at, _)| at)
        .collect();
    assert!(!places.is_empty(), "the bytes are in the file");
    for at in places {
        content[at + bytes.len() / 2] ^= 1;
    }
    std::fs::write(path, content).expect("written");
}

#[test]
fn a_broken_first_page_is_refused() {
    drive(async {
        let (_directory, path) = place();
        made(&path, &["a"]).await;
        let mut content = std::fs::read(&path).expect("a file");
        for byte in &mut content[100..200] {
            *byte ^= 0xff;
        }
        std::fs::write(&path, &content).expect("written");
        let error = open(&path).await.expect_err("it does not open");
        assert!(error.to_string().contains("damaged"), "{error}");
    });
}

/// The code of the next event that tells of the store.
async fn next_of_store(events: &mut Events) -> &'static str {
    loop {
        let event = events.next().await.expect("the worker is there");
        if event.name().starts_with("store-") {
            return event.code();
        }
    }
}

/// Opened when the disk is full.
static GATE: Semaphore = Semaphore::const_new(0);

#[activity]
async fn fetch(bytes: usize) -> Result<String> {
    drop(GATE.acquire().await?);
    Ok("x".repeat(bytes))
}

#[workflow]
async fn fetches(ctx: Ctx, bytes: usize) -> Result<usize> {
    Ok(ctx.run(fetch, bytes).await?.len())
}

#[test]
fn a_disk_that_is_full_while_nobody_asks_for_anything_is_told() {
    drive(async {
        let (_directory, path) = place();
        let store = Arc::new(SqliteStore::open(&path).expect("it opens"));
        let env = TestEnv::on(store.clone()).activity(fetch).workflow(fetches);
        let app = env.real_time().report(|_| ()).start().await;
        let mut events = app.events(Severity::Info);
        let run = app.start(fetches, 1_000_000).await.expect("it starts");
        store.set_max_bytes(Some(1)).expect("it is taken");
        GATE.add_permits(1);
        assert_eq!(next_of_store(&mut events).await, "OL-5505");
        store.set_max_bytes(None).expect("it is taken");
        assert_eq!(next_of_store(&mut events).await, "OL-5506");
        assert_eq!(run.result().await.expect("it goes on"), 1_000_000);
        assert!(app.health().ready, "{:?}", app.health());
        app.shutdown().await;
    });
}

#[test]
fn a_full_disk_refuses_what_does_not_fit_and_goes_on_when_there_is_room() {
    drive(async {
        let (_directory, path) = place();
        let options = OpenOptions {
            max_bytes: Some(4 << 20),
            ..OpenOptions::default()
        };
        let store = Arc::new(SqliteStore::open_with(&path, &options).expect("it opens"));
        let env = TestEnv::on(store.clone()).activity(add).workflow(waits);
        let app = env.real_time().report(|_| ()).start().await;
        let mut events = app.events(Severity::Info);
        let mut kept = Vec::new();
        let large = "x".repeat(300_000);
        let refusal = loop {
            let id = format!("run-{}", kept.len());
            match app.start(waits, &large).id(&id).await {
                Ok(run) => kept.push(run),
                Err(error) => break error,
            }
            assert!(kept.len() < 100, "the limit has no effect");
        };
        assert_eq!(refusal.refusal().map(|r| r.code()), Some("OL-2001"));
        assert!(kept.len() > 3, "{} runs", kept.len());
        assert_eq!(next_of_store(&mut events).await, "OL-5505");
        // Nobody waits for anything to be written: it can be asked again, room or not.
        assert_eq!(next_of_store(&mut events).await, "OL-5506");
        assert!(app.health().ready, "{:?}", app.health());
        store.set_max_bytes(None).expect("it is taken");
        let next = loop {
            match app.start(waits, &large).id("next").await {
                Ok(run) => break run,
                Err(error) => assert_eq!(error.refusal().map(|r| r.code()), Some("OL-2001")),
            }
            tokio::task::yield_now().await;
        };
        kept.push(next);
        for run in kept {
            until(&run, |d| d.summary.status == Status::Running).await;
            run.send(GO, 1).await.expect("it is durable");
            assert_eq!(run.result().await.expect("nothing acknowledged is lost"), 2);
        }
        app.shutdown().await;
    });
}

/// So many runs of so many bytes make a log longer than 64 MiB.
const LARGE: usize = 1_900_000;
const MANY: usize = 50;

#[test]
fn a_reader_of_another_program_that_never_ends_is_told_once() {
    drive(async {
        let (_directory, path) = place();
        let app = open(&path).await.expect("it opens");
        let mut events = app.events(Severity::Warning);
        let other = rusqlite::Connection::open(&path).expect("it opens");
        other
            .execute_batch("BEGIN; SELECT count(*) FROM run")
            .expect("it reads");
        let large = "x".repeat(LARGE);
        for _ in 0..MANY {
            app.start(waits, &large).await.expect("commits go on");
        }
        let event = events.next().await.expect("the worker is there");
        assert_eq!((event.code(), event.name()), ("OL-5507", "log-held"));
        assert!(event.to_string().contains("runs.db"), "{event}");
        assert!(app.health().ready, "{:?}", app.health());
        other.execute_batch("ROLLBACK").expect("it ends");
        app.shutdown().await;
        drop(app);
        assert!(events.next().await.is_none(), "once");
    });
}
