//! Ids of workflows and of requests: who gets which run.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use outlast::prelude::*;
use outlast::{App, ConflictPolicy, ReusePolicy, Status};

use super::support::{code, drive, failure, on};
use outlast_service::memory::MemoryStore;

const GO: Signal<bool> = signal("go");

/// Completes or fails, as it is told.
#[workflow]
async fn told(ctx: Ctx) -> Result<String> {
    if ctx.recv(GO).await? {
        return Ok(ctx.run_id().to_string());
    }
    Err("told to")?
}

async fn app() -> App {
    TestEnv::new().workflow(told).start().await
}

async fn ended(app: &App, id: &str, is_good: bool) -> outlast::RunId {
    let run = app.start(told, ()).id(id).await.expect("it starts");
    run.send(GO, is_good).await.expect("it is durable");
    assert_eq!(run.result().await.is_ok(), is_good);
    run.run_id().expect("a start gives a certain run")
}

#[test]
fn an_open_run_is_in_the_way_of_a_second_start() {
    drive(async {
        let app = app().await;
        let first = app.start(told, ()).id("a").await.expect("it starts");
        assert_eq!(code(app.start(told, ()).id("a").await), "OL-1004");
        let same = app
            .start(told, ())
            .id("a")
            .conflict(ConflictPolicy::UseExisting)
            .await;
        assert_eq!(same.expect("it attaches").run_id(), first.run_id());
        let again = app
            .start(told, ())
            .id("a")
            .conflict(ConflictPolicy::TerminateExisting)
            .await;
        let again = again.expect("it starts anew");
        assert_ne!(again.run_id(), first.run_id());
        let status = first.describe().await.expect("it is there").summary.status;
        assert_eq!(status, Status::Terminated);
        assert!(matches!(
            first.result().await,
            Err(CallError::Terminated(_))
        ));
    });
}

#[test]
fn an_ended_run_is_in_the_way_as_the_policy_says() {
    drive(async {
        let app = app().await;
        let start = async |id: &str, reuse| app.start(told, ()).id(id).reuse(reuse).await;
        ended(&app, "good", true).await;
        ended(&app, "bad", false).await;
        for id in ["good", "bad"] {
            assert_eq!(
                code(start(id, ReusePolicy::RejectDuplicate).await),
                "OL-1004"
            );
        }
        let failed_only = ReusePolicy::AllowDuplicateFailedOnly;
        assert_eq!(code(start("good", failed_only).await), "OL-1004");
        start("bad", failed_only)
            .await
            .expect("the last one failed");
        start("good", ReusePolicy::AllowDuplicate)
            .await
            .expect("anew");
        let last = ended(&app, "third", true).await;
        let same = start("third", ReusePolicy::UseExisting)
            .await
            .expect("it attaches");
        assert_eq!(same.run_id(), Some(last));
    });
}

#[test]
fn a_request_is_answered_once_also_after_the_end() {
    drive(async {
        let store = MemoryStore::new();
        let app = on(&store).workflow(told).start().await;
        let ask = async |app: &App| {
            let run = app.start(told, ()).id("a").request_id("r").await;
            run.expect("it starts or attaches").run_id()
        };
        let first = ask(&app).await;
        assert_eq!(ask(&app).await, first);
        app.get(told, "a")
            .send(GO, true)
            .await
            .expect("it is durable");
        app.get(told, "a").result().await.expect("it ends");
        assert_eq!(ask(&app).await, first);
        app.shutdown().await;
        drop(app);
        let app = on(&store).workflow(told).start().await;
        assert_eq!(ask(&app).await, first);
        let other = app
            .start(told, ())
            .id("a")
            .request_id("s")
            .await
            .expect("anew");
        assert_ne!(other.run_id(), first);
    });
}

#[derive(Clone, Default)]
struct Count(Arc<AtomicU32>);

#[activity]
async fn count(State(count): State<Count>) -> Result<u32> {
    Ok(count.0.fetch_add(1, Ordering::SeqCst) + 1)
}

#[workflow]
async fn odd(ctx: Ctx) -> Result<u32> {
    let n = ctx.run(count, ()).await?;
    if n % 2 == 0 {
        Err(format!("{n} is even"))?;
    }
    Ok(n)
}

#[test]
fn run_with_an_id_attaches_and_again_repeats_what_failed() {
    drive(async {
        let env = TestEnv::new().state(Count::default());
        let app = env.activity(count).workflow(odd).start().await;
        assert_eq!(app.run(odd, ()).id("a").await.expect("it ends"), 1);
        assert_eq!(app.run(odd, ()).id("a").await.expect("it has ended"), 1);
        assert_eq!(
            app.run(odd, ())
                .id("a")
                .again()
                .await
                .expect("it completed"),
            1
        );
        assert!(failure(app.run(odd, ()).id("b").await).contains("2 is even"));
        assert!(failure(app.run(odd, ()).id("b").await).contains("2 is even"));
        assert_eq!(app.run(odd, ()).id("b").again().await.expect("it ends"), 3);
        assert_eq!(
            app.run(odd, ())
                .again()
                .id("b")
                .await
                .expect("it has ended"),
            3
        );
    });
}

#[test]
fn many_callers_of_one_id_share_one_run() {
    drive(async {
        let app = app().await;
        let callers: Vec<_> = (0..20)
            .map(|_| {
                let app = app.clone();
                tokio::spawn(async move { app.run(told, ()).id("a").await })
            })
            .collect();
        let run = app.get(told, "a");
        while run.describe().await.is_err() {
            tokio::task::yield_now().await;
        }
        run.send(GO, true).await.expect("it is durable");
        let mut answers = Vec::new();
        for caller in callers {
            answers.push(caller.await.expect("no panic").expect("it ends"));
        }
        answers.dedup();
        assert_eq!(answers.len(), 1);
    });
}

#[test]
fn runs_without_an_id_are_runs_of_their_own() {
    drive(async {
        let app = app().await;
        let a = app.start(told, ()).await.expect("it starts");
        let b = app.start(told, ()).await.expect("it starts");
        assert_ne!(a.id(), b.id());
        assert!(a.id().starts_with("told-"), "{}", a.id());
    });
}
