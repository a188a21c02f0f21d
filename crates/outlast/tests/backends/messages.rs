//! Signals, queries, updates.

use outlast::prelude::*;
use outlast::{Builder, CallError, Payload};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::bench::Bench;

pub(crate) fn register(builder: Builder) -> Builder {
    builder
        .workflow(letters)
        .workflow(late_reader)
        .workflow(counts)
        .workflow(Basket::run)
        .workflow(hears_all)
}

const LETTER: Signal<String> = signal("letter");
const END: Signal<()> = signal("end");

#[workflow]
async fn letters(ctx: Ctx, wanted: usize) -> Result<String> {
    let mut all = Vec::new();
    while all.len() < wanted {
        all.push(ctx.recv(LETTER).await?);
    }
    Ok(all.join(","))
}

pub(crate) async fn pulled_in_order(bench: Bench) -> Vec<String> {
    let run = bench.app.start(letters, 3).await.expect("it starts");
    for letter in ["one", "two", "three"] {
        run.send(LETTER, letter).await.expect("it is durable");
    }
    let said = run.result().await.expect("it ends");
    bench.sound(&run, letters).await;
    vec![said]
}

#[workflow]
async fn late_reader(ctx: Ctx) -> Result<String> {
    ctx.sleep(100.millis()).await?;
    Ok(ctx.recv(LETTER).await?)
}

pub(crate) async fn sent_before_anybody_waits(bench: Bench) -> Vec<String> {
    let run = bench.app.start(late_reader, ()).await.expect("it starts");
    run.send(LETTER, "early").await.expect("it is durable");
    let said = run.result().await.expect("it ends");
    bench.sound(&run, late_reader).await;
    vec![said]
}

pub(crate) async fn a_start_with_a_signal(bench: Bench) -> Vec<String> {
    let mut said = Vec::new();
    for text in ["hello", "hello again"] {
        let start = bench.app.start(letters, 1).id(bench.id("inbox"));
        let run = start.with_signal(|run| run.send(LETTER, text)).await;
        let run = run.expect("it starts");
        said.push(run.result().await.expect("it ends"));
        bench.sound(&run, letters).await;
    }
    said
}

#[workflow]
async fn counts(ctx: Ctx) -> Result<u64> {
    let mut count = 0;
    loop {
        outlast::select! {
            letter = ctx.recv(LETTER) => { letter?; count += 1; },
            end = ctx.recv(END) => { end?; return Ok(count); },
        }
    }
}

pub(crate) async fn the_same_request_counts_once(bench: Bench) -> Vec<String> {
    let run = bench.app.start(counts, ()).await.expect("it starts");
    for _ in 0..3 {
        let sent = run.send(LETTER, "again").request_id("r-1");
        sent.await.expect("it is durable");
    }
    run.send(END, ()).await.expect("it is durable");
    let count = run.result().await.expect("it ends");
    bench.sound(&run, counts).await;
    vec![count.to_string()]
}

#[derive(Debug, thiserror::Error, Serialize, Deserialize, Failure)]
enum Full {
    #[error("empty")]
    Empty,
    #[error("no room")]
    NoRoom,
}

#[derive(Default, Serialize)]
struct Basket {
    items: Vec<String>,
    is_closed: bool,
}

#[workflow]
impl Basket {
    async fn run(ctx: Ctx<Self>) -> Result<usize> {
        ctx.wait_until(|basket| basket.is_closed).await?;
        Ok(ctx.read(|basket| basket.items.len()))
    }

    #[signal]
    fn close(&mut self) {
        self.is_closed = true;
    }

    #[query]
    fn count(&self) -> usize {
        self.items.len()
    }

    #[validator(put)]
    fn can_put(&self, item: &String) -> Result<(), Full> {
        if item.is_empty() {
            Err(Full::Empty)
        } else {
            Ok(())
        }
    }

    #[update]
    fn put(&mut self, item: String) -> Result<usize, Full> {
        if self.items.len() == 2 {
            return Err(Full::NoRoom);
        }
        self.items.push(item);
        Ok(self.items.len())
    }

    #[update]
    async fn wrap(ctx: Ctx<Self>, item: String) -> Result<String> {
        ctx.sleep(50.millis()).await?;
        ctx.with(|basket| basket.items.push(item.clone()));
        Ok(format!("done: {item}"))
    }
}

pub(crate) async fn a_query_of_an_open_and_an_ended_run(bench: Bench) -> Vec<String> {
    let basket = bench.app.start(Basket::run, ()).await.expect("it starts");
    let mut said = Vec::new();
    for item in ["tea", "mug"] {
        basket.put(item).await.expect("it is answered");
        said.push(basket.count().await.expect("it is answered"));
    }
    basket.close().await.expect("it is durable");
    basket.result().await.expect("it ends");
    said.push(basket.count().await.expect("it is answered"));
    bench.sound(&basket, Basket::run).await;
    said.iter().map(usize::to_string).collect()
}

pub(crate) async fn a_query_that_nobody_answers(bench: Bench) -> Vec<String> {
    let basket = bench.app.start(Basket::run, ()).await.expect("it starts");
    let answer = basket.query_raw("unheard-of", &json!(null)).await;
    assert!(answer.is_err(), "{answer:?}");
    basket.close().await.expect("it is durable");
    basket.result().await.expect("it ends");
    bench.sound(&basket, Basket::run).await;
    vec!["refused".into()]
}

