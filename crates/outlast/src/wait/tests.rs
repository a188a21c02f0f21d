//! Conditions in typed workflow code.

use crate::ctx::play::Play;
use crate::prelude::*;
use crate::sync::Watched;

#[derive(Default)]
struct Cart {
    items: u32,
    is_paid: bool,
}

#[workflow]
impl Cart {
    async fn run(ctx: Ctx<Self>, patience: u64) -> Result<String> {
        let paid = ctx.wait_until(|cart| cart.is_paid).timeout(patience.days());
        match paid.await {
            Ok(()) => Ok(format!("paid {}", ctx.read(|cart| cart.items))),
            Err(error) if error.is_timeout() => Ok(error.to_string()),
            Err(error) => {
                let held = ctx.wait_until(|cart| cart.items > 1).shielded().await;
                assert!(held.is_ok() && error.is_cancelled(), "{error}");
                Err(error.into())
            }
        }
    }

    #[signal]
    fn add(&mut self) {
        self.items += 1;
    }

    #[signal]
    async fn pay(ctx: Ctx<Self>) {
        ctx.with(|cart| cart.is_paid = true);
    }
}

#[test]
fn a_condition_waits_for_what_handlers_write() {
    let mut play = Play::start(Cart::run, 7);
    assert_eq!(play.asked(), ["timer 604800s"]);
    assert!(play.signal("add", ()).asked().is_empty());
    assert_eq!(play.signal("pay", ()).asked(), ["complete \"paid 1\""]);
}

#[test]
fn a_condition_that_never_holds_is_a_timeout() {
    let mut play = Play::start(Cart::run, 1);
    let asked = play.fire(1).asked();
    assert_eq!(
        asked,
        ["complete \"the condition did not hold within 86400s\""]
    );
}

#[test]
fn a_cancel_ends_the_wait_and_not_a_shielded_one() {
    let mut play = Play::start(Cart::run, 1);
    play.signal("add", ());
    assert_eq!(play.cancel().asked(), ["cancel timer 1"]);
    assert_eq!(play.signal("add", ()).asked(), ["cancelled"]);
}

#[derive(Default)]
struct Desk {
    orders: Vec<String>,
    is_open: bool,
}

#[workflow]
impl Desk {
    async fn run(ctx: Ctx<Self>, patience: u64) -> Result<String> {
        let first = ctx.wait_for(|desk| desk.orders.first().cloned());
        let first = match first.timeout(patience.days()).await {
            Err(error) if error.is_timeout() => return Ok(error.to_string()),
            first => first?,
        };
        // The value is that of the moment, not of the await: it is there at once.
        let again = ctx.wait_for(|desk| desk.orders.first().cloned()).await?;
        let both = ctx.wait_for(|desk| desk.is_open.then(|| desk.orders.join("+")));
        Ok(format!("{first} {again} {}", both.shielded().await?))
    }

    #[signal]
    fn order(&mut self, what: String) {
        self.orders.push(what);
    }

    #[signal]
    fn open(&mut self) {
        self.is_open = true;
    }
}

#[test]
fn a_wait_for_a_value_gives_the_value() {
    let mut play = Play::start(Desk::run, 1);
    assert!(play.signal("open", ()).asked().is_empty());
    let asked = play.signal("order", "tea").asked();
    assert_eq!(asked, ["complete \"tea tea tea\""]);
}

#[test]
fn a_wait_for_a_value_goes_on_until_there_is_one_and_can_be_shielded() {
    let mut play = Play::start(Desk::run, 1);
    play.signal("order", "tea");
    assert!(play.signal("order", "jam").asked().is_empty());
    assert!(play.cancel().asked().is_empty(), "it is shielded");
    assert_eq!(
        play.signal("open", ()).asked(),
        ["complete \"tea tea tea+jam\""]
    );
}

#[test]
fn a_value_that_does_not_come_is_a_timeout_and_a_cancel_ends_the_wait() {
    let mut late = Play::start(Desk::run, 1);
    let text = "complete \"the condition did not hold within 86400s\"";
    assert_eq!(late.fire(1).asked(), [text]);
    let mut stopped = Play::start(Desk::run, 1);
    assert_eq!(stopped.cancel().asked(), ["cancel timer 1", "cancelled"]);
}

#[workflow]
async fn watched(ctx: Ctx) -> Result<u64> {
    let numbers = Watched::new(Vec::<u64>::new());
    let writer = numbers.clone();
    ctx.on_signal(signal("number"), async move |n: u64| {
        writer.with(|numbers| numbers.push(n));
    });
    let large = numbers.wait_for(|numbers| numbers.iter().copied().find(|n| *n > 10));
    Ok(large.await?)
}

