//! What a worker can run: workflow programs and activity code, by name.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use outlast_model::task::AttemptResult;
use outlast_model::{ActivityType, Payload, WorkflowType};
use outlast_runtime::Program;

use crate::attempt::AttemptCtx;

/// The body of one attempt.
pub enum Body {
    /// Polled on the async runtime.
    Async(Pin<Box<dyn Future<Output = AttemptResult> + Send>>),
    /// Runs on a thread of its own.
    Blocking(Box<dyn FnOnce() -> AttemptResult + Send>),
}

impl std::fmt::Debug for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Async(_) => "Async",
            Self::Blocking(_) => "Blocking",
        })
    }
}

/// Code of an activity: makes the body of one attempt.
pub type ActivityCode = Arc<dyn Fn(AttemptCtx, Payload) -> Body + Send + Sync>;

/// What a worker can run.
#[derive(Clone, Default)]
pub struct Registry {
    /// Workflow programs.
    pub workflows: BTreeMap<WorkflowType, Arc<dyn Program + Send + Sync>>,
    /// Activity code.
    pub activities: BTreeMap<ActivityType, ActivityCode>,
    /// How long one poll of a workflow may take, where that is not as in the settings; zero: for
    /// ever.
    pub patience: BTreeMap<WorkflowType, Duration>,
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Registry")
            .field("workflows", &self.workflows.keys())
            .field("activities", &self.activities.keys())
            .finish()
    }
}
