//! Workflows, handlers, activities and steps that panic at every place where Outlast calls them.

use std::sync::atomic::{AtomicUsize, Ordering};

use outlast::CancelMode;
use outlast::prelude::*;

use crate::fuse::{Bomb, blow, blow_up};

/// Instances and attempts that are alive.
pub(crate) static ALIVE: AtomicUsize = AtomicUsize::new(0);

/// Counts itself while it lives.
struct Counted;

impl Counted {
    fn new() -> Self {
        ALIVE.fetch_add(1, Ordering::SeqCst);
        Self
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        ALIVE.fetch_sub(1, Ordering::SeqCst);
    }
}

#[activity]
pub(crate) async fn works(ctx: ActivityCtx, n: u64) -> Result<u64> {
    let _alive = Counted::new();
    let _bomb = Bomb("destructor in an attempt");
    blow("attempt");
    blow_up("attempt, with a payload that panics");
    ctx.heartbeat(n)?;
    tokio::task::yield_now().await;
    blow("attempt, later");
    // The attempt goes on without it.
    drop(ctx.spawn(async { blow("task beside an attempt") }).await);
    Ok(n + 1)
}

#[activity]
pub(crate) fn blocks(n: u64) -> Result<u64> {
    let _alive = Counted::new();
    let _bomb = Bomb("destructor in a blocking attempt");
    blow("blocking attempt");
    blow_up("blocking attempt, with a payload that panics");
    Ok(n + 1)
}

/// Does not end by itself: it is dropped where it waits.
#[activity]
pub(crate) async fn hangs(_ctx: ActivityCtx) -> Result<()> {
    let _alive = Counted::new();
    let _bomb = Bomb("destructor of a dropped attempt");
    std::future::pending().await
}

/// Lets go of an attempt that has begun.
#[workflow]
pub(crate) async fn lets_go(ctx: Ctx) -> Result<()> {
    let hanging = ctx.run(hangs, ()).cancel_mode(CancelMode::Wait);
    ctx.run(works, 1).await?;
    hanging.cancel();
    assert!(hanging.await.is_err(), "it is cancelled");
    Ok(())
}

#[workflow]
pub(crate) async fn healthy(ctx: Ctx) -> Result<u64> {
    let n = ctx.run(works, 1).await? + ctx.run(blocks, 1).await?;
    let n = ctx.step("add", move || async move { Ok(n + 1) }).await?;
    ctx.sleep(1.secs()).await?;
    Ok(n)
}

/// A chain of two runs.
#[workflow]
pub(crate) async fn goes_on(ctx: Ctx, round: u64) -> Result<u64> {
    if round == 0 {
        return ctx.continue_as_new(1_u64);
    }
    Ok(round)
}

/// What the main loop waits for, by signal.
pub(crate) const READY: Signal<()> = signal("ready");

/// Goes through every place there is, and ends with the same result however often it broke.
#[derive(Default)]
pub(crate) struct Gauntlet {
    told: u64,
    updates: u64,
}

#[workflow]
impl Gauntlet {
    pub(crate) async fn run(ctx: Ctx<Self>) -> Result<u64> {
        let _alive = Counted::new();
        let _bomb = Bomb("destructor in main");
        blow("main");
        blow_up("main, with a payload that panics");
        ctx.recv(READY).await?;
        let is_so = |it: &Self| {
            blow("condition");
            blow_up("condition, with a payload that panics");
            it.told > 0 && it.updates > 0
        };
        // Whoever waits hears of the panic, and may wait again.
        while ctx.wait_until(is_so).await.is_err() {}
        let n = attempts(ctx).await? + step(ctx).await?;
        branches(ctx).await?;
        ctx.sleep(1.secs()).await?;
        blow("main, later");
        others(ctx).await?;
        Ok(n)
    }

    #[signal]
    pub(crate) fn tell(&mut self) {
        blow("signal handler");
        self.told += 1;
    }

    #[signal]
    pub(crate) async fn tell_later(ctx: Ctx<Self>) -> Result<()> {
        let _bomb = Bomb("destructor in a handler");
        ctx.sleep(1.secs()).await?;
        blow("signal handler, later");
        Ok(())
    }

    #[query]
    pub(crate) fn told(&self) -> u64 {
        blow("query");
        blow_up("query, with a payload that panics");
        self.told
    }

    #[update]
    pub(crate) fn count(&mut self, n: u64) -> u64 {
        blow("update handler");
        self.updates += n;
        self.updates
    }

    #[validator(count)]
    fn is_wanted(&self, _n: &u64) -> Result<()> {
        blow("validator");
        blow_up("validator, with a payload that panics");
        Ok(())
    }
}

async fn attempts(ctx: Ctx<Gauntlet>) -> Result<u64> {
    let (a, b) = (ctx.run(works, 1), ctx.run(blocks, 1));
    let other = ctx.run(works, 1).queue("other");
    Ok(a.await? + b.await? + other.await?)
}

async fn step(ctx: Ctx<Gauntlet>) -> Result<u64> {
    let bomb = Bomb("destructor of the closure of a step");
    let step = ctx.step("step", move || {
        let _kept = &bomb;
        blow("closure of a step");
        async {
            let _alive = Counted::new();
            let _bomb = Bomb("destructor in a step");
            blow("step");
            blow_up("step, with a payload that panics");
            tokio::task::yield_now().await;
            blow("step, later");
            Ok(1)
        }
    });
    Ok(step.await?)
}

async fn branches(ctx: Ctx<Gauntlet>) -> Result<()> {
    let branch = ctx.spawn(async {
        let _bomb = Bomb("destructor in a branch");
        blow("branch");
    });
    branch.await?;
    ctx.shield(async || blow("shield")).await;
    Ok(())
}

async fn others(ctx: Ctx<Gauntlet>) -> Result<()> {
    ctx.child(goes_on, 0).await?;
    // There is nobody to hear: that is no failure of this run.
    drop(ctx.external("nobody").send(READY, ()).await);
    drop(ctx.external("nobody").cancel().await);
    Ok(())
}
