//! Messages that cannot be taken as they are, and code that takes them badly. The sender who
//! waits for an answer gets one; what was acknowledged is kept until code can read it.

use std::future::IntoFuture as _;

use outlast::model::event::TaskFailedCause;
use outlast::prelude::*;
use outlast::{Description, Handle};
use outlast_service::memory::MemoryStore;
use serde_json::json;

use crate::support::{cached, code, drive, failure, names, on, sound, until};

#[derive(Default)]
struct Tally {
    total: u64,
    is_closed: bool,
}

#[workflow]
impl Tally {
    async fn run(ctx: Ctx<Self>) -> Result<u64> {
        ctx.wait_until(|tally| tally.is_closed).await?;
        Ok(ctx.read(|tally| tally.total))
    }

    #[signal]
    fn add(&mut self, n: u64) {
        self.total += n;
    }

    #[signal]
    fn close(&mut self) {
        self.is_closed = true;
    }

    #[query]
    fn at_least(&self, n: u64) -> bool {
        self.total >= n
    }

    #[query]
    fn meddle(&self, ctx: Ctx) -> bool {
        ctx.sleep(1.secs()).detach();
        true
    }

    #[update]
    fn set(&mut self, n: u64) -> u64 {
        std::mem::replace(&mut self.total, n)
    }

    #[validator(multiply)]
    fn can_multiply(&self, n: &u64) -> Result<()> {
        assert!(*n != 0, "zero on purpose");
        Ok(())
    }

    #[update]
    fn multiply(&mut self, n: u64) -> u64 {
        self.total *= n;
        self.total
    }
}

/// The same workflow in a later build: its handler reads more.
#[derive(Default)]
struct LenientTally {
    total: u64,
    is_closed: bool,
}

#[workflow(name = "Tally")]
impl LenientTally {
    async fn run(ctx: Ctx<Self>) -> Result<u64> {
        ctx.wait_until(|tally| tally.is_closed).await?;
        Ok(ctx.read(|tally| tally.total))
    }

    #[signal]
    fn add(&mut self, n: serde_json::Value) {
        let spelled = n.as_str().and_then(|text| text.parse().ok());
        self.total += n.as_u64().or(spelled).unwrap_or(0);
    }

    #[signal]
    fn close(&mut self) {
        self.is_closed = true;
    }
}

async fn ends_with<E: outlast::IntoFailure>(tally: &Handle<u64, E>, total: u64)
where
    E::Seen: std::fmt::Debug,
{
    let close: Signal<()> = signal("close");
    tally.send(close, ()).await.expect("it is durable");
    assert_eq!(tally.result().await.expect("it ends"), total);
    sound(tally, Tally::run).await;
}

fn trouble(found: Description) -> String {
    let trouble = found.trouble.expect("it is in trouble");
    trouble.failure.to_string()
}

#[test]
fn a_signal_of_another_type_is_kept_until_code_can_read_it() {
    drive(async {
        let store = MemoryStore::new();
        let env = on(&store).report(|_| ());
        let app = env.workflow(Tally::run).start().await;
        let tally = app.start(Tally::run, ()).id("t").await.expect("it starts");
        let sent = tally.send_raw("add", &json!("40")).await;
        sent.expect("it is durable: nobody has looked into it");
        let found = trouble(until(&tally, |d| d.trouble.is_some()).await);
        assert!(found.contains("signal add is not a `u64`"), "{found}");
        tally.add(2).await.expect("it is durable, behind the other");
        app.shutdown().await;
        drop(app);

        let app = on(&store).workflow(LenientTally::run).start().await;
        let tally = app.get(LenientTally::run, "t");
        tally.close().await.expect("it is durable");
        assert_eq!(tally.result().await.expect("it ends"), 42);
        sound(&tally, LenientTally::run).await;
    });
}

