//! Children: two stages, four ways to cancel.

use futures::FutureExt;
use outlast_model::event::StartFailedCause;
use outlast_model::event::{CancelOf, ChildEvent, DeliveryFailedCause, ExternalEvent};
use outlast_model::failure::type_name;
use outlast_model::{
    ChildCancel, ChildOptions, Command, Failure, FailureKind, ParentClose, Payload, Resolution, Seq,
};
use outlast_runtime::{Context, Operation};

use crate::backend::{Backend, RUN, short};
use crate::flow::{Flow, done, sleep, word};

#[track_caller]
pub(crate) fn child(ctx: Context, cancel: ChildCancel) -> Operation {
    let options = ChildOptions {
        cancel,
        ..ChildOptions::default()
    };
    ctx.child("kid".into(), None, Payload::null(), options)
}

/// Starts a child, cancels it when `stop` comes, and notes both stages.
fn cancelling(cancel: ChildCancel) -> Flow {
    Flow::new(move |ctx, log| async move {
        let child = child(ctx, cancel);
        let started = child.started();
        let noted = log.clone();
        ctx.spawn(
            async move {
                let started = started.await.map_err(|failure| failure.to_string());
                noted.note(format!("{:?}", started.map(|run| run.0)));
            }
            .boxed_local(),
        );
        ctx.recv("stop".into()).await;
        child.cancel();
        child.cancel();
        assert!(child.is_cancelled());
        log.note(word(&child.await));
        ctx.recv("end".into()).await;
        done()
    })
}

const NEVER: &str = "Err(\"the child was cancelled before it was known to have started\")";

pub(crate) fn delivered(seq: u32) -> ExternalEvent {
    let of = CancelOf::Child(Seq(seq));
    ExternalEvent::CancelDelivered { of }
}

#[test]
fn a_child_starts_and_then_ends() {
    let flow = Flow::new(|ctx, log| async move {
        let child = child(ctx, ChildCancel::default());
        log.note(format!("{:?}", child.started().await.map(|run| run.0)));
        log.note(word(&child.await));
        done()
    });
    let mut backend = Backend::new(flow);
    assert_eq!(short(&backend.turn()), ["child 1 kid"]);
    assert!(backend.child_started(1).turn().is_empty());
    assert_eq!(backend.log(), ["Ok(1)"]);
    assert_eq!(short(&backend.child_completed(1, "x").turn()), ["complete"]);
    assert_eq!(backend.log(), ["Ok(1)", "ok:x"]);
}

#[test]
fn a_child_without_an_id_is_named_after_its_parent_and_options_change_until_the_yield() {
    let flow = Flow::new(|ctx, log| async move {
        let (plain, named) = (child(ctx, ChildCancel::Wait), child(ctx, ChildCancel::Wait));
        let named = named.edit_child(|id, options| {
            *id = "mine".into();
            options.parent_close = ParentClose::Abandon;
        });
        log.note(plain.child_id().expect("is a child").to_string());
        log.note(named.child_id().expect("is a child").to_string());
        futures::join!(plain, named);
        done()
    });
    let mut backend = Backend::new(flow);
    let commands = backend.turn();
    let ids = [format!("{RUN}_1"), "mine".into()];
    assert_eq!(backend.log(), ids);
    let [Command::StartChild(plain), Command::StartChild(named)] = &commands[..] else {
        panic!("two children: {commands:?}");
    };
    assert_eq!(
        [&plain.workflow_id, &named.workflow_id],
        [&ids[0][..], "mine"].map(|i| i.into()).each_ref()
    );
    assert_eq!(named.options.parent_close, ParentClose::Abandon);
}

#[test]
fn a_failed_child_says_which_child_and_why() {
    let flow = Flow::new(|ctx, log| async move {
        let Resolution::Failed(failure, _) = child(ctx, ChildCancel::Wait).await else {
            panic!("it fails");
        };
        let FailureKind::Child {
            seq, workflow_type, ..
        } = &failure.kind
        else {
            panic!("{failure:?}");
        };
        log.note(format!(
            "{workflow_type} {seq}: {}",
            failure.cause.clone().expect("why")
        ));
        done()
    });
    let mut backend = Backend::started(flow);
    let (seq, failure) = (Seq(1), Failure::application("test", "no"));
    backend
        .child_started(1)
        .child(ChildEvent::Failed { seq, failure })
        .turn();
    assert_eq!(backend.log(), ["kid 1: no"]);
}

