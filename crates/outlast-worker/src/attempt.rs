//! One attempt of an activity, from the inside: what its code can know and say.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use outlast_model::task::{ActivityTask, StopReason};
use outlast_model::{AnswerToken, Failure, Payload};
use tokio::task::JoinHandle;

use crate::children::{Child, Children};
use crate::dispatch::Dispatcher;
use crate::event::{AttemptIn, PanicIn, WorkerEvent};
use crate::heartbeat::Heartbeats;
use crate::life::Life;
use crate::port::WorkerPort;

/// What the code of an activity knows about its attempt. Cheap to clone.
#[derive(Clone)]
pub struct AttemptCtx {
    inner: Arc<Inner>,
}

struct Inner {
    /// In the box it came in: an attempt of a fan-out is moved often enough.
    task: Box<ActivityTask>,
    life: Arc<Life>,
    children: Children,
    /// Absent in a unit test, where nobody listens.
    link: Option<Link>,
}

pub(crate) struct Link {
    pub(crate) heartbeats: Heartbeats,
    pub(crate) around: Arc<Around>,
}

/// What the attempts of one chunk have around them. All threads count who holds the parts, which costs
/// more than the attempt where many begin at once; who holds this, mostly one.
pub(crate) struct Around {
    pub(crate) dispatcher: Arc<Dispatcher>,
    pub(crate) port: Arc<dyn WorkerPort>,
}

impl std::fmt::Debug for AttemptCtx {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AttemptCtx")
            .field("task", &self.inner.task)
            .finish_non_exhaustive()
    }
}

impl AttemptCtx {
    pub(crate) fn new(task: Box<ActivityTask>, life: Arc<Life>, link: Option<Link>) -> Self {
        let inner = Inner {
            task,
            life,
            children: Children::default(),
            link,
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    /// A context that nobody listens to: for calling an activity in a plain test.
    pub fn unlinked(task: ActivityTask) -> Self {
        let life = Arc::new(Life::of_activity(&task, None));
        Self::new(Box::new(task), life, None)
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
        let around = &link.around;
        if let Some(wait) = link.heartbeats.beat(&*around.port, details) {
            // Weak: an attempt that is over has said all it had to say, and its worker must not
            // outlive it by the length of a pause.
            let me = Arc::downgrade(&self.inner);
            drop(around.dispatcher.runtime.spawn(async move {
                tokio::time::sleep(wait).await;
                if let Some(inner) = me.upgrade() {
                    Self { inner }.flush();
                }
            }));
        }
    }

    /// Reports what it has not reported yet.
    pub(crate) fn flush(&self) {
        if let Some(link) = &self.inner.link {
            link.heartbeats.flush(&*link.around.port);
        }
    }

    /// What answers this attempt from outside; none where nobody listens.
    pub fn answer_token(&self) -> Option<AnswerToken> {
        let link = self.inner.link.as_ref()?;
        Some(link.around.port.answer_token(&self.inner.task))
    }

    /// Starts a task beside the activity: it ends with the attempt at latest. Needs a runtime.
    pub fn spawn<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Child<T> {
        let around = self.inner.link.as_ref().map(|link| &link.around.dispatcher);
        let runtime = around.map_or_else(tokio::runtime::Handle::current, |d| d.runtime.clone());
        let bus = around.map(|dispatcher| dispatcher.bus.clone());
        let attempt = AttemptIn::from(&*self.inner.task);
        let on_panic = move |failure: &Failure| {
            if let Some(bus) = bus {
                bus.emit(WorkerEvent::PanicCaught {
                    place: PanicIn::Attempt(attempt),
                    message: failure.message.clone(),
                });
            }
        };
        self.inner.children.spawn(&runtime, work, on_panic)
    }

    /// Whether it ever started a task beside itself.
    pub(crate) fn has_children(&self) -> bool {
        self.inner.children.has_some()
    }

    /// Drops what it started and waits for it; returns what did not end in time.
    pub(crate) async fn end_children(&self, patience: Duration) -> Vec<JoinHandle<()>> {
        self.inner.children.end(patience).await
    }

    /// Whether it should stop.
    pub fn is_cancelled(&self) -> bool {
        self.stop_reason().is_some()
    }

    /// Why it should stop.
    pub fn stop_reason(&self) -> Option<StopReason> {
        self.inner.life.stop.reason()
    }

    /// Waits until it should stop.
    pub async fn cancelled(&self) -> StopReason {
        self.inner.life.stop.wait().await
    }

    /// Blocks the thread until it should stop, or for so long.
    pub fn wait_blocking(&self, time: Duration) -> Option<StopReason> {
        self.inner.life.stop.wait_blocking(time)
    }
}
