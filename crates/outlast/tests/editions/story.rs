//! A workflow whose commands depend on what undo does and on who owns a timer, in many ways.

use std::sync::Arc;

use outlast::CancelMode;
use outlast::prelude::*;
use tokio::sync::Semaphore;

/// Lets what is held go on.
#[derive(Clone)]
pub(crate) struct Gate {
    /// A permit for each call that has come to the gate.
    pub(crate) came: Arc<Semaphore>,
    /// A permit for each call that may pass.
    pub(crate) passes: Arc<Semaphore>,
}

pub(crate) const GO: Signal<()> = signal("go");

/// Takes as long as the gate is shut, and does not listen.
#[activity(start_to_close = "9d")]
pub(crate) async fn charge(State(gate): State<Gate>, card: String) -> Result<String> {
    gate.came.add_permits(1);
    gate.passes.acquire().await.map_err(Error::msg)?.forget();
    Ok(format!("charged {card}"))
}

#[activity]
pub(crate) async fn refund(receipt: String) -> Result<()> {
    drop(receipt);
    Ok(())
}

#[workflow]
pub(crate) async fn shipment(ctx: Ctx) -> Result<String> {
    // Whatever its parent wants.
    ctx.shield(async || ctx.recv(GO).await).await?;
    Ok("shipped".into())
}

#[workflow]
pub(crate) async fn story(ctx: Ctx, kind: String) -> Result<()> {
    match kind.as_str() {
        "done" => drop(ctx.run(charge, "a").undo(refund).await?),
        "select" => outlast::select! {
            charged = ctx.run(charge, "a").undo(refund) => drop(charged?),
            slept = ctx.sleep(1.hours()) => slept?,
        },
        "timeout" => drop(ctx.run(charge, "a").undo(refund).timeout(1.hours()).await),
        "drop" => {
            let call = ctx.run(charge, "a").undo(refund);
            ctx.sleep(1.hours()).await?;
            drop(call);
        }
        "cancel" => drop(ctx.run(charge, "a").undo(refund).await?),
        "cancel that waits" => {
            let call = ctx.run(charge, "a").cancel_mode(CancelMode::Wait);
            call.undo(refund).await?;
        }
        "abandon" => {
            let call = ctx.run(charge, "a").cancel_mode(CancelMode::Abandon);
            drop(call.undo(refund).timeout(1.hours()).await);
        }
        "branch" => {
            let branch = ctx.spawn(async move { ctx.run(charge, "a").undo(refund).await });
            ctx.sleep(1.hours()).await?;
            drop(branch);
        }
        "child" => {
            let child = ctx.child(shipment, ()).id("shipment").undo(refund);
            ctx.sleep(1.hours()).await?;
            drop(child);
        }
        "shield with a timeout" => {
            let stopped = ctx.sleep(9.days()).await;
            let tidied = ctx.shield(async || ctx.sleep(2.days()).await);
            drop(tidied.timeout(1.days()).await);
            stopped?;
        }
        "block that cleans up" => drop(cleans_up(ctx).timeout(1.days()).await),
        other => Err(format!("unknown: {other}"))?,
    }
    ctx.recv(GO).await?;
    Err("it fails in the end".into())
}

async fn cleans_up(ctx: Ctx) -> Result<()> {
    let stopped = ctx.sleep(9.hours()).await;
    ctx.shield(async || ctx.sleep(2.days()).await).await?;
    Ok(stopped?)
}
