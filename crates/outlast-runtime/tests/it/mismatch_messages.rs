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
        let timer = sleep(ctx, 1);
        if change == Change::AnswerCameEarly {
            timer.detach();
        } else {
            timer.await;
        }
        if change == Change::UpdateRunsOn {
            sleep(ctx, 1).await;
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
    let is_renamed = change == Change::HandlerRenamed;
    let name = if is_renamed { "put" } else { "set" };
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
    let child = || {
        if change == Change::ChildBecameAnActivity {
            return act(ctx, "kid");
        }
        let id = (change == Change::ChildGotAnId).then(|| "id".into());
        let is_renamed = change == Change::ChildRenamed;
        let kind = if is_renamed { "cousin" } else { "kid" };
        ctx.child(kind.into(), id, Payload::null(), ChildOptions::default())
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
    let stop = || {
        if change == Change::StopBecameASignal {
            return signal();
        }
        let is_redirected = change == Change::StopRedirected;
        let to = if is_redirected { "else" } else { "third" };
        ctx.cancel_external(RunRef::newest(to.into()), "enough")
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
    if change == Change::EndsOtherwise {
        return MainOutcome::Canceled;
    }
    done()
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

fn assert_found(table: &[(Change, &str, &str)]) {
    for (change, history, code) in table {
        assert_eq!(differs(*change), ((*history).into(), (*code).into()));
    }
}

const KID: &str = "StartChild, child 1 `kid` as `01900000-0000-7000-8000-000000000001_1`";
const HELLO: &str = "SignalExternal, signal 1 `hello` to `other`";
const AGAIN: &str = "SignalExternal, signal 2 `hello` to `other`";

#[test]
fn a_change_of_a_patch_or_a_child_is_found_at_the_first_difference() {
    let cousin = KID.replace("kid", "cousin");
    let named = "StartChild, child 1 `kid` as `id`";
    let activity = "ScheduleActivity, activity 1 `kid`";
    let end = "nothing more in the task that event 12 completed";
    assert_found(&[
        // A change the history does not know is not taken, nor announced.
        (Change::PatchRenamed, PATCH, KID),
        (Change::PatchRemoved, PATCH, KID),
        (Change::PatchMoved, PATCH, KID),
        (Change::ChildRenamed, CHILD, &cousin),
        (Change::ChildGotAnId, CHILD, named),
        (Change::ChildRemoved, CHILD, HELLO),
        (Change::ChildBecameAnActivity, CHILD, activity),
        (Change::OrderChanged, CHILD, HELLO),
        (Change::ChildCancelled, end, "CancelChild, child 1"),
    ]);
}

#[test]
fn a_change_of_what_is_said_or_answered_is_found_at_the_first_difference() {
    let bye = "SignalExternal, signal 1 `bye` to `other`";
    let elsewhere = "SignalExternal, signal 1 `hello` to `else`";
    let end = "nothing more in the task that event 12 completed";
    let accepted = "event 13 WorkflowExecutionUpdateAccepted, update `u`";
    let answered = "event 19 WorkflowExecutionUpdateCompleted, update `u`";
    let completed = "event 24 WorkflowExecutionCompleted";
    let third = "CancelExternal, request 1 to `third`";
    let redirected = "CancelExternal, request 1 to `else`";
    assert_found(&[
        (Change::SignalRenamed, SIGNAL, bye),
        (Change::SignalRedirected, SIGNAL, elsewhere),
        (Change::SignalRemoved, SIGNAL, third),
        (Change::SignalDoubled, STOP, AGAIN),
        (Change::StopRedirected, STOP, redirected),
        (Change::StopBecameASignal, STOP, AGAIN),
        (Change::AnswerCameEarly, end, "CompleteUpdate, update `u`"),
        (Change::UpdateRunsOn, answered, "StartTimer, timer 2"),
        (Change::HandlerRenamed, accepted, "nothing more: main waits"),
        (Change::EndsOtherwise, completed, "CancelWorkflow"),
    ]);
}
