//! What waits behind nothing: answers, heartbeats, stops and errors of one that hangs, and the work
//! of real workers whose answers are lost, held back or late.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use outlast_model::options::ActivityOptions;
use outlast_model::task::AttemptResult;
use outlast_model::{Failure, Payload, Resolution, RunId};
use outlast_runtime::{Context, MainFuture, MainOutcome};
use outlast_worker::handle::{PollError, PolledActivity};
use outlast_worker::owner::entry::State;
use outlast_worker::{ActivityCode, Body, Settings};
use tokio::sync::Notify;

use crate::crew::{owner, poll_activations, poll_activities, queue};
use crate::fake::{Fake, options};
use crate::served::{Served, registry};

#[tokio::test(start_paused = true)]
async fn heartbeats_and_answers_of_attempts_wait_behind_no_other_answer() {
    let fake = Fake::new();
    let (owner, _) = owner(&fake);
    let mut options = options("q");
    options.one_completion_at_a_time = true;
    owner.register(options).await.expect("it opens");
    let poller = poll_activations(&owner, "q");
    for number in [1, 2] {
        fake.start("q", number, "w");
    }
    let name = queue("q");
    let mut attempts = Vec::new();
    for _ in 0..2 {
        let polled = owner.next_activity(&name).await.expect("a task");
        let PolledActivity::Start(token, _) = polled.item else {
            panic!("{:?}", polled.item);
        };
        attempts.push(token);
    }
    // The answer of a third run hangs, and that of the first attempt.
    let (gate, answers) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    fake.change(|world| {
        world.held.insert(RunId(3), gate.clone());
        world.answer_gates.push_back(answers.clone());
    });
    fake.start("q", 3, "w");
    fake.until(|world| world.completing == 1).await;
    let done = || AttemptResult::Completed(Payload::null());
    owner.complete_activity(&name, 1, attempts[0].clone(), done(), Box::new(drop));
    fake.until(|world| world.answer_gates.is_empty()).await;
    owner.heartbeat(&name, 1, &attempts[1], Payload::bytes("half way"));
    owner.complete_activity(&name, 1, attempts[1].clone(), done(), Box::new(drop));
    fake.until(|world| world.attempts[1].is_done).await;
    {
        let world = fake.world();
        assert_eq!(world.heartbeats, [Payload::bytes("half way")]);
        assert_eq!(world.completing, 1, "it hangs");
        assert!(!world.attempts[0].is_done, "it hangs too");
    }
    gate.notify_one();
    answers.notify_one();
    fake.change(|world| world.held.clear());
    let rest = poll_activities(&owner, "q");
    fake.all_ended().await;
    poller.abort();
    rest.abort();
    fake.is_content();
}

#[tokio::test(start_paused = true)]
async fn a_stop_that_hangs_holds_up_no_other_queue() {
    let fake = Fake::new();
    let (owner, _) = owner(&fake);
    owner.register(options("slow")).await.expect("it opens");
    let gate = Arc::new(Notify::new());
    fake.change(|world| world.final_gates.push_back(gate.clone()));
    let stopping = tokio::spawn({
        let owner = owner.clone();
        async move { owner.unregister(&queue("slow")).await }
    });
    fake.until(|world| world.final_gates.is_empty()).await;
    owner.register(options("other")).await.expect("it opens");
    assert_eq!(owner.state(&queue("other")), State::Open);
    let pollers = [
        poll_activations(&owner, "other"),
        poll_activities(&owner, "other"),
    ];
    fake.start("other", 1, "w");
    fake.all_ended().await;
    assert!(!stopping.is_finished(), "it hangs");
    gate.notify_one();
    stopping.await.expect("no panic");
    owner.unregister(&queue("other")).await;
    for poller in pollers {
        poller.await.expect("it leaves by itself");
    }
    fake.is_content();
}

#[tokio::test(start_paused = true)]
async fn a_fatal_error_reaches_no_poller_and_a_shutdown_that_passes_does_not_end_one() {
    let fake = Fake::new();
    let (owner, told) = owner(&fake);
    owner.register(options("q")).await.expect("it opens");
    fake.fail_polls((0..3).map(|_| PollError::Fatal("broken".into())));
    fake.start("q", 1, "w");
    let mut shutdowns = 0;
    let polled = loop {
        match owner.next_activation(&queue("q")).await {
            Ok(polled) => break polled,
            Err(PollError::Shutdown) => shutdowns += 1,
            Err(other) => panic!("a poller heard of {other}"),
        }
        assert!(owner.is_registered(&queue("q")), "so it asks again");
    };
    assert_eq!(polled.generation, 4);
    assert!(shutdowns <= 3, "{shutdowns} for three handles");
    assert_eq!(told.count("queue-recycled"), 3);
}

