//! Messages to long-lived runs: signals, the questions behind them, and updates.

use std::time::Instant;

use outlast::prelude::*;
use outlast::{App, ConflictPolicy};

use super::load::Load;
use super::sample::{micros, now};

/// A run that only listens.
#[derive(Default)]
pub(super) struct Counter {
    count: u64,
}

#[workflow]
impl Counter {
    pub(super) async fn run(ctx: Ctx<Self>) -> Result<u64> {
        ctx.wait_until(|counter| counter.count == u64::MAX).await?;
        Ok(ctx.read(|counter| counter.count))
    }

    #[signal]
    fn add(&mut self, n: u64) {
        self.count += n;
    }

    #[query]
    fn count(&self) -> u64 {
        self.count
    }

    #[update]
    fn raise(&mut self, n: u64) -> u64 {
        self.count += n;
        self.count
    }
}

/// One client with a run of its own, which outlives the round. Microseconds of each message.
pub(super) async fn client(app: &App, load: Load, number: u64, end: Instant) -> Result<Vec<f64>> {
    let counter = app
        .start(Counter::run, ())
        .id(format!("counter-{number}"))
        .conflict(ConflictPolicy::UseExisting)
        .await?;
    let mut count = counter.count().await?;
    let mut latencies = Vec::new();
    while now() < end {
        let begun = now();
        count += 1;
        let seen = match load {
            Load::Signal { runs: 1 } => {
                counter.add(1u64).await?;
                counter.count().await?
            }
            Load::Update => counter.raise(1u64).await?,
            Load::Signal { .. }
            | Load::OneActivity { .. }
            | Load::Sequential { .. }
            | Load::FanOut { .. }
            | Load::Join { .. }
            | Load::Timers { .. } => {
                counter.add(1u64).await?;
                count
            }
        };
        latencies.push(micros(begun));
        if seen != count {
            Err(format!("{seen} messages seen, {count} sent"))?;
        }
    }
    Ok(latencies)
}
