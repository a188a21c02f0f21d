//! Going on as a new run, and changes of the code, with the engine's part played by the test.

use super::*;
use crate::ctx::play::Play;
use crate::prelude::*;

#[derive(Default)]
struct Subscription;

#[workflow]
impl Subscription {
    async fn run(ctx: Ctx<Self>, month: u64) -> Result<String> {
        if month == 12 {
            return Ok("over".into());
        }
        ctx.sleep(30.days()).await?;
        ctx.continue_as_new(month + 1)
    }
}

#[test]
fn a_run_goes_on_with_the_next_input() {
    let mut play = Play::start(Subscription::run, 11);
    assert_eq!(play.fire(1).asked(), ["continue  12"]);
    assert_eq!(
        Play::start(Subscription::run, 12).asked(),
        ["complete \"over\""]
    );
}

#[workflow]
async fn countdown(ctx: Ctx, n: u64) -> Result<u64> {
    if n > 0 {
        return ctx.continue_as_new(n - 1);
    }
    Ok(0)
}

#[workflow]
async fn hands_over(ctx: Ctx) -> Result<u64> {
    ctx.continue_as(countdown, 3)
}

#[workflow]
async fn of_another_type(ctx: Ctx, _n: u64) -> Result<u64> {
    ctx.continue_as_new("three")
}

#[test]
fn functions_go_on_too_and_may_hand_over_to_another() {
    assert_eq!(Play::start(countdown, 2).asked(), ["continue  1"]);
    assert_eq!(
        Play::start(hands_over, ()).asked(),
        ["continue countdown 3"]
    );
}

#[test]
fn an_input_that_the_next_run_could_not_read_fails_the_task_and_not_the_run() {
    let play = Play::start(of_another_type, 1);
    let trouble = play.trouble();
    assert!(
        trouble.contains("the input of workflow of_another_type is not a `u64`"),
        "{trouble}"
    );
}

#[workflow]
async fn caught(ctx: Ctx) -> Result<String> {
    let next: Result<u64> = ctx.continue_as_new(());
    Ok(next.map_or_else(|error| error.to_string(), |n| n.to_string()))
}

#[test]
fn a_request_that_is_not_returned_says_where_it_belongs() {
    let asked = Play::start(caught, ()).asked();
    assert!(asked[0].contains("return it from there"), "{asked:?}");
}

#[workflow]
async fn from_a_scope(ctx: Ctx) -> Result<u64> {
    let next = ctx.scope(async |_| ctx.continue_as_new::<_, u64, Error>(1));
    Ok(next.await?)
}

#[workflow]
async fn from_a_branch(ctx: Ctx) -> Result<u64> {
    let branch = ctx.spawn(async move { ctx.continue_as_new::<_, u64, Error>(1) });
    Ok(branch.supervised().await?)
}

#[workflow]
async fn from_a_supervised_scope(ctx: Ctx) -> Result<u64> {
    let next = ctx.supervise(async |scope: crate::Scope| {
        let branch = scope.spawn(async move { ctx.continue_as_new::<_, u64, Error>(1) });
        branch.await
    });
    Ok(next.await?)
}

#[test]
fn a_request_returned_from_a_scope_or_a_branch_fails_the_task_and_not_the_run() {
    for (play, what) in [
        (Play::start(from_a_scope, ()), "a scope"),
        (Play::start(from_a_branch, ()), "a branch"),
        (Play::start(from_a_supervised_scope, ()), "a branch"),
    ] {
        let told = play.trouble();
        assert!(
            told.contains(&format!("{what} returned the request made at ")),
            "{told}"
        );
        assert!(told.contains("continuing/tests.rs:"), "{told}");
        assert!(told.contains("return it from there"), "{told}");
    }
}

#[workflow]
async fn changed(ctx: Ctx) -> Result<bool> {
    let is_new = ctx.patched("fraud-check");
    ctx.deprecate_patch("old-limit");
    Ok(is_new)
}

#[test]
fn a_new_run_takes_the_new_side_of_a_change() {
    assert_eq!(
        Play::start(changed, ()).asked(),
        ["patch fraud-check", "patch old-limit", "complete true"]
    );
}
