//! Branches and shields: code with a cancellation scope of its own.
//!
//! A branch is a task, so that its wake-ups do not poll its siblings. A shield is a future of
//! the task that awaits it: only the scope differs, both when the future is made, since calls
//! schedule at once, and while it is polled.

use std::fmt;
use std::future::Future;
use std::panic::Location;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use futures_core::FusedFuture;
use outlast_model::limits;

use crate::ending::BranchEnd;
use crate::scope::Node;
use crate::shared::{Commands, Shared, Spawned};

/// A cancellation scope.
#[derive(Clone)]
pub struct Scope {
    shared: Rc<Shared>,
    node: Rc<Node>,
}

impl Scope {
    pub(crate) fn new(shared: Rc<Shared>, node: Rc<Node>) -> Self {
        Self { shared, node }
    }

    /// Cancels every operation in it and below it, by each operation's mode. Operations made in
    /// it later resolve cancelled at once.
    #[track_caller]
    pub fn cancel(&self) {
        self.shared.assert_writable("a cancel");
        self.shared.cancel_scope(&self.node);
    }

    /// Runs a future as a task of its own, in a scope below this one.
    #[track_caller]
    pub fn spawn(&self, future: impl Future<Output: BranchEnd> + 'static) -> Branch {
        Branch::spawn(&self.shared, &self.node, future)
    }

    /// Whether it is cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.node.is_cancelled()
    }
}

impl fmt::Debug for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope")
            .field("is_cancelled", &self.is_cancelled())
            .finish_non_exhaustive()
    }
}

/// A spawned branch. Dropping it changes nothing: the branch goes on.
#[derive(Clone, Debug)]
pub struct Branch {
    scope: Scope,
}

impl Branch {
    #[track_caller]
    pub(crate) fn spawn(
        shared: &Rc<Shared>,
        around: &Rc<Node>,
        future: impl Future<Output: BranchEnd> + 'static,
    ) -> Self {
        let place = Location::caller();
        shared.assert_writable("a spawn");
        assert!(
            shared.spawned.borrow().len() < limits::BRANCHES,
            "the code spawns without end: a run has at most {} branches at a time",
            limits::BRANCHES
        );
        let node = shared.branch_scope(around);
        if shared.commands.get() == Commands::On {
            let (id, waker) = shared.new_task();
            shared.spawned.borrow_mut().push(Spawned {
                id,
                future: Box::pin(async move { future.await.into_result() }),
                scope: Rc::clone(&node),
                waker,
                place,
            });
            shared.push_ready(id);
        }
        let scope = Scope::new(Rc::clone(shared), node);
        Self { scope }
    }

    /// Its failure is its own affair: the scope it was spawned in goes on.
    #[must_use]
    pub fn supervised(self) -> Self {
        self.scope.node.fail_alone();
        self
    }

    /// Nobody will ask how it ended.
    pub fn leave(&self) {
        self.scope.node.leave_unwatched();
    }

    /// Cancels its scope when the poll ends: whoever had an interest in it has dropped it.
    pub fn abandon(&self) {
        self.leave();
        self.scope.shared.drop_scope(&self.scope.node);
    }

    /// Cancels its scope.
    #[track_caller]
    pub fn cancel(&self) {
        self.scope.cancel();
    }

    /// Whether its scope is cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.scope.is_cancelled()
    }

    /// Whether nothing can end a wait for it: the run is over.
    ///
    /// # Panics
    /// Outside of the code of its run.
    pub fn is_out_of_reach(&self) -> bool {
        let shared = &self.scope.shared;
        shared.is_out_of_reach(|| "the handle of a branch".into())
    }

    /// Its scope.
    pub fn scope(&self) -> Scope {
        self.scope.clone()
    }
}

/// A future out of reach of cancellation.
#[must_use = "futures do nothing unless polled"]
pub struct Shield<F> {
    shared: Rc<Shared>,
    node: Rc<Node>,
    future: Option<Pin<Box<F>>>,
}

impl<F: Future> Shield<F> {
    pub(crate) fn new(shared: Rc<Shared>, node: Rc<Node>, make: impl FnOnce() -> F) -> Self {
        let future = {
            let _inside = Inside::new(&shared, &node);
            Box::pin(make())
        };
        Self {
            shared,
            node,
            future: Some(future),
        }
    }
}

impl<F: Future> Future for Shield<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let Self {
            shared,
            node,
            future,
        } = &mut *self;
        let _inside = Inside::new(shared, node);
        let Some(running) = future else {
            panic!("a shield was polled after it completed")
        };
        let polled = running.as_mut().poll(cx);
        if polled.is_ready() {
            *future = None;
        }
        polled
    }
}

impl<F: Future> FusedFuture for Shield<F> {
    fn is_terminated(&self) -> bool {
        self.future.is_none()
    }
}

impl<F> fmt::Debug for Shield<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shield")
            .field("is_done", &self.future.is_none())
            .finish_non_exhaustive()
    }
}

impl<F> Drop for Shield<F> {
    fn drop(&mut self) {
        // Its future first: what that leaves behind belongs to those around the shield.
        self.future = None;
        self.node.end();
    }
}

/// Makes a scope the current one until it is dropped.
pub(crate) struct Inside {
    shared: Rc<Shared>,
    before: Rc<Node>,
}

impl Inside {
    pub(crate) fn new(shared: &Rc<Shared>, node: &Rc<Node>) -> Self {
        let before = shared.scope.replace(Rc::clone(node));
        Self {
            shared: Rc::clone(shared),
            before,
        }
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        let inner = self.shared.scope.replace(Rc::clone(&self.before));
        drop(inner);
    }
}
