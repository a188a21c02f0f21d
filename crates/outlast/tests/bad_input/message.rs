//! Messages that cannot be taken as they are, and code that takes them badly. The sender who
//! waits for an answer gets one; what was acknowledged is kept until code can read it.

use std::cell::RefCell;
use std::future::{IntoFuture as _, pending};
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};

use outlast::model::event::TaskFailedCause;
use outlast::prelude::*;
use outlast::sync::Watched;
use outlast::{Description, Handle, Severity};
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

/// Asks for something when it is too late.
struct Late(Ctx);

impl Drop for Late {
    fn drop(&mut self) {
        self.0.run(count, ()).detach();
    }
}

#[activity]
async fn count() -> Result<()> {
    Ok(())
}

#[workflow]
async fn leaves_late(ctx: Ctx) -> Result<()> {
    ctx.spawn(async move {
        let _late = Late(ctx);
        ctx.sleep(1.days()).await
    })
    .detach();
    ctx.run(count, ()).await?;
    Ok(())
}

#[test]
fn a_command_that_comes_too_late_is_told_noted_with_its_line_and_not_sent() {
    drive(async {
        let env = TestEnv::new().report(|_| ());
        let env = env.activity(count).workflow(leaves_late);
        let app = env.start().await;
        let mut events = app.events(Severity::Warning);
        let run = app.start(leaves_late, ()).await.expect("it starts");
        run.result().await.expect("it ends");
        let late = |text: &&String| {
            text.contains("comes after the end of the run") && text.contains("message.rs:")
        };
        let notes = run.describe().await.expect("it is there").notes;
        assert_eq!(notes.iter().filter(late).count(), 1, "{notes:?}");
        loop {
            let event = events.next().await.expect("the worker is there");
            if late(&&event.to_string()) {
                break;
            }
        }
        let history = sound(&run, leaves_late).await;
        let scheduled = names(&history);
        let scheduled = scheduled
            .iter()
            .filter(|it| **it == "ActivityTaskScheduled");
        assert_eq!(scheduled.count(), 1, "the one in time");
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
        assert!(text.contains("the context used at "), "{text}");
        assert!(text.contains("message.rs:"), "{text}");
        app.run(keeps, ()).await.expect("the others go on");
    });
}

type Waiting = Pin<Box<dyn Future<Output = String>>>;

thread_local! {
    static CALL: RefCell<Option<Waiting>> = const { RefCell::new(None) };
}

static LEFT: AtomicU32 = AtomicU32::new(0);

async fn seen<T, E: std::fmt::Display>(wait: impl Future<Output = Result<T, E>>) -> String {
    match wait.await {
        Ok(_) => "it ended well".into(),
        Err(error) => error.to_string(),
    }
}

#[workflow]
async fn keeps_waiting(ctx: Ctx) -> Result<u64> {
    Ok(ctx.recv(signal::<u64>("never")).await?)
}

/// Leaves something behind that waits; with `stays` it waits itself meanwhile.
#[workflow]
async fn leaves(ctx: Ctx, (what, stays): (u32, bool)) -> Result<()> {
    let left: Waiting = match what {
        0 => Box::pin(seen(ctx.run_raw("nobody has it", &1.into()))),
        1 => Box::pin(seen(ctx.sleep(1.hours()))),
        2 => Box::pin(seen(ctx.step("slow", pending::<Result<u32>>))),
        3 => Box::pin(seen(ctx.promise::<u32>())),
        4 => Box::pin(seen(ctx.recv(signal::<u32>("never")))),
        5 => Box::pin(seen(ctx.child(keeps_waiting, ()))),
        6 => Box::pin(seen(Watched::new(0).wait_until(|n| *n > 0))),
        _ => Box::pin(seen(ctx.spawn(async move { ctx.sleep(1.hours()).await }))),
    };
    CALL.set(Some(left));
    LEFT.fetch_add(1, Ordering::SeqCst);
    if stays {
        ctx.recv(signal::<u32>("go")).await?;
    }
    Ok(())
}

