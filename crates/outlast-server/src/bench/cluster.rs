//! The simplest workflow on a backend elsewhere: no disk of ours to compare with, so rates and
//! times only. `cargo xtask compare` holds them against the official SDK on the same server.

use outlast::prelude::*;

use super::Args;
use super::load::{self, Load};
use super::report::Line;
use super::sample::{now, percentile};

/// Medians over the rounds.
pub(super) async fn measure(url: &str, load: Load, args: &Args) -> Result<Line> {
    let app = load::start(Outlast::connect(url)).await?;
    load::drive(&app, load, args.seconds / 4.0).await?;
    let mut figures: [Vec<f64>; 3] = Default::default();
    for _ in 0..args.rounds {
        let begun = now();
        let mut latencies = load::drive(&app, load, args.seconds).await?;
        figures[0].push(latencies.len() as f64 / begun.elapsed().as_secs_f64());
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
