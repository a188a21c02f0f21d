//! Runs that continue each other, starts that bring a message, and what handles see of both.

use std::path::Path;

use outlast::prelude::*;
use outlast::{App, Outlast, Settings, Status, Update, update};
use serde::Serialize;
use serde_json::json;

use super::support::{drive, names, sound};

const PAY: Signal<u64> = signal("pay");

#[workflow]
async fn subscription(ctx: Ctx, (month, paid): (u64, u64)) -> Result<u64> {
    if month == 3 {
        return Ok(paid);
    }
    let cents = ctx.recv(PAY).timeout(30.days()).await.unwrap_or(0);
    ctx.continue_as_new((month + 1, paid + cents))
}

#[test]
fn a_result_is_that_of_the_last_run_of_the_chain() {
    drive(async {
        let app = TestEnv::new().workflow(subscription).start().await;
        let run = app.start(subscription, (0, 0)).id("s").await;
        let run = run.expect("it starts");
        run.send(PAY, 5).await.expect("it is durable");
        assert_eq!(run.result().await.expect("it ends"), 5);
        let attached = app.run(subscription, (0, 0)).id("s").await;
        assert_eq!(attached.expect("its result"), 5);
        let newest = app.get(subscription, "s").describe().await;
        let newest = newest.expect("it is there").summary;
        assert_eq!(newest.status, Status::Completed);
        assert_ne!(Some(newest.run_id), run.run_id(), "another run");
    });
}

#[test]
fn signals_that_nobody_took_go_on_to_the_next_run() {
    drive(async {
        let app = TestEnv::new().workflow(subscription).start().await;
        let start = app.start(subscription, (0, 0)).id("s");
        let run = start.with_signal(|run| run.send(PAY, 1)).await;
        let run = run.expect("it starts");
        for cents in [20, 300] {
            run.send(PAY, cents).await.expect("it is durable");
        }
        assert_eq!(run.result().await.expect("it ends"), 321);
    });
}

#[workflow]
async fn hands_over(ctx: Ctx) -> Result<u64> {
    ctx.continue_as(subscription, (3, 99))
}

#[test]
fn a_run_may_go_on_as_another_workflow() {
    drive(async {
        let env = TestEnv::new().workflow(hands_over).workflow(subscription);
        let app = env.start().await;
        let run = app.start(hands_over, ()).await.expect("it starts");
        assert_eq!(run.result().await.expect("it ends"), 99);
        let history = sound(&run, hands_over).await;
        assert_eq!(
            names(&history).last(),
            Some(&"WorkflowExecutionContinuedAsNew")
        );
    });
}

#[workflow]
async fn parent(ctx: Ctx) -> Result<u64> {
    Ok(ctx.child(subscription, (0, 7)).await?)
}

#[test]
fn a_parent_waits_for_the_end_of_its_childs_chain() {
    drive(async {
        let env = TestEnv::new().workflow(parent).workflow(subscription);
        let app = env.start().await;
        assert_eq!(app.run(parent, ()).await.expect("it ends"), 7);
    });
}

#[derive(Default, Serialize)]
struct Basket {
    items: Vec<String>,
    is_closed: bool,
}

#[derive(Debug, thiserror::Error, Serialize, serde::Deserialize, Failure)]
#[error("nothing has no place in a basket")]
struct Nothing;

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

    #[validator(put)]
    fn can_put(&self, item: &String) -> Result<(), Nothing> {
        if item.is_empty() {
            Err(Nothing)
        } else {
            Ok(())
        }
    }

    #[update]
    fn put(&mut self, item: String) -> usize {
        self.items.push(item);
        self.items.len()
    }
}

#[test]
fn an_update_starts_the_run_that_answers_it_or_finds_the_open_one() {
    drive(async {
        let app = TestEnv::new().workflow(Basket::run).start().await;
        let put = |item: &'static str| {
            let start = app.start(Basket::run, ()).id("b");
            start.with_update(move |basket| basket.put(item))
        };
        let (first, n) = put("tea").await.expect("it starts");
        assert_eq!(n, 1);
        let (second, n) = put("mug").await.expect("it is open");
        assert_eq!((n, second.run_id()), (2, first.run_id()));
        let (_, accepted) = put("pot").accepted().await.expect("it is accepted");
        assert_eq!(accepted.result().await.expect("it is answered"), 3);
        let rejected = put("").await.expect_err("it is turned away");
        assert!(rejected.find::<Nothing>().is_some(), "{rejected}");
        first.close().await.expect("it is durable");
        assert_eq!(first.result().await.expect("it ends"), 3);
        sound(&first, Basket::run).await;
    });
}

#[test]
fn every_run_shows_its_state_its_stack_and_its_handlers() {
    drive(async {
        let app = TestEnv::new().workflow(Basket::run).start().await;
        let start = app.start(Basket::run, ()).id("b");
        let (basket, _) = start.with_update(|b| b.put("tea")).await.expect("starts");
        let state = basket.state().await.expect("it serialises");
        assert_eq!(state, json!({"items": ["tea"], "is_closed": false}));
        let stack = basket.stack().await.expect("it waits");
        assert!(stack.contains("chains.rs:"), "{stack}");
        let handlers = basket.handlers().await.expect("it has some");
        assert_eq!(handlers["updates"], json!([{"name": "put"}]));
        basket.close().await.expect("it is durable");
        basket.result().await.expect("it ends");
        let state = basket.state().await.expect("a closed run answers, too");
        assert_eq!(state["is_closed"], json!(true));
    });
}

