//! Code that waits for, wakes or reads what is not its run's.

use std::cell::RefCell;
use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use outlast::prelude::*;

use super::healthy::add;
use crate::world::{Key, here, lock, place};

#[workflow]
async fn sleeps_with_tokio(ctx: Ctx, _key: Key) -> Result<u64> {
    let _here = here();
    ctx.run(add, 1).await?;
    tokio::time::sleep(Duration::from_millis(1)).await;
    Ok(1)
}

#[workflow]
async fn spawns_with_tokio(ctx: Ctx, _key: Key) -> Result<u64> {
    let _here = here();
    ctx.run(add, 1).await?;
    Ok(tokio::spawn(async { 1 }).await?)
}

#[workflow]
async fn listens_with_tokio(ctx: Ctx, _key: Key) -> Result<u64> {
    let _here = here();
    ctx.run(add, 1).await?;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    Ok(u64::from(listener.local_addr()?.port()))
}

#[workflow]
async fn blocks_on_with_tokio(ctx: Ctx, _key: Key) -> Result<u64> {
    let _here = here();
    ctx.run(add, 1).await?;
    Ok(tokio::runtime::Handle::current().block_on(async { 1 }))
}

/// Nobody ever sends.
#[workflow]
async fn waits_for_a_foreign_channel(ctx: Ctx, key: Key) -> Result<u64> {
    let _here = here();
    ctx.run(add, 1).await?;
    let (sender, receiver) = tokio::sync::oneshot::channel();
    lock(&place(key).senders).push(sender);
    Ok(receiver.await.unwrap_or(1))
}

/// Woken by a thread that is not its own.
#[workflow]
async fn is_woken_from_outside(ctx: Ctx, key: Key) -> Result<u64> {
    let _here = here();
    ctx.run(add, 1).await?;
    let place = place(key);
    let mut woken = false;
    poll_fn(|cx| {
        if woken || place.is_open() {
            return Poll::Ready(());
        }
        woken = true;
        let waker = cx.waker().clone();
        let thread = std::thread::spawn(move || waker.wake());
        drop(thread);
        Poll::Pending
    })
    .await;
    Ok(1)
}

/// Its waker is woken by the judge when the run is over.
#[workflow]
async fn leaves_its_waker_behind(ctx: Ctx, key: Key) -> Result<u64> {
    let _here = here();
    let place = place(key);
    poll_fn(|cx| {
        lock(&place.wakers).push(cx.waker().clone());
        Poll::Ready(())
    })
    .await;
    Ok(ctx.run(add, 1).await?)
}

type Kept = Pin<Box<dyn Future<Output = ()>>>;

thread_local! {
    static KEPT: RefCell<Vec<Kept>> = const { RefCell::new(Vec::new()) };
}

/// Hands its call to whichever run of this kind comes next on its thread, and polls what it finds there.
#[workflow]
async fn polls_a_call_of_another_run(ctx: Ctx, _key: Key) -> Result<u64> {
    let _here = here();
    let found = KEPT.with(|kept| kept.borrow_mut().pop());
    if let Some(mut call) = found {
        poll_fn(|cx| {
            // Whatever comes of it.
            let _ready = call.as_mut().poll(cx).is_ready();
            Poll::Ready(())
        })
        .await;
    }
    let call = ctx.run(add, 1);
    let kept = async move {
        drop(call.await);
    };
    KEPT.with(|all| all.borrow_mut().push(Box::pin(kept)));
    Ok(ctx.run(add, 2).await?)
}

/// In another order each time it is replayed.
#[workflow]
async fn calls_in_the_order_of_a_map(ctx: Ctx, _key: Key) -> Result<u64> {
    let _here = here();
    let map: HashMap<u64, u64> = (0..6).map(|n| (n, n)).collect();
    #[expect(clippy::iter_over_hash_type, reason = "that is what is wrong with it")]
    for n in map.keys() {
        ctx.run(add, *n).await?;
    }
    Ok(1)
}

/// Its way depends on the machine's clock.
#[workflow]
#[expect(clippy::disallowed_methods, reason = "that is what is wrong with it")]
async fn looks_at_the_clock(ctx: Ctx, _key: Key) -> Result<u64> {
    let _here = here();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?;
    if now.subsec_micros() % 2 == 0 {
        ctx.run(add, 1).await?;
    }
    ctx.sleep(Duration::from_millis(1)).await?;
    Ok(ctx.run(add, 2).await?)
}

pub fn register(env: TestEnv) -> TestEnv {
    let env = env.workflow(sleeps_with_tokio).workflow(spawns_with_tokio);
    let env = env
        .workflow(listens_with_tokio)
        .workflow(blocks_on_with_tokio);
    let env = env
        .workflow(waits_for_a_foreign_channel)
        .workflow(is_woken_from_outside);
    let env = env
        .workflow(leaves_its_waker_behind)
        .workflow(polls_a_call_of_another_run);
    env.workflow(calls_in_the_order_of_a_map)
        .workflow(looks_at_the_clock)
}
