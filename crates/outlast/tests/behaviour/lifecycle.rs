//! Starting and stopping an application.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use outlast::prelude::*;
use outlast::{Outlast, Refusal};
use outlast_service::memory::MemoryStore;
use outlast_service::store::Store;

use super::support::{code, drive, on};

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

/// It said that nothing was written, although the run was there.
#[test]
fn a_run_that_is_not_awaited_to_its_end_is_there() {
    drive(async {
        let store = MemoryStore::new();
        let env = || on(&store).activity(hang).workflow(waits);
        let app = env().start().await;
        let waiting = tokio::spawn(app.run(waits, ()).id("a").into_future());
        let run = app.get(waits, "a");
        while run.describe().await.is_err() {
            tokio::task::yield_now().await;
        }
        let run_id = run.describe().await.expect("it is there").summary.run_id;
        app.shutdown().await;
        let heard = waiting
            .await
            .expect("no panic")
            .expect_err("it has not ended");
        let refusal = heard.refusal().expect("a refusal").clone();
        let workflow_id = "a".into();
        let expected = Refusal::NotAwaited {
            workflow_id,
            run_id,
        };
        assert_eq!(refusal, expected);
        assert_eq!(refusal.code(), "OL-2020");
        drop(app);

        let app = env().start().await;
        let run = app.get(waits, "a");
        run.send(GO, 3).await.expect("it is durable");
        assert_eq!(run.result().await.expect("it ends"), 3);
        assert_eq!(run.describe().await.expect("there").summary.run_id, run_id);
        app.shutdown().await;
        let late = app.run(waits, ()).id("b").await;
        assert_eq!(code(late), "OL-2004", "turned away: nothing was written");
        drop(app);
        let app = env().start().await;
        assert_eq!(code(app.get(waits, "b").describe().await), "OL-1005");
    });
}

/// What is in memory of runs of [`Alive::run`].
static ALIVE: AtomicU32 = AtomicU32::new(0);

/// Something that code holds.
struct Held;

impl Held {
    fn new() -> Self {
        ALIVE.fetch_add(1, Ordering::SeqCst);
        Self
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        ALIVE.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Its state holds something too.
struct Alive(Held);

impl Default for Alive {
    fn default() -> Self {
        Self(Held::new())
    }
}

#[workflow]
impl Alive {
    async fn run(ctx: Ctx<Self>) -> Result<u64> {
        let _held = Held::new();
        ctx.spawn(async move {
            let _held = Held::new();
            ctx.wait_until(|_| false).await
        })
        .detach();
        let call = ctx.run(hang, ());
        let n = ctx.recv(GO).await?;
        drop(call);
        Ok(n)
    }

    #[signal]
    async fn linger(ctx: Ctx<Self>) -> Result<()> {
        let _held = Held::new();
        ctx.sleep(1.days()).await?;
        Ok(())
    }
}

#[test]
fn of_a_run_that_has_ended_nothing_stays_in_an_application_that_goes_on() {
    drive(async {
        let env = TestEnv::new().activity(hang).workflow(Alive::run);
        let app = env.real_time().report(|_| ()).start().await;
        let run = app.start(Alive::run, ()).await.expect("it starts");
        run.linger().await.expect("it is durable");
        while ALIVE.load(Ordering::SeqCst) < 4 {
            tokio::task::yield_now().await;
        }
        let state = || app.worker_state().expect("it has a worker");
        while state().attempts == 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(state().cached(), 1);
        run.send(GO, 5).await.expect("it is durable");
        assert_eq!(run.result().await.expect("it ends"), 5);
        // Answers go out first; then the instance and its attempts end.
        let used = || state().slots.iter().map(|slots| slots.used).sum::<usize>();
        while (ALIVE.load(Ordering::SeqCst), state().cached()) != (0, 0) {
            tokio::task::yield_now().await;
        }
        while (state().attempts, used()) != (0, 0) {
            tokio::task::yield_now().await;
        }
        assert_eq!(run.describe().await.expect("it is known").waiting, []);
    });
}