#[test]
fn an_update_of_another_type_is_turned_away_and_leaves_no_trace() {
    drive(async {
        let app = TestEnv::new().workflow(Tally::run).start().await;
        let tally = app.start(Tally::run, ()).await.expect("it starts");
        let refused = tally.update_raw("set", &json!("many")).await;
        assert!(
            matches!(refused, Err(CallError::Rejected(_))),
            "{refused:?}"
        );
        let text = failure(refused);
        assert!(text.contains("update set is not a `u64`"), "{text}");
        let history = names(&tally.history().await.expect("a history"));
        assert!(!history.iter().any(|name| name.contains("Update")));
        ends_with(&tally, 0).await;
    });
}

#[test]
fn a_query_of_another_type_fails_and_names_the_type() {
    drive(async {
        let app = TestEnv::new().workflow(Tally::run).start().await;
        let tally = app.start(Tally::run, ()).await.expect("it starts");
        let text = failure(tally.query_raw("at_least", &json!([1])).await);
        assert!(text.contains("query at_least is not a `u64`"), "{text}");
        ends_with(&tally, 0).await;
    });
}

#[test]
fn a_message_that_nobody_handles_is_kept_rejected_or_failed_by_its_kind() {
    drive(async {
        let app = TestEnv::new().workflow(Tally::run).start().await;
        let tally = app.start(Tally::run, ()).await.expect("it starts");

        let sent = tally.send_raw("subtract", &json!(1)).await;
        sent.expect("a signal is kept for whoever takes it");
        let found = tally.describe().await.expect("it is there");
        assert_eq!(found.unhandled_signals, 1);

        let refused = tally.update_raw("divide", &json!(1)).await;
        assert!(
            matches!(refused, Err(CallError::Rejected(_))),
            "{refused:?}"
        );
        let text = failure(refused);
        assert!(text.contains("multiply") && text.contains("set"), "{text}");

        let text = failure(tally.query_raw("at_most", &json!(1)).await);
        assert!(text.contains("at_least"), "{text}");
        ends_with(&tally, 0).await;
    });
}

#[test]
fn a_validator_that_panics_turns_the_update_away() {
    drive(async {
        let app = TestEnv::new().workflow(Tally::run).start().await;
        let tally = app.start(Tally::run, ()).await.expect("it starts");
        tally.add(7).await.expect("it is durable");
        let refused = tally.multiply(0).await;
        assert!(
            matches!(refused, Err(CallError::Rejected(_))),
            "{refused:?}"
        );
        let text = failure(refused);
        assert!(text.contains("zero on purpose"), "{text}");
        assert_eq!(tally.multiply(6).await.expect("it is fine"), 42);
        ends_with(&tally, 42).await;
    });
}

#[test]
fn a_query_that_tries_to_do_something_fails_and_nothing_is_done() {
    drive(async {
        let app = TestEnv::new().workflow(Tally::run).start().await;
        let tally = app.start(Tally::run, ()).await.expect("it starts");
        let before = app.written();
        let text = failure(tally.meddle().await);
        assert!(
            text.contains("message.rs:") && text.contains("query"),
            "{text}"
        );
        assert_eq!(app.written(), before, "a query is never recorded");
        ends_with(&tally, 0).await;
    });
}

#[derive(Default)]
struct Picky {
    n: u64,
}

#[workflow]
impl Picky {
    async fn run(ctx: Ctx<Self>) -> Result<String> {
        let broken = ctx.wait_until(|picky| {
            assert!(picky.n < 3, "three on purpose");
            false
        });
        let whole = ctx.wait_until(|picky| picky.n == 4);
        let (broken, whole) = futures::join!(broken, whole);
        whole?;
        match broken {
            Err(CallError::Panicked(trace)) => Ok(trace.root().message.to_string()),
            other => Ok(format!("{other:?}")),
        }
    }

    #[signal]
    fn set(&mut self, n: u64) {
        self.n = n;
    }
}

