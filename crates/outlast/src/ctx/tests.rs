//! Typed workflow code on the real runtime, with the engine's part played by the test.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use outlast_model::task::AttemptResult;
use outlast_model::{ActivityOptions, Command};
use serde::{Deserialize, Serialize};

use super::play::{Play, block_on, payload};
use crate::erase::closure_program;
use crate::failure::IntoFailure;
use crate::prelude::*;
use crate::{ActivityDef, CancelMode, WorkflowDef};

#[derive(Debug, thiserror::Error, Serialize, Deserialize, Failure)]
#[error("card declined: {0}")]
#[failure(terminal)]
struct Declined(String);

#[activity(start_to_close = "30s", heartbeat = "5s", queue = "cards")]
async fn charge(cents: u64) -> Result<String, Declined> {
    Ok(format!("ch_{cents}"))
}

#[activity]
async fn refund(charge: String) -> Result<()> {
    drop(charge);
    Ok(())
}

#[activity]
fn square(n: u64) -> Result<u64> {
    Ok(n * n)
}

const MAIL: ActivityDef<String, ()> =
    ActivityDef::new("mail").start_to_close(Duration::from_secs(9));
const PAID: Signal<u64> = signal("paid");

fn options(play: &Play) -> ActivityOptions {
    if let Command::ScheduleActivity(command) = &play.commands[0] {
        return (*command.options).clone();
    }
    panic!("{:?}", play.commands)
}

#[workflow]
async fn one(ctx: Ctx, n: u64) -> Result<u64> {
    Ok(ctx.run(square, n).await? + 1)
}

#[test]
fn a_call_sends_its_input_and_gives_its_result() {
    let mut play = Play::start(one, 5);
    assert_eq!(play.asked(), ["run square 5"]);
    assert_eq!(play.activity(1, 25).asked(), ["complete 26"]);
}

#[test]
fn an_activity_without_limits_gets_ten_minutes() {
    let options = options(&Play::start(one, 5));
    assert_eq!(options.start_to_close, Some(600.secs()));
    assert_eq!((options.schedule_to_close, options.queue), (None, None));
}

#[workflow]
async fn by_attribute(ctx: Ctx) -> Result<()> {
    ctx.run(charge, 1).await?;
    Ok(())
}

#[workflow]
async fn by_call(ctx: Ctx) -> Result<()> {
    let call = ctx
        .run(square, 1)
        .schedule_to_close(1.hours())
        .schedule_to_start(2.mins());
    call.queue("gpu")
        .retry(RetryPolicy::times(3))
        .cancel_mode(CancelMode::Wait)
        .await?;
    Ok(())
}

#[test]
fn options_come_from_the_attribute_and_then_from_the_call() {
    let attribute = options(&Play::start(by_attribute, ()));
    assert_eq!(attribute.start_to_close, Some(30.secs()));
    assert_eq!(attribute.heartbeat, Some(5.secs()));
    assert_eq!(attribute.queue.expect("a queue").as_str(), "cards");
    let call = options(&Play::start(by_call, ()));
    // The limit of the whole replaces the ten minutes of one attempt.
    assert_eq!(
        (call.start_to_close, call.schedule_to_close),
        (None, Some(1.hours()))
    );
    assert_eq!(
        (call.schedule_to_start, call.retry.max_attempts),
        (Some(2.mins()), 3)
    );
    assert_eq!(call.cancel, CancelMode::Wait);
}

#[workflow]
async fn matching(ctx: Ctx) -> Result<String> {
    match ctx.run(charge, 1).await {
        Ok(id) => Ok(id),
        Err(CallError::Failed(Declined(why), _)) => Ok(format!("no: {why}")),
        Err(error) => Err(error.into()),
    }
}

#[test]
fn a_typed_error_is_matched_like_any_other() {
    let mut play = Play::start(matching, ());
    play.activity_fails(1, Declined("stolen".into()).into_failure());
    assert_eq!(play.asked(), ["complete \"no: stolen\""]);
}

#[test]
fn an_error_through_the_question_mark_fails_the_run_with_its_chain() {
    let mut play = Play::start(one, 5);
    play.activity_fails(1, Error::msg("no paper").into_failure());
    assert_eq!(play.asked(), ["fail: activity square failed: no paper"]);
    let Command::FailWorkflow { failure } = &play.commands[0] else {
        panic!("it failed")
    };
    let at = failure.trace.as_deref().expect("the call's place");
    assert!(at.contains("ctx/tests.rs:"), "{at}");
}

#[workflow]
async fn undoing(ctx: Ctx) -> Result<()> {
    ctx.run(charge, 1).undo(refund).await?;
    ctx.run(square, 2).await?;
    Ok(())
}

#[test]
fn an_undo_runs_with_the_result_when_the_run_fails_or_is_cancelled() {
    let mut play = Play::start(undoing, ());
    play.activity(1, "ch_1")
        .activity_fails(2, Error::msg("no").into_failure());
    assert_eq!(play.asked(), ["run refund \"ch_1\""]);
    assert_eq!(options(&play).start_to_close, Some(600.secs()));
    assert_eq!(
        play.activity(3, ()).asked(),
        ["fail: activity square failed: no"]
    );
    let mut play = Play::start(undoing, ());
    play.activity(1, "ch_1").cancel();
    assert_eq!(play.asked(), ["cancel activity 2", "run refund \"ch_1\""]);
    assert_eq!(play.activity(3, ()).asked(), ["cancelled"]);
}

