//! Workflow code of which every poll ends, and no slice does.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use futures::StreamExt as _;
use futures::channel::mpsc;
use outlast::model::event::TaskFailedCause;
use outlast::prelude::*;
use outlast::{App, Settings, Severity, WorkerEvent};
use outlast_service::memory::MemoryStore;
use serde::Serialize;

use crate::blocked::{add, patient, quick, strict};
use crate::support::{drive, on, sound, until};

/// How it goes on without end.
const MANNERS: [&str; 5] = ["yields", "wakes", "spawns", "conditions", "handler"];

/// Each test has a leash of its own: its number is the input of its culprits.
struct Leash {
    is_loose: AtomicBool,
    rounds: AtomicU64,
}

static LEASHES: [Leash; 5] = [const {
    Leash {
        is_loose: AtomicBool::new(true),
        rounds: AtomicU64::new(0),
    }
}; 5];

impl Leash {
    /// Whether there is another round.
    fn goes_on(&self) -> bool {
        self.rounds.fetch_add(1, Ordering::SeqCst);
        self.is_loose.load(Ordering::SeqCst)
    }

    fn pull(&self) {
        self.is_loose.store(false, Ordering::SeqCst);
    }

    /// Returns when the code has gone round so often since.
    async fn more(&self, rounds: u64) {
        let before = self.rounds.load(Ordering::SeqCst);
        while self.rounds.load(Ordering::SeqCst) < before + rounds {
            tokio::task::yield_now().await;
        }
    }
}

/// Whose turn it is, where two branches wait for each other.
#[derive(Default, Serialize)]
struct Endless {
    is_others: bool,
}

#[workflow]
impl Endless {
    async fn run(ctx: Ctx<Self>, culprit: (usize, String)) -> Result<()> {
        let (test, manner) = culprit;
        ctx.run(add, 1).await?;
        match manner.as_str() {
            "yields" => yields(ctx.plain(), test).await,
            "wakes" => wakes(ctx.plain(), test).await?,
            "spawns" => spawns(ctx.plain(), test),
            "conditions" => conditions(ctx, test).await?,
            "handler" => {}
            other => Err(format!("unknown: {other}"))?,
        }
        ctx.sleep(1.days()).await?;
        Ok(())
    }

    #[signal]
    async fn go(ctx: Ctx<Self>, test: usize) -> Result<()> {
        yields(ctx.plain(), test).await;
        Ok(())
    }
}

async fn yields(ctx: Ctx, test: usize) {
    while LEASHES[test].goes_on() {
        ctx.yield_now().await;
    }
}

/// Two branches wake each other.
async fn wakes(ctx: Ctx, test: usize) -> Result<()> {
    let ((here, mut from_there), (there, mut from_here)) = (mpsc::unbounded(), mpsc::unbounded());
    let other = ctx.spawn(async move {
        while from_here.next().await.is_some() {
            here.unbounded_send(())?;
        }
        Ok::<_, Error>(())
    });
    while LEASHES[test].goes_on() {
        there.unbounded_send(())?;
        from_there.next().await;
    }
    drop(there);
    Ok(other.await?)
}

/// Each waits for what the other writes.
async fn conditions(ctx: Ctx<Endless>, test: usize) -> Result<()> {
    let other = ctx.spawn(async move {
        while LEASHES[test].goes_on() {
            ctx.wait_until(|turn| turn.is_others).await?;
            ctx.with(|turn| turn.is_others = false);
        }
        Ok::<_, Error>(())
    });
    while LEASHES[test].goes_on() {
        ctx.with(|turn| turn.is_others = true);
        ctx.wait_until(|turn| !turn.is_others).await?;
    }
    ctx.with(|turn| turn.is_others = true);
    Ok(other.await?)
}

/// Each branch spawns the next and ends.
fn spawns(ctx: Ctx, test: usize) {
    if LEASHES[test].goes_on() {
        drop(ctx.spawn(async move {
            spawns(ctx, test);
            Ok::<_, Error>(())
        }));
    }
}

