//! The rules of the owner, one by one.

use std::sync::Arc;
use std::time::Duration;

use outlast_model::RunId;
use outlast_model::task::AttemptResult;
use outlast_worker::handle::{
    BackendToken, CompleteError, OpenError, PollError, PolledActivity, QueueOptions,
};
use outlast_worker::owner::RegisterError;
use outlast_worker::owner::entry::State;
use tokio::sync::{Notify, oneshot};
use tokio::task::yield_now;
use tokio::time::Instant;

use crate::crew::{answer, owner, poll_activations, poll_activities, queue};
use crate::fake::{Fake, Opening, options};

#[tokio::test(start_paused = true)]
async fn a_registration_answers_when_the_handle_is_open() {
    let fake = Fake::new();
    let gate = Arc::new(Notify::new());
    fake.openings([Opening::Waits(gate.clone())]);
    let (owner, _) = owner(&fake);
    let registering = tokio::spawn({
        let owner = owner.clone();
        async move { owner.register(options("q")).await }
    });
    fake.until(|world| world.opened == 1).await;
    assert_eq!(owner.state(&queue("q")), State::Opening);
    assert!(owner.is_registered(&queue("q")), "pollers may wait for it");
    assert!(!registering.is_finished());
    gate.notify_one();
    registering.await.expect("no panic").expect("it opens");
    assert_eq!(owner.state(&queue("q")), State::Open);
}

#[tokio::test(start_paused = true)]
async fn a_duplicate_is_refused_also_while_the_first_is_under_way() {
    let fake = Fake::new();
    let gate = Arc::new(Notify::new());
    fake.openings([Opening::Waits(gate.clone())]);
    let (owner, _) = owner(&fake);
    let first = tokio::spawn({
        let owner = owner.clone();
        async move { owner.register(options("q")).await }
    });
    fake.until(|world| world.opened == 1).await;
    let refused = Err(RegisterError::Registered(Box::new(options("q"))));
    assert_eq!(owner.register(options("q")).await, refused);
    gate.notify_one();
    first.await.expect("no panic").expect("it opens");
    assert_eq!(owner.register(options("q")).await, refused);
    assert_eq!(fake.world().opened, 1);
}

#[tokio::test(start_paused = true)]
async fn a_registration_that_loses_against_unregister_is_shut_down_and_dropped() {
    let fake = Fake::new();
    let gate = Arc::new(Notify::new());
    fake.openings([Opening::Waits(gate.clone())]);
    let (owner, _) = owner(&fake);
    let registering = tokio::spawn({
        let owner = owner.clone();
        async move { owner.register(options("q")).await }
    });
    fake.until(|world| world.opened == 1).await;
    let unregistering = tokio::spawn({
        let owner = owner.clone();
        async move { owner.unregister(&queue("q")).await }
    });
    let lost = registering.await.expect("no panic");
    assert_eq!(
        lost,
        Err(RegisterError::Unregistered(Box::new(options("q"))))
    );
    assert!(!unregistering.is_finished(), "the opening is under way");
    let again = owner.register(options("q")).await;
    assert_eq!(again, Err(RegisterError::Closing(Box::new(options("q")))));
    gate.notify_one();
    unregistering.await.expect("no panic");
    assert!(fake.world().handles.values().all(|handle| handle.is_final));
    owner
        .register(options("q"))
        .await
        .expect("it is free again");
}

#[tokio::test(start_paused = true)]
async fn unregister_is_visible_at_once_and_answers_when_the_backend_has_stopped() {
    let fake = Fake::new();
    let (owner, _) = owner(&fake);
    owner.register(options("q")).await.expect("it opens");
    let run_id = fake.start("q", 1, "w");
    let polled = owner.next_activation(&queue("q")).await.expect("a task");
    let unregistering = tokio::spawn({
        let owner = owner.clone();
        async move { owner.unregister(&queue("q")).await }
    });
    fake.until(|world| world.handles[&1].is_stopping).await;
    assert!(!owner.is_registered(&queue("q")));
    assert!(!unregistering.is_finished(), "an answer is due");
    let completion = answer(&polled.item.work);
    owner.complete_activation(&queue("q"), 1, run_id, completion, Box::new(drop));
    // Nobody has promised to take the eviction that follows: the owner answers it.
    unregistering.await.expect("no panic");
    assert!(fake.world().handles[&1].is_final);
    assert_eq!(fake.world().handles[&1].cached.len(), 0);
    fake.is_content();
}

