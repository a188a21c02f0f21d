//! Live = replay from zero = replay with eviction after every slice, for named programs.

use std::rc::Rc;

use futures::future::{Either, join_all, select};
use futures::{FutureExt, select_biased};
use outlast_model::event::{EventKind, Role};
use outlast_model::{ActivityOptions, CancelMode, Failure, Payload, Resolution};
use outlast_runtime::{Context, MainOutcome, ReplayChecks, SignalHandler, Unwatched, replay};

use crate::backend::{Backend, Cache};
use crate::flow::{Flow, Log, act, act_with, done, no_foreign, sleep, step, word};

/// Runs the script with and without a cache, replays every beginning, and compares all of them.
fn assert_equal(make: impl Fn() -> Flow, script: impl Fn(&mut Backend)) {
    let mut live = Backend::shared(Rc::new(make()), Cache::Keep);
    script(&mut live);
    let mut evicted = Backend::shared(Rc::new(make()), Cache::EvictAlways);
    script(&mut evicted);
    assert_eq!(live.failure(), "");
    assert_eq!(evicted.failure(), "");
    assert_eq!(live.history, evicted.history);
    assert_eq!(live.log(), evicted.log());
    assert!(live.is_closed, "the script ends the run: {:?}", live.log());

    let log = live.log();
    drop(live.replayed().expect("replays"));
    assert_eq!(live.log(), log);
    let strict = ReplayChecks { strict: true };
    let first = live
        .history
        .iter()
        .position(|event| event.kind == EventKind::TaskCompleted);
    for end in first.expect("a task completed") + 1..live.history.len() {
        // A task is completed together with its commands.
        if matches!(
            live.history[end].kind.role(),
            Role::Command | Role::ClosingCommand
        ) {
            continue;
        }
        let beginning = &live.history[..end];
        replay(beginning, &*live.flow, &no_foreign(), &Unwatched, strict).expect("any beginning");
        assert!(
            log.starts_with(&live.log()),
            "a beginning gives the beginning of the log"
        );
    }
}

#[test]
fn activities_timers_and_steps_in_a_row() {
    assert_equal(
        || {
            Flow::new(|ctx, log| async move {
                log.note(word(&act(ctx, "a").await));
                log.note(word(&sleep(ctx, 1).await));
                log.note(word(&step(ctx, "s").await));
                log.note(format!("{} {}", ctx.now(), ctx.random()));
                MainOutcome::Failed(Failure::application("test", "end"))
            })
        },
        |backend| {
            backend.turn();
            backend.complete(1, "x").turn();
            backend.fire(1).turn();
            backend
                .resolve_step(1, Resolution::Completed(Payload::bytes("y")))
                .turn();
        },
    );
}

#[test]
fn races_have_the_same_winners() {
    assert_equal(
        || {
            Flow::new(|ctx, log| async move {
                for _ in 0..3 {
                    let (mut a, mut t) = (act(ctx, "a"), sleep(ctx, 9).fuse());
                    let mut s = step(ctx, "s");
                    select_biased! {
                        _ = a => log.note("activity"),
                        _ = t => log.note("timer"),
                        _ = s => log.note("step"),
                    }
                }
                done()
            })
        },
        |backend| {
            backend.turn();
            backend.fire(1).complete(1, "").turn();
            backend
                .resolve_step(2, Resolution::Completed(Payload::null()))
                .turn();
            backend.turn();
            backend.fire(3).turn();
        },
    );
}

#[test]
fn signals_handlers_and_branches() {
    assert_equal(
        || {
            Flow::new(|ctx, log| {
                ctx.set_state(Box::new(0_u32));
                let noted = log.clone();
                let handler: SignalHandler = Rc::new(move |ctx: Context, input| {
                    let log = noted.clone();
                    Box::pin(async move {
                        let outcome = act(ctx, "handled").await;
                        log.note(format!("{} {}", input.size(), word(&outcome)));
                        Ok(())
                    })
                });
                ctx.on_signal("go".into(), handler);
                async move {
                    let inner: Log = log.clone();
                    drop(ctx.spawn(Box::pin(async move {
                        while let Resolution::Completed(p) = ctx.recv("word".into()).await {
                            inner.note(String::from_utf8_lossy(&p.data));
                        }
                    })));
                    join_all((0..3).map(|n| sleep(ctx, n))).await;
                    done()
                }
            })
        },
        |backend| {
            backend.signal("go", "early").signal("word", "one").turn();
            backend
                .signal("word", "two")
                .fire(2)
                .signal("go", "again")
                .turn();
            backend.complete(2, "x").complete(1, "y").turn();
            backend.fire(1).signal("word", "three").fire(3).turn();
        },
    );
}

#[test]
fn cancellation_and_undo() {
    assert_equal(
        || {
            Flow::new(|ctx, log| async move {
                let undo = ActivityOptions::default();
                act(ctx, "book").undo("unbook".into(), undo).await;
                let waited = act_with(ctx, "b", CancelMode::Wait);
                let work = join_all([act(ctx, "a"), waited, sleep(ctx, 9), step(ctx, "s")]);
                for outcome in work.await {
                    log.note(word(&outcome));
                }
                ctx.shield(|| async move {
                    log.note(word(&act(ctx, "clean").await));
                })
                .await;
                MainOutcome::Canceled
            })
        },
        |backend| {
            backend.turn();
            backend.complete(1, "ticket").turn();
            backend.cancel().turn();
            backend.turn();
            backend.complete(4, "").turn();
            backend.complete(5, "").turn();
        },
    );
}

#[test]
fn a_task_that_failed_before_does_not_change_the_cut() {
    let flow = Flow::new(|ctx, log| async move {
        match select(act(ctx, "a"), sleep(ctx, 1)).await {
            Either::Left(_) => log.note("activity"),
            Either::Right(_) => log.note("timer"),
        }
        ctx.recv("end".into()).await;
        done()
    });
    let mut backend = Backend::started(flow);
    backend.fire(1);
    backend.fail_task();
    backend.complete(1, "").turn();
    let live = backend.log();
    assert_eq!(live, ["activity"], "both outcomes came in one activation");
    drop(backend.replayed().expect("replays"));
    assert_eq!(backend.log(), live);
}

#[test]
fn a_wake_up_late_in_a_long_history_is_as_small_as_an_early_one() {
    let flow = Flow::new(|ctx, _| async move {
        for _ in 0..3000 {
            act(ctx, "a").await;
            drop(sleep(ctx, 1));
        }
        done()
    });
    let mut backend = Backend::started(flow);
    for seq in 1..3000 {
        backend.complete(seq, "").turn();
    }
    let instance = backend.instance.as_ref().expect("open");
    assert_eq!(instance.open_operations(), 1);
    drop(backend.replayed().expect("replays"));
}
