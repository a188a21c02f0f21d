//! The work that is measured: real workflows through the public API, on a real file.

use std::time::{Duration, Instant};

use futures::future::join_all;
use outlast::prelude::*;
use outlast::{App, Builder, Settings};
use serde::{Deserialize, Serialize};

use super::Place;
use super::condition::Crowd;
use super::message::{self, Counter};
use super::sample::{micros, now};
use crate::culprit::{blocked, deaf, waits_for_deaf};

/// An order, as in a shop.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Order {
    pub(super) id: u64,
    pub(super) item: String,
    pub(super) cents: u64,
}

impl Order {
    pub(super) fn new(id: u64) -> Self {
        Self {
            id,
            item: "tea, green, 200 g".into(),
            cents: 1_250,
        }
    }
}

#[activity]
async fn charge(order: Order) -> Result<u64> {
    Ok(order.cents)
}

#[workflow]
pub(super) async fn one_activity(ctx: Ctx, order: Order) -> Result<u64> {
    Ok(ctx.run(charge, &order).await?)
}

#[workflow]
pub(super) async fn sequential(ctx: Ctx, (order, count): (Order, u32)) -> Result<u64> {
    let mut sum = 0;
    for _ in 0..count {
        sum += ctx.run(charge, &order).await?;
    }
    Ok(sum)
}

#[workflow]
async fn fan_out(ctx: Ctx, (order, width): (Order, u32)) -> Result<u64> {
    let all = join_all((0..width).map(|_| ctx.run(charge, &order))).await;
    let mut sum = 0;
    for cents in all {
        sum += cents?;
    }
    Ok(sum)
}

#[workflow]
async fn timers(ctx: Ctx, width: u32) -> Result<u32> {
    let all = join_all((0..width).map(|_| ctx.sleep(1.millis()))).await;
    for slept in all {
        slept?;
    }
    Ok(width)
}

/// Lets a [`long_wait`] end.
pub(super) const GO: Signal<u64> = signal("go");

/// Activities of a [`long_wait`]: 10,000 events.
pub(super) const LONG_WAIT_ACTIVITIES: u32 = 1_666;

#[workflow]
pub(super) async fn long_wait(ctx: Ctx, order: Order) -> Result<u64> {
    let mut sum = 0;
    for _ in 0..LONG_WAIT_ACTIVITIES {
        sum += ctx.run(charge, &order).await?;
    }
    Ok(sum + ctx.recv(GO).await?)
}

/// Sleeping runs of the footprint.
pub(super) const SLEEPERS: usize = 100_000;

#[activity]
async fn kilobyte(number: u32) -> Result<String> {
    Ok(format!("{number:01024}"))
}

#[workflow]
pub(super) async fn wide(ctx: Ctx, width: u32) -> Result<usize> {
    let all = join_all((0..width).map(|number| ctx.run(kilobyte, number))).await;
    let mut bytes = 0;
    for result in all {
        bytes += result?.len();
    }
    Ok(bytes)
}

#[workflow]
pub(super) async fn sleeper(ctx: Ctx) -> Result<()> {
    ctx.sleep(365.days()).await?;
    Ok(())
}

/// A workload.
#[derive(Clone, Copy, Debug)]
pub(super) enum Load {
    OneActivity {
        concurrency: usize,
    },
    Sequential {
        activities: u32,
    },
    FanOut {
        width: u32,
    },
    Timers {
        width: u32,
    },
    /// To one run, each followed by a question; to more, each client to its own.
    Signal {
        runs: usize,
    },
    Update,
    Join {
        width: u32,
    },
}

impl Load {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::OneActivity { .. } => "one_activity",
            Self::Sequential { .. } => "sequential",
            Self::FanOut { .. } => "fan_out",
            Self::Timers { .. } => "timers",
            Self::Signal { .. } => "signal",
            Self::Update => "update",
            Self::Join { .. } => "join",
        }
    }

    /// Records the ceiling keeps in flight.
    pub(super) fn in_flight(self) -> usize {
        match self {
            Self::OneActivity { concurrency } => concurrency,
            Self::Signal { runs } => runs,
            Self::Sequential { .. }
            | Self::FanOut { .. }
            | Self::Timers { .. }
            | Self::Update
            | Self::Join { .. } => 1,
        }
    }

    /// Units that one workflow's time is divided by: activities of a sequence.
    pub(super) fn parts(self) -> f64 {
        match self {
            Self::Sequential { activities } => f64::from(activities),
            Self::OneActivity { .. }
            | Self::FanOut { .. }
            | Self::Timers { .. }
            | Self::Signal { .. }
            | Self::Update
            | Self::Join { .. } => 1.0,
        }
    }

    /// Items in one workflow, for rates.
    pub(super) fn items(self) -> f64 {
        match self {
            Self::OneActivity { .. } | Self::Signal { .. } | Self::Update => 1.0,
            Self::Sequential { activities } => f64::from(activities),
            Self::FanOut { width } | Self::Timers { width } | Self::Join { width } => {
                f64::from(width)
            }
        }
    }

    /// Events that one message adds to a run that outlives the round.
    fn events_a_message(self) -> Option<f64> {
        match self {
            // It, and the three of its task.
            Self::Signal { .. } => Some(4.0),
            // Accepted and completed, and the three of its task.
            Self::Update => Some(5.0),
            Self::OneActivity { .. }
            | Self::Sequential { .. }
            | Self::FanOut { .. }
            | Self::Timers { .. }
            | Self::Join { .. } => None,
        }
    }
}

