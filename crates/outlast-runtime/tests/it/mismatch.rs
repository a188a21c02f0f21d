//! Replay finds every difference, at the first one, and names both sides.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{Either, select};
use outlast_model::event::{StepRecorded, TaskFailedCause};
use outlast_model::{
    ActivityOptions, EventKind, Failure, Payload, Resolution, RetryPolicy, StepOptions,
};
use outlast_runtime::{
    Context, Instance, MainOutcome, ReplayChecks, TaskFailure, Unwatched, replay,
};

use crate::backend::{Backend, short};
use crate::flow::{Flow, act, done, no_foreign, sleep, step, step_code};

/// Three tasks: `a`, a timer and a step; then `b` and `c`; then the end.
async fn recorded(ctx: Context) -> MainOutcome {
    let (timer, step) = (sleep(ctx, 1), step(ctx, "s"));
    act(ctx, "a").await;
    timer.cancel();
    step.await;
    futures::join!(act(ctx, "b"), act(ctx, "c"));
    done()
}

fn history() -> Vec<outlast_model::Event> {
    let mut backend = Backend::started(Flow::new(|ctx, _| recorded(ctx)));
    backend.complete(1, "").turn();
    backend
        .resolve_step(1, Resolution::Completed(Payload::null()))
        .turn();
    backend.complete(2, "").complete(3, "").turn();
    assert!(backend.is_closed, "{}", backend.failure());
    backend.history
}

fn replay_with<F: Future<Output = MainOutcome> + 'static>(
    code: impl Fn(Context) -> F + 'static,
    strict: bool,
) -> Result<Instance, TaskFailure> {
    let flow = Flow::new(move |ctx, _| code(ctx));
    replay(
        &history(),
        &flow,
        &no_foreign(),
        &Unwatched,
        ReplayChecks { strict },
    )
}

/// The text with every place in this file shortened to `HERE`, without the remedy.
fn differs<F: Future<Output = MainOutcome> + 'static>(
    code: impl Fn(Context) -> F + 'static,
) -> String {
    let failed = replay_with(code, false).expect_err("the code differs");
    assert_eq!(failed.cause, TaskFailedCause::NonDeterminism);
    let text = &failed.failure.message;
    let (told, remedy) = text.split_once("\n  remedy:  ").expect("says what to do");
    assert!(remedy.starts_with("keep the old calls for the runs that made them: `if ctx.patched("));
    let told = told.strip_prefix("the code does not do what its history says\n");
    let told = told.expect("says what is wrong");
    let mut short = told[told.find("  history: ").expect("names history")..].to_owned();
    while let Some(at) = short.find("crates/outlast-runtime/") {
        let end = short[at..].find(".rs:").map_or(short.len(), |n| at + n + 4);
        let digits = short[end..].find(|c: char| !c.is_ascii_digit());
        let end = digits.map_or(short.len(), |n| end + n);
        short.replace_range(at..end, "HERE");
    }
    short
}

/// Each with the text it must give: history on one line, code on the next.
macro_rules! mismatches {
    ($($name:ident: |$ctx:ident| $code:block => $history:literal, $did:literal;)*) => {
        $(
            #[test]
            fn $name() {
                let told = differs(|$ctx| async move { $code });
                assert_eq!(told, concat!("  history: ", $history, "\n  code:    ", $did));
            }
        )*
    };
}

