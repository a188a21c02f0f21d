//! Nets: foreign wakes, waiting for nothing, panics, protocol errors.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context as Wakers, Poll, Waker};
use std::thread;

use futures::channel::oneshot;
use outlast_model::event::TaskFailedCause;
use outlast_model::{Activation, Failure, Job, Resolution, RunId, Seq, Timestamp};
use outlast_runtime::{
    Context, Instance, MainFuture, Operation, Program, SignalHandler, Unwatched, in_slice,
};

use crate::backend::{Backend, short};
use crate::flow::{Flow, Log, act, done, no_foreign, sleep};

fn assert_failed(backend: &Backend, cause: TaskFailedCause, parts: &[&str]) {
    let failed = backend.failed.as_ref().expect("the task failed");
    assert_eq!(failed.cause, cause);
    let text = failed.to_string();
    for part in parts {
        assert!(text.contains(part), "`{part}` is not in: {text}");
    }
}

/// Wakes the channel from a thread of its own, which ends before this returns.
fn send_from_elsewhere(sender: oneshot::Sender<()>) {
    thread::scope(|scope| {
        scope.spawn(move || sender.send(()).expect("the receiver lives"));
    });
}

#[test]
fn a_wake_from_another_thread_inside_a_slice_fails_the_task() {
    let flow = Flow::new(|ctx, _| async move {
        let (sender, receiver) = oneshot::channel();
        drop(ctx.spawn(Box::pin(async move {
            drop(act(ctx, "a"));
            receiver.await.expect("the sender sends");
        })));
        sleep(ctx, 1).await;
        send_from_elsewhere(sender);
        sleep(ctx, 2).await;
        done()
    });
    let mut backend = Backend::started(flow);
    backend.fire(1).turn();
    let parts = [
        "branch 1 spawned at ",
        "last durable call at ",
        "nets.rs",
        "not durable",
    ];
    assert_failed(&backend, TaskFailedCause::WorkerUnhandledFailure, &parts);
}

#[test]
fn a_wake_between_slices_rings_once_and_fails_the_next_task() {
    let sender = Rc::new(std::cell::Cell::new(None));
    let given = Rc::clone(&sender);
    let flow = Flow::new(move |ctx, _| {
        let (sender, receiver) = oneshot::channel();
        given.set(Some(sender));
        async move {
            let timer = sleep(ctx, 1);
            receiver.await.expect("the sender sends");
            drop(timer);
            done()
        }
    });
    let rung = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&rung);
    let mut backend = Backend::new(flow);
    backend.foreign = Arc::new(move |run: RunId| {
        assert_eq!(run, crate::backend::RUN);
        counted.fetch_add(1, Ordering::SeqCst);
    });
    backend.turn();
    send_from_elsewhere(sender.take().expect("given"));
    assert_eq!(rung.load(Ordering::SeqCst), 1);
    backend.turn();
    assert_failed(
        &backend,
        TaskFailedCause::WorkerUnhandledFailure,
        &["main, last durable call"],
    );
}

#[test]
fn a_wake_of_a_run_that_was_evicted_is_ignored() {
    let sender = Rc::new(std::cell::Cell::new(None));
    let given = Rc::clone(&sender);
    let flow = Flow::new(move |ctx, _| {
        let (sender, receiver) = oneshot::channel::<()>();
        given.set(Some(sender));
        async move {
            let timer = sleep(ctx, 1);
            receiver.await.unwrap_or(());
            drop(timer);
            done()
        }
    });
    let mut backend = Backend::started(flow);
    let waker = sender.take().expect("given");
    backend.instance.take().expect("open").evict();
    drop(waker);
}

#[test]
fn primitives_inside_the_run_are_legal() {
    let flow = Flow::new(|ctx, log| async move {
        let (sender, receiver) = oneshot::channel();
        drop(ctx.spawn(Box::pin(async move {
            sleep(ctx, 1).await;
            sender.send("news").expect("the receiver lives");
        })));
        log.note(receiver.await.expect("the sender sends"));
        done()
    });
    let mut backend = Backend::started(flow);
    assert_eq!(short(&backend.fire(1).turn()), ["complete"]);
    assert_eq!(backend.log(), ["news"]);
}