/// What one round gave.
#[derive(Clone, Debug)]
pub(super) struct Done {
    pub(super) workflows: usize,
    pub(super) seconds: f64,
    /// Microseconds of each workflow.
    pub(super) latencies: Vec<f64>,
    pub(super) commits: u64,
    pub(super) events: u64,
    pub(super) mean_bytes: usize,
    /// CPU time of the whole process, the client included.
    pub(super) cpu_us: f64,
}

pub(super) async fn open(place: &Place, name: &str) -> Result<App> {
    open_at(&place.db(name)).await
}

pub(super) async fn open_at(path: &std::path::Path) -> Result<App> {
    let settings = Settings {
        activity_slots: 20_000,
        cached_runs: 10_000,
        ..Settings::default()
    };
    start(Outlast::sqlite(path).settings(settings)).await
}

/// Everything that is measured, on any backend.
pub(super) async fn start(place: Builder) -> Result<App> {
    place
        .activity(charge)
        .workflow(one_activity)
        .workflow(sequential)
        .workflow(fan_out)
        .workflow(timers)
        .activity(kilobyte)
        .workflow(long_wait)
        .workflow(wide)
        .workflow(sleeper)
        .workflow(Counter::run)
        .workflow(Crowd::run)
        .workflow(blocked)
        .workflow(waits_for_deaf)
        .activity(deaf)
        .report(|_| ())
        .start()
        .await
}

/// One round on a fresh file: warm up, then measure.
pub(super) async fn round(place: &Place, load: Load, round: usize, seconds: f64) -> Result<Done> {
    let app = open(place, &format!("{}-{round}", load.name())).await?;
    let warm_up = seconds / 4.0;
    drive(&app, load, warm_up).await?;
    let before = app.written().1;
    let (begun, cpu) = (now(), crate::usage::cpu_us());
    let latencies = drive(&app, load, seconds).await?;
    let seconds = begun.elapsed().as_secs_f64();
    let cpu_us = crate::usage::cpu_us() - cpu;
    let commits = app.written().1 - before;
    let newest = app
        .list(outlast::ListFilter {
            limit: 1,
            ..Default::default()
        })
        .await?;
    let (events, bytes) = newest.first().map_or((0, 0), |s| (s.events, s.bytes));
    app.shutdown().await;
    let workflows = latencies.len();
    let mean_bytes = match load.events_a_message() {
        Some(added) => bytes as f64 / events.max(1) as f64 * added,
        None => bytes as f64 / (commits as f64 / workflows.max(1) as f64).max(1.0),
    };
    Ok(Done {
        workflows,
        seconds,
        latencies,
        commits,
        events,
        mean_bytes: mean_bytes as usize,
        cpu_us,
    })
}

/// Keeps as many in flight as the load says, for so long. One alone is called by the program's own
/// task, as in any small program; many are tasks of the runtime.
pub(super) async fn drive(app: &App, load: Load, seconds: f64) -> Result<Vec<f64>> {
    let end = now() + Duration::from_secs_f64(seconds);
    if load.in_flight() == 1 {
        return client_of(app, load, 0, end).await;
    }
    let clients: Vec<_> = (0..load.in_flight())
        .map(|client| {
            let app = app.clone();
            tokio::spawn(async move { client_of(&app, load, client as u64, end).await })
        })
        .collect();
    let mut all = Vec::new();
    for client in clients {
        all.extend(client.await??);
    }
    Ok(all)
}

async fn client_of(app: &App, load: Load, client: u64, end: Instant) -> Result<Vec<f64>> {
    if load.events_a_message().is_some() {
        return message::client(app, load, client, end).await;
    }
    let mut latencies = Vec::new();
    let order = Order::new(client);
    while now() < end {
        let begun = now();
        match load {
            Load::OneActivity { .. } => _ = app.run(one_activity, &order).await?,
            Load::Sequential { activities } => {
                _ = app.run(sequential, (order.clone(), activities)).await?;
            }
            Load::FanOut { width } | Load::Join { width } => {
                _ = app.run(fan_out, (order.clone(), width)).await?;
            }
            Load::Timers { width } => _ = app.run(timers, width).await?,
            // They have clients of their own.
            Load::Signal { .. } | Load::Update => break,
        }
        latencies.push(micros(begun));
    }
    Ok(latencies)
}
