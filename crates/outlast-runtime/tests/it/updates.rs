//! Updates: judged, accepted, run and answered, at the place they had among the signals.

use std::rc::Rc;

use futures::FutureExt;
use outlast_model::Failure;
use outlast_model::event::{EventKind, UpdateEvent, UpdateRequest};
use outlast_runtime::{
    Context, HandlerEnd, SignalHandler, UpdateFuture, UpdateHandler, UpdateValidator,
};

use crate::backend::{Backend, Cache, short};
use crate::flow::{Flow, Log, act, done, sleep, word};

fn text(request: &UpdateRequest) -> String {
    String::from_utf8_lossy(&request.input.data).into_owned()
}

/// An update that notes its input and gives it back.
fn echo(log: &Log) -> UpdateHandler {
    let log = log.clone();
    handler(None, move |_, request| {
        log.note(format!("{} {}", request.name, text(&request)));
        async move { Ok(request.input) }.boxed_local()
    })
}

fn handler(
    validator: Option<UpdateValidator>,
    code: impl Fn(Context, UpdateRequest) -> UpdateFuture + 'static,
) -> UpdateHandler {
    UpdateHandler {
        validator,
        code: Rc::new(code),
        end: HandlerEnd::default(),
    }
}

/// Refuses `no`, panics at `panic`, tries to sleep at `sleep`.
fn strict() -> UpdateValidator {
    Rc::new(|ctx, request| match &*text(request) {
        "no" => Err(Failure::application("test", "refused")),
        "panic" => panic!("cannot judge"),
        "sleep" => {
            sleep(ctx, 1).detach();
            Ok(())
        }
        _ => Ok(()),
    })
}

/// Waits for `end`, with handlers of everything it is told to handle.
fn waiting(register: impl Fn(Context, &Log) + 'static) -> Flow {
    Flow::new(move |ctx, log| {
        register(ctx, &log);
        async move {
            log.note("main");
            ctx.recv("end".into()).await;
            done()
        }
    })
}

#[test]
fn an_update_is_accepted_and_answered_among_the_commands_before_main_runs() {
    let mut backend = Backend::new(waiting(|ctx, log| {
        let log = log.clone();
        let code = handler(None, move |ctx, request| {
            log.note("update");
            act(ctx, "a").detach();
            async move { Ok(request.input) }.boxed_local()
        });
        ctx.on_update("set".into(), code);
    }));
    let commands = backend.update("u", "set", "7").turn();
    assert_eq!(short(&commands), ["accept u", "activity 1 a", "answer u"]);
    assert_eq!(backend.answers, ["u accepted", "u ok:7"]);
    assert_eq!(backend.log(), ["update", "main"]);
}

#[test]
fn an_update_may_wait_and_its_error_is_its_outcome() {
    let mut backend = Backend::started(waiting(|ctx, _| {
        let code = handler(None, |ctx, _| {
            async move {
                let word = word(&act(ctx, "a").await);
                Err(Failure::application("test", word))
            }
            .boxed_local()
        });
        ctx.on_update("set".into(), code);
    }));
    let commands = backend.update("u", "set", "").turn();
    assert_eq!(short(&commands), ["accept u", "activity 1 a"]);
    assert_eq!(short(&backend.complete(1, "x").turn()), ["answer u"]);
    assert_eq!(backend.answers, ["u accepted", "u failed:ok:x"]);
    assert!(backend.notes.texts.is_empty());
}

#[test]
fn a_validator_turns_away_by_error_by_panic_and_by_trying_to_do_something() {
    let mut backend = Backend::started(waiting(|ctx, log| {
        let code = UpdateHandler {
            validator: Some(strict()),
            ..echo(log)
        };
        ctx.on_update("set".into(), code);
    }));
    for input in ["no", "panic", "sleep", "yes"] {
        backend.update(input, "set", input);
    }
    let commands = backend.turn();
    assert_eq!(
        short(&commands),
        [
            "reject no",
            "reject panic",
            "reject sleep",
            "accept yes",
            "answer yes"
        ]
    );
    assert_eq!(backend.answers[0], "no rejected: refused");
    assert_eq!(backend.answers[1], "panic rejected: cannot judge");
    let told = &backend.answers[2];
    assert!(told.contains("a durable call at ") && told.contains("in a validator"));
    assert_eq!(backend.log(), ["main", "set yes"]);
    drop(backend.replayed().expect("replays"));
    assert_eq!(backend.log(), ["main", "set yes"]);
}

