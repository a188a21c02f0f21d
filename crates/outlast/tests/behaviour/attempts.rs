//! What an attempt can do beside its work: children, sleeping, hearing that it should stop, and
//! reporting so that the next attempt goes on from there.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use outlast::prelude::*;
use outlast::{CancelMode, StopReason};

use super::support::{cached, drive, sound};

/// Counts those that are there.
#[derive(Clone, Default)]
struct Alive(Arc<AtomicUsize>);

impl Alive {
    fn enter(&self) -> Present {
        self.0.fetch_add(1, Ordering::SeqCst);
        Present(self.0.clone())
    }
}

struct Present(Arc<AtomicUsize>);

impl Drop for Present {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[activity]
async fn family(ctx: ActivityCtx, State(alive): State<Alive>, how: String) -> Result<String> {
    for _ in 0..3 {
        let present = alive.enter();
        drop(ctx.spawn(async move {
            let _present = present;
            std::future::pending::<()>().await;
        }));
    }
    let sum = ctx.spawn(async { 1 + 1 }).await?;
    assert_eq!(sum, 2);
    let broken = ctx.spawn(async move { assert_ne!(sum, 2, "on purpose") });
    let caught = broken.await.expect_err("it panicked");
    assert!(matches!(caught, CallError::Panicked(_)), "{caught}");
    match how.as_str() {
        "returns" => Ok(how),
        "fails" => Err("it fails")?,
        _ => {
            ctx.sleep(Duration::from_secs(3_600)).await?;
            Ok("slept".into())
        }
    }
}

#[activity]
fn blocking_family(ctx: ActivityCtx, State(alive): State<Alive>) -> Result<()> {
    let present = alive.enter();
    drop(ctx.spawn(async move {
        let _present = present;
        std::future::pending::<()>().await;
    }));
    ctx.check_cancelled()?;
    ctx.sleep_blocking(Duration::from_secs(3_600))?;
    Ok(())
}

#[workflow]
async fn asks(ctx: Ctx, how: String) -> Result<String> {
    let call = ctx.run(family, how).cancel_mode(CancelMode::Wait);
    Ok(call.retry(RetryPolicy::never()).await?)
}

#[workflow]
async fn asks_blocking(ctx: Ctx) -> Result<()> {
    let call = ctx.run(blocking_family, ()).cancel_mode(CancelMode::Wait);
    Ok(call.await?)
}

#[test]
fn children_of_an_attempt_end_before_its_outcome_counts() {
    drive(async {
        let alive = Alive::default();
        let env = TestEnv::new().report(|_| ()).state(alive.clone());
        let app = env.activity(family).workflow(asks).start().await;
        let count = || alive.0.load(Ordering::SeqCst);
        assert_eq!(app.run(asks, "returns").await.expect("it ends"), "returns");
        assert_eq!(count(), 0);
        app.run(asks, "fails").await.expect_err("it fails");
        assert_eq!(count(), 0);
        let run = app.start(asks, "sleeps").await.expect("it starts");
        while count() < 3 {
            tokio::task::yield_now().await;
        }
        run.cancel().await.expect("it is durable");
        let error = run.result().await.expect_err("it is cancelled");
        assert!(error.is_cancelled(), "{error}");
        assert_eq!(count(), 0);
        sound(&run, asks).await;
    });
}

#[test]
fn a_blocking_activity_hears_that_it_should_stop_while_it_sleeps() {
    drive(async {
        let alive = Alive::default();
        let env = TestEnv::new()
            .state(alive.clone())
            .activity(blocking_family);
        let app = env.workflow(asks_blocking).start().await;
        let run = app.start(asks_blocking, ()).await.expect("it starts");
        while alive.0.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
        run.cancel().await.expect("it is durable");
        let error = run.result().await.expect_err("it is cancelled");
        assert!(error.is_cancelled(), "{error}");
        assert_eq!(alive.0.load(Ordering::SeqCst), 0);
    });
}

type Reasons = Arc<Mutex<Vec<StopReason>>>;

#[activity]
async fn listens(
    ctx: ActivityCtx,
    State(alive): State<Alive>,
    State(reasons): State<Reasons>,
) -> Result<()> {
    let present = alive.enter();
    let error = ctx.cancelled().await;
    drop(present);
    let reason = ctx.stop_reason().expect("it was told");
    reasons.lock().expect("nobody panics with it").push(reason);
    Err(error.into())
}

#[workflow]
async fn waits(ctx: Ctx, limit: u64) -> Result<()> {
    let call = ctx.run(listens, ()).start_to_close(limit.secs());
    let call = call.cancel_mode(CancelMode::Wait);
    Ok(call.retry(RetryPolicy::never()).await?)
}

#[test]
fn an_attempt_is_told_why_it_should_stop() {
    drive(async {
        let (reasons, alive) = (Reasons::default(), Alive::default());
        let env = TestEnv::new().state(reasons.clone()).state(alive.clone());
        let env = env.activity(listens);
        let clock = env.clock();
        let app = env.workflow(waits).start().await;
        let heard = async |count: usize| loop {
            let reasons = reasons.lock().expect("nobody panics with it").clone();
            if reasons.len() == count {
                return reasons[count - 1];
            }
            tokio::task::yield_now().await;
        };
        // One that is told before it begins does not begin.
        let listening = async || {
            while alive.0.load(Ordering::SeqCst) == 0 {
                tokio::task::yield_now().await;
            }
        };
        let a = app.start(waits, 3_600).await.expect("it starts");
        listening().await;
        a.cancel().await.expect("it is durable");
        assert_eq!(heard(1).await, StopReason::Cancelled);
        let b = app.start(waits, 3_600).await.expect("it starts");
        listening().await;
        b.terminate("enough").await.expect("it is durable");
        assert_eq!(heard(2).await, StopReason::NotFound);
        app.start(waits, 1).await.expect("it starts");
        listening().await;
        clock.advance(&app, 1.secs());
        assert_eq!(heard(3).await, StopReason::TimedOut);
        app.start(waits, 3_600).await.expect("it starts");
        listening().await;
        app.shutdown_now().await;
        assert_eq!(heard(4).await, StopReason::Shutdown);
    });
}

#[activity]
async fn reports(ctx: ActivityCtx) -> Result<u64> {
    let last: u64 = ctx.last_heartbeat().unwrap_or(0);
    if last >= 5 {
        return Ok(last);
    }
    // Only the first goes out at once; the newest must be there when it fails.
    for n in 1..=5 {
        ctx.heartbeat(n)?;
    }
    Err("and again")?
}

#[workflow]
async fn reported(ctx: Ctx) -> Result<u64> {
    Ok(ctx.run(reports, ()).retry(RetryPolicy::times(2)).await?)
}

#[test]
fn the_newest_report_reaches_the_attempt_after_a_failure_on_disk() {
    drive(async {
        let directory = tempfile::tempdir().expect("a directory");
        let store = outlast_service::sqlite::SqliteStore::open(directory.path().join("a.db"));
        let env = TestEnv::on(Arc::new(store.expect("it opens")));
        let app = env.activity(reports).workflow(reported).start().await;
        assert_eq!(app.run(reported, ()).await.expect("it ends"), 5);
    });
}

#[activity]
async fn reports_and_hangs(ctx: ActivityCtx, State(alive): State<Alive>) -> Result<u64> {
    if let Some(last) = ctx.last_heartbeat() {
        return Ok(last);
    }
    ctx.heartbeat(7)?;
    let _present = alive.enter();
    Err(ctx.cancelled().await.into())
}

#[workflow]
async fn impatient(ctx: Ctx, how: String) -> Result<u64> {
    let call = ctx.run(reports_and_hangs, ());
    let call = match how.as_str() {
        "report" => call.heartbeat(10.secs()),
        _ => call.start_to_close(10.secs()),
    };
    Ok(call.await?)
}

#[test]
fn what_was_reported_reaches_the_attempt_after_a_time_out() {
    drive(async {
        for how in ["report", "end"] {
            let alive = Alive::default();
            let env = TestEnv::new().state(alive.clone());
            let env = env.activity(reports_and_hangs).workflow(impatient);
            let clock = env.clock();
            let app = env.start().await;
            let run = app.start(impatient, how).await.expect("it starts");
            while alive.0.load(Ordering::SeqCst) == 0 {
                tokio::task::yield_now().await;
            }
            // Its report may still be on its way, and count from when it is taken.
            while alive.0.load(Ordering::SeqCst) > 0 {
                clock.advance(&app, 1.secs());
                tokio::task::yield_now().await;
            }
            assert_eq!(run.result().await.expect("it ends"), 7, "{how}");
            sound(&run, impatient).await;
        }
    });
}

#[derive(Clone, Default)]
struct Count(Arc<AtomicUsize>);

#[activity]
async fn counted(State(count): State<Count>, n: u64) -> Result<u64> {
    count.0.fetch_add(1, Ordering::SeqCst);
    Ok(n + 1)
}

#[workflow]
async fn counts(ctx: Ctx) -> Result<u64> {
    let mut n = 0;
    for _ in 0..5 {
        n = ctx.run(counted, n).await?;
    }
    Ok(n)
}

#[test]
fn a_run_that_is_built_again_runs_no_attempt_again() {
    drive(async {
        let count = Count::default();
        let env = TestEnv::new().state(count.clone()).settings(cached(0));
        let app = env.activity(counted).workflow(counts).start().await;
        assert_eq!(app.run(counts, ()).await.expect("it ends"), 5);
        assert_eq!(count.0.load(Ordering::SeqCst), 5);
    });
}

#[activity]
async fn fails_three_times(ctx: ActivityCtx) -> Result<u32> {
    match ctx.attempt() {
        1..=3 => Err(format!("attempt {}", ctx.attempt()))?,
        attempt => Ok(attempt),
    }
}

#[workflow]
async fn patient(ctx: Ctx) -> Result<u32> {
    Ok(ctx.run(fails_three_times, ()).await?)
}

#[test]
fn the_second_failed_attempt_is_a_warning_and_no_other_is() {
    drive(async {
        let told = Arc::new(Mutex::new(Vec::new()));
        let notes = told.clone();
        let env = TestEnv::new().activity(fails_three_times).workflow(patient);
        let env =
            env.report(move |text| notes.lock().expect("nobody panics").push(text.to_owned()));
        let app = env.start().await;
        assert_eq!(app.run(patient, ()).await.expect("in the end"), 4);
        app.shutdown().await;
        let told = told.lock().expect("nobody panics");
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].contains("failed again: attempt 2"), "{told:?}");
        assert!(told[0].ends_with("[OL-5306]"), "{told:?}");
    });
}

