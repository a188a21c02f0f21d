//! What each phase of an end is for: what runs may finish, what has not begun does not begin, and
//! what is told to stop has its time to do so.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use outlast::event::StopPhase;
use outlast::model::RetryPolicy;
use outlast::model::view::Waiting;
use outlast::prelude::*;
use outlast::{App, Outlast, Settings, Severity, WorkerEvent};
use tokio::sync::{Notify, Semaphore};

use crate::support::{drive, until};

/// What activities and the test share, and the order of what happened.
#[derive(Clone, Default)]
struct Desk {
    began: Arc<Notify>,
    go: Arc<Notify>,
    calls: Arc<AtomicUsize>,
    log: Arc<Mutex<Vec<String>>>,
}

impl Desk {
    fn note(&self, what: &str) {
        let mut log = self.log.lock().expect("nobody panics");
        log.push(what.to_owned());
    }
}

#[activity]
async fn held(ctx: ActivityCtx, State(desk): State<Desk>) -> Result<u32> {
    desk.calls.fetch_add(1, Ordering::SeqCst);
    desk.began.notify_one();
    tokio::select! {
        () = desk.go.notified() => Ok(ctx.attempt()),
        cancelled = ctx.cancelled() => Err(cancelled.into()),
    }
}

/// Completes a moment after it was told to stop.
#[activity]
async fn lags(ctx: ActivityCtx, State(desk): State<Desk>) -> Result<u32> {
    desk.calls.fetch_add(1, Ordering::SeqCst);
    desk.began.notify_one();
    ctx.cancelled().await;
    desk.note("told");
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    desk.note("ended");
    Ok(ctx.attempt())
}

#[workflow]
async fn holds(ctx: Ctx) -> Result<u32> {
    Ok(ctx.run(held, ()).retry(RetryPolicy::times(1)).await?)
}

#[workflow]
async fn waits(ctx: Ctx) -> Result<u32> {
    Ok(ctx.run(lags, ()).retry(RetryPolicy::times(1)).await?)
}

static STEPS: AtomicUsize = AtomicUsize::new(0);
static GO: Semaphore = Semaphore::const_new(0);

#[workflow]
async fn steps(ctx: Ctx) -> Result<u32> {
    let step = ctx.step("held", || async {
        STEPS.fetch_add(1, Ordering::SeqCst);
        GO.acquire().await.expect("it is open").forget();
        outlast::Ok(1)
    });
    Ok(step.retry(RetryPolicy::times(1)).await?)
}

async fn open(directory: &tempfile::TempDir, desk: &Desk, settings: Settings) -> App {
    let builder = Outlast::sqlite(directory.path().join("runs.db")).state(desk.clone());
    let builder = builder.activity(held).activity(lags);
    let builder = builder.workflow(holds).workflow(waits).workflow(steps);
    let told = desk.clone();
    let builder = builder.on_event(Severity::Info, move |event| {
        if let WorkerEvent::Stopping { phase, .. } = event {
            told.note(&phase.to_string());
        }
    });
    let builder = builder.settings(settings).report(|_| ());
    builder.start().await.expect("it starts")
}

/// One slot of each kind.
fn narrow() -> Settings {
    Settings {
        activity_slots: 1,
        step_slots: 1,
        ..Settings::default()
    }
}

/// Of a run whose slot is taken.
fn waits_for_a_slot(waiting: &Waiting) -> bool {
    matches!(
        waiting,
        Waiting::ActivityPending { .. } | Waiting::Step { .. }
    )
}

#[test]
fn what_has_not_begun_does_not_begin_while_what_runs_may_finish() {
    drive(async {
        let directory = tempfile::tempdir().expect("a directory");
        let desk = Desk::default();
        let app = open(&directory, &desk, narrow()).await;
        app.start(holds, ()).id("a").await.expect("it starts");
        app.start(steps, ()).id("s").await.expect("it starts");
        desk.began.notified().await;
        while STEPS.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
        let second = app.start(holds, ()).id("b").await.expect("it starts");
        until(&second, |d| d.waiting.iter().any(waits_for_a_slot)).await;
        let step = app.start(steps, ()).id("t").await.expect("it starts");
        until(&step, |d| d.waiting.iter().any(waits_for_a_slot)).await;
        let mut events = app.events(Severity::Info);
        let ending = tokio::spawn({
            let app = app.clone();
            async move { app.shutdown().await }
        });
        loop {
            let event = events.next().await.expect("it stops");
            let finishing = StopPhase::Finishing;
            if matches!(*event, WorkerEvent::Stopping { phase, .. } if phase == finishing) {
                break;
            }
        }
        desk.go.notify_one();
        GO.add_permits(1);
        assert!(ending.await.expect("no panic").left_behind.is_empty());
        assert_eq!(
            desk.calls.load(Ordering::SeqCst),
            1,
            "the second did not begin"
        );
        assert_eq!(STEPS.load(Ordering::SeqCst), 1, "nor did the second step");
        drop((app, events));

        let app = open(&directory, &desk, narrow()).await;
        desk.began.notified().await;
        desk.go.notify_one();
        GO.add_permits(1);
        for id in ["a", "b"] {
            let attempt = app.get(holds, id).result().await;
            assert_eq!(attempt.expect("it ends"), 1, "{id}");
        }
        for id in ["s", "t"] {
            app.get(steps, id).result().await.expect("it ends");
        }
        assert_eq!(desk.calls.load(Ordering::SeqCst), 2);
        assert_eq!(STEPS.load(Ordering::SeqCst), 2);
        app.shutdown().await;
    });
}

#[test]
fn when_the_grace_is_over_attempts_are_told_and_have_time_to_end() {
    drive(async {
        let directory = tempfile::tempdir().expect("a directory");
        let desk = Desk::default();
        let settings = Settings {
            shutdown_grace: Duration::from_millis(50),
            ..Settings::default()
        };
        let app = open(&directory, &desk, settings).await;
        app.start(waits, ()).id("a").await.expect("it starts");
        desk.began.notified().await;
        app.start(holds, ()).id("b").await.expect("it starts");
        desk.began.notified().await;
        assert!(app.shutdown().await.left_behind.is_empty());
        let log = desk.log.lock().expect("nobody panics").clone();
        let expected = ["finishing", "cancelling", "told", "ended", "evicting"];
        assert_eq!(log, expected);
        drop(app);

        let app = open(&directory, &desk, Settings::default()).await;
        desk.began.notified().await;
        desk.go.notify_one();
        let completed = app.get(waits, "a").result().await;
        assert_eq!(completed.expect("its outcome counts"), 1);
        let handed_back = app.get(holds, "b").result().await;
        assert_eq!(handed_back.expect("it ends"), 1, "not counted");
        assert_eq!(desk.calls.load(Ordering::SeqCst), 3);
        app.shutdown().await;
    });
}
