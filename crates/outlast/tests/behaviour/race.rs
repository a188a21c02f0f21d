//! Several things at once: select, timeouts, branches.

use outlast::CancelMode;
use outlast::prelude::*;
use outlast::testing::replay;

use super::support::{drive, failure, sound};

#[activity]
async fn quote(ctx: ActivityCtx, hours: u64) -> Result<u64> {
    if hours > 0 {
        return Err(ctx.cancelled().await.into());
    }
    Ok(7)
}

#[workflow]
async fn first_of(ctx: Ctx, hours: u64) -> Result<String> {
    Ok(outlast::select! {
        price = ctx.run(quote, hours) => format!("price {}", price?),
        _ = ctx.sleep(1.hours()) => "too late".to_owned(),
    })
}

#[test]
fn select_takes_the_first_and_cancels_the_rest() {
    drive(async {
        let env = TestEnv::new().activity(quote).workflow(first_of);
        let clock = env.clock();
        let app = env.start().await;
        let quick = app.start(first_of, 0).await.expect("it starts");
        assert_eq!(quick.result().await.expect("it ends"), "price 7");
        let history = sound(&quick, first_of).await;
        assert!(!super::support::names(&history).contains(&"TimerFired"));
        let slow = app.start(first_of, 2).await.expect("it starts");
        clock.advance(&app, 1.hours());
        assert_eq!(slow.result().await.expect("it ends"), "too late");
        sound(&slow, first_of).await;
    });
}

#[workflow]
async fn bounded(ctx: Ctx) -> Result<u64> {
    Ok(ctx.run(quote, 2).timeout(30.mins()).await?)
}

#[test]
fn a_call_gives_up_after_its_timeout() {
    drive(async {
        let env = TestEnv::new().activity(quote).workflow(bounded);
        let clock = env.clock();
        let app = env.start().await;
        let run = app.start(bounded, ()).await.expect("it starts");
        clock.advance(&app, 30.mins());
        let error = run.result().await.expect_err("it fails");
        assert!(error.is_timeout(), "{error}");
        sound(&run, bounded).await;
    });
}

#[workflow]
async fn block(ctx: Ctx) -> Result<bool> {
    let work = async {
        ctx.sleep(2.days()).await?;
        ctx.sleep(2.days()).await
    };
    let late = work.timeout(3.days()).await;
    Ok(late.is_err_and(|e| e.is_timeout()))
}

#[test]
fn a_block_gives_up_after_its_timeout() {
    drive(async {
        let env = TestEnv::new().workflow(block);
        let clock = env.clock();
        let before = clock.now();
        let app = env.start().await;
        let run = app.start(block, ()).await.expect("it starts");
        assert!(run.result().await.expect("it ends"));
        assert_eq!(clock.now().since(before), 3.days());
        sound(&run, block).await;
    });
}

#[workflow]
async fn branches(ctx: Ctx) -> Result<Vec<u64>> {
    let tasks: Vec<_> = [3_u64, 1, 2]
        .into_iter()
        .map(|n| {
            ctx.spawn(async move {
                ctx.sleep(n.hours()).await?;
                outlast::Ok(n * 10)
            })
        })
        .collect();
    let mut all = Vec::new();
    for task in tasks {
        all.push(task.await?);
    }
    Ok(all)
}

#[test]
fn branches_sleep_at_the_same_time() {
    drive(async {
        let env = TestEnv::new().workflow(branches);
        let clock = env.clock();
        let before = clock.now();
        let app = env.start().await;
        let run = app.start(branches, ()).await.expect("it starts");
        assert_eq!(run.result().await.expect("it ends"), [30, 10, 20]);
        assert_eq!(clock.now().since(before), 3.hours());
        sound(&run, branches).await;
    });
}

#[workflow]
async fn limited(ctx: Ctx) -> Result<u64> {
    Ok(ctx
        .run(quote, 2)
        .start_to_close(5.secs())
        .retry(RetryPolicy::times(2))
        .await?)
}

#[test]
fn an_attempt_over_its_time_is_stopped_and_tried_again() {
    drive(async {
        let env = TestEnv::new().activity(quote).workflow(limited);
        let clock = env.clock();
        let app = env.start().await;
        let run = app.start(limited, ()).await.expect("it starts");
        clock.advance(&app, 5.secs());
        super::support::until(&run, |d| format!("{:?}", d.waiting).contains("Attempt(2)")).await;
        clock.advance(&app, 1.secs());
        super::support::until(&run, |d| format!("{:?}", d.waiting).contains("Running")).await;
        clock.advance(&app, 5.secs());
        let error = run.result().await.expect_err("it fails");
        assert!(error.is_timeout(), "{error:?}");
        sound(&run, limited).await;
    });
}

#[workflow]
async fn waits_for_the_end(ctx: Ctx) -> Result<bool> {
    let call = ctx.run(quote, 1).cancel_mode(CancelMode::Wait);
    ctx.sleep(1.secs()).await?;
    call.cancel();
    Ok(call.await.is_err_and(|e| e.is_cancelled()))
}

#[test]
fn a_cancelled_call_that_waits_hears_from_its_attempt() {
    drive(async {
        let env = TestEnv::new().activity(quote).workflow(waits_for_the_end);
        let clock = env.clock();
        let app = env.start().await;
        let run = app.start(waits_for_the_end, ()).await.expect("it starts");
        clock.advance(&app, 1.secs());
        assert!(run.result().await.expect("it ends"));
        sound(&run, waits_for_the_end).await;
    });
}

#[workflow]
async fn out_of_time(ctx: Ctx) -> Result<()> {
    ctx.sleep(2.hours()).await?;
    Ok(())
}

#[test]
fn a_run_over_its_time_ends() {
    drive(async {
        let app = TestEnv::new().workflow(out_of_time).start().await;
        let run = app
            .start(out_of_time, ())
            .run_timeout(1.hours())
            .await
            .expect("it starts");
        let error = run.result().await.expect_err("it fails");
        assert!(error.is_timeout(), "{error}");
        assert!(failure(run.result().await).contains("run timeout"));
        sound(&run, out_of_time).await;
    });
}

#[activity]
async fn left() -> Result<()> {
    Ok(())
}

#[activity]
async fn right() -> Result<()> {
    Ok(())
}

/// So many races that chance does not decide all of them in the same way twice.
#[workflow]
async fn by_chance(ctx: Ctx) -> Result<()> {
    for _ in 0..40 {
        let is_left = tokio::select! {
            woken = ctx.sleep(1.hours()) => woken.is_ok(),
            woken = ctx.sleep(1.hours()) => woken.is_err(),
        };
        if is_left {
            ctx.run(left, ()).await?;
        } else {
            ctx.run(right, ()).await?;
        }
    }
    Ok(())
}

#[test]
fn the_select_of_tokio_is_found_by_a_replay_and_named() {
    drive(async {
        let env = TestEnv::new().activity(left).activity(right);
        let app = env.workflow(by_chance).start().await;
        let run = app.start(by_chance, ()).await.expect("it starts");
        run.result().await.expect("live, nobody can tell");
        let history = run.history().await.expect("it is there");
        let found = replay(by_chance, &history).expect_err("it takes others");
        let text = found.to_string();
        for part in [
            "`left`",
            "`right`",
            "ended in the same task, and a `select!` of tokio",
            "`outlast::select!` takes the first declared",
            "race.rs:",
        ] {
            assert!(text.contains(part), "`{part}` is not in: {text}");
        }
    });
}
