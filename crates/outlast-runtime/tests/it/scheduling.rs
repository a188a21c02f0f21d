//! Scheduling is synchronous; woken tasks run in the order they were woken.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::future::{pending, poll_fn};
use std::ops::ControlFlow;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use futures::future::join_all;
use futures::stream::{FuturesUnordered, StreamExt};
use outlast_model::event::{Site, TaskFailedCause};
use outlast_model::{ActivityOptions, Command, Payload, Resolution, RetryPolicy, Seq, Timestamp};
use outlast_runtime::{Context, SignalHandler, SliceWatch};

use crate::backend::{Backend, short};
use crate::flow::{Flow, act, done, sleep, step, word};

#[test]
fn a_call_schedules_before_it_is_awaited() {
    let flow = Flow::new(|ctx, _| async move {
        let second = sleep(ctx, 5);
        let first = act(ctx, "a");
        step(ctx, "s").await;
        drop((first, second));
        done()
    });
    let mut backend = Backend::new(flow);
    assert_eq!(
        short(&backend.turn()),
        ["timer 1", "activity 1 a", "step 1 s"]
    );
}

#[test]
fn a_result_reaches_the_code() {
    let flow = Flow::new(|ctx, log| async move {
        log.note(word(&act(ctx, "a").await));
        log.note(word(&act(ctx, "b").await));
        log.note(word(&sleep(ctx, 1).await));
        done()
    });
    let mut backend = Backend::started(flow);
    assert_eq!(short(&backend.complete(1, "x").turn()), ["activity 2 b"]);
    assert_eq!(short(&backend.fail(2, "broken").turn()), ["timer 1"]);
    assert_eq!(short(&backend.fire(1).turn()), ["complete"]);
    assert_eq!(backend.log(), ["ok:x", "failed:broken", "ok:"]);
}

#[test]
fn woken_tasks_run_in_the_order_they_were_woken() {
    let flow = Flow::new(|ctx, log| async move {
        for name in ["a", "b", "c"] {
            let log = log.clone();
            drop(ctx.spawn(Box::pin(async move {
                act(ctx, name).await;
                log.note(name);
            })));
        }
        sleep(ctx, 1).await;
        log.note("main");
        done()
    });
    let mut backend = Backend::started(flow);
    backend
        .complete(3, "")
        .complete(1, "")
        .fire(1)
        .complete(2, "")
        .turn();
    assert_eq!(backend.log(), ["c", "a", "main"]);
}

#[test]
fn a_branch_that_wakes_another_lets_those_before_it_run_first() {
    let flow = Flow::new(|ctx, log| async move {
        let (sender, receiver) = futures::channel::oneshot::channel::<()>();
        let (one, two, three) = (log.clone(), log.clone(), log);
        drop(ctx.spawn(Box::pin(async move {
            receiver.await.expect("the sender lives");
            one.note("told");
        })));
        drop(ctx.spawn(Box::pin(async move {
            act(ctx, "a").await;
            two.note("tells");
            sender.send(()).expect("the receiver lives");
        })));
        drop(ctx.spawn(Box::pin(async move {
            sleep(ctx, 1).await;
            three.note("fired");
        })));
        sleep(ctx, 100).await;
        done()
    });
    let mut backend = Backend::started(flow);
    backend.complete(1, "").fire(2).turn();
    assert_eq!(backend.log(), ["tells", "fired", "told"]);
}

/// Notes which branch is polled.
#[derive(Default)]
struct Polls(RefCell<Vec<String>>);

impl SliceWatch for Polls {
    fn before_poll(&self, branch: &str, last_call: Option<&Site>) -> ControlFlow<()> {
        let called = if last_call.is_some() {
            "again"
        } else {
            "first"
        };
        self.0.borrow_mut().push(format!("{branch} {called}"));
        ControlFlow::Continue(())
    }

    fn part_done(&self) {
        self.0.borrow_mut().push("part done".into());
    }
}

