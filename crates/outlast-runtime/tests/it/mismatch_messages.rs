//! Replay finds every difference in what a run says to others and answers, and names both sides.

use std::rc::Rc;

use futures::FutureExt;
use outlast_model::view::RunRef;
use outlast_model::{ChildOptions, Payload};
use outlast_runtime::{Context, HandlerEnd, MainOutcome, ReplayChecks, Unwatched, replay};
use outlast_runtime::{UpdateFuture, UpdateHandler};

use crate::backend::Backend;
use crate::flow::{Flow, act, done, no_foreign, sleep};

/// What the code may do differently.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Change {
    None,
    PatchRenamed,
    PatchRemoved,
    PatchMoved,
    ChildRenamed,
    ChildGotAnId,
    ChildRemoved,
    ChildBecameAnActivity,
    SignalRenamed,
    SignalRedirected,
    SignalRemoved,
    SignalDoubled,
    StopRedirected,
    StopBecameASignal,
    OrderChanged,
    ChildCancelled,
    AnswerCameEarly,
    UpdateRunsOn,
    HandlerRenamed,
    EndsOtherwise,
}

fn answer(ctx: Context, change: Change) -> UpdateFuture {
    async move {
        match change {
            Change::AnswerCameEarly => sleep(ctx, 1).detach(),
            Change::UpdateRunsOn => {
                sleep(ctx, 1).await;
                sleep(ctx, 1).await;
            }
            _ => drop(sleep(ctx, 1).await),
        }
        Ok(Payload::null())
    }
    .boxed_local()
}

fn register(ctx: Context, change: Change) {
    let handler = UpdateHandler {
        validator: None,
        code: Rc::new(move |ctx, _| answer(ctx, change)),
        end: HandlerEnd::default(),
    };
    let name = match change {
        Change::HandlerRenamed => "put",
        _ => "set",
    };
    ctx.on_update(name.into(), handler);
}

/// A change, a child, a message and a request; all of them awaited.
async fn code(ctx: Context, change: Change) -> MainOutcome {
    let patch = || {
        ctx.patched(
            if change == Change::PatchRenamed {
                "q"
            } else {
                "p"
            }
            .into(),
        )
    };
    if change != Change::PatchRemoved && change != Change::PatchMoved {
        patch();
    }
    let child = || match change {
        Change::ChildBecameAnActivity => act(ctx, "kid"),
        _ => {
            let id = (change == Change::ChildGotAnId).then(|| "id".into());
            let kind = if change == Change::ChildRenamed {
                "cousin"
            } else {
                "kid"
            };
            ctx.child(kind.into(), id, Payload::null(), ChildOptions::default())
        }
    };
    let signal = || {
        let to = if change == Change::SignalRedirected {
            "else"
        } else {
            "other"
        };
        let name = if change == Change::SignalRenamed {
            "bye"
        } else {
            "hello"
        };
        ctx.signal_external(RunRef::newest(to.into()), name.into(), Payload::null())
    };
    let stop = || match change {
        Change::StopBecameASignal => signal(),
        _ => {
            let to = if change == Change::StopRedirected {
                "else"
            } else {
                "third"
            };
            ctx.cancel_external(RunRef::newest(to.into()), "enough")
        }
    };
    let mut calls = Vec::new();
    if change == Change::OrderChanged {
        calls = vec![signal(), child(), stop()];
    } else {
        calls.extend((change != Change::ChildRemoved).then(child));
        calls.extend((change != Change::SignalRemoved).then(signal));
        calls.extend((change == Change::SignalDoubled).then(signal));
        calls.push(stop());
    }
    if change == Change::PatchMoved {
        patch();
    }
    ctx.recv("go".into()).await;
    if change == Change::ChildCancelled {
        calls[0].cancel();
    }
    ctx.recv("end".into()).await;
    match change {
        Change::EndsOtherwise => MainOutcome::Canceled,
        _ => done(),
    }
}

fn flow(change: Change) -> Flow {
    Flow::new(move |ctx, _| {
        register(ctx, change);
        code(ctx, change)
    })
}

