//! What a shard counts while it decides, and what the service counts while it commits: relaxed
//! atomics, read by whoever draws a curve.
//!
//! Runs are counted when their commit is on disk, attempts when they may begin: a commit that is not
//! written counts for nothing. Labels are bounded: workflow types are those that are
//! registered here, all others are one.

use std::collections::BTreeMap;

use outlast_engine::Effect;
use outlast_model::event::TaskFailedCause;
use outlast_model::meter::{Counter, Histogram};
use outlast_model::task::AttemptKind;
use outlast_model::{Attempt, Status, Timestamp, WorkflowType};

use crate::outlet::Capabilities;
use crate::store::CommitError;

/// The label of types that are not registered here.
pub const OTHER: &str = "other";
/// Causes of failed workflow tasks, in the order of their counters.
pub const CAUSES: [TaskFailedCause; 6] = [
    TaskFailedCause::WorkerUnhandledFailure,
    TaskFailedCause::NonDeterminism,
    TaskFailedCause::UnhandledCommand,
    TaskFailedCause::BadCommand,
    TaskFailedCause::Stuck,
    TaskFailedCause::Quarantined,
];
/// Kinds of errors of the store, in the order of their counters.
pub const STORE_ERRORS: [&str; 3] = ["full", "failed", "conflict"];

/// Runs of one type.
#[derive(Debug, Default)]
pub struct RunMeter {
    /// Runs that began.
    pub started: Counter,
    closed: [Counter; 7],
}

impl RunMeter {
    /// Runs that ended like this.
    pub fn closed(&self, status: Status) -> u64 {
        self.closed[usize::from(status.number()) - 1].get()
    }
}

/// Attempts of one kind.
#[derive(Debug, Default)]
pub struct AttemptMeter {
    /// Handed out.
    pub started: Counter,
    /// Handed out that are not the first of their call.
    pub retries: Counter,
}

/// What one shard counts.
#[derive(Debug)]
pub struct ShardMeter {
    types: BTreeMap<WorkflowType, RunMeter>,
    other: RunMeter,
    task_failures: [Counter; 6],
    /// Of activities and of steps.
    pub attempts: [AttemptMeter; 2],
    /// From the moment an activity was asked for until it was handed out first, in microseconds.
    pub schedule_to_start: Histogram,
}

impl ShardMeter {
    pub(crate) fn new(capabilities: &Capabilities) -> Self {
        let served = capabilities.queues.values();
        let types = served.flat_map(|served| &served.workflows);
        Self {
            types: types.map(|t| (t.clone(), RunMeter::default())).collect(),
            other: RunMeter::default(),
            task_failures: Default::default(),
            attempts: Default::default(),
            schedule_to_start: Histogram::default(),
        }
    }

    /// Runs by type, [`OTHER`] last.
    pub fn types(&self) -> impl Iterator<Item = (&str, &RunMeter)> {
        let known = self
            .types
            .iter()
            .map(|(name, meter)| (name.as_str(), meter));
        known.chain([(OTHER, &self.other)])
    }

    /// Workflow tasks that failed, in the order of [`CAUSES`].
    pub fn task_failures(&self) -> [u64; 6] {
        std::array::from_fn(|i| self.task_failures[i].get())
    }

    pub(crate) fn started(&self, workflow_type: &WorkflowType) {
        self.of(workflow_type).started.one();
    }

    pub(crate) fn closed(&self, workflow_type: &WorkflowType, status: Status) {
        self.of(workflow_type).closed[usize::from(status.number()) - 1].one();
    }

    pub(crate) fn task_failed(&self, cause: TaskFailedCause) {
        if let Some(index) = CAUSES.iter().position(|c| *c == cause) {
            self.task_failures[index].one();
        }
    }

    pub(crate) fn handed_out(&self, effect: &Effect, now: Timestamp) {
        let (kind, attempt) = match effect {
            Effect::StartActivity(order) => {
                if order.token.attempt == Attempt::FIRST {
                    self.schedule_to_start.record_time(now.since(order.at));
                }
                (order.token.kind, order.token.attempt)
            }
            Effect::StartStep(task) => (task.token.kind, task.token.attempt),
            Effect::Stop(..) | Effect::Closed(_) | Effect::Update(..) => return,
        };
        let meter = match kind {
            AttemptKind::Activity => &self.attempts[0],
            AttemptKind::Step => &self.attempts[1],
        };
        meter.started.one();
        if attempt > Attempt::FIRST {
            meter.retries.one();
        }
    }

    fn of(&self, workflow_type: &WorkflowType) -> &RunMeter {
        self.types.get(workflow_type).unwrap_or(&self.other)
    }
}

/// What the service counts while it commits.
#[derive(Debug, Default)]
pub struct CommitMeter {
    /// Commits in one group.
    pub group_size: Histogram,
    /// How long the store took for a group, in microseconds.
    pub commit_time: Histogram,
    /// Reports of running attempts.
    pub heartbeats: Counter,
    errors: [Counter; 3],
}

impl CommitMeter {
    /// Errors of the store, in the order of [`STORE_ERRORS`].
    pub fn errors(&self) -> [u64; 3] {
        std::array::from_fn(|i| self.errors[i].get())
    }

    pub(crate) fn failed(&self, error: &CommitError) {
        let index = match error {
            CommitError::Full => 0,
            CommitError::Failed { .. } => 1,
            CommitError::Conflict { .. } => 2,
        };
        self.errors[index].one();
    }
}

/// How much waits at this moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Levels {
    /// Open runs.
    pub open_runs: usize,
    /// Mail that no engine thread has taken.
    pub mail: usize,
    /// Attempts that wait for a slot.
    pub waiting_attempts: usize,
}
