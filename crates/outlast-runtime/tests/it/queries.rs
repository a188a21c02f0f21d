//! Queries: about the settled state, of open and closed runs, and without a trace.

use std::cell::RefCell;
use std::rc::Rc;

use futures::channel::mpsc;
use futures::{FutureExt, StreamExt};
use outlast_model::failure::type_name;
use outlast_model::task::builtin_query;
use outlast_model::{Failure, Payload};
use outlast_runtime::{Context, QueryHandler, SignalHandler};

use crate::backend::{Backend, Cache, short};
use crate::flow::{Flow, act, done, sleep};

fn count(ctx: Context) -> u64 {
    ctx.read_state(|state| *state.downcast_ref::<u64>().expect("a number"))
}

/// Counts signals `add`; answers `count`, and fails, panics and misbehaves when asked to.
fn counter() -> Flow {
    Flow::new(|ctx, _| {
        ctx.set_state(Box::new(0_u64));
        let add: SignalHandler = Rc::new(|ctx, _| {
            ctx.with_state(|state| *state.downcast_mut::<u64>().expect("a number") += 1);
            async { Ok(()) }.boxed_local()
        });
        ctx.on_signal("add".into(), add);
        let answer: QueryHandler = Rc::new(|ctx, query| match &*query.input.data {
            b"fail" => Err(Failure::application("test", "no answer")),
            b"panic" => panic!("what a question"),
            b"sleep" => {
                sleep(ctx, 1).detach();
                Ok(Payload::null())
            }
            _ => Ok(Payload::bytes(format!("{} {}", query.name, count(ctx)))),
        });
        ctx.on_query("count".into(), answer);
        ctx.show_state(Rc::new(|ctx| Ok(Payload::bytes(count(ctx).to_string()))));
        async move {
            ctx.recv("end".into()).await;
            done()
        }
    })
}

#[test]
fn open_evicted_and_closed_runs_answer_alike() {
    for cache in [Cache::Keep, Cache::EvictAlways] {
        let mut backend = Backend::shared(Rc::new(counter()), cache);
        backend.signal("add", "").turn();
        assert_eq!(backend.query("count", ""), Ok("count 1".into()));
        assert!(backend.instance.is_some(), "a question costs no instance");
        // What no task has seen is not settled.
        backend.signal("add", "");
        assert_eq!(backend.query("count", ""), Ok("count 1".into()));
        backend.turn();
        assert_eq!(backend.query("count", ""), Ok("count 2".into()));
        backend.signal("end", "").turn();
        assert!(backend.is_closed, "{}", backend.failure());
        let events = backend.history.len();
        assert_eq!(backend.query("count", ""), Ok("count 2".into()));
        assert_eq!(backend.query(builtin_query::STATE, ""), Ok("2".into()));
        assert_eq!(backend.history.len(), events);
        assert!(backend.instance.is_none(), "a closed run keeps no instance");
    }
}

#[test]
fn a_question_that_fails_panics_or_acts_is_an_error_and_leaves_the_run_alone() {
    let mut backend = Backend::started(counter());
    let told = |backend: &mut Backend, input| {
        let failure = backend.query("count", input).expect_err("fails");
        failure.to_string()
    };
    assert_eq!(told(&mut backend, "fail"), "no answer");
    assert_eq!(told(&mut backend, "panic"), "what a question");
    assert!(told(&mut backend, "sleep").contains("a durable call at crates/outlast-runtime"));
    assert_eq!(backend.query("count", ""), Ok("count 0".into()));
    assert_eq!(short(&backend.signal("end", "").turn()), ["complete"]);
}

#[test]
fn an_unknown_question_fails_at_once_and_names_the_known_ones() {
    let mut backend = Backend::started(counter());
    let failure = backend.query("size", "").expect_err("unknown");
    assert_eq!(failure.type_name(), Some(type_name::UNKNOWN_HANDLER));
    assert_eq!(
        failure.message,
        "this workflow has no query `size`; it has: `count`"
    );
}

