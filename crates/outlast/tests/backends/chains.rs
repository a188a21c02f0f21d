//! Runs that continue each other, and ids that are used again.

use outlast::prelude::*;
use outlast::{Builder, ConflictPolicy, ReusePolicy};

use super::bench::{Bench, outcome};

pub(crate) fn register(builder: Builder) -> Builder {
    builder
        .workflow(months)
        .workflow(hands_over)
        .workflow(parent_of_chain)
        .workflow(told)
}

const PAY: Signal<u64> = signal("pay");

#[workflow]
async fn months(ctx: Ctx, (month, paid): (u64, u64)) -> Result<u64> {
    if month == 3 {
        return Ok(paid);
    }
    let cents = ctx.recv(PAY).timeout(300.millis()).await.unwrap_or(month);
    ctx.continue_as_new((month + 1, paid + cents))
}

pub(crate) async fn a_chain_has_one_result(bench: Bench) -> Vec<String> {
    let id = bench.id("chain");
    let run = bench.app.start(months, (0, 12)).id(id.as_str()).await;
    let run = run.expect("it starts");
    let paid = run.result().await.expect("it ends");
    bench.sound(&run, months).await;
    let newest = bench.app.get(months, &id).describe().await;
    let newest = newest.expect("it is there").summary;
    assert_ne!(Some(newest.run_id), run.run_id(), "another run");
    vec![paid.to_string(), format!("{:?}", newest.status)]
}

pub(crate) async fn unread_signals_go_on(bench: Bench) -> Vec<String> {
    let start = bench.app.start(months, (0, 0)).id(bench.id("chain"));
    let run = start.with_signal(|run| run.send(PAY, 1)).await;
    let run = run.expect("it starts");
    for cents in [20, 300] {
        let newest = bench.app.get(months, bench.id("chain"));
        newest.send(PAY, cents).await.expect("it is durable");
    }
    let said = run.result().await.expect("it ends");
    bench.sound(&run, months).await;
    vec![said.to_string()]
}

#[workflow]
async fn hands_over(ctx: Ctx) -> Result<u64> {
    ctx.continue_as(months, (3, 99))
}

pub(crate) async fn as_another_workflow(bench: Bench) -> Vec<String> {
    let paid = outcome!(bench, hands_over, ()).expect("it ends");
    vec![paid.to_string()]
}

#[workflow]
async fn parent_of_chain(ctx: Ctx) -> Result<u64> {
    Ok(ctx.child(months, (0, 3)).await?)
}

pub(crate) async fn a_childs_chain(bench: Bench) -> Vec<String> {
    let paid = outcome!(bench, parent_of_chain, ()).expect("it ends");
    vec![paid.to_string()]
}

const GO: Signal<String> = signal("go");

#[workflow]
async fn told(ctx: Ctx) -> Result<String> {
    Ok(ctx.recv(GO).await?)
}

pub(crate) async fn an_id_again(bench: Bench) -> Vec<String> {
    let start = || bench.app.start(told, ()).id(bench.id("id"));
    let first = start().await.expect("it starts");
    let second = start().await.expect_err("it is open");
    assert_eq!(second.refusal().map(|r| r.code()), Some("OL-1004"));
    let same = start().conflict(ConflictPolicy::UseExisting).await;
    assert_eq!(same.expect("it attaches").run_id(), first.run_id());
    first.send(GO, "on").await.expect("it is durable");
    first.result().await.expect("it ends");
    bench.sound(&first, told).await;
    let refused = start().reuse(ReusePolicy::RejectDuplicate).await;
    refused.expect_err("it has ended");
    let anew = start().reuse(ReusePolicy::AllowDuplicate).await;
    let anew = anew.expect("it starts");
    assert_ne!(anew.run_id(), first.run_id());
    anew.terminate("enough").await.expect("it ends");
    ["refused", "same", "anew"].map(String::from).to_vec()
}

pub(crate) async fn attached_by_id(bench: Bench) -> Vec<String> {
    let id = bench.id("id");
    let run = bench.app.start(told, ()).id(id.as_str()).await;
    let run = run.expect("it starts");
    run.send(GO, "told").await.expect("it is durable");
    let mut said = Vec::new();
    for _ in 0..2 {
        let attached = bench.app.run(told, ()).id(id.as_str()).await;
        said.push(attached.expect("its result"));
    }
    bench.sound(&run, told).await;
    said
}
