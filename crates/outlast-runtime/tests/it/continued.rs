//! Runs that go on as new ones.

use std::rc::Rc;

use futures::FutureExt;
use outlast_model::command::ContinueAsNew;
use outlast_model::task::PROMISE_SIGNAL;
use outlast_model::{ActivityOptions, Command, Headers, Payload};
use outlast_runtime::{MainOutcome, SignalHandler};

use crate::backend::{Backend, short};
use crate::flow::{Flow, act, sleep};

fn next(input: &str) -> MainOutcome {
    MainOutcome::ContinueAsNew(Box::new(ContinueAsNew {
        workflow_type: None,
        queue: None,
        input: Payload::bytes(input.to_owned()),
        run_timeout: None,
        signals: Vec::new(),
        headers: Headers::new(),
    }))
}

#[test]
fn what_nobody_took_goes_along_in_order_of_arrival() {
    let flow = Flow::new(|ctx, _| {
        let taken: SignalHandler = Rc::new(|_, _| async { Ok(()) }.boxed_local());
        ctx.on_signal("handled".into(), taken);
        async move {
            sleep(ctx, 1).await;
            ctx.recv("b".into()).await;
            next("2")
        }
    });
    let mut backend = Backend::started(flow);
    backend.signal("b", "1").signal("a", "2").settle("p", "3");
    backend.signal("handled", "4").signal("b", "5").turn();
    let commands = backend.fire(1).turn();
    let [Command::ContinueAsNew(next)] = &commands[..] else {
        panic!("goes on: {commands:?}");
    };
    assert_eq!(next.input, Payload::bytes("2"));
    let names: Vec<&str> = next
        .signals
        .iter()
        .map(|signal| signal.name.as_str())
        .collect();
    assert_eq!(names, ["a", PROMISE_SIGNAL, "b"]);
    assert_eq!(next.signals[2].input, Payload::bytes("5"));
    assert!(backend.is_closed);
    assert!(backend.notes.texts.is_empty(), "{:?}", backend.notes);
    assert_eq!(backend.notes.unhandled_signals, 0);
    drop(backend.replayed().expect("replays"));
}

#[test]
fn what_was_to_be_undone_is_forgotten_and_told() {
    let flow = Flow::new(|ctx, _| async move {
        let call = act(ctx, "book");
        call.undo("release".into(), ActivityOptions::default())
            .await;
        next("")
    });
    let mut backend = Backend::started(flow);
    let commands = backend.complete(1, "").turn();
    assert_eq!(short(&commands), ["continue with 0 signals"]);
    let told = &backend.notes.texts;
    assert!(
        told[0].starts_with("undo `release` of the call at "),
        "{told:?}"
    );
    assert!(
        told[0].ends_with("is forgotten: the run continues as new"),
        "{told:?}"
    );
}

#[test]
fn a_run_that_ends_instead_of_going_on_is_a_mismatch() {
    let mut backend = Backend::started(Flow::new(|ctx, _| async move {
        sleep(ctx, 1).await;
        next("")
    }));
    backend.fire(1).turn();
    backend.flow = Rc::new(Flow::new(|ctx, _| async move {
        sleep(ctx, 1).await;
        crate::flow::done()
    }));
    let told = backend
        .replayed()
        .expect_err("differs")
        .failure
        .message
        .clone();
    assert!(told.contains("WorkflowExecutionContinuedAsNew"), "{told}");
    assert!(told.contains("code:    CompleteWorkflow"), "{told}");
}
