//! Slots, limits and deadlines of attempts.

use std::sync::{Arc, Mutex};

use outlast::prelude::*;
use outlast::{CancelMode, Settings};

use super::support::{drive, failure, sound, until};

#[derive(Clone, Default)]
struct Busy(Arc<Mutex<(u32, u32)>>);

impl Busy {
    fn enter(&self) {
        let mut busy = self.0.lock().expect("nobody panics with it");
        busy.0 += 1;
        busy.1 = busy.1.max(busy.0);
    }

    fn leave(&self) {
        self.0.lock().expect("nobody panics with it").0 -= 1;
    }

    fn most(&self) -> u32 {
        self.0.lock().expect("nobody panics with it").1
    }
}

#[activity]
async fn work(State(busy): State<Busy>, n: u64) -> Result<u64> {
    busy.enter();
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
    busy.leave();
    Ok(n)
}

#[activity]
async fn hog(ctx: ActivityCtx) -> Result<()> {
    Err(ctx.cancelled().await.into())
}

fn slots(activity_slots: usize) -> Settings {
    Settings {
        activity_slots,
        step_slots: 1,
        ..Settings::default()
    }
}

#[workflow]
async fn fan(ctx: Ctx, width: u64) -> Result<u64> {
    let all = futures::future::try_join_all((0..width).map(|n| ctx.run(work, n))).await?;
    let steps = (0..width).map(|n| ctx.step("s", move || async move { Ok(n) }));
    let more = futures::future::try_join_all(steps).await?;
    Ok(all.into_iter().chain(more).sum())
}

#[test]
fn no_more_attempts_run_than_there_are_slots() {
    drive(async {
        let busy = Busy::default();
        let env = TestEnv::new().state(busy.clone());
        let env = env.activity(work).workflow(fan).settings(slots(3));
        let app = env.start().await;
        let a = app.start(fan, 30).await.expect("it starts");
        let b = app.start(fan, 30).await.expect("it starts");
        assert_eq!(a.result().await.expect("it ends"), 870);
        assert_eq!(b.result().await.expect("it ends"), 870);
        assert!(busy.most() <= 3, "{} at a time", busy.most());
        sound(&a, fan).await;
        sound(&b, fan).await;
    });
}

static STEPS: Mutex<(u32, u32)> = Mutex::new((0, 0));

/// One too many would come in meanwhile.
async fn linger() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

/// Ends when so many have been inside at a time: fewer would wait for ever.
#[activity]
async fn meet(State(busy): State<Busy>) -> Result<()> {
    busy.enter();
    while busy.most() < 3 {
        tokio::task::yield_now().await;
    }
    linger().await;
    busy.leave();
    Ok(())
}

async fn meet_in_step() -> Result<()> {
    let change = |by: i32| {
        let mut steps = STEPS.lock().expect("nobody panics with it");
        steps.0 = steps.0.saturating_add_signed(by);
        steps.1 = steps.1.max(steps.0);
        steps.1
    };
    change(1);
    while change(0) < 2 {
        tokio::task::yield_now().await;
    }
    linger().await;
    change(-1);
    Ok(())
}

#[workflow]
async fn meetings(ctx: Ctx, width: u64) -> Result<()> {
    let steps = (0..width).map(|_| ctx.step("meet", meet_in_step));
    let steps = futures::future::try_join_all(steps);
    let all = futures::future::try_join_all((0..width).map(|_| ctx.run(meet, ())));
    let (all, steps) = futures::join!(all, steps);
    all?;
    steps?;
    Ok(())
}

#[workflow]
async fn hogs_and_steps(ctx: Ctx) -> Result<u64> {
    let hogs: Vec<_> = (0..3).map(|_| ctx.run(hog, ())).collect();
    let n = ctx.step("beside", || async { Ok(7) }).await?;
    drop(hogs);
    Ok(n)
}

#[test]
fn slots_of_activities_and_of_steps_are_used_in_full_and_are_not_the_same() {
    drive(async {
        let busy = Busy::default();
        let settings = Settings {
            activity_slots: 3,
            step_slots: 2,
            ..Settings::default()
        };
        let env = TestEnv::new().state(busy.clone()).settings(settings);
        let env = env.activity(meet).activity(hog);
        let app = env
            .workflow(meetings)
            .workflow(hogs_and_steps)
            .start()
            .await;
        let run = app.start(meetings, 30).await.expect("it starts");
        run.result().await.expect("it ends");
        assert_eq!(busy.most(), 3);
        assert_eq!(STEPS.lock().expect("nobody panics with it").1, 2);
        sound(&run, meetings).await;
        let beside = app.run(hogs_and_steps, ()).await;
        assert_eq!(beside.expect("a step takes no slot of activities"), 7);
    });
}