#[test]
fn a_validator_sees_what_the_handlers_before_it_have_done() {
    let mut backend = Backend::started(waiting(|ctx, log| {
        ctx.set_state(Box::new(0_u32));
        let validator: UpdateValidator = Rc::new(|ctx, _| {
            let is_free = ctx.read_state(|state| *state.downcast_ref::<u32>().expect("u32") == 0);
            let taken = || Failure::application("test", "taken");
            is_free.then_some(()).ok_or_else(taken)
        });
        let code = handler(Some(validator), |ctx, request| {
            ctx.with_state(|state| *state.downcast_mut::<u32>().expect("u32") += 1);
            async move { Ok(request.input) }.boxed_local()
        });
        ctx.on_update("take".into(), code);
        drop(log.clone());
    }));
    backend
        .update("a", "take", "")
        .update("b", "take", "")
        .turn();
    assert_eq!(
        backend.answers,
        ["a accepted", "a ok:", "b rejected: taken"]
    );
}

#[test]
fn an_update_nobody_handles_is_rejected_with_the_list_of_known_ones() {
    let mut backend = Backend::started(waiting(|ctx, log| {
        ctx.on_update("set".into(), echo(log));
        ctx.on_update("get".into(), echo(log));
    }));
    assert_eq!(short(&backend.update("u", "sett", "").turn()), ["reject u"]);
    assert_eq!(
        backend.answers,
        ["u rejected: this workflow has no update `sett`; it has: `get`, `set`"]
    );
}

#[test]
fn an_update_that_finds_its_handler_later_in_the_slice_runs_in_order_of_arrival() {
    let flow = Flow::new(|ctx, log| async move {
        log.note("main");
        let noted = log.clone();
        let signal: SignalHandler = Rc::new(move |_, input| {
            noted.note(format!("signal {}", String::from_utf8_lossy(&input.data)));
            async { Ok(()) }.boxed_local()
        });
        ctx.on_signal("s".into(), signal);
        ctx.on_update("set".into(), echo(&log));
        ctx.recv("end".into()).await;
        done()
    });
    let mut backend = Backend::new(flow);
    backend
        .signal("s", "1")
        .update("u", "set", "2")
        .signal("s", "3");
    backend.turn();
    let order = ["main", "signal 1", "set 2", "signal 3"];
    assert_eq!(backend.log(), order);
    drop(backend.replayed().expect("replays"));
    assert_eq!(backend.log(), order);
}

#[test]
fn a_handler_of_any_name_gets_updates_that_have_no_other() {
    let mut backend = Backend::started(waiting(|ctx, log| {
        ctx.on_update("set".into(), echo(log));
        let log = log.clone();
        let any = handler(None, move |_, request| {
            log.note(format!("any {}", request.name));
            async move { Ok(request.input) }.boxed_local()
        });
        ctx.on_any_update(any);
    }));
    backend
        .update("a", "set", "1")
        .update("b", "what", "2")
        .turn();
    assert_eq!(backend.log(), ["main", "set 1", "any what"]);
}

#[test]
fn what_runs_after_main_has_returned_still_answers_and_the_rest_needs_no_command() {
    let flow = Flow::new(|ctx, log| {
        ctx.on_update("quick".into(), echo(&log));
        let slow = handler(None, |ctx, request| {
            async move {
                sleep(ctx, 1).await;
                Ok(request.input)
            }
            .boxed_local()
        });
        ctx.on_update("slow".into(), slow);
        async move {
            ctx.recv("end".into()).await;
            done()
        }
    });
    let mut backend = Backend::started(flow);
    backend.signal("end", "");
    let commands = backend
        .update("s", "slow", "")
        .update("q", "quick", "1")
        .turn();
    assert_eq!(
        short(&commands),
        ["accept s", "timer 1", "accept q", "answer q", "complete"]
    );
    let told = &backend.notes.texts;
    assert!(
        told[0].starts_with("the run has ended while handler of update `slow`"),
        "{told:?}"
    );
}

#[test]
fn a_handler_makes_commands_and_answers_long_after_main_has_returned() {
    let flow = Flow::new(|ctx, log| {
        let noted = log.clone();
        let slow = handler(None, move |ctx, request| {
            let log = noted.clone();
            async move {
                sleep(ctx, 1).await;
                log.note("the handler goes on");
                log.note(word(&act(ctx, "late").await));
                Ok(request.input)
            }
            .boxed_local()
        });
        let end = HandlerEnd::Finish;
        ctx.on_update("slow".into(), UpdateHandler { end, ..slow });
        async move {
            ctx.recv("end".into()).await;
            log.note("main has returned");
            done()
        }
    });
    let mut backend = Backend::started(flow);
    let commands = backend.update("u", "slow", "").turn();
    assert_eq!(short(&commands), ["accept u", "timer 1"]);
    let commands = backend.signal("end", "").turn();
    assert_eq!(short(&commands), Vec::<String>::new(), "the close waits");
    assert_eq!(backend.log(), ["main has returned"]);
    let commands = backend.fire(1).turn();
    assert_eq!(short(&commands), ["activity 1 late"]);
    let commands = backend.complete(1, "x").turn();
    assert_eq!(short(&commands), ["answer u", "complete"]);
    let told = ["main has returned", "the handler goes on", "ok:x"];
    assert_eq!(backend.log(), told);
    backend.replayed().expect("replays the same");
}

