//! One attempt of an activity, from the inside: what its code can know and say.

use std::sync::Arc;

use outlast_model::task::{ActivityTask, StopReason};
use outlast_model::{AnswerToken, Payload};

use crate::heartbeat::Heartbeats;
use crate::stop::Stop;

/// What the code of an activity knows about its attempt. Cheap to clone.
#[derive(Clone)]
pub struct AttemptCtx {
    inner: Arc<Inner>,
}

struct Inner {
    task: ActivityTask,
    stop: Arc<Stop>,
    /// Absent in a unit test, where nobody listens.
    link: Option<Link>,
}

pub(crate) struct Link {
    pub(crate) heartbeats: Heartbeats,
    pub(crate) runtime: tokio::runtime::Handle,
}

impl std::fmt::Debug for AttemptCtx {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AttemptCtx")
            .field("task", &self.inner.task)
            .finish_non_exhaustive()
    }
}

impl AttemptCtx {
    pub(crate) fn new(task: ActivityTask, stop: Arc<Stop>, link: Option<Link>) -> Self {
        let inner = Arc::new(Inner { task, stop, link });
        Self { inner }
    }

    /// A context that nobody listens to: for calling an activity in a plain test.
    pub fn unlinked(task: ActivityTask) -> Self {
        Self::new(task, Arc::default(), None)
    }

    /// What is being run.
    pub fn info(&self) -> &ActivityTask {
        &self.inner.task
    }

    /// Says that it is alive, and how far it is: the next attempt can read it.
    pub fn heartbeat(&self, details: Payload) {
        let Some(link) = &self.inner.link else {
            return;
        };
        if let Some(wait) = link.heartbeats.beat(details) {
            let me = self.clone();
            drop(link.runtime.spawn(async move {
                tokio::time::sleep(wait).await;
                me.flush();
            }));
        }
    }

    /// Reports what it has not reported yet.
    pub(crate) fn flush(&self) {
        if let Some(link) = &self.inner.link {
            link.heartbeats.flush();
        }
    }

    /// What answers this attempt from outside; none where nobody listens.
    pub fn answer_token(&self) -> Option<AnswerToken> {
        let link = self.inner.link.as_ref()?;
        Some(link.heartbeats.port().answer_token(&self.inner.task))
    }

    pub(crate) fn stop(&self) -> &Arc<Stop> {
        &self.inner.stop
    }

    /// Whether it should stop.
    pub fn is_cancelled(&self) -> bool {
        self.inner.stop.reason().is_some()
    }

    /// Why it should stop.
    pub fn stop_reason(&self) -> Option<StopReason> {
        self.inner.stop.reason()
    }

    /// Waits until it should stop.
    pub async fn cancelled(&self) -> StopReason {
        self.inner.stop.wait().await
    }
}
