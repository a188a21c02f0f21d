//! How tasks end: what becomes of a failure, and what a dropped handle does.
//!
//! A branch that fails fails the scope it was spawned in, which is cancelled: its siblings and
//! the code around them come to their ends, and the failure stands in for whatever that code
//! returns. Supervised branches, handlers, and branches that were asked to stop fail alone; what
//! nobody will see of that is told.

use std::rc::Rc;

use outlast_model::Failure;

use crate::scope::{Cancel, Node, Reached};
use crate::shared::{Commands, Shared};
use crate::wait::Waited;

/// What a branch may return.
pub trait BranchEnd {
    /// Its failure, if it failed.
    ///
    /// # Errors
    /// The failure.
    fn into_result(self) -> Result<(), Failure>;
}

impl BranchEnd for () {
    fn into_result(self) -> Result<(), Failure> {
        Ok(())
    }
}

impl BranchEnd for Result<(), Failure> {
    fn into_result(self) -> Self {
        self
    }
}

/// Failed.
impl Shared {
    /// A branch has ended.
    pub(crate) fn branch_ended(&self, node: &Rc<Node>, name: &str, result: Result<(), Failure>) {
        let group = node.fails_with();
        let inherited = node.failure();
        node.end();
        // One that was asked to stop has not failed, whatever it says; one that was stopped by
        // the failure of its own branch has.
        let has_failed = inherited.is_some() || !node.cuts_operations();
        let Some(failure) = inherited.or(result.err()) else {
            return;
        };
        match group {
            Some(group) if has_failed => self.fail_scope(&group, failure),
            Some(_) | None if node.is_unwatched() && (has_failed || !failure.is_canceled()) => {
                self.warn_live(|| format!("{name} failed, and nobody waits for it: {failure}"));
            }
            Some(_) | None => {}
        }
    }

    /// A handler has ended: its own failure, or that of a branch it spawned.
    pub(crate) fn handler_ended(
        &self,
        node: &Node,
        result: Result<(), Failure>,
    ) -> Result<(), Failure> {
        node.end();
        node.failure().map_or(result, Err)
    }

    /// Fails a scope: all in it is cancelled.
    pub(crate) fn fail_scope(&self, scope: &Rc<Node>, failure: Failure) {
        scope.fail(failure);
        self.cancel_scope(scope);
    }
}

/// Dropped.
impl Shared {
    /// The handle of a scope was dropped: it is cancelled when the poll ends.
    pub(crate) fn drop_scope(&self, node: &Rc<Node>) {
        if self.commands.get() == Commands::On && !node.cuts_operations() {
            self.dropped_scopes.borrow_mut().push(Rc::clone(node));
        }
    }

    /// Marks what hangs on dropped handles, in the order in which the scopes were made.
    pub(crate) fn cancel_dropped_scopes(&self) -> Reached {
        let mut nodes = self.dropped_scopes.take();
        nodes.sort_by_key(|node| node.id());
        let mut reached = Reached::default();
        for node in nodes {
            let more = node.cancel(Cancel::Cut);
            reached.operations.extend(more.operations);
            reached.waits.extend(more.waits);
        }
        reached
    }

    pub(crate) fn end_waits(&self, reached: Reached) {
        for wait in reached.waits.into_values() {
            wait.end(Waited::Canceled);
        }
    }
}
