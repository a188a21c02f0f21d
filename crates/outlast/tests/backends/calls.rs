//! Activities: results, errors, attempts, time, undo.

use std::sync::Mutex;

use outlast::prelude::*;
use outlast::{Builder, CallError};
use serde::{Deserialize, Serialize};

use super::bench::{Bench, outcome};

pub(crate) fn register(builder: Builder) -> Builder {
    builder
        .activity(greet)
        .activity(charge)
        .activity(third_time)
        .activity(busy)
        .activity(slow)
        .activity(silent_once)
        .activity(compute)
        .activity(explode)
        .activity(reserve)
        .activity(refund)
        .workflow(hello)
        .workflow(pay)
        .workflow(persistent)
        .workflow(hopeless)
        .workflow(impatient)
        .workflow(listening)
        .workflow(computing)
        .workflow(exploding)
        .workflow(shopping)
        .workflow(chance)
        .workflow(heavy)
}

#[activity]
async fn greet(name: String) -> Result<String> {
    Ok(format!("Hello, {name}!"))
}

#[workflow]
async fn hello(ctx: Ctx, name: String) -> Result<String> {
    Ok(ctx.run(greet, name).await?)
}

pub(crate) async fn activity_and_result(bench: Bench) -> Vec<String> {
    vec![outcome!(bench, hello, "Rust").expect("it ends")]
}

#[derive(Debug, thiserror::Error, Serialize, Deserialize, Failure)]
enum ChargeError {
    #[error("card declined: {0}")]
    #[failure(terminal)]
    Declined(u64),
}

#[activity]
async fn charge(ctx: ActivityCtx, card: u64) -> Result<u32, ChargeError> {
    if card == 4000 {
        return Err(ChargeError::Declined(card));
    }
    Ok(ctx.attempt())
}

#[workflow]
async fn pay(ctx: Ctx, card: u64) -> Result<String> {
    Ok(match ctx.run(charge, card).await {
        Ok(attempt) => format!("terminal, {attempt} attempt"),
        Err(CallError::Failed(ChargeError::Declined(card), _)) => format!("declined: {card}"),
        Err(other) => return Err(other.into()),
    })
}

pub(crate) async fn errors_with_their_type(bench: Bench) -> Vec<String> {
    let declined = outcome!(bench, pay, 4000).expect("it ends");
    vec![declined, outcome!(bench, pay, 1).expect("it ends")]
}

fn quickly(attempts: u32) -> RetryPolicy {
    RetryPolicy {
        initial: 10.millis(),
        ..RetryPolicy::times(attempts)
    }
}

#[activity]
async fn third_time(ctx: ActivityCtx) -> Result<String> {
    match ctx.attempt() {
        3 => Ok("third time".into()),
        n => Err(format!("attempt {n}"))?,
    }
}

#[workflow]
async fn persistent(ctx: Ctx) -> Result<String> {
    Ok(ctx.run(third_time, ()).retry(quickly(0)).await?)
}

pub(crate) async fn retries_until_it_works(bench: Bench) -> Vec<String> {
    vec![outcome!(bench, persistent, ()).expect("it ends")]
}

#[activity]
async fn busy(ctx: ActivityCtx) -> Result<()> {
    Err(format!("busy after {}", ctx.attempt()))?
}

#[workflow]
async fn hopeless(ctx: Ctx) -> Result<()> {
    Ok(ctx.run(busy, ()).retry(quickly(3)).await?)
}

pub(crate) async fn retries_run_out(bench: Bench) -> Vec<String> {
    let error = outcome!(bench, hopeless, ()).expect_err("it fails");
    let text = error.to_string();
    assert!(text.contains("busy after 3"), "{text}");
    vec!["busy after 3".into()]
}

#[activity]
async fn slow(ctx: ActivityCtx) -> Result<()> {
    Err(ctx.cancelled().await.into())
}

#[workflow]
async fn impatient(ctx: Ctx) -> Result<String> {
    let call = ctx.run(slow, ()).start_to_close(1.secs());
    match call.retry(quickly(1)).await {
        Err(error) if error.is_timeout() => Ok("timeout".into()),
        other => Err(format!("{other:?}"))?,
    }
}

