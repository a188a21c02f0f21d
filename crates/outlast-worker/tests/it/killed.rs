//! Pollers that die at any moment, under seeds.

use std::time::Duration;

use outlast_worker::handle::PollError;
use outlast_worker::owner::Owner;
use tokio::task::{JoinHandle, yield_now};

use crate::chance::{Dice, in_virtual_time, seeds};
use crate::crew::{owner, poll_activations, poll_activities, queue};
use crate::fake::{Fake, options};

/// What else may go wrong.
#[derive(Clone, Copy, PartialEq)]
enum Trouble {
    OnlyPollers,
    HandlesToo,
}

#[test]
fn killed_pollers_lose_nothing_and_nothing_runs_twice() {
    for seed in 0..seeds() {
        in_virtual_time(one(seed, Trouble::OnlyPollers));
    }
}

#[test]
fn recycled_and_broken_handles_lose_nothing_under_load() {
    for seed in 0..seeds() {
        in_virtual_time(one(seed, Trouble::HandlesToo));
    }
}

async fn one(seed: u64, trouble: Trouble) {
    let mut dice = Dice::new(seed);
    let fake = Fake::new();
    let (owner, told) = owner(&fake);
    owner.register(options("q")).await.expect("it opens");
    if trouble == Trouble::OnlyPollers {
        // Nothing is handed out again: what is lost stays lost.
        fake.world().timeout = Duration::from_secs(86_400);
    }
    let mut pollers: Vec<JoinHandle<()>> = (0..4).map(|n| poller(&owner, n)).collect();
    let mut runs = 0;
    let mut troubles = 0;
    for _ in 0..80 {
        for _ in 0..dice.below(4) {
            yield_now().await;
        }
        match dice.below(12) {
            0..4 if runs < 12 => {
                runs += 1;
                fake.start("q", u128::from(dice.roll()), "w");
            }
            4..9 => {
                let which = dice.below(4);
                let at = usize::try_from(which).expect("small");
                pollers[at].abort();
                pollers[at] = poller(&owner, which);
            }
            9 if trouble == Trouble::HandlesToo => {
                troubles += 1;
                owner.recycle(&queue("q"));
            }
            10 if trouble == Trouble::HandlesToo => {
                troubles += 1;
                fake.fail_polls([PollError::Fatal("as told".into())]);
            }
            11 => fake.fail_polls([PollError::Transient("as told".into())]),
            _ => {}
        }
    }
    let ended = tokio::time::timeout(Duration::from_secs(3_600), fake.all_ended()).await;
    assert!(ended.is_ok(), "seed {seed}: lost; {:#?}", told.events());
    fake.is_content();
    let again = fake.world().attempts.iter().map(|it| it.begun).max();
    let again = again.unwrap_or(1);
    assert!(again <= 1 + troubles, "seed {seed}: begun {again} times");
    pollers.iter().for_each(JoinHandle::abort);
    owner.unregister(&queue("q")).await;
    assert!(fake.world().handles.values().all(|handle| handle.is_final));
    fake.is_content();
}

fn poller(owner: &Owner, number: u64) -> JoinHandle<()> {
    if number < 2 {
        poll_activations(owner, "q")
    } else {
        poll_activities(owner, "q")
    }
}
