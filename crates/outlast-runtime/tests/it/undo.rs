//! Undoing: last first, one after another, out of reach of the cancel that caused it; also of what
//! nobody waited for in the end.

use std::time::Duration;

use futures::future::select;
use outlast_model::failure::RetryState;
use outlast_model::{
    ActivityOptions, CancelMode, ChildCancel, Command, EventKind, Failure, Payload, Seq,
    TimeoutKind,
};
use outlast_runtime::{Context, HandlerEnd, MainOutcome, Operation, UndoInput};

use crate::backend::{Backend, short};
use crate::children::{child, delivered};
use crate::flow::{Flow, act, act_with, done, sleep, step};

#[track_caller]
fn undoable(ctx: Context, name: &str) -> Operation {
    act(ctx, name).undo(
        format!("undo-{name}").as_str().into(),
        ActivityOptions::default(),
    )
}

fn failing(ending: MainOutcome) -> Backend {
    let flow = Flow::new(move |ctx, _| {
        let ending = ending.clone();
        async move {
            for name in ["a", "b", "c"] {
                undoable(ctx, name).await;
            }
            sleep(ctx, 1).await;
            ending
        }
    });
    Backend::started(flow)
}

#[test]
fn completed_work_is_undone_last_first_before_the_run_fails() {
    let mut backend = failing(MainOutcome::Failed(Failure::application("test", "over")));
    backend.complete(1, "ra").turn();
    backend.fail(2, "not done, not undone").turn();
    backend.complete(3, "rc").turn();
    let commands = backend.fire(1).turn();
    assert_eq!(short(&commands), ["activity 4 undo-c"]);
    let outlast_model::Command::ScheduleActivity(undo) = &commands[0] else {
        panic!("an activity");
    };
    assert_eq!(undo.input, Payload::bytes("rc"));
    assert_eq!(
        short(&backend.complete(4, "").turn()),
        ["activity 5 undo-a"]
    );
    assert_eq!(short(&backend.complete(5, "").turn()), ["fail over"]);
    backend.replayed().expect("replays the same");
}

#[test]
fn an_undo_that_fails_is_told_and_the_rest_goes_on() {
    let mut backend = failing(MainOutcome::Canceled);
    for seq in 1..=3 {
        backend.complete(seq, "").turn();
    }
    backend.fire(1).turn();
    assert_eq!(
        short(&backend.fail(4, "cannot").turn()),
        ["activity 5 undo-b"]
    );
    let warnings = backend.warnings();
    assert!(
        warnings[0].starts_with("undo `undo-c` of the call at "),
        "{warnings:?}"
    );
    assert!(warnings[0].ends_with(" failed: cannot"), "{warnings:?}");
    assert!(
        backend.cancel().turn().is_empty(),
        "a cancel does not reach an undo"
    );
    backend.complete(5, "").turn();
    assert_eq!(short(&backend.complete(6, "").turn()), ["canceled"]);
}

#[test]
fn nothing_is_undone_when_main_succeeds() {
    let mut backend = failing(done());
    for seq in 1..=3 {
        backend.complete(seq, "").turn();
    }
    assert_eq!(short(&backend.fire(1).turn()), ["complete"]);
}

#[test]
fn branches_are_cancelled_before_the_undo_begins() {
    let flow = Flow::new(|ctx, _| async move {
        drop(ctx.spawn(Box::pin(async move { drop(act(ctx, "beside").await) })));
        undoable(ctx, "a").await;
        MainOutcome::Failed(Failure::application("test", "over"))
    });
    let mut backend = Backend::started(flow);
    let commands = short(&backend.complete(1, "").turn());
    assert_eq!(commands, ["cancel activity 2", "activity 3 undo-a"]);
}

fn over() -> MainOutcome {
    MainOutcome::Failed(Failure::application("test", "over"))
}

/// With a key that is known before the call.
#[track_caller]
fn keyed(ctx: Context, name: &str, mode: CancelMode) -> Operation {
    let input = UndoInput::Given(Payload::bytes(format!("key-{name}")));
    act_with(ctx, name, mode).undo_with("undo".into(), ActivityOptions::default(), input)
}

/// What each activity among the commands is given.
fn inputs(commands: &[Command]) -> Vec<String> {
    let input = |command: &Command| {
        let Command::ScheduleActivity(call) = command else {
            return None;
        };
        String::from_utf8(call.input.data.to_vec()).ok()
    };
    commands.iter().filter_map(input).collect()
}