#[test]
fn a_task_woken_twice_is_polled_once() {
    let flow = Flow::new(|ctx, _| async move {
        futures::join!(act(ctx, "a"), act(ctx, "b"), sleep(ctx, 1));
        done()
    });
    let mut backend = Backend::started(flow);
    let polls = Polls::default();
    backend.complete(1, "").complete(2, "").turn_watched(&polls);
    assert_eq!(polls.0.take(), ["main again"]);
}

#[test]
fn a_replayed_activation_is_a_part_of_its_own() {
    let flow = Flow::new(|ctx, _| async move {
        act(ctx, "a").await;
        act(ctx, "b").await;
        act(ctx, "c").await;
        done()
    });
    let mut backend = Backend::started(flow);
    backend.complete(1, "").turn();
    backend.instance = None;
    let polls = Polls::default();
    backend.complete(2, "").turn_watched(&polls);
    let made = ["main first", "main first", "part done"];
    let replayed = ["main again", "part done"];
    let polled = [made.as_slice(), &replayed, &["main again"]].concat();
    assert_eq!(polls.0.take(), polled);
}

/// Waits for so many polls.
struct Patience(Cell<u32>);

impl SliceWatch for Patience {
    fn before_poll(&self, _: &str, _: Option<&Site>) -> ControlFlow<()> {
        match self.0.get().checked_sub(1) {
            Some(left) => {
                self.0.set(left);
                ControlFlow::Continue(())
            }
            None => ControlFlow::Break(()),
        }
    }
}

#[test]
fn a_slice_that_nobody_waits_for_ends_before_the_next_poll() {
    let flow = Flow::new(|ctx, log| async move {
        act(ctx, "a").await;
        poll_fn(|cx| {
            log.note("again");
            cx.waker().wake_by_ref();
            Poll::<()>::Pending
        })
        .await;
        done()
    });
    let mut backend = Backend::started(flow);
    let patience = Patience(Cell::new(7));
    assert!(backend.complete(1, "").turn_watched(&patience).is_empty());
    let cause = backend.failed.as_ref().map(|failed| failed.cause);
    assert_eq!(cause, Some(TaskFailedCause::Stuck));
    assert_eq!(backend.log(), ["again"; 7]);
}

/// Code that spawns without end, in one poll or poll after poll, fails its task.
#[test]
fn a_run_that_spawns_without_end_is_stopped_at_its_limit() {
    let waits = |ctx: Context| drop(ctx.spawn(pending::<()>()));
    let in_one_poll = Flow::new(move |ctx, _| async move {
        loop {
            waits(ctx);
        }
    });
    let poll_after_poll = Flow::new(move |ctx, _| async move {
        poll_fn(|cx| {
            (0..1_000).for_each(|_| waits(ctx));
            cx.waker().wake_by_ref();
            Poll::<()>::Pending
        })
        .await;
        done()
    });
    for flow in [in_one_poll, poll_after_poll] {
        let mut backend = Backend::new(flow);
        backend.turn();
        let failed = backend.failed.expect("it fails").to_string();
        assert!(failed.contains("at most 50000 branches"), "{failed}");
    }
}

#[test]
fn an_outcome_polls_the_task_that_waits_for_it_and_no_other() {
    let flow = Flow::new(|ctx, _| {
        let handler: SignalHandler = Rc::new(|ctx, _| {
            Box::pin(async move {
                act(ctx, "handled").await;
                sleep(ctx, 2).await;
                Ok(())
            })
        });
        ctx.on_signal("go".into(), handler);
        async move {
            for name in ["a", "b", "c"] {
                drop(ctx.spawn(async move {
                    futures::join!(act(ctx, name), act(ctx, name), sleep(ctx, 9));
                }));
            }
            sleep(ctx, 1).await;
            act(ctx, "main").await;
            done()
        }
    });
    let mut backend = Backend::started(flow);
    backend.signal("go", "").turn();
    // Main has timer 1, branch n has activities 2n-1 and 2n and timer n+1, the handler activity 7.
    let polled = |backend: &mut Backend| {
        let polls = Polls::default();
        backend.turn_watched(&polls);
        let short = |poll: String| poll.split(" spawned at ").next().unwrap_or("").to_owned();
        polls.0.take().into_iter().map(short).collect::<Vec<_>>()
    };
    assert_eq!(polled(backend.complete(3, "")), ["branch 2"]);
    assert_eq!(polled(backend.fire(3)), ["branch 2"]);
    let two = polled(backend.complete(6, "").fail(1, "no"));
    assert_eq!(two, ["branch 3", "branch 1"]);
    let of_a_handler = polled(backend.complete(7, ""));
    assert_eq!(of_a_handler, ["handler of signal `go` again"]);
    assert_eq!(polled(backend.fire(1)), ["main again"]);
    // What was asked for later is waited for by the one that asked, too.
    assert_eq!(polled(backend.complete(8, "")), ["main again"]);
}

