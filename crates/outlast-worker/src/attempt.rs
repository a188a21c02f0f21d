//! One attempt of an activity, from the inside: what its code can know and say.

use std::sync::Arc;

use outlast_model::Payload;
use outlast_model::task::{ActivityTask, StopReason};

use crate::heartbeat::Heartbeats;
use crate::stop::Stop;

/// What the code of an activity knows about its attempt.
#[derive(Clone)]
pub struct AttemptCtx {
    task: Arc<ActivityTask>,
    stop: Arc<Stop>,
    /// Absent in a unit test, where nobody listens.
    link: Option<Link>,
}

#[derive(Clone)]
pub(crate) struct Link {
    pub(crate) heartbeats: Arc<Heartbeats>,
    pub(crate) runtime: tokio::runtime::Handle,
}

impl std::fmt::Debug for AttemptCtx {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AttemptCtx")
            .field("task", &self.task)
            .finish_non_exhaustive()
    }
}

impl AttemptCtx {
    pub(crate) fn new(task: Arc<ActivityTask>, stop: Arc<Stop>, link: Link) -> Self {
        Self {
            task,
            stop,
            link: Some(link),
        }
    }

    /// A context that nobody listens to: for calling an activity in a plain test.
    pub fn unlinked(task: ActivityTask) -> Self {
        Self {
            task: Arc::new(task),
            stop: Arc::default(),
            link: None,
        }
    }

    /// What is being run.
    pub fn info(&self) -> &ActivityTask {
        &self.task
    }

    /// Says that it is alive, and how far it is: the next attempt can read it.
    pub fn heartbeat(&self, details: Payload) {
        if let Some(link) = &self.link {
            link.heartbeats.beat(details, &link.runtime);
        }
    }

    /// Whether it should stop.
    pub fn is_cancelled(&self) -> bool {
        self.stop.reason().is_some()
    }

    /// Why it should stop.
    pub fn stop_reason(&self) -> Option<StopReason> {
        self.stop.reason()
    }

    /// Waits until it should stop.
    pub async fn cancelled(&self) -> StopReason {
        self.stop.wait().await
    }
}
