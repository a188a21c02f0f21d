//! Code that does not come back, or comes back for ever, wherever it is called.

use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Waker};

use outlast::prelude::*;

use super::healthy::{GO, add};
use crate::world::{Key, Place, here, lock, place};

/// Keeps its thread in its destructor.
struct Clings {
    place: Arc<Place>,
    how: fn(&Place),
}

impl Drop for Clings {
    fn drop(&mut self) {
        (self.how)(&self.place);
    }
}

fn spin(place: &Place) {
    while !place.is_open() {
        std::thread::yield_now();
    }
}

#[workflow]
async fn spins(ctx: Ctx, key: Key) -> Result<u64> {
    let _here = here();
    let n = ctx.run(add, 1).await?;
    spin(&place(key));
    Ok(n)
}

#[workflow]
async fn waits_at_a_gate(ctx: Ctx, key: Key) -> Result<u64> {
    let _here = here();
    let n = ctx.run(add, 1).await?;
    place(key).pass();
    Ok(n)
}

#[workflow]
async fn parks_its_thread(ctx: Ctx, key: Key) -> Result<u64> {
    let _here = here();
    ctx.run(add, 1).await?;
    while !place(key).is_open() {
        std::thread::park_timeout(std::time::Duration::from_millis(1));
    }
    Ok(1)
}

#[workflow]
async fn blocks_in_a_branch(ctx: Ctx, key: Key) -> Result<u64> {
    let _here = here();
    let branch = ctx.spawn(async move {
        ctx.run(add, 1).await?;
        place(key).pass();
        Ok::<u64, Error>(1)
    });
    Ok(branch.await?)
}

#[workflow]
async fn yields_for_ever(ctx: Ctx, key: Key) -> Result<u64> {
    let _here = here();
    ctx.run(add, 1).await?;
    while !place(key).is_open() {
        ctx.yield_now().await;
    }
    Ok(1)
}

#[workflow]
async fn wakes_itself(ctx: Ctx, key: Key) -> Result<u64> {
    let _here = here();
    ctx.run(add, 1).await?;
    let place = place(key);
    poll_fn(|cx| {
        cx.waker().wake_by_ref();
        if place.is_open() {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
    Ok(1)
}

/// Wakes the other one and waits for it to do the same.
async fn ping_pong(
    key: Key,
    mine: Rc<std::cell::RefCell<[Option<Waker>; 2]>>,
    me: usize,
) -> Result<u64> {
    let place = place(key);
    poll_fn(|cx| {
        let mut wakers = mine.borrow_mut();
        wakers[me] = Some(cx.waker().clone());
        if let Some(other) = wakers[1 - me].take() {
            other.wake();
        }
        if place.is_open() {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
    Ok(1)
}

#[workflow]
async fn branches_wake_each_other(ctx: Ctx, key: Key) -> Result<u64> {
    let _here = here();
    ctx.run(add, 1).await?;
    let wakers = Rc::default();
    let first = ctx.spawn(ping_pong(key, Rc::clone(&wakers), 0));
    let second = ctx.spawn(ping_pong(key, wakers, 1));
    Ok(first.await? + second.await?)
}

fn spawns_another(ctx: Ctx, key: Key) {
    let branch = here();
    if place(key).is_open() {
        return;
    }
    drop(ctx.spawn(async move {
        let _branch = branch;
        spawns_another(ctx, key);
        Ok::<(), Error>(())
    }));
}

#[workflow]
async fn spawns_without_end(ctx: Ctx, key: Key) -> Result<u64> {
    let _here = here();
    ctx.run(add, 1).await?;
    spawns_another(ctx, key);
    ctx.recv(GO).await?;
    Ok(1)
}

#[workflow]
async fn selects_without_progress(ctx: Ctx, key: Key) -> Result<u64> {
    let _here = here();
    ctx.run(add, 1).await?;
    let mut going = std::pin::pin!(ctx.recv(GO));
    while !place(key).is_open() {
        let yielded = std::pin::pin!(ctx.yield_now());
        drop(futures::future::select(&mut going, yielded).await);
    }
    Ok(1)
}

#[workflow]
async fn destructor_blocks(ctx: Ctx, key: Key) -> Result<u64> {
    let _here = here();
    let place = place(key);
    let clings = Clings {
        place,
        how: Place::pass,
    };
    ctx.run(add, 1).await?;
    drop(clings);
    Ok(1)
}

#[workflow]
async fn destructor_spins(ctx: Ctx, key: Key) -> Result<u64> {
    let _here = here();
    let place = place(key);
    let _clings = Clings { place, how: spin };
    Ok(ctx.run(add, 1).await?)
}

/// Its instance cannot be dropped, wherever that happens.
#[workflow]
async fn destructor_blocks_when_it_is_evicted(ctx: Ctx, key: Key) -> Result<u64> {
    let _here = here();
    let _clings = Clings {
        place: place(key),
        how: Place::pass,
    };
    Ok(ctx.recv(GO).await?)
}

#[workflow]
async fn blocks_on_a_future(ctx: Ctx, key: Key) -> Result<u64> {
    let _here = here();
    ctx.run(add, 1).await?;
    let (sender, receiver) = tokio::sync::oneshot::channel();
    lock(&place(key).senders).push(sender);
    Ok(futures::executor::block_on(receiver).unwrap_or(1))
}

/// Whose handlers, conditions and answers keep their thread.
#[derive(Default)]
struct Clerk {
    key: Key,
    is_done: bool,
}

#[workflow]
impl Clerk {
    async fn run(ctx: Ctx<Self>, key: Key) -> Result<u64> {
        let _here = here();
        ctx.with(|clerk| clerk.key = key);
        ctx.wait_until(|clerk| clerk.is_done).await?;
        Ok(1)
    }

    #[signal]
    fn blocks(&mut self, _n: u64) {
        place(self.key).pass();
    }

    #[query]
    fn spins(&self, _n: u64) -> u64 {
        spin(&place(self.key));
        1
    }

    #[validator(change)]
    fn check(&self, _n: &u64) -> Result<()> {
        place(self.key).pass();
        Ok(())
    }

    #[update]
    fn change(&mut self, n: u64) -> u64 {
        self.is_done = true;
        n
    }
}

#[derive(Default)]
struct Doubter {
    writes: u64,
}

#[workflow]
impl Doubter {
    async fn run(ctx: Ctx<Self>, key: Key) -> Result<u64> {
        let _here = here();
        ctx.run(add, 1).await?;
        ctx.with(|doubter| doubter.writes += 1);
        let condition = move |_: &Self| {
            place(key).pass();
            true
        };
        ctx.wait_until(condition).await?;
        Ok(1)
    }
}

pub fn register(env: TestEnv) -> TestEnv {
    let env = env.workflow(spins).workflow(waits_at_a_gate);
    let env = env.workflow(parks_its_thread).workflow(blocks_in_a_branch);
    let env = env.workflow(yields_for_ever).workflow(wakes_itself);
    let env = env
        .workflow(branches_wake_each_other)
        .workflow(spawns_without_end);
    let env = env
        .workflow(selects_without_progress)
        .workflow(blocks_on_a_future);
    let env = env.workflow(destructor_blocks).workflow(destructor_spins);
    let env = env.workflow(destructor_blocks_when_it_is_evicted);
    env.workflow(Clerk::run).workflow(Doubter::run)
}
