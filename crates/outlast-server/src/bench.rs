//! `outlast bench`: the same work beside a bare log on the same disk, in the same run.
//!
//! Disks and neighbours differ, so every figure is a ratio: to the p50 of a 4 KiB append with
//! fdatasync (`fs`), and to what a bare group-commit log reaches with the same number of records
//! in flight (the ceiling). Rounds of both alternate; medians are printed.

mod ceiling;
mod cluster;
mod condition;
mod footprint;
mod load;
mod message;
mod report;
mod sample;
mod stuck;
mod wake_up;

use std::path::PathBuf;

use outlast::prelude::*;

use crate::bench::load::Load;
use crate::bench::report::{Line, Reporter};
use crate::stop::Stop;

/// What to measure.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// One JSON object a line
    #[arg(long)]
    json: bool,
    /// Where the files are made and removed again
    #[arg(long, default_value = ".")]
    dir: PathBuf,
    /// Rounds of each measurement; the median is printed
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Only these workloads
    #[arg(long)]
    only: Vec<String>,
    /// Also state memory: a wide fan-out, 100,000 sleeping runs
    #[arg(long)]
    footprint: bool,
    /// Measure one_activity on this backend instead, such as temporal://127.0.0.1:7233/default
    #[arg(long, value_name = "URL")]
    store: Option<String>,
    /// Only with so many clients
    #[arg(long)]
    concurrency: Option<usize>,
    /// Seconds of each round
    #[arg(long, default_value_t = 0.5)]
    seconds: f64,
}

impl Args {
    fn is_on(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == name)
    }

    fn takes(&self, load: Load) -> bool {
        let is_wanted = |clients| load.in_flight() == clients;
        self.is_on(load.name()) && self.concurrency.is_none_or(is_wanted)
    }
}

/// What is measured on a backend elsewhere.
const ONE_ACTIVITY: [Load; 3] = [
    Load::OneActivity { concurrency: 1 },
    Load::OneActivity { concurrency: 16 },
    Load::OneActivity { concurrency: 200 },
];

/// What is measured beside the ceiling.
const LOADS: [Load; 11] = [
    Load::OneActivity { concurrency: 1 },
    Load::OneActivity { concurrency: 16 },
    Load::OneActivity { concurrency: 200 },
    Load::OneActivity { concurrency: 2000 },
    Load::Sequential { activities: 100 },
    Load::FanOut { width: 500 },
    Load::Timers { width: 1000 },
    Load::Signal { runs: 1 },
    Load::Signal { runs: 200 },
    Load::Update,
    Load::Join { width: 10_000 },
];

/// Runs the benchmarks.
pub(crate) fn run(args: &Args) -> std::result::Result<(), Stop> {
    let runtime = tokio::runtime::Runtime::new()?;
    runtime
        .block_on(all(args))
        .map_err(|e| Stop::Failure(e.to_string()))
}

async fn all(args: &Args) -> Result<()> {
    let mut reporter = Reporter::new(args.json);
    if let Some(url) = &args.store {
        for load in ONE_ACTIVITY.into_iter().filter(|load| args.takes(*load)) {
            reporter.line(&cluster::measure(url, load, args).await?);
        }
        reporter.end();
        return Ok(());
    }
    let place = Place::new(&args.dir)?;
    let is_on = |name: &str| args.concurrency.is_none() && args.is_on(name);
    for load in LOADS {
        if args.takes(load) {
            reporter.line(&measure(&place, args, load).await?);
        }
    }
    if is_on("conditions") {
        reporter.line(&condition::measure(&place).await?);
    }
    if is_on("wake_up") {
        for line in wake_up::measure(&place).await? {
            reporter.line(&line);
        }
    }
    if is_on("cache_miss") {
        reporter.line(&wake_up::cache_miss(&place).await?);
    }
    // Minutes long: only for whoever asks.
    if args.only.iter().any(|name| name == "stuck") {
        reporter.line(&stuck::measure(&place, args).await?);
    }
    reporter.end();
    if args.footprint {
        footprint::measure(&place).await?;
    }
    Ok(())
}

/// One workload: rounds of it and of the ceiling, alternating.
async fn measure(place: &Place, args: &Args, load: Load) -> Result<Line> {
    let mut rounds = Vec::new();
    for round in 0..args.rounds {
        let fs_before = sample::fdatasync_p50(&place.dir)?;
        let done = load::round(place, load, round, args.seconds).await?;
        let ceiling = ceiling::round(&place.dir, load.in_flight(), done.mean_bytes, args.seconds)?;
        let fs_after = sample::fdatasync_p50(&place.dir)?;
        rounds.push(report::Round {
            fs_us: (fs_before + fs_after) / 2.0,
            done,
            ceiling,
        });
    }
    Ok(Line::median(load, &rounds))
}

/// A directory of our own that is gone afterwards.
pub(crate) struct Place {
    dir: PathBuf,
}

impl Place {
    fn new(parent: &std::path::Path) -> Result<Self> {
        let dir = parent.join(format!("outlast-bench-{}", std::process::id()));
        std::fs::create_dir_all(&dir)?;
        Ok(Self { dir })
    }

    /// A fresh database file.
    pub(crate) fn db(&self, name: &str) -> PathBuf {
        for ending in ["", "-wal", "-shm", ".lock"] {
            // It may not be there.
            drop(std::fs::remove_file(
                self.dir.join(format!("{name}.db{ending}")),
            ));
        }
        self.dir.join(format!("{name}.db"))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.dir));
    }
}