async fn open(store: &MemoryStore, settings: Settings) -> App {
    let env = on(store).expect_stuck_code().report(|_| ());
    let env = env.activity(add).workflow(Endless::run).workflow(quick);
    env.settings(settings).start().await
}

async fn culprit(app: &App, test: usize, manner: &str) -> EndlessHandle {
    let input = (test, manner.to_owned());
    let run = app
        .start(Endless::run, input)
        .id(manner)
        .await
        .expect("starts");
    if manner == "handler" {
        run.go(test).await.expect("it is durable");
    }
    LEASHES[test].more(10).await;
    run
}

#[test]
fn neighbours_and_operators_do_not_wait_for_a_slice_without_end() {
    drive(async {
        let leash = &LEASHES[0];
        for manner in MANNERS {
            leash.is_loose.store(true, Ordering::SeqCst);
            let app = open(&MemoryStore::default(), patient()).await;
            let run = culprit(&app, 0, manner).await;
            for _ in 0..5 {
                assert_eq!(app.run(quick, ()).await.expect("it ends"), 3, "{manner}");
            }
            let found = run.describe().await.expect("it is there");
            assert!(found.trouble.is_none(), "{manner}: {:?}", found.trouble);
            run.why().await.expect("somebody says why");
            run.cancel().await.expect("it is durable");
            // It has not come to rest meanwhile.
            leash.more(10).await;
            run.terminate("enough").await.expect("it is durable");
            assert!(matches!(run.result().await, Err(CallError::Terminated(_))));
            leash.pull();
            app.shutdown().await;
        }
    });
}

#[test]
fn a_slice_without_end_is_given_up_named_and_ends_between_two_polls() {
    drive(async {
        for manner in MANNERS {
            let app = open(&MemoryStore::default(), strict()).await;
            let mut events = app.events(Severity::Info);
            let run = culprit(&app, 1, manner).await;
            let found = until(&run, |d| d.trouble.is_some()).await;
            let trouble = found.trouble.expect("it is in trouble");
            assert_eq!(trouble.cause, TaskFailedCause::Stuck, "{manner}");
            let text = trouble.failure.to_string();
            let is_named = text.contains("endless.rs:") || text.contains("signal `go`");
            assert!(is_named, "{text}");
            // Nobody has let it go.
            loop {
                let event = events.next().await.expect("the application is there");
                if let WorkerEvent::ThreadReturned(stuck) = &*event {
                    assert_eq!(stuck.run.workflow_id.as_str(), manner);
                    break;
                }
            }
            assert_eq!(app.run(quick, ()).await.expect("it ends"), 3, "{manner}");
            run.terminate("enough").await.expect("it is durable");
            let stopped = app.shutdown().await;
            assert!(stopped.left_behind.is_empty(), "{manner}: {stopped:?}");
        }
    });
}

#[test]
fn a_slice_without_end_is_found_again_after_a_restart() {
    drive(async {
        let store = MemoryStore::default();
        let hasty = || Settings {
            shutdown_grace: Duration::from_millis(1),
            shutdown_cancel: Duration::from_millis(1),
            shutdown_evictions: Duration::from_millis(1),
            ..patient()
        };
        let app = open(&store, hasty()).await;
        culprit(&app, 2, "yields").await;
        // It is in the middle of its slice, and nothing of that is kept.
        app.shutdown_now().await;
        drop(app);
        let app = open(&store, strict()).await;
        let run = app.get(Endless::run, "yields");
        // The activity before it may have to run again, after a pause: a neighbour lets time pass.
        assert_eq!(app.run(quick, ()).await.expect("it ends"), 3);
        let found = until(&run, |d| d.trouble.is_some()).await;
        let trouble = found.trouble.expect("it is in trouble");
        assert_eq!(trouble.cause, TaskFailedCause::Stuck);
        assert_eq!(app.run(quick, ()).await.expect("it ends"), 3);
        run.terminate("enough").await.expect("it is durable");
        LEASHES[2].pull();
        app.shutdown().await;
    });
}

