//! Values that do not fit or do not decode, on their way through a run.

use outlast::model::event::TaskFailedCause;
use outlast::prelude::*;
use outlast::{ActivityDef, WorkflowDef};
use outlast_service::memory::MemoryStore;

use crate::support::{drive, failure, on, sound, until};

const LARGE: usize = 3 << 20;

#[activity]
async fn makes(size: usize) -> Result<String> {
    Ok("x".repeat(size))
}

#[activity]
async fn takes(text: String) -> Result<usize> {
    Ok(text.len())
}

#[activity]
async fn reports(ctx: ActivityCtx, size: usize) -> Result<usize> {
    if ctx.attempt() == 1 {
        ctx.heartbeat("x".repeat(size))?;
        Err("not yet")?;
    }
    Ok(ctx.last_heartbeat::<String>().map_or(0, |text| text.len()))
}

#[workflow]
async fn large(ctx: Ctx, what: String) -> Result<String> {
    match what.as_str() {
        "activity result" => Ok(ctx.run(makes, LARGE).await?),
        "activity input" => Ok(ctx.run(takes, "x".repeat(LARGE)).await?.to_string()),
        "step result" => {
            let step = ctx.step("large", || async { Ok("x".repeat(LARGE)) });
            Ok(step.await?)
        }
        "workflow result" => Ok("x".repeat(LARGE)),
        "heartbeat" => Ok(ctx.run(reports, LARGE).await?.to_string()),
        "small heartbeat" => Ok(ctx.run(reports, 10).await?.to_string()),
        other => Err(format!("unknown: {other}"))?,
    }
}

async fn app() -> outlast::App {
    let env = TestEnv::new().report(|_| ());
    let env = env.activity(makes).activity(takes).activity(reports);
    env.workflow(large).workflow(wide).start().await
}

#[test]
fn an_outcome_that_is_too_large_fails_for_good_without_a_second_try() {
    drive(async {
        let app = app().await;
        for what in ["activity result", "step result"] {
            let run = app.start(large, what).await.expect("it starts");
            let text = failure(run.result().await);
            assert!(text.contains("3145730 bytes"), "{what}: {text}");
            sound(&run, large).await;
        }
    });
}

#[test]
fn a_value_of_workflow_code_that_is_too_large_fails_the_task_and_not_the_run() {
    drive(async {
        let app = app().await;
        for what in ["activity input", "workflow result"] {
            let run = app.start(large, what).await.expect("it starts");
            let found = until(&run, |d| d.trouble.is_some()).await;
            let text = found.trouble.expect("it is in trouble").failure.to_string();
            assert!(text.contains("3145730 bytes"), "{what}: {text}");
            run.terminate("enough").await.expect("it ends");
            sound(&run, large).await;
        }
    });
}

#[test]
fn details_that_are_too_large_are_not_kept() {
    drive(async {
        let app = app().await;
        assert_eq!(app.run(large, "heartbeat").await.expect("it ends"), "0");
        assert_eq!(
            app.run(large, "small heartbeat").await.expect("it ends"),
            "10"
        );
    });
}

#[workflow]
async fn wide(ctx: Ctx, width: u64) -> Result<usize> {
    let timers = (0..width).map(|_| ctx.sleep(1.secs()));
    Ok(futures::future::join_all(timers).await.len())
}

#[test]
fn too_many_commands_in_one_task_are_refused_with_the_limit() {
    drive(async {
        let app = app().await;
        let run = app.start(wide, 20_001).await.expect("it starts");
        let found = until(&run, |d| d.trouble.is_some()).await;
        assert!(found.summary.is_blocked);
        let trouble = found.trouble.expect("it is in trouble");
        assert_eq!(trouble.cause, TaskFailedCause::BadCommand);
        let text = trouble.failure.to_string();
        assert!(text.contains("20001") && text.contains("20000"), "{text}");
        assert_eq!(app.run(wide, 3).await.expect("the others go on"), 3);
    });
}

const AS_TEXT: WorkflowDef<String, String> = WorkflowDef::new("number");
const AS_NUMBER: WorkflowDef<u64, String> = WorkflowDef::new("number");
const TAKES_NUMBER: ActivityDef<u64, String> = ActivityDef::new("takes");

#[workflow(name = "number")]
async fn number(_ctx: Ctx, n: u64) -> Result<u64> {
    Ok(n)
}

#[test]
fn an_input_that_does_not_decode_waits_for_code_that_reads_it() {
    drive(async {
        let store = MemoryStore::new();
        let app = on(&store).workflow(number).report(|_| ()).start().await;
        let run = app
            .start(AS_TEXT, "five")
            .id("a")
            .await
            .expect("it is accepted");
        let found = until(&run, |d| d.trouble.is_some()).await;
        let text = found.trouble.expect("it is in trouble").failure.to_string();
        assert!(
            text.contains("the input of workflow number is not a `u64`"),
            "{text}"
        );
        app.shutdown().await;
        drop((run, app));
        let app = on(&store).workflow(lettered).start().await;
        assert_eq!(
            app.get(lettered, "a").result().await.expect("it ends"),
            "five"
        );
    });
}

#[workflow(name = "number")]
async fn lettered(_ctx: Ctx, text: String) -> Result<String> {
    Ok(text)
}

#[test]
fn a_result_that_does_not_decode_is_told_to_whoever_asked() {
    drive(async {
        let app = TestEnv::new().workflow(number).start().await;
        let error = app.run(AS_NUMBER, 5).await.expect_err("it is a number");
        assert!(matches!(error, CallError::Other(_)), "{error:?}");
        let text = error.to_string();
        assert!(text.contains("its result is not a"), "{text}");
        assert!(
            text.contains("the type wanted of workflow number may be wrong"),
            "{text}"
        );
    });
}

#[test]
fn a_handle_of_another_workflow_says_so_when_the_result_does_not_fit() {
    drive(async {
        let app = TestEnv::new().workflow(number).start().await;
        app.run(number, 5).id("a").await.expect("it ends");
        let error = app.get(mistaken, "a").result().await;
        let text = error.expect_err("it is a number").to_string();
        assert!(text.contains("String`"), "{text}");
        assert!(
            text.contains("run a is of workflow number, and workflow mistaken was asked for"),
            "{text}"
        );
    });
}

#[workflow]
async fn mistaken(ctx: Ctx) -> Result<String> {
    Ok(ctx.run(TAKES_NUMBER, 5).retry(RetryPolicy::never()).await?)
}

#[workflow]
async fn misread(ctx: Ctx) -> Result<u64> {
    const MAKES_NUMBER: ActivityDef<usize, u64> = ActivityDef::new("makes");
    Ok(ctx.run(MAKES_NUMBER, 5).await?)
}

#[test]
fn an_activity_with_another_signature_is_named() {
    drive(async {
        let env = TestEnv::new()
            .report(|_| ())
            .activity(takes)
            .activity(makes);
        let app = env.workflow(mistaken).workflow(misread).start().await;
        let text = failure(app.run(mistaken, ()).await);
        assert!(
            text.contains("the input of activity takes is not a"),
            "{text}"
        );
        let run = app.start(misread, ()).await.expect("it starts");
        let found = until(&run, |d| d.trouble.is_some()).await;
        let text = found.trouble.expect("it is in trouble").failure.to_string();
        assert!(
            text.contains("the result of activity makes is not a `u64`"),
            "{text}"
        );
    });
}