#[test]
fn a_thousand_operations_are_ordinary_futures() {
    let flow = Flow::new(|ctx, log| async move {
        let all = join_all((0..1000).map(|_| act(ctx, "a"))).await;
        log.note(all.len().to_string());
        let mut rest: FuturesUnordered<_> = (0..3).map(|n| sleep(ctx, n)).collect();
        while let Some(fired) = rest.next().await {
            log.note(word(&fired));
        }
        done()
    });
    let mut backend = Backend::new(flow);
    assert_eq!(backend.turn().len(), 1000);
    for seq in (1..=1000).rev() {
        backend.complete(seq, "");
    }
    assert_eq!(short(&backend.turn()), ["timer 1", "timer 2", "timer 3"]);
    assert_eq!(short(&backend.fire(2).fire(1).fire(3).turn()), ["complete"]);
    assert_eq!(backend.log(), ["1000", "ok:", "ok:", "ok:"]);
}

#[test]
fn options_change_the_command_until_the_task_yields() {
    let flow = Flow::new(|ctx, _| async move {
        let call = act(ctx, "a").edit_activity(|o| o.heartbeat = Some(Duration::from_secs(3)));
        let edited = step(ctx, "s").edit_step(|o| o.retry = RetryPolicy::never());
        sleep(ctx, 1).await;
        call.edit_activity(|o| o.heartbeat = None).await;
        edited.await;
        done()
    });
    let mut backend = Backend::new(flow);
    let commands = backend.turn();
    let Command::ScheduleActivity(command) = &commands[0] else {
        panic!("an activity")
    };
    assert_eq!(command.options.heartbeat, Some(Duration::from_secs(3)));
    let Command::ScheduleStep { options, .. } = &commands[1] else {
        panic!("a step")
    };
    assert_eq!(options.retry, RetryPolicy::never());
    backend.fire(1).turn();
    let text = "options must be set before the workflow yields: chain them on the call";
    assert!(backend.failure().contains(text), "{}", backend.failure());
}

#[test]
fn a_nested_with_names_both_places() {
    let flow = Flow::new(|ctx, _| async move {
        ctx.set_state(Box::new(1_u8));
        ctx.with_state(|_| ctx.with_state(|_| ()));
        done()
    });
    let backend = Backend::started(flow);
    let failure = backend.failure();
    let (_, text) = failure.split_once("ctx.with at ").expect("says what");
    let (inner, rest) = text
        .split_once(" is inside another ctx.with at ")
        .expect("says where");
    let (outer, rest) = rest.split_once(": ").expect("says what to do");
    assert!(rest.starts_with("finish the first closure before you start the second"));
    assert!(inner.contains("scheduling.rs:") && outer.contains("scheduling.rs:"));
    assert_ne!(inner, outer);
}

#[test]
fn state_survives_a_caught_panic_and_is_shared_by_all_tasks() {
    let flow = Flow::new(|ctx, log| async move {
        ctx.set_state(Box::new(1_u8));
        drop(ctx.spawn(Box::pin(async move {
            ctx.with_state(|state| *number(state) += 1);
        })));
        sleep(ctx, 1).await;
        log.note(ctx.with_state(|state| number(state).to_string()));
        done()
    });
    let mut backend = Backend::started(flow);
    backend.fire(1).turn();
    assert_eq!(backend.log(), ["2"]);
}

