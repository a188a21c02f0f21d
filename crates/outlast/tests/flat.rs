//! The cost of a wake-up does not grow with the history: allocations are counted, and where it was
//! asked for and valgrind is there, instructions.
//!
//! A binary of its own, because the allocator is.

use std::alloc::System;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use outlast::prelude::*;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Wake-ups in each window.
const WINDOW: usize = 200;
/// Six events a wake-up: a little past 10 and past 100,000 events.
const WINDOWS: [usize; 2] = [2, 17_000];

#[derive(Clone, Default)]
struct Marks(Arc<AtomicUsize>, Arc<[AtomicUsize; 4]>);

fn allocations() -> usize {
    let stats = ALLOCATOR.stats();
    stats.allocations + stats.reallocations
}

#[activity]
async fn mark(State(marks): State<Marks>, _number: u64) -> Result<u64> {
    let count = marks.0.fetch_add(1, Ordering::Relaxed);
    for (index, window) in WINDOWS.into_iter().enumerate() {
        if count == window {
            window_edge(&marks.1[2 * index]);
        }
        if count == window + WINDOW {
            window_edge(&marks.1[2 * index + 1]);
        }
    }
    Ok(1)
}

/// Here callgrind writes down what was done since the last time; it knows the place by its name.
#[inline(never)]
fn window_edge(mark: &AtomicUsize) {
    mark.store(allocations(), Ordering::Relaxed);
}

#[workflow]
async fn long(ctx: Ctx, count: u64) -> Result<u64> {
    let mut sum = 0;
    for number in 0..count {
        sum += ctx.run(mark, number).await?;
    }
    Ok(sum)
}

#[test]
#[expect(clippy::print_stdout, reason = "the figure is worth reading")]
fn a_wake_up_costs_the_same_at_10_and_at_100_000_events() -> Result<()> {
    let marks = Marks::default();
    let windows = marks.1.clone();
    outlast::testing::block_on(async move {
        let app = TestEnv::new()
            .state(marks)
            .activity(mark)
            .workflow(long)
            .start()
            .await;
        let count = (WINDOWS[1] + WINDOW + 2) as u64;
        assert_eq!(app.run(long, count).await?, count);
        outlast::Ok(())
    })?;
    let per_wake = |index: usize| {
        let (from, to) = (&windows[2 * index], &windows[2 * index + 1]);
        let spent = to.load(Ordering::Relaxed) - from.load(Ordering::Relaxed);
        spent as f64 / WINDOW as f64
    };
    let (short, long) = (per_wake(0), per_wake(1));
    println!("allocations per wake-up: {short:.1} at 10 events, {long:.1} at 100,000");
    assert_flat(short, long);
    Ok(())
}

/// Takes minutes, so only where it was asked for.
#[test]
#[expect(clippy::print_stdout, reason = "the figure is worth reading")]
fn instructions_of_a_wake_up_are_the_same_at_10_and_at_100_000_events() -> Result<()> {
    let is_there = || Command::new("valgrind").arg("--version").output().is_ok();
    if std::env::var_os("OUTLAST_INSTRUCTIONS").is_none() || !is_there() {
        println!("skipped: install valgrind and set OUTLAST_INSTRUCTIONS to count instructions");
        return Ok(());
    }
    let folder = tempfile::tempdir()?;
    let out = folder.path().join("out");
    // One core, or threads that watch for mail count as work.
    let done = Command::new("taskset")
        .args(["-c", "0", "valgrind", "--tool=callgrind", "--quiet"])
        .arg("--dump-before=*window_edge*")
        .arg(format!("--callgrind-out-file={}", out.display()))
        .arg(std::env::current_exe()?)
        .args([
            "--exact",
            "a_wake_up_costs_the_same_at_10_and_at_100_000_events",
        ])
        .env_remove("OUTLAST_INSTRUCTIONS")
        .status();
    assert!(done?.success(), "valgrind or the test below it failed");
    // The second part ends where the first window does, the fourth where the second does.
    let per_wake = |part| instructions(&out, part) / WINDOW as f64;
    let (short, long) = (per_wake(2), per_wake(4));
    println!("instructions per wake-up: {short:.0} at 10 events, {long:.0} at 100,000");
    assert_flat(short, long);
    Ok(())
}

/// What callgrind counted in one part, all threads together.
fn instructions(out: &Path, part: u8) -> f64 {
    let part = out.with_extension(part.to_string());
    let text = std::fs::read_to_string(part).expect("callgrind has written it");
    let total = text.lines().find_map(|line| line.strip_prefix("totals: "));
    total
        .and_then(|total| total.trim().parse().ok())
        .expect("a part has a total")
}

fn assert_flat(short: f64, long: f64) {
    let ratio = long / short;
    assert!((0.9..1.1).contains(&ratio), "{short} and {long} a wake-up");
}
