//! No foreign wake falls between two slices, in any order of what the threads do: either a slice
//! finds it and fails, or the bell asks for a task that will. Under `--cfg shuttle`.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use outlast_model::RunId;
use shuttle::sync::atomic::AtomicUsize;
use shuttle::thread;

use super::{Bell, TaskId};

/// A bell, and how often it asked for a task.
fn bell() -> (Arc<Bell>, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let rung = asked.clone();
    let foreign = Arc::new(move |_: RunId| {
        rung.fetch_add(1, Ordering::SeqCst);
    });
    (Arc::new(Bell::new(RunId(1), foreign)), asked)
}

/// One slice, as an instance runs it: whether it found a foreign wake.
fn slice(bell: &Bell) -> bool {
    if bell.rung_for().is_some() {
        return true;
    }
    bell.slice_begins();
    bell.slice_ends();
    bell.rung_for().is_some()
}

#[test]
fn a_foreign_wake_fails_a_slice_or_asks_for_one() {
    shuttle::check_random(
        || {
            let (bell, asked) = bell();
            let wakers: Vec<_> = (1..3)
                .map(|task| {
                    let bell = bell.clone();
                    thread::spawn(move || bell.ring(TaskId(task)))
                })
                .collect();
            let mut is_found = slice(&bell) || slice(&bell);
            for waker in wakers {
                waker.join().expect("wakes");
            }
            let tasks = asked.load(Ordering::SeqCst);
            assert!(is_found || tasks > 0, "nobody hears of the wake");
            // A task that was asked for fails.
            is_found |= slice(&bell);
            assert!(is_found && tasks <= 1, "{tasks} tasks for one failure");
        },
        5_000,
    );
}

/// Shows that the search can find: the order of the two steps at the end of a slice matters.
#[test]
fn a_slice_that_looks_before_it_has_ended_would_lose_a_wake() {
    let lost = std::panic::catch_unwind(|| {
        shuttle::check_random(
            || {
                let (bell, asked) = bell();
                let waking = bell.clone();
                let waker = thread::spawn(move || waking.ring(TaskId(1)));
                bell.slice_begins();
                let is_found = bell.rung_for().is_some();
                bell.slice_ends();
                waker.join().expect("wakes");
                assert!(is_found || asked.load(Ordering::SeqCst) > 0);
            },
            5_000,
        );
    });
    assert!(lost.is_err(), "the wrong order is found");
}