#[test]
fn a_run_is_started_told_and_asked_by_names_and_json() {
    drive(async {
        let app = TestEnv::new().workflow(Basket::run).start().await;
        let start = app.start_raw("Basket", &json!(null)).id("raw");
        start.await.expect("it starts");
        let basket = app.get_raw("raw");
        let n = basket.update_raw("put", &json!("tea")).await;
        assert_eq!(n.expect("it is answered"), json!(1));
        basket.send_raw("close", &json!(null)).await.expect("sent");
        assert_eq!(basket.result().await.expect("it ends"), json!(1));
    });
}

const SLOW: Update<u64, u64> = update("slow");

#[workflow]
async fn answers_late(ctx: Ctx) -> Result<()> {
    ctx.on_update(SLOW, async move |days| {
        ctx.sleep(days.days()).await?;
        Ok(days)
    });
    ctx.sleep(10.days()).await?;
    Ok(())
}

#[test]
fn waiting_for_an_update_lets_virtual_time_pass() {
    drive(async {
        let app = TestEnv::new().workflow(answers_late).start().await;
        let run = app.start(answers_late, ()).await.expect("it starts");
        assert_eq!(run.update(SLOW, 3).await.expect("in time"), 3);
        let late = run.update(SLOW, 30).await.expect_err("the run ends first");
        assert!(matches!(late, CallError::RunFinished(_)), "{late}");
        run.result().await.expect("it ends");
        let notes = run.describe().await.expect("it is there").notes;
        assert!(notes.iter().any(|note| note.contains("slow")), "{notes:?}");
    });
}

#[test]
fn an_update_that_is_turned_away_leaves_the_run_it_came_with() {
    drive(async {
        let app = TestEnv::new().workflow(Basket::run).start().await;
        let start = app.start(Basket::run, ()).id("b");
        let rejected = start.with_update(|basket| basket.put("")).await;
        assert!(matches!(rejected, Err(CallError::Rejected(_))));
        let basket = app.get(Basket::run, "b");
        let found = basket.describe().await.expect("it was started");
        assert_eq!(found.summary.status, Status::Running);
        assert_eq!(basket.put("tea").await.expect("it is there"), 1);
    });
}

/// Runs of the chain, and signals to each of them.
const LINKS: u64 = 1_000;
const EACH: u64 = 3;

#[workflow]
async fn link(ctx: Ctx, (at, until, total): (u64, u64, u64)) -> Result<u64> {
    let mut total = total;
    for _ in 0..EACH {
        total += ctx.recv(PAY).await?;
    }
    if at == until {
        return Ok(total);
    }
    ctx.continue_as_new((at + 1, until, total))
}

async fn linked(path: &Path) -> App {
    let builder = Outlast::sqlite(path).workflow(link).settings(Settings {
        requests_remembered: 40,
        ..Settings::default()
    });
    builder.start().await.expect("it opens")
}

/// Sends each signal twice, and one of ten runs before once more; returns the size of the file.
async fn send_all(path: &Path, links: std::ops::Range<u64>) -> u64 {
    let app = linked(path).await;
    let run = app.get(link, "chain");
    for n in links.start * EACH..links.end * EACH {
        let request = format!("a request of a usual length, number {n}");
        run.send(PAY, n)
            .request_id(&request)
            .await
            .expect("durable");
        run.send(PAY, n).request_id(&request).await.expect("known");
        if let Some(earlier) = n.checked_sub(10 * EACH) {
            let request = format!("a request of a usual length, number {earlier}");
            let again = run.send(PAY, 1 << 40).request_id(&request);
            again.await.expect("known in the chain");
        }
    }
    app.shutdown().await;
    std::fs::metadata(path).expect("a file").len()
}

#[test]
fn a_long_chain_under_signals_needs_room_for_what_is_new_only() {
    drive(async {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("runs.db");
        let app = linked(&path).await;
        let start = app.start(link, (1, LINKS, 0)).id("chain").await;
        start.expect("it starts");
        app.shutdown().await;
        let half = LINKS / 2;
        let warm = send_all(&path, 0..20).await;
        let first = send_all(&path, 20..half).await;
        let second = send_all(&path, half..LINKS - 20).await;
        let (first_half, second_half) = (first - warm, second - first);
        assert!(
            second_half * 10 <= first_half * 11,
            "{first_half} bytes, then {second_half}"
        );
        send_all(&path, LINKS - 20..LINKS).await;
        let app = linked(&path).await;
        let signals = LINKS * EACH;
        let total = app.get(link, "chain").result().await.expect("it ends");
        assert_eq!(total, signals * (signals - 1) / 2, "none counted twice");
        app.shutdown().await;
    });
}
