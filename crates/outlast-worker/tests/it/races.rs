//! Registrations, unregistrations and recycles that race with each other, under seeds.

use std::time::Duration;

use outlast_worker::handle::OpenError;
use outlast_worker::owner::entry::State;
use tokio::task::{JoinSet, yield_now};

use crate::chance::{Dice, in_virtual_time, seeds};
use crate::crew::{owner, poll_activations, poll_activities, queue};
use crate::fake::{Fake, Opening, options};

const QUEUES: [&str; 2] = ["a", "b"];

#[test]
fn whatever_races_one_handle_serves_a_queue_and_none_is_left_behind() {
    for seed in 0..seeds() {
        in_virtual_time(one(seed));
    }
}

async fn one(seed: u64) {
    let mut dice = Dice::new(seed);
    let fake = Fake::new();
    let (owner, _) = owner(&fake);
    let mut racing = JoinSet::new();
    for number in 0..30 {
        let name = QUEUES[usize::from(dice.below(2) == 1)];
        match dice.below(8) {
            0..3 => {
                fake.openings([opening(&mut dice)]);
                let owner = owner.clone();
                racing.spawn(async move { drop(owner.register(options(name)).await) });
            }
            3..5 => {
                let owner = owner.clone();
                racing.spawn(async move { owner.unregister(&queue(name)).await });
            }
            5 => drop(owner.recycle(&queue(name))),
            6 => drop(fake.start(name, number, "w")),
            _ => tokio::time::sleep(Duration::from_millis(dice.below(300))).await,
        }
        for _ in 0..dice.below(3) {
            yield_now().await;
        }
        let state = owner.state(&queue(name));
        assert_eq!(state.is_registered(), owner.is_registered(&queue(name)));
    }
    while let Some(raced) = racing.join_next().await {
        raced.expect("no panic");
    }
    for name in QUEUES {
        owner.unregister(&queue(name)).await;
        assert_eq!(owner.state(&queue(name)), State::Absent, "seed {seed}");
    }
    let all_final = fake.world().handles.values().all(|handle| handle.is_final);
    assert!(all_final, "seed {seed}: a handle was left behind");
    fake.is_content();
    // What was started meanwhile is not lost.
    fake.change(|world| world.openings.clear());
    for name in QUEUES {
        owner.register(options(name)).await.expect("it is free");
        drop((
            poll_activations(&owner, name),
            poll_activities(&owner, name),
        ));
    }
    let ended = tokio::time::timeout(Duration::from_secs(3_600), fake.all_ended()).await;
    assert!(ended.is_ok(), "seed {seed}");
    owner.shutdown().await;
    fake.is_content();
}

fn opening(dice: &mut Dice) -> Opening {
    match dice.below(6) {
        0 => Opening::Fails(OpenError::Transient("as told".into())),
        1 => Opening::Fails(OpenError::Refused("as told".into())),
        2 => Opening::Panics,
        _ => Opening::Takes(Duration::from_millis(dice.below(200))),
    }
}
