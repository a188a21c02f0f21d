//! The end of main and of the handlers beside it: who is waited for, who is told.

use std::rc::Rc;

use outlast_model::Failure;
use outlast_runtime::{Context, HandlerEnd, MainOutcome, SignalHandler, Wait};

use crate::backend::{Backend, Cache, short};
use crate::flow::{Flow, Listening, Log, act, done, sleep, word};

/// A handler that does one activity, and one more after it.
fn twice(log: &Log) -> SignalHandler {
    let log = log.clone();
    Rc::new(move |ctx, _| {
        let log = log.clone();
        Box::pin(async move {
            log.note(word(&act(ctx, "one").await));
            log.note(word(&act(ctx, "two").await));
            Ok(())
        })
    })
}

/// Main sleeps and returns; a handler ends by this policy.
fn flow(at_end: HandlerEnd) -> Flow {
    Flow::new(move |ctx, log| {
        ctx.on_signal_until("go".into(), twice(&log), at_end);
        async move {
            sleep(ctx, 1).await;
            log.note("main ends");
            done()
        }
    })
}

#[test]
fn by_default_a_handler_that_waits_is_abandoned_and_named() {
    let mut backend = Backend::started(flow(HandlerEnd::default()));
    backend.signal("go", "").turn();
    let watch = Listening::default();
    assert_eq!(short(&backend.fire(1).turn_watched(&watch)), ["complete"]);
    let told = watch.0.borrow();
    assert_eq!(told.len(), 1);
    assert!(told[0].starts_with("the run has ended while handler of signal `go`, last durable"));
    assert!(told[0].contains("handler_end.rs:") && told[0].ends_with("still waits"));
}

#[test]
fn a_handler_may_be_abandoned_in_silence() {
    let mut backend = Backend::started(flow(HandlerEnd::Abandon));
    backend.signal("go", "").turn();
    let watch = Listening::default();
    assert_eq!(short(&backend.fire(1).turn_watched(&watch)), ["complete"]);
    assert!(watch.0.borrow().is_empty());
}

#[test]
fn the_close_waits_for_a_handler_that_is_to_finish() {
    for cache in [Cache::Keep, Cache::EvictAlways] {
        let mut backend = Backend::shared(Rc::new(flow(HandlerEnd::Finish)), cache);
        backend.turn();
        backend.signal("go", "").turn();
        assert!(
            backend.fire(1).turn().is_empty(),
            "main is over, the run is not"
        );
        assert_eq!(short(&backend.complete(1, "1").turn()), ["activity 2 two"]);
        assert_eq!(short(&backend.complete(2, "2").turn()), ["complete"]);
        assert_eq!(backend.log(), ["main ends", "ok:1", "ok:2"]);
        backend.replayed().expect("replays the same");
    }
}

#[test]
fn a_branch_of_main_that_fails_cancels_main_and_not_the_handler_beside_it() {
    let flow = Flow::new(|ctx, log| {
        ctx.on_signal_until("go".into(), twice(&log), HandlerEnd::Finish);
        async move {
            drop(ctx.spawn(async move {
                sleep(ctx, 1).await;
                Err::<(), Failure>(Failure::application("test", "broken"))
            }));
            log.note(format!("main {}", word(&sleep(ctx, 100).await)));
            done()
        }
    });
    let mut backend = Backend::started(flow);
    backend.signal("go", "").turn();
    let commands = short(&backend.fire(2).turn());
    assert_eq!(commands, ["cancel timer 1"], "main's own, and no activity");
    assert_eq!(short(&backend.complete(1, "1").turn()), ["activity 2 two"]);
    assert_eq!(short(&backend.complete(2, "2").turn()), ["fail broken"]);
    assert_eq!(backend.log(), ["main cancelled", "ok:1", "ok:2"]);
    backend.replayed().expect("replays the same");
}

#[test]
fn messages_that_come_while_the_close_waits_are_handled() {
    let mut backend = Backend::started(flow(HandlerEnd::Finish));
    backend.signal("go", "").turn();
    backend.fire(1).turn();
    assert_eq!(short(&backend.signal("go", "").turn()), ["activity 2 one"]);
    backend.complete(1, "").turn();
    backend.complete(3, "").turn();
    backend.complete(2, "").turn();
    assert_eq!(short(&backend.complete(4, "").turn()), ["complete"]);
}

