//! Starting and stopping an application.

use std::sync::Arc;

use outlast::Outlast;
use outlast::prelude::*;
use outlast_service::memory::MemoryStore;
use outlast_service::store::Store;

use super::support::{code, drive};

const GO: Signal<u64> = signal("go");

#[activity]
async fn hang(ctx: ActivityCtx) -> Result<()> {
    Err(ctx.cancelled().await.into())
}

#[workflow]
async fn waits(ctx: Ctx) -> Result<u64> {
    let call = ctx.run(hang, ());
    let n = ctx.recv(GO).await?;
    drop(call);
    Ok(n)
}

#[test]
fn a_dropped_application_leaves_nothing_behind() {
    drive(async {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let left = Arc::downgrade(&store);
        let app = TestEnv::on(store)
            .activity(hang)
            .workflow(waits)
            .start()
            .await;
        let run = app.start(waits, ()).await.expect("it starts");
        run.describe().await.expect("it is there");
        app.shutdown().await;
        drop((run, app));
        while left.upgrade().is_some() {
            tokio::task::yield_now().await;
        }
    });
}

#[test]
fn a_file_can_be_opened_again_when_its_application_is_gone() {
    drive(async {
        let place = tempfile::tempdir().expect("a directory");
        let path = place.path().join("runs.db");
        let open = async || {
            let builder = Outlast::sqlite(&path).activity(hang).workflow(waits);
            builder.start().await
        };
        let app = open().await.expect("it opens");
        let run = app.start(waits, ()).id("a").await.expect("it starts");
        drop((run, app));
        let app = open().await.expect("nobody has it");
        let run = app.get(waits, "a");
        run.send(GO, 3).await.expect("it is durable");
        assert_eq!(run.result().await.expect("it ends"), 3);
        app.shutdown().await;
    });
}

#[test]
fn a_stopped_application_refuses_instead_of_waiting() {
    drive(async {
        let app = TestEnv::new().activity(hang).workflow(waits).start().await;
        let run = app.start(waits, ()).id("a").await.expect("it starts");
        let waiting = {
            let run = run.clone();
            tokio::spawn(async move { run.result().await })
        };
        app.shutdown().await;
        assert_eq!(code(waiting.await.expect("no panic")), "OL-2004");
        assert_eq!(code(app.start(waits, ()).await), "OL-2004");
        assert_eq!(code(run.send(GO, 1).await), "OL-2004");
    });
}
