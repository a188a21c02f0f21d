//! The read-only guard: what it refuses, and that nothing else comes of it.

use outlast_model::Failure;
use outlast_runtime::{Context, Reader};

use crate::backend::{Backend, short};
use crate::flow::{Flow, act, done, sleep, step};

/// One thing that changes a run, and what it is called.
struct Change {
    name: &'static str,
    made: fn(Context),
}

const CHANGES: &[Change] = &[
    Change {
        name: "a durable call",
        made: |ctx| act(ctx, "a").detach(),
    },
    Change {
        name: "a durable call",
        made: |ctx| sleep(ctx, 1).detach(),
    },
    Change {
        name: "a durable call",
        made: |ctx| step(ctx, "s").detach(),
    },
    Change {
        name: "a durable call",
        made: |ctx| drop(ctx.recv("go".into())),
    },
    Change {
        name: "a durable call",
        made: |ctx| drop(ctx.wait_until(Box::new(|_| true))),
    },
    Change {
        name: "a spawn",
        made: |ctx| drop(ctx.spawn(async {})),
    },
    Change {
        name: "a new handler",
        made: |ctx| {
            ctx.on_signal(
                "go".into(),
                std::rc::Rc::new(|_, _| Box::pin(async { Ok(()) })),
            );
        },
    },
    Change {
        name: "ctx.with",
        made: |ctx| ctx.with_state(|_| ()),
    },
    Change {
        name: "a new state",
        made: |ctx| ctx.set_state(Box::new(2_u8)),
    },
    Change {
        name: "a write",
        made: |ctx| ctx.written(),
    },
    Change {
        name: "a random number",
        made: |ctx| assert!(ctx.random() != ctx.random()),
    },
    Change {
        name: "a random number",
        made: |ctx| assert!(ctx.uuid() != ctx.uuid()),
    },
];

#[test]
fn nothing_that_changes_a_run_gets_past_the_guard_and_the_run_goes_on() {
    for reader in [Reader::Condition, Reader::Query, Reader::Validator] {
        for change in CHANGES {
            let flow = Flow::new(move |ctx, log| {
                ctx.set_state(Box::new(1_u8));
                async move {
                    let refused = ctx.read_only(reader, || (change.made)(ctx));
                    log.note(refused.expect_err("it is refused").message.clone());
                    sleep(ctx, 1).await;
                    log.note(ctx.random().to_string());
                    done()
                }
            });
            let mut backend = Backend::new(flow);
            assert_eq!(short(&backend.turn()), ["timer 1"], "{}", change.name);
            let text = &backend.log()[0];
            assert!(text.starts_with(change.name), "{text}");
            assert!(text.contains("guard.rs:"), "{text}");
            assert!(text.contains(&format!("was made in {reader}, which may only read")));
            assert_eq!(short(&backend.fire(1).turn()), ["complete"]);
        }
    }
}

#[test]
fn cancels_are_refused_under_the_guard_and_drops_are_not_heard_of() {
    let flow = Flow::new(|ctx, log| async move {
        let (call, dropped) = (act(ctx, "a"), act(ctx, "b"));
        let branch = ctx.spawn(async move {
            sleep(ctx, 9).await;
        });
        sleep(ctx, 1).await;
        let cancels: [&dyn Fn(); 3] = [&|| call.cancel(), &|| branch.cancel(), &|| {
            branch.scope().cancel();
        }];
        for cancel in cancels {
            let refused = ctx.read_only(Reader::Query, cancel);
            log.note(refused.expect_err("it is refused").message.clone());
        }
        ctx.read_only(Reader::Query, || drop(dropped))
            .expect("a drop is no call");
        sleep(ctx, 1).await;
        done()
    });
    let mut backend = Backend::started(flow);
    assert_eq!(short(&backend.fire(1).turn()), ["timer 3"]);
    for text in backend.log() {
        assert!(
            text.starts_with("a cancel at ") && text.contains("made in a query"),
            "{text}"
        );
    }
}

#[test]
fn what_looks_gets_its_answer_and_a_panic_is_an_error_of_its_own() {
    let flow = Flow::new(|ctx, log| async move {
        ctx.set_state(Box::new(7_u8));
        let seen = ctx.read_only(Reader::Query, || {
            ctx.read_state(|state| state.downcast_ref::<u8>().copied())
        });
        log.note(format!("{seen:?}"));
        let looking: Result<(), Failure> = ctx.read_only(Reader::Validator, || panic!("no"));
        log.note(looking.expect_err("it panicked").message.clone());
        act(ctx, "after the guard").await;
        done()
    });
    let mut backend = Backend::new(flow);
    assert_eq!(short(&backend.turn()), ["activity 1 after the guard"]);
    assert_eq!(backend.log(), ["Ok(Some(7))", "no"]);
}
