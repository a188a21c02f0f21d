//! Parallel calls, row by row: how they are numbered, matched, cancelled and replayed.

use std::cell::Cell;
use std::rc::Rc;

use futures::FutureExt;
use futures::future::{Either, join_all, select, try_join_all};
use outlast_model::{CancelMode, Failure, Resolution};
use outlast_runtime::{Context, MainOutcome};

use crate::backend::{Backend, short};
use crate::flow::{Flow, act, act_with, done, sleep, step, word};

/// What a flow does that is not always the same code.
fn either(is_new: &Rc<Cell<bool>>, old: fn(Context) -> Calls, new: fn(Context) -> Calls) -> Flow {
    let is_new = Rc::clone(is_new);
    Flow::new(move |ctx, log| {
        let calls = if is_new.get() { new } else { old };
        async move {
            for outcome in join_all(calls(ctx)).await {
                log.note(word(&outcome));
            }
            ctx.recv("end".into()).await;
            done()
        }
    })
}

type Calls = Vec<outlast_runtime::Operation>;

#[test]
fn calls_made_in_a_fixed_order_get_fixed_numbers_of_their_kind() {
    let flow = Flow::new(|ctx, log| async move {
        let calls = [
            act(ctx, "a"),
            sleep(ctx, 1),
            act(ctx, "b"),
            step(ctx, "s"),
            sleep(ctx, 2),
        ];
        for call in &calls {
            let (kind, seq) = call.kind_and_seq();
            log.note(format!("{} {seq}", kind.name()));
        }
        join_all(calls).await;
        done()
    });
    let backend = Backend::started(flow);
    let numbers = ["activity 1", "timer 1", "activity 2", "step 1", "timer 2"];
    assert_eq!(backend.log(), numbers);
    drop(backend.replayed().expect("replays"));
    assert_eq!(backend.log(), numbers);
}

#[test]
fn calls_awaited_in_another_order_get_their_own_results() {
    let flow = Flow::new(|ctx, log| async move {
        let (a, b, c) = (act(ctx, "a"), act(ctx, "b"), act(ctx, "c"));
        for call in [c, a, b] {
            log.note(word(&call.await));
        }
        done()
    });
    let mut backend = Backend::started(flow);
    backend.complete(2, "B").turn();
    backend.complete(1, "A").complete(3, "C").turn();
    assert_eq!(backend.log(), ["ok:C", "ok:A", "ok:B"]);
}

/// An activity against a timer.
async fn with_timeout(ctx: Context) -> Result<Resolution, &'static str> {
    match select(act(ctx, "a"), sleep(ctx, 30)).await {
        Either::Left((outcome, timer)) => {
            drop(timer);
            Ok(outcome)
        }
        Either::Right((_, activity)) => {
            drop(activity);
            Err("too late")
        }
    }
}

fn limited() -> Flow {
    Flow::new(|ctx, log| async move {
        match with_timeout(ctx).await {
            Ok(outcome) => log.note(word(&outcome)),
            Err(text) => log.note(text),
        }
        act(ctx, "next").await;
        done()
    })
}

#[test]
fn a_call_that_ends_before_its_timeout_gives_its_result_and_the_timer_is_cancelled() {
    let mut backend = Backend::started(limited());
    let commands = short(&backend.complete(1, "x").turn());
    assert_eq!(commands, ["activity 2 next", "cancel timer 1"]);
    assert_eq!(backend.log(), ["ok:x"]);
}

#[test]
fn a_timeout_that_fires_first_is_an_error_and_asks_the_call_to_stop() {
    let mut backend = Backend::started(limited());
    let commands = short(&backend.fire(1).turn());
    assert_eq!(commands, ["activity 2 next", "cancel activity 1"]);
    assert_eq!(backend.log(), ["too late"]);
}

/// Three activities; the first failure is the result.
fn three() -> Flow {
    Flow::new(|ctx, log| async move {
        let calls = ["a", "b", "c"].map(|name| async move {
            match act(ctx, name).await {
                Resolution::Completed(result) => Ok(result),
                Resolution::Failed(failure, _) => Err(failure),
                Resolution::Canceled(_) => Err(Failure::canceled("cancelled")),
            }
        });
        match try_join_all(calls).await {
            Ok(results) => log.note(format!("{} results", results.len())),
            Err(failure) => {
                log.note(failure.to_string());
                sleep(ctx, 1).await;
                return MainOutcome::Failed(failure);
            }
        }
        done()
    })
}

#[test]
fn when_all_parallel_calls_succeed_all_results_are_returned() {
    let mut backend = Backend::started(three());
    backend.complete(3, "").complete(1, "").turn();
    assert_eq!(short(&backend.complete(2, "").turn()), ["complete"]);
    assert_eq!(backend.log(), ["3 results"]);
}

