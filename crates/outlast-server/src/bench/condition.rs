//! What it costs to test conditions: one write to the state, a thousand waits that go on waiting.
//!
//! Two branches hand a turn to each other through the state, so that one slice has many rounds of
//! tests; with and without the thousand beside them. Processor time, so that the disk is out of
//! it, and the predicate itself is taken off.

use std::hint::black_box;

use outlast::prelude::*;

use super::Place;
use super::load::open;
use super::report::Line;
use super::sample::{fdatasync_p50, micros, now, percentile};

/// Conditions that go on waiting.
const WAITING: u32 = 1_000;
/// Turns in one slice: each is two writes, each write a test of all conditions.
const TURNS: u64 = 100;
/// Slices of each measurement; the median counts.
const SLICES: usize = 25;

/// Two branches and a crowd that waits.
#[derive(Default)]
pub(super) struct Crowd {
    turn: u64,
}

#[workflow]
impl Crowd {
    pub(super) async fn run(ctx: Ctx<Self>, waiting: u32) -> Result<()> {
        let crowd: Vec<_> = (0..waiting).map(|_| ctx.wait_until(|_| false)).collect();
        loop {
            ctx.wait_until(|crowd| crowd.turn % 2 == 1).await?;
            ctx.with(|crowd| crowd.turn += 1);
            black_box(&crowd);
        }
    }

    #[update]
    async fn play(ctx: Ctx<Self>, turns: u64) -> Result<u64> {
        for _ in 0..turns {
            ctx.with(|crowd| crowd.turn += 1);
            ctx.wait_until(|crowd| crowd.turn % 2 == 0).await?;
        }
        Ok(ctx.read(|crowd| crowd.turn))
    }
}

/// Processor and wall microseconds of one slice, medians.
struct Slice {
    cpu_us: f64,
    p50_us: f64,
    p99_us: f64,
}

pub(super) async fn measure(place: &Place) -> Result<Line> {
    let fs = fdatasync_p50(&place.dir)?;
    let alone = slices(place, 0).await?;
    let crowded = slices(place, WAITING).await?;
    let tests = (2 * TURNS * u64::from(WAITING)) as f64;
    let empty = empty_predicate_ns();
    let each = ((crowded.cpu_us - alone.cpu_us) * 1e3 / tests - empty).max(0.0);
    Ok(Line {
        workload: "conditions",
        concurrency: WAITING as usize,
        events: 2 * TURNS,
        per_second: 1e6 / crowded.p50_us,
        p50_us: crowded.p50_us,
        p99_us: crowded.p99_us,
        fdatasync_p50_us: fs,
        in_fdatasyncs: crowded.p50_us / fs,
        commits_per_workflow: 1.0,
        more: vec![
            ("cpu_us", crowded.cpu_us),
            ("ns_per_condition", each),
            ("empty_predicate_ns", empty),
        ],
        ..Line::default()
    })
}

async fn slices(place: &Place, waiting: u32) -> Result<Slice> {
    let app = open(place, &format!("conditions-{waiting}")).await?;
    let crowd = app.start(Crowd::run, waiting).await?;
    crowd.play(TURNS).await?;
    let (mut cpu, mut wall) = (Vec::new(), Vec::new());
    for _ in 0..SLICES {
        let (begun, before) = (now(), crate::usage::cpu_us());
        crowd.play(TURNS).await?;
        cpu.push(crate::usage::cpu_us() - before);
        wall.push(micros(begun));
    }
    app.shutdown().await;
    Ok(Slice {
        cpu_us: percentile(&mut cpu, 0.5),
        p50_us: percentile(&mut wall, 0.5),
        p99_us: percentile(&mut wall, 0.99),
    })
}

/// Nanoseconds of calling a predicate that does nothing.
fn empty_predicate_ns() -> f64 {
    type Predicate = Box<dyn Fn(&Crowd) -> bool>;
    const CALLS: usize = 1_000_000;
    let predicate: Predicate = Box::new(|_| false);
    let state = Crowd::default();
    let before = crate::usage::cpu_us();
    for _ in 0..CALLS {
        black_box(black_box(&predicate)(black_box(&state)));
    }
    (crate::usage::cpu_us() - before) * 1e3 / CALLS as f64
}
