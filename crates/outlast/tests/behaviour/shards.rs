//! Several engine threads on one file, in real time.

use outlast::prelude::*;
use outlast::{App, ListFilter, Outlast, Status};

use super::support::{drive, sound};

#[activity]
async fn add(n: u64) -> Result<u64> {
    Ok(n + 1)
}

#[activity]
fn shaky(ctx: ActivityCtx, n: u64) -> Result<u64> {
    if ctx.attempt() == 1 {
        Err("once")?;
    }
    Ok(n + 1)
}

const GO: Signal<u64> = signal("go");

#[workflow]
async fn mixed(ctx: Ctx, n: u64) -> Result<u64> {
    let n = ctx.run(add, n).await?;
    ctx.sleep(20.millis()).await?;
    let n = n + ctx.recv(GO).await?;
    let again = RetryPolicy::default().initial(5.millis());
    Ok(ctx.run(shaky, n).retry(again).await?)
}

async fn open(path: &std::path::Path, shards: usize) -> App {
    let builder = Outlast::sqlite(path).activity(add).activity(shaky);
    let builder = builder.workflow(mixed).shards(shards);
    builder.start().await.expect("it opens")
}

#[test]
fn runs_of_all_shards_end_also_after_the_number_of_shards_has_changed() {
    drive(async {
        let place = tempfile::tempdir().expect("a directory");
        let path = place.path().join("runs.db");
        let app = open(&path, 3).await;
        for n in 0..40 {
            let id = format!("run-{n}");
            app.start(mixed, n).id(id).await.expect("it starts");
        }
        for n in 0..20 {
            let run = app.get(mixed, format!("run-{n}"));
            run.send(GO, 100).await.expect("it is durable");
        }
        app.shutdown().await;
        drop(app);
        let app = open(&path, 2).await;
        for n in 20..40 {
            let run = app.get(mixed, format!("run-{n}"));
            run.send(GO, 100).await.expect("it is durable");
        }
        for n in 0..40 {
            let run = app.get(mixed, format!("run-{n}"));
            assert_eq!(run.result().await.expect("it ends"), n + 102);
            sound(&run, mixed).await;
        }
        let done = ListFilter {
            status: Some(Status::Completed),
            ..ListFilter::default()
        };
        assert_eq!(app.list(done).await.expect("a list").len(), 40);
        app.shutdown().await;
    });
}
