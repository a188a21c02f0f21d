//! Between runs and between builds: a promise settled twice, a child's id that is taken, a patch
//! id used again.

use outlast::ParentClose;
use outlast::prelude::*;
use outlast::testing::replay;
use outlast_service::memory::MemoryStore;

use crate::support::{cached, code, drive, names, on, sound, until};

#[workflow]
async fn asks(ctx: Ctx) -> Result<String> {
    let answer = ctx.promise_named::<String>("answer").await?;
    ctx.recv(GO).await?;
    Ok(answer)
}

const GO: Signal<()> = signal("go");

#[test]
fn a_promise_settled_twice_keeps_its_first_outcome_also_after_the_end() {
    drive(async {
        for runs in [1_000, 0] {
            let store = MemoryStore::new();
            let env = on(&store).settings(cached(runs)).workflow(asks);
            let app = env.start().await;
            let run = app.start(asks, ()).id("a").await.expect("it starts");
            let promise = app.promise::<String>("a", "answer");
            promise.resolve("first").await.expect("it is durable");
            assert_eq!(code(promise.resolve("second").await), "OL-1008");
            assert_eq!(code(promise.reject("third").await), "OL-1008");

            run.send(GO, ()).await.expect("it is durable");
            assert_eq!(run.result().await.expect("it ends"), "first");
            assert_eq!(code(promise.resolve("late").await), "OL-1008");
            app.shutdown().await;
            drop(app);

            let app = on(&store).workflow(asks).start().await;
            let promise = app.promise::<String>("a", "answer");
            assert_eq!(code(promise.resolve("later").await), "OL-1008");
            let unknown = app.promise::<String>("a", "question");
            assert_eq!(code(unknown.resolve("?").await), "OL-1006");
            let history = names(&sound(&app.get(asks, "a"), asks).await);
            let signaled = history.iter().filter(|n| n.ends_with("Signaled"));
            assert_eq!(signaled.count(), 2, "the first outcome, and the signal");
        }
    });
}

#[test]
fn a_promise_may_be_settled_before_it_is_made_and_only_once() {
    drive(async {
        let app = TestEnv::new().workflow(late).start().await;
        let run = app.start(late, ()).id("l").await.expect("it starts");
        let promise = app.promise::<u64>("l", "early");
        promise.resolve(7).await.expect("it is durable");
        assert_eq!(code(promise.resolve(8).await), "OL-1008");
        assert_eq!(run.result().await.expect("it ends"), 7);
        sound(&run, late).await;
    });
}

#[workflow]
async fn late(ctx: Ctx) -> Result<u64> {
    ctx.sleep(1.days()).await?;
    Ok(ctx.promise_named("early").await?)
}

#[test]
fn what_is_no_token_is_refused_and_nothing_is_written() {
    drive(async {
        let app = TestEnv::new().workflow(asks).start().await;
        app.start(asks, ()).await.expect("it starts");
        let before = app.written();
        for text in ["", "p1.x", "p1.1.2.3.4"] {
            assert_eq!(code(app.resolve_token(text, 1).await), "OL-1001");
            assert_eq!(code(app.reject_token(text, "no").await), "OL-1001");
        }
        assert_eq!(app.written(), before);
    });
}

#[workflow]
async fn waits(ctx: Ctx) -> Result<()> {
    Ok(ctx.recv(GO).await?)
}

#[workflow]
async fn has_two_of_one_id(ctx: Ctx) -> Result<String> {
    let first = ctx.child(waits, ()).id("child");
    let first = first.parent_close(ParentClose::Abandon);
    first.started().await?;
    let refused = ctx.child(waits, ()).id("child").await;
    let text = match refused {
        Err(CallError::AlreadyExists(trace)) => trace.summary(),
        other => format!("{other:?}"),
    };
    first.detach();
    Ok(text)
}

#[test]
fn a_second_child_of_one_id_is_refused_and_the_first_goes_on() {
    drive(async {
        for runs in [1_000, 0] {
            let env = TestEnv::new().settings(cached(runs));
            let env = env.workflow(waits).workflow(has_two_of_one_id);
            let app = env.start().await;
            let run = app.start(has_two_of_one_id, ()).await.expect("it starts");
            let text = run.result().await.expect("it ends");
            assert!(text.contains("child"), "{text}");
            sound(&run, has_two_of_one_id).await;

            let child = app.get(waits, "child");
            child.send(GO, ()).await.expect("it is durable");
            child.result().await.expect("it ends");
            sound(&child, waits).await;
        }
    });
}

#[activity]
async fn check() -> Result<()> {
    Ok(())
}

/// The first change, as it is recorded in open runs.
#[workflow(name = "patched_twice")]
async fn first_change(ctx: Ctx) -> Result<()> {
    if ctx.patched("change") {
        ctx.run(check, ()).await?;
    }
    Ok(ctx.recv(GO).await?)
}

/// A second change under the id of the first: open runs have it and would take its new side.
#[workflow(name = "patched_twice")]
async fn second_change(ctx: Ctx) -> Result<()> {
    if ctx.patched("change") {
        ctx.run(check, ()).await?;
    }
    if ctx.patched("change") {
        ctx.run(check, ()).await?;
    }
    Ok(ctx.recv(GO).await?)
}

#[test]
fn a_patch_id_used_again_is_found_and_the_run_goes_on_with_the_code_it_knows() {
    drive(async {
        let store = MemoryStore::new();
        let env = on(&store).report(|_| ()).activity(check);
        let app = env.workflow(first_change).start().await;
        let run = app.start(first_change, ()).id("p").await;
        let run = run.expect("it starts");
        until(&run, |d| d.summary.events > 10).await;
        app.shutdown().await;
        drop(app);

        let env = on(&store).report(|_| ()).activity(check);
        let app = env.workflow(second_change).start().await;
        let run = app.get(second_change, "p");
        run.send(GO, ()).await.expect("it is durable");
        let found = until(&run, |d| d.trouble.is_some()).await;
        assert!(found.summary.is_blocked);
        let text = found.trouble.expect("it is in trouble").failure.to_string();
        assert!(text.contains("check"), "{text}");
        app.shutdown().await;
        drop(app);

        let app = on(&store)
            .activity(check)
            .workflow(first_change)
            .start()
            .await;
        let run = app.get(first_change, "p");
        run.result().await.expect("no message is lost");
        let history = sound(&run, first_change).await;
        let difference = replay(second_change, &history);
        assert!(difference.is_err());
    });
}
