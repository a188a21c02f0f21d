//! Hosts that hold an application in a way that cannot work: each is told where, and what to do.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;

use futures::executor::block_on;
use outlast::prelude::*;
use outlast::{Builder, HealthReason, ListFilter, Severity, WorkerEvent};
use tokio::runtime::Runtime;

#[activity]
async fn add(n: u64) -> Result<u64> {
    Ok(n + 1)
}

#[workflow]
async fn one(ctx: Ctx, n: u64) -> Result<u64> {
    Ok(ctx.run(add, n).await?)
}

fn builder(directory: &tempfile::TempDir) -> Builder {
    let builder = Outlast::sqlite(directory.path().join("runs.db"));
    builder.activity(add).workflow(one).report(|_| ())
}

fn directory() -> tempfile::TempDir {
    tempfile::tempdir().expect("a directory")
}

fn runtime() -> Runtime {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_all().build();
    runtime.expect("a runtime can be built")
}

#[test]
fn a_start_outside_of_tokio_names_its_line_and_the_way_out() {
    let directory = directory();
    let line = line!() + 1;
    let started = block_on(builder(&directory).start());
    let text = started.expect_err("there is no runtime").to_string();
    for part in [
        "OL-4121: Builder::start at ",
        &format!("host.rs:{line}:"),
        "#[tokio::main]",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let line = line!() + 1;
    let text = block_on(builder(&directory).run());
    let text = text.expect_err("there is no runtime").to_string();
    assert!(text.contains("OL-4121: Builder::run at "), "{text}");
    assert!(text.contains(&format!("host.rs:{line}:")), "{text}");
}

#[test]
fn a_client_works_outside_of_the_runtime_that_the_application_runs_on() {
    let (directory, runtime) = (directory(), runtime());
    let app = runtime.block_on(builder(&directory).start());
    let app = app.expect("it starts");
    block_on(async {
        let run = app.start(one, 1).id("a").await.expect("it starts");
        assert_eq!(run.result().await.expect("it ends"), 2);
        assert!(run.history().await.expect("it is read").len() > 5);
        let listed = app.list(ListFilter::default()).await;
        assert_eq!(listed.expect("it is listed").len(), 1);
        app.shutdown().await;
    });
}

static BEGUN: AtomicU32 = AtomicU32::new(0);

/// Its first attempt never ends.
#[activity]
async fn lingers(ctx: ActivityCtx) -> Result<u32> {
    if BEGUN.fetch_add(1, Ordering::SeqCst) == 0 {
        std::future::pending::<()>().await;
    }
    Ok(ctx.attempt())
}

#[workflow]
async fn waits(ctx: Ctx) -> Result<u32> {
    Ok(ctx.run(lingers, ()).retry(RetryPolicy::times(1)).await?)
}

#[test]
fn an_application_that_outlives_its_runtime_stops_says_why_and_loses_nothing() {
    let (directory, first) = (directory(), runtime());
    let (tell, heard) = mpsc::channel();
    let builder = || self::builder(&directory).activity(lingers).workflow(waits);
    let told = builder().on_event(Severity::Error, move |event| drop(tell.send(event.clone())));
    let app = first.block_on(told.start()).expect("it starts");
    block_on(app.start(waits, ()).id("w").into_future()).expect("it starts");
    while BEGUN.load(Ordering::SeqCst) == 0 {
        std::thread::yield_now();
    }
    assert!(app.health().ready);
    drop(first);
    let event = heard.recv_timeout(1.mins()).expect("somebody is told");
    assert_eq!(event, WorkerEvent::RuntimeGone);
    let text = event.to_string();
    assert!(text.contains("app.shutdown().await"), "{text}");
    let health = app.health();
    assert!(!health.ready && !health.live, "{health:?}");
    assert!(health.reasons.contains(&HealthReason::RuntimeGone));
    let refused = block_on(app.shutdown());
    assert_eq!(refused.left_behind, Vec::<String>::new());
    let late = block_on(app.start(one, 1).into_future());
    assert!(late.is_err(), "{late:?}");
    drop(app);

    let second = runtime();
    second.block_on(async {
        let app = builder().start().await.expect("it starts again");
        let attempt = app.get(waits, "w").result().await;
        assert_eq!(attempt.expect("it ends"), 1, "handed back, not counted");
        app.shutdown().await;
    });
}

#[test]
fn a_program_that_ends_without_a_shutdown_is_not_scolded() {
    let (directory, runtime) = (directory(), runtime());
    let (tell, heard) = mpsc::channel();
    let told = builder(&directory).on_event(Severity::Info, move |event| {
        drop(tell.send(event.clone()));
    });
    runtime.block_on(async {
        let app = told.start().await.expect("it starts");
        // As a server does that answers requests in tasks of its own.
        drop(tokio::spawn(async move {
            std::future::pending::<()>().await;
            drop(app);
        }));
    });
    drop(runtime);
    let events: Vec<WorkerEvent> = heard.iter().collect();
    assert!(!events.contains(&WorkerEvent::RuntimeGone), "{events:?}");
    let last = events.last().expect("it stops");
    assert!(matches!(last, WorkerEvent::Stopped { .. }), "{events:?}");
}

#[activity]
async fn talk() -> Result<usize> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let stream = tokio::net::TcpStream::connect(listener.local_addr()?);
    let (stream, (mut accepted, _)) = tokio::try_join!(stream, listener.accept())?;
    drop(stream);
    let mut heard = Vec::new();
    Ok(tokio::io::AsyncReadExt::read_to_end(&mut accepted, &mut heard).await?)
}

#[workflow]
async fn talks(ctx: Ctx) -> Result<usize> {
    Ok(ctx.run(talk, ()).retry(RetryPolicy::times(1)).await?)
}

#[outlast::test]
async fn activities_of_a_test_may_use_sockets(env: TestEnv) {
    let app = env.activity(talk).workflow(talks).start().await;
    assert_eq!(app.run(talks, ()).await.expect("it ends"), 0);
}