#[test]
fn a_condition_that_panics_fails_its_own_wait_only() {
    drive(async {
        let app = TestEnv::new().workflow(Picky::run).start().await;
        let picky = app.start(Picky::run, ()).await.expect("it starts");
        for n in 1..=4 {
            picky.set(n).await.expect("it is durable");
        }
        let text = picky.result().await.expect("it ends");
        assert!(text.contains("three on purpose"), "{text}");
        sound(&picky, Picky::run).await;
    });
}

#[derive(Default)]
struct Shop {
    is_closed: bool,
}

#[workflow]
impl Shop {
    async fn run(ctx: Ctx<Self>) -> Result<()> {
        Ok(ctx.wait_until(|shop| shop.is_closed).await?)
    }

    #[signal]
    fn close(&mut self) {
        self.is_closed = true;
    }

    #[signal]
    async fn browse(ctx: Ctx<Self>) -> Result<()> {
        Ok(ctx.sleep(1.days()).await?)
    }

    #[update]
    async fn buy(ctx: Ctx<Self>) -> Result<()> {
        Ok(ctx.sleep(1.days()).await?)
    }
}

#[test]
fn a_run_that_returns_while_handlers_wait_answers_them_and_names_them() {
    drive(async {
        let env = TestEnv::new().report(|_| ()).workflow(Shop::run);
        let app = env.start().await;
        let shop = app.start(Shop::run, ()).await.expect("it starts");
        shop.browse().await.expect("it is durable");
        let bought = shop.buy().accepted().await.expect("it is accepted");
        shop.close().await.expect("it is durable");
        shop.result().await.expect("it ends");
        let left = bought.result().await;
        assert!(matches!(left, Err(CallError::RunFinished(_))), "{left:?}");
        let notes = shop.describe().await.expect("it is there").notes;
        for name in ["browse", "buy"] {
            assert!(notes.iter().any(|note| note.contains(name)), "{notes:?}");
        }
        sound(&shop, Shop::run).await;
    });
}

#[test]
fn a_message_after_the_end_is_refused_and_a_question_is_answered() {
    drive(async {
        let app = TestEnv::new().workflow(Tally::run).start().await;
        let tally = app.start(Tally::run, ()).await.expect("it starts");
        tally.add(1).await.expect("it is durable");
        tally.close().await.expect("it is durable");
        tally.result().await.expect("it ends");
        let before = app.written();
        assert_eq!(code(tally.add(1).await), "OL-1006");
        assert_eq!(code(tally.set(1).await), "OL-1006");
        assert_eq!(app.written(), before);
        assert!(tally.at_least(1).await.expect("it is answered"));
    });
}

/// State that is borrowed twice at once: both builds have this name.
#[derive(Default)]
struct Greedy(u64);

#[workflow(name = "greedy")]
impl Greedy {
    async fn run(ctx: Ctx<Self>) -> Result<u64> {
        Ok(ctx.with(|outer| outer.0 + ctx.with(|inner| inner.0)))
    }
}

#[derive(Default)]
struct Modest(u64);

#[workflow(name = "greedy")]
impl Modest {
    async fn run(ctx: Ctx<Self>) -> Result<u64> {
        Ok(ctx.with(|state| state.0 + 42))
    }
}

#[test]
fn a_borrow_inside_another_names_both_and_waits_for_fixed_code() {
    drive(async {
        let store = MemoryStore::new();
        let env = on(&store).report(|_| ()).workflow(Greedy::run);
        let app = env.start().await;
        let run = app.start(Greedy::run, ()).id("g").await.expect("it starts");
        let found = trouble(until(&run, |d| d.trouble.is_some()).await);
        assert_eq!(found.matches("message.rs:").count(), 2, "{found}");
        app.shutdown().await;
        drop(app);
        let app = on(&store).workflow(Modest::run).start().await;
        let run = app.get(Modest::run, "g");
        assert_eq!(run.result().await.expect("it ends"), 42);
        sound(&run, Modest::run).await;
    });
}

