//! Waiting on state: when a condition is tested, in what order, and what its panic does.

use std::cell::Cell;
use std::rc::Rc;

use futures::FutureExt;
use futures::future::{Either, join_all, select};
use outlast_model::event::TaskFailedCause;
use outlast_runtime::{Context, SignalHandler, Wait, Waited};

use crate::backend::{Backend, short};
use crate::flow::{Flow, Log, act, done, sleep};

#[derive(Default)]
struct Count {
    n: u32,
}

fn begin(ctx: Context) {
    ctx.set_state(Box::new(Count::default()));
}

fn change(ctx: Context, change: impl FnOnce(&mut Count)) {
    ctx.with_state(|state| change(state.downcast_mut().expect("a count")));
}

#[track_caller]
fn until(ctx: Context, holds: impl Fn(&Count) -> bool + 'static) -> Wait {
    ctx.wait_until(Box::new(move |state| {
        holds(state.downcast_ref().expect("a count"))
    }))
}

/// A handler that adds one.
fn adding() -> SignalHandler {
    Rc::new(|ctx, _| {
        Box::pin(async move {
            change(ctx, |count| count.n += 1);
            Ok(())
        })
    })
}

/// A branch that notes its name when the condition holds.
fn noting(ctx: Context, log: &Log, name: &'static str, holds: impl Fn(&Count) -> bool + 'static) {
    let log = log.clone();
    drop(ctx.spawn(async move {
        until(ctx, holds).await;
        log.note(name);
    }));
}

#[test]
fn a_condition_blocks_until_it_is_true() {
    let flow = Flow::new(|ctx, log| {
        begin(ctx);
        ctx.on_signal("add".into(), adding());
        async move {
            log.note(format!("{:?}", until(ctx, |count| count.n >= 2).await));
            done()
        }
    });
    let mut backend = Backend::started(flow);
    assert!(backend.signal("add", "").turn().is_empty());
    assert_eq!(short(&backend.signal("add", "").turn()), ["complete"]);
    assert_eq!(backend.log(), ["Released"]);
}

#[test]
fn a_condition_that_holds_does_not_wait() {
    let flow = Flow::new(|ctx, log| {
        begin(ctx);
        async move {
            let waited = until(ctx, |count| count.n == 0).now_or_never();
            log.note(format!("{waited:?}"));
            done()
        }
    });
    assert_eq!(Backend::started(flow).log(), ["Some(Released)"]);
}

#[test]
fn a_predicate_runs_once_when_registered_and_then_only_when_state_was_written() {
    let tests = Rc::new(Cell::new(0));
    let counted = Rc::clone(&tests);
    let flow = Flow::new(move |ctx, _| {
        begin(ctx);
        ctx.on_signal("add".into(), adding());
        let counted = Rc::clone(&counted);
        async move {
            // Written before: the test at registration has seen it.
            change(ctx, |count| count.n = 1);
            let wait = until(ctx, move |count| {
                counted.set(counted.get() + 1);
                count.n == 3
            });
            let looking = async {
                sleep(ctx, 1).await;
                ctx.read_state(|_| ());
                act(ctx, "a").await;
            };
            futures::join!(wait, looking);
            done()
        }
    });
    let mut backend = Backend::started(flow);
    assert_eq!(tests.get(), 1);
    backend.fire(1).turn();
    backend.complete(1, "").turn();
    assert_eq!(tests.get(), 1, "neither news nor looking is a write");
    backend.signal("add", "").turn();
    assert_eq!(tests.get(), 2);
    backend.signal("add", "").turn();
    assert_eq!((tests.get(), backend.is_closed), (3, true));
}

#[test]
fn two_writes_before_all_wait_are_one_test() {
    let tests = Rc::new(Cell::new(0));
    let counted = Rc::clone(&tests);
    let flow = Flow::new(move |ctx, _| {
        begin(ctx);
        ctx.on_signal("add".into(), adding());
        let counted = Rc::clone(&counted);
        async move {
            until(ctx, move |count| {
                counted.set(counted.get() + 1);
                count.n == 9
            })
            .await;
            done()
        }
    });
    let mut backend = Backend::started(flow);
    backend.signal("add", "").signal("add", "").turn();
    assert_eq!(tests.get(), 2);
}

#[test]
fn conditions_are_tested_in_the_order_of_registration() {
    let flow = Flow::new(|ctx, log| {
        begin(ctx);
        async move {
            for name in ["first", "second", "third"] {
                noting(ctx, &log, name, |count| count.n > 0);
            }
            sleep(ctx, 1).await;
            change(ctx, |count| count.n = 1);
            sleep(ctx, 1).await;
            done()
        }
    });
    let mut backend = Backend::started(flow);
    backend.fire(1).turn();
    assert_eq!(backend.log(), ["first", "second", "third"]);
}

