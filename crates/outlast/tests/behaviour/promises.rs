//! Promises: the workflow waits, the world settles.

use outlast::prelude::*;
use outlast::{App, Refusal};

use super::support::{drive, sound, until};

#[activity]
async fn ask_by_mail(token: String) -> Result<()> {
    drop(token);
    Ok(())
}

#[workflow]
async fn approval(ctx: Ctx) -> Result<String> {
    let answer = ctx.promise_named::<bool>("approval").timeout(3.days());
    Ok(match answer.await {
        Ok(true) => "approved".into(),
        Ok(false) => "refused".into(),
        Err(error) if error.is_timeout() => "forgotten".into(),
        Err(CallError::Failed(why, _)) => format!("rejected: {why}"),
        Err(error) => return Err(error.into()),
    })
}

async fn approved(settle: impl AsyncFnOnce(&App)) -> String {
    let app = TestEnv::new().workflow(approval).start().await;
    let run = app.start(approval, ()).id("order").await.expect("starts");
    settle(&app).await;
    let result = run.result().await.expect("it ends");
    sound(&run, approval).await;
    result
}

#[test]
fn a_promise_is_resolved_rejected_or_given_up() {
    drive(async {
        let name = |app: &App| app.promise::<bool>("order", "approval");
        let yes = approved(async |app| name(app).resolve(true).await.expect("settles"));
        assert_eq!(yes.await, "approved");
        let no = approved(async |app| name(app).reject("broke").await.expect("settles"));
        assert_eq!(no.await, "rejected: broke");
        assert_eq!(approved(async |_| ()).await, "forgotten");
    });
}

#[workflow]
async fn twice(ctx: Ctx) -> Result<(u64, u64)> {
    let first = ctx.promise_named::<u64>("n").await?;
    ctx.promise_named::<()>("go").await?;
    Ok((first, ctx.promise_named("n").await?))
}

#[test]
fn the_first_outcome_counts_and_stays() {
    drive(async {
        let app = TestEnv::new().workflow(twice).start().await;
        let run = app.start(twice, ()).id("t").await.expect("it starts");
        let n = app.promise::<u64>("t", "n");
        n.resolve(1).await.expect("it settles");
        let again = n.resolve(2).await.expect_err("it has an outcome");
        assert!(
            matches!(again.refusal(), Some(Refusal::AlreadyResolved { .. })),
            "{again}"
        );
        assert_eq!(again.code(), "OL-1008");
        let go = app.promise::<()>("t", "go");
        go.resolve(()).await.expect("it settles");
        assert_eq!(run.result().await.expect("it ends"), (1, 1));
    });
}

#[workflow]
async fn by_token(ctx: Ctx, asks: u64) -> Result<Vec<u64>> {
    let promises: Vec<_> = (0..asks).map(|_| ctx.promise::<u64>()).collect();
    for promise in &promises {
        ctx.run(ask_by_mail, promise.token()).await?;
    }
    let mut all = Vec::new();
    for promise in promises {
        all.push(promise.await?);
    }
    Ok(all)
}

#[test]
fn whoever_has_the_token_settles_the_promise() {
    drive(async {
        let (tokens, mut sent) = tokio::sync::mpsc::unbounded_channel();
        let env = TestEnv::new().workflow(by_token);
        let env = env.mock(ask_by_mail, move |token| Ok(tokens.send(token)?));
        let app = env.start().await;
        let run = app.start(by_token, 2).id("a/b").await.expect("it starts");
        let first = sent.recv().await.expect("a token");
        let second = sent.recv().await.expect("another");
        app.resolve_token(&second, 2).await.expect("it settles");
        app.resolve_token(&first, 1).await.expect("it settles");
        assert_eq!(run.result().await.expect("it ends"), [1, 2]);
        let late = app.resolve_token(&first, 1).await.expect_err("it is over");
        assert_eq!(late.code(), "OL-1008", "{late}");
        let none = app.resolve_token("p1.nonsense", 1).await;
        assert_eq!(none.expect_err("no token").code(), "OL-1001");
    });
}

#[workflow]
async fn every_round(ctx: Ctx, rounds: u64) -> Result<u64> {
    let promise = ctx.promise::<u64>();
    ctx.run(ask_by_mail, promise.token()).await?;
    let n = promise.await?;
    if rounds > 1 {
        return ctx.continue_as_new(rounds - 1);
    }
    Ok(n)
}

#[test]
fn a_promise_of_the_next_run_is_another_one() {
    drive(async {
        let (tokens, mut sent) = tokio::sync::mpsc::unbounded_channel();
        let env = TestEnv::new().workflow(every_round);
        let env = env.mock(ask_by_mail, move |token| Ok(tokens.send(token)?));
        let app = env.start().await;
        let run = app.start(every_round, 3).id("r").await.expect("it starts");
        for n in 1..=3 {
            let token = sent.recv().await.expect("a token");
            app.resolve_token(&token, n).await.expect("it settles");
        }
        assert_eq!(run.result().await.expect("it ends"), 3);
    });
}

#[test]
fn a_promise_may_be_settled_before_anybody_waits_for_it() {
    drive(async {
        let app = TestEnv::new().workflow(twice).start().await;
        let run = app.start(twice, ()).id("t").await.expect("it starts");
        let go = app.promise::<()>("t", "go");
        go.resolve(()).await.expect("it settles");
        until(&run, |found| !found.waiting.is_empty()).await;
        let n = app.promise::<u64>("t", "n");
        n.resolve(7).await.expect("it settles");
        assert_eq!(run.result().await.expect("it ends"), (7, 7));
    });
}