thread_local! {
    static KEPT: std::cell::Cell<Option<Ctx>> = const { std::cell::Cell::new(None) };
}

#[workflow]
async fn keeps(ctx: Ctx) -> Result<()> {
    KEPT.set(Some(ctx));
    Ok(ctx.sleep(1.secs()).await?)
}

#[workflow]
async fn uses_what_was_kept(_ctx: Ctx) -> Result<()> {
    let kept = KEPT.get().ok_or("nothing was kept")?;
    Ok(kept.sleep(1.secs()).await?)
}

#[test]
fn a_context_kept_past_its_run_fails_by_itself_and_says_why() {
    drive(async {
        let env = TestEnv::new().report(|_| ());
        let env = env.workflow(keeps).workflow(uses_what_was_kept);
        let app = env.start().await;
        app.run(keeps, ()).await.expect("it ends");
        let run = app.start(uses_what_was_kept, ()).await;
        let run = run.expect("it starts");
        let found = until(&run, |d| d.trouble.is_some()).await;
        let cause = found.trouble.as_ref().map(|trouble| trouble.cause);
        assert_eq!(cause, Some(TaskFailedCause::WorkerUnhandledFailure));
        let text = trouble(found);
        assert!(text.contains("context"), "{text}");
        app.run(keeps, ()).await.expect("the others go on");
    });
}

#[test]
fn an_update_that_is_turned_away_leaves_the_run_that_was_started_with_it() {
    drive(async {
        for runs in [1_000, 0] {
            let env = TestEnv::new().settings(cached(runs));
            let app = env.workflow(Tally::run).start().await;
            let start = app.start(Tally::run, ()).id("t");
            let refused = start.with_update(|tally| tally.multiply(0)).await;
            assert!(
                matches!(refused, Err(CallError::Rejected(_))),
                "{refused:?}"
            );
            let tally = app.get(Tally::run, "t");
            tally.add(3).await.expect("it is durable");
            ends_with(&tally, 3).await;
        }
    });
}

#[derive(Default)]
struct Fragile(u64);

#[workflow(name = "fragile")]
impl Fragile {
    async fn run(ctx: Ctx<Self>) -> Result<u64> {
        ctx.wait_until(|state| state.0 > 0).await?;
        Ok(ctx.read(|state| state.0))
    }

    #[update]
    fn add(&mut self, n: u64) -> u64 {
        assert!(n == 0, "broken on purpose");
        self.0
    }
}

#[derive(Default)]
struct Repaired(u64);

#[workflow(name = "fragile")]
impl Repaired {
    async fn run(ctx: Ctx<Self>) -> Result<u64> {
        ctx.wait_until(|state| state.0 > 0).await?;
        Ok(ctx.read(|state| state.0))
    }

    #[update]
    fn add(&mut self, n: u64) -> u64 {
        self.0 += n;
        self.0
    }
}

#[test]
fn an_update_whose_handler_panics_waits_for_fixed_code_and_runs_once() {
    drive(async {
        let store = MemoryStore::new();
        let env = on(&store).report(|_| ()).workflow(Fragile::run);
        let app = env.start().await;
        let run = app.start(Fragile::run, ()).id("f").await;
        let run = run.expect("it starts");
        let asked = tokio::spawn(run.add(7).id("seven").into_future());
        until(&run, |d| d.trouble.is_some()).await;
        app.shutdown().await;
        drop(app);
        let unanswered = asked.await.expect("it does not panic");
        assert_eq!(code(unanswered), "OL-2021");

        let app = on(&store).workflow(Repaired::run).start().await;
        let run = app.get(Repaired::run, "f");
        let again = run.add(7).id("seven").await.expect("it is answered");
        assert_eq!(again, 7);
        assert_eq!(run.result().await.expect("it ends"), 7);
        sound(&run, Repaired::run).await;
    });
}