#[workflow]
async fn spawns_in_one_poll(ctx: Ctx) -> Result<()> {
    ctx.run(add, 1).await?;
    loop {
        drop(ctx.spawn(std::future::pending::<()>()));
    }
}

#[test]
fn code_that_spawns_without_end_in_one_poll_is_stopped_and_takes_no_memory() {
    drive(async {
        // Only its own limit can end it.
        let env = TestEnv::new().expect_stuck_code().report(|_| ());
        let env = env
            .activity(add)
            .workflow(spawns_in_one_poll)
            .workflow(quick);
        let app = env.settings(patient()).start().await;
        let run = app.start(spawns_in_one_poll, ()).await.expect("it starts");
        let found = until(&run, |d| d.trouble.is_some()).await;
        let text = found.trouble.expect("it is in trouble").failure.to_string();
        assert!(text.contains("at most 50000 branches"), "{text}");
        assert_eq!(app.run(quick, ()).await.expect("it ends"), 3);
        run.terminate("enough").await.expect("it is durable");
        app.shutdown().await;
    });
}

static IS_CHANGED: AtomicBool = AtomicBool::new(false);

#[workflow]
async fn comes_to_rest(ctx: Ctx) -> Result<u64> {
    let n = ctx.run(add, 1).await?;
    while IS_CHANGED.load(Ordering::SeqCst) {
        ctx.yield_now().await;
    }
    Ok(n)
}

#[test]
fn a_replay_in_a_test_ends_where_code_does_not_come_to_rest() {
    drive(async {
        let env = TestEnv::new().activity(add).workflow(comes_to_rest);
        let app = env.start().await;
        let run = app.start(comes_to_rest, ()).await.expect("it starts");
        run.result().await.expect("it ends");
        let history = sound(&run, comes_to_rest).await;
        IS_CHANGED.store(true, Ordering::SeqCst);
        let error = outlast::testing::replay(comes_to_rest, &history);
        let text = error.expect_err("it never ends").to_string();
        assert!(text.contains("does not come to rest"), "{text}");
        app.shutdown().await;
    });
}

static NEVER: crate::gate::Gate = crate::gate::Gate::new();

#[workflow]
async fn blocks_for_good(ctx: Ctx) -> Result<()> {
    ctx.sleep(1.millis()).await?;
    NEVER.pass();
    Ok(())
}

#[test]
fn a_shutdown_in_a_hurry_does_not_wait_for_what_was_given_up() {
    drive(async {
        let settings = Settings {
            // More than the test has.
            shutdown_evictions: Duration::from_secs(1_000),
            shutdown_hard_stop: Duration::from_secs(2_000),
            ..strict()
        };
        let env = TestEnv::new().expect_stuck_code().report(|_| ());
        let env = env.real_time().workflow(blocks_for_good);
        let app = env.settings(settings).start().await;
        let run = app.start(blocks_for_good, ()).await.expect("it starts");
        until(&run, |d| d.trouble.is_some()).await;
        let stopped = app.shutdown_now().await;
        assert_eq!(stopped.left_behind.len(), 1, "{stopped:?}");
        NEVER.open();
    });
}

#[test]
fn a_shutdown_does_not_wait_for_a_slice_without_end() {
    drive(async {
        let settings = Settings {
            shutdown_cancel: Duration::from_millis(1),
            shutdown_evictions: Duration::from_millis(1),
            ..patient()
        };
        let app = open(&MemoryStore::default(), settings).await;
        let before = culprit(&app, 3, "yields").await;
        let quick = app.start(quick, ()).id("quick").await;
        quick.expect("it is durable");
        let stopped = app.shutdown_now().await;
        let mut left = stopped.left_behind.iter();
        let is_named = left.any(|left| left.contains("endless.rs:"));
        assert!(is_named, "{stopped:?}");
        LEASHES[3].more(10).await;
        LEASHES[3].pull();
        drop(before);
    });
}
