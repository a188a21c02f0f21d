//! The neighbours: an activity, a timer, a signal, a child, a step, a branch. They must not notice.

use std::time::Duration;

use outlast::prelude::*;

use crate::world::{Key, here};

pub const GO: Signal<u64> = signal("go");

#[activity]
pub async fn add(n: u64) -> Result<u64> {
    Ok(n + 1)
}

#[activity]
pub fn add_slowly(n: u64) -> Result<u64> {
    Ok(n + 1)
}

#[workflow]
pub async fn leaf(ctx: Ctx, n: u64) -> Result<u64> {
    let _here = here();
    Ok(ctx.run(add_slowly, n).await?)
}

#[workflow]
pub async fn healthy(ctx: Ctx, key: Key) -> Result<u64> {
    let _here = here();
    let branch = ctx.spawn(async move {
        ctx.sleep(Duration::from_millis(1)).await?;
        Ok::<u64, Error>(ctx.run(add, key).await?)
    });
    let n = ctx.run(add, 1).await?;
    let sent = ctx.recv(GO).await?;
    let grown = ctx.child(leaf, n + sent).await?;
    let last = ctx
        .step("last", move || async move { Ok(grown + 1) })
        .await?;
    let other: u64 = branch.await?;
    Ok(last + other - key)
}

/// What it returns when it was sent this number.
pub fn expected(sent: u64) -> u64 {
    sent + 5
}

pub fn register(env: TestEnv) -> TestEnv {
    let env = env.activity(add).activity(add_slowly);
    env.workflow(healthy).workflow(leaf)
}
