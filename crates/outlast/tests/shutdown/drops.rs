//! Futures that are dropped at every poll: nothing is lost, nothing leaks.
//!
//! The list: `Builder::start`, `App::start`, `App::run`, `App::list`, `App::shutdown`,
//! `App::shutdown_now`; `Handle::result`, `send`, `query`, `update`, `describe`, `cancel`,
//! `history`; and the future of an attempt.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use outlast::model::RetryPolicy;
use outlast::prelude::*;
use outlast::{App, ListFilter, Outlast, Settings};
use tokio::sync::Notify;

use crate::support::drive;
use crate::{alone, deserted};

#[activity]
async fn add(n: u64) -> Result<u64> {
    tokio::task::yield_now().await;
    Ok(n + 1)
}

/// Adds up what it is sent, until it is told the end.
#[derive(Default)]
struct Tally {
    sum: u64,
    is_over: bool,
}

#[workflow]
impl Tally {
    async fn run(ctx: Ctx<Self>, n: u64) -> Result<u64> {
        let n = ctx.run(add, n).retry(RetryPolicy::times(1)).await?;
        ctx.wait_until(|tally| tally.is_over).await?;
        Ok(n + ctx.read(|tally| tally.sum))
    }

    #[signal]
    fn plus(&mut self, n: u64) {
        self.sum += n;
    }

    #[signal]
    fn end(&mut self) {
        self.is_over = true;
    }

    #[update]
    fn more(&mut self, n: u64) -> Result<u64> {
        self.sum += n;
        Ok(self.sum)
    }

    #[query]
    fn sum(&self) -> u64 {
        self.sum
    }
}

/// Polls a future so often, then drops it. Says whether it had ended by then.
async fn cut<F: Future>(future: F, polls: usize) -> bool {
    let mut future = Box::pin(future);
    for _ in 0..polls {
        let is_ready = poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_ready())).await;
        if is_ready {
            return true;
        }
        tokio::task::yield_now().await;
    }
    false
}

type Act = Pin<Box<dyn Future<Output = ()> + Send>>;
/// Does something to the run of this id.
type Does = fn(App, String) -> Act;

/// Everything a client can do, by name; what it does to the run of this id can be done again.
fn acts() -> Vec<(&'static str, Does)> {
    fn act<T>(future: impl Future<Output = T> + Send + 'static) -> Act {
        Box::pin(async move { drop(future.await) })
    }
    vec![
        ("App::start", |app, id| {
            act(async move { app.start(Tally::run, 1).id(id).request_id("start").await })
        }),
        ("App::run", |app, id| {
            act(async move { app.run(Tally::run, 1).id(id).await })
        }),
        ("App::list", |app, _| {
            act(async move { app.list(ListFilter::default()).await })
        }),
        ("Handle::result", |app, id| {
            act(async move { app.get(Tally::run, id).result().await })
        }),
        ("Handle::send", |app, id| {
            act(async move { app.get(Tally::run, id).plus(5).request_id("plus").await })
        }),
        ("Handle::update", |app, id| {
            act(async move { app.get(Tally::run, id).more(7).id("more").await })
        }),
        ("Handle::query", |app, id| {
            act(async move { app.get(Tally::run, id).sum().await })
        }),
        ("Handle::describe", |app, id| {
            act(async move { app.get(Tally::run, id).describe().await })
        }),
        ("Handle::history", |app, id| {
            act(async move { app.get(Tally::run, id).history().await })
        }),
    ]
}

fn open(path: &std::path::Path) -> impl Future<Output = outlast::Result<App>> {
    let builder = Outlast::sqlite(path).activity(add);
    builder.workflow(Tally::run).report(|_| ()).start()
}

#[test]
fn what_a_client_drops_is_done_or_not_done_and_can_be_asked_for_again() {
    let _alone = alone();
    let directory = tempfile::tempdir().expect("a directory");
    drive(async {
        let app = open(&directory.path().join("runs.db"))
            .await
            .expect("it starts");
        for (name, act) in acts() {
            for polls in 0..6 {
                let id = format!("{name} {polls}");
                if name != "App::start" && name != "App::run" {
                    let start = app.start(Tally::run, 1).id(&id);
                    start.await.expect("it starts");
                }
                cut(act(app.clone(), id.clone()), polls).await;
                carry_on(&app, &id).await;
            }
        }
        app.shutdown().await;
    });
    deserted();
}