mismatches! {
    two_calls_changed_places: |ctx| {
        let call = act(ctx, "a");
        drop((sleep(ctx, 1), call, step(ctx, "s")).0.await);
        done()
    } => "event 5 TimerStarted, timer 1, asked at HERE",
         "ScheduleActivity, activity 1 `a`, asked at HERE";

    a_call_was_renamed: |ctx| {
        drop((sleep(ctx, 1), step(ctx, "s"), act(ctx, "renamed")).2.await);
        done()
    } => "event 6 ActivityTaskScheduled, activity 1 `a`, asked at HERE",
         "ScheduleActivity, activity 1 `renamed`, asked at HERE";

    a_call_was_removed: |ctx| {
        let timer = sleep(ctx, 1);
        step(ctx, "s").await;
        drop(timer);
        done()
    } => "event 6 ActivityTaskScheduled, activity 1 `a`, asked at HERE",
         "nothing more: main waits after its call at HERE";

    a_call_was_added_at_the_front: |ctx| {
        drop(act(ctx, "new").await);
        recorded(ctx).await
    } => "event 5 TimerStarted, timer 1, asked at HERE",
         "ScheduleActivity, activity 1 `new`, asked at HERE";

    a_call_was_added_at_the_end_of_a_task: |ctx| {
        let (timer, step, call) = (sleep(ctx, 1), step(ctx, "s"), act(ctx, "a"));
        drop(act(ctx, "new").await);
        drop((timer, step, call));
        done()
    } => "nothing more in the task that event 4 completed",
         "ScheduleActivity, activity 2 `new`, asked at HERE";

    a_cancel_was_removed: |ctx| {
        let (timer, step) = (sleep(ctx, 1), step(ctx, "s"));
        act(ctx, "a").await;
        step.await;
        timer.detach();
        done()
    } => "event 12 TimerCanceled, timer 1",
         "nothing more: main waits after its call at HERE";

    a_cancel_was_added: |ctx| {
        let (timer, step) = (sleep(ctx, 1), step(ctx, "s"));
        act(ctx, "a").await;
        timer.cancel();
        let more = act(ctx, "early");
        step.await;
        more.await;
        done()
    } => "nothing more in the task that event 11 completed",
         "ScheduleActivity, activity 2 `early`, asked at HERE";

    a_step_was_renamed: |ctx| {
        let (timer, step) = (sleep(ctx, 1), step(ctx, "other"));
        act(ctx, "a").await;
        timer.cancel();
        step.await;
        done()
    } => "event 16 MarkerRecorded, step 1 `s`",
         "step 1 is `other`, asked at HERE";

    a_step_was_removed: |ctx| {
        let timer = sleep(ctx, 1);
        act(ctx, "a").await;
        timer.cancel();
        ctx.recv("never".into()).await;
        done()
    } => "event 16 MarkerRecorded, step 1 `s`",
         "no step 1 is open";

    a_step_became_an_activity: |ctx| {
        let (timer, call) = (sleep(ctx, 1), act(ctx, "s"));
        drop((act(ctx, "a").await, call, timer));
        done()
    } => "event 6 ActivityTaskScheduled, activity 1 `a`, asked at HERE",
         "ScheduleActivity, activity 1 `s`, asked at HERE";

    a_pair_changed_places: |ctx| {
        let (timer, step) = (sleep(ctx, 1), step(ctx, "s"));
        act(ctx, "a").await;
        timer.cancel();
        step.await;
        futures::join!(act(ctx, "c"), act(ctx, "b"));
        done()
    } => "event 17 ActivityTaskScheduled, activity 2 `b`, asked at HERE",
         "ScheduleActivity, activity 2 `c`, asked at HERE";

    the_run_ends_early: |ctx| {
        let (timer, step) = (sleep(ctx, 1), step(ctx, "s"));
        act(ctx, "a").await;
        timer.cancel();
        step.await;
        done()
    } => "event 17 ActivityTaskScheduled, activity 2 `b`, asked at HERE",
         "CompleteWorkflow";

    the_run_ends_otherwise: |ctx| {
        recorded(ctx).await;
        MainOutcome::Failed(Failure::application("test", "now it fails"))
    } => "event 26 WorkflowExecutionCompleted",
         "FailWorkflow";

    the_run_does_not_end: |ctx| {
        recorded(ctx).await;
        ctx.recv("more".into()).await;
        done()
    } => "event 26 WorkflowExecutionCompleted",
         "nothing more: main waits after its call at HERE";
}

#[test]
fn the_same_code_replays() {
    drop(replay_with(recorded, true).expect("nothing differs"));
}

#[test]
fn a_tuned_call_is_told_and_goes_on_unless_strict() {
    let tuned = |ctx: Context| async move {
        let timer = sleep(ctx, 2);
        let options = StepOptions {
            retry: RetryPolicy::never(),
        };
        let step = ctx.step("s".into(), options, step_code());
        let options = ActivityOptions {
            start_to_close: Some(Duration::from_secs(60)),
            retry: RetryPolicy::never(),
            ..ActivityOptions::default()
        };
        ctx.activity("a".into(), Payload::bytes("longer"), options)
            .await;
        timer.cancel();
        step.await;
        futures::join!(act(ctx, "b"), act(ctx, "c"));
        done()
    };
    let mut instance = replay_with(tuned, false).expect("a tuned call does not stop the run");
    let told = instance.warnings();
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[0].ends_with("delay 2s instead of 1s"), "{told:?}");
    let differences = "other input (6 bytes instead of 1), start_to_close 60s instead of none, \
                       another retry policy";
    assert!(told[1].ends_with(differences), "{told:?}");

    let failed = replay_with(tuned, true).expect_err("strict");
    assert_eq!(failed.cause, TaskFailedCause::NonDeterminism);
    assert!(failed.to_string().contains("delay 2s instead of 1s"));
}

