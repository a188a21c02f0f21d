//! Stopping runs: what a cancel does at each kind of await, what terminate does.

use std::sync::{Arc, Mutex};

use outlast::prelude::*;
use outlast::{CancelMode, Status};

use super::support::{code, drive, sound, until};

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn note(&self, line: &str) {
        self.0
            .lock()
            .expect("nobody panics with it")
            .push(line.into());
    }

    fn lines(&self) -> Vec<String> {
        self.0.lock().expect("nobody panics with it").clone()
    }
}

#[activity]
async fn endless(State(log): State<Log>, ctx: ActivityCtx) -> Result<()> {
    log.note("begun");
    let stop = ctx.cancelled().await;
    log.note("stopped");
    Err(stop.into())
}

#[activity]
async fn tidy(State(log): State<Log>, what: String) -> Result<()> {
    log.note(&format!("tidy {what}"));
    Ok(())
}

const NEVER: Signal<()> = signal("never");

#[workflow]
async fn waits(ctx: Ctx, kind: String) -> Result<()> {
    match kind.as_str() {
        "timer" => ctx.sleep(9.days()).await?,
        "activity" => ctx.run(endless, ()).await?,
        "activity that waits" => ctx.run(endless, ()).cancel_mode(CancelMode::Wait).await?,
        "abandoned activity" => {
            ctx.run(endless, ())
                .cancel_mode(CancelMode::Abandon)
                .await?;
        }
        "signal" => ctx.recv(NEVER).await?,
        "step" => {
            let step = ctx.step("endless", || async {
                std::future::pending::<()>().await;
                Ok(())
            });
            step.await?;
        }
        "branch" => ctx.spawn(async move { ctx.sleep(9.days()).await }).await?,
        "select" => outlast::select! {
            done = ctx.run(endless, ()) => done?,
            slept = ctx.sleep(9.days()) => slept?,
        },
        "block with a timeout" => async { ctx.recv(NEVER).await }.timeout(9.days()).await??,
        other => Err(format!("unknown: {other}"))?,
    }
    Ok(())
}

#[test]
fn a_cancel_ends_a_run_at_each_kind_of_await() {
    let kinds = [
        "timer",
        "activity",
        "activity that waits",
        "abandoned activity",
        "signal",
        "step",
        "branch",
        "select",
        "block with a timeout",
    ];
    for kind in kinds {
        for cached in [1_000, 0] {
            drive(async {
                let env = TestEnv::new().state(Log::default());
                let env = env.activity(endless).workflow(waits);
                let app = env.settings(super::support::cached(cached)).start().await;
                let run = app.start(waits, kind).await.expect("it starts");
                run.cancel().await.expect("it is durable");
                let error = run.result().await.expect_err("it does not complete");
                assert!(error.is_cancelled(), "{kind}: {error}");
                let status = run.describe().await.expect("it is there").summary.status;
                assert_eq!(status, Status::Canceled, "{kind}");
                sound(&run, waits).await;
            });
        }
    }
}

#[test]
fn a_cancel_reaches_a_running_attempt() {
    drive(async {
        let log = Log::default();
        let env = TestEnv::new().state(log.clone());
        let app = env.activity(endless).workflow(waits).start().await;
        let run = app
            .start(waits, "activity that waits")
            .await
            .expect("it starts");
        until(&run, |_| !log.lines().is_empty()).await;
        run.cancel().await.expect("it is durable");
        run.result().await.expect_err("it does not complete");
        assert_eq!(log.lines(), ["begun", "stopped"]);
    });
}

#[workflow]
async fn cleans_up(ctx: Ctx) -> Result<()> {
    let slept = ctx.sleep(9.days()).await;
    if slept.is_err_and(|error| error.is_cancelled()) {
        ctx.shield(async || {
            ctx.run(tidy, "one").await?;
            ctx.sleep(1.hours()).await?;
            ctx.run(tidy, "two").await
        })
        .await?;
        ctx.run(tidy, "three").shielded().await?;
    }
    ctx.run(tidy, "never").await?;
    Ok(())
}

#[test]
fn clean_up_in_a_shield_runs_to_its_end() {
    drive(async {
        let log = Log::default();
        let env = TestEnv::new().state(log.clone());
        let app = env.activity(tidy).workflow(cleans_up).start().await;
        let run = app.start(cleans_up, ()).await.expect("it starts");
        run.cancel().await.expect("it is durable");
        run.cancel().await.expect("a second request succeeds");
        let error = run.result().await.expect_err("it does not complete");
        assert!(error.is_cancelled(), "{error}");
        assert_eq!(log.lines(), ["tidy one", "tidy two", "tidy three"]);
        sound(&run, cleans_up).await;
    });
}

#[workflow]
async fn ignores(ctx: Ctx) -> Result<String> {
    let slept = ctx.sleep(9.days()).await;
    Ok(format!("{} {}", slept.is_err(), ctx.is_cancelled()))
}

#[test]
fn a_run_may_complete_although_it_was_asked_to_stop() {
    drive(async {
        let app = TestEnv::new().workflow(ignores).start().await;
        let run = app.start(ignores, ()).await.expect("it starts");
        run.cancel().await.expect("it is durable");
        assert_eq!(run.result().await.expect("it completes"), "true true");
        sound(&run, ignores).await;
    });
}

#[workflow]
async fn undoes(ctx: Ctx) -> Result<()> {
    ctx.run(one, ()).undo(tidy).await?;
    ctx.sleep(9.days()).await?;
    Ok(())
}

