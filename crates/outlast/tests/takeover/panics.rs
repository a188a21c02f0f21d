//! Panics at every place where user code is called: whoever panics is in trouble, and the
//! application goes on.

use std::sync::{Arc, Mutex};

use outlast::prelude::*;
use outlast::{App, ListFilter, Status};
use outlast_service::memory::MemoryStore;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::support::{cached, drive, names, on, sound, until};

#[activity]
async fn add(n: u64) -> Result<u64> {
    Ok(n + 1)
}

#[workflow]
async fn healthy(ctx: Ctx) -> Result<u64> {
    Ok(ctx.run(add, 1).await?)
}

/// Breaks when it is written or read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Brittle {
    Whole,
    BreaksOnWrite,
    BreaksOnRead,
}

impl Serialize for Brittle {
    fn serialize<S: Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
        assert_ne!(*self, Self::BreaksOnWrite, "broke while it was written");
        to.serialize_bool(*self == Self::BreaksOnRead)
    }
}

impl<'de> Deserialize<'de> for Brittle {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        let breaks = bool::deserialize(from)?;
        assert!(!breaks, "broke while it was read");
        Ok(Self::Whole)
    }
}

#[activity]
async fn panics_in_async(n: u64) -> Result<u64> {
    panic!("async {n}")
}

#[activity]
fn panics_in_blocking(n: u64) -> Result<u64> {
    panic!("blocking {n}")
}

#[activity]
async fn gives_brittle(value: Brittle) -> Result<Brittle> {
    assert_eq!(value, Brittle::Whole);
    Ok(Brittle::BreaksOnWrite)
}

#[workflow]
async fn in_activity(ctx: Ctx, kind: String) -> Result<()> {
    let never = RetryPolicy::never;
    match kind.as_str() {
        "async" => drop(ctx.run(panics_in_async, 1).retry(never()).await?),
        "blocking" => drop(ctx.run(panics_in_blocking, 1).retry(never()).await?),
        "input" => {
            let call = ctx.run(gives_brittle, Brittle::BreaksOnRead);
            call.retry(never()).await?;
        }
        "result" => {
            let call = ctx.run(gives_brittle, Brittle::Whole);
            call.retry(never()).await?;
        }
        "step" => {
            let step = ctx.step::<(), _, _>("s", || async { panic!("in a step") });
            step.retry(never()).await?;
        }
        "closure of a step" => {
            let step = ctx.step("s", || -> std::future::Ready<Result<()>> {
                panic!("before a step")
            });
            step.retry(never()).await?;
        }
        other => Err(format!("unknown: {other}"))?,
    }
    Ok(())
}

async fn app() -> App {
    let env = TestEnv::new().report(|_| ());
    let env = env.activity(add).activity(panics_in_async);
    let env = env.activity(panics_in_blocking).activity(gives_brittle);
    let env = env.workflow(healthy).workflow(in_activity);
    env.workflow(in_workflow)
        .workflow(Handler::run)
        .start()
        .await
}

async fn is_well(app: &App) {
    assert_eq!(
        app.run(healthy, ()).await.expect("the application works"),
        2
    );
}

#[test]
fn a_panic_in_an_attempt_is_its_failure() {
    drive(async {
        let app = app().await;
        let kinds = [
            "async",
            "blocking",
            "input",
            "result",
            "step",
            "closure of a step",
        ];
        for kind in kinds {
            let run = app.start(in_activity, kind).await.expect("it starts");
            let error = run.result().await.expect_err("it fails");
            assert!(matches!(error, CallError::Panicked(_)), "{kind}: {error:?}");
            is_well(&app).await;
            sound(&run, in_activity).await;
        }
    });
}

struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        assert!(std::thread::panicking(), "in a destructor");
    }
}

const GO: Signal<u64> = signal("go");

/// Panics, without the type of code that never returns.
fn break_down(place: &str) {
    assert!(place.is_empty(), "{place}");
}

#[workflow]
async fn in_workflow(ctx: Ctx, kind: String) -> Result<Brittle> {
    match kind.as_str() {
        "main" => panic!("in main"),
        "main, later" => {
            ctx.run(add, 1).await?;
            panic!("in main, later")
        }
        "branch" => ctx.spawn(async { break_down("in a branch") }).await?,
        "input of an activity" => {
            ctx.run(gives_brittle, Brittle::BreaksOnWrite).await?;
        }
        "result of the workflow" => return Ok(Brittle::BreaksOnWrite),
        "closure of a shield" => ctx.shield(async || panic!("in a shield")).await,
        "destructor" => {
            let bomb = Bomb;
            ctx.recv(GO).await?;
            drop(bomb);
        }
        other => Err(format!("unknown: {other}"))?,
    }
    Ok(Brittle::Whole)
}