#[test]
fn when_one_parallel_call_fails_the_error_is_the_result_and_the_others_are_cancelled() {
    let mut backend = Backend::started(three());
    let commands = short(&backend.fail(2, "broken").turn());
    assert_eq!(
        commands,
        ["timer 1", "cancel activity 1", "cancel activity 3"]
    );
    backend.fire(1).turn();
    assert!(backend.is_closed);
    assert_eq!(backend.log(), ["broken"]);
}

#[test]
fn any_order_of_completion_replays() {
    for order in [
        [1, 2, 3],
        [1, 3, 2],
        [2, 1, 3],
        [2, 3, 1],
        [3, 1, 2],
        [3, 2, 1],
    ] {
        for batch in 1..=3 {
            let mut backend = Backend::started(three());
            for seqs in order.chunks(batch) {
                for seq in seqs {
                    backend.complete(*seq, "");
                }
                backend.turn();
            }
            assert!(backend.is_closed);
            let log = backend.log();
            drop(backend.replayed().expect("replays"));
            assert_eq!(backend.log(), log);
        }
    }
}

#[test]
fn an_operation_that_new_code_adds_gets_the_next_number() {
    let is_new = Rc::new(Cell::new(false));
    let one = |ctx: Context| vec![act(ctx, "a")];
    let two = |ctx: Context| vec![act(ctx, "a"), act(ctx, "added")];
    let mut before = Backend::new(either(&is_new, one, two));
    assert_eq!(short(&before.turn()), ["activity 1 a"]);
    is_new.set(true);
    let mut after = Backend::new(either(&is_new, one, two));
    assert_eq!(short(&after.turn()), ["activity 1 a", "activity 2 added"]);
    // A run that began without it is not the same run.
    let text = before.replayed().expect_err("it has no second activity");
    let text = text.to_string();
    assert!(text.contains("nothing more in the task") && text.contains("activity 2 `added`"));
}

#[test]
fn an_operation_that_new_code_removes_is_missed_and_named() {
    let is_new = Rc::new(Cell::new(false));
    let two = |ctx: Context| vec![act(ctx, "a"), act(ctx, "removed")];
    let one = |ctx: Context| vec![act(ctx, "a")];
    let mut backend = Backend::new(either(&is_new, two, one));
    backend.turn();
    backend.complete(1, "").complete(2, "").turn();
    is_new.set(true);
    let text = backend.replayed().expect_err("one is missing").to_string();
    assert!(text.contains("activity 2 `removed`"), "{text}");
    assert!(text.contains("matrix.rs:"), "{text}");
}

#[test]
fn a_poll_answers_completed_failed_cancelled_or_pending() {
    let flow = Flow::new(|ctx, log| async move {
        let mut calls = [
            act(ctx, "completes"),
            act(ctx, "fails"),
            act_with(ctx, "is cancelled", CancelMode::Abandon),
            act(ctx, "goes on"),
        ];
        sleep(ctx, 1).await;
        calls[2].cancel();
        for call in &mut calls {
            let answer = call.now_or_never();
            log.note(answer.map_or("pending".into(), |outcome| word(&outcome)));
        }
        sleep(ctx, 1).await;
        done()
    });
    let mut backend = Backend::started(flow);
    backend.complete(1, "x").fail(2, "no").fire(1).turn();
    assert_eq!(backend.log(), ["ok:x", "failed:no", "cancelled", "pending"]);
}

#[test]
fn a_cancel_returns_at_once_and_is_seen_at_once() {
    let flow = Flow::new(|ctx, log| async move {
        let calls = [act_with(ctx, "a", CancelMode::Wait), step(ctx, "s")];
        sleep(ctx, 1).await;
        for call in calls {
            let before = call.is_cancelled();
            call.cancel();
            call.cancel();
            log.note(format!("{before} {}", call.is_cancelled()));
            log.note(word(&call.await));
        }
        done()
    });
    let mut backend = Backend::started(flow);
    assert_eq!(short(&backend.fire(1).turn()), ["cancel activity 1"]);
    assert_eq!(backend.log(), ["false true"]);
    assert_eq!(short(&backend.turn()), ["cancel step 1"]);
    assert_eq!(short(&backend.turn()), ["complete"]);
    assert_eq!(
        backend.log(),
        ["false true", "cancelled", "false true", "cancelled"]
    );
}

#[test]
fn a_call_that_was_asked_to_stop_may_still_complete_or_fail() {
    for ends_well in [true, false] {
        let flow = Flow::new(|ctx, log| async move {
            let call = act_with(ctx, "a", CancelMode::Wait);
            sleep(ctx, 1).await;
            call.cancel();
            log.note(word(&call.await));
            done()
        });
        let mut backend = Backend::started(flow);
        backend.ignores_cancels = true;
        backend.fire(1).turn();
        if ends_well {
            backend.complete(1, "after all").turn();
            assert_eq!(backend.log(), ["ok:after all"]);
        } else {
            backend.fail(1, "half-way").turn();
            assert_eq!(backend.log(), ["failed:half-way"]);
        }
        assert!(backend.is_closed);
    }
}
