//! When a slice is over: every branch waits, everything told was seen, all commands at once.

use std::rc::Rc;

use futures::FutureExt;
use futures::channel::oneshot;
use outlast_runtime::{Context, SignalHandler};

use crate::backend::{Backend, Cache, short};
use crate::flow::{Flow, Listening, act, done, sleep, step, word};

/// Lets everything else that can run do so first.
async fn yield_now() {
    let mut has_yielded = false;
    futures::future::poll_fn(|cx| {
        if std::mem::replace(&mut has_yielded, true) {
            return std::task::Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        std::task::Poll::Pending
    })
    .await;
}

#[test]
fn commands_leave_only_when_every_branch_waits() {
    let flow = Flow::new(|ctx, _| async move {
        for name in ["a", "b", "c"] {
            drop(ctx.spawn(async move {
                for _ in 0..5 {
                    yield_now().await;
                }
                act(ctx, name).await;
            }));
        }
        sleep(ctx, 1).await;
        done()
    });
    let mut backend = Backend::new(flow);
    let commands = short(&backend.turn());
    assert_eq!(
        commands,
        ["timer 1", "activity 1 a", "activity 2 b", "activity 3 c"]
    );
}

#[test]
fn every_task_is_known_while_it_waits() {
    let flow = Flow::new(|ctx, _| {
        let handler: SignalHandler = Rc::new(|ctx, _| {
            Box::pin(async move {
                act(ctx, "handler").await;
                Ok(())
            })
        });
        ctx.on_signal("go".into(), handler);
        async move {
            drop(ctx.spawn(async move { drop(step(ctx, "s").await) }));
            drop(ctx.spawn(async move { drop(ctx.wait_until(Box::new(|_| false)).await) }));
            sleep(ctx, 1).await;
            done()
        }
    });
    let mut backend = Backend::started(flow);
    backend.signal("go", "").turn();
    let waiting = backend.instance.as_ref().expect("open").waiting();
    let names: Vec<&str> = waiting.iter().map(|branch| branch.name.as_str()).collect();
    assert_eq!(names.len(), 4, "{names:?}");
    assert_eq!(names[0], "main");
    assert!(names[1].starts_with("branch 1 spawned at "));
    assert!(names[2].starts_with("branch 2 spawned at "));
    assert_eq!(names[3], "handler of signal `go`");
    assert!(waiting.iter().all(|branch| branch.site.is_some()));
}

#[test]
fn all_jobs_of_an_activation_are_applied_before_any_code_runs() {
    let flow = Flow::new(|ctx, log| {
        let noted = log.clone();
        let handler: SignalHandler = Rc::new(move |ctx: Context, _| {
            noted.note(format!("handler at {}", ctx.now()));
            Box::pin(async { Ok(()) })
        });
        ctx.on_signal("go".into(), handler);
        async move {
            let (first, last, timer) = (act(ctx, "a"), act(ctx, "b"), sleep(ctx, 1));
            log.note(word(&first.await));
            for rest in [last, timer] {
                let seen = rest.now_or_never().expect("it was applied before");
                log.note(word(&seen));
            }
            done()
        }
    });
    let mut backend = Backend::started(flow);
    backend
        .complete(1, "1")
        .signal("go", "")
        .fire(1)
        .complete(2, "2")
        .turn();
    let log = backend.log();
    assert!(log[0].starts_with("handler at "), "handlers first: {log:?}");
    assert_eq!(log[1..], ["ok:1", "ok:2", "ok:"]);
}

#[test]
fn who_is_released_runs_in_the_same_slice() {
    let flow = Flow::new(|ctx, _| async move {
        let (sender, receiver) = oneshot::channel::<()>();
        drop(ctx.spawn(async move {
            receiver.await.expect("it is sent");
            act(ctx, "after the release").await;
        }));
        sleep(ctx, 1).await;
        sender.send(()).expect("somebody waits");
        act(ctx, "before it").await;
        done()
    });
    let mut backend = Backend::started(flow);
    assert_eq!(
        short(&backend.fire(1).turn()),
        ["activity 1 before it", "activity 2 after the release"]
    );
}

/// Notes when it is dropped, and tries to ask for something.
struct Dropped {
    ctx: Context,
    name: &'static str,
    log: crate::flow::Log,
}

impl Drop for Dropped {
    fn drop(&mut self) {
        self.log.note(self.name);
        act(self.ctx, self.name).detach();
    }
}

/// Main, a branch and a handler, each with something that is dropped with it.
fn with_destructors() -> Flow {
    Flow::new(|ctx, log| {
        let dropped = {
            let log = log.clone();
            move |name| Dropped {
                ctx,
                name,
                log: log.clone(),
            }
        };
        let held = dropped.clone();
        let handler: SignalHandler = Rc::new(move |ctx, _| {
            let held = held("handler");
            Box::pin(async move {
                act(ctx, "work").await;
                held.log.note("handler runs");
                sleep(ctx, 9).await;
                drop(held);
                Ok(())
            })
        });
        ctx.on_signal("go".into(), handler);
        let (of_branch, of_main) = (dropped("branch"), dropped("main"));
        async move {
            drop(ctx.spawn(async move {
                sleep(ctx, 9).await;
                drop(of_branch);
            }));
            sleep(ctx, 1).await;
            drop(of_main);
            done()
        }
    })
}

#[test]
fn an_eviction_drops_main_branches_and_handlers_together_in_silence() {
    let mut backend = Backend::shared(Rc::new(with_destructors()), Cache::Keep);
    backend.turn();
    backend.signal("go", "").turn();
    let mut instance = backend.instance.take().expect("open");
    assert!(instance.warnings().is_empty());
    instance.evict();
    assert_eq!(backend.log(), ["main", "branch", "handler"]);
    backend.replayed().expect("nothing was recorded of it");
}

#[test]
fn at_the_end_main_comes_first_then_handlers_that_can_run_then_what_is_left() {
    let mut backend = Backend::started(with_destructors());
    backend.signal("go", "").turn();
    let watch = Listening::default();
    let commands = short(&backend.fire(1).complete(1, "").turn_watched(&watch));
    assert_eq!(commands, ["activity 2 main", "timer 3", "complete"]);
    assert_eq!(backend.log(), ["main", "handler runs", "branch", "handler"]);
    let told = watch.0.borrow();
    let late: Vec<&String> = told
        .iter()
        .filter(|text| text.ends_with("comes after the end of the run"))
        .collect();
    assert_eq!(late.len(), 2, "the branch's and the handler's: {told:?}");
    assert!(late.iter().all(|text| text.contains("quiescence.rs:")));
}

#[test]
fn a_handler_that_fails_leaves_the_other_handlers_and_main_alone() {
    let flow = Flow::new(|ctx, log| {
        let noted = log.clone();
        let handler: SignalHandler = Rc::new(move |ctx, input| {
            let log = noted.clone();
            Box::pin(async move {
                act(ctx, "work").await;
                if input.size() > 0 {
                    return Err(outlast_model::Failure::application("test", "no"));
                }
                log.note(word(&sleep(ctx, 1).await));
                Ok(())
            })
        });
        ctx.on_signal("go".into(), handler);
        async move {
            log.note(word(&sleep(ctx, 5).await));
            sleep(ctx, 5).await;
            done()
        }
    });
    let mut backend = Backend::started(flow);
    backend.signal("go", "fails").signal("go", "").turn();
    backend.complete(1, "").complete(2, "").turn();
    assert_eq!(backend.warnings(), ["handler of signal `go` failed: no"]);
    backend.fire(2).fire(1).turn();
    assert_eq!(backend.log(), ["ok:", "ok:"]);
}