#[workflow]
async fn awaits_what_was_left(ctx: Ctx) -> Result<String> {
    ctx.run_raw("prepared", &1.into()).detach();
    let left = CALL.take().ok_or("nothing was left")?;
    Ok(left.await)
}

#[test]
fn what_is_polled_past_its_run_or_in_another_is_an_error_at_once() {
    drive(async {
        for (what, stays) in (0..8).flat_map(|what| [(what, true), (what, false)]) {
            let env = TestEnv::new().report(|_| ());
            let env = env.workflow(leaves).workflow(awaits_what_was_left);
            let env = env.workflow(keeps_waiting);
            let app = env.start().await;
            let before = LEFT.load(Ordering::SeqCst);
            let leaving = app.start(leaves, (what, stays)).await.expect("it starts");
            while LEFT.load(Ordering::SeqCst) == before {
                tokio::task::yield_now().await;
            }
            if !stays {
                leaving.result().await.expect("it ends");
            }
            let run = app.start(awaits_what_was_left, ()).await;
            let run = run.expect("it starts");
            if what == 7 && !stays {
                let text = run.result().await.expect("it ends");
                assert_eq!(text, "the branch was dropped when main had returned");
                continue;
            }
            let text = trouble(until(&run, |d| d.trouble.is_some()).await);
            for part in [
                "was polled outside of the code",
                "do not keep it",
                "message.rs:",
            ] {
                assert!(text.contains(part), "{what} {stays}: {text}");
            }
            run.terminate("seen").await.expect("it can be ended");
        }
    });
}

const DONE: Signal<u64> = signal("done");

/// Receives what a handler takes.
#[workflow]
async fn both(ctx: Ctx, handler_first: bool) -> Result<u64> {
    if handler_first {
        ctx.on_signal(DONE, async |_| ());
    }
    let first = ctx.recv(DONE);
    ctx.sleep(1.secs()).await?;
    ctx.on_signal(DONE, async |_| ());
    Ok(first.await?)
}

/// The same, mended as the error says.
#[workflow(name = "both")]
async fn one_of_the_two(ctx: Ctx, handler_first: bool) -> Result<u64> {
    if !handler_first {
        ctx.sleep(1.secs()).await?;
    }
    let sum = Watched::new(0);
    let handled = sum.clone();
    ctx.on_signal(DONE, async move |n| handled.with(|sum| *sum += n));
    Ok(sum.wait_for(|sum| (*sum > 40).then_some(*sum)).await?)
}

#[test]
fn a_signal_that_has_a_handler_cannot_be_received_too_and_both_lines_are_named() {
    for (handler_first, lines) in [(true, 1), (false, 2)] {
        drive(async {
            let store = MemoryStore::new();
            let env = on(&store).workflow(both).report(|_| ());
            let clock = env.clock();
            let app = env.start().await;
            let run = app.start(both, handler_first).id("b").await;
            let run = run.expect("it starts");
            run.send(DONE, 1).await.expect("it is kept");
            clock.advance(&app, 1.secs());
            let text = trouble(until(&run, |d| d.trouble.is_some()).await);
            let named = text.split("(in ").next().unwrap_or_default();
            assert_eq!(named.matches("message.rs:").count(), lines, "{text}");
            assert!(named.contains("signal `done`"), "{text}");
            assert!(named.contains("keep one of the two"), "{text}");
            let why = run.why().await.expect("it is asked");
            assert!(
                format!("{why:?}").contains("keep one of the two"),
                "{why:?}"
            );
            app.shutdown().await;
            drop(app);
            let app = on(&store).workflow(one_of_the_two).start().await;
            let run = app.get(one_of_the_two, "b");
            run.send(DONE, 41).await.expect("it is kept");
            assert_eq!(run.result().await.expect("it ends"), 42);
            sound(&run, one_of_the_two).await;
        });
    }
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
