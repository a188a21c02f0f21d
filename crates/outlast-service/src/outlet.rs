//! The way out: what the service needs of whoever runs user code.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use outlast_engine::Effect;
use outlast_model::task::{Permit, SlotKind};
use outlast_model::{ActivityType, QueueName, WorkflowType};

use crate::store::CommitError;

/// Whoever runs user code. Lends its free slots to the service, so that handing out an attempt
/// can be recorded in the very commit that makes it possible.
pub trait Outlet: Send + Sync {
    /// Takes a slot of a task queue.
    fn take_slot(&self, queue: &QueueName, kind: SlotKind) -> Permit;

    /// Gives a slot back: of an attempt that will not start, or of a slice that is over.
    fn return_slot(&self, queue: &QueueName, kind: SlotKind);

    /// Effects whose commit is durable. [`Effect::Closed`] is for the service alone and never
    /// comes here.
    fn release(&self, effects: Vec<Effect>);

    /// Something waits for code that nobody here has. Told again and again, as often as it is
    /// looked for.
    fn lacks(&self, _lack: &Lack) {}

    /// The store does not take what is decided, and is tried again after this time. Told once,
    /// until it is back.
    fn store_away(&self, _error: &CommitError, _retry_in: Duration) {}

    /// The store takes what is decided again, after so long.
    fn store_back(&self, _away: Duration) {}
}

/// Code that nobody here has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lack {
    /// The task queue where it is wanted.
    pub queue: QueueName,
    /// What it is, and what to do.
    pub text: String,
}

/// What the workers of this application can run, by task queue.
#[derive(Clone, Debug, Default)]
pub struct Capabilities {
    /// The task queues served here.
    pub queues: BTreeMap<QueueName, Served>,
}

/// What can run on one task queue.
#[derive(Clone, Debug, Default)]
pub struct Served {
    /// Workflow types.
    pub workflows: BTreeSet<WorkflowType>,
    /// Activity types.
    pub activities: BTreeSet<ActivityType>,
    /// How slices are limited.
    pub slices: SliceLimit,
}

/// Whether slices of a queue need slots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SliceLimit {
    /// There are at least as many slots as threads: nobody needs to count.
    #[default]
    Threads,
    /// A slot is taken before each slice.
    Slots,
}

impl Capabilities {
    /// Whether somebody here serves this queue.
    pub fn serves(&self, queue: &QueueName) -> bool {
        self.queues.contains_key(queue)
    }

    /// Whether workflows of this type run on this queue here.
    pub fn has_workflow(&self, queue: &QueueName, name: &WorkflowType) -> bool {
        let served = self.queues.get(queue);
        served.is_some_and(|served| served.workflows.contains(name))
    }

    /// Whether activities of this type run on this queue here.
    pub fn has_activity(&self, queue: &QueueName, name: &ActivityType) -> bool {
        let served = self.queues.get(queue);
        served.is_some_and(|served| served.activities.contains(name))
    }

    /// Whether a slice of this queue needs a slot.
    pub fn limits_slices(&self, queue: &QueueName) -> bool {
        let served = self.queues.get(queue);
        served.is_some_and(|served| served.slices == SliceLimit::Slots)
    }
}