/// Blocks the thread it is polled on, as only a plain `fn` may.
#[activity]
async fn blocks(n: usize) -> Result<usize> {
    Ok(tokio::runtime::Handle::current().block_on(async { n }))
}

#[activity]
fn may_block(n: usize) -> Result<usize> {
    Ok(tokio::runtime::Handle::current().block_on(async { n }))
}

/// How many calls of each are refused, and what one of them said.
#[workflow]
async fn blocking_calls(ctx: Ctx, count: usize) -> Result<(usize, usize, String)> {
    let once = || outlast::model::RetryPolicy::times(1);
    let wrong: Vec<_> = (0..count)
        .map(|n| ctx.run(blocks, n).retry(once()))
        .collect();
    let right: Vec<_> = (0..count)
        .map(|n| ctx.run(may_block, n).retry(once()))
        .collect();
    let (mut refused, mut done, mut said) = (0, 0, String::new());
    for call in wrong {
        if let Err(error) = call.await {
            refused += 1;
            said = error.to_string();
        }
    }
    for call in right {
        done += usize::from(call.await.is_ok());
    }
    Ok((refused, done, said))
}

#[test]
fn an_async_activity_that_blocks_fails_at_any_load_and_one_of_its_own_thread_at_none() {
    drive(async {
        let env = TestEnv::new().activity(blocks).activity(may_block);
        let app = env.workflow(blocking_calls).start().await;
        for count in [1, 2, 8, 9, 40] {
            let run = app.start(blocking_calls, count).await.expect("it starts");
            let (refused, done, said) = run.result().await.expect("it ends");
            assert_eq!((refused, done), (count, count));
            for part in ["activity blocks ", "without `async`", "block_on"] {
                assert!(said.contains(part), "{said}");
            }
            sound(&run, blocking_calls).await;
        }
    });
}
