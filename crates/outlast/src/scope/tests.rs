//! Branches and scopes in typed workflow code.

use serde::{Deserialize, Serialize};

use crate::ctx::play::Play;
use crate::failure::IntoFailure;
use crate::prelude::*;
use crate::{Scope, Task};

#[derive(Debug, thiserror::Error, Serialize, Deserialize, Failure)]
#[error("sold out: {0}")]
struct SoldOut(String);

#[activity]
async fn book(what: String) -> Result<String, SoldOut> {
    Ok(what)
}

fn sold_out(what: &str) -> outlast_model::Failure {
    SoldOut(what.into()).into_failure()
}

#[workflow]
async fn together(ctx: Ctx) -> Result<String> {
    let hotel = ctx.spawn(async move { ctx.run(book, "hotel").await });
    let flight = ctx.spawn(async move { ctx.run(book, "flight").await });
    let (hotel, flight) = (hotel.await?, flight.await?);
    Ok(format!("{hotel} and {flight}"))
}

#[test]
fn results_of_branches_come_where_they_are_awaited() {
    let mut play = Play::start(together, ());
    assert_eq!(play.asked(), ["run book \"hotel\"", "run book \"flight\""]);
    assert!(play.activity(2, "flight").asked().is_empty());
    let asked = play.activity(1, "hotel").asked();
    assert_eq!(asked, ["complete \"hotel and flight\""]);
}

#[test]
fn a_branch_that_fails_fails_main_though_another_is_awaited() {
    let mut play = Play::start(together, ());
    let asked = play.activity_fails(2, sold_out("flight")).asked();
    assert_eq!(asked[0], "cancel activity 1");
    assert_eq!(
        asked.last().expect("an end"),
        "fail: activity book failed: sold out: flight"
    );
}

#[workflow]
async fn apart(ctx: Ctx) -> Result<String> {
    let hotel = ctx.spawn(async move { ctx.run(book, "hotel").await });
    match hotel.supervised().await {
        Ok(hotel) => Ok(hotel),
        Err(CallError::Failed(SoldOut(what), _)) => {
            let tent = ctx.run(book, "tent").await?;
            Ok(format!("no {what}, a {tent}"))
        }
        Err(error) => Err(error.into()),
    }
}

#[test]
fn the_failure_of_a_supervised_branch_is_typed_and_for_its_awaiter_alone() {
    let mut play = Play::start(apart, ());
    let asked = play.activity_fails(1, sold_out("hotel")).asked();
    assert_eq!(asked, ["run book \"tent\""]);
    let asked = play.activity(2, "tent").asked();
    assert_eq!(asked, ["complete \"no hotel, a tent\""]);
}

#[workflow]
async fn in_a_scope(ctx: Ctx) -> Result<String> {
    let booked = ctx
        .scope(async |scope: Scope| {
            for what in ["hotel", "flight"] {
                scope
                    .spawn(async move { ctx.run(book, what).await })
                    .detach();
            }
            crate::Ok("all booked")
        })
        .await;
    match booked {
        Ok(text) => Ok(text.into()),
        Err(error) => {
            let found = error.find::<SoldOut>();
            ctx.run(book, "tent").await?;
            Ok(format!("{:?}", found.map(|SoldOut(what)| what)))
        }
    }
}

#[test]
fn a_scope_waits_for_its_branches() {
    let mut play = Play::start(in_a_scope, ());
    assert!(play.activity(1, "hotel").asked().is_empty());
    let asked = play.activity(2, "flight").asked();
    assert_eq!(asked, ["complete \"all booked\""]);
}

#[test]
fn a_scope_fails_with_its_first_branch_and_the_rest_goes_on() {
    let mut play = Play::start(in_a_scope, ());
    let asked = play.activity_fails(1, sold_out("hotel")).asked();
    assert_eq!(asked, ["cancel activity 2", "run book \"tent\""]);
    let asked = play.activity(3, "tent").asked();
    assert_eq!(asked, ["complete \"Some(\\\"hotel\\\")\""]);
}