#[test]
fn a_child_that_cannot_start_fails_both_stages() {
    for (cause, name) in [
        (StartFailedCause::AlreadyExists, type_name::ALREADY_EXISTS),
        (StartFailedCause::NotRegistered, type_name::NOT_REGISTERED),
    ] {
        let flow = Flow::new(|ctx, log| async move {
            let child = child(ctx, ChildCancel::Wait);
            let failure = child.started().await.expect_err("cannot start");
            let why = failure.cause.clone().expect("says why");
            log.note(why.type_name().unwrap_or_default());
            let Resolution::Failed(same, _) = child.await else {
                panic!("it never ran");
            };
            assert_eq!(same, failure);
            done()
        });
        let mut backend = Backend::started(flow);
        let seq = Seq(1);
        backend.child(ChildEvent::StartFailed { seq, cause }).turn();
        assert!(backend.is_closed, "{}", backend.failure());
        assert_eq!(backend.log(), [name]);
    }
}

#[test]
fn cancelling_in_mode_try_resolves_in_a_follow_up_of_the_same_task() {
    let mut backend = Backend::started(cancelling(ChildCancel::Try));
    assert_eq!(
        short(&backend.signal("stop", "").turn()),
        ["cancel child 1"]
    );
    assert_eq!(backend.log(), [NEVER, "cancelled"]);
    // What becomes of it is nobody's business any more.
    backend.child_started(1).external(delivered(1)).turn();
    backend.child(ChildEvent::Canceled { seq: Seq(1) }).turn();
    assert_eq!(backend.log().len(), 2);
}

#[test]
fn cancelling_in_mode_wait_resolves_with_the_outcome() {
    let mut backend = Backend::started(cancelling(ChildCancel::Wait));
    backend.child_started(1).turn();
    assert_eq!(
        short(&backend.signal("stop", "").turn()),
        ["cancel child 1"]
    );
    backend.external(delivered(1)).turn();
    assert_eq!(backend.log(), ["Ok(1)"]);
    backend.child_completed(1, "made it").turn();
    assert_eq!(backend.log(), ["Ok(1)", "ok:made it"]);
}

#[test]
fn cancelling_in_mode_abandon_tells_nobody() {
    let mut backend = Backend::started(cancelling(ChildCancel::Abandon));
    assert!(backend.signal("stop", "").turn().is_empty());
    assert_eq!(backend.log(), ["cancelled", NEVER]);
}

#[test]
fn cancelling_in_mode_request_only_resolves_when_the_child_has_the_request() {
    let mut backend = Backend::started(cancelling(ChildCancel::RequestOnly));
    backend.child_started(1).turn();
    assert_eq!(
        short(&backend.signal("stop", "").turn()),
        ["cancel child 1"]
    );
    assert_eq!(backend.log(), ["Ok(1)"]);
    backend.external(delivered(1)).turn();
    assert_eq!(backend.log(), ["Ok(1)", "cancelled"]);
}

#[test]
fn a_request_that_finds_no_child_leaves_the_outcome_to_say_so() {
    let mut backend = Backend::started(cancelling(ChildCancel::RequestOnly));
    backend.child_started(1).turn();
    backend.signal("stop", "").turn();
    let (of, cause) = (CancelOf::Child(Seq(1)), DeliveryFailedCause::NotFound);
    backend
        .external(ExternalEvent::CancelFailed { of, cause })
        .turn();
    assert_eq!(backend.log(), ["Ok(1)"]);
    backend.child_completed(1, "x").turn();
    assert_eq!(backend.log(), ["Ok(1)", "ok:x"]);
}

