//! Handlers of both kinds of workflow, with the engine's part played by the test.

use std::cell::RefCell;
use std::rc::Rc;

use outlast_model::task::builtin_query;
use serde::{Deserialize, Serialize};

use crate::ctx::play::Play;
use crate::prelude::*;
use crate::{Payload, Query, Update, query, update};

#[activity]
async fn check_coupon(code: String) -> Result<u64> {
    drop(code);
    Ok(10)
}

#[derive(Debug, thiserror::Error, Serialize, Deserialize, Failure)]
#[error("{0} is not in the cart")]
struct NotInCart(String);

#[derive(Default, Serialize)]
struct Cart {
    items: Vec<String>,
    percent_off: u64,
    is_paid: bool,
}

#[workflow]
impl Cart {
    async fn run(ctx: Ctx<Self>) -> Result<usize> {
        ctx.wait_until(|cart| cart.is_paid).await?;
        Ok(ctx.read(|cart| cart.items.len()))
    }

    #[signal]
    fn pay(&mut self) {
        self.is_paid = true;
    }

    #[query]
    fn count(&self) -> usize {
        self.items.len()
    }

    #[query(name = "item")]
    fn item_at(&self, ctx: Ctx, index: usize) -> Result<String, NotInCart> {
        assert!(!ctx.is_cancelled());
        let missing = || NotInCart(format!("item {index}"));
        self.items.get(index).cloned().ok_or_else(missing)
    }

    #[query]
    fn broken(&self) -> u64 {
        assert_eq!(self.percent_off, u64::MAX, "broken on purpose");
        0
    }

    #[update]
    fn add(&mut self, item: String) -> usize {
        self.items.push(item);
        self.items.len()
    }

    #[validator(remove)]
    fn can_remove(&self, item: &String) -> Result<(), NotInCart> {
        if self.items.contains(item) {
            return Ok(());
        }
        Err(NotInCart(item.clone()))
    }

    #[update]
    fn remove(&mut self, item: String) -> Result<usize> {
        self.items.retain(|other| *other != item);
        if self.items.is_empty() {
            Err("an empty cart")?;
        }
        Ok(self.items.len())
    }

    #[update(unfinished = "finish")]
    async fn apply_coupon(ctx: Ctx<Self>, code: String) -> Result<u64> {
        let off = ctx.run(check_coupon, code).await?;
        ctx.with(|cart| cart.percent_off = off);
        Ok(off)
    }

    #[update]
    fn clear(&mut self) {
        self.items.clear();
    }

    #[cfg(not(test))]
    #[update]
    fn gone(&mut self) {
        self.not_even_compiled();
    }
}

#[test]
fn a_query_reads_the_settled_state() {
    let mut play = Play::start(Cart::run, ());
    play.update("add", "tea");
    assert_eq!(play.query("count", ()).as_deref(), Ok("1"));
    assert_eq!(play.query("item", 0).as_deref(), Ok("\"tea\""));
    let missing = play.query("item", 9).expect_err("there is one item");
    assert_eq!(missing, "item 9 is not in the cart");
}

#[test]
fn a_question_that_cannot_be_answered_says_why_and_the_run_goes_on() {
    let mut play = Play::start(Cart::run, ());
    let wrong = play.query("item", "first").expect_err("not a number");
    assert!(
        wrong.contains("the input of query item is not a `usize`"),
        "{wrong}"
    );
    assert!(play.update("gone", ()).asked()[0].starts_with("reject gone-1"));
    let unknown = play.query("cuont", ()).expect_err("no such query");
    assert!(
        unknown.contains("count") && unknown.contains("item"),
        "{unknown}"
    );
    let panicked = play.query("broken", ()).expect_err("it panics");
    assert!(panicked.contains("broken on purpose"), "{panicked}");
    assert_eq!(play.signal("pay", ()).asked(), ["complete 0"]);
}

#[test]
fn an_update_that_does_not_wait_is_accepted_and_answered_at_once() {
    let mut play = Play::start(Cart::run, ());
    let asked = play.update("add", "tea").asked();
    assert_eq!(asked, ["accept add-1", "answer add-1 1"]);
    let asked = play.update("clear", ()).asked();
    assert_eq!(asked, ["accept clear-1", "answer clear-1 "]);
}

#[test]
fn a_validator_turns_an_update_away_before_it_runs() {
    let mut play = Play::start(Cart::run, ());
    let asked = play.update("remove", "mug").asked();
    assert_eq!(asked, ["reject remove-1: mug is not in the cart"]);
    play.update("add", "tea");
    let asked = play.update("remove", "tea").asked();
    assert_eq!(asked, ["accept remove-1", "fail remove-1: an empty cart"]);
}

#[test]
fn an_update_with_the_wrong_content_is_turned_away_and_names_the_type() {
    let mut play = Play::start(Cart::run, ());
    let asked = play.update("add", 5).asked();
    assert!(
        asked[0]
            .starts_with("reject add-1: the input of update add is not a `alloc::string::String`"),
        "{asked:?}"
    );
}

