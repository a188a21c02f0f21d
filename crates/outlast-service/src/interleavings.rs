//! No wake-up is lost, in any order of what threads do: mail and sleep, batches and the writer,
//! slices and takeover, commits and those who wait for them, the end and everybody.
//!
//! A scheduler tries thousands of orders of the very code in this crate; an order in which all
//! threads sleep is a wake-up that was lost. Run by `cargo xtask test` under `--cfg shuttle`.

mod letter_box;
mod queue;
mod takeover;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, Runner};

/// Room for the service's calls: a thread of the scheduler has little by itself.
const STACK: usize = 1 << 20;

/// Tries many orders of a scene.
fn explore(scene: impl Fn() + Send + Sync + 'static) {
    let _alone = alone();
    orders_of(scene);
}

/// Orders at random, and orders that differ in a few preemptions only.
fn orders_of(scene: impl Fn() + Send + Sync + 'static) {
    let scene = Arc::new(scene);
    let again = scene.clone();
    let mut config = Config::new();
    config.stack_size = STACK;
    let random = RandomScheduler::new(orders());
    Runner::new(random, config.clone()).run(move || scene());
    Runner::new(PctScheduler::new(3, orders()), config).run(move || again());
}

fn orders() -> usize {
    let given = std::env::var("OUTLAST_ORDERS").ok();
    given.and_then(|text| text.parse().ok()).unwrap_or(300)
}

/// A planted bug is on for the whole process: no other scene may run beside it.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}