#[tokio::test(start_paused = true)]
async fn parked_polls_return_when_the_queue_is_unregistered() {
    let fake = Fake::new();
    let (owner, _) = owner(&fake);
    owner.register(options("q")).await.expect("it opens");
    let parked = [
        poll_activations(&owner, "q"),
        poll_activities(&owner, "q"),
        poll_activations(&owner, "q"),
    ];
    yield_now().await;
    owner.unregister(&queue("q")).await;
    for poller in parked {
        poller.await.expect("it leaves by itself");
    }
    let late = owner.next_activity(&queue("q")).await;
    assert_eq!(late, Err(PollError::Shutdown));
    fake.is_content();
}

#[tokio::test(start_paused = true)]
async fn unregistering_what_nobody_registered_is_fine() {
    let (owner, told) = owner(&Fake::new());
    owner.unregister(&queue("q")).await;
    assert!(!owner.recycle(&queue("q")));
    assert_eq!(told.events(), []);
}

#[tokio::test(start_paused = true)]
async fn a_recycled_handle_is_another_one_with_the_same_options() {
    let fake = Fake::new();
    let (owner, _) = owner(&fake);
    owner.register(options("q")).await.expect("it opens");
    let poller = poll_activations(&owner, "q");
    assert!(owner.recycle(&queue("q")));
    assert!(owner.is_registered(&queue("q")), "it stays registered");
    fake.until(|world| world.handles.len() == 2).await;
    {
        let world = fake.world();
        assert_eq!(world.handles[&1].queue, world.handles[&2].queue);
        assert!(world.handles[&1].is_stopping && !world.handles[&2].is_stopping);
    }
    assert!(!poller.is_finished(), "pollers saw a shutdown that passes");
    fake.start("q", 1, "w");
    let polled = owner.next_activity(&queue("q")).await;
    let polled = polled.expect("pollers go on");
    assert_eq!(polled.generation, 2);
}

/// None of them as it is by default.
fn unusual() -> QueueOptions {
    let second = Duration::from_secs(1);
    QueueOptions {
        queue: queue("q"),
        cached_runs: 11,
        slice_slots: 12,
        activity_slots: 13,
        step_slots: 14,
        workflow_pollers: 1,
        activity_pollers: 2,
        sticky_timeout: 15 * second,
        longest_heartbeat: 16 * second,
        default_heartbeat: 17 * second,
        one_completion_at_a_time: true,
    }
}

#[tokio::test(start_paused = true)]
async fn every_handle_of_a_queue_is_opened_with_the_options_it_was_registered_with() {
    let fake = Fake::new();
    let (owner, _) = owner(&fake);
    owner.register(unusual()).await.expect("it opens");
    let poller = poll_activations(&owner, "q");
    // A repair, a broken handle, an opening that fails at first.
    assert!(owner.recycle(&queue("q")));
    fake.until(|world| world.handles.len() == 2).await;
    fake.fail_polls([PollError::Fatal("broken".into())]);
    fake.until(|world| world.handles.len() == 3).await;
    fake.openings([Opening::Fails(OpenError::Transient("not yet".into()))]);
    assert!(owner.recycle(&queue("q")));
    fake.until(|world| world.handles.len() == 4).await;
    for (number, handle) in &fake.world().handles {
        assert_eq!(handle.options, unusual(), "handle {number}");
    }
    assert!(!poller.is_finished(), "pollers go on");
    owner.unregister(&queue("q")).await;
    fake.is_content();
}

#[tokio::test(start_paused = true)]
async fn a_handle_recycled_while_its_queue_is_unregistered_is_dropped() {
    let fake = Fake::new();
    let gate = Arc::new(Notify::new());
    let (owner, _) = owner(&fake);
    owner.register(options("q")).await.expect("it opens");
    fake.openings([Opening::Waits(gate.clone())]);
    owner.recycle(&queue("q"));
    fake.until(|world| world.opened == 2).await;
    assert_eq!(owner.state(&queue("q")), State::Reopening);
    let unregistering = tokio::spawn({
        let owner = owner.clone();
        async move { owner.unregister(&queue("q")).await }
    });
    yield_now().await;
    assert!(!owner.is_registered(&queue("q")));
    gate.notify_one();
    unregistering.await.expect("no panic");
    assert_eq!(fake.world().handles.len(), 2);
    assert!(fake.world().handles.values().all(|handle| handle.is_final));
    fake.is_content();
}