#[test]
fn a_run_that_waits_for_nothing_fails_its_task() {
    let flow = Flow::new(|ctx, _| async move {
        act(ctx, "a").await;
        std::future::pending::<()>().await;
        done()
    });
    let mut backend = Backend::started(flow);
    backend.complete(1, "").turn();
    let parts = [
        "main, last durable call at ",
        "waits for something that is not durable",
    ];
    assert_failed(&backend, TaskFailedCause::WorkerUnhandledFailure, &parts);
}

#[test]
fn a_handler_or_a_receiver_is_something_to_wait_for() {
    let receiving = Flow::new(|ctx, _| async move {
        ctx.recv("go".into()).await;
        done()
    });
    assert_eq!(Backend::started(receiving).failure(), "");
    let handling = Flow::new(|ctx, _| async move {
        let handler: SignalHandler = Rc::new(|_, _| Box::pin(async { Ok(()) }));
        ctx.on_signal("go".into(), handler);
        std::future::pending::<()>().await;
        done()
    });
    assert_eq!(Backend::started(handling).failure(), "");
}

#[test]
fn a_panic_fails_the_task_and_names_branch_and_call() {
    let flow = Flow::new(|ctx, _| async move {
        drop(ctx.spawn(Box::pin(async move {
            let outcome = act(ctx, "a").await;
            assert!(outcome == Resolution::Canceled(None), "oh no {}", 7);
        })));
        sleep(ctx, 1).await;
        done()
    });
    let mut backend = Backend::started(flow);
    backend.complete(1, "").turn();
    let parts = [
        "oh no 7",
        "branch 1 spawned at ",
        "last durable call at ",
        "nets.rs",
    ];
    assert_failed(&backend, TaskFailedCause::WorkerUnhandledFailure, &parts);
}

#[test]
fn a_panic_of_a_handler_or_a_destructor_fails_the_task_too() {
    struct Loud;
    impl Drop for Loud {
        fn drop(&mut self) {
            assert!(thread::panicking(), "the destructor panics");
        }
    }
    let flow = Flow::new(|ctx, _| {
        let handler: SignalHandler = Rc::new(|_, _| panic!("the handler panics"));
        ctx.on_signal("go".into(), handler);
        async move {
            sleep(ctx, 1).await;
            drop(Loud);
            done()
        }
    });
    let mut backend = Backend::started(flow);
    backend.signal("go", "").turn();
    let cause = TaskFailedCause::WorkerUnhandledFailure;
    assert_failed(
        &backend,
        cause,
        &["the handler panics", "handler of signal `go`"],
    );
}

#[test]
fn a_destructor_that_panics_does_not_stop_an_eviction() {
    struct Loud;
    impl Drop for Loud {
        fn drop(&mut self) {
            assert!(thread::panicking(), "the destructor panics");
        }
    }
    let flow = Flow::new(|ctx, _| async move {
        let _loud = Loud;
        sleep(ctx, 1).await;
        done()
    });
    let mut backend = Backend::started(flow);
    backend.instance.take().expect("open").evict();
    assert!(Context::current().is_none());
}

#[test]
fn an_input_that_does_not_decode_fails_the_task_not_the_run() {
    struct Refusing;
    impl Program for Refusing {
        fn start(
            &self,
            _: Context,
            _: &outlast_model::event::Started,
        ) -> Result<MainFuture, Failure> {
            Err(Failure::application("outlast.Decode", "not a number"))
        }
    }
    let backend = Backend::new(Flow::new(|_, _| async { done() }));
    let jobs = backend.history.iter().filter_map(Job::from_event).collect();
    let activation = Activation {
        now: Timestamp(1),
        is_replaying: false,
        history_events: 1,
        suggest_continue_as_new: false,
        jobs,
    };
    let failed = Instance::start(&Refusing, &activation, &no_foreign(), &Unwatched);
    let failed = failed.expect_err("refused");
    assert_eq!(failed.cause, TaskFailedCause::WorkerUnhandledFailure);
    assert_eq!(failed.failure.message, "not a number");
}