#[test]
fn testing_goes_on_to_a_fixed_point() {
    let flow = Flow::new(|ctx, log| {
        begin(ctx);
        async move {
            // Registered in the wrong order: each is woken by the one behind it.
            for n in (1..=5).rev() {
                let log = log.clone();
                drop(ctx.spawn(async move {
                    until(ctx, move |count| count.n == n).await;
                    log.note(n.to_string());
                    change(ctx, |count| count.n += 1);
                }));
            }
            sleep(ctx, 1).await;
            change(ctx, |count| count.n = 1);
            until(ctx, |count| count.n == 6).await;
            done()
        }
    });
    let mut backend = Backend::started(flow);
    assert_eq!(short(&backend.fire(1).turn()), ["complete"]);
    assert_eq!(backend.log(), ["1", "2", "3", "4", "5"]);
}

#[test]
fn whoever_awaits_a_condition_finds_it_true() {
    let flow = Flow::new(|ctx, log| {
        begin(ctx);
        async move {
            for name in ["a", "b", "c"] {
                let log = log.clone();
                drop(ctx.spawn(async move {
                    until(ctx, |count| count.n > 0).await;
                    change(ctx, |count| count.n -= 1);
                    log.note(name);
                }));
            }
            sleep(ctx, 1).await;
            change(ctx, |count| count.n = 2);
            sleep(ctx, 1).await;
            change(ctx, |count| count.n = 1);
            sleep(ctx, 1).await;
            done()
        }
    });
    let mut backend = Backend::started(flow);
    backend.fire(1).turn();
    assert_eq!(backend.log(), ["a", "b"], "there was enough for two");
    backend.fire(2).turn();
    assert_eq!(backend.log(), ["a", "b", "c"]);
}

#[test]
fn a_predicate_that_panics_ends_its_own_wait_only() {
    let flow = Flow::new(|ctx, log| {
        begin(ctx);
        ctx.on_signal("add".into(), adding());
        async move {
            noting(ctx, &log, "neighbour", |count| count.n == 1);
            let now = until(ctx, |_| panic!("at once"));
            let later = until(ctx, |count| {
                assert!(count.n == 0, "on a write");
                false
            });
            noting(ctx, &log, "other neighbour", |count| count.n == 1);
            for wait in [now, later] {
                let Waited::Panicked(failure) = wait.await else {
                    panic!("it panicked")
                };
                log.note(failure.message.clone());
            }
            sleep(ctx, 2).await;
            done()
        }
    });
    let mut backend = Backend::started(flow);
    assert_eq!(short(&backend.signal("add", "").turn()), ["timer 1"]);
    let log = backend.log();
    assert!(log[0].starts_with("the condition at ") && log[0].ends_with("panicked: at once"));
    assert!(log[1].contains("conditions.rs:") && log[1].ends_with("panicked: on a write"));
    assert_eq!(log[2..], ["neighbour", "other neighbour"]);
}

#[test]
fn a_durable_call_in_a_predicate_is_an_error_that_names_its_line() {
    let flow = Flow::new(|ctx, log| {
        begin(ctx);
        async move {
            let wait = until(ctx, move |_| {
                sleep(ctx, 1).detach();
                true
            });
            let Waited::Panicked(failure) = wait.await else {
                panic!("it tried to sleep")
            };
            log.note(failure.message.clone());
            done()
        }
    });
    let mut backend = Backend::new(flow);
    assert_eq!(short(&backend.turn()), ["complete"]);
    let text = &backend.log()[0];
    assert!(text.contains("a durable call at ") && text.contains("conditions.rs:"));
    assert!(
        text.contains("was made in a condition, which may only read"),
        "{text}"
    );
}

#[test]
fn the_borrows_of_a_predicate_name_both_places_or_the_condition() {
    for inner in [(|ctx| drop(until(ctx, |_| true))) as fn(Context), |ctx| {
        ctx.read_state(|_| ());
    }] {
        let flow = Flow::new(move |ctx, _| {
            begin(ctx);
            async move {
                ctx.with_state(|_| inner(ctx));
                done()
            }
        });
        let failure = Backend::started(flow).failure();
        assert!(
            failure.contains("is inside another ctx.with at "),
            "{failure}"
        );
        assert!(failure.matches("conditions.rs:").count() >= 2, "{failure}");
    }
    let flow = Flow::new(|ctx, log| {
        begin(ctx);
        async move {
            let reading = until(ctx, move |_| {
                ctx.read_state(|_| ());
                true
            });
            log.note(format!("{:?}", reading.await));
            let writing = until(ctx, move |_| {
                change(ctx, |_| ());
                true
            });
            log.note(format!("{:?}", writing.await));
            done()
        }
    });
    let log = Backend::started(flow).log();
    assert!(
        log[0].contains("ctx.read at ") && log[0].contains("in a condition"),
        "{log:?}"
    );
    assert!(
        log[1].contains("ctx.with at ") && log[1].contains("in a condition"),
        "{log:?}"
    );
}