#[workflow]
async fn supervising(ctx: Ctx) -> Result<u64> {
    let failed = ctx
        .supervise(async |scope: Scope| {
            let tasks: Vec<Task<_, _>> = ["a", "b", "c"]
                .into_iter()
                .map(|what| scope.spawn(async move { ctx.run(book, what).await }))
                .collect();
            let mut failed = 0;
            for task in tasks {
                failed += u64::from(task.await.is_err());
            }
            crate::Ok(failed)
        })
        .await?;
    Ok(failed)
}

#[test]
fn in_a_supervised_scope_every_branch_is_its_own() {
    let mut play = Play::start(supervising, ());
    play.activity_fails(1, sold_out("a"))
        .activity_fails(3, sold_out("c"));
    assert_eq!(play.activity(2, "b").asked(), ["complete 2"]);
}

#[workflow]
async fn cancelled_from_beside(ctx: Ctx) -> Result<String> {
    let handle = std::rc::Rc::new(std::cell::RefCell::new(None::<Scope>));
    let given = std::rc::Rc::clone(&handle);
    let work = ctx.scope(async move |scope: Scope| {
        given.replace(Some(scope));
        ctx.sleep(9.days()).await
    });
    let stop = async {
        ctx.sleep(1.hours()).await?;
        let scope = handle.take().expect("it runs");
        scope.cancel();
        scope.cancel();
        crate::Ok(scope.is_cancelled())
    };
    let (work, stop) = futures::join!(work, stop);
    Ok(format!(
        "{} {}",
        work.is_err_and(|e| e.is_cancelled()),
        stop?
    ))
}

#[test]
fn a_scope_is_cancelled_by_its_handle() {
    let mut play = Play::start(cancelled_from_beside, ());
    assert_eq!(
        play.fire(2).asked(),
        ["cancel timer 1", "complete \"true true\""]
    );
}

#[workflow]
async fn dropping(ctx: Ctx) -> Result<()> {
    let lost = ctx.spawn(async move { ctx.sleep(1.days()).await });
    let kept = ctx.spawn(async move { ctx.sleep(2.days()).await });
    ctx.sleep(1.hours()).await?;
    drop(lost);
    kept.detach();
    ctx.sleep(1.hours()).await?;
    Ok(())
}

#[test]
fn a_dropped_task_is_cancelled_and_a_detached_one_goes_on() {
    let mut play = Play::start(dropping, ());
    assert_eq!(play.asked().len(), 3);
    assert_eq!(play.fire(1).asked(), ["timer 3600s", "cancel timer 2"]);
    assert_eq!(play.fire(4).asked(), ["complete "]);
}

#[workflow]
async fn leaving(ctx: Ctx) -> Result<()> {
    let task = ctx.spawn(async move { ctx.sleep(1.days()).await });
    ctx.sleep(1.hours()).await?;
    assert!(!task.is_finished() && !task.is_cancelled());
    Ok(())
}

#[test]
fn tasks_that_main_drops_at_its_end_cost_no_cancel() {
    let mut play = Play::start(leaving, ());
    assert_eq!(play.fire(1).asked(), ["complete "]);
}

#[workflow]
async fn plain_branches(ctx: Ctx) -> Result<()> {
    let unit = ctx.spawn(async move { drop(ctx.sleep(1.secs()).await) });
    let failing = ctx.spawn(async { Err::<(), _>(Error::msg("no")) });
    let failing = failing.supervised();
    unit.await?;
    assert!(failing.is_finished());
    assert!(matches!(failing.await, Err(CallError::Failed(text, _)) if text.0 == "no"));
    Ok(())
}

#[test]
fn a_branch_returns_nothing_or_a_result() {
    let mut play = Play::start(plain_branches, ());
    assert_eq!(play.fire(1).asked(), ["complete "]);
}

#[workflow]
async fn cleaning_up(ctx: Ctx) -> Result<()> {
    let task = ctx.spawn(async move {
        let slept = ctx.sleep(1.days()).await;
        ctx.shield(async || ctx.run(book, "nothing").await).await?;
        slept?;
        crate::Ok(())
    });
    Ok(task.await?)
}

#[test]
fn a_workflow_cancel_reaches_a_branch_whose_clean_up_is_waited_for() {
    let mut play = Play::start(cleaning_up, ());
    assert_eq!(
        play.cancel().asked(),
        ["cancel timer 1", "run book \"nothing\""]
    );
    assert_eq!(play.activity(1, "").asked(), ["cancelled"]);
}
