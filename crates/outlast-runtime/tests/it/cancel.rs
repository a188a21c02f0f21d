//! Dropping is cancelling, and each row of the cancellation table.

use futures::FutureExt;
use futures::future::{Either, select};
use outlast_model::failure::RetryState;
use outlast_model::{CancelMode, Failure, Payload, Resolution};
use outlast_runtime::MainOutcome;

use crate::backend::{Backend, short};
use crate::flow::{Flow, Listening, act, act_with, done, sleep, step, word};

#[test]
fn cancels_caused_by_drops_are_sorted_by_kind_and_number() {
    let flow = Flow::new(|ctx, _| async move {
        let (s, t2, t1) = (step(ctx, "s"), sleep(ctx, 9), sleep(ctx, 9));
        let (a1, a2) = (act(ctx, "a"), act(ctx, "b"));
        sleep(ctx, 1).await;
        drop((s, t1, a2, t2, a1));
        sleep(ctx, 2).await;
        done()
    });
    let mut backend = Backend::started(flow);
    let commands = short(&backend.fire(3).turn());
    let sorted = [
        "cancel activity 1",
        "cancel activity 2",
        "cancel timer 1",
        "cancel timer 2",
    ];
    assert_eq!(commands[0], "timer 4");
    assert_eq!(commands[1..5], sorted);
    assert_eq!(commands[5..], ["cancel step 1"]);
}

#[test]
fn an_operation_that_has_its_outcome_is_not_cancelled_when_dropped() {
    let flow = Flow::new(|ctx, log| async move {
        match select(act(ctx, "a"), sleep(ctx, 1)).await {
            Either::Left((_, timer)) => drop(timer),
            Either::Right(_) => log.note("timer"),
        }
        sleep(ctx, 1).await;
        done()
    });
    let mut backend = Backend::started(flow);
    assert_eq!(short(&backend.complete(1, "").fire(1).turn()), ["timer 2"]);
}

#[test]
fn drops_at_the_close_of_the_run_cancel_nothing() {
    let flow = Flow::new(|ctx, _| async move {
        let (activity, timer) = (act(ctx, "a"), sleep(ctx, 100));
        sleep(ctx, 1).await;
        drop(activity);
        let unsent = act(ctx, "never");
        drop((timer, unsent));
        done()
    });
    let mut backend = Backend::started(flow);
    assert_eq!(short(&backend.fire(2).turn()), ["complete"]);
}

#[test]
fn scheduled_and_cancelled_in_one_slice_uses_the_number_and_sends_nothing() {
    let flow = Flow::new(|ctx, log| async move {
        let calls = [act(ctx, "a"), sleep(ctx, 1), step(ctx, "s")];
        for call in calls {
            call.cancel();
            assert!(call.is_cancelled());
            log.note(word(&call.await));
        }
        drop((act(ctx, "b"), sleep(ctx, 1), step(ctx, "t")));
        futures::join!(act(ctx, "c"), sleep(ctx, 1), step(ctx, "u"));
        done()
    });
    let mut backend = Backend::new(flow);
    assert_eq!(
        short(&backend.turn()),
        ["activity 3 c", "timer 3", "step 3 u"]
    );
    assert_eq!(backend.log(), ["cancelled"; 3]);
}

/// Cancels a sent activity of this mode, then waits for it.
fn cancel_an_activity(mode: CancelMode) -> Backend {
    let flow = Flow::new(move |ctx, log| async move {
        let call = act_with(ctx, "a", mode);
        sleep(ctx, 1).await;
        call.cancel();
        call.cancel();
        log.note("asked");
        log.note(word(&call.await));
        sleep(ctx, 2).await;
        done()
    });
    Backend::started(flow)
}

#[test]
fn a_tried_cancel_resolves_in_the_same_task_and_a_late_outcome_is_ignored() {
    let mut backend = cancel_an_activity(CancelMode::Try);
    assert_eq!(
        short(&backend.fire(1).turn()),
        ["cancel activity 1", "timer 2"]
    );
    assert_eq!(backend.log(), ["asked", "cancelled"]);
    assert!(backend.has_news(), "the activity itself ends later");
    assert!(backend.turn().is_empty());
    assert_eq!(backend.log(), ["asked", "cancelled"]);
    backend.replayed().expect("replays the same");
}

#[test]
fn a_waited_cancel_resolves_with_the_outcome() {
    let mut backend = cancel_an_activity(CancelMode::Wait);
    assert_eq!(short(&backend.fire(1).turn()), ["cancel activity 1"]);
    assert_eq!(backend.log(), ["asked"]);
    assert_eq!(short(&backend.turn()), ["timer 2"]);
    assert_eq!(backend.log(), ["asked", "cancelled"]);
}

#[test]
fn an_abandoned_activity_is_told_nothing() {
    let mut backend = cancel_an_activity(CancelMode::Abandon);
    assert_eq!(short(&backend.fire(1).turn()), ["timer 2"]);
    assert_eq!(backend.log(), ["asked", "cancelled"]);
    assert!(backend.complete(1, "late").turn().is_empty());
    assert_eq!(backend.log(), ["asked", "cancelled"]);
}

