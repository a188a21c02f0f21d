//! A scope as a block: code and the branches it spawns, over when all of them are.
//!
//! ```text
//!   Running --body returned--> Joining --last branch ended--> Done
//! ```
//!
//! The body is a future of the task that awaits the block; its branches are tasks of their own.
//! The first failure, of the body or of a branch, cancels the rest and is the block's result.
//! Dropping the block cancels it.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use futures_core::FusedFuture;
use outlast_model::Failure;

use crate::branch::Inside;
use crate::scope::Node;
use crate::shared::Shared;

/// A block with a scope of its own.
#[must_use = "a scope is cancelled when dropped: await it"]
pub struct Scoped<T, F> {
    shared: Rc<Shared>,
    node: Rc<Node>,
    stage: Stage<T, F>,
}

enum Stage<T, F> {
    Running(Pin<Box<F>>),
    Joining(Result<T, Failure>),
    Done,
}

impl<T, F: Future<Output = Result<T, Failure>>> Scoped<T, F> {
    pub(crate) fn new(shared: Rc<Shared>, node: Rc<Node>, make: impl FnOnce() -> F) -> Self {
        let body = {
            let _inside = Inside::new(&shared, &node);
            Box::pin(make())
        };
        let stage = Stage::Running(body);
        Self {
            shared,
            node,
            stage,
        }
    }

    fn returned(&mut self, result: Result<T, Failure>) {
        if let Err(failure) = &result
            && !self.node.cuts_operations()
        {
            self.shared.fail_scope(&self.node, failure.clone());
        }
        self.stage = Stage::Joining(result);
    }
}

// Nothing in it is pinned but the body, which is boxed.
impl<T, F> Unpin for Scoped<T, F> {}

impl<T, F: Future<Output = Result<T, Failure>>> Future for Scoped<T, F> {
    type Output = Result<T, Failure>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let scoped = &mut *self;
        if let Stage::Running(body) = &mut scoped.stage {
            let polled = {
                let _inside = Inside::new(&scoped.shared, &scoped.node);
                body.as_mut().poll(cx)
            };
            match polled {
                Poll::Ready(result) => scoped.returned(result),
                Poll::Pending => return Poll::Pending,
            }
        }
        if scoped.node.has_members() {
            scoped.node.join(cx.waker());
            return Poll::Pending;
        }
        match std::mem::replace(&mut scoped.stage, Stage::Done) {
            Stage::Joining(result) => {
                scoped.node.end();
                Poll::Ready(scoped.node.failure().map_or(result, Err))
            }
            Stage::Running(_) | Stage::Done => panic!("a scope was polled after it ended"),
        }
    }
}

impl<T, F: Future<Output = Result<T, Failure>>> FusedFuture for Scoped<T, F> {
    fn is_terminated(&self) -> bool {
        matches!(self.stage, Stage::Done)
    }
}

impl<T, F> Drop for Scoped<T, F> {
    fn drop(&mut self) {
        match self.stage {
            Stage::Running(_) | Stage::Joining(_) => self.shared.drop_scope(&self.node),
            Stage::Done => {}
        }
    }
}

impl<T, F> fmt::Debug for Scoped<T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scoped")
            .field("is_cancelled", &self.node.is_cancelled())
            .finish_non_exhaustive()
    }
}
