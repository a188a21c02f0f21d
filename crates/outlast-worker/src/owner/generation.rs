//! One handle of a queue, and the calls that answer through it. Each runs in a task of its own,
//! so that an activity's answer never waits behind a workflow's.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use outlast_model::RunId;
use outlast_model::task::AttemptResult;
use outlast_runtime::panic::discard;
use tokio::runtime::Handle as Runtime;
use tokio::sync::{mpsc, watch};

use crate::handle::{BackendToken, BoxFuture, CompleteError, Completion, Handle, QueueOptions};

/// Hears whether an answer was taken; exactly once, whatever happens to the call.
pub type Then = Box<dyn FnOnce(Result<(), CompleteError>) + Send>;

/// One handle.
pub(super) struct Generation {
    pub(super) number: u64,
    pub(super) handle: Arc<dyn Handle>,
    pub(super) is_stopping: watch::Sender<bool>,
    /// Something came through it: it was worth opening.
    pub(super) has_delivered: AtomicBool,
    /// It failed by itself.
    pub(super) is_broken: AtomicBool,
    /// For queues whose completions leave one after the other.
    chain: Option<mpsc::UnboundedSender<BoxFuture<'static, ()>>>,
    runtime: Runtime,
}

/// An answer.
pub(super) enum Call {
    Activation(RunId, Completion),
    Activity(BackendToken, AttemptResult),
}

impl Generation {
    pub(super) fn new(
        number: u64,
        handle: Arc<dyn Handle>,
        options: &QueueOptions,
        runtime: Runtime,
    ) -> Self {
        let chain = options.one_completion_at_a_time.then(|| {
            let (sender, receiver) = mpsc::unbounded_channel();
            drop(runtime.spawn(one_by_one(receiver, runtime.clone())));
            sender
        });
        Self {
            number,
            handle,
            is_stopping: watch::Sender::new(false),
            has_delivered: AtomicBool::new(false),
            is_broken: AtomicBool::new(false),
            chain,
            runtime,
        }
    }

    /// Tells the handle to stop, once.
    pub(super) fn stop(&self) {
        if !self.is_stopping.send_replace(true) {
            self.tell(|handle| handle.initiate_shutdown());
        }
    }

    /// A call that nobody waits for. One that panics has done what it could.
    pub(super) fn tell(&self, call: impl FnOnce(&dyn Handle)) {
        discard(catch_unwind(AssertUnwindSafe(|| call(&*self.handle))));
    }

    pub(super) fn is_stopping(&self) -> bool {
        *self.is_stopping.borrow()
    }

    /// Answers, in a task that nobody can drop.
    pub(super) fn answer(self: &Arc<Self>, call: Call, then: Then) {
        let chain = match &call {
            Call::Activation(..) => self.chain.as_ref(),
            Call::Activity(..) => None,
        };
        let (me, reply) = (self.clone(), Reply(Some(then)));
        let work: BoxFuture<'static, ()> = Box::pin(async move {
            let taken = call.make(&*me.handle).await;
            reply.give(taken);
        });
        match chain {
            // The chain lives as long as its sender.
            Some(chain) => drop(chain.send(work)),
            None => drop(self.runtime.spawn(work)),
        }
    }
}

impl Call {
    fn make(self, handle: &dyn Handle) -> BoxFuture<'_, Result<(), CompleteError>> {
        match self {
            Self::Activation(run_id, completion) => handle.complete_activation(run_id, completion),
            Self::Activity(token, result) => handle.complete_activity(token, result),
        }
    }

    pub(super) fn subject(&self) -> String {
        match self {
            Self::Activation(run_id, _) => format!("an activation of run {run_id}"),
            Self::Activity(..) => "an attempt".into(),
        }
    }
}

/// A queue's completions in their order; one that panics does not end the others.
async fn one_by_one(mut calls: mpsc::UnboundedReceiver<BoxFuture<'static, ()>>, runtime: Runtime) {
    while let Some(call) = calls.recv().await {
        // Whoever waits for it has heard of a panic by its reply.
        drop(runtime.spawn(call).await);
    }
}

/// Answers even if the call that should have answered is gone.
struct Reply(Option<Then>);

impl Reply {
    fn give(mut self, taken: Result<(), CompleteError>) {
        if let Some(then) = self.0.take() {
            then(taken);
        }
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if let Some(then) = self.0.take() {
            then(Err(CompleteError::Gone("the call did not end".into())));
        }
    }
}
