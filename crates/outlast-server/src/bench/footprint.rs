//! Memory: a wide fan-out with large results, and many sleeping runs.

use std::time::Duration;

use outlast::prelude::*;

use super::Place;
use super::load::{SLEEPERS, open_at, sleeper, wide};
use super::sample::{micros, now};

/// Figures that are stated, not compared.
#[expect(clippy::print_stdout, reason = "this is what the command is for")]
pub(super) async fn measure(place: &Place) -> Result<()> {
    let app = open_at(&place.db("wide")).await?;
    let idle = crate::usage::peak_rss_mb();
    app.run(wide, 10_000u32).await?;
    let peak = crate::usage::peak_rss_mb();
    println!(
        "fan-out of 10,000 with 1 KiB results: {:.0} MB above idle ({idle:.0} MB)",
        peak - idle
    );
    app.shutdown().await;
    sleepers(place).await
}

#[expect(clippy::print_stdout, reason = "this is what the command is for")]
async fn sleepers(place: &Place) -> Result<()> {
    let path = place.db("sleepers");
    let app = open_at(&path).await?;
    let before = crate::usage::rss_mb();
    let begun = now();
    let starts = (0..SLEEPERS).map(|_| app.start(sleeper, ()).into_future());
    for chunk in starts.collect::<Vec<_>>().chunks_mut(1_000) {
        for started in futures::future::join_all(chunk.iter_mut()).await {
            started?;
        }
    }
    let (seconds, after) = (micros(begun) / 1e6, crate::usage::rss_mb());
    println!(
        "{SLEEPERS} sleeping runs started in {seconds:.1} s, {:.0} MB",
        after - before
    );
    app.shutdown().await;
    drop(app);
    tokio::time::sleep(Duration::from_millis(100)).await;
    let begun = now();
    let app = open_at(&path).await?;
    println!(
        "reopened in {:.0} ms, process has {:.0} MB",
        micros(begun) / 1e3,
        crate::usage::rss_mb()
    );
    app.shutdown().await;
    Ok(())
}
