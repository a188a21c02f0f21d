//! A drop-fuzzer: each future of the owner that a caller holds, dropped after each number of
//! polls. Whatever it was about goes on, and nothing is lost.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use outlast_model::Payload;
use outlast_model::task::AttemptResult;
use outlast_worker::handle::PolledActivity;
use outlast_worker::owner::Owner;
use outlast_worker::owner::entry::State;
use tokio::task::yield_now;

use crate::chance::in_virtual_time;
use crate::crew::{answer, owner, poll_activations, poll_activities, queue};
use crate::fake::{Fake, Opening, options};

type Make = fn(Owner) -> Dropped;
type Dropped = Pin<Box<dyn Future<Output = ()>>>;

/// The futures by name, and how to make each.
const FUTURES: [(&str, Make); 5] = [
    ("register", |owner| {
        Box::pin(async move { drop(owner.register(options("q")).await) })
    }),
    ("unregister", |owner| {
        Box::pin(async move { owner.unregister(&queue("q")).await })
    }),
    ("shutdown of another queue", |owner| {
        Box::pin(async move { owner.unregister(&queue("other")).await })
    }),
    ("next_activation", |owner| {
        Box::pin(async move {
            let Ok(polled) = owner.next_activation(&queue("q")).await else {
                return;
            };
            let completion = answer(&polled.item.work);
            let (name, run_id) = (queue("q"), polled.item.run_id);
            let then = Box::new(drop);
            owner.complete_activation(&name, polled.generation, run_id, completion, then);
        })
    }),
    ("next_activity", |owner| {
        Box::pin(async move {
            let Ok(polled) = owner.next_activity(&queue("q")).await else {
                return;
            };
            if let PolledActivity::Start(token, _) = polled.item {
                let result = AttemptResult::Completed(Payload::null());
                let then = Box::new(drop);
                owner.complete_activity(&queue("q"), polled.generation, token, result, then);
            }
        })
    }),
];

#[test]
fn whatever_is_dropped_at_whatever_poll_nothing_is_lost() {
    for (name, make) in FUTURES {
        for polls in 0..30 {
            for pause in 0..4 {
                in_virtual_time(one(name, make, polls, pause));
            }
        }
    }
}

async fn one(name: &str, make: Make, polls: u32, pause: u32) {
    let fake = Fake::new();
    let (owner, told) = owner(&fake);
    fake.openings([Opening::Takes(Duration::from_millis(5))]);
    if name != "register" {
        owner.register(options("q")).await.expect("it opens");
        owner.register(options("other")).await.expect("it opens");
    }
    let runs = [1, 2, 3].map(|number| fake.start("q", number, "w"));
    let mut dropped = make(owner.clone());
    for _ in 0..polls {
        for _ in 0..pause {
            yield_now().await;
        }
        let poll = poll_fn(|cx| Poll::Ready(dropped.as_mut().poll(cx))).await;
        if poll.is_ready() {
            break;
        }
    }
    drop(dropped);
    // If it had begun, it goes on; if not, it is asked for again.
    if owner.state(&queue("q")) == State::Closing {
        owner.unregister(&queue("q")).await;
    }
    if owner.state(&queue("q")) == State::Absent {
        owner.register(options("q")).await.expect("it is free");
    }
    drop((poll_activations(&owner, "q"), poll_activities(&owner, "q")));
    let ended = tokio::time::timeout(Duration::from_secs(3_600), fake.all_ended()).await;
    assert!(
        ended.is_ok(),
        "{name} dropped after {polls} polls, {pause} apart: {:#?}",
        told.events()
    );
    let begun = fake.world().attempts.iter().map(|it| it.begun).max();
    assert_eq!(begun, Some(1), "{name} dropped after {polls} polls");
    assert_eq!(fake.world().attempts.len(), runs.len());
    owner.shutdown().await;
    assert!(fake.world().handles.values().all(|handle| handle.is_final));
    fake.is_content();
}
