//! The simplest workflow on a backend elsewhere: no disk of ours to compare with, so rates and
//! times only. `cargo xtask compare` holds them against the official SDK on the same server.
//!
//! With many in flight a workflow takes seconds there, as long as a round: whatever comes before
//! all clients are under way, and after the first of them has stopped, would be half of what is
//! measured. So what ends within a window counts, with all clients under way before and after it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use outlast::App;
use outlast::prelude::*;

use super::Args;
use super::load::{self, Load, Order};
use super::report::Line;
use super::sample::{micros, now, percentile};

/// Not yet in the window.
const BEFORE: u8 = 0;
/// What ends now counts.
const WITHIN: u8 = 1;
/// What ends now is the client's last.
const AFTER: u8 = 2;

/// Medians over the rounds.
pub(super) async fn measure(url: &str, load: Load, args: &Args) -> Result<Line> {
    let app = load::start(Outlast::connect(url)).await?;
    let mut figures: [Vec<f64>; 3] = Default::default();
    for _ in 0..args.rounds {
        let (mut latencies, seconds) = window(&app, load.in_flight(), args.seconds).await?;
        figures[0].push(latencies.len() as f64 / seconds);
        figures[1].push(percentile(&mut latencies, 0.50));
        figures[2].push(percentile(&mut latencies, 0.99));
    }
    app.shutdown().await;
    let [per_second, p50_us, p99_us] = figures.map(|mut f| percentile(&mut f, 0.5));
    Ok(Line {
        workload: load.name(),
        concurrency: load.in_flight(),
        per_second,
        p50_us,
        p99_us,
        ..Line::default()
    })
}

/// Microseconds of the workflows that ended in the window, and its seconds. Half of its length
/// goes before it.
async fn window(app: &App, clients: usize, seconds: f64) -> Result<(Vec<f64>, f64)> {
    let stage = Arc::new(AtomicU8::new(BEFORE));
    let clients: Vec<_> = (0..clients as u64)
        .map(|number| {
            let (app, stage) = (app.clone(), stage.clone());
            tokio::spawn(async move { client(&app, number, &stage).await })
        })
        .collect();
    tokio::time::sleep(Duration::from_secs_f64(seconds / 2.0)).await;
    let begun = now();
    stage.store(WITHIN, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
    stage.store(AFTER, Ordering::Relaxed);
    let seconds = begun.elapsed().as_secs_f64();
    let mut all = Vec::new();
    for client in clients {
        all.extend(client.await??);
    }
    Ok((all, seconds))
}

async fn client(app: &App, number: u64, stage: &AtomicU8) -> Result<Vec<f64>> {
    let mut latencies = Vec::new();
    let order = Order::new(number);
    loop {
        let begun = now();
        app.run(load::one_activity, &order).await?;
        match stage.load(Ordering::Relaxed) {
            BEFORE => {}
            WITHIN => latencies.push(micros(begun)),
            _ => return Ok(latencies),
        }
    }
}
