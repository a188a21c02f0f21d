//! The table of all metrics. `docs/metrics.md` is made from it, and a test compares the two.

/// What kind of number it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only grows, from 0 at the start of the process.
    Counter,
    /// Goes up and down.
    Gauge,
    /// How values are spread.
    Histogram,
}

impl Kind {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Things.
    Count,
    /// Time; kept in microseconds, shown in seconds.
    Seconds,
}

/// One metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// Its name, `outlast_..`.
    pub name: &'static str,
    /// What kind of number it is.
    pub kind: Kind,
    /// What is counted.
    pub unit: Unit,
    /// Names of its labels.
    pub labels: &'static [&'static str],
    /// What it says.
    pub help: &'static str,
}

macro_rules! table {
    ($($name:ident: $kind:ident $unit:ident [$($label:ident)*] $help:literal;)*) => {
        /// Every metric there is.
        pub const TABLE: &[Metric] = &[$(Metric {
            name: concat!("outlast_", stringify!($name)),
            kind: Kind::$kind,
            unit: Unit::$unit,
            labels: &[$(stringify!($label)),*],
            help: $help,
        }),*];

        /// Names of all metrics, so that a wrong one does not compile.
        #[expect(non_upper_case_globals, reason = "as they are shown")]
        pub(super) mod name {
            $(pub(in crate::metrics) const $name: &str = concat!("outlast_", stringify!($name));)*
        }
    };
}

table! {
    live: Gauge Count [] "1 if a restart would not help";
    ready: Gauge Count [] "1 if the application takes work";
    workflows_open: Gauge Count [] "Runs that have not ended";
    workflows_started_total: Counter Count [r#type] "Runs that began, also as the next run of a chain";
    workflows_closed_total: Counter Count [r#type status] "Runs that ended, by how";
    task_failures_total: Counter Count [cause] "Workflow tasks that failed, by cause";
    slices_total: Counter Count [outcome] "Slices of workflow code, by how they ended";
    slice_seconds: Histogram Seconds [] "How long a slice took; measured from the first scrape on";
    cache_hits_total: Counter Count [] "Slices that found their instance in memory";
    cache_rebuilds_total: Counter Count [] "Slices that rebuilt their instance from the history";
    cache_evictions_total: Counter Count [cause] "Instances that left memory";
    cached_instances: Gauge Count [] "Instances in memory";
    attempts_started_total: Counter Count [kind] "Attempts handed out";
    attempts_ended_total: Counter Count [kind outcome] "Attempts that ended here, by how";
    retries_total: Counter Count [kind] "Attempts handed out that are not the first of their call";
    schedule_to_start_seconds: Histogram Seconds [] "From asking for an activity to its first attempt";
    attempts_running: Gauge Count [] "Attempts that run";
    attempts_waiting: Gauge Count [] "Attempts that wait for a slot";
    slots: Gauge Count [queue kind] "Slots there are";
    slots_used: Gauge Count [queue kind] "Slots in use";
    heartbeats_total: Counter Count [] "Reports of running attempts, after throttling";
    commits_total: Counter Count [] "Commits that are durable";
    commit_groups_total: Counter Count [] "Groups of commits, each with one sync";
    commit_group_size: Histogram Count [] "Commits in one group";
    commit_seconds: Histogram Seconds [] "How long the store took for a group";
    store_errors_total: Counter Count [kind] "Groups that the store did not take";
    inbox_depth: Gauge Count [] "Stimuli that no engine thread has taken yet";
    engine_threads: Gauge Count [] "Engine threads, those that are stuck among them";
    stuck_runs: Gauge Count [] "Runs that were given up and whose thread has not come back";
    zombies: Gauge Count [] "Attempts that should have ended and have not";
    worker_events_total: Counter Count [event] "Events of the worker but those that happen all the time";
}

/// The page that lists them, as Markdown.
#[cfg(test)]
pub(super) fn page() -> String {
    use std::fmt::Write as _;

    let mut page = String::from(
        "# Metrics\n\n\
         `App::metrics` has them, `to_prometheus` writes them down, and `outlast demo --metrics\n\
         ADDRESS` serves them under `/metrics`. With the feature `metrics`, a `Publisher` hands\n\
         them to the recorder that the program has installed.\n\n\
         Times are in seconds. Labels are bounded: a workflow type that is not registered here\n\
         counts as `other`, and no label is an id. Histograms have a bucket for every power of\n\
         two. This page is made from `crates/outlast/src/metrics/table.rs`; a test compares them.\n\n\
         | name | kind | labels | what it says |\n|---|---|---|---|\n",
    );
    for metric in TABLE {
        let labels: Vec<String> = metric
            .labels
            .iter()
            .map(|l| format!("`{}`", plain(l)))
            .collect();
        // Writing to a String cannot fail.
        writeln!(
            page,
            "| `{}` | {} | {} | {} |",
            metric.name,
            metric.kind.name(),
            labels.join(", "),
            metric.help
        )
        .ok();
    }
    page
}

/// A label as it is shown: `type` is a word of the language.
pub(super) fn plain(label: &str) -> &str {
    label.strip_prefix("r#").unwrap_or(label)
}