#[test]
fn a_child_cancelled_in_the_slice_that_asked_for_it_was_never_asked_for() {
    let flow = Flow::new(|ctx, log| async move {
        let first = child(ctx, ChildCancel::Wait);
        first.cancel();
        assert!(first.started().await.is_err());
        log.note(word(&first.await));
        drop(child(ctx, ChildCancel::Wait));
        child(ctx, ChildCancel::Wait).await;
        done()
    });
    let mut backend = Backend::new(flow);
    assert_eq!(short(&backend.turn()), ["child 3 kid"]);
    assert_eq!(backend.log(), ["cancelled"]);
}

#[test]
fn a_child_cancelled_in_a_follow_up_of_the_task_that_asked_for_it_was_never_asked_for() {
    let flow = Flow::new(|ctx, log| async move {
        let first = child(ctx, ChildCancel::Try);
        sleep(ctx, 1).await;
        first.cancel();
        let second = child(ctx, ChildCancel::Wait);
        log.note(word(&first.await));
        second.cancel();
        log.note(word(&second.await));
        ctx.recv("end".into()).await;
        done()
    });
    let mut backend = Backend::started(flow);
    assert_eq!(short(&backend.fire(1).turn()), ["cancel child 1"]);
    assert_eq!(backend.log(), ["cancelled", "cancelled"]);
    drop(backend.replayed().expect("replays"));
}

#[test]
fn a_dropped_child_is_asked_to_stop_and_a_detached_one_is_not() {
    let flow = Flow::new(|ctx, _| async move {
        let (dropped, detached) = (child(ctx, ChildCancel::Wait), child(ctx, ChildCancel::Wait));
        detached.detach();
        sleep(ctx, 1).await;
        drop(dropped);
        ctx.recv("end".into()).await;
        done()
    });
    let mut backend = Backend::started(flow);
    assert_eq!(short(&backend.fire(1).turn()), ["cancel child 1"]);
    backend.child_started(2).child_completed(2, "").turn();
    assert_eq!(short(&backend.signal("end", "").turn()), ["complete"]);
}

#[test]
fn a_cancelled_workflow_waits_for_its_child_to_end() {
    let flow = Flow::new(|ctx, log| async move {
        log.note(word(&child(ctx, ChildCancel::default()).await));
        outlast_runtime::MainOutcome::Canceled
    });
    let mut backend = Backend::started(flow);
    backend.child_started(1).turn();
    assert_eq!(short(&backend.cancel().turn()), ["cancel child 1"]);
    backend.external(delivered(1)).turn();
    let canceled = ChildEvent::Canceled { seq: Seq(1) };
    assert_eq!(short(&backend.child(canceled).turn()), ["canceled"]);
    assert_eq!(backend.log(), ["cancelled"]);
}

#[test]
fn another_type_or_id_of_a_child_is_a_mismatch_and_other_options_are_told() {
    let flow = |kind: &'static str, id: &'static str, close: ParentClose| {
        Flow::new(move |ctx, _| async move {
            let options = ChildOptions {
                parent_close: close,
                ..ChildOptions::default()
            };
            let id = Some(id.into());
            ctx.child(kind.into(), id, Payload::null(), options).await;
            done()
        })
    };
    let recorded = Backend::started(flow("kid", "a", ParentClose::Terminate));
    let replay = |flow: Flow| {
        let mut other = Backend::new(flow);
        other.history.clone_from(&recorded.history);
        other.replayed()
    };
    let told = |flow| replay(flow).expect_err("differs").failure.message.clone();
    let other_type = told(flow("cousin", "a", ParentClose::Terminate));
    assert!(
        other_type.contains(
            "history: event 5 StartChildWorkflowExecutionInitiated, child 1 `kid` as `a`, asked at"
        ),
        "{other_type}"
    );
    assert!(
        other_type.contains("code:    StartChild, child 1 `cousin` as `a`, asked at"),
        "{other_type}"
    );
    assert!(told(flow("kid", "b", ParentClose::Terminate)).contains("as `b`"));
    let mut tuned = replay(flow("kid", "a", ParentClose::Abandon)).expect("replays");
    let warnings = tuned.warnings();
    assert!(
        warnings[0].ends_with("parent close policy Abandon instead of Terminate"),
        "{warnings:?}"
    );
}
