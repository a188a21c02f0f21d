//! Parallel calls, row by row: how they are numbered, matched, cancelled and replayed.

use std::cell::Cell;
use std::rc::Rc;

use futures::FutureExt;
use futures::future::{Either, join_all, select, try_join_all};
use outlast_model::event::{CancelOf, ExternalEvent};
use outlast_model::view::RunRef;
use outlast_model::{
    CancelMode, ChildOptions, Failure, Payload, PromiseId, Resolution, Seq, WorkflowId,
};
use outlast_runtime::{Context, MainOutcome, SignalHandler};

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

/// One call of every kind, each to something of this name.
fn one_of_each(ctx: Context, name: &str) -> [outlast_runtime::Operation; 8] {
    let target = || RunRef::newest(WorkflowId::new(name));
    let options = ChildOptions::default();
    [
        act(ctx, name),
        ctx.child(name.into(), None, Payload::null(), options),
        sleep(ctx, 1),
        ctx.signal_external(target(), name.into(), Payload::null()),
        step(ctx, name),
        ctx.cancel_external(target(), "enough"),
        ctx.promise(PromiseId::new(name)),
        ctx.recv(name.into()),
    ]
}

#[test]
fn every_kind_of_call_has_a_counter_of_its_own() {
    let flow = Flow::new(|ctx, log| async move {
        let mut calls = Vec::new();
        for name in ["x", "y", "z"] {
            calls.extend(one_of_each(ctx, name));
            // One more of a kind moves no other.
            calls.push(act(ctx, name));
        }
        for call in &calls {
            let (kind, seq) = call.kind_and_seq();
            log.note(format!("{} {seq}", kind.name()));
        }
        let unnamed = [ctx.next_promise_id(), ctx.next_promise_id()];
        log.note(format!("{} {}", unnamed[0], unnamed[1]));
        join_all(calls).await;
        done()
    });
    let backend = Backend::started(flow);
    let kinds = [
        "activity",
        "child",
        "timer",
        "external signal",
        "step",
        "external cancel",
        "promise",
        "recv",
    ];
    let mut expected = Vec::new();
    for round in 1..=3 {
        for kind in kinds {
            let seq = if kind == "activity" {
                2 * round - 1
            } else {
                round
            };
            expected.push(format!("{kind} {seq}"));
        }
        expected.push(format!("activity {}", 2 * round));
    }
    let log = backend.log();
    let (numbers, unnamed) = log.split_at(27);
    assert_eq!(numbers, expected);
    assert!(
        unnamed[0].contains("#1 ") && unnamed[0].ends_with("#2"),
        "{log:?}"
    );
    drop(backend.replayed().expect("replays"));
    assert_eq!(backend.log(), log);
}

/// What a backend may hear.
type Job = dyn Fn(&mut Backend);

#[test]
fn each_job_reaches_the_call_of_its_kind_and_number_and_no_other() {
    let flow = Flow::new(|ctx, log| async move {
        for name in ["x", "y"] {
            for call in one_of_each(ctx, name) {
                let (log, (kind, seq)) = (log.clone(), call.kind_and_seq());
                ctx.spawn(async move {
                    log.note(format!("{} {seq} {}", kind.name(), word(&call.await)));
                });
            }
        }
        let noted = log.clone();
        let handler: SignalHandler = Rc::new(move |_, input| {
            noted.note(format!("handled {}", String::from_utf8_lossy(&input.data)));
            async { Ok(()) }.boxed_local()
        });
        ctx.on_signal("handled".into(), handler);
        ctx.recv("end".into()).await;
        log.note(format!("main, cancelled: {}", ctx.is_cancelled()));
        done()
    });
    let mut backend = Backend::started(flow);
    let told = |backend: &Backend, before: usize| backend.log().split_off(before);
    const SECOND: Seq = Seq(2);
    let steps: [(&Job, &[&str]); 9] = [
        (&|b| drop(b.complete(2, "a").turn()), &["activity 2 ok:a"]),
        (&|b| drop(b.fire(2).turn()), &["timer 2 ok:"]),
        (
            &|b| {
                let result = Resolution::Completed(Payload::bytes("s"));
                b.resolve_step(2, result).turn();
            },
            &["step 2 ok:s"],
        ),
        (
            &|b| {
                b.child_started(2).turn();
                b.child_completed(2, "c").turn();
            },
            &["child 2 ok:c"],
        ),
        (
            &|b| {
                let delivered = ExternalEvent::SignalDelivered { seq: SECOND };
                b.external(delivered).turn();
            },
            &["external signal 2 ok:"],
        ),
        (
            &|b| {
                let of = CancelOf::External(SECOND);
                b.external(ExternalEvent::CancelDelivered { of }).turn();
            },
            &["external cancel 2 ok:"],
        ),
        (&|b| drop(b.settle("y", "7").turn()), &["promise 2 ok:7"]),
        (&|b| drop(b.signal("y", "m").turn()), &["recv 2 ok:m"]),
        (&|b| drop(b.signal("handled", "h").turn()), &["handled h"]),
    ];
    for (job, expected) in steps {
        let before = backend.log().len();
        job(&mut backend);
        assert_eq!(told(&backend, before), expected);
    }
    // A cancel reaches all that are left; main does not wait for those that are told elsewhere.
    let before = backend.log().len();
    backend.cancel().turn();
    let mut cancelled = told(&backend, before);
    cancelled.sort();
    let expected = [
        "external cancel 1 cancelled",
        "external signal 1 cancelled",
        "main, cancelled: true",
        "promise 1 cancelled",
        "recv 1 cancelled",
        "timer 1 cancelled",
    ];
    assert_eq!(cancelled, expected);
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