#[workflow]
async fn clean_up(ctx: Ctx) -> Result<()> {
    let slept = ctx.sleep(7.days()).await;
    if slept.is_err_and(|error| error.is_cancelled()) {
        ctx.run(refund, "ch_1").shielded().await?;
        ctx.shield(async || ctx.sleep(1.secs()).await).await?;
        assert!(ctx.is_cancelled());
    }
    ctx.sleep(1.days()).await?;
    Ok(())
}

#[test]
fn clean_up_runs_out_of_reach_of_the_cancellation() {
    let mut play = Play::start(clean_up, ());
    assert_eq!(
        play.cancel().asked(),
        ["cancel timer 1", "run refund \"ch_1\""]
    );
    assert_eq!(play.activity(1, ()).asked(), ["timer 1s"]);
    assert_eq!(play.fire(2).asked(), ["cancelled"]);
}

#[workflow]
async fn gives_up(ctx: Ctx) -> Result<u64> {
    let call = ctx.run(square, 1);
    call.cancel();
    Ok(call.await?)
}

#[test]
fn a_cancellation_nobody_asked_the_run_for_is_a_failure() {
    let asked = Play::start(gives_up, ()).asked();
    assert_eq!(
        asked,
        ["fail: activity square failed: activity square was cancelled"]
    );
}

#[workflow]
async fn waiting(ctx: Ctx) -> Result<u64> {
    let paid = ctx.recv(PAID).timeout(14.days()).await?;
    Ok(ctx.run(square, paid).await?)
}

#[test]
fn a_signal_in_time_stops_the_clock() {
    let mut play = Play::start(waiting, ());
    assert_eq!(play.asked(), ["timer 1209600s"]);
    assert_eq!(
        play.signal("paid", 9).asked(),
        ["run square 9", "cancel timer 1"]
    );
}

#[test]
fn a_signal_that_does_not_come_is_a_timeout() {
    let mut play = Play::start(waiting, ());
    assert_eq!(
        play.fire(1).asked(),
        ["fail: signal paid gave no result within 1209600s"]
    );
}

#[test]
fn a_signal_of_another_type_fails_the_task_and_not_the_run() {
    let mut play = Play::start(waiting, ());
    play.signal("paid", "a lot");
    assert!(
        play.trouble()
            .contains("the content of signal paid is not a `u64`")
    );
}

#[test]
fn a_result_of_another_type_fails_the_task_and_not_the_run() {
    let mut play = Play::start(one, 5);
    play.activity(1, "many");
    assert!(
        play.trouble()
            .contains("the result of activity square is not a `u64`")
    );
}

#[test]
fn an_input_of_another_type_fails_the_task_and_not_the_run() {
    let play = Play::start(one, "five");
    assert!(
        play.trouble()
            .contains("the input of workflow one is not a `u64`")
    );
}

#[workflow]
async fn direct(_ctx: Ctx) -> Result<u64> {
    square(3).wait()
}

#[test]
fn a_direct_call_of_an_activity_is_refused_with_its_place() {
    let play = Play::start(direct, ());
    let trouble = play.trouble();
    assert!(trouble.contains("activity square was called directly inside a workflow at"));
    assert!(trouble.contains("write ctx.run(square, ..) so that its result is recorded"));
}

#[workflow]
async fn racing(ctx: Ctx) -> Result<String> {
    let first = crate::select! {
        value = ctx.run(square, 9) => format!("square {}", value?),
        _ = ctx.sleep(1.hours()) => "timer".to_owned(),
    };
    let log = Rc::new(RefCell::new(Vec::new()));
    let task = ctx.spawn({
        let log = Rc::clone(&log);
        async move {
            let slept = ctx.sleep(30.days()).await;
            log.borrow_mut()
                .push(slept.is_err_and(|error| error.is_cancelled()));
            crate::Ok("stopped")
        }
    });
    let late = async { ctx.sleep(5.days()).await }.timeout(1.days()).await;
    task.cancel();
    let stopped = task.await?;
    let late = late.is_err_and(|error| error.is_timeout());
    Ok(format!("{first}, {stopped} {:?}, {late}", log.borrow()))
}

#[test]
fn races_branches_and_deadlines_are_plain_futures_code() {
    let mut play = Play::start(racing, ());
    assert_eq!(play.asked(), ["run square 9", "timer 3600s"]);
    let asked = play.activity(1, 81).asked();
    assert_eq!(
        asked,
        [
            "timer 86400s",
            "timer 432000s",
            "cancel timer 1",
            "timer 2592000s"
        ]
    );
    let asked = play.fire(2).asked();
    assert_eq!(
        asked.last().expect("an end"),
        "complete \"square 81, stopped [true], true\""
    );
}