/// Both sides of the first difference, without places.
fn differs(change: Change) -> (String, String) {
    let mut backend = Backend::started(flow(Change::None));
    backend.update("u", "set", "").signal("go", "").turn();
    backend.fire(1).turn();
    backend.signal("end", "").turn();
    assert!(backend.is_closed, "{}", backend.failure());
    let checks = ReplayChecks { strict: true };
    let (history, changed) = (&backend.history, flow(change));
    if change == Change::None {
        drop(replay(history, &changed, &no_foreign(), &Unwatched, checks).expect("replays"));
        return Default::default();
    }
    let failed = replay(history, &changed, &no_foreign(), &Unwatched, checks);
    let text = failed
        .expect_err("the code differs")
        .failure
        .message
        .clone();
    let side = |label: &str| {
        let line = text
            .lines()
            .find_map(|line| line.trim_start().strip_prefix(label));
        let line = line.expect("both sides are named").trim_start();
        let end = line.find(", asked at").or(line.find(" after its call"));
        line[..end.unwrap_or(line.len())].to_owned()
    };
    (side("history:"), side("code:"))
}

const CHILD: &str = "event 6 StartChildWorkflowExecutionInitiated, child 1 `kid` as \
                     `01900000-0000-7000-8000-000000000001_1`";
const SIGNAL: &str =
    "event 7 SignalExternalWorkflowExecutionInitiated, signal 1 `hello` to `other`";
const STOP: &str = "event 8 RequestCancelExternalWorkflowExecutionInitiated, request 1 to `third`";
const PATCH: &str = "event 5 MarkerRecorded, patch `p`";

#[test]
fn the_code_that_wrote_it_replays() {
    assert_eq!(differs(Change::None), Default::default());
}

#[test]
fn every_change_is_found_at_the_first_difference() {
    let kid = "`kid` as `01900000-0000-7000-8000-000000000001_1`";
    let start_kid = format!("StartChild, child 1 {kid}");
    let cousin = start_kid.replace("kid", "cousin");
    let table: [(Change, &str, &str); 19] = [
        // A change the history does not know is not taken, nor announced.
        (Change::PatchRenamed, PATCH, &start_kid),
        (Change::PatchRemoved, PATCH, &start_kid),
        (Change::PatchMoved, PATCH, &start_kid),
        (Change::ChildRenamed, CHILD, &cousin),
        (
            Change::ChildGotAnId,
            CHILD,
            "StartChild, child 1 `kid` as `id`",
        ),
        (
            Change::ChildRemoved,
            CHILD,
            "SignalExternal, signal 1 `hello` to `other`",
        ),
        (
            Change::ChildBecameAnActivity,
            CHILD,
            "ScheduleActivity, activity 1 `kid`",
        ),
        (
            Change::SignalRenamed,
            SIGNAL,
            "SignalExternal, signal 1 `bye` to `other`",
        ),
        (
            Change::SignalRedirected,
            SIGNAL,
            "SignalExternal, signal 1 `hello` to `else`",
        ),
        (
            Change::SignalRemoved,
            SIGNAL,
            "CancelExternal, request 1 to `third`",
        ),
        (
            Change::SignalDoubled,
            STOP,
            "SignalExternal, signal 2 `hello` to `other`",
        ),
        (
            Change::StopRedirected,
            STOP,
            "CancelExternal, request 1 to `else`",
        ),
        (
            Change::StopBecameASignal,
            STOP,
            "SignalExternal, signal 2 `hello` to `other`",
        ),
        (
            Change::OrderChanged,
            CHILD,
            "SignalExternal, signal 1 `hello` to `other`",
        ),
        (
            Change::ChildCancelled,
            "nothing more in the task that event 12 completed",
            "CancelChild, child 1",
        ),
        (
            Change::AnswerCameEarly,
            "nothing more in the task that event 12 completed",
            "CompleteUpdate, update `u`",
        ),
        (
            Change::UpdateRunsOn,
            "event 19 WorkflowExecutionUpdateCompleted, update `u`",
            "StartTimer, timer 2",
        ),
        (
            Change::HandlerRenamed,
            "event 13 WorkflowExecutionUpdateAccepted, update `u`",
            "nothing more: main waits",
        ),
        (
            Change::EndsOtherwise,
            "event 24 WorkflowExecutionCompleted",
            "CancelWorkflow",
        ),
    ];
    for (change, history, code) in table {
        assert_eq!(differs(change), (history.to_owned(), code.to_owned()));
    }
}
