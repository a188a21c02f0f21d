//! What a cancel does at each kind of await.

use std::sync::Mutex;

use outlast::prelude::*;
use outlast::{Builder, CallError, CancelMode};

use super::bench::{Bench, eventually};

pub(crate) fn register(builder: Builder) -> Builder {
    builder
        .activity(lasting)
        .activity(tidy)
        .workflow(waits)
        .workflow(cleans_up)
        .workflow(stubborn)
        .workflow(picky)
}

static BEGUN: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn has_begun(whose: &str) -> Option<()> {
    let begun = BEGUN.lock().expect("nobody panics with it");
    begun.iter().any(|who| who == whose).then_some(())
}

#[activity]
async fn lasting(ctx: ActivityCtx, whose: String) -> Result<()> {
    BEGUN.lock().expect("nobody panics with it").push(whose);
    loop {
        // A cluster tells an attempt to stop when it reports.
        ctx.heartbeat(())?;
        tokio::time::sleep(20.millis()).await;
    }
}

#[activity]
async fn tidy(whose: String) -> Result<()> {
    BEGUN.lock().expect("nobody panics with it").push(whose);
    Ok(())
}

const NEVER: Signal<()> = signal("never");

#[workflow]
async fn waits(ctx: Ctx, (kind, whose): (String, String)) -> Result<()> {
    let lasting = |mode| {
        let call = ctx.run(lasting, &whose).heartbeat(1.secs());
        call.retry(RetryPolicy::times(1)).cancel_mode(mode)
    };
    match kind.as_str() {
        "timer" => ctx.sleep(60.secs()).await?,
        "activity" => lasting(CancelMode::Try).await?,
        "activity that waits" => lasting(CancelMode::Wait).await?,
        "abandoned activity" => lasting(CancelMode::Abandon).await?,
        "signal" => ctx.recv(NEVER).await?,
        "step" => {
            let step = ctx.step("endless", || async {
                std::future::pending::<()>().await;
                Ok(())
            });
            step.await?;
        }
        "branch" => ctx.spawn(async move { ctx.sleep(60.secs()).await }).await?,
        other => Err(format!("unknown: {other}"))?,
    }
    Ok(())
}

async fn cancelled(bench: Bench, kind: &str) -> Vec<String> {
    let whose = bench.id("whose");
    let run = bench.app.start(waits, (kind.to_owned(), whose.clone()));
    let run = run.await.expect("it starts");
    if kind.contains("activity") {
        eventually(async || has_begun(&whose)).await;
    }
    run.cancel().await.expect("it is told");
    let error = run.result().await.expect_err("it stops");
    assert!(error.is_cancelled(), "{error}");
    bench.sound(&run, waits).await;
    vec!["cancelled".into()]
}

pub(crate) async fn at_a_timer(bench: Bench) -> Vec<String> {
    cancelled(bench, "timer").await
}

pub(crate) async fn at_an_activity(bench: Bench) -> Vec<String> {
    cancelled(bench, "activity").await
}

pub(crate) async fn at_an_activity_that_cleans_up(bench: Bench) -> Vec<String> {
    cancelled(bench, "activity that waits").await
}

pub(crate) async fn at_an_abandoned_activity(bench: Bench) -> Vec<String> {
    cancelled(bench, "abandoned activity").await
}

pub(crate) async fn at_a_signal(bench: Bench) -> Vec<String> {
    cancelled(bench, "signal").await
}

pub(crate) async fn at_a_step(bench: Bench) -> Vec<String> {
    cancelled(bench, "step").await
}

pub(crate) async fn at_a_branch(bench: Bench) -> Vec<String> {
    cancelled(bench, "branch").await
}

#[workflow]
async fn cleans_up(ctx: Ctx, whose: String) -> Result<()> {
    let slept = ctx.sleep(60.secs()).await;
    ctx.shield(async || {
        ctx.sleep(10.millis()).await?;
        ctx.run(tidy, &whose).await
    })
    .await?;
    Ok(slept?)
}

pub(crate) async fn cleaning_up_in_a_shield(bench: Bench) -> Vec<String> {
    let whose = bench.id("whose");
    let run = bench.app.start(cleans_up, &whose).await.expect("it starts");
    run.cancel().await.expect("it is told");
    let error = run.result().await.expect_err("it stops");
    assert!(error.is_cancelled(), "{error}");
    has_begun(&whose).expect("it has tidied up");
    bench.sound(&run, cleans_up).await;
    vec!["tidied".into(), "cancelled".into()]
}

#[workflow]
async fn stubborn(ctx: Ctx, whose: String) -> Result<String> {
    let slept = ctx.sleep(60.secs()).await;
    assert!(slept.is_err_and(|error| error.is_cancelled()));
    ctx.run(tidy, &whose).shielded().await?;
    Ok("done anyway".into())
}

pub(crate) async fn ignoring_it(bench: Bench) -> Vec<String> {
    let run = bench.app.start(stubborn, bench.id("whose")).await;
    let run = run.expect("it starts");
    run.cancel().await.expect("it is told");
    let said = run.result().await.expect("it ends");
    bench.sound(&run, stubborn).await;
    vec![said]
}

#[workflow]
async fn picky(ctx: Ctx, whose: String) -> Result<(bool, bool)> {
    let call = ctx.run(lasting, format!("{whose}/picky"));
    ctx.sleep(20.millis()).await?;
    call.cancel();
    let is_told = call.is_cancelled();
    let ended = call.await;
    ctx.run(tidy, &whose).await?;
    Ok((is_told, ended.is_err_and(|error| error.is_cancelled())))
}

pub(crate) async fn one_call_only(bench: Bench) -> Vec<String> {
    let run = bench.app.start(picky, bench.id("whose")).await;
    let run = run.expect("it starts");
    let (is_told, is_cancelled) = run.result().await.expect("it ends");
    assert!(is_told);
    bench.sound(&run, picky).await;
    vec![format!("cancelled {is_cancelled}"), "went on".into()]
}

pub(crate) async fn terminated(bench: Bench) -> Vec<String> {
    let input = ("timer".to_owned(), String::new());
    let run = bench.app.start(waits, input).await.expect("it starts");
    run.terminate("enough").await.expect("it ends");
    let error = run.result().await.expect_err("it was ended");
    assert!(matches!(error, CallError::Terminated(_)), "{error}");
    bench.sound(&run, waits).await;
    vec!["terminated".into()]
}