/// A call that lost somehow, a second of something else, and the end.
fn losing<F: Future<Output = ()> + 'static>(lose: impl Fn(Context) -> F + 'static) -> Backend {
    let flow = Flow::new(move |ctx, _| {
        let lost = lose(ctx);
        async move {
            lost.await;
            sleep(ctx, 9).await;
            over()
        }
    });
    let mut backend = Backend::started(flow);
    backend.ignores_cancels = true;
    backend
}

#[test]
fn a_call_that_lost_and_completes_later_is_undone() {
    let mut cases = [
        losing(|ctx| async move {
            select(undoable(ctx, "a"), sleep(ctx, 1)).await;
        }),
        losing(|ctx| async move {
            let limit = ctx.limit(Duration::from_secs(1));
            select(undoable(ctx, "a"), limit).await;
        }),
        losing(|ctx| async move {
            let call = undoable(ctx, "a");
            sleep(ctx, 1).await;
            drop(call);
        }),
        losing(|ctx| async move {
            let call = undoable(ctx, "a");
            sleep(ctx, 1).await;
            call.cancel();
            call.await;
        }),
        losing(|ctx| async move {
            let branch = ctx.spawn(async move { drop(undoable(ctx, "a").await) });
            sleep(ctx, 1).await;
            branch.cancel();
        }),
    ];
    for (case, backend) in cases.iter_mut().enumerate() {
        let mut commands = short(&backend.fire(1).turn());
        commands.sort();
        assert_eq!(commands, ["cancel activity 1", "timer 2"], "{case}");
        assert!(backend.complete(1, "late").turn().is_empty(), "{case}");
        let commands = backend.fire(2).turn();
        assert_eq!(short(&commands), ["activity 2 undo-a"], "{case}");
        assert_eq!(inputs(&commands), ["late"], "{case}");
        assert_eq!(short(&backend.complete(2, "").turn()), ["fail over"]);
        backend.replayed().expect("replays the same");
    }
}

#[test]
fn the_run_ends_when_it_is_known_whether_there_is_something_to_undo() {
    let mut backend = losing(|ctx| async move {
        select(undoable(ctx, "a"), sleep(ctx, 1)).await;
    });
    backend.fire(1).turn();
    assert!(backend.fire(2).turn().is_empty(), "it waits for the call");
    let commands = backend.complete(1, "late").turn();
    assert_eq!(short(&commands), ["activity 2 undo-a"]);
    assert_eq!(short(&backend.complete(2, "").turn()), ["fail over"]);
    backend.replayed().expect("replays the same");
}

#[test]
fn a_call_that_lost_and_failed_is_not_undone() {
    let mut backend = losing(|ctx| async move {
        select(keyed(ctx, "a", CancelMode::Try), sleep(ctx, 1)).await;
    });
    backend.fire(1).turn();
    backend.fire(2).turn();
    assert_eq!(short(&backend.fail(1, "declined").turn()), ["fail over"]);
}

/// How a call may end that nobody knows more about.
fn unknown() -> Vec<EventKind> {
    let (seq, retry_state) = (Seq(1), RetryState::MaximumAttemptsReached);
    let lost = Failure::application("outlast.WorkerLost", "gone");
    let late = Failure::timeout(TimeoutKind::StartToClose, None);
    vec![
        EventKind::ActivityCanceled { seq, details: None },
        EventKind::ActivityFailed {
            seq,
            failure: lost,
            retry_state,
        },
        EventKind::ActivityTimedOut {
            seq,
            failure: late,
            retry_state,
        },
    ]
}

#[test]
fn what_nobody_knows_the_end_of_is_undone_by_what_was_known_before() {
    for ending in unknown() {
        for mode in [CancelMode::Try, CancelMode::Wait, CancelMode::Abandon] {
            let mut backend = losing(move |ctx| async move {
                let call = keyed(ctx, "a", mode);
                sleep(ctx, 1).await;
                drop(call);
            });
            backend.fire(1).turn();
            backend.fire(2).turn();
            backend.activities.clear();
            backend.stimulus(ending.clone());
            let commands = backend.turn();
            assert_eq!(inputs(&commands), ["key-a"], "{ending:?}");
            assert_eq!(short(&backend.complete(2, "").turn()), ["fail over"]);
            backend.replayed().expect("replays the same");
        }
    }
}

