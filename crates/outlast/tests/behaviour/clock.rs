//! A clock that jumps: what is due is due by the clock, whatever the times of events show.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use outlast::model::Timestamp;
use outlast::prelude::*;
use outlast::testing::TestClock;
use outlast::{App, Handle};

use super::support::{drive, sound};

const NOISE: Signal<u64> = signal("noise");
const GO: Signal<u64> = signal("go");

/// The clock is a day ahead for a moment, in which the run hears something.
async fn ahead_for_a_moment<T>(app: &App, clock: &TestClock, run: &Handle<T>) -> Timestamp {
    let begin = clock.now();
    clock.advance(app, 1.days());
    run.send(NOISE, 1).await.expect("it is durable");
    clock.set(app, begin);
    run.send(GO, 1).await.expect("it is durable");
    begin
}

#[workflow]
async fn nap(ctx: Ctx) -> Result<()> {
    ctx.recv(GO).await?;
    ctx.sleep(10.secs()).await?;
    Ok(())
}

#[test]
fn a_timer_is_not_delayed_by_a_clock_that_was_ahead_for_a_moment() {
    drive(async {
        let env = TestEnv::new().workflow(nap);
        let clock = env.clock();
        let app = env.start().await;
        let run = app.start(nap, ()).await.expect("it starts");
        let begin = ahead_for_a_moment(&app, &clock, &run).await;
        run.result().await.expect("it ends");
        assert_eq!(clock.now().since(begin), 10.secs());
        let history = sound(&run, nap).await;
        let last = history.last().expect("it has events");
        assert_eq!(
            last.time.since(begin),
            1.days(),
            "times of events never fall"
        );
    });
}

#[test]
fn a_timer_does_not_fire_early_when_the_clock_goes_back() {
    drive(async {
        let env = TestEnv::new().workflow(nap);
        let clock = env.clock();
        let app = env.start().await;
        let run = app.start(nap, ()).await.expect("it starts");
        run.send(GO, 1).await.expect("it is durable");
        let begin = clock.now();
        clock.set(&app, Timestamp(begin.0 - micros(1.days())));
        clock.advance(&app, 1.hours());
        assert!(run.describe().await.expect("it is there").outcome.is_none());
        run.result().await.expect("it ends");
        assert_eq!(clock.now(), begin.after(10.secs()));
        sound(&run, nap).await;
    });
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).expect("it is no eternity")
}

#[activity]
async fn refused() -> Result<()> {
    Err(Error::msg("not now"))
}

#[workflow]
async fn patient(ctx: Ctx) -> Result<()> {
    ctx.recv(GO).await?;
    ctx.run(refused, ()).schedule_to_close(10.secs()).await?;
    Ok(())
}

#[test]
fn a_timeout_is_not_delayed_by_a_clock_that_was_ahead_for_a_moment() {
    drive(async {
        let env = TestEnv::new().activity(refused).workflow(patient);
        let clock = env.clock();
        let app = env.start().await;
        let run = app.start(patient, ()).await.expect("it starts");
        let begin = ahead_for_a_moment(&app, &clock, &run).await;
        run.result().await.expect_err("it runs out of time");
        assert!(clock.now().since(begin) <= 10.secs());
        sound(&run, patient).await;
    });
}

static TRIES: AtomicU32 = AtomicU32::new(0);

#[workflow]
async fn stumbles(ctx: Ctx) -> Result<()> {
    ctx.recv(GO).await?;
    assert!(TRIES.fetch_add(1, Ordering::SeqCst) > 0, "it stumbles");
    Ok(())
}

#[test]
fn a_failed_task_is_tried_again_although_the_clock_was_ahead_for_a_moment() {
    drive(async {
        let env = TestEnv::new().workflow(stumbles);
        let clock = env.clock();
        let app = env.start().await;
        let run = app.start(stumbles, ()).await.expect("it starts");
        let begin = ahead_for_a_moment(&app, &clock, &run).await;
        run.result().await.expect("it ends");
        assert_eq!(clock.now().since(begin), 1.secs());
    });
}
