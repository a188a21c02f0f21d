//! One cannot stop the others, whatever it does: random seeds of hostile programs beside healthy ones.
//!
//! Each seed is an application of its own: some kinds of misuse from the table in `kinds.rs`, and
//! healthy runs. The healthy ones complete; each hostile one comes to stand as its row says, for a
//! reason that names its line or its call, and can be ended; and nothing is left: no slot, attempt,
//! thread, task, instance or memory.
//!
//! `OUTLAST_HOSTILE` says how many seeds run, `OUTLAST_HOSTILE_KIND` that they have only this kind;
//! `OUTLAST_HOSTILE_SEED` runs one seed.
#![expect(clippy::print_stdout, reason = "a seed is told to a person")]
#![allow(
    unreachable_pub,
    clippy::wildcard_enum_match_arm,
    reason = "a test binary; its judge looks for what it knows"
)]

mod code;
mod judge;
mod kinds;
#[path = "../sim/rng.rs"]
#[allow(dead_code, reason = "shared with the simulator")]
mod rng;
#[path = "../support/mod.rs"]
mod support;
mod world;

use std::alloc::System;
use std::sync::Arc;
use std::time::Duration;

use judge::{Plan, judge};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use tokio::runtime::Runtime;
use tokio::sync::Semaphore;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Seeds at a time: most of them wait.
const AT_ONCE: usize = 12;
/// Failing seeds after which the rest is not worth waiting for.
const TELLING: usize = 3;
/// Looks at what should be gone.
const LOOKS: u32 = 15_000;
/// What seeds may leave in memory, each: calls that they forget on purpose.
const BYTES_EACH: i64 = 1 << 10;
/// Whatever is kept for the next one: pools, names, buffers.
const BYTES: i64 = 256 << 10;

fn knob(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// With threads for activities that keep theirs.
fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2 * AT_ONCE)
        .enable_all()
        .build()
        .expect("a runtime can be built")
}

/// Runs these plans, several at a time. Returns what was wrong.
async fn run(plans: impl Iterator<Item = Plan>) -> Vec<String> {
    let places = Arc::new(Semaphore::new(AT_ONCE));
    let mut tasks = tokio::task::JoinSet::new();
    let mut wrong = Vec::new();
    for plan in plans {
        let place = places.clone().acquire_owned().await.expect("never closed");
        tasks.spawn(async move {
            let _place = place;
            let (seed, kinds) = (plan.seed, plan.kinds.iter().map(|kind| kind.name));
            let kinds: Vec<_> = kinds.collect();
            let told = |why| {
                format!(
                    "seed {seed} {kinds:?}: {why}\nrepeat with: OUTLAST_HOSTILE_SEED={seed} \
                     cargo test -p outlast --test hostile"
                )
            };
            judge(plan).await.map_err(told)
        });
        while let Some(done) = tasks.try_join_next() {
            wrong.extend(done.expect("no judge panics").err());
        }
        if wrong.len() >= TELLING {
            break;
        }
    }
    while let Some(done) = tasks.join_next().await {
        wrong.extend(done.expect("no judge panics").err());
    }
    wrong
}

/// Returns when nothing is left of what ran: no thread of ours, no task, no instance. Bytes in use.
fn gone(runtime: &Runtime) -> i64 {
    let left = || {
        let tasks = runtime.metrics().num_alive_tasks();
        (support::threads(), tasks, world::alive())
    };
    for _ in 0..LOOKS {
        if left() == (Vec::new(), 0, 0) {
            let stats = ALLOCATOR.stats();
            // What grows or shrinks in place is counted among these.
            let bytes = stats.bytes_allocated.wrapping_sub(stats.bytes_deallocated);
            return i64::try_from(bytes).unwrap_or(i64::MAX);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("left: {:?}", left());
}

/// Panics are what this is about, by the thousand: only those of the tests are told.
fn hush() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if std::thread::current().name() == Some(NAME) {
            usual(info);
        }
    }));
}

/// The name of the test, and so of its thread.
const NAME: &str = "hostile_runs_stop_nobody_and_leave_nothing";

#[test]
fn hostile_runs_stop_nobody_and_leave_nothing() {
    hush();
    let runtime = runtime();
    let seeds = knob("OUTLAST_HOSTILE").unwrap_or(40);
    if let Some(seed) = knob("OUTLAST_HOSTILE_SEED") {
        told(&runtime.block_on(run(std::iter::once(Plan::new(seed)))));
        gone(&runtime);
        return;
    }
    let only = std::env::var("OUTLAST_HOSTILE_KIND").ok();
    let only = only.map(|name| {
        kinds::ALL
            .iter()
            .find(|kind| kind.name == name)
            .expect("a kind")
    });
    let plan = |seed| only.map_or_else(|| Plan::new(seed), |kind| Plan::only(*kind, seed));
    // What is made once is made by then.
    let first = seeds / 4;
    told(&runtime.block_on(run(every_kind().chain((0..first).map(plan)))));
    let before = gone(&runtime);
    told(&runtime.block_on(run((first..seeds).map(plan))));
    let more = gone(&runtime) - before;
    println!("{seeds} seeds, {more} bytes more in use");
    let most = BYTES + BYTES_EACH * i64::try_from(seeds).unwrap_or(i64::MAX);
    assert!(more < most, "{more} bytes more in use after {seeds} seeds");
}

fn told(wrong: &[String]) {
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// Every kind once, alone.
fn every_kind() -> impl Iterator<Item = Plan> {
    let kinds = kinds::ALL.iter().zip(1_000_000..);
    kinds.map(|(kind, seed)| Plan::only(*kind, seed))
}
