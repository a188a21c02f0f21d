//! Children, other runs, promises.

use std::sync::Mutex;

use outlast::prelude::*;
use outlast::{Builder, CallError, ChildCancel, ParentClose, Status};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::bench::{Bench, eventually, outcome};

pub(crate) fn register(builder: Builder) -> Builder {
    builder
        .activity(hand_out)
        .workflow(half)
        .workflow(halves)
        .workflow(waits_long)
        .workflow(starts_taken)
        .workflow(leaves_children)
        .workflow(stops_its_child)
        .workflow(Inbox::run)
        .workflow(writes)
        .workflow(writes_to_child)
        .workflow(stops_another)
        .workflow(publish)
        .workflow(confirm)
        .workflow(by_name)
}

#[derive(Debug, thiserror::Error, Serialize, Deserialize, Failure)]
#[error("{0} is odd")]
struct Odd(u64);

#[workflow]
async fn half(ctx: Ctx, n: u64) -> Result<u64, Odd> {
    if n % 2 == 1 {
        return Err(Odd(n));
    }
    ctx.sleep(10.millis()).await.map_err(|_| Odd(n))?;
    Ok(n / 2)
}

#[workflow]
async fn halves(ctx: Ctx, numbers: Vec<u64>) -> Result<Vec<String>> {
    let calls: Vec<_> = numbers.iter().map(|n| ctx.child(half, n)).collect();
    let mut all = Vec::new();
    for call in calls {
        all.push(match call.await {
            Ok(n) => n.to_string(),
            Err(CallError::Failed(Odd(n), _)) => format!("{n} is odd"),
            Err(error) => return Err(error.into()),
        });
    }
    Ok(all)
}

pub(crate) async fn children_and_their_errors(bench: Bench) -> Vec<String> {
    outcome!(bench, halves, vec![8, 3, 4]).expect("it ends")
}

#[workflow]
async fn waits_long(ctx: Ctx) -> Result<()> {
    Ok(ctx.sleep(60.secs()).await?)
}

#[workflow]
async fn starts_taken(ctx: Ctx, id: String) -> Result<String> {
    let child = ctx.child(waits_long, ()).id(id).await;
    let is_taken = matches!(child, Err(CallError::AlreadyExists(_)));
    Ok(if is_taken { "taken" } else { "free" }.into())
}

pub(crate) async fn an_id_that_is_taken(bench: Bench) -> Vec<String> {
    let id = bench.id("taken");
    let other = bench.app.start(waits_long, ()).id(id.as_str()).await;
    let said = outcome!(bench, starts_taken, &id).expect("it ends");
    let other = other.expect("it starts");
    other.terminate("enough").await.expect("it ends");
    vec![said]
}

#[workflow]
async fn leaves_children(ctx: Ctx) -> Result<()> {
    for (name, policy) in POLICIES {
        let id = format!("{}/{name}", ctx.id());
        let child = ctx.child(waits_long, ()).id(id).parent_close(policy);
        child.started().await?;
        child.detach();
    }
    Ok(())
}

const POLICIES: [(&str, ParentClose); 3] = [
    ("ended", ParentClose::Terminate),
    ("asked", ParentClose::RequestCancel),
    ("left", ParentClose::Abandon),
];

pub(crate) async fn what_becomes_of_them(bench: Bench) -> Vec<String> {
    let id = bench.id("parent");
    let run = bench.app.start(leaves_children, ()).id(id.as_str()).await;
    let run = run.expect("it starts");
    run.result().await.expect("it ends");
    bench.sound(&run, leaves_children).await;
    let child = |name: &str| bench.app.get(waits_long, format!("{id}/{name}"));
    let ended = child("ended").result().await.expect_err("it was ended");
    assert!(matches!(ended, CallError::Terminated(_)), "{ended}");
    let asked = child("asked").result().await.expect_err("it was asked");
    assert!(asked.is_cancelled(), "{asked}");
    let left = child("left").describe().await.expect("it is there");
    assert_eq!(left.summary.status, Status::Running);
    child("left").terminate("enough").await.expect("it ends");
    ["terminated", "cancelled", "running"]
        .map(String::from)
        .to_vec()
}

#[workflow]
async fn stops_its_child(ctx: Ctx, mode: String) -> Result<String> {
    let chosen = match mode.as_str() {
        "wait" => ChildCancel::Wait,
        "try" => ChildCancel::Try,
        _ => ChildCancel::Abandon,
    };
    let child = ctx.child(waits_long, ()).cancel_mode(chosen);
    child.started().await?;
    child.cancel();
    let ended = child.await;
    let is_cancelled = ended.is_err_and(|error| error.is_cancelled());
    Ok(format!("{mode}: {is_cancelled}"))
}

pub(crate) async fn how_a_child_is_cancelled(bench: Bench) -> Vec<String> {
    let mut said = Vec::new();
    for mode in ["wait", "try", "abandon"] {
        said.push(outcome!(bench, stops_its_child, mode).expect("it ends"));
    }
    said
}

#[derive(Default)]
struct Inbox {
    letters: Vec<String>,
}

#[workflow]
impl Inbox {
    async fn run(ctx: Ctx<Self>, letters: usize) -> Result<String> {
        let is_full = move |inbox: &Self| inbox.letters.len() == letters;
        ctx.wait_until(is_full).await?;
        Ok(ctx.read(|inbox| inbox.letters.join(",")))
    }

    #[signal]
    fn post(&mut self, letter: String) {
        self.letters.push(letter);
    }
}

