//! Signals: buffered, received, handled; handlers run before main and do not hold up the end.

use std::rc::Rc;

use futures::future::{Either, select};
use outlast_model::{Failure, Payload};
use outlast_runtime::{AnySignalHandler, Context, HandlerEnd, SignalHandler};

use crate::backend::{Backend, short};
use crate::flow::{Flow, Listening, Log, act, done, sleep, word};

fn text(payload: &Payload) -> String {
    String::from_utf8_lossy(&payload.data).into_owned()
}

fn noting(log: &Log) -> SignalHandler {
    let log = log.clone();
    Rc::new(move |_: Context, input| {
        let log = log.clone();
        Box::pin(async move {
            log.note(text(&input));
            Ok(())
        })
    })
}

#[test]
fn signals_wait_for_whoever_receives_them() {
    let flow = Flow::new(|ctx, log| async move {
        sleep(ctx, 1).await;
        for _ in 0..3 {
            log.note(word(&ctx.recv("go".into()).await));
        }
        done()
    });
    let mut backend = Backend::new(flow);
    backend.signal("go", "1").turn();
    backend.signal("other", "x").signal("go", "2").turn();
    assert!(backend.fire(1).turn().is_empty());
    assert_eq!(backend.log(), ["ok:1", "ok:2"]);
    assert_eq!(short(&backend.signal("go", "3").turn()), ["complete"]);
    assert_eq!(backend.log(), ["ok:1", "ok:2", "ok:3"]);
}

#[test]
fn a_receiver_that_loses_a_race_loses_no_message() {
    let flow = Flow::new(|ctx, log| async move {
        match select(sleep(ctx, 1), ctx.recv("go".into())).await {
            Either::Left((_, receiver)) => drop(receiver),
            Either::Right(_) => log.note("received"),
        }
        log.note(word(&ctx.recv("go".into()).await));
        done()
    });
    let mut backend = Backend::started(flow);
    assert_eq!(
        short(&backend.fire(1).signal("go", "kept").turn()),
        ["complete"]
    );
    assert_eq!(backend.log(), ["ok:kept"]);
}

#[test]
fn handlers_of_an_activation_run_before_main() {
    let flow = Flow::new(|ctx, log| {
        ctx.on_signal("b".into(), noting(&log));
        async move {
            log.note("main begins");
            sleep(ctx, 1).await;
            log.note(word(&ctx.recv("a".into()).await));
            done()
        }
    });
    let mut backend = Backend::new(flow);
    backend.signal("b", "first").turn();
    assert_eq!(backend.log(), ["first", "main begins"]);
    backend.fire(1).turn();
    backend.signal("a", "main").signal("b", "handler").turn();
    assert_eq!(backend.log()[2..], ["handler", "ok:main"]);
}

#[test]
fn buffered_signals_reach_a_handler_that_comes_later_in_order() {
    let flow = Flow::new(|ctx, log| async move {
        sleep(ctx, 1).await;
        ctx.on_signal("b".into(), noting(&log));
        ctx.on_signal("a".into(), noting(&log));
        log.note("main");
        sleep(ctx, 1).await;
        done()
    });
    let mut backend = Backend::started(flow);
    backend
        .signal("a", "1")
        .signal("b", "2")
        .signal("c", "3")
        .signal("a", "4")
        .turn();
    backend.fire(1).turn();
    assert_eq!(backend.log(), ["main", "1", "2", "4"]);
}

/// A handler that notes what it got, and then does more.
fn noting_and(log: &Log, then: impl Fn(Context) + 'static) -> SignalHandler {
    let (log, then) = (log.clone(), Rc::new(then));
    Rc::new(move |ctx, input| {
        let (log, then) = (log.clone(), Rc::clone(&then));
        Box::pin(async move {
            log.note(text(&input));
            then(ctx);
            Ok(())
        })
    })
}

#[test]
fn a_handler_that_a_buffered_signal_woke_may_bring_the_handler_of_the_next() {
    let flow = Flow::new(|ctx, log| {
        let last = noting_and(&log, |ctx| act(ctx, "last").detach());
        let second = noting_and(&log, move |ctx| ctx.on_signal("c".into(), last.clone()));
        let first = noting_and(&log, move |ctx| ctx.on_signal("b".into(), second.clone()));
        async move {
            sleep(ctx, 1).await;
            ctx.on_signal("a".into(), first);
            log.note("main");
            sleep(ctx, 1).await;
            done()
        }
    });
    let mut backend = Backend::started(flow);
    for (name, text) in [("c", "c1"), ("b", "b2"), ("a", "a3"), ("b", "b4")] {
        backend.signal(name, text);
    }
    assert!(backend.turn().is_empty(), "nobody has a handler yet");
    // Three rounds, one slice.
    let commands = short(&backend.fire(1).turn());
    assert_eq!(commands, ["timer 2", "activity 1 last"]);
    let rounds = ["main", "a3", "b2", "b4", "c1"];
    assert_eq!(backend.log(), rounds);
    drop(backend.replayed().expect("replays"));
    assert_eq!(backend.log(), rounds);
}

#[test]
fn a_handler_may_wait_and_its_error_is_told() {
    let flow = Flow::new(|ctx, _| {
        let handler: SignalHandler = Rc::new(|ctx, _| {
            Box::pin(async move {
                act(ctx, "work").await;
                Err(Failure::application("test", "no"))
            })
        });
        ctx.on_signal("go".into(), handler);
        async move {
            sleep(ctx, 1).await;
            done()
        }
    });
    let mut backend = Backend::started(flow);
    assert_eq!(short(&backend.signal("go", "").turn()), ["activity 1 work"]);
    backend.complete(1, "").turn();
    assert_eq!(backend.warnings(), ["handler of signal `go` failed: no"]);
}

