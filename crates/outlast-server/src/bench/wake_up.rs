//! Flatness: what a wake-up costs does not depend on how long the history is; and what it costs
//! to bring an instance back that is not in memory.

use outlast::prelude::*;

use super::Place;
use super::load::{Order, open, sequential};
use super::report::Line;
use super::sample::{fdatasync_p50, micros, now};

/// Activities before the first window, and in each window.
const SHORT: u32 = 2;
const WINDOW: u32 = 400;
/// Six events an activity: past 100,000 events.
const LONG: u32 = 17_000;

/// CPU time of one wake-up with a short and with a long history.
pub(super) async fn measure(place: &Place) -> Result<Vec<Line>> {
    let mut lines = Vec::new();
    for before in [SHORT, LONG] {
        lines.push(window(place, before).await?);
    }
    Ok(lines)
}

async fn window(place: &Place, before: u32) -> Result<Line> {
    let fs = fdatasync_p50(&place.dir)?;
    let app = open(place, &format!("wake-up-{before}")).await?;
    let order = Order::new(1);
    let handle = app
        .start(sequential, (order, before + WINDOW))
        .id("long")
        .await?;
    wait_for(&app, before).await?;
    let (begun, cpu) = (now(), crate::usage::cpu_us());
    let first = app.written().1;
    handle.result().await?;
    let wakes = (app.written().1 - first).max(1) as f64;
    let spent = micros(begun) / wakes;
    let line = Line {
        workload: "wake_up",
        concurrency: 1,
        events: u64::from(before) * 6 + 4,
        per_second: 1e6 / spent,
        p50_us: spent,
        p99_us: spent,
        fdatasync_p50_us: fs,
        in_fdatasyncs: spent / fs,
        commits_per_workflow: 1.0,
        more: vec![("cpu_us", (crate::usage::cpu_us() - cpu) / wakes)],
        ..Line::default()
    };
    app.shutdown().await;
    Ok(line)
}

/// Waits until so many activities of the long run have been committed.
async fn wait_for(app: &outlast::App, activities: u32) -> Result<()> {
    while app.written().1 <= u64::from(activities) {
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    Ok(())
}

/// CPU time of bringing back a run of 10,000 events that is not in memory.
pub(super) async fn cache_miss(place: &Place) -> Result<Line> {
    let fs = fdatasync_p50(&place.dir)?;
    let path = place.db("cache-miss");
    let app = super::load::open_at(&path).await?;
    let handle = app
        .start(super::load::long_wait, Order::new(1))
        .id("miss")
        .await?;
    while app.written().1 <= u64::from(super::load::LONG_WAIT_ACTIVITIES) {
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    let events = handle.history().await?.len() as u64;
    app.shutdown().await;
    drop((app, handle));
    let app = super::load::open_at(&path).await?;
    let handle = app.get(super::load::long_wait, "miss");
    let (begun, cpu) = (now(), crate::usage::cpu_us());
    handle.send(super::load::GO, 1u64).await?;
    handle.result().await?;
    let (spent, cpu) = (micros(begun), crate::usage::cpu_us() - cpu);
    app.shutdown().await;
    Ok(Line {
        workload: "cache_miss",
        concurrency: 1,
        events,
        per_second: 1e6 / spent,
        p50_us: spent,
        p99_us: spent,
        fdatasync_p50_us: fs,
        in_fdatasyncs: spent / fs,
        commits_per_workflow: 1.0,
        more: vec![("cpu_us", cpu)],
        ..Line::default()
    })
}
