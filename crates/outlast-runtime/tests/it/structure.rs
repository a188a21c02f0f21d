//! Structured concurrency: what fails together, what waits for what, what a cancel reaches.

use std::cell::RefCell;
use std::rc::Rc;

use futures::future::{Either, select};
use outlast_model::{Failure, Resolution};
use outlast_runtime::{Context, MainOutcome, SignalHandler, Supervision};

use crate::backend::{Backend, short};
use crate::flow::{Flow, Listening, Log, act, done, sleep, word};

fn no(text: &str) -> Failure {
    Failure::application("test", text)
}

/// Completed, or the failure.
fn ok(resolution: Resolution) -> Result<(), Failure> {
    match resolution {
        Resolution::Completed(_) => Ok(()),
        Resolution::Failed(failure, _) => Err(failure),
        Resolution::Canceled(_) => Err(Failure::canceled("cancelled")),
    }
}

/// A branch that does one activity and fails if it does.
async fn working(ctx: Context, name: &'static str) -> Result<(), Failure> {
    ok(act(ctx, name).await)
}

/// A branch that notes how its sleep ended.
fn sleeping(ctx: Context, log: &Log) -> impl Future<Output = Result<(), Failure>> + use<> {
    let log = log.clone();
    async move {
        let slept = sleep(ctx, 100).await;
        log.note(word(&slept));
        ok(slept)
    }
}

#[test]
fn a_branch_that_fails_fails_main_and_cancels_its_siblings() {
    let flow = Flow::new(|ctx, log| async move {
        drop(ctx.spawn(working(ctx, "a")));
        drop(ctx.spawn(sleeping(ctx, &log)));
        log.note(word(&sleep(ctx, 200).await));
        assert!(ctx.is_cancelled());
        log.note(ctx.scope_failure().expect("the branch's").message.clone());
        done()
    });
    let mut backend = Backend::started(flow);
    let commands = short(&backend.fail(1, "broken").turn());
    assert_eq!(
        commands,
        ["cancel timer 1", "cancel timer 2", "fail broken"]
    );
    // Main is woken first, and does not wait for the sibling it has not asked for.
    assert_eq!(backend.log(), ["cancelled", "broken"]);
}

#[test]
fn clean_up_after_a_failed_branch_may_do_durable_work() {
    let flow = Flow::new(|ctx, log| async move {
        drop(ctx.spawn(working(ctx, "a")));
        sleep(ctx, 200).await;
        let clean = ctx.shield(|| act(ctx, "clean")).await;
        log.note(word(&clean));
        MainOutcome::Canceled
    });
    let mut backend = Backend::started(flow);
    let commands = short(&backend.fail(1, "broken").turn());
    assert_eq!(commands, ["cancel timer 1", "activity 2 clean"]);
    assert_eq!(short(&backend.complete(2, "x").turn()), ["fail broken"]);
    assert_eq!(backend.log(), ["ok:x"]);
}

#[test]
fn a_failure_climbs_from_branch_to_branch_and_the_first_one_counts() {
    let flow = Flow::new(|ctx, _| async move {
        drop(ctx.spawn(async move {
            drop(ctx.spawn(working(ctx, "inner")));
            sleep(ctx, 100).await;
            // Whatever it returns: its own branch has failed it.
            Err(no("second"))
        }));
        sleep(ctx, 200).await;
        done()
    });
    let mut backend = Backend::started(flow);
    let commands = short(&backend.fail(1, "first").turn());
    assert_eq!(commands.last().map(String::as_str), Some("fail first"));
}

#[test]
fn a_supervised_branch_fails_alone_and_is_told_if_nobody_waits_for_it() {
    let flow = Flow::new(|ctx, log| async move {
        ctx.spawn(working(ctx, "a")).supervised().leave();
        drop(ctx.spawn(working(ctx, "b")).supervised());
        log.note(word(&sleep(ctx, 1).await));
        done()
    });
    let mut backend = Backend::started(flow);
    assert!(backend.fail(1, "one").fail(2, "two").turn().is_empty());
    let told = backend.warnings();
    assert_eq!(told.len(), 1, "somebody watches the other: {told:?}");
    assert!(told[0].starts_with("branch 1 spawned at ") && told[0].ends_with("for it: one"));
    assert_eq!(short(&backend.fire(1).turn()), ["complete"]);
}

#[test]
fn a_branch_that_was_asked_to_stop_fails_nobody() {
    let flow = Flow::new(|ctx, log| async move {
        let branch = ctx.spawn(async move {
            sleep(ctx, 100).await;
            Err(no("could not clean up"))
        });
        branch.leave();
        act(ctx, "a").await;
        branch.cancel();
        branch.cancel();
        assert!(branch.is_cancelled());
        log.note(word(&sleep(ctx, 1).await));
        done()
    });
    let mut backend = Backend::started(flow);
    backend.complete(1, "").turn();
    assert!(backend.warnings()[0].ends_with("nobody waits for it: could not clean up"));
    assert_eq!(short(&backend.fire(2).turn()), ["complete"]);
}