#[tokio::test(start_paused = true)]
async fn what_a_dead_poller_asked_for_goes_to_the_next() {
    let fake = Fake::new();
    let (owner, _) = owner(&fake);
    owner.register(options("q")).await.expect("it opens");
    let asked = tokio::spawn({
        let owner = owner.clone();
        async move { owner.next_activation(&queue("q")).await }
    });
    yield_now().await;
    yield_now().await;
    asked.abort();
    assert!(asked.await.is_err(), "it died while it waited");
    let run_id = fake.start("q", 1, "w");
    let begun = Instant::now();
    // The poll went on: its answer is there, and it is not asked for twice.
    let polled = owner.next_activation(&queue("q")).await.expect("a task");
    assert_eq!(polled.item.run_id, run_id);
    assert_eq!(begun.elapsed(), Duration::ZERO, "nobody had to wait for it");
    fake.is_content();
}

#[tokio::test(start_paused = true)]
async fn nothing_is_claimed_that_nobody_waits_for() {
    let fake = Fake::new();
    let (owner, _) = owner(&fake);
    owner.register(options("q")).await.expect("it opens");
    fake.start("q", 1, "w");
    fake.start("q", 2, "w");
    owner.next_activation(&queue("q")).await.expect("a task");
    tokio::time::sleep(Duration::from_secs(1)).await;
    let claimed = fake.world().handles[&1].cached.len();
    assert_eq!(claimed, 1, "one was asked for, one was handed out");
}

#[tokio::test(start_paused = true)]
async fn a_fatal_error_opens_another_handle_with_back_off() {
    let fake = Fake::new();
    let (owner, told) = owner(&fake);
    owner.register(options("q")).await.expect("it opens");
    fake.fail_polls((0..5).map(|_| PollError::Fatal("broken".into())));
    let pollers = [poll_activations(&owner, "q"), poll_activities(&owner, "q")];
    let begun = Instant::now();
    fake.start("q", 1, "w");
    fake.all_ended().await;
    let broken = told.count("queue-recycled");
    assert_eq!(broken, 5);
    // 75 + 150 + 300 + 600 + 1200 ms: three quarters of doubling pauses.
    let spent = begun.elapsed();
    assert!(
        spent >= Duration::from_millis(2_325) && spent < Duration::from_millis(2_500),
        "{spent:?}"
    );
    assert!(pollers.iter().all(|poller| !poller.is_finished()));
    fake.is_content();
}

#[tokio::test(start_paused = true)]
async fn transient_errors_back_off_and_pollers_hear_nothing() {
    let fake = Fake::new();
    let (owner, told) = owner(&fake);
    owner.register(options("q")).await.expect("it opens");
    fake.fail_polls((0..3).map(|_| PollError::Transient("busy".into())));
    fake.start("q", 1, "w");
    let begun = Instant::now();
    let polled = owner.next_activation(&queue("q")).await;
    assert!(polled.is_ok(), "{polled:?}");
    assert_eq!(begun.elapsed(), Duration::from_millis(75 + 150 + 300));
    assert_eq!(fake.world().handles.len(), 1, "the handle is the same");
    let failed = told.count("backend-unavailable");
    assert_eq!(failed, 3);
}

#[tokio::test(start_paused = true)]
async fn a_backend_that_is_down_at_start_is_tried_again_and_then_given_up() {
    let fake = Fake::new();
    let down = || Opening::Fails(OpenError::Transient("connection refused".into()));
    let (owner, told) = owner(&fake);
    fake.openings([down(), Opening::Panics]);
    owner.register(options("q")).await.expect("the third try");
    assert_eq!(fake.world().opened, 3);
    owner.unregister(&queue("q")).await;

    fake.openings([down(), down(), down(), down()]);
    let given_up = owner.register(options("q")).await;
    let error = OpenError::Transient("connection refused".into());
    assert_eq!(given_up, Err(RegisterError::Open(error)));
    assert!(!owner.is_registered(&queue("q")));
    let failed = told.count("backend-unavailable");
    assert_eq!(failed, 6);
    owner
        .register(options("q"))
        .await
        .expect("it can be tried again");
}

#[tokio::test(start_paused = true)]
async fn a_backend_that_refuses_is_not_asked_twice() {
    let fake = Fake::new();
    let error = OpenError::Refused("no such namespace".into());
    fake.openings([Opening::Fails(error.clone())]);
    let (owner, _) = owner(&fake);
    let refused = owner.register(options("q")).await;
    assert_eq!(refused, Err(RegisterError::Open(error)));
    assert_eq!(fake.world().opened, 1);
}