#[test]
fn timeouts_that_the_record_has_shortened_are_no_difference() {
    let code = |ctx: Context| async move {
        let options = ActivityOptions {
            schedule_to_close: Some(Duration::from_secs(5)),
            start_to_close: Some(Duration::from_secs(9)),
            heartbeat: Some(Duration::from_secs(8)),
            ..ActivityOptions::default()
        };
        ctx.activity("a".into(), Payload::null(), options).await;
        done()
    };
    let mut backend = Backend::started(Flow::new(move |ctx, _| code(ctx)));
    for event in &mut backend.history {
        if let EventKind::ActivityScheduled(scheduled) = &mut event.kind {
            let fitted = Some(Duration::from_secs(5));
            scheduled.options.schedule_to_start = fitted;
            scheduled.options.start_to_close = fitted;
            scheduled.options.heartbeat = fitted;
        }
    }
    backend.checks = ReplayChecks { strict: true };
    drop(backend.replayed().expect("nothing differs"));
}

#[test]
fn a_step_is_delivered_in_the_round_that_delivered_it() {
    let code = |ctx: Context| async move {
        let first = act(ctx, "a");
        let step = step(ctx, "s");
        sleep(ctx, 1).await;
        first.cancel();
        let (cancelled, resolved) = futures::join!(first, step);
        drop((cancelled, resolved));
        sleep(ctx, 2).await;
        done()
    };
    let mut backend = Backend::started(Flow::new(move |ctx, _| code(ctx)));
    let outcome = Resolution::Completed(Payload::null());
    backend.fire(1).resolve_step(1, outcome).turn();
    let late = |recorded: &mut StepRecorded| recorded.activation = 1;
    for event in &mut backend.history {
        if let EventKind::StepRecorded(recorded) = &mut event.kind {
            late(recorded);
        }
    }
    drop(
        backend
            .replayed()
            .expect("one round later gives the same commands"),
    );
}

#[test]
fn a_history_without_a_completed_task_has_nothing_to_replay() {
    let backend = Backend::new(Flow::new(|_, _| async { done() }));
    assert!(backend.replayed().is_err());
}

#[test]
fn the_difference_stands_below_the_last_thing_both_sides_agree_on() {
    let renamed = |ctx| async move {
        drop((sleep(ctx, 1), step(ctx, "s"), act(ctx, "renamed")).2.await);
        done()
    };
    let failed = replay_with(renamed, false).expect_err("the code differs");
    let lines: Vec<&str> = failed.failure.message.lines().collect();
    assert!(lines[1].starts_with("  same:    event 5 TimerStarted, timer 1, asked at"));
    assert!(lines[2].starts_with("  history: event 6 ActivityTaskScheduled, activity 1 `a`"));
    assert!(lines[3].starts_with("  code:    ScheduleActivity, activity 1 `renamed`"));
}

/// Calls of one type in this order, all in one task, then another one.
fn called(inputs: &'static [&'static str], name: &'static str) -> Flow {
    Flow::new(move |ctx, _| async move {
        let calls = inputs.iter().map(|input| {
            let input = Payload::bytes(*input);
            ctx.activity(name.into(), input, ActivityOptions::default())
        });
        futures::future::join_all(calls.collect::<Vec<_>>()).await;
        sleep(ctx, 1).await;
        done()
    })
}

fn replayed_as(inputs: &'static [&'static str]) -> Result<Instance, TaskFailure> {
    let mut backend = Backend::started(called(&["x", "y", "z", "z"], "charge"));
    for seq in 1..=4 {
        backend.complete(seq, "");
    }
    backend.turn();
    let code = called(inputs, "charge");
    let checks = ReplayChecks { strict: false };
    replay(&backend.history, &code, &no_foreign(), &Unwatched, checks)
}

