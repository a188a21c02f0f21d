//! Code that does what none should: it holds its thread and does not hear that it should stop.
//! For the demo and the benchmark of what becomes of the others.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use outlast::prelude::*;
use serde::{Deserialize, Serialize};

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

/// Does not come back before it is let go.
fn hold(manner: Manner) {
    while !RELEASED.load(Ordering::SeqCst) {
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