#[test]
fn an_update_that_waits_is_answered_later_and_may_hold_the_end_of_the_run() {
    let mut play = Play::start(Cart::run, ());
    let asked = play.update("apply_coupon", "SPRING").asked();
    assert_eq!(
        asked,
        ["accept apply_coupon-1", "run check_coupon \"SPRING\""]
    );
    assert!(play.signal("pay", ()).asked().is_empty(), "the close waits");
    let asked = play.activity(1, 15).asked();
    assert_eq!(asked, ["answer apply_coupon-1 15", "complete 0"]);
}

#[test]
fn a_state_that_serialises_is_shown_as_json() {
    let mut play = Play::start(Cart::run, ());
    play.update("add", "tea");
    assert_eq!(
        play.query(builtin_query::STATE, ()).as_deref(),
        Ok(r#"{"items":["tea"],"percent_off":0,"is_paid":false}"#)
    );
}

#[test]
fn handlers_are_plain_methods() {
    let mut cart = Cart::default();
    assert_eq!(cart.add("tea".into()), 1);
    assert!(cart.can_remove(&"mug".into()).is_err());
    assert_eq!(cart.count(), 1);
}

/// Takes whatever comes.
#[derive(Default)]
struct Anything {
    log: Vec<String>,
}

#[workflow]
impl Anything {
    async fn run(ctx: Ctx<Self>) -> Result<Vec<String>> {
        ctx.wait_until(|all| all.log.len() == 3).await?;
        Ok(ctx.read(|all| all.log.clone()))
    }

    #[signal]
    fn known(&mut self, n: u64) {
        self.log.push(format!("known {n}"));
    }

    #[signal(dynamic)]
    fn other(&mut self, name: String, content: Payload) -> Result<()> {
        self.log
            .push(format!("{name} {}", content.decode::<u64>()?));
        Ok(())
    }

    #[query(dynamic)]
    fn ask(&self, name: String, content: Payload) -> String {
        format!("{name} {} {}", content.size(), self.log.len())
    }

    #[update(dynamic)]
    async fn change(ctx: Ctx<Self>, name: String, content: Payload) -> Result<usize> {
        let n: u64 = content.decode()?;
        Ok(ctx.with(|all| {
            all.log.push(format!("{name} {n}"));
            all.log.len()
        }))
    }
}

#[test]
fn a_dynamic_handler_takes_every_name_that_no_other_has() {
    let mut play = Play::start(Anything::run, ());
    play.signal("known", 1).signal("unheard", 2);
    assert_eq!(
        play.query("anything", ()).as_deref(),
        Ok("\"anything 0 2\"")
    );
    assert_eq!(
        play.update("rename", 3).asked(),
        [
            "accept rename-1",
            "answer rename-1 3",
            r#"complete ["known 1","unheard 2","rename 3"]"#
        ]
    );
}

#[test]
fn a_state_that_does_not_serialise_says_what_to_derive() {
    let mut play = Play::start(Anything::run, ());
    let refused = play
        .query(builtin_query::STATE, ())
        .expect_err("it has no Serialize");
    assert!(
        refused.contains("Anything") && refused.contains("#[derive(Serialize)]"),
        "{refused}"
    );
}

const ADD: Signal<u64> = signal("add");
const STOP: Signal<()> = signal("stop");
const TOTAL: Query<(), u64> = query("total");
const PARSED: Query<String, u64> = query("parsed");
const SET: Update<u64, u64> = update("set");
const DROP: Update<(), ()> = update("drop");

#[workflow]
async fn counter(ctx: Ctx) -> Result<u64> {
    let total = Rc::new(RefCell::new(0_u64));
    let (adds, reads, sets) = (total.clone(), total.clone(), total.clone());
    ctx.on_signal(ADD, async move |n| *adds.borrow_mut() += n);
    ctx.on_query(TOTAL, move |()| *reads.borrow());
    ctx.on_query(PARSED, |text| Ok(text.parse::<u64>()?));
    ctx.on_update(SET, async move |n| {
        ctx.sleep(1.secs()).await?;
        Ok(sets.replace(n))
    })
    .validate(|n| {
        if *n < 100 {
            Ok(())
        } else {
            Err(Error::msg("too much"))
        }
    });
    ctx.on_update(DROP, async |()| ());
    ctx.on_any_query(|name, _| crate::Ok(name));
    ctx.on_any_update(async |name, content| crate::Ok((name, content.decode::<u64>()?)));
    ctx.recv(STOP).await?;
    Ok(total.take())
}

#[test]
fn a_function_answers_with_closures() {
    let mut play = Play::start(counter, ());
    play.signal("add", 5);
    assert_eq!(play.query("total", ()).as_deref(), Ok("5"));
    assert_eq!(play.query("parsed", "12").as_deref(), Ok("12"));
    assert!(play.query("parsed", "x").is_err());
    assert_eq!(play.update("set", 500).asked(), ["reject set-1: too much"]);
    assert_eq!(play.update("set", 50).asked(), ["accept set-1", "timer 1s"]);
    assert_eq!(play.fire(1).asked(), ["answer set-1 5"]);
    let asked = play.update("drop", ()).asked();
    assert_eq!(asked, ["accept drop-1", "answer drop-1 "]);
    assert_eq!(play.query("who", ()).as_deref(), Ok("\"who\""));
    let asked = play.update("what", 7).asked();
    assert_eq!(asked, ["accept what-1", "answer what-1 [\"what\",7]"]);
    assert_eq!(play.signal("stop", ()).asked(), ["complete 50"]);
}