#[workflow]
async fn stepping(ctx: Ctx, base: String) -> Result<u64> {
    let parsed = ctx.step("parse", move || {
        let base = base.clone();
        async move { Ok(base.parse::<u64>()? + 1) }
    });
    Ok(parsed.retry(RetryPolicy::times(5)).await?)
}

#[test]
fn a_step_carries_its_code_and_records_its_result() {
    let outcome = |play: &Play| {
        let code = play.step_code(1);
        block_on(code())
    };
    let play = Play::start(stepping, "41");
    assert_eq!(play.asked(), ["step parse"]);
    assert_eq!(outcome(&play), AttemptResult::Completed(payload(42)));
    let failed = outcome(&Play::start(stepping, "x"));
    assert!(matches!(failed, AttemptResult::Failed(f) if f.message.contains("invalid digit")));
}

#[workflow]
async fn raw(ctx: Ctx) -> Result<String> {
    let answer = ctx
        .run_raw("legacy", &serde_json::json!({ "n": 1 }))
        .await?;
    ctx.run(MAIL, answer.to_string()).await?;
    Ok(format!(
        "{} {} {}",
        ctx.id(),
        ctx.uuid().len(),
        ctx.random() == ctx.random()
    ))
}

#[test]
fn contracts_and_names_need_no_macro() {
    let mut play = Play::start(raw, ());
    assert_eq!(play.asked(), ["run legacy {\"n\":1}"]);
    assert_eq!(play.activity(1, [1, 2]).asked(), ["run mail \"[1,2]\""]);
    assert_eq!(options(&play).start_to_close, Some(9.secs()));
    assert_eq!(
        play.activity(2, ()).asked(),
        ["complete \"order-42 36 false\""]
    );
    const DOUBLE: WorkflowDef<u64, u64> = WorkflowDef::new("double");
    let main = |ctx: Ctx, n: u64| async move { Ok::<_, Error>(ctx.run(square, n).await? * 2) };
    let name = crate::Workflow::name(&DOUBLE);
    let mut play = Play::of(closure_program(name, main), name, 3);
    assert_eq!(play.activity(1, 9).asked(), ["complete 18"]);
}

struct Cart {
    items: Vec<String>,
    limit: usize,
}

#[workflow(name = "shop.Cart")]
impl Cart {
    #[init]
    fn new(limit: &usize) -> Self {
        Self {
            items: vec!["bag".into()],
            limit: *limit,
        }
    }

    async fn run(ctx: Ctx<Self>, limit: usize) -> Result<Vec<String>> {
        ctx.recv(PAID).await?;
        assert_eq!(ctx.with(|cart| cart.limit), limit);
        Ok(ctx.with(|cart| cart.items.clone()))
    }

    /// Puts something into the cart.
    #[signal]
    fn add(&mut self, item: String) -> Result<()> {
        if self.items.len() == self.limit {
            Err("the cart is full")?;
        }
        self.items.push(item);
        Ok(())
    }

    #[signal(name = "clear_all")]
    fn clear(&mut self, ctx: Ctx) {
        assert!(!ctx.is_cancelled());
        self.items.clear();
    }

    #[signal]
    async fn price(ctx: Ctx<Self>, n: u64) -> Result<()> {
        let cents = ctx.run(square, n).await?;
        ctx.with(|cart| cart.items.push(format!("{cents} cents")));
        Ok(())
    }
}

#[test]
fn signals_change_the_state_that_main_reads() {
    let mut play = Play::start(Cart::run, 3);
    play.signal("clear_all", ())
        .signal("add", "tea")
        .signal("price", 3);
    assert_eq!(play.asked(), ["run square 3"]);
    play.activity(1, 9)
        .signal("add", "mug")
        .signal("add", "one too many");
    assert_eq!(
        play.signal("paid", 1).asked(),
        ["complete [\"tea\",\"9 cents\",\"mug\"]"]
    );
    let mut cart = Cart::new(&9);
    cart.add("a handler is a plain method".into())
        .expect("there is room");
    assert_eq!(cart.items.len(), 2);
}

#[derive(Default)]
struct Nested {
    n: u64,
}

#[workflow]
impl Nested {
    async fn run(ctx: Ctx<Self>) -> Result<u64> {
        Ok(ctx.with(|_outer| ctx.with(|inner| inner.n)))
    }
}

#[test]
fn a_nested_borrow_names_both_places() {
    let play = Play::start(Nested::run, ());
    let trouble = play.trouble();
    assert_eq!(trouble.matches("ctx/tests.rs:").count(), 2, "{trouble}");
    assert!(trouble.contains("finish the first closure before you start the second"));
}

/// The names the macros use when the crate goes by another one.
mod renamed {
    use crate as durable;
    use durable::{Ctx, Result};

    #[durable::activity(crate = durable)]
    async fn triple(n: u64) -> Result<u64> {
        Ok(n * 3)
    }

    #[durable::workflow(crate = durable)]
    pub(super) async fn tripled(ctx: Ctx, n: u64) -> Result<u64> {
        Ok(ctx.run(triple, n).await?)
    }
}

#[test]
fn the_crate_may_go_by_another_name() {
    assert_eq!(Play::start(renamed::tripled, 2).asked(), ["run triple 2"]);
}
