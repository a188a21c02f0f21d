//! Hosts that hold an application in a way that cannot work: each is told where, and what to do.

use futures::executor::block_on;
use outlast::prelude::*;
use outlast::{Builder, ListFilter};
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
