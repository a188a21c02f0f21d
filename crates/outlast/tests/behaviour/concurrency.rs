//! Many things going on in one workflow, from the client to the store and back; with all
//! instances in memory and with none.

use std::rc::Rc;
use std::sync::Mutex;

use outlast::combine::{first_ok, try_map_concurrent};
use outlast::model::EventKind;
use outlast::prelude::*;
use outlast::sync::{Semaphore, WriteOnce, channel};
use outlast::{App, Scope};

use super::support::{cached, drive, failure, names, sound};

#[activity]
async fn double(n: u64) -> Result<u64> {
    if n == 13 {
        return Err(Error::msg("unlucky").terminal());
    }
    Ok(n * 2)
}

#[activity]
async fn endless(_n: u64) -> Result<u64> {
    std::future::pending::<()>().await;
    Ok(0)
}

static CLEANED: Mutex<Vec<String>> = Mutex::new(Vec::new());

#[activity]
async fn clean(who: String) -> Result<()> {
    CLEANED.lock().expect("nobody panics").push(who);
    Ok(())
}

/// How many have cleaned up whose name begins so.
fn cleaned(name: &str) -> usize {
    let cleaned = CLEANED.lock().expect("nobody panics");
    cleaned.iter().filter(|who| who.starts_with(name)).count()
}

/// The same test with all instances in memory, and with none.
fn both(test: impl AsyncFn(App)) {
    for runs in [1_000, 0] {
        drive(async {
            let env = TestEnv::new()
                .activity(double)
                .activity(endless)
                .activity(clean)
                .workflow(Cart::run)
                .workflow(fan_out)
                .workflow(failing)
                .workflow(cleaning)
                .workflow(handing_over)
                .workflow(taking_turns)
                .workflow(choosing);
            test(env.settings(cached(runs)).start().await).await;
        });
    }
}

#[derive(Default)]
struct Cart {
    items: u64,
    is_paid: bool,
}

#[workflow]
impl Cart {
    async fn run(ctx: Ctx<Self>, patience: u64) -> Result<String> {
        let filled = ctx.spawn(async move {
            ctx.wait_until(|cart| cart.items >= 2).await?;
            outlast::Ok(ctx.read(|cart| cart.items))
        });
        let paid = ctx.wait_until(|cart| cart.is_paid).timeout(patience.days());
        let paid = paid.await.is_ok();
        if !paid {
            filled.cancel();
            return Ok(format!(
                "left, {}",
                filled.await.is_err_and(|e| e.is_cancelled())
            ));
        }
        Ok(format!("paid for {}", filled.await?))
    }

    #[signal]
    fn add(&mut self) {
        self.items += 1;
    }

    #[signal]
    async fn pay(ctx: Ctx<Self>) -> Result<()> {
        ctx.run(double, 1).await?;
        ctx.with(|cart| cart.is_paid = true);
        Ok(())
    }
}

#[test]
fn conditions_wait_for_what_handlers_write() {
    both(async |app| {
        let run = app.start(Cart::run, 7).await.expect("it starts");
        run.add().await.expect("it is durable");
        run.add().await.expect("it is durable");
        run.pay().await.expect("it is durable");
        assert_eq!(run.result().await.expect("it ends"), "paid for 2");
        sound(&run, Cart::run).await;
    });
}

#[test]
fn a_condition_with_a_time_limit_gives_up_in_virtual_time() {
    both(async |app| {
        let run = app.start(Cart::run, 7).await.expect("it starts");
        assert_eq!(run.result().await.expect("it ends"), "left, true");
        sound(&run, Cart::run).await;
    });
}