#[test]
fn a_question_before_the_first_task_and_one_to_broken_code_fail_by_themselves() {
    let mut backend = Backend::new(counter());
    let failure = backend.query("count", "").expect_err("too early");
    assert_eq!(
        failure.message,
        "the run has not run its first workflow task yet"
    );
    backend.turn();
    backend.instance = None;
    backend.flow = Rc::new(Flow::new(|ctx, _| async move {
        sleep(ctx, 1).await;
        done()
    }));
    let failure = backend.query("count", "").expect_err("other code");
    assert!(failure.message.contains("StartTimer"), "{failure}");
}

#[test]
fn a_question_that_wakes_a_branch_fails_and_the_instance_is_given_up() {
    let flow = Flow::new(|ctx, log| {
        let (sender, mut receiver) = mpsc::unbounded::<()>();
        let sender = RefCell::new(sender);
        let answer: QueryHandler = Rc::new(move |_, _| {
            sender.borrow_mut().unbounded_send(()).expect("sends");
            Ok(Payload::null())
        });
        ctx.on_query("poke".into(), answer);
        let listen = async move {
            while receiver.next().await.is_some() {
                log.note("poked");
            }
        };
        async move {
            ctx.spawn(listen.boxed_local());
            ctx.recv("end".into()).await;
            done()
        }
    });
    let mut backend = Backend::started(flow);
    let failure = backend.query("poke", "").expect_err("it changes the run");
    assert_eq!(failure.type_name(), Some(type_name::READ_ONLY));
    assert!(backend.instance.is_none());
    backend.signal("end", "").turn();
    assert!(backend.is_closed, "{}", backend.failure());
    assert!(backend.log().is_empty());
}

#[test]
fn a_handler_of_any_name_answers_what_has_no_other() {
    let flow = Flow::new(|ctx, _| {
        let named: QueryHandler = Rc::new(|_, _| Ok(Payload::bytes("named")));
        let any: QueryHandler = Rc::new(|_, query| Ok(Payload::bytes(query.name.to_string())));
        ctx.on_query("a".into(), named);
        ctx.on_any_query(any);
        async move {
            sleep(ctx, 1).await;
            done()
        }
    });
    let mut backend = Backend::started(flow);
    assert_eq!(backend.query("a", ""), Ok("named".into()));
    assert_eq!(backend.query("b", ""), Ok("b".into()));
}

#[test]
fn the_stack_names_every_branch_and_what_it_waits_for() {
    let flow = Flow::new(|ctx, _| {
        let go: SignalHandler = Rc::new(|ctx, _| {
            async move {
                ctx.recv("more".into()).await;
                Ok(())
            }
            .boxed_local()
        });
        ctx.on_signal("go".into(), go);
        async move {
            futures::join!(act(ctx, "charge"), sleep(ctx, 1));
            done()
        }
    });
    let mut backend = Backend::new(flow);
    backend.signal("go", "").turn();
    let told = backend.query(builtin_query::STACK, "").expect("answers");
    let lines: Vec<&str> = told.trim_matches('"').split("\\n").collect();
    let place = concat!(" at ", file!(), ":");
    assert!(lines[0].starts_with(&format!("main waits for activity 1 `charge`{place}")));
    assert!(lines[0].contains(&format!(", timer 1{place}")), "{told}");
    assert!(lines[1].starts_with(&format!(
        "handler of signal `go` waits for recv `more`{place}"
    )));
    assert_eq!(lines.len(), 2);
}

#[test]
fn every_run_lists_its_handlers() {
    let mut backend = Backend::started(counter());
    let told = backend.query(builtin_query::HANDLERS, "").expect("answers");
    assert!(told.contains(r#""signals":[{"name":"add"}]"#), "{told}");
    assert!(told.contains(r#""queries":[{"name":"count"}]"#), "{told}");
    assert!(told.contains(r#""updates":[]"#), "{told}");
}