#[test]
fn an_undo_that_needs_a_result_says_so_where_there_is_none() {
    let mut backend = losing(|ctx| async move {
        select(undoable(ctx, "a"), sleep(ctx, 1)).await;
    });
    backend.fire(1).turn();
    backend.fire(2).turn();
    backend.activities.clear();
    backend.stimulus(unknown().remove(0));
    assert_eq!(short(&backend.turn()), ["fail over"]);
    let told = backend.notes.texts.join("\n");
    let call = "undo `undo-a` of activity 1 `a` at crates/outlast-runtime/tests/it/undo.rs:";
    assert!(told.contains(call), "{told}");
    assert!(told.contains("it is not known whether"), "{told}");
    assert!(told.contains("use `.undo_with(undo-a, key)`"), "{told}");
}

#[test]
fn a_child_that_was_only_asked_to_stop_is_undone_when_it_has_ended() {
    let modes = [
        ChildCancel::RequestOnly,
        ChildCancel::Try,
        ChildCancel::Abandon,
    ];
    for mode in modes {
        let flow = Flow::new(move |ctx, _| async move {
            let child = child(ctx, mode);
            let child = child.undo("undo".into(), ActivityOptions::default());
            sleep(ctx, 1).await;
            child.cancel();
            child.await;
            sleep(ctx, 9).await;
            over()
        });
        let mut backend = Backend::started(flow);
        backend.child_started(1).turn();
        backend.fire(1).turn();
        if mode == ChildCancel::RequestOnly {
            backend.external(delivered(1)).turn();
        }
        let commands = short(&backend.fire(2).turn());
        let asked_last = mode == ChildCancel::Abandon;
        assert_eq!(commands.len(), usize::from(asked_last), "{commands:?}");
        let commands = backend.child_completed(1, "late").turn();
        assert_eq!(inputs(&commands), ["late"], "{mode:?}");
        assert_eq!(short(&backend.complete(1, "").turn()), ["fail over"]);
        backend.replayed().expect("replays the same");
    }
}

#[test]
fn a_call_that_can_be_undone_is_sent_so_that_its_outcome_is_told() {
    let flow = Flow::new(|ctx, _| async move {
        for mode in [CancelMode::Try, CancelMode::Wait, CancelMode::Abandon] {
            keyed(ctx, "a", mode).detach();
        }
        let input = || UndoInput::Given(Payload::null());
        for mode in [ChildCancel::RequestOnly, ChildCancel::Abandon] {
            let child = child(ctx, mode);
            child
                .undo_with("undo".into(), ActivityOptions::default(), input())
                .detach();
        }
        sleep(ctx, 1).await;
        done()
    });
    let mut backend = Backend::new(flow);
    let commands = backend.turn();
    let waits = |command: &Command| {
        if let Command::ScheduleActivity(call) = command {
            return Some(call.options.cancel == CancelMode::Wait);
        }
        let Command::StartChild(call) = command else {
            return None;
        };
        Some(call.options.cancel == ChildCancel::Wait)
    };
    let waits: Vec<bool> = commands.iter().filter_map(waits).collect();
    assert_eq!(waits, [true; 5], "{commands:?}");
}

#[test]
fn a_call_that_was_never_sent_is_not_undone() {
    let flow = Flow::new(|ctx, _| async move {
        let sent = keyed(ctx, "sent", CancelMode::Wait);
        sleep(ctx, 1).await;
        // Made in a round of the task that its cancel belongs to, or in one before it.
        drop(keyed(ctx, "unsent", CancelMode::Try));
        let other = act(ctx, "other");
        let taken_back = keyed(ctx, "taken back", CancelMode::Wait);
        other.cancel();
        other.await;
        drop(taken_back);
        drop(sent);
        over()
    });
    let mut backend = Backend::started(flow);
    let commands = backend.fire(1).turn();
    assert_eq!(short(&commands), ["cancel activity 1"]);
    let commands = backend.turn();
    assert_eq!(inputs(&commands), ["key-sent"], "{commands:?}");
}

