//! Panics wherever code is called, and values that break.

use std::fmt;

use outlast::prelude::*;
use serde::{Deserialize, Serialize, Serializer};

use super::healthy::{GO, add};
use crate::world::{Key, here};

/// Panics, without the type of code that never returns.
fn break_down(place: &str) {
    assert!(place.is_empty(), "{place}");
}

#[workflow]
async fn panics_in_main(ctx: Ctx, _key: Key) -> Result<u64> {
    let _here = here();
    ctx.run(add, 1).await?;
    break_down("broke in main");
    Ok(1)
}

#[workflow]
async fn panics_in_a_branch(ctx: Ctx, _key: Key) -> Result<u64> {
    let _here = here();
    let branch = ctx.spawn(async move {
        ctx.run(add, 1).await?;
        break_down("broke in a branch");
        Ok::<u64, Error>(1)
    });
    Ok(branch.await?)
}

#[workflow]
async fn panics_in_a_shield(ctx: Ctx, _key: Key) -> Result<u64> {
    let _here = here();
    ctx.run(add, 1).await?;
    ctx.shield(async || break_down("broke in a shield")).await;
    Ok(1)
}

struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        assert!(std::thread::panicking(), "broke in a destructor");
    }
}

#[workflow]
async fn panics_in_a_destructor(ctx: Ctx, _key: Key) -> Result<u64> {
    let _here = here();
    let _bomb = Bomb;
    Ok(ctx.run(add, 1).await?)
}

#[workflow]
async fn panics_when_it_is_evicted(ctx: Ctx, _key: Key) -> Result<u64> {
    let _here = here();
    let _bomb = Bomb;
    Ok(ctx.recv(GO).await?)
}

#[activity]
async fn panics_always(_n: u64) -> Result<()> {
    break_down("broke in an activity");
    Ok(())
}

#[activity]
fn panics_on_its_thread(_n: u64) -> Result<()> {
    break_down("broke on a thread");
    Ok(())
}

#[workflow]
async fn panics_in_an_undo(ctx: Ctx, _key: Key) -> Result<u64> {
    let _here = here();
    ctx.run(add, 1).undo_with(panics_always, 1).await?;
    Err("it is to be undone")?
}

#[workflow]
async fn panics_in_an_activity(ctx: Ctx, _key: Key) -> Result<u64> {
    let _here = here();
    ctx.run(panics_always, 1)
        .retry(RetryPolicy::never())
        .await?;
    Ok(1)
}

#[workflow]
async fn panics_in_a_blocking_activity(ctx: Ctx, _key: Key) -> Result<u64> {
    let _here = here();
    ctx.run(panics_on_its_thread, 1)
        .retry(RetryPolicy::never())
        .await?;
    Ok(1)
}

#[workflow]
async fn panics_in_a_step(ctx: Ctx, _key: Key) -> Result<u64> {
    let _here = here();
    let step = ctx.step("breaks", || async {
        break_down("broke in a step");
        Ok(1)
    });
    Ok(step.retry(RetryPolicy::never()).await?)
}

/// Breaks when it is told.
#[derive(Debug)]
struct Unspeakable;

impl fmt::Display for Unspeakable {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        break_down("broke while it was told");
        Ok(())
    }
}

impl std::error::Error for Unspeakable {}

#[workflow]
async fn panics_in_an_error(ctx: Ctx, _key: Key) -> Result<u64> {
    let _here = here();
    ctx.run(add, 1).await?;
    Err(Unspeakable)?
}

/// Breaks when it is written.
#[derive(Debug, Deserialize)]
struct Brittle;

impl Serialize for Brittle {
    fn serialize<S: Serializer>(&self, _: S) -> std::result::Result<S::Ok, S::Error> {
        Err(serde::ser::Error::custom("it cannot be written"))
    }
}

#[workflow]
async fn returns_what_cannot_be_written(ctx: Ctx, _key: Key) -> Result<Brittle> {
    let _here = here();
    ctx.run(add, 1).await?;
    Ok(Brittle)
}

/// Whose handlers, conditions and answers panic.
#[derive(Default)]
struct Fragile {
    calls: u64,
}

#[workflow]
impl Fragile {
    async fn run(ctx: Ctx<Self>, _key: Key) -> Result<u64> {
        let _here = here();
        ctx.recv(GO).await?;
        Ok(ctx.read(|fragile| fragile.calls))
    }

    #[signal]
    fn breaks(&mut self, n: u64) {
        self.calls += n;
        break_down("broke in a handler");
    }

    #[query]
    fn ask(&self, n: u64) -> u64 {
        break_down("broke in a query");
        n
    }

    #[validator(change)]
    fn check(&self, _n: &u64) -> Result<()> {
        break_down("broke in a validator");
        Ok(())
    }

    #[update]
    fn change(&mut self, n: u64) -> u64 {
        n
    }

    #[update]
    async fn worsen(ctx: Ctx<Self>, n: u64) -> Result<u64> {
        ctx.run(add, n).await?;
        break_down("broke in an update");
        Ok(n)
    }
}

#[derive(Default)]
struct Nervous {
    writes: u64,
}

#[workflow]
impl Nervous {
    async fn run(ctx: Ctx<Self>, _key: Key) -> Result<u64> {
        let _here = here();
        ctx.run(add, 1).await?;
        ctx.with(|nervous| nervous.writes += 1);
        let condition = |nervous: &Self| {
            break_down("broke in a condition");
            nervous.writes > 0
        };
        ctx.wait_until(condition).await?;
        Ok(1)
    }
}

pub fn register(env: TestEnv) -> TestEnv {
    let env = env.activity(panics_always).activity(panics_on_its_thread);
    let env = env.workflow(panics_in_main).workflow(panics_in_a_branch);
    let env = env
        .workflow(panics_in_a_shield)
        .workflow(panics_in_a_destructor);
    let env = env
        .workflow(panics_in_an_undo)
        .workflow(panics_in_an_activity);
    let env = env
        .workflow(panics_in_a_blocking_activity)
        .workflow(panics_in_a_step);
    let env = env
        .workflow(panics_in_an_error)
        .workflow(returns_what_cannot_be_written);
    let env = env.workflow(panics_when_it_is_evicted);
    env.workflow(Fragile::run).workflow(Nervous::run)
}