#[test]
fn an_outcome_of_something_never_asked_for_is_a_contradiction() {
    let mut backend = Backend::started(Flow::new(|ctx, _| async move {
        act(ctx, "a").await;
        done()
    }));
    let activation = |seq| Activation {
        now: Timestamp(1),
        is_replaying: false,
        history_events: 1,
        suggest_continue_as_new: false,
        jobs: vec![Job::ResolveActivity {
            seq: Seq(seq),
            resolution: Resolution::Canceled(None),
        }],
    };
    let instance = backend.instance.as_mut().expect("open");
    let failed = instance
        .activate(&activation(2), &Unwatched)
        .expect_err("unknown");
    assert_eq!(failed.cause, TaskFailedCause::NonDeterminism);
    assert!(
        failed
            .to_string()
            .contains("resolves activity 2, but the code has asked for only 1")
    );
}

#[test]
fn the_thread_knows_whether_it_runs_workflow_code() {
    assert!(!in_slice());
    let flow = Flow::new(|ctx, log: Log| async move {
        log.note(format!("{} {}", in_slice(), Context::current().is_some()));
        sleep(ctx, 1).await;
        done()
    });
    let backend = Backend::started(flow);
    assert_eq!(backend.log(), ["true true"]);
    assert!(!in_slice());
}

#[test]
fn a_context_is_of_use_in_its_own_code_only() {
    let kept = Rc::new(std::cell::Cell::new(None));
    let keeper = Rc::clone(&kept);
    let flow = Flow::new(move |ctx, _| {
        keeper.set(Some(ctx));
        async move {
            sleep(ctx, 1).await;
            done()
        }
    });
    let mut backend = Backend::started(flow);
    let ctx = kept.take().expect("kept");
    let outside = catch_unwind(AssertUnwindSafe(|| act(ctx, "outside").detach()));
    assert!(outside.is_err(), "durable calls belong inside");
    assert_eq!(ctx.run_id(), crate::backend::RUN);
    backend.instance.take().expect("open").evict();
    assert!(catch_unwind(AssertUnwindSafe(|| ctx.run_id())).is_err());
}

/// Polls a call when it is dropped, as a destructor that blocks on one would.
struct LastLook(Option<Operation>, Log);

impl Drop for LastLook {
    fn drop(&mut self) {
        let mut call = self.0.take().expect("looked at once");
        let seen = Pin::new(&mut call).poll(&mut Wakers::from_waker(Waker::noop()));
        self.1.note(match seen {
            Poll::Ready(Resolution::Canceled(_)) => "cancelled",
            Poll::Ready(_) => "ended",
            Poll::Pending => "waits for ever",
        });
    }
}

#[test]
fn a_call_polled_in_a_destructor_after_an_eviction_resolves_at_once() {
    let flow = Flow::new(|ctx, log| async move {
        let _look = LastLook(Some(act(ctx, "a")), log);
        sleep(ctx, 1).await;
        done()
    });
    let mut backend = Backend::started(flow);
    backend.instance.take().expect("open").evict();
    assert_eq!(backend.log(), ["cancelled"]);
}

#[test]
fn a_call_kept_past_its_run_panics_where_it_is_polled_and_names_its_line() {
    let kept = Rc::new(std::cell::Cell::new(None));
    let keeper = Rc::clone(&kept);
    let flow = Flow::new(move |ctx, _| {
        let keeper = Rc::clone(&keeper);
        async move {
            keeper.set(Some(act(ctx, "a")));
            sleep(ctx, 1).await;
            done()
        }
    });
    let mut backend = Backend::started(flow);
    for is_there in [true, false] {
        if !is_there {
            backend.instance.take().expect("open").evict();
        }
        let mut call = kept.take().expect("kept");
        let polled = catch_unwind(AssertUnwindSafe(|| {
            drop(Pin::new(&mut call).poll(&mut Wakers::from_waker(Waker::noop())));
        }));
        let text = outlast_runtime::panic::text(polled.expect_err("it panics"));
        assert!(text.contains("activity 1 `a` at "), "{text}");
        assert!(
            text.contains("nets.rs:") && text.contains("do not keep it"),
            "{text}"
        );
        kept.set(Some(call));
    }
}