#[activity]
async fn one() -> Result<String> {
    Ok("one".into())
}

#[test]
fn a_cancelled_run_undoes_what_it_did() {
    drive(async {
        let log = Log::default();
        let env = TestEnv::new().state(log.clone());
        let app = env
            .activity(one)
            .activity(tidy)
            .workflow(undoes)
            .start()
            .await;
        let run = app.start(undoes, ()).await.expect("it starts");
        until(&run, |d| format!("{:?}", d.waiting).contains("Timer")).await;
        run.cancel().await.expect("it is durable");
        let error = run.result().await.expect_err("it does not complete");
        assert!(error.is_cancelled(), "{error}");
        assert_eq!(log.lines(), ["tidy one"]);
        sound(&run, undoes).await;
    });
}

#[activity]
async fn stops(State(log): State<Log>, ctx: ActivityCtx) -> Result<String> {
    log.note("begun");
    Err(ctx.cancelled().await.into())
}

#[activity]
async fn tidy_if_done(State(log): State<Log>, what: Option<String>) -> Result<()> {
    log.note(&format!("tidy {what:?}"));
    Ok(())
}

#[workflow]
async fn undoes_what_stopped(ctx: Ctx, by: String) -> Result<()> {
    let call = ctx.run(stops, ());
    let call = match by.as_str() {
        "result" => call.undo(tidy),
        "option" => call.undo(tidy_if_done),
        _ => call.undo_with(tidy, "by key"),
    };
    call.await?;
    Ok(())
}

#[test]
fn what_may_have_been_done_is_undone_without_its_result_or_a_note_says_that_it_is_not() {
    let undone = |by: &'static str| {
        drive(async {
            let log = Log::default();
            let env = TestEnv::new().state(log.clone()).activity(stops);
            let env = env.activity(tidy).activity(tidy_if_done);
            let app = env.workflow(undoes_what_stopped).start().await;
            let run = app.start(undoes_what_stopped, by).await.expect("starts");
            until(&run, |_| log.lines() == ["begun"]).await;
            run.cancel().await.expect("it is durable");
            let error = run.result().await.expect_err("it does not complete");
            assert!(error.is_cancelled(), "{error}");
            sound(&run, undoes_what_stopped).await;
            let notes = run.describe().await.expect("it is there").notes;
            (log.lines().split_off(1), notes.join("\n"))
        })
    };
    let none = String::new();
    assert_eq!(undone("key"), (vec!["tidy by key".into()], none.clone()));
    assert_eq!(undone("option"), (vec!["tidy None".into()], none));
    let (done, note) = undone("result");
    assert!(done.is_empty(), "{done:?}");
    assert!(
        note.contains("undo `tidy` of activity 1 `stops` at "),
        "{note}"
    );
    assert!(note.contains("use `.undo_with(tidy, key)`"), "{note}");
}

#[test]
fn terminate_ends_a_run_at_once_and_runs_none_of_its_code() {
    drive(async {
        let log = Log::default();
        let env = TestEnv::new().state(log.clone());
        let env = env.activity(tidy).activity(endless);
        let app = env.workflow(cleans_up).workflow(waits).start().await;
        let run = app.start(cleans_up, ()).await.expect("it starts");
        run.terminate("by hand").await.expect("it is durable");
        let error = run.result().await.expect_err("it does not complete");
        assert!(matches!(error, CallError::Terminated(_)), "{error}");
        assert!(error.to_string().contains("by hand"), "{error}");
        assert_eq!(code(run.terminate("again").await), "OL-1006");
        sound(&run, cleans_up).await;
        let run = app.start(waits, "activity").await.expect("it starts");
        until(&run, |_| log.lines() == ["begun"]).await;
        run.terminate("by hand").await.expect("it is durable");
        while log.lines() != ["begun", "stopped"] {
            tokio::task::yield_now().await;
        }
        sound(&run, waits).await;
    });
}

#[workflow]
async fn tidies_in_time(ctx: Ctx, how: String) -> Result<String> {
    let begun = ctx.now();
    let tidied = match how.as_str() {
        "a shield with a limit" => {
            drop(ctx.sleep(9.days()).await);
            let tidy = ctx.shield(async || ctx.sleep(5.days()).await);
            tidy.timeout(1.hours()).await
        }
        "a shield of a block with a limit" => {
            let block = async {
                drop(ctx.sleep(9.days()).await);
                ctx.shield(async || ctx.sleep(5.days()).await).await
            };
            block.timeout(1.hours()).await
        }
        other => Err(format!("unknown: {other}"))?,
    };
    let took = ctx.now().duration_since(begun)?.as_secs() / 3_600;
    let limit = match tidied {
        Err(error) if error.is_timeout() => "out of time",
        Err(_) => "failed",
        Ok(_) => "done",
    };
    Ok(format!("{limit} after {took} h"))
}

#[test]
fn a_time_limit_around_a_shield_holds_though_its_scope_is_cancelled() {
    for how in ["a shield with a limit", "a shield of a block with a limit"] {
        for cached in [1_000, 0] {
            drive(async {
                let env = TestEnv::new().workflow(tidies_in_time);
                let app = env.settings(super::support::cached(cached)).start().await;
                let run = app.start(tidies_in_time, how).await.expect("it starts");
                run.cancel().await.expect("it is durable");
                let result = run.result().await.expect("it handles the cancel");
                assert_eq!(result, "out of time after 1 h", "{how}");
                sound(&run, tidies_in_time).await;
            });
        }
    }
}
