//! Real programs on real engine threads, over the cluster in memory.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Waker;
use std::time::Duration;

use outlast_model::event::TaskFailedCause;
use outlast_model::options::ActivityOptions;
use outlast_model::task::{AttemptKind, AttemptResult, Permit, Query, StopReason};
use outlast_model::{Headers, Payload, QueueName, RunId};
use outlast_runtime::{Context, MainFuture, MainOutcome};
use outlast_worker::handle::{PollError, PolledQuery};
use outlast_worker::polled::AttemptHost;
use outlast_worker::{ActivityCode, Body, Dispatch, Settings, Worker, WorkerPort};
use tokio::sync::Notify;

use crate::crew::queue;
use crate::fake::World;
use crate::served::{Served, at_once, four_calls, registry};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_runs_over_a_polled_backend() {
    let served = Served::new(registry(four_calls, at_once()), Settings::default()).await;
    for number in 0..50 {
        served.fake.start("q", number, "flow");
    }
    served.all_ended().await;
    {
        let world = served.fake.world();
        let all = Some(Payload::bytes("all four"));
        assert!(world.runs.values().all(|run| run.result == all));
        assert!(world.runs.values().all(|run| run.failures.is_empty()));
        assert!(world.attempts.iter().all(|attempt| attempt.begun == 1));
        assert_eq!(world.attempts.len(), 150);
    }
    served
        .until(|world| world.handles[&1].cached.is_empty())
        .await;
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_pollers_of_the_port_lose_nothing_and_double_nothing() {
    let served = Served::new(registry(four_calls, at_once()), Settings::default()).await;
    for number in 0..100 {
        served.fake.start("q", number, "flow");
    }
    // They die whenever something has moved.
    let moved = |world: &World| world.runs.values().map(|run| run.done.len()).sum::<usize>();
    for seen in 0..500 {
        served.port.restart_pollers();
        served.until(|world| moved(world) > seen).await;
    }
    served.all_ended().await;
    assert!(served.fake.world().attempts.iter().all(|it| it.begun == 1));
    assert!(served.told.count("part-restarted") > 0, "some did die");
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_recycled_handle_replays_what_the_old_one_had() {
    let served = Served::new(registry(four_calls, at_once()), Settings::default()).await;
    served.fake.world().timeout = Duration::from_millis(500);
    for number in 0..60 {
        served.fake.start("q", number, "flow");
        if number % 10 == 5 {
            served.owner.recycle(&queue("q"));
        }
        if number % 30 == 7 {
            let fatal = PollError::Fatal("as told".into());
            served.fake.fail_polls([fatal]);
        }
        tokio::task::yield_now().await;
    }
    served.all_ended().await;
    assert!(served.fake.world().handles.len() > 1);
    assert_eq!(served.told.count("part-restarted"), 0, "its pollers go on");
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn questions_are_answered_also_by_a_run_that_has_ended() {
    let served = Served::new(registry(four_calls, at_once()), Settings::default()).await;
    let run_id = served.fake.start("q", 1, "flow");
    served.all_ended().await;
    served
        .until(|world| world.handles[&1].cached.is_empty())
        .await;
    let ask = |id: &str, name: &str| PolledQuery {
        id: id.into(),
        query: Query {
            name: name.into(),
            input: Payload::null(),
            headers: Headers::default(),
        },
    };
    served.fake.change(|world| {
        let questions = vec![ask("one", "__outlast_handlers"), ask("two", "no such")];
        world.questions.insert(run_id, questions)
    });
    served.until(|world| world.answers.len() == 2).await;
    {
        let world = served.fake.world();
        assert_eq!(world.answers[0].0, "one");
        assert!(world.answers[0].1.is_ok(), "{:?}", world.answers);
        assert_eq!(world.answers[1].0, "two");
        assert!(world.answers[1].1.is_err(), "{:?}", world.answers);
    }
    served.stop().await;
}

/// Blocks its thread the first time.
fn blocks_once(ctx: Context) -> MainFuture {
    Box::pin(async move {
        if !HAS_BLOCKED.swap(true, Ordering::SeqCst) {
            let gate = GATE.lock().expect("nobody panics");
            drop(gate);
        }
        ctx.activity("work".into(), Payload::null(), ActivityOptions::default())
            .await;
        MainOutcome::Completed(Payload::null())
    })
}

static GATE: Mutex<()> = Mutex::new(());
static HAS_BLOCKED: AtomicBool = AtomicBool::new(false);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stuck_run_fails_waits_for_its_thread_and_is_replayed() {
    let settings = Settings {
        deadlock_timeout: Duration::from_millis(200),
        deadlock_warning: Duration::from_millis(100),
        ..Settings::default()
    };
    let served = Served::new(registry(blocks_once, at_once()), settings).await;
    let held = tokio::task::block_in_place(|| GATE.lock().expect("nobody panics"));
    let culprit = served.fake.start("q", 2, "flow");
    // The gate is held by this thread: no await until it is let go.
    tokio::task::block_in_place(|| {
        while served.fake.world().runs[&culprit].failures.is_empty() {
            std::thread::yield_now();
        }
        // Others go on, also in the same lane, and the culprit is not started again.
        for number in [4, 6, 8, 1] {
            served.fake.start("q", number, "flow");
        }
        let others = || {
            let world = served.fake.world();
            let mut others = world.runs.iter().filter(|(run_id, _)| **run_id != culprit);
            others.all(|(_, run)| run.result.is_some())
        };
        while !others() {
            std::thread::yield_now();
        }
        assert_eq!(served.fake.world().runs[&culprit].done.len(), 0);
    });
    drop(held);
    served.all_ended().await;
    let failures = served.fake.world().runs[&culprit].failures.clone();
    assert_eq!(failures, [TaskFailedCause::Stuck]);
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_running_attempt_reports_and_hears_that_it_should_stop() {
    let reasons = Arc::new(Mutex::new(Vec::new()));
    let heard = reasons.clone();
    let work: ActivityCode = Arc::new(move |ctx, _| {
        let heard = heard.clone();
        Body::Async(Box::pin(async move {
            ctx.heartbeat(Payload::bytes("half way"));
            let reason = ctx.cancelled().await;
            heard.lock().expect("nobody panics").push(reason);
            AttemptResult::Completed(Payload::null())
        }))
    });
    let served = Served::new(registry(blocks_not, work), Settings::default()).await;
    served.fake.start("q", 1, "flow");
    served.until(|world| !world.heartbeats.is_empty()).await;
    served.fake.change(|world| {
        for attempt in &mut world.attempts {
            attempt.cancel = Some(StopReason::Cancelled);
        }
    });
    served.all_ended().await;
    assert_eq!(
        *reasons.lock().expect("nobody panics"),
        [StopReason::Cancelled]
    );
    served.stop().await;
}

fn blocks_not(ctx: Context) -> MainFuture {
    Box::pin(async move {
        ctx.activity("work".into(), Payload::null(), ActivityOptions::default())
            .await;
        MainOutcome::Completed(Payload::null())
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attempts_beyond_the_slots_wait_and_all_run() {
    let (now, most) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let seen = (now.clone(), most.clone());
    let work: ActivityCode = Arc::new(move |_, _| {
        let (now, most) = seen.clone();
        Body::Async(Box::pin(async move {
            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            tokio::task::yield_now().await;
            now.fetch_sub(1, Ordering::SeqCst);
            AttemptResult::Completed(Payload::null())
        }))
    });
    let settings = Settings {
        activity_slots: 3,
        ..Settings::default()
    };
    let served = Served::new(registry(blocks_not, work), settings).await;
    for number in 0..40 {
        served.fake.start("q", number, "flow");
    }
    served.all_ended().await;
    assert!(most.load(Ordering::SeqCst) <= 3);
    assert_eq!(served.port.load().1, 0, "no claim is left");
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_without_code_fails_and_others_do_not() {
    let served = Served::new(registry(blocks_not, at_once()), Settings::default()).await;
    let unknown = served.fake.start("q", 1, "no such flow");
    served.fake.start("q", 2, "flow");
    served
        .until(|world| !world.runs[&unknown].failures.is_empty())
        .await;
    served
        .until(|world| world.runs[&RunId(2)].result.is_some())
        .await;
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_taken_over_lane_loses_nothing() {
    let served = Served::new(registry(four_calls, at_once()), Settings::default()).await;
    for number in 0..40 {
        served.fake.start("q", number, "flow");
    }
    served.all_ended().await;
    served
        .until(|world| world.handles[&1].cached.is_empty())
        .await;
    // From here on this test drives the lane.
    let lane = served.port.drive(0);
    served.fake.start("q", 100, "flow");
    let next = tokio::task::block_in_place(|| served.port.next_task(lane));
    assert!(
        matches!(&next, outlast_worker::Next::Task(task) if task.run_id == RunId(100)),
        "{next:?}"
    );
    let again = served.port.drive(0);
    let replaced = tokio::task::block_in_place(|| served.port.next_task(lane));
    assert!(matches!(replaced, outlast_worker::Next::Replaced));
    served.fake.start("q", 102, "flow");
    let next = tokio::task::block_in_place(|| served.port.next_task(again));
    assert!(
        matches!(&next, outlast_worker::Next::Task(task) if task.run_id == RunId(102)),
        "{next:?}"
    );
}

/// Keeps its waker where anybody can find it.
fn leaks_its_waker(ctx: Context) -> MainFuture {
    Box::pin(async move {
        let mut call = ctx.activity("work".into(), Payload::null(), ActivityOptions::default());
        poll_fn(|cx| {
            *WAKER.lock().expect("nobody panics") = Some(cx.waker().clone());
            Pin::new(&mut call).poll(cx).map(drop)
        })
        .await;
        MainOutcome::Completed(Payload::null())
    })
}

static WAKER: Mutex<Option<Waker>> = Mutex::new(None);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_woken_from_outside_fails_its_next_activation() {
    let gate = Arc::new(Notify::new());
    let opened = gate.clone();
    let work: ActivityCode = Arc::new(move |_, _| {
        let gate = opened.clone();
        Body::Async(Box::pin(async move {
            gate.notified().await;
            AttemptResult::Completed(Payload::null())
        }))
    });
    let served = Served::new(registry(leaks_its_waker, work), Settings::default()).await;
    let run_id = served.fake.start("q", 1, "flow");
    served
        .until(|world| world.attempts.iter().any(|attempt| attempt.begun == 1))
        .await;
    let waker = WAKER.lock().expect("nobody panics").take();
    waker.expect("it was polled").wake();
    gate.notify_one();
    served.all_ended().await;
    let failures = served.fake.world().runs[&run_id].failures.clone();
    assert_eq!(failures, [TaskFailedCause::WorkerUnhandledFailure]);
    served.stop().await;
}

/// Panics the first time it is given something.
struct Panicky {
    worker: Arc<Worker>,
    has_panicked: AtomicBool,
}

impl AttemptHost for Panicky {
    fn take_slot(&self, queue: &QueueName, kind: AttemptKind) -> Permit {
        AttemptHost::take_slot(&*self.worker, queue, kind)
    }

    fn return_slot(&self, queue: &QueueName, kind: AttemptKind) {
        AttemptHost::return_slot(&*self.worker, queue, kind);
    }

    fn dispatch(&self, work: Vec<Dispatch>) {
        assert!(
            self.has_panicked.swap(true, Ordering::SeqCst),
            "the host panics as told"
        );
        self.worker.dispatch(work);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_panicking_part_held_is_failed_back_and_the_rest_goes_on() {
    let served = Served::without_host(registry(four_calls, at_once()), Settings::default()).await;
    let host: Arc<dyn AttemptHost> = Arc::new(Panicky {
        worker: served.worker.clone(),
        has_panicked: AtomicBool::new(false),
    });
    served.port.start(Arc::downgrade(&host));
    for number in 0..10 {
        served.fake.start("q", number, "flow");
    }
    served.all_ended().await;
    assert_eq!(served.told.count("part-restarted"), 1);
    assert_eq!(served.fake.world().handles.len(), 1, "the handle is whole");
    assert_eq!(served.port.load().1, 0, "no claim is left");
    assert!(served.fake.world().attempts.iter().all(|it| it.begun == 1));
    drop(host);
    served.stop().await;
}

/// Has no slot the first few times, though nothing runs.
struct Hesitant {
    worker: Arc<Worker>,
    refusals: AtomicU32,
}

impl AttemptHost for Hesitant {
    fn take_slot(&self, queue: &QueueName, kind: AttemptKind) -> Permit {
        if self.refusals.fetch_add(1, Ordering::SeqCst) < 3 {
            return Permit::Later(Duration::from_millis(1));
        }
        AttemptHost::take_slot(&*self.worker, queue, kind)
    }

    fn return_slot(&self, queue: &QueueName, kind: AttemptKind) {
        AttemptHost::return_slot(&*self.worker, queue, kind);
    }

    fn dispatch(&self, work: Vec<Dispatch>) {
        self.worker.dispatch(work);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_that_comes_later_is_asked_for_again() {
    let served = Served::without_host(registry(blocks_not, at_once()), Settings::default()).await;
    let host: Arc<dyn AttemptHost> = Arc::new(Hesitant {
        worker: served.worker.clone(),
        refusals: AtomicU32::new(0),
    });
    served.port.start(Arc::downgrade(&host));
    served.fake.start("q", 1, "flow");
    served.all_ended().await;
    drop(host);
    served.stop().await;
}