pub(crate) async fn an_update_is_answered(bench: Bench) -> Vec<String> {
    let basket = bench.app.start(Basket::run, ()).await.expect("it starts");
    let mut said = Vec::new();
    for item in ["tea", "mug"] {
        let count = basket.put(item).await.expect("it is answered");
        said.push(count.to_string());
    }
    basket.close().await.expect("it is durable");
    basket.result().await.expect("it ends");
    bench.sound(&basket, Basket::run).await;
    said
}

pub(crate) async fn an_update_is_rejected(bench: Bench) -> Vec<String> {
    let basket = bench.app.start(Basket::run, ()).await.expect("it starts");
    let rejected = basket.put("").await.expect_err("it is turned away");
    assert!(matches!(rejected, CallError::Rejected(_)), "{rejected}");
    let why = rejected.find::<Full>().expect("it has its type");
    basket.close().await.expect("it is durable");
    let kept = basket.result().await.expect("it ends");
    bench.sound(&basket, Basket::run).await;
    vec![format!("rejected: {why}"), format!("{kept} kept")]
}

pub(crate) async fn an_update_that_takes_its_time(bench: Bench) -> Vec<String> {
    let basket = bench.app.start(Basket::run, ()).await.expect("it starts");
    let wrapped = basket.wrap("tea").accepted().await.expect("it is accepted");
    let done = wrapped.result().await.expect("it is answered");
    basket.close().await.expect("it is durable");
    basket.result().await.expect("it ends");
    bench.sound(&basket, Basket::run).await;
    vec!["accepted".into(), done]
}

pub(crate) async fn an_update_that_fails(bench: Bench) -> Vec<String> {
    let basket = bench.app.start(Basket::run, ()).await.expect("it starts");
    for item in ["tea", "mug"] {
        basket.put(item).await.expect("it is answered");
    }
    let failed = basket.put("pot").await.expect_err("there is no room");
    let CallError::Failed(why, _) = failed else {
        panic!("{failed}")
    };
    basket.close().await.expect("it is durable");
    basket.result().await.expect("it ends");
    bench.sound(&basket, Basket::run).await;
    vec![why.to_string(), "ended".into()]
}

pub(crate) async fn an_update_with_a_start(bench: Bench) -> Vec<String> {
    let put = |item: &'static str| {
        let start = bench.app.start(Basket::run, ()).id(bench.id("basket"));
        start.with_update(move |basket| basket.put(item))
    };
    let (first, one) = put("tea").await.expect("it starts");
    let (second, two) = put("mug").await.expect("it is open");
    let is_same = first.run_id() == second.run_id();
    first.close().await.expect("it is durable");
    first.result().await.expect("it ends");
    bench.sound(&first, Basket::run).await;
    let same = if is_same { "same run" } else { "another" };
    vec![one.to_string(), two.to_string(), same.into()]
}

pub(crate) async fn the_same_update_is_done_once(bench: Bench) -> Vec<String> {
    let basket = bench.app.start(Basket::run, ()).await.expect("it starts");
    let mut said = Vec::new();
    for _ in 0..2 {
        let count = basket.put("tea").id("u-1").await.expect("it is answered");
        said.push(count.to_string());
    }
    basket.close().await.expect("it is durable");
    basket.result().await.expect("it ends");
    bench.sound(&basket, Basket::run).await;
    said
}

pub(crate) async fn built_in_questions(bench: Bench) -> Vec<String> {
    let basket = bench.app.start(Basket::run, ()).await.expect("it starts");
    basket.put("tea").await.expect("it is answered");
    let stack = basket.stack().await.expect("it waits");
    assert!(stack.contains("messages.rs:"), "{stack}");
    let state = basket.state().await.expect("it serialises");
    let items = state["items"].as_array().map_or(0, Vec::len);
    let handlers = basket.handlers().await.expect("it has some");
    assert!(
        handlers["updates"].to_string().contains("put"),
        "{handlers}"
    );
    basket.close().await.expect("it is durable");
    basket.result().await.expect("it ends");
    bench.sound(&basket, Basket::run).await;
    vec!["stack".into(), format!("state {items}"), "handlers".into()]
}

#[workflow]
async fn hears_all(ctx: Ctx) -> Result<String> {
    let heard = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
    let notes = std::rc::Rc::clone(&heard);
    ctx.on_any_signal(async move |name: String, content: Payload| {
        let content = content.decode::<Value>().unwrap_or_default();
        notes.borrow_mut().push(format!("{name}:{content}"));
    });
    ctx.recv(END).await?;
    // What came with it, before the code first ran, goes to its handler when the code rests.
    ctx.sleep(1.millis()).await?;
    let all = heard.borrow().join(" ");
    Ok(all)
}

pub(crate) async fn whatever_comes(bench: Bench) -> Vec<String> {
    let run = bench.app.start(hears_all, ()).await.expect("it starts");
    for (name, content) in [("a", 1), ("b", 2)] {
        let sent = run.send_raw(name, &json!(content)).await;
        sent.expect("it is durable");
    }
    run.send(END, ()).await.expect("it is durable");
    let said = run.result().await.expect("it ends");
    bench.sound(&run, hears_all).await;
    vec![said]
}
