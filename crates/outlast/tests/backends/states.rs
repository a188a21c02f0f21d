//! Stateful workflows: conditions, handlers that wait, how they end.

use outlast::prelude::*;
use outlast::{Builder, CallError};

use super::bench::{Bench, outcome};

pub(crate) fn register(builder: Builder) -> Builder {
    builder
        .activity(accept)
        .workflow(Cart::run)
        .workflow(Bar::run)
}

#[activity]
async fn accept(payment: u64) -> Result<bool> {
    Ok(payment > 0)
}

#[derive(Default)]
struct Cart {
    items: u64,
    is_paid: bool,
}

#[workflow]
impl Cart {
    async fn run(ctx: Ctx<Self>, patience: u64) -> Result<String> {
        let filled = ctx.spawn(async move {
            ctx.wait_until(|cart| cart.items >= 2).await?;
            outlast::Ok(ctx.read(|cart| cart.items))
        });
        let paid = ctx.wait_until(|cart| cart.is_paid);
        if paid.timeout(patience.millis()).await.is_err() {
            filled.cancel();
            return Ok("left".into());
        }
        Ok(format!("paid for {}", filled.await?))
    }

    #[signal]
    fn add(&mut self) {
        self.items += 1;
    }

    #[signal]
    async fn pay(ctx: Ctx<Self>) -> Result<()> {
        let is_paid = ctx.run(accept, 1).await?;
        ctx.with(|cart| cart.is_paid = is_paid);
        Ok(())
    }
}

pub(crate) async fn conditions_wait_for_handlers(bench: Bench) -> Vec<String> {
    let cart = bench.app.start(Cart::run, 60_000).await;
    let cart = cart.expect("it starts");
    cart.add().await.expect("it is durable");
    cart.add().await.expect("it is durable");
    cart.pay().await.expect("it is durable");
    let said = cart.result().await.expect("it ends");
    bench.sound(&cart, Cart::run).await;
    vec![said]
}

pub(crate) async fn a_condition_with_a_limit(bench: Bench) -> Vec<String> {
    vec![outcome!(bench, Cart::run, 50).expect("it ends")]
}

#[derive(Default)]
struct Bar {
    is_closing: bool,
}

#[workflow]
impl Bar {
    async fn run(ctx: Ctx<Self>) -> Result<()> {
        Ok(ctx.wait_until(|bar| bar.is_closing).await?)
    }

    #[signal]
    fn last_call(&mut self) {
        self.is_closing = true;
    }

    #[update(unfinished = "finish")]
    async fn pour(ctx: Ctx<Self>, drink: String) -> Result<String> {
        ctx.sleep(200.millis()).await?;
        Ok(format!("a glass of {drink}"))
    }

    #[update]
    async fn brew(ctx: Ctx<Self>) -> Result<()> {
        ctx.sleep(60.secs()).await?;
        Ok(())
    }
}

pub(crate) async fn handlers_finish_or_are_left(bench: Bench) -> Vec<String> {
    let bar = bench.app.start(Bar::run, ()).await.expect("it starts");
    let poured = bar.pour("cider").accepted().await.expect("it is accepted");
    let brewed = bar.brew().accepted().await.expect("it is accepted");
    bar.last_call().await.expect("it is durable");
    bar.result().await.expect("it ends");
    let glass = poured.result().await.expect("it was promised");
    let left = brewed.result().await.expect_err("nobody waited for it");
    assert!(matches!(left, CallError::RunFinished(_)), "{left}");
    bench.sound(&bar, Bar::run).await;
    vec![glass, "left behind".into()]
}