#[test]
fn a_replay_tells_updates_again_where_they_stood_among_the_signals() {
    for cache in [Cache::Keep, Cache::EvictAlways] {
        let flow = waiting(|ctx, log| {
            let validator: UpdateValidator = Rc::new(|ctx, request| {
                assert!(!ctx.is_replaying(), "judged once");
                match &*text(request) {
                    "no" => Err(Failure::application("test", "refused")),
                    _ => Ok(()),
                }
            });
            let code = UpdateHandler {
                validator: Some(validator),
                ..echo(log)
            };
            ctx.on_update("set".into(), code);
            let noted = log.clone();
            let signal: SignalHandler = Rc::new(move |_, _| {
                noted.note("signal");
                async { Ok(()) }.boxed_local()
            });
            ctx.on_signal("s".into(), signal);
        });
        let mut backend = Backend::shared(Rc::new(flow), cache);
        backend.turn();
        backend
            .update("a", "set", "a")
            .signal("s", "")
            .admit("no", "set", "no");
        backend
            .admit("b", "set", "b")
            .update("c", "set", "c")
            .signal("s", "");
        backend.fail_task();
        backend.update("d", "set", "d").turn();
        let order = [
            "main", "set a", "signal", "set b", "set c", "signal", "set d",
        ];
        assert_eq!(backend.log(), order);
        backend.signal("end", "").turn();
        assert!(backend.is_closed, "{}", backend.failure());
        drop(backend.replayed().expect("replays"));
        assert_eq!(backend.log(), order);
    }
}

#[test]
fn an_accepted_update_whose_handler_is_gone_is_a_mismatch() {
    let mut backend = Backend::started(waiting(|ctx, log| ctx.on_update("set".into(), echo(log))));
    backend.update("u", "set", "").turn();
    let accepted = backend
        .history
        .iter()
        .position(|event| matches!(event.kind, EventKind::Update(UpdateEvent::Accepted(_))));
    let accepted = accepted.expect("it was accepted") + 1;
    backend.instance = None;
    backend.flow = Rc::new(waiting(|ctx, log| ctx.on_update("other".into(), echo(log))));
    let told = backend
        .replayed()
        .expect_err("differs")
        .failure
        .message
        .clone();
    let history = format!("history: event {accepted} WorkflowExecutionUpdateAccepted, update `u`");
    assert!(told.contains(&history), "{told}");
}

#[test]
fn an_update_that_is_written_while_its_code_runs_is_replayed_where_the_code_had_seen_it() {
    let mut backend = Backend::started(waiting(|ctx, log| {
        ctx.on_update("set".into(), echo(log));
        let noted = log.clone();
        let signal: SignalHandler = Rc::new(move |_, _| {
            noted.note("signal");
            async { Ok(()) }.boxed_local()
        });
        ctx.on_signal("s".into(), signal);
    }));
    backend.update("u", "set", "u").signal("s", "");
    // The slice has begun; now the update gets an event of its own, behind the signal.
    backend.write_request("u");
    backend.turn();
    let order = ["main", "set u", "signal"];
    assert_eq!(backend.log(), order);
    drop(backend.replayed().expect("replays"));
    assert_eq!(backend.log(), order);
}

#[test]
fn a_slice_that_only_turned_updates_away_may_be_forgotten() {
    let mut backend = Backend::started(waiting(|ctx, log| {
        let code = UpdateHandler {
            validator: Some(strict()),
            ..echo(log)
        };
        ctx.on_update("set".into(), code);
    }));
    let events = backend.history.len();
    backend.update("a", "set", "no").update("b", "unknown", "");
    assert_eq!(short(&backend.turn()), ["reject a", "reject b"]);
    backend.history.truncate(events);
    backend.update("c", "set", "yes").signal("end", "").turn();
    assert!(backend.is_closed, "{}", backend.failure());
    assert_eq!(backend.log(), ["main", "set yes"]);
    drop(backend.replayed().expect("replays"));
    assert_eq!(backend.log(), ["main", "set yes"]);
}
