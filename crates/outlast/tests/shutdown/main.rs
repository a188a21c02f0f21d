//! The end of an application, at any moment and in any way: what was claimed is finished or
//! handed back, nothing is lost, nothing leaks, and a restart completes all.

mod drops;
mod moments;
mod phases;
#[path = "../sim/rng.rs"]
#[allow(dead_code, unreachable_pub, reason = "others use the rest")]
mod rng;
#[path = "../support/mod.rs"]
mod support;
mod times;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Tests that count the threads of the process come one at a time.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A thread that is on its way out is gone by then, however busy the machine; one that waits for a
/// pause of somebody's code, which are 30 s and more, is not.
const PATIENCE: u32 = 15_000;

/// Returns when none of our threads is left: one that has said its last word may still be on its
/// way out. Not asked for without a pause: it takes a file for each thread, from those who stop.
fn deserted() {
    for _ in 0..PATIENCE {
        if support::threads().is_empty() {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("threads are left: {:?}", support::threads());
}
