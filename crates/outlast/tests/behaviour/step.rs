//! Steps: closures whose result is recorded.

use std::sync::atomic::{AtomicU32, Ordering};

use outlast::Settings;
use outlast::prelude::*;
use tokio::sync::Semaphore;

use super::support::{drive, failure, sound};

#[workflow]
async fn parse(ctx: Ctx, text: String) -> Result<u64> {
    let step = ctx.step("parse", move || {
        let text = text.clone();
        async move { Ok(text.parse::<u64>()?) }
    });
    Ok(step.retry(RetryPolicy::times(2)).await? + 1)
}

#[test]
fn a_step_gives_the_result_of_its_closure() {
    drive(async {
        let app = TestEnv::new().workflow(parse).start().await;
        let run = app.start(parse, "41").await.expect("it starts");
        assert_eq!(run.result().await.expect("it ends"), 42);
        sound(&run, parse).await;
    });
}

#[test]
fn a_step_that_fails_too_often_fails_its_caller() {
    drive(async {
        let app = TestEnv::new().workflow(parse).start().await;
        let run = app.start(parse, "many").await.expect("it starts");
        let text = failure(run.result().await);
        assert!(text.contains("invalid digit"), "{text}");
        sound(&run, parse).await;
    });
}

static CALLS: AtomicU32 = AtomicU32::new(0);

#[workflow]
async fn plain(ctx: Ctx) -> Result<u32> {
    let name = String::from("a plain closure");
    let step = ctx.step_fn("count", move || {
        let this = CALLS.fetch_add(1, Ordering::SeqCst) + 1;
        assert!(this > 1, "{name} that panics is tried again");
        this
    });
    let drawn = step.retry(RetryPolicy::times(3)).await?;
    ctx.sleep(1.hours()).await?;
    Ok(drawn)
}

#[test]
fn a_plain_closure_is_a_step_and_what_it_returned_is_recorded() {
    drive(async {
        let app = TestEnv::new().workflow(plain).start().await;
        let run = app.start(plain, ()).await.expect("it starts");
        assert_eq!(run.result().await.expect("it ends"), 2);
        sound(&run, plain).await;
        assert_eq!(CALLS.load(Ordering::SeqCst), 2, "a replay calls it not");
    });
}

static TRIES: AtomicU32 = AtomicU32::new(0);

#[workflow]
async fn shaky(ctx: Ctx) -> Result<u32> {
    let step = ctx.step("shaky", || async {
        let this = TRIES.fetch_add(1, Ordering::SeqCst) + 1;
        assert!(this > 3, "try {this}");
        Ok(this)
    });
    Ok(step.await?)
}

#[test]
fn a_step_that_panics_is_tried_again() {
    drive(async {
        let app = TestEnv::new().workflow(shaky).start().await;
        let run = app.start(shaky, ()).await.expect("it starts");
        assert_eq!(run.result().await.expect("it ends"), 4);
        sound(&run, shaky).await;
    });
}

#[workflow]
async fn many(ctx: Ctx) -> Result<u64> {
    let steps = (0..20_u64).map(|n| ctx.step(&format!("s{n}"), move || async move { Ok(n) }));
    let all = futures::future::try_join_all(steps).await?;
    let sum: u64 = all.into_iter().sum();
    ctx.sleep(1.secs()).await?;
    let more = ctx.step("more", move || async move { Ok(sum + 1) }).await?;
    Ok(more)
}

#[test]
fn steps_run_side_by_side_and_one_after_another() {
    drive(async {
        let app = TestEnv::new().workflow(many).start().await;
        let run = app.start(many, ()).await.expect("it starts");
        assert_eq!(run.result().await.expect("it ends"), 191);
        sound(&run, many).await;
    });
}

#[workflow]
async fn gives_up(ctx: Ctx) -> Result<bool> {
    let endless = ctx.step("endless", || async {
        std::future::pending::<()>().await;
        Ok(())
    });
    Ok(endless
        .timeout(1.hours())
        .await
        .is_err_and(|e| e.is_timeout()))
}

#[test]
fn a_step_can_be_given_up() {
    drive(async {
        let env = TestEnv::new().workflow(gives_up);
        let clock = env.clock();
        let app = env.start().await;
        let run = app.start(gives_up, ()).await.expect("it starts");
        clock.advance(&app, 1.hours());
        assert!(run.result().await.expect("it ends"));
        sound(&run, gives_up).await;
    });
}

/// Opened when the step that holds the only slot may end.
static GATE: Semaphore = Semaphore::const_new(0);
/// Whether that step has begun, and how often the one behind it did.
static BODIES: [AtomicU32; 2] = [AtomicU32::new(0), AtomicU32::new(0)];

#[activity]
async fn open_the_gate() -> Result<()> {
    GATE.add_permits(1);
    Ok(())
}

#[workflow]
async fn queued(ctx: Ctx) -> Result<(bool, u32)> {
    let first = ctx.step("first", || async {
        BODIES[0].fetch_add(1, Ordering::SeqCst);
        GATE.acquire().await?.forget();
        Ok(1)
    });
    let second = ctx.step("second", || async {
        Ok(BODIES[1].fetch_add(1, Ordering::SeqCst))
    });
    ctx.sleep(1.mins()).await?;
    second.cancel();
    let outcome = second.await;
    ctx.run(open_the_gate, ()).await?;
    Ok((
        outcome.is_err_and(|error| error.is_cancelled()),
        first.await?,
    ))
}

#[test]
fn a_step_that_is_cancelled_while_it_waits_for_a_slot_never_begins() {
    drive(async {
        let env = TestEnv::new().activity(open_the_gate).workflow(queued);
        let env = env.settings(Settings {
            step_slots: 1,
            ..Settings::default()
        });
        let clock = env.clock();
        let app = env.start().await;
        let run = app.start(queued, ()).await.expect("it starts");
        while BODIES[0].load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
        clock.advance(&app, 1.mins());
        assert_eq!(run.result().await.expect("it ends"), (true, 1));
        sound(&run, queued).await;
        app.shutdown().await;
        let bodies = [&BODIES[0], &BODIES[1]].map(|body| body.load(Ordering::SeqCst));
        assert_eq!(bodies, [1, 0]);
    });
}