#[test]
fn inputs_that_are_a_permutation_of_the_recorded_ones_are_calls_in_another_order() {
    let orders: [&'static [&'static str]; 4] = [
        &["y", "x", "z", "z"],
        &["y", "z", "x", "z"],
        &["z", "z", "y", "x"],
        // And one that is new besides.
        &["y", "x", "z", "new"],
    ];
    for inputs in orders {
        let failed = replayed_as(inputs).expect_err("results would go to other calls");
        assert_eq!(failed.cause, TaskFailedCause::NonDeterminism);
        let text = failed.to_string();
        for part in [
            "  history: event 5 ActivityTaskScheduled, activity 1 `charge`",
            "ScheduleActivity, activity 1 `charge`",
            "with the input of event ",
            "mismatch.rs:",
            "perhaps: calls made in the order of a `HashMap`",
        ] {
            assert!(text.contains(part), "`{part}` is not in: {text}");
        }
    }
}

#[test]
fn other_changed_inputs_are_told_and_do_not_stop_the_run() {
    let changed: [&'static [&'static str]; 3] = [
        &["x", "y", "z", "new"],
        &["y", "z", "new", "newer"],
        &["y", "y", "y", "y"],
    ];
    for inputs in changed {
        let mut instance = replayed_as(inputs).expect("it may be meant so");
        let told = instance.warnings();
        assert!(told[0].contains("holds, but the code says"), "{told:?}");
    }
}

/// A race whose winner is taken by chance: by the heads or tails of a coin.
fn by_chance(coin: &Rc<Cell<bool>>) -> Flow {
    let coin = Rc::clone(coin);
    Flow::new(move |ctx, _| {
        let is_heads = coin.replace(!coin.get());
        async move {
            let (activity, timer) = (act(ctx, "a"), sleep(ctx, 1));
            let is_activity = if is_heads {
                matches!(select(activity, timer).await, Either::Left(_))
            } else {
                matches!(select(timer, activity).await, Either::Right(_))
            };
            let next = if is_activity { "fast" } else { "slow" };
            act(ctx, next).await;
            done()
        }
    })
}

#[test]
fn an_order_taken_by_chance_that_replay_contradicts_is_found_and_named() {
    let coin = Rc::new(Cell::new(true));
    let mut backend = Backend::started(by_chance(&coin));
    assert_eq!(
        short(&backend.complete(1, "").fire(1).turn()),
        ["activity 2 fast"]
    );
    let failed = backend.replayed().expect_err("the coin fell otherwise");
    let text = failed.to_string();
    for part in [
        "activity 2 `fast`",
        "activity 2 `slow`",
        "activity 1, timer 1 ended in the same task",
        "`outlast::select!` takes the first declared",
        "mismatch.rs:",
    ] {
        assert!(text.contains(part), "`{part}` is not in: {text}");
    }
    drop(
        backend
            .replayed()
            .expect("the coin falls as it did at first"),
    );
}

/// Races in a row: that chance takes the same winners again is not to be expected.
const RACES: u32 = 40;

/// Each race decided by the `select!` of `futures`, which begins at a branch taken by chance.
fn by_select() -> Flow {
    Flow::new(|ctx, _| async move {
        for _ in 0..RACES {
            let (mut activity, mut timer) = (act(ctx, "a").fuse(), sleep(ctx, 1).fuse());
            let next = futures::select! {
                _ = activity => "fast",
                _ = timer => "slow",
            };
            act(ctx, next).await;
        }
        done()
    })
}

#[test]
fn a_select_that_begins_anywhere_is_found_and_named() {
    let mut backend = Backend::started(by_select());
    for race in 1..=RACES {
        backend.complete(2 * race - 1, "").fire(race).turn();
        backend.complete(2 * race, "").turn();
    }
    assert!(backend.is_closed, "{}", backend.failure());
    let text = backend.replayed().expect_err("by chance").to_string();
    for part in [
        "`fast`",
        "`slow`",
        " ended in the same task",
        "`outlast::select!` takes the first declared",
        "mismatch.rs:",
    ] {
        assert!(text.contains(part), "`{part}` is not in: {text}");
    }
}

#[test]
fn where_one_thing_ended_no_race_is_suspected() {
    let coin = Rc::new(Cell::new(true));
    let flow = Flow::new(move |ctx, _| {
        let is_first = coin.replace(false);
        async move {
            act(ctx, "a").await;
            act(ctx, if is_first { "b" } else { "c" }).await;
            done()
        }
    });
    let mut backend = Backend::started(flow);
    backend.complete(1, "").turn();
    let text = backend.replayed().expect_err("it differs").to_string();
    assert!(
        text.contains("activity 2 `c`") && !text.contains("perhaps"),
        "{text}"
    );
}