#[test]
fn handlers_that_can_run_do_and_their_commands_come_before_the_close() {
    let flow = Flow::new(|ctx, log| {
        ctx.on_signal("go".into(), twice(&log));
        async move {
            sleep(ctx, 1).await;
            done()
        }
    });
    let mut backend = Backend::started(flow);
    backend.signal("go", "").turn();
    let commands = short(&backend.fire(1).complete(1, "x").turn());
    assert_eq!(commands, ["activity 2 two", "complete"]);
    assert_eq!(backend.log(), ["ok:x"]);
}

#[test]
fn what_main_leaves_behind_is_stopped_when_the_close_has_to_wait() {
    let flow = Flow::new(|ctx, log| {
        ctx.on_signal_until("go".into(), twice(&log), HandlerEnd::Finish);
        async move {
            let (dropped, noted) = (act(ctx, "dropped"), log.clone());
            drop(ctx.spawn(async move {
                act(ctx, "branch").await;
                noted.note("never");
            }));
            sleep(ctx, 1).await;
            drop(dropped);
            done()
        }
    });
    let mut backend = Backend::started(flow);
    backend.signal("go", "").turn();
    let commands = short(&backend.fire(1).turn());
    assert_eq!(commands, ["cancel activity 1", "cancel activity 2"]);
    let told = backend.warnings();
    assert!(
        told[0].starts_with("main has ended while branch 1 spawned at "),
        "{told:?}"
    );
    backend.turn();
    backend.complete(3, "").turn();
    assert_eq!(short(&backend.complete(4, "").turn()), ["complete"]);
    backend.replayed().expect("replays the same");
}

#[test]
fn a_handler_that_is_to_finish_may_wait_for_its_own_branch() {
    let flow = Flow::new(|ctx, log| {
        let noted = log.clone();
        let handler: SignalHandler = Rc::new(move |ctx, _| {
            let log = noted.clone();
            Box::pin(async move {
                let wait: Wait = ctx.wait_until(Box::new(|_| false));
                let done = wait.releaser();
                drop(ctx.spawn(async move {
                    act(ctx, "branch").await;
                    done.release();
                }));
                log.note(format!("{:?}", wait.await));
                Ok(())
            })
        });
        ctx.on_signal_until("go".into(), handler, HandlerEnd::Finish);
        async move {
            sleep(ctx, 1).await;
            done()
        }
    });
    let mut backend = Backend::started(flow);
    backend.signal("go", "").turn();
    assert!(backend.fire(1).turn().is_empty());
    assert_eq!(short(&backend.complete(1, "").turn()), ["complete"]);
    assert_eq!(backend.log(), ["Released"]);
}

#[test]
fn a_failed_main_is_undone_before_the_handlers_end() {
    let flow = Flow::new(|ctx, log| {
        ctx.on_signal_until("go".into(), twice(&log), HandlerEnd::Finish);
        async move {
            let booked = act(ctx, "book").undo("unbook".into(), Default::default());
            booked.await;
            sleep(ctx, 1).await;
            MainOutcome::Failed(Failure::application("test", "no"))
        }
    });
    let mut backend = Backend::started(flow);
    backend.complete(1, "").turn();
    backend.signal("go", "").turn();
    assert_eq!(short(&backend.fire(1).turn()), ["activity 3 unbook"]);
    assert!(backend.complete(3, "").turn().is_empty());
    backend.complete(2, "").turn();
    assert_eq!(short(&backend.complete(4, "").turn()), ["fail no"]);
}

#[test]
fn a_cancel_while_the_close_waits_is_shown_to_the_handler() {
    let flow = Flow::new(|ctx, log| {
        let noted = log.clone();
        let handler: SignalHandler = Rc::new(move |ctx: Context, _| {
            let log = noted.clone();
            Box::pin(async move {
                while !ctx.is_cancelled() {
                    log.note(word(&sleep(ctx, 5).await));
                }
                Ok(())
            })
        });
        ctx.on_signal_until("go".into(), handler, HandlerEnd::Finish);
        async move {
            sleep(ctx, 1).await;
            done()
        }
    });
    let mut backend = Backend::started(flow);
    backend.signal("go", "").turn();
    backend.fire(1).turn();
    assert!(backend.cancel().turn().is_empty());
    assert_eq!(short(&backend.fire(2).turn()), ["complete"]);
    assert_eq!(backend.log(), ["ok:"]);
}