#[workflow]
async fn fan_out(ctx: Ctx, n: u64) -> Result<Vec<u64>> {
    let limit = Rc::new(Semaphore::new(3));
    let (sender, mut receiver) = channel(2);
    let scope = ctx.scope(async |scope: Scope| {
        for n in 0..n {
            let (limit, sender) = (Rc::clone(&limit), sender.clone());
            scope
                .spawn(async move {
                    let _permit = limit.acquire().await?;
                    let doubled = ctx.run(double, n).await?;
                    sender.send((n, doubled)).await?;
                    outlast::Ok(())
                })
                .detach();
        }
        drop(sender);
        let mut all = Vec::new();
        while let Some(pair) = receiver.recv().await? {
            all.push(pair);
        }
        outlast::Ok(all)
    });
    let mut all = scope.await?;
    all.sort_unstable();
    Ok(all.into_iter().map(|(_, doubled)| doubled).collect())
}

#[test]
fn a_scope_fans_out_with_a_limit_and_gathers_through_a_channel() {
    both(async |app| {
        let run = app.start(fan_out, 12).await.expect("it starts");
        let expected: Vec<u64> = (0..12).map(|n| n * 2).collect();
        assert_eq!(run.result().await.expect("it ends"), expected);
        sound(&run, fan_out).await;
    });
}

#[workflow]
async fn failing(ctx: Ctx, kind: String) -> Result<u64> {
    match kind.as_str() {
        "branch" => {
            ctx.spawn(async move { ctx.run(double, 13).await }).detach();
            ctx.run(endless, 0).await?;
        }
        "supervised branch" => {
            let task = ctx.spawn(async move { ctx.run(double, 13).await });
            let failed = task.supervised().await.is_err();
            return Ok(ctx.run(double, u64::from(failed)).await?);
        }
        "scope" => {
            let scope = ctx.scope(async |scope: Scope| {
                scope
                    .spawn(async move { ctx.run(double, 13).await })
                    .detach();
                ctx.run(endless, 0).await
            });
            let text = scope.await.map_err(|error| error.to_string());
            assert!(text.is_err_and(|text| text.contains("unlucky")));
            return Ok(ctx.run(double, 2).await?);
        }
        other => Err(format!("unknown: {other}"))?,
    }
    Ok(0)
}

#[test]
fn a_branch_that_fails_fails_the_run_and_stops_what_runs_beside_it() {
    both(async |app| {
        let run = app.start(failing, "branch").await.expect("it starts");
        let text = failure(run.result().await);
        assert!(text.contains("activity double failed: unlucky"), "{text}");
        let history = sound(&run, failing).await;
        let asked = |event: &outlast::model::Event| {
            matches!(event.kind, EventKind::ActivityCancelRequested { .. })
        };
        assert!(history.iter().any(asked), "{:?}", names(&history));
    });
}

#[test]
fn a_supervised_branch_and_a_scope_keep_their_failure_to_themselves() {
    both(async |app| {
        for (kind, result) in [("supervised branch", 2), ("scope", 4)] {
            let run = app.start(failing, kind).await.expect("it starts");
            assert_eq!(run.result().await.expect("it ends"), result);
            sound(&run, failing).await;
        }
    });
}

#[workflow]
async fn cleaning(ctx: Ctx, name: String) -> Result<()> {
    let scope = ctx.scope(async |scope: Scope| {
        for n in 0..3 {
            let who = format!("{name} {n}");
            scope
                .spawn(async move {
                    let worked = ctx.run(endless, n).await;
                    ctx.shield(async || ctx.run(clean, who).await).await?;
                    worked.map(drop)
                })
                .detach();
        }
        outlast::Ok(())
    });
    scope.await?;
    ctx.sleep(1.hours()).await?;
    Ok(())
}

#[test]
fn a_cancel_reaches_every_branch_and_their_clean_up_is_waited_for() {
    for (name, runs) in [("kept", 1_000), ("evicted", 0)] {
        drive(async {
            let env = TestEnv::new().activity(endless).activity(clean);
            let env = env.workflow(cleaning).settings(cached(runs));
            let app = env.start().await;
            let run = app.start(cleaning, name).await.expect("it starts");
            run.cancel().await.expect("it is durable");
            let ended = run.result().await;
            assert!(ended.is_err_and(|error| error.is_cancelled()));
            assert_eq!(cleaned(name), 3);
            sound(&run, cleaning).await;
        });
    }
}