pub(crate) async fn an_attempt_out_of_time(bench: Bench) -> Vec<String> {
    vec![outcome!(bench, impatient, ()).expect("it ends")]
}

#[activity]
async fn silent_once(ctx: ActivityCtx) -> Result<String> {
    if let Some(found) = ctx.last_heartbeat::<u64>() {
        return Ok(format!("found {found}"));
    }
    ctx.heartbeat(7)?;
    std::future::pending().await
}

#[workflow]
async fn listening(ctx: Ctx) -> Result<String> {
    let call = ctx.run(silent_once, ()).heartbeat(1.secs());
    Ok(call.retry(quickly(0)).await?)
}

pub(crate) async fn a_silent_attempt_is_tried_again(bench: Bench) -> Vec<String> {
    vec![outcome!(bench, listening, ()).expect("it ends")]
}

#[activity]
fn compute(n: u64) -> Result<u64> {
    Ok((0..n).sum::<u64>() * 2)
}

#[workflow]
async fn computing(ctx: Ctx) -> Result<u64> {
    Ok(ctx.run(compute, 7).await?)
}

pub(crate) async fn blocking_code(bench: Bench) -> Vec<String> {
    let sum = outcome!(bench, computing, ()).expect("it ends");
    vec![sum.to_string()]
}

#[activity]
async fn explode() -> Result<()> {
    panic!("of all things")
}

#[workflow]
async fn exploding(ctx: Ctx) -> Result<String> {
    let call = ctx.run(explode, ()).retry(quickly(2)).await;
    let text = call.err().ok_or("it worked")?.to_string();
    assert!(text.contains("of all things"), "{text}");
    Ok("caught".into())
}

pub(crate) async fn panics_are_failures(bench: Bench) -> Vec<String> {
    vec![outcome!(bench, exploding, ()).expect("it ends")]
}

static REFUNDED: Mutex<Vec<(String, String)>> = Mutex::new(Vec::new());

#[activity]
async fn reserve((whose, what): (String, String)) -> Result<(String, String)> {
    if what == "c" {
        return Err(Error::msg("no stock").terminal());
    }
    Ok((whose, what))
}

#[activity]
async fn refund((whose, what): (String, String)) -> Result<()> {
    let mut refunded = REFUNDED.lock().expect("nobody panics with it");
    refunded.push((whose, what));
    Ok(())
}

#[workflow]
async fn shopping(ctx: Ctx, whose: String) -> Result<()> {
    for what in ["a", "b", "c"] {
        let item = (whose.clone(), what.to_owned());
        ctx.run(reserve, item).undo(refund).await?;
    }
    Ok(())
}

pub(crate) async fn undone_in_reverse(bench: Bench) -> Vec<String> {
    let whose = bench.id("whose");
    let error = outcome!(bench, shopping, &whose).expect_err("it fails");
    let refunded = REFUNDED.lock().expect("nobody panics with it").clone();
    let mine = refunded.into_iter().filter(|(who, _)| *who == whose);
    let mut lines: Vec<String> = mine.map(|(_, what)| format!("refunded {what}")).collect();
    assert!(error.to_string().contains("no stock"), "{error}");
    lines.push("failed: no stock".into());
    lines
}

#[workflow]
async fn chance(ctx: Ctx) -> Result<String> {
    let before = (ctx.random(), ctx.uuid(), ctx.now());
    let noted = format!("{before:?}");
    let step = ctx.step("note", move || {
        let noted = noted.clone();
        async move { Ok(noted) }
    });
    let noted = step.await?;
    ctx.sleep(20.millis()).await?;
    assert_ne!(ctx.random(), before.0);
    assert!(ctx.now() > before.2);
    Ok(if noted == format!("{before:?}") {
        "same".into()
    } else {
        noted
    })
}

pub(crate) async fn time_and_chance_are_kept(bench: Bench) -> Vec<String> {
    vec![outcome!(bench, chance, ()).expect("it ends")]
}

#[workflow]
async fn heavy(ctx: Ctx, text: String) -> Result<String> {
    Ok(ctx.run(greet, text).await?)
}

pub(crate) async fn large_values(bench: Bench) -> Vec<String> {
    let text = "x".repeat(200_000 - "Hello, !".len());
    let long = outcome!(bench, heavy, &text).expect("it ends");
    vec![long.len().to_string()]
}