#[test]
fn a_condition_that_loses_a_race_is_no_longer_tested() {
    let tests = Rc::new(Cell::new(0));
    let counted = Rc::clone(&tests);
    let flow = Flow::new(move |ctx, _| {
        begin(ctx);
        ctx.on_signal("add".into(), adding());
        let counted = Rc::clone(&counted);
        async move {
            let condition = until(ctx, move |_| {
                counted.set(counted.get() + 1);
                false
            });
            match select(sleep(ctx, 1), condition).await {
                Either::Left((_, condition)) => drop(condition),
                Either::Right(_) => panic!("it never holds"),
            }
            sleep(ctx, 1).await;
            done()
        }
    });
    let mut backend = Backend::started(flow);
    backend.fire(1).turn();
    backend.signal("add", "").turn();
    assert_eq!((tests.get(), Rc::strong_count(&tests)), (1, 2));
}

#[test]
fn a_cancel_reaches_a_condition_unless_it_is_shielded() {
    let flow = Flow::new(|ctx, log| {
        begin(ctx);
        ctx.on_signal("add".into(), adding());
        async move {
            let shielded = until(ctx, |count| count.n == 1).shielded();
            let wait = until(ctx, |count| count.n == 1);
            assert!(!wait.is_cancelled());
            log.note(format!("{:?}", wait.await));
            let late = until(ctx, |count| count.n == 1);
            assert!(late.is_cancelled() && !shielded.is_cancelled());
            log.note(format!("{:?}", late.now_or_never()));
            log.note(format!("{:?}", shielded.await));
            done()
        }
    });
    let mut backend = Backend::started(flow);
    backend.cancel().turn();
    assert_eq!(backend.log(), ["Canceled", "Some(Canceled)"]);
    backend.signal("add", "").turn();
    assert_eq!(backend.log()[2..], ["Released"]);
}

#[test]
fn a_condition_is_cancelled_once_and_not_after_its_end() {
    let flow = Flow::new(|ctx, log| {
        begin(ctx);
        async move {
            let waiting = until(ctx, |count| count.n == 1);
            waiting.cancel();
            waiting.cancel();
            assert!(waiting.is_cancelled());
            log.note(format!("{:?}", waiting.await));
            let met = until(ctx, |count| count.n == 0);
            met.cancel();
            assert!(!met.is_cancelled());
            log.note(format!("{:?}", met.await));
            done()
        }
    });
    assert_eq!(Backend::started(flow).log(), ["Canceled", "Released"]);
}

#[test]
fn a_condition_alone_is_waiting_for_nothing() {
    let flow = Flow::new(|ctx, _| {
        begin(ctx);
        async move {
            until(ctx, |count| count.n == 1).await;
            done()
        }
    });
    let backend = Backend::started(flow);
    let failed = backend.failed.as_ref().expect("nothing can write");
    assert_eq!(failed.cause, TaskFailedCause::WorkerUnhandledFailure);
    assert!(
        failed
            .to_string()
            .contains("waits for something that is not durable")
    );
}

#[test]
fn a_thousand_conditions_are_met_by_one_write_and_nothing_is_left_of_them() {
    let tests = Rc::new(Cell::new(0_u32));
    let counted = Rc::clone(&tests);
    let flow = Flow::new(move |ctx, log| {
        begin(ctx);
        ctx.on_signal("add".into(), adding());
        let counted = Rc::clone(&counted);
        async move {
            let waits = (0..1000).map(|_| {
                let counted = Rc::clone(&counted);
                until(ctx, move |count| {
                    counted.set(counted.get() + 1);
                    count.n == 1
                })
            });
            log.note(join_all(waits).await.len().to_string());
            sleep(ctx, 1).await;
            done()
        }
    });
    let mut backend = Backend::started(flow);
    backend.signal("add", "").turn();
    assert_eq!((backend.log(), tests.get()), (vec!["1000".into()], 2000));
    backend.signal("add", "").turn();
    assert_eq!((tests.get(), Rc::strong_count(&tests)), (2000, 3));
}

#[test]
fn an_eviction_drops_conditions_in_silence() {
    struct Noisy(Context);
    impl Drop for Noisy {
        fn drop(&mut self) {
            sleep(self.0, 1).detach();
        }
    }
    let flow = Flow::new(|ctx, _| {
        begin(ctx);
        ctx.on_signal("add".into(), adding());
        async move {
            let noisy = Noisy(ctx);
            until(ctx, move |count| {
                let _held = &noisy;
                count.n == 1
            })
            .await;
            sleep(ctx, 9).await;
            done()
        }
    });
    let mut backend = Backend::started(flow);
    backend.instance.take().expect("open").evict();
    // The predicate is dropped when its wait is over, and what it holds may still ask.
    assert_eq!(
        short(&backend.signal("add", "").turn()),
        ["timer 1", "timer 2"]
    );
}