#[workflow]
async fn queued(ctx: Ctx, how: String) -> Result<String> {
    let first = ctx.run(hog, ());
    let second = ctx.run(work, 1);
    let second = match how.as_str() {
        "to start" => second.schedule_to_start(1.mins()),
        "to close" => second.schedule_to_close(1.mins()),
        _ => second.cancel_mode(CancelMode::Wait),
    };
    if how == "cancel" {
        ctx.sleep(1.secs()).await?;
        second.cancel();
    }
    let outcome = second.await;
    drop(first);
    match outcome {
        Ok(n) => Ok(n.to_string()),
        Err(error) if error.is_cancelled() => Ok("cancelled".into()),
        Err(error) => Err(error.into()),
    }
}

#[test]
fn an_attempt_that_waits_for_a_slot_can_run_out_of_time_or_be_cancelled() {
    drive(async {
        for how in ["to start", "to close", "cancel"] {
            let env = TestEnv::new().state(Busy::default());
            let env = env.activity(work).activity(hog).workflow(queued);
            let env = env.settings(slots(1));
            let clock = env.clock();
            let app = env.start().await;
            let run = app.start(queued, how).await.expect("it starts");
            clock.advance(&app, 1.mins());
            if how == "cancel" {
                assert_eq!(run.result().await.expect("it ends"), "cancelled");
            } else {
                let error = run.result().await.expect_err("it fails");
                assert!(error.is_timeout(), "{how}: {error}");
            }
            sound(&run, queued).await;
        }
    });
}

#[activity]
async fn always_fails() -> Result<()> {
    Err("no")?
}

#[workflow]
async fn gives_up(ctx: Ctx) -> Result<()> {
    ctx.run(always_fails, ())
        .schedule_to_close(1.hours())
        .await?;
    Ok(())
}

#[test]
fn retries_end_with_the_time_for_all_of_them() {
    drive(async {
        let env = TestEnv::new().activity(always_fails).workflow(gives_up);
        let clock = env.clock();
        let before = clock.now();
        let app = env.start().await;
        let run = app.start(gives_up, ()).await.expect("it starts");
        let text = failure(run.result().await);
        assert!(text.contains("no"), "{text}");
        assert!(clock.now().since(before) <= 1.hours());
        sound(&run, gives_up).await;
    });
}

#[workflow]
async fn in_back_off(ctx: Ctx) -> Result<()> {
    Ok(ctx
        .run(always_fails, ())
        .cancel_mode(CancelMode::Wait)
        .await?)
}

#[test]
fn an_activity_between_two_attempts_can_be_cancelled() {
    drive(async {
        let app = TestEnv::new()
            .activity(always_fails)
            .workflow(in_back_off)
            .start()
            .await;
        let run = app.start(in_back_off, ()).await.expect("it starts");
        until(&run, |d| format!("{:?}", d.waiting).contains("Attempt(2)")).await;
        run.cancel().await.expect("it is durable");
        let error = run.result().await.expect_err("it does not complete");
        assert!(error.is_cancelled(), "{error}");
        sound(&run, in_back_off).await;
    });
}

#[activity]
async fn reports_twice(ctx: ActivityCtx) -> Result<u64> {
    let last = ctx.last_heartbeat::<u64>();
    if let Some(last) = last {
        return Ok(last);
    }
    ctx.heartbeat(1)?;
    ctx.heartbeat(2)?;
    Err("the second report is not sent yet")?
}

#[workflow]
async fn throttled(ctx: Ctx) -> Result<u64> {
    Ok(ctx.run(reports_twice, ()).heartbeat(1.hours()).await?)
}

#[test]
fn a_report_held_back_is_sent_before_the_failure() {
    drive(async {
        let app = TestEnv::new()
            .activity(reports_twice)
            .workflow(throttled)
            .start()
            .await;
        assert_eq!(app.run(throttled, ()).await.expect("it ends"), 2);
    });
}
