//! Built once against each of two trees, from this one source: what a one-activity workflow and a
//! wake-up cost, counted. It says allocations and commits itself; callgrind counts instructions
//! between calls of `window_edge`, which it knows by name.
//!
//! Arguments: the workload, and where its file is made.

use std::alloc::System;
use std::path::Path;

use outlast::prelude::*;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Windows, the first of which warms up, and units of work in each.
const WINDOWS: usize = 8;
const WINDOW: u64 = 100;

#[activity]
async fn charge(cents: u64) -> Result<u64> {
    if cents == 0 {
        window_edge();
    }
    Ok(cents + 1)
}

/// One activity: a whole workflow is the unit.
#[workflow]
async fn one_activity(ctx: Ctx, cents: u64) -> Result<u64> {
    Ok(ctx.run(charge, cents).await?)
}

/// A sequence of activities: a wake-up is the unit.
#[workflow]
async fn wake_ups(ctx: Ctx) -> Result<()> {
    for _ in 0..=WINDOWS {
        for cents in 0..WINDOW {
            ctx.run(charge, cents).await?;
        }
    }
    Ok(())
}

#[inline(never)]
fn window_edge() {
    let stats = ALLOCATOR.stats();
    let edge = stats.allocations + stats.reallocations;
    EDGES.lock().expect("no panic").push((edge, commits()));
}

static EDGES: std::sync::Mutex<Vec<(usize, u64)>> = std::sync::Mutex::new(Vec::new());
static APP: std::sync::OnceLock<outlast::App> = std::sync::OnceLock::new();

fn commits() -> u64 {
    APP.get().map_or(0, |app| app.written().1)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().collect();
    let file = Path::new(&words[2]);
    let place = Outlast::sqlite(file).activity(charge);
    let app = place.workflow(one_activity).workflow(wake_ups).start().await?;
    APP.get_or_init(|| app.clone());
    match words[1].as_str() {
        "one_activity" => {
            for _ in 0..=WINDOWS {
                for cents in 0..WINDOW {
                    app.run(one_activity, cents).await?;
                }
            }
        }
        "wake_up" => app.run(wake_ups, ()).await?,
        other => panic!("no workload {other}"),
    }
    app.shutdown().await.into_result()?;
    let edges = EDGES.lock().expect("no panic").clone();
    for pair in edges.windows(2).skip(1) {
        let (allocations, commits) = (pair[1].0 - pair[0].0, pair[1].1 - pair[0].1);
        let each = |count: f64| count / WINDOW as f64;
        println!("{} {}", each(allocations as f64), each(commits as f64));
    }
    Ok(())
}
