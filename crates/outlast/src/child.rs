//! Child workflows: runs of their own, with a history of their own, whose result comes back.
//!
//! Awaiting the call gives the child's result, or its error with the child's own type. Its
//! [`started`](Call::started) says when it runs, and gives a handle to talk to it.

use std::borrow::Cow;
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context as Wakers, Poll};
use std::time::Duration;

use outlast_model::start::ReusePolicy;
use outlast_model::view::RunRef;
use outlast_model::{
    ChildCancel, ChildOptions, ParentClose, Priority, QueueName, WorkflowId, WorkflowType,
};
use outlast_runtime::{ChildStarted, Context};
use serde_json::Value;

use crate::activity::Activity;
use crate::arg::Arg;
use crate::call::{Call, kind};
use crate::call_error::CallError;
use crate::ctx::Ctx;
use crate::error::Error;
use crate::external::External;
use crate::failure::IntoFailure;
use crate::outgoing::Encoded;
use crate::subject::Subject;
use crate::trace::Trace;
use crate::undo::{Undoes, undone_by, undone_with};
use crate::wire::store_or_panic;
use crate::workflow::Workflow;

/// The call of a child that is a `W`.
pub type ChildOf<W, K> = Call<
    <W as Workflow<K>>::Output,
    <W as Workflow<K>>::Error,
    kind::Child<<W as Workflow<K>>::Peer>,
>;

/// Other runs.
impl<S> Ctx<S> {
    /// Starts a workflow as a child of this one and gives its result.
    ///
    /// # Panics
    /// If the input does not serialise or is over the limit.
    #[track_caller]
    pub fn child<W, K>(self, workflow: W, input: impl Arg<W::Input>) -> ChildOf<W, K>
    where
        W: Workflow<K>,
    {
        start(self.raw(), workflow.name().into(), input.payload())
    }

    /// Starts a child that this program knows by name only: JSON in, JSON out.
    ///
    /// # Panics
    /// If the input is over the limit.
    #[track_caller]
    pub fn child_raw(
        self,
        workflow: &str,
        input: &Value,
    ) -> Call<Value, Error, kind::Child<External>> {
        let name = Cow::Owned(workflow.to_owned());
        start(self.raw(), name, Arg::<Value>::payload(input))
    }

    /// The newest run of another workflow: its signals, durably.
    pub fn get<W, K>(self, _workflow: W, id: impl AsRef<str>) -> W::Peer
    where
        W: Workflow<K>,
    {
        self.external(id).into()
    }

    /// The newest run of an id, whatever its type.
    pub fn external(self, id: impl AsRef<str>) -> External {
        let run = RunRef::newest(WorkflowId::new(id.as_ref()));
        External::new(self.raw(), run)
    }
}

#[track_caller]
fn start<T, E: IntoFailure, P>(
    ctx: Context,
    name: Cow<'static, str>,
    input: Encoded,
) -> Call<T, E, kind::Child<P>> {
    let workflow_type = WorkflowType::new(&*name);
    let subject = Subject::Child(name);
    let input = store_or_panic(&subject, input);
    let operation = ctx.child(workflow_type, None, input, ChildOptions::default());
    Call::new(ctx, operation, subject)
}

/// Options of children.
impl<T, E: IntoFailure, P> Call<T, E, kind::Child<P>> {
    /// Its id; without one it gets an id made of this run's.
    #[track_caller]
    pub fn id(self, id: impl AsRef<str>) -> Self {
        self.edit_child(|own, _| *own = WorkflowId::new(id.as_ref()))
    }

    /// The task queue its tasks wait in, if not this workflow's own.
    #[track_caller]
    pub fn queue(self, queue: &str) -> Self {
        self.edit_child(|_, options| options.queue = Some(QueueName::new(queue)))
    }

    /// How urgent it is, and all it calls, unless a call says otherwise: from 1, first, to 5, last.
    /// Without one it is as urgent as this run.
    #[track_caller]
    pub fn priority(self, key: u8) -> Self {
        self.edit_child(|_, options| options.priority = Some(Priority::new(key)))
    }

    /// What becomes of it when this run ends: it is terminated, unless told otherwise.
    #[track_caller]
    pub fn parent_close(self, policy: ParentClose) -> Self {
        self.edit_child(|_, options| options.parent_close = policy)
    }

    /// What a cancel does: the call ends when the child has ended, unless told otherwise.
    #[track_caller]
    pub fn cancel_mode(self, mode: ChildCancel) -> Self {
        self.edit_child(|_, options| options.cancel = mode)
    }

    /// How long its run may take.
    #[track_caller]
    pub fn run_timeout(self, limit: Duration) -> Self {
        self.edit_child(|_, options| options.run_timeout = Some(limit))
    }

    /// What if a run with its id has ended: start anew, unless told otherwise.
    #[track_caller]
    pub fn reuse(self, policy: ReusePolicy) -> Self {
        self.edit_child(|_, options| options.reuse = policy)
    }

    /// If the workflow fails or is cancelled later, runs `undo` with the child's result; as
    /// [`undo` of an activity](Call::undo).
    pub fn undo<A: Activity<K, Input: Undoes<T>>, K>(mut self, undo: A) -> Self {
        self.operation = undone_by::<T, _, _>(self.operation, undo);
        self
    }

    /// As [`undo`](Self::undo), with an input that is known before.
    ///
    /// # Panics
    /// If the input does not serialise or is over the limit.
    #[track_caller]
    pub fn undo_with<A: Activity<K>, K>(mut self, undo: A, input: impl Arg<A::Input>) -> Self {
        self.operation = undone_with(self.operation, undo, input);
        self
    }

    #[track_caller]
    fn edit_child(mut self, change: impl FnOnce(&mut WorkflowId, &mut ChildOptions)) -> Self {
        self.operation = self.operation.edit_child(change);
        self
    }

    /// Waits until it runs; gives a handle with its run id and its signals. The call itself stays
    /// what it is: dropping this changes nothing.
    pub fn started(&self) -> Started<P> {
        Started {
            ctx: self.ctx,
            id: self.operation.child_id(),
            started: self.operation.started(),
            peer: PhantomData,
        }
    }
}

/// The start of a child: `.await` gives its handle.
#[must_use = "futures do nothing unless awaited"]
pub struct Started<P> {
    ctx: Context,
    id: Option<WorkflowId>,
    started: ChildStarted,
    peer: PhantomData<fn() -> P>,
}

impl<P: From<External>> Future for Started<P> {
    type Output = Result<P, CallError>;

    fn poll(mut self: Pin<&mut Self>, wakers: &mut Wakers<'_>) -> Poll<Self::Output> {
        let Poll::Ready(started) = Pin::new(&mut self.started).poll(wakers) else {
            return Poll::Pending;
        };
        let failed = |failure| CallError::observe::<Error>(Trace::new(failure));
        Poll::Ready(started.map_err(failed).map(|run_id| {
            let run = RunRef {
                workflow_id: self.id.clone().unwrap_or_else(|| WorkflowId::new("")),
                run_id: Some(run_id),
            };
            External::new(self.ctx, run).into()
        }))
    }
}

impl<P> fmt::Debug for Started<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Started").field(&self.id).finish()
    }
}

#[cfg(test)]
mod tests;
