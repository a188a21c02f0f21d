//! Code that does what none should: it holds its thread and does not hear that it should stop.
//! For the demo and the benchmark of what becomes of the others.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use outlast::prelude::*;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

/// How a culprit spends its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Manner {
    /// It blocks its thread.
    Sleeps,
    /// It burns a processor.
    Spins,
}

/// Workflow code has no state from outside: it looks here.
static RELEASED: AtomicBool = AtomicBool::new(false);

/// Lets culprits go when it is dropped; until then they stay.
#[derive(Clone, Debug)]
pub(crate) struct Leash(#[expect(dead_code, reason = "it is held")] Arc<Release>);

#[derive(Debug)]
struct Release;

impl Drop for Release {
    fn drop(&mut self) {
        RELEASED.store(true, Ordering::SeqCst);
    }
}

impl Leash {
    /// There is one at a time.
    pub(crate) fn new() -> Self {
        RELEASED.store(false, Ordering::SeqCst);
        Self(Arc::new(Release))
    }
}

fn is_held() -> bool {
    !RELEASED.load(Ordering::SeqCst)
}

/// Does not come back before it is let go.
fn hold(manner: Manner) {
    while is_held() {
        match manner {
            Manner::Sleeps => std::thread::sleep(Duration::from_millis(5)),
            Manner::Spins => std::hint::spin_loop(),
        }
    }
}

/// Holds the thread that drives its shard.
#[workflow]
pub(crate) async fn blocked(ctx: Ctx, manner: Manner) -> Result<()> {
    ctx.sleep(1.millis()).await?;
    hold(manner);
    Ok(())
}

/// Each poll of it ends, and no slice: in one of three ways.
#[workflow]
pub(crate) async fn endless(ctx: Ctx, way: Way) -> Result<()> {
    ctx.sleep(1.millis()).await?;
    match way {
        Way::Yields => {
            while is_held() {
                ctx.yield_now().await;
            }
        }
        Way::Wakes => wake_each_other(ctx).await?,
        Way::Spawns => spawn_on(ctx),
    }
    ctx.sleep(1.millis()).await?;
    Ok(())
}

/// How a culprit goes on without end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Way {
    /// It yields, again and again.
    Yields,
    /// Two branches wake each other.
    Wakes,
    /// Each branch spawns the next.
    Spawns,
}

async fn wake_each_other(ctx: Ctx) -> Result<()> {
    let (there, mut from_here) = mpsc::unbounded_channel::<()>();
    let (here, mut from_there) = mpsc::unbounded_channel::<()>();
    let other = ctx
        .spawn(async move { while from_here.recv().await.is_some() && here.send(()).is_ok() {} });
    while is_held() && there.send(()).is_ok() {
        from_there.recv().await;
    }
    drop(there);
    Ok(other.await?)
}

fn spawn_on(ctx: Ctx) {
    if is_held() {
        drop(ctx.spawn(async move { spawn_on(ctx) }));
    }
}

/// Cannot be dropped before culprits are let go.
struct Clings;

impl Drop for Clings {
    fn drop(&mut self) {
        hold(Manner::Sleeps);
    }
}

/// Waits, and holds the thread that forgets it.
#[workflow]
pub(crate) async fn clings(ctx: Ctx) -> Result<()> {
    let _clings = Clings;
    ctx.sleep(1.days()).await?;
    Ok(())
}

/// Goes on although it was told to stop.
#[activity(start_to_close = "300ms")]
pub(crate) fn deaf(_ctx: ActivityCtx, manner: Manner) -> Result<()> {
    hold(manner);
    Ok(())
}

/// Waits for an activity that does not end, and goes on without it.
#[workflow]
pub(crate) async fn waits_for_deaf(ctx: Ctx, manner: Manner) -> Result<bool> {
    let call = ctx.run(deaf, manner).retry(RetryPolicy::times(1));
    Ok(call.await.is_ok())
}