/// Whatever was dropped, the run is brought to the one end it has.
async fn carry_on(app: &App, id: &str) {
    let start = app.start(Tally::run, 1).id(id).request_id("start");
    let start = start.conflict(outlast::ConflictPolicy::UseExisting);
    start.await.expect("it is there");
    let run = app.get(Tally::run, id);
    run.plus(5)
        .request_id("plus")
        .await
        .expect("it counts once");
    run.more(7).id("more").await.expect("it counts once");
    run.end().await.expect("it is durable");
    assert_eq!(run.result().await.expect("it ends"), 14, "{id}");
}

#[test]
fn an_end_that_nobody_waits_for_goes_on() {
    let _alone = alone();
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("runs.db");
    drive(async {
        for polls in 0..6 {
            for is_hurried in [false, true] {
                let app = open(&path).await.expect("nobody has it");
                let id = format!("{polls} {is_hurried}");
                app.start(Tally::run, 1).id(&id).await.expect("it starts");
                if is_hurried {
                    cut(app.shutdown_now(), polls).await;
                } else {
                    cut(app.shutdown(), polls).await;
                }
                let stopped = app.shutdown_now().await;
                assert!(stopped.left_behind.is_empty(), "{stopped:?}");
                drop(app);
                let app = open(&path).await.expect("nobody has it");
                carry_on(&app, &id).await;
                app.shutdown().await;
            }
        }
    });
    deserted();
}

#[test]
fn a_start_that_is_dropped_at_any_poll_gives_the_file_back() {
    let _alone = alone();
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("runs.db");
    drive(async {
        for polls in 0..6 {
            cut(open(&path), polls).await;
            loop {
                match open(&path).await {
                    Ok(app) => break drop(app.shutdown().await),
                    // The one that was dropped has not let go yet.
                    Err(_) => tokio::task::yield_now().await,
                }
            }
        }
    });
    deserted();
}

/// An attempt that stops for good at one of its polls.
#[derive(Clone, Default)]
struct Stage {
    stop_at: Arc<AtomicUsize>,
    reached: Arc<Notify>,
    dropped: Arc<AtomicUsize>,
}

struct Noted(Arc<AtomicUsize>);

impl Drop for Noted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

const POLLS: usize = 5;

#[activity]
async fn play(ctx: ActivityCtx, State(stage): State<Stage>) -> Result<u64> {
    let _noted = Noted(stage.dropped.clone());
    assert_eq!(ctx.attempt(), 1, "it was handed back");
    for poll in 0..POLLS {
        if stage.stop_at.load(Ordering::SeqCst) == poll {
            stage.reached.notify_one();
            std::future::pending::<()>().await;
        }
        tokio::task::yield_now().await;
    }
    Ok(3)
}

#[workflow]
async fn plays(ctx: Ctx) -> Result<u64> {
    Ok(ctx.run(play, ()).retry(RetryPolicy::times(1)).await?)
}

#[test]
fn an_attempt_that_is_dropped_at_any_poll_is_handed_back() {
    let _alone = alone();
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("runs.db");
    let stage = Stage::default();
    let open = async || {
        let settings = Settings {
            abort_after: Duration::ZERO,
            ..Settings::default()
        };
        let builder = Outlast::sqlite(&path).state(stage.clone()).activity(play);
        let builder = builder.workflow(plays).settings(settings);
        builder.start().await.expect("nobody has it")
    };
    drive(async {
        for poll in 0..POLLS {
            stage.stop_at.store(poll, Ordering::SeqCst);
            let app = open().await;
            let id = format!("poll-{poll}");
            app.start(plays, ()).id(&id).await.expect("it starts");
            stage.reached.notified().await;
            let before = stage.dropped.load(Ordering::SeqCst);
            assert!(app.shutdown_now().await.left_behind.is_empty());
            assert_eq!(stage.dropped.load(Ordering::SeqCst), before + 1);
            stage.stop_at.store(POLLS, Ordering::SeqCst);
            let app = open().await;
            assert_eq!(app.get(plays, &id).result().await.expect("it ends"), 3);
            app.shutdown().await;
        }
    });
    deserted();
}
