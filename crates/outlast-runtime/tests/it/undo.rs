//! Undoing: last first, one after another, out of reach of the cancel that caused it.

use outlast_model::{ActivityOptions, Failure, Payload};
use outlast_runtime::{Context, MainOutcome, Operation};

use crate::backend::{Backend, short};
use crate::flow::{Flow, act, done, sleep};

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