#[test]
fn a_timer_resolves_cancelled_in_the_same_slice() {
    let flow = Flow::new(|ctx, log| async move {
        let timer = sleep(ctx, 100);
        act(ctx, "a").await;
        timer.cancel();
        log.note(word(&timer.await));
        act(ctx, "b").await;
        done()
    });
    let mut backend = Backend::started(flow);
    assert_eq!(
        short(&backend.complete(1, "").turn()),
        ["cancel timer 1", "activity 2 b"]
    );
    assert_eq!(backend.log(), ["cancelled"]);
}

/// Cancels a step that runs, then waits for it.
fn cancel_a_step() -> Flow {
    Flow::new(|ctx, log| async move {
        let running = step(ctx, "s");
        sleep(ctx, 1).await;
        running.cancel();
        log.note(word(&running.await));
        sleep(ctx, 1).await;
        done()
    })
}

#[test]
fn a_running_step_resolves_by_its_outcome() {
    let mut backend = Backend::started(cancel_a_step());
    assert_eq!(short(&backend.fire(1).turn()), ["cancel step 1"]);
    assert!(backend.log().is_empty());
    assert_eq!(short(&backend.turn()), ["timer 2"]);
    assert_eq!(backend.log(), ["cancelled"]);
}

#[test]
fn a_running_step_that_was_cancelled_may_still_complete_or_fail() {
    let failed = Failure::application("test", "broken");
    let ends = [
        (Resolution::Completed(Payload::bytes("x")), "ok:x"),
        (
            Resolution::Failed(failed, RetryState::MaximumAttemptsReached),
            "failed:broken",
        ),
    ];
    for (outcome, told) in ends {
        let mut backend = Backend::started(cancel_a_step());
        backend.ignores_cancels = true;
        assert_eq!(short(&backend.fire(1).turn()), ["cancel step 1"]);
        assert!(backend.log().is_empty() && !backend.has_news());
        assert_eq!(short(&backend.resolve_step(1, outcome).turn()), ["timer 2"]);
        assert_eq!(backend.log(), [told]);
        drop(backend.replayed().expect("replays the same"));
        assert_eq!(backend.log(), [told]);
    }
}

#[test]
fn a_finished_operation_is_not_cancelled() {
    let flow = Flow::new(|ctx, log| async move {
        let call = act(ctx, "a");
        sleep(ctx, 1).await;
        call.cancel();
        assert!(!call.is_cancelled());
        log.note(word(&call.await));
        sleep(ctx, 1).await;
        done()
    });
    let mut backend = Backend::started(flow);
    assert_eq!(short(&backend.complete(1, "x").fire(1).turn()), ["timer 2"]);
    assert_eq!(backend.log(), ["ok:x"]);
}

#[test]
fn cancelling_the_workflow_cancels_in_order_and_what_comes_later_at_once() {
    let flow = Flow::new(|ctx, log| async move {
        let timer = sleep(ctx, 9);
        let (tried, waited) = (act(ctx, "a"), act_with(ctx, "b", CancelMode::Wait));
        log.note(word(&timer.await));
        assert!(ctx.is_cancelled());
        log.note(word(&act(ctx, "later").now_or_never().expect("at once")));
        log.note(word(
            &ctx.recv("never".into()).now_or_never().expect("at once"),
        ));
        log.note(word(&tried.await));
        log.note(word(&waited.await));
        MainOutcome::Canceled
    });
    let mut backend = Backend::started(flow);
    let commands = short(&backend.cancel().turn());
    assert_eq!(
        commands,
        ["cancel activity 1", "cancel activity 2", "cancel timer 1"]
    );
    assert_eq!(backend.log(), ["cancelled"; 4]);
    assert_eq!(short(&backend.turn()), ["canceled"]);
    assert_eq!(backend.log(), ["cancelled"; 5]);
}

#[test]
fn what_ends_in_the_same_activation_as_the_cancel_has_ended() {
    let flow = Flow::new(|ctx, log| async move {
        let (call, timer) = (act(ctx, "a"), sleep(ctx, 1));
        log.note(word(&call.await));
        log.note(word(&timer.await));
        MainOutcome::Canceled
    });
    let mut backend = Backend::started(flow);
    assert_eq!(
        short(&backend.cancel().complete(1, "x").fire(1).turn()),
        ["canceled"]
    );
    assert_eq!(backend.log(), ["ok:x", "ok:"]);
}