#[workflow]
async fn handing_over(ctx: Ctx) -> Result<u64> {
    let cell = WriteOnce::new();
    let written = cell.clone();
    ctx.spawn(async move {
        let doubled = ctx.run(double, 21).await?;
        assert!(written.put(doubled) && !written.put(0));
        outlast::Ok(())
    })
    .detach();
    let (one, two) = futures::join!(cell.wait(), cell.wait());
    Ok(one?.max(two?))
}

#[test]
fn a_cell_hands_a_result_to_all_who_wait() {
    both(async |app| {
        let run = app.start(handing_over, ()).await.expect("it starts");
        assert_eq!(run.result().await.expect("it ends"), 42);
        sound(&run, handing_over).await;
    });
}

#[workflow]
async fn taking_turns(ctx: Ctx) -> Result<u64> {
    let total = Rc::new(tokio::sync::Mutex::new(0));
    let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
    for n in 1..=3 {
        let (total, sender) = (total.clone(), sender.clone());
        let branch = async move {
            let mut total = total.lock().await;
            *total += ctx.run(double, n).await?;
            sender.send(n)?;
            outlast::Ok(())
        };
        ctx.spawn(branch).detach();
    }
    for n in 1..=3 {
        assert_eq!(receiver.recv().await, Some(n), "in the order they asked");
    }
    let total = *total.lock().await;
    Ok(total)
}

#[test]
fn locks_and_channels_of_tokio_work_between_the_branches_of_one_run() {
    both(async |app| {
        let run = app.start(taking_turns, ()).await.expect("it starts");
        assert_eq!(run.result().await.expect("it ends"), 12);
        sound(&run, taking_turns).await;
    });
}

#[workflow]
async fn choosing(ctx: Ctx) -> Result<String> {
    let calls = [ctx.run(double, 13), ctx.run(endless, 0), ctx.run(double, 4)];
    let first = first_ok(calls).await.map_err(|_| "none")?;
    let work = |n| async move { ctx.run(double, n).await };
    let some = try_map_concurrent(0..5, 2, work).await?;
    let none = try_map_concurrent([1, 13, 2], 1, work).await.is_err();
    Ok(format!("{first} {some:?} {none}"))
}

#[test]
fn combinators_choose_and_limit_and_cancel_the_rest() {
    both(async |app| {
        let run = app.start(choosing, ()).await.expect("it starts");
        let result = run.result().await.expect("it ends");
        assert_eq!(result, "8 [0, 2, 4, 6, 8] true");
        sound(&run, choosing).await;
    });
}

#[derive(Default)]
struct Outlived;

#[workflow]
impl Outlived {
    async fn run(ctx: Ctx<Self>) -> Result<u64> {
        ctx.sleep(1.hours()).await?;
        Ok(7)
    }

    #[signal(unfinished = "finish")]
    async fn work(ctx: Ctx<Self>, who: String) -> Result<()> {
        ctx.sleep(2.days()).await?;
        ctx.run(clean, who).await?;
        Ok(())
    }
}

#[test]
fn a_run_closes_when_the_handler_that_is_to_finish_has_ended() {
    for (name, runs) in [("finish kept", 1_000), ("finish evicted", 0)] {
        drive(async {
            let env = TestEnv::new().activity(clean).workflow(Outlived::run);
            let env = env.settings(cached(runs));
            let clock = env.clock();
            let before = clock.now();
            let app = env.start().await;
            let run = app.start(Outlived::run, ()).await.expect("it starts");
            run.work(name).await.expect("it is durable");
            assert_eq!(run.result().await.expect("it ends"), 7);
            assert_eq!(cleaned(name), 1);
            assert_eq!(clock.now().since(before), 2.days());
            sound(&run, Outlived::run).await;
        });
    }
}
