//! Attempts that block, ignore that they should stop, or leave tasks behind.

use outlast::prelude::*;

use super::healthy::GO;
use crate::world::{Key, here, place};

#[activity]
fn waits_on_its_thread(key: Key) -> Result<u64> {
    let _here = here();
    place(key).pass();
    Ok(1)
}

#[activity]
async fn hogs_a_thread(key: Key) -> Result<u64> {
    let _here = here();
    place(key).pass();
    Ok(1)
}

#[activity]
async fn blocks_on(key: Key) -> Result<u64> {
    let _here = here();
    Ok(tokio::runtime::Handle::current().block_on(async { key }))
}

#[activity]
async fn leaves_tasks_behind(ctx: ActivityCtx, _key: Key) -> Result<u64> {
    for _ in 0..3 {
        let child = here();
        drop(ctx.spawn(async move {
            let _child = child;
            std::future::pending::<()>().await;
        }));
    }
    Ok(3)
}

#[activity]
async fn never_ends(_key: Key) -> Result<u64> {
    let _here = here();
    std::future::pending().await
}

/// Cancels it when it was told to.
async fn cancelled(ctx: Ctx, call: outlast::Call<u64>) -> Result<u64> {
    ctx.recv(GO).await?;
    call.cancel();
    Ok(call.await.unwrap_or(7))
}

#[workflow]
async fn has_a_deaf_thread(ctx: Ctx, key: Key) -> Result<u64> {
    let _here = here();
    cancelled(ctx, ctx.run(waits_on_its_thread, key)).await
}

#[workflow]
async fn has_a_deaf_task(ctx: Ctx, key: Key) -> Result<u64> {
    let _here = here();
    cancelled(ctx, ctx.run(hogs_a_thread, key)).await
}

#[workflow]
async fn has_an_endless_task(ctx: Ctx, key: Key) -> Result<u64> {
    let _here = here();
    cancelled(ctx, ctx.run(never_ends, key)).await
}

#[workflow]
async fn has_a_deaf_step(ctx: Ctx, key: Key) -> Result<u64> {
    let _here = here();
    let step = ctx.step("deaf", move || {
        place(key).pass();
        async { Ok(1_u64) }
    });
    ctx.recv(GO).await?;
    step.cancel();
    Ok(step.await.unwrap_or(7))
}

#[workflow]
async fn waits_for_a_thread(ctx: Ctx, key: Key) -> Result<u64> {
    let _here = here();
    Ok(ctx.run(waits_on_its_thread, key).await?)
}

#[workflow]
async fn blocks_in_an_async_activity(ctx: Ctx, key: Key) -> Result<u64> {
    let _here = here();
    Ok(ctx.run(blocks_on, key).retry(RetryPolicy::never()).await?)
}

#[workflow]
async fn leaves_tasks_of_an_activity_behind(ctx: Ctx, key: Key) -> Result<u64> {
    let _here = here();
    Ok(ctx.run(leaves_tasks_behind, key).await?)
}

pub fn register(env: TestEnv) -> TestEnv {
    let env = env.activity(waits_on_its_thread).activity(hogs_a_thread);
    let env = env
        .activity(blocks_on)
        .activity(leaves_tasks_behind)
        .activity(never_ends);
    let env = env.workflow(has_a_deaf_thread).workflow(has_a_deaf_task);
    let env = env.workflow(has_an_endless_task).workflow(has_a_deaf_step);
    let env = env
        .workflow(waits_for_a_thread)
        .workflow(blocks_in_an_async_activity);
    env.workflow(leaves_tasks_of_an_activity_behind)
}