#[test]
fn a_branch_that_outlives_its_parent_belongs_to_the_scope_around_it() {
    let flow = Flow::new(|ctx, log| async move {
        drop(ctx.spawn(async move {
            drop(ctx.spawn(working(ctx, "orphan")));
        }));
        log.note(word(&sleep(ctx, 1).await));
        done()
    });
    let mut backend = Backend::started(flow);
    let commands = short(&backend.fail(1, "orphaned").turn());
    assert_eq!(commands, ["cancel timer 1", "fail orphaned"]);
}

#[test]
fn a_scope_is_over_when_its_branches_are() {
    let flow = Flow::new(|ctx, log| async move {
        let inside = log.clone();
        let scoped = ctx.scope(Supervision::FailTogether, |scope| async move {
            drop(scope.spawn(working(ctx, "a")));
            drop(ctx.spawn(async move {
                drop(ctx.spawn(working(ctx, "b")));
            }));
            inside.note("body");
            Ok(7)
        });
        log.note(format!("{:?}", scoped.await));
        done()
    });
    let mut backend = Backend::started(flow);
    assert_eq!(backend.log(), ["body"]);
    assert!(backend.complete(1, "").turn().is_empty());
    assert_eq!(short(&backend.complete(2, "").turn()), ["complete"]);
    assert_eq!(backend.log(), ["body", "Ok(7)"]);
}

#[test]
fn a_scope_fails_with_its_first_branch_and_the_code_around_it_goes_on() {
    let flow = Flow::new(|ctx, log| async move {
        let inside = log.clone();
        let scoped = ctx.scope(Supervision::FailTogether, |_| async move {
            drop(ctx.spawn(working(ctx, "a")));
            drop(ctx.spawn(sleeping(ctx, &inside)));
            inside.note(word(&sleep(ctx, 200).await));
            Ok(())
        });
        let failure = scoped.await.expect_err("a branch failed");
        log.note(failure.message.clone());
        assert!(!ctx.is_cancelled());
        log.note(word(&act(ctx, "after").await));
        done()
    });
    let mut backend = Backend::started(flow);
    let commands = short(&backend.fail(1, "broken").turn());
    assert_eq!(
        commands,
        ["cancel timer 1", "cancel timer 2", "activity 2 after"]
    );
    assert_eq!(backend.log(), ["cancelled", "cancelled", "broken"]);
    assert_eq!(short(&backend.complete(2, "").turn()), ["complete"]);
}

#[test]
fn a_scope_whose_body_fails_cancels_its_branches_and_waits_for_them() {
    let flow = Flow::new(|ctx, log| async move {
        let inside = log.clone();
        let scoped = ctx.scope(Supervision::FailTogether, |_| async move {
            drop(ctx.spawn(async move {
                sleep(ctx, 100).await;
                inside.note(word(&ctx.shield(|| act(ctx, "clean")).await));
            }));
            act(ctx, "a").await;
            Err::<(), _>(no("body"))
        });
        log.note(scoped.await.expect_err("the body failed").message.clone());
        done()
    });
    let mut backend = Backend::started(flow);
    let commands = short(&backend.complete(1, "").turn());
    assert_eq!(commands, ["cancel timer 1", "activity 2 clean"]);
    assert_eq!(short(&backend.complete(2, "x").turn()), ["complete"]);
    assert_eq!(backend.log(), ["ok:x", "body"]);
}

#[test]
fn in_a_supervised_scope_every_branch_fails_alone() {
    let flow = Flow::new(|ctx, log| async move {
        let scoped = ctx.scope(Supervision::FailAlone, |scope| async move {
            drop(scope.spawn(working(ctx, "a")));
            drop(scope.spawn(working(ctx, "b")));
            Ok("both")
        });
        log.note(format!("{:?}", scoped.await));
        done()
    });
    let mut backend = Backend::started(flow);
    assert!(backend.fail(1, "broken").turn().is_empty());
    assert_eq!(short(&backend.complete(2, "").turn()), ["complete"]);
    assert_eq!(backend.log(), ["Ok(\"both\")"]);
}

#[test]
fn cancelling_a_scope_reaches_all_in_it_and_nothing_else() {
    let flow = Flow::new(|ctx, log| async move {
        let handle = Rc::new(RefCell::new(None));
        let (given, inside, beside) = (Rc::clone(&handle), log.clone(), log.clone());
        let scoped = ctx.scope(Supervision::FailTogether, |scope| async move {
            given.replace(Some(scope));
            drop(ctx.spawn(sleeping(ctx, &inside)));
            let nested = ctx.scope(Supervision::FailTogether, |_| async move {
                inside.note(word(&sleep(ctx, 50).await));
                inside.note(word(&ctx.shield(|| act(ctx, "shielded")).await));
                Ok(())
            });
            nested.await
        });
        let around = async {
            act(ctx, "go").await;
            let scope = handle.take().expect("given");
            scope.cancel();
            scope.cancel();
            assert!(scope.is_cancelled() && !ctx.is_cancelled());
            beside.note(word(&act(ctx, "beside").await));
        };
        let (scoped, ()) = futures::join!(scoped, around);
        log.note(format!("{scoped:?}"));
        done()
    });
    let mut backend = Backend::started(flow);
    let commands = short(&backend.complete(1, "").turn());
    assert_eq!(
        commands,
        [
            "cancel timer 1",
            "cancel timer 2",
            "activity 2 beside",
            "activity 3 shielded"
        ]
    );
    backend.complete(3, "s").complete(2, "b").turn();
    assert_eq!(
        backend.log(),
        ["cancelled", "cancelled", "ok:s", "ok:b", "Ok(())"]
    );
}