#[test]
fn a_shield_is_out_of_reach_and_so_is_what_it_makes_later() {
    let flow = Flow::new(|ctx, log| async move {
        let inside = log.clone();
        let shield = ctx.shield(|| async move {
            inside.note(word(&act(ctx, "a").await));
            assert!(!ctx.is_cancelled());
            inside.note(word(&act(ctx, "b").await));
        });
        let outside = async {
            log.note(word(&sleep(ctx, 100).await));
            assert!(ctx.is_cancelled());
            log.note(word(&act(ctx, "c").shielded().await));
        };
        futures::join!(shield, outside);
        MainOutcome::Canceled
    });
    let mut backend = Backend::started(flow);
    assert_eq!(
        short(&backend.cancel().turn()),
        ["cancel timer 1", "activity 2 c"]
    );
    assert_eq!(short(&backend.complete(1, "1").turn()), ["activity 3 b"]);
    backend.complete(3, "3").turn();
    assert_eq!(short(&backend.complete(2, "2").turn()), ["canceled"]);
    assert_eq!(backend.log(), ["cancelled", "ok:1", "ok:3", "ok:2"]);
}

#[test]
fn a_call_made_in_a_shield_is_shielded_from_the_moment_of_the_call() {
    let flow = Flow::new(|ctx, log| async move {
        let shield = ctx.shield(|| act(ctx, "a"));
        log.note(word(&sleep(ctx, 100).await));
        log.note(word(&shield.await));
        MainOutcome::Canceled
    });
    let mut backend = Backend::started(flow);
    assert_eq!(short(&backend.cancel().turn()), ["cancel timer 1"]);
    backend.complete(1, "done").turn();
    assert_eq!(backend.log(), ["cancelled", "ok:done"]);
}

#[test]
fn a_cancelled_branch_does_not_touch_its_siblings() {
    let flow = Flow::new(|ctx, log| async move {
        let (one, two) = (log.clone(), log);
        let first = ctx.spawn(Box::pin(async move {
            let (below, log) = (one.clone(), one);
            drop(ctx.spawn(Box::pin(
                async move { below.note(word(&sleep(ctx, 1).await)) },
            )));
            log.note(word(&sleep(ctx, 2).await));
        }));
        drop(ctx.spawn(Box::pin(
            async move { two.note(word(&sleep(ctx, 3).await)) },
        )));
        act(ctx, "a").await;
        first.cancel();
        assert!(first.scope().is_cancelled() && !ctx.is_cancelled());
        act(ctx, "b").await;
        done()
    });
    let mut backend = Backend::started(flow);
    let commands = short(&backend.complete(1, "").turn());
    assert_eq!(
        commands,
        ["cancel timer 1", "cancel timer 3", "activity 2 b"]
    );
    assert_eq!(backend.log(), ["cancelled", "cancelled"]);
}

#[test]
fn what_one_round_asks_for_and_the_next_cancels_was_never_sent() {
    for mode in [CancelMode::Try, CancelMode::Wait] {
        let flow = Flow::new(move |ctx, log| async move {
            let first = act(ctx, "a");
            sleep(ctx, 1).await;
            let calls = [act_with(ctx, "b", mode), sleep(ctx, 9), step(ctx, "s")];
            first.cancel();
            log.note(word(&first.await));
            for call in calls {
                call.cancel();
                log.note(word(&call.await));
            }
            sleep(ctx, 2).await;
            done()
        });
        let mut backend = Backend::started(flow);
        assert_eq!(
            short(&backend.fire(1).turn()),
            ["cancel activity 1", "timer 3"]
        );
        assert_eq!(backend.log(), ["cancelled"; 4]);
        backend.replayed().expect("replays the same");
        assert_eq!(backend.log(), ["cancelled"; 4]);
    }
}

#[test]
fn an_eviction_is_silent_and_a_closed_run_warns_of_late_commands() {
    struct Noisy(outlast_runtime::Context);
    impl Drop for Noisy {
        fn drop(&mut self) {
            act(self.0, "late").detach();
        }
    }
    let flow = Flow::new(|ctx, _| async move {
        drop(ctx.spawn(Box::pin(async move {
            let _noisy = Noisy(ctx);
            sleep(ctx, 100).await;
        })));
        sleep(ctx, 1).await;
        done()
    });
    let mut backend = Backend::started(flow);
    backend.instance.take().expect("open").evict();
    let watch = Listening::default();
    assert_eq!(short(&backend.fire(1).turn_watched(&watch)), ["complete"]);
    let told = watch.0.borrow();
    assert_eq!(told.len(), 2);
    assert!(told[0].starts_with("the run has ended while branch 1 spawned at "));
    assert!(told[1].starts_with("ScheduleActivity at ") && told[1].ends_with("end of the run"));
}

#[test]
fn a_late_outcome_of_a_dropped_step_is_ignored() {
    let flow = Flow::new(|ctx, _| async move {
        drop(select(step(ctx, "s"), sleep(ctx, 1)).await);
        act(ctx, "a").await;
        done()
    });
    let mut backend = Backend::started(flow);
    assert_eq!(
        short(&backend.fire(1).turn()),
        ["activity 1 a", "cancel step 1"]
    );
    assert!(backend.turn().is_empty());
    backend.replayed().expect("the marker finds its step");
    let result = Resolution::Completed(Payload::null());
    assert_eq!(word(&result), "ok:");
}