fn one_call(ctx: Context) -> MainFuture {
    Box::pin(async move {
        let call = ctx.activity("work".into(), Payload::null(), ActivityOptions::default());
        let result = match call.await {
            Resolution::Completed(result) => result,
            Resolution::Failed(..) | Resolution::Canceled(_) => Payload::null(),
        };
        MainOutcome::Completed(result)
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_attempt_that_is_handed_out_again_runs_again() {
    let runs = Arc::new(AtomicU32::new(0));
    let counted = runs.clone();
    let work: ActivityCode = Arc::new(move |_, _| {
        let counted = counted.clone();
        Body::Async(Box::pin(async move {
            let nth = counted.fetch_add(1, Ordering::SeqCst) + 1;
            AttemptResult::Completed(Payload::bytes(format!("run {nth}")))
        }))
    });
    let served = Served::new(registry(one_call, work), Settings::default()).await;
    served.fake.change(|world| {
        world.timeout = Duration::from_millis(300);
        // The first answer is taken, and forgotten.
        world.lost_answers = 1;
    });
    let run_id = served.fake.start("q", 1, "flow");
    served.all_ended().await;
    assert_eq!(runs.load(Ordering::SeqCst), 2, "its code ran twice");
    {
        let world = served.fake.world();
        assert_eq!(world.attempts[0].begun, 2);
        let result = world.runs[&run_id].result.clone();
        assert_eq!(result, Some(Payload::bytes("run 2")), "the newer answer");
    }
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_is_unregistered_first_and_what_is_under_way_is_still_answered() {
    let (began, gate) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let seen = (began.clone(), gate.clone());
    let work: ActivityCode = Arc::new(move |ctx, _| {
        let (began, gate) = seen.clone();
        Body::Async(Box::pin(async move {
            began.notify_one();
            gate.notified().await;
            ctx.heartbeat(Payload::bytes("still here"));
            AttemptResult::Completed(Payload::null())
        }))
    });
    let served = Served::new(registry(one_call, work), Settings::default()).await;
    served.fake.start("q", 1, "flow");
    began.notified().await;
    // The run leaves the handle after the attempt: until then the backend has not stopped.
    let eviction = Arc::new(Notify::new());
    served.until(|world| world.completing == 0).await;
    served
        .fake
        .change(|world| world.held.insert(RunId(1), eviction.clone()));
    let worker = served.worker.clone();
    let stopping = tokio::task::spawn_blocking(move || worker.stop());
    served.until(|world| world.handles[&1].is_stopping).await;
    assert!(!served.owner.is_registered(&queue("q")));
    {
        let world = served.fake.world();
        assert!(
            !world.handles[&1].is_final,
            "it waits for what is under way"
        );
        assert!(!world.attempts[0].is_done);
    }
    gate.notify_one();
    served.until(|world| world.attempts[0].is_done).await;
    served.fake.change(|world| world.held.clear());
    eviction.notify_one();
    let left = stopping.await.expect("no panic");
    assert_eq!(left, Vec::<String>::new());
    served.until(|world| world.handles[&1].is_final).await;
    {
        let world = served.fake.world();
        let attempt = &world.attempts[0];
        assert!(attempt.is_done && attempt.begun == 1, "its answer counts");
        assert_eq!(world.heartbeats, [Payload::bytes("still here")]);
        assert!(
            world.handles[&1].cached.is_empty(),
            "evictions are answered"
        );
        assert_eq!(world.handles.len(), 1);
    }
    assert_eq!(served.told.count("part-restarted"), 0, "nobody was killed");
    served.fake.is_content();
    // Its pollers have left, and so has everything else.
    drop(served);
    let tasks = tokio::runtime::Handle::current().metrics();
    while tasks.num_alive_tasks() > 0 {
        tokio::task::yield_now().await;
    }
}

/// What arrives of three reports of an attempt that then waits and fails.
async fn reported(settings: Settings, is_flushed: bool) -> Vec<Payload> {
    let gate = Arc::new(Notify::new());
    let opened = Arc::new(Mutex::new(gate.clone()));
    let work: ActivityCode = Arc::new(move |ctx, _| {
        let gate = opened.lock().expect("nobody panics").clone();
        Body::Async(Box::pin(async move {
            for n in ["one", "two", "three"] {
                ctx.heartbeat(Payload::bytes(n));
            }
            gate.notified().await;
            AttemptResult::Failed(Failure::application("as told", "Test"))
        }))
    });
    let served = Served::new(registry(one_call, work), settings).await;
    served.fake.start("q", 1, "flow");
    let arrived = if is_flushed { 2 } else { 1 };
    served
        .until(|world| world.heartbeats.len() >= arrived)
        .await;
    gate.notify_one();
    served.all_ended().await;
    let heartbeats = served.fake.world().heartbeats.clone();
    served.stop().await;
    heartbeats
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reports_are_held_back_for_an_interval_and_the_newest_goes_out_before_a_failure() {
    let every = |heartbeat_interval| Settings {
        heartbeat_interval,
        ..Settings::default()
    };
    let [one, two, three] = ["one", "two", "three"].map(Payload::bytes);
    let ends = [one.clone(), three.clone()];
    assert_eq!(reported(Settings::default(), false).await, ends);
    // The settings are those in use.
    let short = Duration::from_millis(50);
    assert_eq!(
        reported(every(short), true).await,
        ends,
        "it goes out by itself"
    );
    let all = [one, two, three];
    assert_eq!(reported(every(Duration::ZERO), false).await, all);
    let at_most = Settings {
        heartbeat_interval_max: Duration::ZERO,
        ..Settings::default()
    };
    assert_eq!(reported(at_most, false).await, all);
}