#[workflow]
async fn writes(ctx: Ctx, id: String) -> Result<String> {
    let inbox = ctx.get(Inbox::run, &id);
    for letter in ["one", "two", "three"] {
        inbox.post(letter).await?;
    }
    let nobody = ctx
        .get(Inbox::run, format!("{id}/nobody"))
        .post("lost")
        .await;
    let is_missing = matches!(nobody, Err(CallError::NotFound(_)));
    Ok(if is_missing {
        "nobody there"
    } else {
        "somebody"
    }
    .into())
}

pub(crate) async fn signals_to_another(bench: Bench) -> Vec<String> {
    let id = bench.id("inbox");
    let inbox = bench.app.start(Inbox::run, 3).id(id.as_str()).await;
    let inbox = inbox.expect("it starts");
    let said = outcome!(bench, writes, &id).expect("it ends");
    let letters = inbox.result().await.expect("it ends");
    bench.sound(&inbox, Inbox::run).await;
    vec![letters, said]
}

#[workflow]
async fn writes_to_child(ctx: Ctx) -> Result<String> {
    let child = ctx.child(Inbox::run, 1);
    let inbox = child.started().await?;
    inbox.post("from its parent").await?;
    Ok(child.await?)
}

pub(crate) async fn signals_to_a_child(bench: Bench) -> Vec<String> {
    vec![outcome!(bench, writes_to_child, ()).expect("it ends")]
}

#[workflow]
async fn stops_another(ctx: Ctx, id: String) -> Result<String> {
    ctx.external(id).cancel().await?;
    Ok("told".into())
}

pub(crate) async fn asks_another_to_stop(bench: Bench) -> Vec<String> {
    let id = bench.id("other");
    let other = bench.app.start(waits_long, ()).id(id.as_str()).await;
    let said = outcome!(bench, stops_another, &id).expect("it ends");
    let ended = other.expect("it starts").result().await;
    assert!(ended.expect_err("it stops").is_cancelled());
    vec![said, "cancelled".into()]
}

#[workflow]
async fn publish(ctx: Ctx) -> Result<String> {
    match ctx.promise_named::<String>("approval").await {
        Ok(editor) => Ok(format!("approved by {editor}")),
        Err(CallError::Failed(why, _)) => Ok(format!("rejected: {why}")),
        Err(other) => Err(other.into()),
    }
}

pub(crate) async fn settled_from_outside(bench: Bench) -> Vec<String> {
    let mut said = Vec::new();
    let good = bench.app.start(publish, ()).id(bench.id("good")).await;
    let promise = bench.app.promise::<String>(&bench.id("good"), "approval");
    promise.resolve("Kari").await.expect("it is durable");
    let good = good.expect("it starts");
    said.push(good.result().await.expect("it ends"));
    bench.sound(&good, publish).await;
    let bad = bench.app.start(publish, ()).id(bench.id("bad")).await;
    let promise = bench.app.promise::<String>(&bench.id("bad"), "approval");
    promise.reject("no source").await.expect("it is durable");
    let bad = bad.expect("it starts");
    said.push(bad.result().await.expect("it ends"));
    bench.sound(&bad, publish).await;
    said
}

pub(crate) async fn settled_twice(bench: Bench) -> Vec<String> {
    let run = bench.app.start(publish, ()).id(bench.id("run")).await;
    let promise = bench.app.promise::<String>(&bench.id("run"), "approval");
    promise.resolve("Kari").await.expect("it is durable");
    let again = promise.resolve("Ola").await;
    let run = run.expect("it starts");
    let said = run.result().await.expect("it ends");
    assert_eq!(said, "approved by Kari", "the first one counts");
    bench.sound(&run, publish).await;
    vec![if again.is_err() { "refused" } else { "ignored" }.into()]
}

static TOKENS: Mutex<Vec<(String, String)>> = Mutex::new(Vec::new());

#[activity]
async fn hand_out(ctx: ActivityCtx, token: String) -> Result<()> {
    let id = ctx.workflow_id().to_string();
    TOKENS
        .lock()
        .expect("nobody panics with it")
        .push((id, token));
    Ok(())
}

#[workflow]
async fn confirm(ctx: Ctx) -> Result<bool> {
    let clicked = ctx.promise::<bool>();
    ctx.run(hand_out, clicked.token()).await?;
    Ok(clicked.await?)
}

pub(crate) async fn settled_by_token(bench: Bench) -> Vec<String> {
    let id = bench.id("confirm");
    let run = bench.app.start(confirm, ()).id(id.as_str()).await;
    let find = async || {
        let tokens = TOKENS.lock().expect("nobody panics with it");
        let mut mine = tokens.iter().filter(|(whose, _)| *whose == id);
        mine.next().map(|(_, token)| token.clone())
    };
    let token = eventually(find).await;
    let settled = bench.app.resolve_token(&token, true).await;
    settled.expect("it is durable");
    let run = run.expect("it starts");
    let said = run.result().await.expect("it ends");
    bench.sound(&run, confirm).await;
    vec![said.to_string()]
}

#[workflow]
async fn by_name(ctx: Ctx) -> Result<Value> {
    let half = ctx.child_raw("half", &json!(8)).await?;
    Ok(json!({ "half": half }))
}

pub(crate) async fn by_name_and_json(bench: Bench) -> Vec<String> {
    let start = bench.app.start_raw("by_name", &json!(null));
    let run = start.id(bench.id("raw")).await.expect("it starts");
    let said = run.result().await.expect("it ends");
    bench.sound(&run, by_name).await;
    vec![said.to_string()]
}