#[test]
fn a_scope_that_is_dropped_is_cancelled_when_the_poll_ends() {
    let flow = Flow::new(|ctx, log| async move {
        let inside = log.clone();
        let scoped = ctx.scope(Supervision::FailTogether, |_| async move {
            drop(ctx.spawn(sleeping(ctx, &inside)));
            act(ctx, "a").await;
            Ok(())
        });
        match select(scoped, sleep(ctx, 1)).await {
            Either::Left(_) => panic!("the timer is first"),
            Either::Right((_, scoped)) => drop(scoped),
        }
        log.note("dropped");
        act(ctx, "b").await;
        done()
    });
    let mut backend = Backend::started(flow);
    let commands = short(&backend.fire(1).turn());
    assert_eq!(
        commands,
        ["activity 2 b", "cancel activity 1", "cancel timer 2"]
    );
    assert_eq!(backend.log(), ["dropped", "cancelled"]);
    backend.turn();
    backend.replayed().expect("replays the same");
}

#[test]
fn a_workflow_cancel_reaches_every_branch_at_its_await() {
    let flow = Flow::new(|ctx, log| async move {
        for _ in 0..2 {
            let log = log.clone();
            drop(ctx.spawn(async move {
                drop(ctx.spawn(sleeping(ctx, &log)));
                sleeping(ctx, &log).await
            }));
        }
        let inside = log.clone();
        let scoped = ctx.scope(Supervision::FailAlone, |_| async move {
            drop(ctx.spawn(sleeping(ctx, &inside)));
            ok(sleep(ctx, 5).await)
        });
        log.note(format!("{:?}", scoped.await.map_err(|f| f.message.clone())));
        MainOutcome::Canceled
    });
    let mut backend = Backend::started(flow);
    let commands = short(&backend.cancel().turn());
    assert_eq!(commands.len(), 7, "{commands:?}");
    assert_eq!(commands.last().map(String::as_str), Some("canceled"));
    assert_eq!(
        backend.log().iter().filter(|l| *l == "cancelled").count(),
        5
    );
}

#[test]
fn main_that_returns_does_not_wait_for_branches_and_names_them() {
    let flow = Flow::new(|ctx, _| async move {
        drop(ctx.spawn(working(ctx, "a")));
        sleep(ctx, 1).await;
        done()
    });
    let mut backend = Backend::started(flow);
    let watch = Listening::default();
    assert_eq!(short(&backend.fire(1).turn_watched(&watch)), ["complete"]);
    let told = watch.0.borrow();
    assert!(
        told[0].starts_with("the run has ended while branch 1 spawned at "),
        "{told:?}"
    );
}

#[test]
fn a_branch_of_a_handler_fails_the_handler_and_nobody_else() {
    let flow = Flow::new(|ctx, log| {
        let noted = log.clone();
        let handler: SignalHandler = Rc::new(move |ctx, _| {
            let log = noted.clone();
            Box::pin(async move {
                drop(ctx.spawn(working(ctx, "a")));
                log.note(word(&sleep(ctx, 100).await));
                Ok(())
            })
        });
        ctx.on_signal("go".into(), handler);
        async move {
            log.note(word(&sleep(ctx, 1).await));
            done()
        }
    });
    let mut backend = Backend::started(flow);
    backend.signal("go", "").signal("go", "").turn();
    let commands = short(&backend.fail(1, "broken").turn());
    assert_eq!(commands, ["cancel timer 2"], "of the one handler only");
    assert_eq!(
        backend.warnings(),
        ["handler of signal `go` failed: broken"]
    );
    assert_eq!(backend.log(), ["cancelled"]);
}

#[test]
fn a_handler_can_cancel_what_it_spawned() {
    let flow = Flow::new(|ctx, log| {
        let noted = log.clone();
        let handler: SignalHandler = Rc::new(move |ctx, _| {
            let log = noted.clone();
            Box::pin(async move {
                let branch = ctx.spawn(sleeping(ctx, &log));
                act(ctx, "a").await;
                branch.cancel();
                Ok(())
            })
        });
        ctx.on_signal("go".into(), handler);
        async move {
            sleep(ctx, 1).await;
            done()
        }
    });
    let mut backend = Backend::started(flow);
    backend.signal("go", "").turn();
    assert_eq!(short(&backend.complete(1, "").turn()), ["cancel timer 2"]);
    assert_eq!(backend.log(), ["cancelled"]);
}