#[test]
fn a_panic_in_a_workflow_fails_its_task_only() {
    drive(async {
        let app = app().await;
        let kinds = [
            "main",
            "main, later",
            "branch",
            "input of an activity",
            "result of the workflow",
            "closure of a shield",
        ];
        for kind in kinds {
            let run = app.start(in_workflow, kind).await.expect("it starts");
            let found = until(&run, |d| d.trouble.is_some()).await;
            assert_eq!(found.summary.status, Status::Running, "{kind}");
            is_well(&app).await;
            run.terminate("enough").await.expect("it ends");
            sound(&run, in_workflow).await;
        }
    });
}

#[test]
fn a_panic_in_a_destructor_is_survived() {
    drive(async {
        for runs in [0, 1_000] {
            let env = TestEnv::new().report(|_| ()).activity(add);
            let env = env.workflow(healthy).workflow(in_workflow);
            let app = env.settings(cached(runs)).start().await;
            let run = app
                .start(in_workflow, "destructor")
                .await
                .expect("it starts");
            is_well(&app).await;
            run.send(GO, 1).await.expect("it is durable");
            is_well(&app).await;
            run.terminate("enough").await.expect("it ends");
            is_well(&app).await;
        }
    });
}

#[derive(Default)]
struct Handler {
    sum: u64,
}

#[workflow]
impl Handler {
    async fn run(ctx: Ctx<Self>) -> Result<u64> {
        ctx.recv(GO).await?;
        Ok(ctx.with(|handler| handler.sum))
    }

    #[signal]
    fn add(&mut self, n: u64) {
        assert!(n < 10, "too much");
        self.sum += n;
    }
}

#[test]
fn a_panic_in_a_handler_fails_the_task_and_keeps_the_message() {
    drive(async {
        let app = app().await;
        let run = app.start(Handler::run, ()).await.expect("it starts");
        run.add(5).await.expect("it is durable");
        run.add(50).await.expect("it is durable");
        let found = until(&run, |d| d.trouble.is_some()).await;
        let text = found.trouble.expect("it is in trouble").failure.to_string();
        assert!(text.contains("too much"), "{text}");
        is_well(&app).await;
        let history = names(&run.history().await.expect("a history"));
        let is_message = |name: &&&str| **name == "WorkflowExecutionSignaled";
        assert_eq!(history.iter().filter(is_message).count(), 2);
    });
}

#[test]
fn a_panic_of_whoever_listens_to_reports_is_survived() {
    drive(async {
        let calls = Arc::new(Mutex::new(0));
        let heard = calls.clone();
        let env = TestEnv::new()
            .activity(add)
            .workflow(healthy)
            .workflow(in_workflow);
        let env = env.report(move |_| {
            *heard
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner) += 1;
            panic!("in a report");
        });
        let app = env.start().await;
        let run = app.start(in_workflow, "main").await.expect("it starts");
        until(&run, |d| d.trouble.is_some()).await;
        assert!(
            *calls
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner)
                > 0
        );
        is_well(&app).await;
    });
}

#[test]
fn a_run_that_panicked_is_all_there_for_the_next_process() {
    drive(async {
        let store = MemoryStore::new();
        let start = async || {
            let env = on(&store).report(|_| ()).activity(add);
            env.workflow(in_workflow).workflow(healthy).start().await
        };
        let app = start().await;
        let run = app
            .start(in_workflow, "main, later")
            .id("a")
            .await
            .expect("it starts");
        until(&run, |d| d.trouble.is_some()).await;
        app.shutdown().await;
        drop(app);
        let app = start().await;
        is_well(&app).await;
        let open = ListFilter {
            status: Some(Status::Running),
            ..ListFilter::default()
        };
        assert_eq!(app.list(open).await.expect("a list").len(), 1);
        let run = app.get(in_workflow, "a");
        until(&run, |d| d.trouble.is_some()).await;
        sound(&run, in_workflow).await;
    });
}
