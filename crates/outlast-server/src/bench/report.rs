//! Figures for people and for programs.

use serde_json::json;

use super::load::{Done, Load};
use super::sample::percentile;

/// One round of a workload and of the ceiling beside it.
pub(super) struct Round {
    pub(super) fs_us: f64,
    pub(super) done: Done,
    pub(super) ceiling: f64,
}

/// One line of the report. The fields are the format that programs read.
#[derive(Clone, Debug, Default)]
pub(super) struct Line {
    pub(super) workload: &'static str,
    pub(super) concurrency: usize,
    pub(super) events: u64,
    pub(super) per_second: f64,
    pub(super) p50_us: f64,
    pub(super) p99_us: f64,
    pub(super) fdatasync_p50_us: f64,
    pub(super) in_fdatasyncs: f64,
    pub(super) ceiling_per_second: f64,
    pub(super) ratio: f64,
    pub(super) commits_per_workflow: f64,
    /// Figures of one workload only.
    pub(super) more: Vec<(&'static str, f64)>,
}

impl Line {
    /// The median of each figure over the rounds.
    pub(super) fn median(load: Load, rounds: &[Round]) -> Self {
        let of = |figure: &dyn Fn(&Round) -> f64| {
            let mut values: Vec<f64> = rounds.iter().map(figure).collect();
            percentile(&mut values, 0.5)
        };
        let rate = |r: &Round| r.done.workflows as f64 / r.done.seconds;
        let p = |r: &Round, share: f64| percentile(&mut r.done.latencies.clone(), share);
        let stimuli = |r: &Round| r.done.commits as f64 / r.done.seconds / r.ceiling.max(1.0);
        let ratio = |r: &Round| match load {
            Load::OneActivity { .. } => 2.0 * rate(r) / r.ceiling.max(1.0),
            Load::Sequential { .. }
            | Load::FanOut { .. }
            | Load::Timers { .. }
            | Load::Signal { .. }
            | Load::Update
            | Load::Join { .. } => stimuli(r),
        };
        Self {
            workload: load.name(),
            concurrency: load.in_flight(),
            events: rounds.last().map_or(0, |r| r.done.events),
            per_second: of(&|r| rate(r) * load.items()),
            p50_us: of(&|r| p(r, 0.50)),
            p99_us: of(&|r| p(r, 0.99)),
            fdatasync_p50_us: of(&|r| r.fs_us),
            in_fdatasyncs: of(&|r| p(r, 0.50) / load.parts() / r.fs_us.max(0.001)),
            ceiling_per_second: of(&|r| r.ceiling),
            ratio: of(&ratio),
            commits_per_workflow: of(&|r| r.done.commits as f64 / r.done.workflows.max(1) as f64),
            more: vec![(
                "cpu_us",
                of(&|r| r.done.cpu_us / r.done.workflows.max(1) as f64),
            )],
        }
    }
}

/// Prints lines as they come.
pub(super) struct Reporter {
    is_json: bool,
    has_head: bool,
}

impl Reporter {
    pub(super) fn new(is_json: bool) -> Self {
        Self {
            is_json,
            has_head: false,
        }
    }

    #[expect(clippy::print_stdout, reason = "this is what the command is for")]
    pub(super) fn line(&mut self, line: &Line) {
        if self.is_json {
            println!("{}", object(line));
            return;
        }
        if !self.has_head {
            self.has_head = true;
            println!(
                "{:<14}{:>7}{:>9}{:>12}{:>12}{:>12}{:>8}{:>9}{:>9}",
                "workload",
                "at",
                "events",
                "per s",
                "p50 us",
                "p99 us",
                "in fs",
                "ratio",
                "commits"
            );
        }
        println!(
            "{:<14}{:>7}{:>9}{:>12.0}{:>12.0}{:>12.0}{:>8.2}{:>9.3}{:>9.2}{}",
            line.workload,
            line.concurrency,
            line.events,
            line.per_second,
            line.p50_us,
            line.p99_us,
            line.in_fdatasyncs,
            line.ratio,
            line.commits_per_workflow,
            extras(line),
        );
    }

    #[expect(clippy::print_stdout, reason = "this is what the command is for")]
    pub(super) fn end(&self) {
        if !self.is_json {
            println!(
                "fs = p50 of a 4 KiB append + fdatasync; ratio = to a bare log in the same run"
            );
        }
    }
}

fn extras(line: &Line) -> String {
    line.more
        .iter()
        .map(|(name, value)| format!("  {name}={value:.2}"))
        .collect()
}

fn object(line: &Line) -> serde_json::Value {
    let mut object = json!({
        "workload": line.workload,
        "concurrency": line.concurrency,
        "events": line.events,
        "per_second": line.per_second,
        "p50_us": line.p50_us,
        "p99_us": line.p99_us,
        "fdatasync_p50_us": line.fdatasync_p50_us,
        "in_fdatasyncs": line.in_fdatasyncs,
        "ceiling_per_second": line.ceiling_per_second,
        "ratio": line.ratio,
        "commits_per_workflow": line.commits_per_workflow,
    });
    if let Some(map) = object.as_object_mut() {
        for (name, value) in &line.more {
            map.insert((*name).into(), json!(value));
        }
    }
    object
}