fn number(state: &mut dyn Any) -> &mut u8 {
    state.downcast_mut().expect("the state is a number")
}

#[test]
fn facts_come_from_the_activation_and_are_the_same_on_replay() {
    let flow = Flow::new(|ctx, log| async move {
        log.note(format!(
            "{} {} {}",
            ctx.workflow_id(),
            ctx.run_id(),
            ctx.now()
        ));
        log.note(format!("{} {:032x}", ctx.random(), ctx.uuid()));
        sleep(ctx, 1).await;
        log.note(format!(
            "{} {} {}",
            ctx.now(),
            ctx.random(),
            ctx.history_events()
        ));
        assert!(!ctx.suggest_continue_as_new());
        sleep(ctx, 1).await;
        done()
    });
    let mut backend = Backend::started(flow);
    backend.fire(1).turn();
    let live = backend.log();
    assert!(
        live[0].ends_with(&Timestamp(3_000_000).to_string()),
        "{live:?}"
    );
    backend.replayed().expect("replays").evict();
    assert_eq!(backend.log(), live);
}

#[test]
fn the_code_of_a_step_is_kept_until_it_is_resolved() {
    let flow = Flow::new(|ctx, _| async move {
        step(ctx, "s").await;
        sleep(ctx, 1).await;
        done()
    });
    let mut backend = Backend::started(flow);
    let rebuilt = backend.replayed().expect("replays");
    assert!(rebuilt.step_code(Seq(1)).is_some() && rebuilt.step_code(Seq(2)).is_none());
    drop(rebuilt);
    backend
        .resolve_step(1, Resolution::Completed(Payload::null()))
        .turn();
    let instance = backend.instance.as_ref().expect("open");
    assert!(instance.step_code(Seq(1)).is_none());
}

#[test]
fn what_waits_is_named_with_its_last_call() {
    let flow = Flow::new(|ctx, _| async move {
        drop(ctx.spawn(Box::pin(async move { drop(act(ctx, "a").await) })));
        sleep(ctx, 1).await;
        done()
    });
    let backend = Backend::started(flow);
    let waiting = backend.instance.as_ref().expect("open").waiting();
    assert_eq!(waiting.len(), 2);
    assert_eq!(waiting[0].name, "main");
    assert!(waiting[1].name.starts_with("branch 1 spawned at "));
    let sites = waiting
        .iter()
        .map(|w| w.site.as_ref().expect("a call").line);
    assert!(sites.is_sorted_by(|main, branch| main > branch));
}

#[test]
fn an_activity_nobody_waits_for_goes_on_when_detached() {
    let flow = Flow::new(|ctx, _| async move {
        act(ctx, "a").detach();
        drop(ctx.activity("b".into(), Payload::null(), ActivityOptions::default()));
        sleep(ctx, 1).await;
        done()
    });
    let mut backend = Backend::new(flow);
    assert_eq!(short(&backend.turn()), ["activity 1 a", "timer 1"]);
    backend.complete(1, "").turn();
    assert_eq!(short(&backend.fire(1).turn()), ["complete"]);
}

#[test]
fn a_branch_may_be_spawned_before_main_is_there() {
    let flow = Flow::new(|ctx, log| {
        let noted = log.clone();
        ctx.spawn(async move { noted.note(word(&sleep(ctx, 1).await)) });
        async move {
            log.note("main");
            sleep(ctx, 2).await;
            done()
        }
    });
    let mut backend = Backend::new(flow);
    assert_eq!(short(&backend.turn()), ["timer 1", "timer 2"]);
    let waiting = backend.instance.as_ref().expect("waits").waiting();
    assert_eq!(waiting[0].name, "main");
    backend.fire(1).turn();
    assert_eq!(backend.log(), ["main", "ok:"]);
}