#[test]
fn what_was_left_to_itself_is_asked_to_stop_before_the_undo() {
    let mut backend = losing(|ctx| async move {
        let call = keyed(ctx, "a", CancelMode::Abandon);
        keyed(ctx, "b", CancelMode::Try).detach();
        sleep(ctx, 1).await;
        call.cancel();
        call.await;
    });
    assert_eq!(
        short(&backend.fire(1).turn()),
        ["timer 2"],
        "nobody is told"
    );
    assert_eq!(
        short(&backend.fire(2).turn()),
        ["cancel activity 2", "cancel activity 1"]
    );
    assert!(backend.complete(1, "").turn().is_empty());
    let commands = backend.complete(2, "").turn();
    assert_eq!(inputs(&commands), ["key-b"], "last done, first undone");
    assert_eq!(inputs(&backend.complete(3, "").turn()), ["key-a"]);
    assert_eq!(short(&backend.complete(4, "").turn()), ["fail over"]);
    backend.replayed().expect("replays the same");
}

#[test]
fn a_step_that_lost_is_undone_when_it_has_stopped() {
    let flow = Flow::new(|ctx, _| async move {
        let input = UndoInput::Given(Payload::bytes("key"));
        let call = step(ctx, "s").undo_with("undo".into(), ActivityOptions::default(), input);
        select(call, sleep(ctx, 1)).await;
        over()
    });
    let mut backend = Backend::started(flow);
    assert!(!backend.fire(1).turn().is_empty(), "it is told to stop");
    assert_eq!(inputs(&backend.turn()), ["key"]);
    backend.complete(1, "").turn();
    assert!(backend.is_closed, "{}", backend.failure());
    backend.replayed().expect("replays the same");
}

#[test]
fn a_cancelled_run_waits_for_its_calls_and_undoes_them() {
    let flow = Flow::new(|ctx, _| async move {
        undoable(ctx, "a").await;
        MainOutcome::Canceled
    });
    let mut backend = Backend::started(flow);
    backend.ignores_cancels = true;
    assert_eq!(
        short(&backend.cancel().turn()),
        ["cancel activity 1"],
        "it does not end yet"
    );
    assert_eq!(inputs(&backend.complete(1, "late").turn()), ["late"]);
    assert_eq!(short(&backend.complete(2, "").turn()), ["canceled"]);
    backend.replayed().expect("replays the same");
}

#[test]
fn what_handlers_did_is_undone_before_the_run_ends() {
    let flow = Flow::new(|ctx, _| async move {
        let handler = move |ctx: Context, _| -> outlast_runtime::HandlerFuture {
            Box::pin(async move {
                undoable(ctx, "a").await;
                Ok(())
            })
        };
        ctx.on_signal_until("go".into(), std::rc::Rc::new(handler), HandlerEnd::Abandon);
        sleep(ctx, 1).await;
        over()
    });
    let mut backend = Backend::started(flow);
    backend.ignores_cancels = true;
    backend.signal("go", "").turn();
    assert_eq!(short(&backend.fire(1).turn()), ["cancel activity 1"]);
    assert_eq!(inputs(&backend.complete(1, "late").turn()), ["late"]);
    assert_eq!(short(&backend.complete(2, "").turn()), ["fail over"]);
    backend.replayed().expect("replays the same");
}

#[test]
fn what_a_handler_left_to_itself_is_undone_when_all_handlers_have_ended() {
    let flow = Flow::new(|ctx, _| async move {
        let handler = move |ctx: Context, _| -> outlast_runtime::HandlerFuture {
            Box::pin(async move {
                undoable(ctx, "a").detach();
                Ok(())
            })
        };
        ctx.on_signal_until("go".into(), std::rc::Rc::new(handler), HandlerEnd::Finish);
        sleep(ctx, 1).await;
        over()
    });
    let mut backend = Backend::started(flow);
    backend.ignores_cancels = true;
    backend.signal("go", "").turn();
    assert_eq!(short(&backend.fire(1).turn()), ["cancel activity 1"]);
    assert_eq!(inputs(&backend.complete(1, "late").turn()), ["late"]);
    assert_eq!(short(&backend.complete(2, "").turn()), ["fail over"]);
    backend.replayed().expect("replays the same");
}

#[test]
fn a_call_that_lost_is_kept_if_main_succeeds() {
    let flow = Flow::new(|ctx, _| async move {
        select(undoable(ctx, "a"), sleep(ctx, 1)).await;
        done()
    });
    let mut backend = Backend::started(flow);
    backend.ignores_cancels = true;
    assert_eq!(short(&backend.fire(1).turn()), ["complete"]);
}
