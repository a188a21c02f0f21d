//! The cost of a wake-up does not grow with the history: allocations are counted.
//!
//! A binary of its own, because the allocator is.

use std::alloc::System;
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
            marks.1[2 * index].store(allocations(), Ordering::Relaxed);
        }
        if count == window + WINDOW {
            marks.1[2 * index + 1].store(allocations(), Ordering::Relaxed);
        }
    }
    Ok(1)
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
    assert!(
        (0.9..1.1).contains(&(long / short)),
        "{short} and {long} allocations"
    );
    Ok(())
}
