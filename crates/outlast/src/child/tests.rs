//! Children and other runs, with the engine's part played by the test.

use outlast_model::command::StartChild;
use outlast_model::event::{DeliveryFailedCause, StartFailedCause};
use outlast_model::job::ChildStart;
use outlast_model::{Command, Job, RunId, Seq};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::*;
use crate::ctx::play::Play;
use crate::prelude::*;

#[derive(Debug, thiserror::Error, Serialize, Deserialize, Failure)]
#[error("card declined: {0}")]
struct Declined(String);

#[workflow]
async fn pay(_ctx: Ctx, cents: u64) -> Result<String, Declined> {
    Ok(format!("paid {cents}"))
}

#[derive(Default)]
struct Cart {
    items: Vec<String>,
}

#[workflow]
impl Cart {
    async fn run(ctx: Ctx<Self>, limit: usize) -> Result<usize> {
        ctx.wait_until(move |cart| cart.items.len() >= limit)
            .await?;
        Ok(limit)
    }

    #[signal]
    fn add(&mut self, item: String) {
        self.items.push(item);
    }
}

const HINT: Signal<u64> = signal("hint");

#[workflow]
async fn one(ctx: Ctx) -> Result<String> {
    match ctx.child(pay, 5).await {
        Ok(text) => Ok(text),
        Err(CallError::Failed(Declined(why), _)) => Ok(format!("declined: {why}")),
        Err(CallError::AlreadyExists(_)) => Ok("taken".into()),
        Err(error) => Err(error.into()),
    }
}

fn start_of(play: &Play) -> &StartChild {
    if let [Command::StartChild(child)] = &play.commands[..] {
        return child;
    }
    panic!("{:?}", play.commands)
}

#[test]
fn a_child_gives_its_result() {
    let mut play = Play::start(one, ());
    let id = start_of(&play).workflow_id.clone();
    assert_eq!(play.asked(), [format!("child pay as {id} 5")]);
    assert!(id.as_str().ends_with("_1"), "made of the run's id: {id}");
    play.child_starts(1);
    assert_eq!(play.child(1, "paid 5").asked(), ["complete \"paid 5\""]);
}

#[test]
fn a_child_fails_with_the_error_of_its_own_type() {
    let mut play = Play::start(one, ());
    play.child_starts(1)
        .child_fails(1, Declined("stolen".into()).into_failure());
    assert_eq!(play.asked(), ["complete \"declined: stolen\""]);
}

#[test]
fn an_id_that_is_taken_is_an_error_of_its_own() {
    let mut play = Play::start(one, ());
    play.tell(vec![Job::ResolveChildStart {
        seq: Seq(1),
        result: ChildStart::Failed(StartFailedCause::AlreadyExists),
    }]);
    assert_eq!(play.asked(), ["complete \"taken\""]);
}

#[workflow]
async fn with_options(ctx: Ctx) -> Result<()> {
    ctx.child(pay, 5)
        .id("payment-7")
        .queue("cards")
        .parent_close(ParentClose::Abandon)
        .cancel_mode(ChildCancel::RequestOnly)
        .run_timeout(5.mins())
        .reuse(ReusePolicy::RejectDuplicate)
        .await?;
    Ok(())
}

#[test]
fn options_reach_the_command() {
    let play = Play::start(with_options, ());
    let child = start_of(&play);
    assert_eq!(child.workflow_id.as_str(), "payment-7");
    let expected = ChildOptions {
        queue: Some(QueueName::new("cards")),
        run_timeout: Some(5.mins()),
        parent_close: ParentClose::Abandon,
        cancel: ChildCancel::RequestOnly,
        reuse: ReusePolicy::RejectDuplicate,
        priority: None,
    };
    assert_eq!(child.options, expected);
}

#[workflow]
async fn talks_to_its_child(ctx: Ctx) -> Result<usize> {
    let child = ctx.child(Cart::run, 1).id("cart-7");
    let cart = child.started().await?;
    assert_eq!((cart.id(), cart.run_id()), ("cart-7", Some(RunId(77))));
    cart.add("tea").await?;
    Ok(child.await?)
}

fn delivered(play: &mut Play, seq: u32, cause: Option<DeliveryFailedCause>) {
    let seq = Seq(seq);
    play.tell(vec![Job::ResolveSignalExternal { seq, cause }]);
}

#[test]
fn a_started_child_is_talked_to_with_its_typed_handle() {
    let mut play = Play::start(talks_to_its_child, ());
    assert_eq!(play.child_starts(1).asked(), ["send add to cart-7 \"tea\""]);
    delivered(&mut play, 1, None);
    assert_eq!(play.child(1, 1).asked(), ["complete 1"]);
}

#[workflow]
async fn talks_to_others(ctx: Ctx) -> Result<String> {
    ctx.get(Cart::run, "cart-9").add("mug").await?;
    ctx.get(one, "order-1").send(HINT, 3).await?;
    let gone = ctx
        .external("gone")
        .send_raw("hello", &json!({"n": 1}))
        .await;
    let gone = matches!(gone, Err(CallError::NotFound(_)));
    ctx.external("slow").cancel().await?;
    Ok(format!("gone: {gone}"))
}

#[test]
fn what_is_sent_to_another_run_is_acknowledged_or_not_found() {
    let mut play = Play::start(talks_to_others, ());
    assert_eq!(play.asked(), ["send add to cart-9 \"mug\""]);
    delivered(&mut play, 1, None);
    assert_eq!(play.asked(), ["send hint to order-1 3"]);
    delivered(&mut play, 2, None);
    assert_eq!(play.asked(), ["send hello to gone {\"n\":1}"]);
    delivered(&mut play, 3, Some(DeliveryFailedCause::NotFound));
    assert_eq!(play.asked(), ["stop slow"]);
    play.tell(vec![Job::ResolveCancelExternal {
        of: outlast_model::event::CancelOf::External(Seq(1)),
        cause: None,
    }]);
    assert_eq!(play.asked(), ["complete \"gone: true\""]);
}

#[workflow]
async fn raw(ctx: Ctx) -> Result<Value> {
    let name = ctx.child_raw("elsewhere", &json!([1, 2])).await?;
    Ok(json!({ "name": name }))
}

#[test]
fn a_child_may_be_known_by_name_only() {
    let mut play = Play::start(raw, ());
    assert!(play.asked()[0].starts_with("child elsewhere as "));
    play.child_starts(1);
    assert_eq!(play.child(1, "x").asked(), ["complete {\"name\":\"x\"}"]);
}
