//! What is counted while user code runs. What happens seldom is an event and counted there; here
//! is what happens with every slice and every attempt, so it is relaxed atomics only, and times
//! are taken only once somebody has asked for them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use outlast_model::meter::{Counter, Histogram};
use outlast_model::task::{AttemptKind, AttemptOutcome, AttemptResult, TaskAnswer, WorkflowTask};

use crate::clock;
use crate::event::EvictCause;

/// How a slice ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SliceEnd {
    /// With commands.
    Completed,
    /// With answers to questions.
    Queried,
    /// With a failure.
    Failed,
}

impl SliceEnd {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Completed, Self::Queried, Self::Failed];

    /// Its name, as metrics have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Queried => "queried",
            Self::Failed => "failed",
        }
    }
}

/// Names of the ends of an attempt, in the order of their counters.
pub const ATTEMPT_ENDS: [&str; 5] = ["completed", "failed", "cancelled", "handed-back", "later"];
/// Kinds of attempts, in the order of their counters.
pub const ATTEMPT_KINDS: [&str; 2] = ["activity", "step"];

/// What is counted while user code runs.
#[derive(Debug, Default)]
pub struct Meter {
    slices: [Counter; 3],
    /// Slices that found their instance in memory.
    pub cache_hits: Counter,
    /// Slices that had to rebuild it from the history.
    pub rebuilds: Counter,
    /// How long slices took, in microseconds.
    pub slice_time: Histogram,
    attempts: [[Counter; 5]; 2],
    evictions: [Counter; EvictCause::ALL.len()],
    is_timed: AtomicBool,
}

impl Meter {
    /// Takes times from now on.
    pub fn take_times(&self) {
        self.is_timed.store(true, Ordering::Relaxed);
    }

    /// Now, if times are taken.
    pub fn begin(&self) -> Option<Instant> {
        let is_timed = self.is_timed.load(Ordering::Relaxed);
        is_timed.then(clock::now)
    }

    /// A slice is over.
    pub fn slice(&self, task: &WorkflowTask, answer: &TaskAnswer, begun: Option<Instant>) {
        let end = match answer {
            TaskAnswer::Completed { .. } => SliceEnd::Completed,
            TaskAnswer::Queried(_) => SliceEnd::Queried,
            TaskAnswer::Failed { .. } => SliceEnd::Failed,
        };
        self.slices[end as usize].one();
        if task.history.is_some() {
            self.rebuilds.one();
        } else {
            self.cache_hits.one();
        }
        if let Some(begun) = begun {
            self.slice_time
                .record_time(clock::now().duration_since(begun));
        }
    }

    /// Attempts are over.
    pub fn attempts(&self, outcomes: &[AttemptOutcome]) {
        for outcome in outcomes {
            let kind = match outcome.token.kind {
                AttemptKind::Activity => 0,
                AttemptKind::Step => 1,
            };
            let end = match outcome.result {
                AttemptResult::Completed(_) => 0,
                AttemptResult::Failed(_) => 1,
                AttemptResult::Canceled(_) => 2,
                AttemptResult::HandedBack => 3,
                AttemptResult::Later => 4,
            };
            self.attempts[kind][end].one();
        }
    }

    /// An instance left memory.
    pub fn evicted(&self, cause: EvictCause) {
        self.evictions[cause as usize].one();
    }

    /// Instances so far that left memory like this.
    pub fn evictions(&self, cause: EvictCause) -> u64 {
        self.evictions[cause as usize].get()
    }

    /// Slices so far that ended like this.
    pub fn slices(&self, end: SliceEnd) -> u64 {
        self.slices[end as usize].get()
    }

    /// Attempts so far, by the places of [`ATTEMPT_KINDS`] and [`ATTEMPT_ENDS`].
    pub fn attempts_ended(&self, kind: usize, end: usize) -> u64 {
        self.attempts[kind][end].get()
    }
}
