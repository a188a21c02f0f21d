//! Code that uses what it has as it should not: locks, calls, children, messages, sizes.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

use outlast::prelude::*;
use serde_json::json;

use super::healthy::{GO, add};
use crate::world::{Key, here};

#[workflow]
async fn waits_for_nothing(ctx: Ctx, _key: Key) -> Result<u64> {
    let _here = here();
    ctx.run(add, 1).await?;
    let (sender, mut receiver) = outlast::sync::channel::<u64>(1);
    receiver.recv().await?;
    drop(sender);
    Ok(1)
}

#[workflow]
async fn deadlocks_itself(ctx: Ctx, _key: Key) -> Result<u64> {
    let _here = here();
    ctx.run(add, 1).await?;
    let mutex = outlast::sync::Mutex::new(1);
    let first = mutex.lock().await?;
    let second = mutex.lock().await?;
    Ok(*first + *second)
}

#[workflow]
async fn continues_from_a_branch(ctx: Ctx, key: Key) -> Result<u64> {
    let _here = here();
    ctx.run(add, 1).await?;
    let branch = ctx.spawn(async move { ctx.continue_as_new::<_, u64, Error>(key) });
    Ok(branch.await?)
}

/// Past the limit of a payload.
const TOO_MUCH: usize = (2 << 20) + 1;

#[activity]
async fn measures(text: String) -> Result<u64> {
    Ok(text.len() as u64)
}

#[workflow]
async fn says_too_much(ctx: Ctx, _key: Key) -> Result<u64> {
    let _here = here();
    ctx.run(add, 1).await?;
    Ok(ctx.run(measures, "x".repeat(TOO_MUCH)).await?)
}

fn nested(ctx: Ctx, depth: u64) -> Pin<Box<dyn Future<Output = Result<u64>>>> {
    Box::pin(async move {
        if depth == 0 {
            return Ok(ctx.run(add, 1).await?);
        }
        Ok(ctx.spawn(nested(ctx, depth - 1)).await?)
    })
}

#[workflow]
async fn nests_branches(ctx: Ctx, _key: Key) -> Result<u64> {
    let _here = here();
    nested(ctx, 100).await
}

#[workflow]
async fn storms_itself(ctx: Ctx, _key: Key) -> Result<u64> {
    let _here = here();
    let me = ctx.external(ctx.id().as_str());
    let storm: Vec<_> = (0..30).map(|n| me.send(GO, n)).collect();
    futures::future::join_all(storm).await;
    let mut sum = 0;
    for _ in 0..30 {
        sum += ctx.recv(GO).await?;
    }
    Ok(sum)
}

/// Its depth is behind the last digits of its key.
#[workflow]
async fn is_its_own_child(ctx: Ctx, depth: Key) -> Result<u64> {
    let _here = here();
    match depth % 8 {
        0 => Ok(ctx.run(add, 1).await?),
        _ => Ok(ctx.child(is_its_own_child, depth - 1).await?),
    }
}

#[workflow]
async fn forgets_a_call(ctx: Ctx, _key: Key) -> Result<u64> {
    let _here = here();
    std::mem::forget(ctx.run(add, 1));
    std::mem::forget(ctx.recv(GO));
    Ok(ctx.run(add, 2).await?)
}

#[workflow]
async fn forgets_a_scope(ctx: Ctx, _key: Key) -> Result<u64> {
    let _here = here();
    let mut scope = Box::pin(ctx.scope(async move |scope| {
        scope
            .spawn(async move { Ok::<u64, Error>(ctx.run(add, 1).await?) })
            .await?;
        Ok::<u64, Error>(1)
    }));
    futures::future::select(&mut scope, std::pin::pin!(ctx.yield_now())).await;
    std::mem::forget(scope);
    Ok(ctx.run(add, 2).await?)
}

#[workflow]
async fn calls_nobody(ctx: Ctx, _key: Key) -> Result<u64> {
    let _here = here();
    ctx.run_raw("nobody_has_this", &json!(1)).await?;
    Ok(1)
}

#[workflow]
async fn says_the_wrong_thing(ctx: Ctx, _key: Key) -> Result<u64> {
    let _here = here();
    let call = ctx.run_raw("add", &json!("no number"));
    call.retry(RetryPolicy::never()).await?;
    Ok(1)
}

#[workflow]
async fn ignores_that_it_was_cancelled(ctx: Ctx, _key: Key) -> Result<u64> {
    let _here = here();
    drop(ctx.recv(GO).await);
    let call = ctx.shield(async || ctx.run(add, 1).await).await?;
    Ok(call)
}

#[workflow]
async fn drops_everything(ctx: Ctx, _key: Key) -> Result<u64> {
    let _here = here();
    let kept: Rc<Vec<_>> = Rc::new((0..20).map(|n| ctx.run(add, n)).collect());
    drop(kept);
    drop(ctx.spawn(async move { Ok::<u64, Error>(ctx.recv(GO).await?) }));
    drop(ctx.child(is_its_own_child, 0));
    Ok(ctx.run(add, 2).await?)
}

/// Leaves its handlers behind, and lets those who only look act.
#[derive(Default)]
struct Sloppy {
    seen: u64,
}

#[workflow]
impl Sloppy {
    async fn run(ctx: Ctx<Self>, _key: Key) -> Result<u64> {
        let _here = here();
        ctx.recv(GO).await?;
        Ok(ctx.read(|sloppy| sloppy.seen))
    }

    #[signal]
    async fn never_ends(ctx: Ctx<Self>, _n: u64) -> Result<()> {
        ctx.with(|sloppy| sloppy.seen += 1);
        ctx.recv(signal::<u64>("never")).await?;
        Ok(())
    }
}

/// Its validator acts, which it may not.
#[workflow]
async fn acts_in_a_validator(ctx: Ctx, _key: Key) -> Result<u64> {
    let _here = here();
    const CHANGE: Update<u64, u64> = update("change");
    ctx.on_update(CHANGE, async move |n: u64| n)
        .validate(move |_n: &u64| {
            drop(ctx.run(add, 1));
            Ok::<(), Error>(())
        });
    ctx.recv(GO).await?;
    Ok(1)
}

pub fn register(env: TestEnv) -> TestEnv {
    let env = env.activity(measures);
    let env = env.workflow(waits_for_nothing).workflow(deadlocks_itself);
    let env = env
        .workflow(continues_from_a_branch)
        .workflow(says_too_much);
    let env = env.workflow(nests_branches).workflow(storms_itself);
    let env = env.workflow(is_its_own_child).workflow(forgets_a_call);
    let env = env.workflow(forgets_a_scope).workflow(calls_nobody);
    let env = env
        .workflow(says_the_wrong_thing)
        .workflow(drops_everything);
    let env = env.workflow(ignores_that_it_was_cancelled);
    env.workflow(Sloppy::run).workflow(acts_in_a_validator)
}
