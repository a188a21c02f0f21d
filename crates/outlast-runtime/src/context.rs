//! What workflow code holds.

use std::any::Any;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use outlast_model::{
    ActivityOptions, ActivityType, Payload, RunId, SignalName, StepName, StepOptions, Timestamp,
    WorkflowId,
};

use crate::operation::Operation;
use crate::program::{BranchFuture, SignalHandler, StepCode};

/// The context of a workflow.
#[derive(Clone, Copy, Debug)]
pub struct Context {
    _not_send: PhantomData<*const ()>,
}

impl Context {
    /// Asks for an activity.
    #[track_caller]
    pub fn activity(self, _: ActivityType, _: Payload, _: ActivityOptions) -> Operation {
        todo!()
    }
    /// Asks for a timer.
    #[track_caller]
    pub fn timer(self, _: Duration) -> Operation {
        todo!()
    }
    /// Asks for a step.
    #[track_caller]
    pub fn step(self, _: StepName, _: StepOptions, _: StepCode) -> Operation {
        todo!()
    }
    /// Waits for the oldest signal of this name.
    #[track_caller]
    pub fn recv(self, _: SignalName) -> Operation {
        todo!()
    }
    /// Registers a handler.
    pub fn on_signal(self, _: SignalName, _: SignalHandler) {
        todo!()
    }
    /// Spawns a branch.
    #[track_caller]
    pub fn spawn(self, _: BranchFuture) -> Branch {
        todo!()
    }
    /// Out of reach of cancellation.
    pub fn shield<F: Future>(self, _: impl FnOnce() -> F) -> Shield<F> {
        todo!()
    }
    /// Sets the workflow's state.
    pub fn set_state(self, _: Box<dyn Any>) {
        todo!()
    }
    /// Looks at the workflow's state.
    #[track_caller]
    pub fn with_state<R>(self, _: impl FnOnce(&mut dyn Any) -> R) -> R {
        todo!()
    }
    /// The workflow's time.
    pub fn now(self) -> Timestamp {
        todo!()
    }
    /// A random number, the same on replay.
    pub fn random(self) -> u64 {
        todo!()
    }
    /// A random UUID (version 4), the same on replay.
    pub fn uuid(self) -> u128 {
        todo!()
    }
    /// The user's id.
    pub fn workflow_id(self) -> WorkflowId {
        todo!()
    }
    /// This run.
    pub fn run_id(self) -> RunId {
        todo!()
    }
    /// Whether this happened before.
    pub fn is_replaying(self) -> bool {
        todo!()
    }
    /// Whether the current scope is cancelled.
    pub fn is_cancelled(self) -> bool {
        todo!()
    }
    /// Events so far.
    pub fn history_events(self) -> u64 {
        todo!()
    }
    /// Whether to continue as new soon.
    pub fn suggest_continue_as_new(self) -> bool {
        todo!()
    }
    /// The context of the slice being polled on this thread.
    pub fn current() -> Option<Context> {
        todo!()
    }
}

/// Whether this thread is inside a poll of workflow code.
pub fn in_slice() -> bool {
    todo!()
}

/// A spawned branch.
#[derive(Clone, Debug)]
pub struct Branch {
    _not_send: PhantomData<*const ()>,
}

impl Branch {
    /// Cancels its scope.
    pub fn cancel(&self) {
        todo!()
    }
    /// Whether its scope is cancelled.
    pub fn is_cancelled(&self) -> bool {
        todo!()
    }
}

/// A future out of reach of cancellation. Unpin.
#[derive(Debug)]
pub struct Shield<F> {
    _future: Option<Pin<Box<F>>>,
}

impl<F: Future> Future for Shield<F> {
    type Output = F::Output;
    fn poll(self: Pin<&mut Self>, _: &mut std::task::Context<'_>) -> Poll<F::Output> {
        todo!()
    }
}