#[test]
fn a_watched_value_gives_what_is_found_in_it() {
    let mut play = Play::start(watched, ());
    assert!(play.signal("number", 7).asked().is_empty());
    assert_eq!(play.signal("number", 70).asked(), ["complete 70"]);
}

#[derive(Default)]
struct Faulty;

#[workflow]
impl Faulty {
    async fn run(ctx: Ctx<Self>) -> Result<String> {
        let panics = ctx.wait_until(|_| panic!("no such thing")).await;
        let acts = ctx.wait_until(move |_| {
            ctx.sleep(1.secs()).detach();
            true
        });
        match (panics, acts.await) {
            (Err(CallError::Panicked(one)), Err(CallError::Panicked(two))) => {
                Ok(format!("{}; {}", one.summary(), two.summary()))
            }
            other => Err(format!("{other:?}"))?,
        }
    }
}

#[test]
fn a_condition_that_panics_or_acts_gives_the_waiter_panicked() {
    let asked = Play::start(Faulty::run, ()).asked();
    assert_eq!(
        asked.len(),
        1,
        "nothing was asked for but the end: {asked:?}"
    );
    assert!(asked[0].contains("panicked: no such thing"), "{asked:?}");
    assert!(asked[0].contains("a durable call at "), "{asked:?}");
    assert!(asked[0].contains("wait/tests.rs:"), "{asked:?}");
}

#[derive(Default)]
struct Clash;

#[workflow]
impl Clash {
    async fn run(ctx: Ctx<Self>, kind: String) -> Result<()> {
        match kind.as_str() {
            "with in read" => ctx.read(|_| ctx.with(|_| ())),
            "read in with" => ctx.with(|_| ctx.read(|_| ())),
            _ => drop(ctx.with(|_| ctx.wait_until(|_| true))),
        }
        Ok(())
    }
}

#[test]
fn nested_borrows_name_both_places_and_what_they_are() {
    let clashes = [
        ("with in read", "ctx.with at", "ctx.read at"),
        ("read in with", "ctx.read at", "ctx.with at"),
        ("wait in with", "ctx.wait_until at", "ctx.with at"),
    ];
    for (kind, inner, outer) in clashes {
        let play = Play::start(Clash::run, kind);
        let trouble = play.trouble();
        assert!(trouble.starts_with(inner), "{trouble}");
        assert!(
            trouble.contains(&format!("is inside another {outer}")),
            "{trouble}"
        );
    }
}

#[workflow]
async fn function(ctx: Ctx) -> Result<u64> {
    let total = Watched::new(0_u64);
    for n in [1, 2, 3] {
        let total = total.clone();
        ctx.spawn(async move {
            ctx.sleep(n.hours()).await?;
            total.with(|total| *total += n);
            crate::Ok(())
        })
        .detach();
    }
    total
        .wait_until(|total| *total >= 3)
        .timeout(1.days())
        .await?;
    Ok(total.read(|total| *total))
}

#[test]
fn a_function_workflow_waits_on_a_watched_value() {
    let mut play = Play::start(function, ());
    assert_eq!(play.asked().len(), 4);
    assert!(play.fire(2).asked().is_empty());
    assert_eq!(play.fire(3).asked(), ["complete 3"]);
}

#[workflow]
async fn watched_clash(_ctx: Ctx) -> Result<u64> {
    let value = Watched::new(0_u64);
    Ok(value.with(|_| value.read(|n| *n)))
}

#[test]
fn nested_borrows_of_a_watched_value_name_both_places() {
    let play = Play::start(watched_clash, ());
    assert_eq!(play.trouble().matches("wait/tests.rs:").count(), 2);
}

#[workflow]
async fn yielding(ctx: Ctx) -> Result<String> {
    let log = Watched::new(String::new());
    for name in ["a", "b"] {
        let log = log.clone();
        ctx.spawn(async move {
            for _ in 0..3 {
                log.with(|log| log.push_str(name));
                ctx.yield_now().await;
            }
        })
        .detach();
    }
    log.wait_until(|log| log.len() == 6)
        .timeout(1.secs())
        .await?;
    Ok(log.read(String::clone))
}

#[test]
fn yielding_lets_the_others_run_first() {
    assert_eq!(Play::start(yielding, ()).asked(), ["complete \"ababab\""]);
}