#[test]
fn a_cancel_is_shown_to_handlers_and_does_not_cut_their_calls() {
    let flow = Flow::new(|ctx, log| {
        let noted = log.clone();
        let handler: SignalHandler = Rc::new(move |ctx, _| {
            let log = noted.clone();
            Box::pin(async move {
                log.note(word(&act(ctx, "work").await));
                log.note(format!("asked to stop: {}", ctx.is_cancelled()));
                Ok(())
            })
        });
        ctx.on_signal("go".into(), handler);
        async move {
            log.note(word(&sleep(ctx, 1).await));
            ctx.shield(|| sleep(ctx, 2)).await;
            done()
        }
    });
    let mut backend = Backend::started(flow);
    backend.signal("go", "").turn();
    assert_eq!(
        short(&backend.cancel().turn()),
        ["cancel timer 1", "timer 2"]
    );
    backend.complete(1, "x").turn();
    assert_eq!(backend.log(), ["cancelled", "ok:x", "asked to stop: true"]);
}

#[test]
fn when_main_returns_handlers_that_can_run_do_and_waiting_ones_are_named() {
    let flow = Flow::new(|ctx, log| {
        let noted = log.clone();
        let handler: SignalHandler = Rc::new(move |ctx, input| {
            let log = noted.clone();
            Box::pin(async move {
                log.note(text(&input));
                act(ctx, "work").await;
                log.note("never");
                Ok(())
            })
        });
        async move {
            sleep(ctx, 1).await;
            ctx.on_signal("go".into(), handler);
            done()
        }
    });
    let mut backend = Backend::started(flow);
    backend
        .signal("go", "late")
        .signal("ignored", "")
        .signal("ignored", "")
        .turn();
    let watch = Listening::default();
    let commands = backend.fire(1).turn_watched(&watch);
    assert_eq!(short(&commands), ["activity 1 work", "complete"]);
    assert_eq!(backend.log(), ["late"]);
    let told = watch.0.borrow();
    assert!(told[0].starts_with("the run has ended while handler of signal `go`, last durable"));
    assert_eq!(
        told[1],
        "the run has ended with 2 signals `ignored` that nobody has read"
    );
}

#[test]
fn a_handler_of_any_name_gets_signals_that_nobody_else_takes() {
    let flow = Flow::new(|ctx, log| {
        let noted = log.clone();
        ctx.on_signal("named".into(), noting(&log));
        async move {
            let first = ctx.recv("received".into());
            let any: AnySignalHandler = Rc::new(move |_, name, input| {
                noted.note(format!("any {name} {}", text(&input)));
                Box::pin(async { Ok(()) })
            });
            ctx.on_any_signal(any, HandlerEnd::default());
            log.note(word(&first.await));
            sleep(ctx, 1).await;
            log.note(word(&ctx.recv("received".into()).await));
            done()
        }
    });
    let mut backend = Backend::new(flow);
    backend.signal("early", "0").signal("received", "1").turn();
    backend
        .signal("named", "2")
        .signal("late", "3")
        .signal("received", "4")
        .turn();
    backend.fire(1).turn();
    assert!(backend.is_closed, "{}", backend.failure());
    assert_eq!(
        backend.log(),
        ["ok:1", "any early 0", "2", "any late 3", "ok:4"]
    );
}

#[test]
fn a_task_says_what_went_wrong_in_it_and_how_many_signals_nobody_took() {
    let flow = Flow::new(|ctx, _| {
        let handler: SignalHandler =
            Rc::new(|_, _| Box::pin(async { Err(Failure::application("test", "no")) }));
        ctx.on_signal("go".into(), handler);
        async move {
            sleep(ctx, 1).await;
            done()
        }
    });
    let mut backend = Backend::started(flow);
    backend
        .signal("go", "")
        .signal("what", "")
        .signal("what", "")
        .turn();
    assert_eq!(backend.notes.texts, ["handler of signal `go` failed: no"]);
    assert_eq!(backend.notes.unhandled_signals, 2);
    backend.instance = None;
    backend.signal("what", "").turn();
    assert!(
        backend.notes.texts.is_empty(),
        "told once: {:?}",
        backend.notes
    );
    assert_eq!(backend.notes.unhandled_signals, 3);
    let rest = backend.notes.rest.take().expect("it has not taken all");
    assert!(rest.at.is_empty(), "it waits for a timer: {rest:?}");
    let unread: Vec<String> = rest.unread.iter().map(ToString::to_string).collect();
    assert_eq!(unread, ["what (3)"]);
}

#[test]
fn a_run_that_rests_says_where() {
    let flow = Flow::new(|ctx, _| {
        let handler: SignalHandler = Rc::new(|_, _| Box::pin(async { Ok(()) }));
        ctx.on_signal("ask".into(), handler);
        async move {
            sleep(ctx, 1).await;
            ctx.recv("go".into()).await;
            ctx.wait_until(Box::new(|_| false)).await;
            done()
        }
    });
    let mut backend = Backend::started(flow);
    let places = |backend: &Backend| {
        let rest = backend.notes.rest.as_deref();
        let at = rest.map_or(&[][..], |rest| &rest.at);
        let named = at
            .iter()
            .map(|at| match at.site.file.contains("signals.rs") {
                true => format!("{:?}", at.what),
                false => format!("{:?} at {}", at.what, at.site),
            });
        named.collect::<Vec<String>>()
    };
    backend.turn();
    assert_eq!(places(&backend), [""; 0], "the timer has an event");
    backend.fire(1).turn();
    assert_eq!(places(&backend), [r#"Signal("go")"#]);
    backend.signal("go", "").turn();
    assert_eq!(places(&backend), ["Condition"]);
}
