//! The way out: what the service needs of whoever runs user code.

use std::collections::BTreeSet;

use outlast_engine::Effect;
use outlast_model::task::AttemptKind;
use outlast_model::{ActivityType, QueueName, WorkflowType};

/// Whoever runs attempts. Lends its free slots to the service, so that handing out an attempt
/// can be recorded in the very commit that makes it possible.
pub trait Outlet: Send + Sync {
    /// Takes a slot, if one is free.
    fn take_slot(&self, kind: AttemptKind) -> bool;

    /// Gives a slot back that was taken for an attempt that will not start.
    fn return_slot(&self, kind: AttemptKind);

    /// Effects whose commit is durable. [`Effect::Closed`] is for the service alone and never
    /// comes here.
    fn release(&self, effects: Vec<Effect>);
}

/// What the workers of this application can run.
#[derive(Clone, Debug, Default)]
pub struct Capabilities {
    /// Workflow types.
    pub workflows: BTreeSet<WorkflowType>,
    /// Activity types.
    pub activities: BTreeSet<ActivityType>,
    /// Task queues served here.
    pub queues: BTreeSet<QueueName>,
}
