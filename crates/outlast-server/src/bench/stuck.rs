//! What one culprit costs the others: healthy workflows beside code that holds its thread,
//! against the same without it, rounds alternating.
//!
//! A sleeping culprit is one workflow and one activity, among a thousand open runs; a spinning
//! one is a workflow. Reported: the ratio of the others' p99, how long after its limit the
//! culprit is reported, and the longest that anybody waited.

use std::time::Duration;

use outlast::model::limits;
use outlast::prelude::*;
use outlast::{App, Severity, WorkerEvent};

use super::load::{self, Load};
use super::report::Line;
use super::sample::{fdatasync_p50, micros, now, percentile};
use super::{Args, Place};
use crate::culprit::{Leash, Manner, blocked, waits_for_deaf};

/// Healthy workflows in flight.
const IN_FLIGHT: usize = 200;
/// Open runs that wait beside them.
const BESIDE: u64 = 1_000;
/// Each round is at least so long, and has at least so many workflows.
const SECONDS: f64 = 10.0;
const WORKFLOWS: usize = 50_000;

/// What one round gave.
#[derive(Clone, Copy, Debug)]
struct Round {
    p50_us: f64,
    p99_us: f64,
    longest_us: f64,
    per_second: f64,
    /// From the limit to the report.
    report_ms: f64,
}

pub(super) async fn measure(place: &Place, args: &Args) -> Result<Line> {
    let fs = fdatasync_p50(&place.dir)?;
    let (mut plain, mut slept, mut spun) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..args.rounds {
        plain.push(round(place, None).await?);
        slept.push(round(place, Some(Manner::Sleeps)).await?);
        spun.push(round(place, Some(Manner::Spins)).await?);
    }
    let of = |rounds: &[Round], figure: fn(&Round) -> f64| {
        let mut all: Vec<f64> = rounds.iter().map(figure).collect();
        percentile(&mut all, 0.5)
    };
    let p99 = |rounds: &[Round]| of(rounds, |r| r.p99_us);
    let longest_ms = |rounds: &[Round]| of(rounds, |r| r.longest_us) / 1e3;
    Ok(Line {
        workload: "stuck",
        concurrency: IN_FLIGHT,
        per_second: of(&slept, |r| r.per_second),
        p50_us: of(&slept, |r| r.p50_us),
        p99_us: p99(&slept),
        fdatasync_p50_us: fs,
        in_fdatasyncs: of(&slept, |r| r.p50_us) / fs,
        more: vec![
            ("p99_ratio", p99(&slept) / p99(&plain)),
            ("spinning_p99_ratio", p99(&spun) / p99(&plain)),
            ("report_ms", of(&slept, |r| r.report_ms)),
            ("longest_ms", longest_ms(&slept)),
            ("spinning_longest_ms", longest_ms(&spun)),
            ("longest_without_ms", longest_ms(&plain)),
        ],
        ..Line::default()
    })
}

async fn round(place: &Place, culprit: Option<Manner>) -> Result<Round> {
    let leash = Leash::new();
    let app = load::open(place, "stuck").await?;
    let mut beside = Vec::new();
    for n in 0..BESIDE {
        let start = app.start(load::sleeper, ()).id(format!("beside-{n}"));
        beside.push(tokio::spawn(async move { start.await.map(drop) }));
    }
    for started in beside {
        started.await??;
    }
    let load = Load::OneActivity {
        concurrency: IN_FLIGHT,
    };
    load::drive(&app, load, 1.0).await?;
    let begun = now();
    let report = culprit.map(|manner| tokio::spawn(reported(app.clone(), manner)));
    let mut latencies = Vec::new();
    while begun.elapsed().as_secs_f64() < SECONDS || latencies.len() < WORKFLOWS {
        latencies.extend(load::drive(&app, load, SECONDS).await?);
    }
    let seconds = begun.elapsed().as_secs_f64();
    let report_ms = match report {
        Some(report) => report.await??,
        None => 0.0,
    };
    drop(leash);
    app.shutdown().await;
    Ok(Round {
        p50_us: percentile(&mut latencies, 0.50),
        p99_us: percentile(&mut latencies, 0.99),
        longest_us: percentile(&mut latencies, 1.0),
        per_second: latencies.len() as f64 / seconds,
        report_ms,
    })
}

/// Starts the culprit; returns how long after its limit it was reported.
async fn reported(app: App, manner: Manner) -> Result<f64> {
    let mut events = app.events(Severity::Warning);
    let begun = now();
    app.start(blocked, manner).await?;
    if manner == Manner::Sleeps {
        app.start(waits_for_deaf, manner).await?;
    }
    while let Some(event) = events.next().await {
        if matches!(*event, WorkerEvent::StuckGivenUp(_)) {
            let limit: Duration = limits::POLL_FAIL;
            return Ok(micros(begun) / 1e3 - limit.as_secs_f64() * 1e3);
        }
    }
    Err(Error::msg("the culprit was not reported"))
}