#[tokio::test(start_paused = true)]
async fn an_answer_whose_handle_is_gone_is_dropped_with_an_event() {
    let fake = Fake::new();
    let (owner, told) = owner(&fake);
    owner.register(options("q")).await.expect("it opens");
    let (tell, heard) = oneshot::channel();
    owner.complete_activity(
        &queue("q"),
        77,
        BackendToken(vec![1]),
        AttemptResult::HandedBack,
        Box::new(move |taken| drop(tell.send(taken))),
    );
    let taken = heard.await.expect("an answer");
    assert!(matches!(taken, Err(CompleteError::Gone(_))), "{taken:?}");
    let dropped = told.count("answer-dropped");
    assert_eq!(dropped, 1);
}

#[tokio::test(start_paused = true)]
async fn answers_of_runs_leave_side_by_side_unless_one_at_a_time_is_chosen() {
    for (one_at_a_time, most) in [(false, 3), (true, 1)] {
        let fake = Fake::new();
        let (owner, _) = owner(&fake);
        let mut options = options("q");
        options.one_completion_at_a_time = one_at_a_time;
        owner.register(options).await.expect("it opens");
        let gate = Arc::new(Notify::new());
        let runs = [1, 2, 3].map(|number| fake.start("q", number, "w"));
        fake.change(|world| world.held = runs.map(|run_id| (run_id, gate.clone())).into());
        let poller = poll_activations(&owner, "q");
        fake.until(|world| world.completing == most).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(fake.world().completing, most);
        for _ in 0..3 {
            fake.until(|world| world.completing > 0).await;
            gate.notify_one();
            yield_now().await;
        }
        fake.until(|world| world.runs.values().all(|run| run.done.len() == 1))
            .await;
        assert_eq!(fake.world().most_completing, most);
        poller.abort();
        fake.is_content();
    }
}

#[tokio::test(start_paused = true)]
async fn an_activity_never_waits_behind_a_workflow() {
    let fake = Fake::new();
    let (owner, _) = owner(&fake);
    let mut options = options("q");
    options.one_completion_at_a_time = true;
    owner.register(options).await.expect("it opens");
    let pollers = [poll_activations(&owner, "q"), poll_activities(&owner, "q")];
    let stuck = fake.start("q", 1, "w");
    fake.until(|world| world.runs[&stuck].done.len() == 1 && world.attempts[0].begun == 1)
        .await;
    let held = RunId(2);
    let gate = Arc::new(Notify::new());
    fake.change(|world| world.held.insert(held, gate.clone()));
    fake.start("q", 2, "w");
    fake.until(|world| world.completing == 1).await;
    // A workflow's answer is on its way, and stays there.
    fake.until(|world| world.attempts[0].is_done).await;
    assert_eq!(fake.world().completing, 1);
    gate.notify_one();
    fake.change(|world| world.held.clear());
    fake.all_ended().await;
    pollers.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test(start_paused = true)]
async fn a_poll_that_panics_is_a_broken_handle_and_siblings_notice_nothing() {
    let fake = Fake::new();
    let (owner, told) = owner(&fake);
    owner.register(options("sick")).await.expect("it opens");
    owner.register(options("sound")).await.expect("it opens");
    let name = queue("sound");
    let sound = owner.next_activity(&name);
    fake.change(|world| world.poll_panics = 1);
    let sick = [
        poll_activations(&owner, "sick"),
        poll_activities(&owner, "sick"),
    ];
    fake.start("sick", 1, "w");
    fake.all_ended().await;
    let broken = told.count("queue-recycled");
    assert_eq!(broken, 1);
    assert_eq!(fake.world().handles.len(), 3, "one of two was opened anew");
    let others = poll_activations(&owner, "sound");
    fake.start("sound", 2, "w");
    let polled = sound.await.expect("a task");
    assert!(matches!(polled.item, PolledActivity::Start(..)));
    assert_eq!(polled.generation, 2, "through its first handle");
    sick.iter()
        .chain([&others])
        .for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test(start_paused = true)]
async fn nothing_can_be_registered_after_shutdown() {
    let fake = Fake::new();
    let (owner, _) = owner(&fake);
    owner.register(options("a")).await.expect("it opens");
    owner.register(options("b")).await.expect("it opens");
    owner.shutdown().await;
    assert!(fake.world().handles.values().all(|handle| handle.is_final));
    assert_eq!(owner.register(options("c")).await, Err(RegisterError::Down));
    fake.is_content();
}
