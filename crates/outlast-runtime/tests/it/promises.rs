//! Promises: settled from outside, once, before or after somebody waits.

use futures::future::{Either, select};
use outlast_model::promise::Settlement;
use outlast_model::task::{PROMISE_SIGNAL, builtin_query};
use outlast_model::{EventKind, Failure, Headers, Payload};

use crate::backend::{Backend, short};
use crate::flow::{Flow, done, sleep, word};

impl Backend {
    pub(crate) fn settle(&mut self, id: &str, value: &str) -> &mut Self {
        let outcome = Ok(Payload::raw_json(value.to_owned()));
        self.settle_with(id, outcome)
    }

    fn settle_with(&mut self, id: &str, outcome: Result<Payload, Failure>) -> &mut Self {
        let settlement = Settlement {
            id: id.into(),
            outcome,
        };
        let input = settlement.encode().expect("encodes");
        self.stimulus(EventKind::Signaled {
            name: PROMISE_SIGNAL.into(),
            input,
            request_id: None,
            headers: Headers::new(),
        });
        self
    }
}

#[test]
fn a_promise_is_settled_by_its_id_with_a_value_or_an_error() {
    let flow = Flow::new(|ctx, log| async move {
        let (yes, no) = futures::join!(ctx.promise("yes".into()), ctx.promise("no".into()));
        log.note(word(&yes));
        log.note(word(&no));
        done()
    });
    let mut backend = Backend::started(flow);
    assert!(backend.settle("yes", "7").turn().is_empty());
    let refused = Err(Failure::application("Refused", "not today"));
    assert_eq!(
        short(&backend.settle_with("no", refused).turn()),
        ["complete"]
    );
    assert_eq!(backend.log(), ["ok:7", "failed:not today"]);
}

#[test]
fn the_first_settlement_counts_and_it_may_come_early() {
    let flow = Flow::new(|ctx, log| async move {
        sleep(ctx, 1).await;
        log.note(word(&ctx.promise("p".into()).await));
        log.note(word(&ctx.promise("p".into()).await));
        done()
    });
    let mut backend = Backend::started(flow);
    backend.settle("p", "1").settle("p", "2").turn();
    assert_eq!(backend.notes.unhandled_signals, 0);
    assert_eq!(short(&backend.fire(1).turn()), ["complete"]);
    assert_eq!(backend.log(), ["ok:1", "ok:1"]);
}

#[test]
fn promises_without_a_name_have_numbers_of_their_own() {
    let flow = Flow::new(|ctx, log| async move {
        let (a, b) = (ctx.next_promise_id(), ctx.next_promise_id());
        log.note(format!("{a} {b}"));
        log.note(word(&ctx.promise(b).await));
        done()
    });
    let mut backend = Backend::started(flow);
    backend.settle("#2", "true").turn();
    assert_eq!(backend.log(), ["#1 #2", "ok:true"]);
}

#[test]
fn a_wait_that_ends_leaves_the_promise_open() {
    let flow = Flow::new(|ctx, log| async move {
        match select(ctx.promise("p".into()), sleep(ctx, 1)).await {
            Either::Left(_) => log.note("too early"),
            Either::Right((_, wait)) => {
                wait.cancel();
                log.note(word(&wait.await));
            }
        }
        log.note(word(&ctx.promise("p".into()).await));
        done()
    });
    let mut backend = Backend::started(flow);
    let told = backend.query(builtin_query::HANDLERS, "").expect("answers");
    assert!(told.contains(r#""promises":[{"name":"p"}]"#), "{told}");
    assert!(backend.fire(1).turn().is_empty());
    assert_eq!(short(&backend.settle("p", "1").turn()), ["complete"]);
    assert_eq!(backend.log(), ["cancelled", "ok:1"]);
}

#[test]
fn a_settlement_that_nobody_can_read_is_told_and_changes_nothing() {
    let flow = Flow::new(|ctx, log| async move {
        log.note(word(&ctx.promise("p".into()).await));
        done()
    });
    let mut backend = Backend::started(flow);
    backend.signal(PROMISE_SIGNAL, "what").turn();
    let told = &backend.notes.texts;
    assert!(
        told[0].starts_with("nobody can say which promise was settled"),
        "{told:?}"
    );
    assert!(backend.log().is_empty());
}

#[test]
fn a_promise_is_something_to_wait_for() {
    let flow = Flow::new(|ctx, _| async move {
        ctx.promise("p".into()).await;
        done()
    });
    let backend = Backend::started(flow);
    assert_eq!(backend.failure(), "");
}
