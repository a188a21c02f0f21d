//! Cancellation scopes: which operations a cancel reaches.
//!
//! The main scope holds main and, below it, one scope per branch. A shield has no parent, so
//! that nothing reaches into it. Handlers have a scope of their own, which a cancel of the
//! workflow marks but does not cut. A scope that ends hands its children to its parent: a branch
//! may outlive the one that spawned it, and no chain of dead scopes is kept alive.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::{Rc, Weak};

use crate::cell::Key;

/// What a scope is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Main and its branches.
    Main,
    /// Handlers of messages: asked to stop by the flag only.
    Handlers,
    /// Out of reach.
    Shield,
}

/// One scope.
pub(crate) struct Node {
    id: u64,
    purpose: Purpose,
    is_cancelled: Cell<bool>,
    parent: RefCell<Weak<Node>>,
    children: RefCell<BTreeMap<u64, Weak<Node>>>,
    operations: RefCell<BTreeSet<Key>>,
}

impl Node {
    /// A scope without a parent.
    pub(crate) fn root(id: u64, purpose: Purpose) -> Rc<Self> {
        Rc::new(Self::new(id, purpose, false, Weak::new()))
    }

    /// A scope that is cancelled with its parent.
    pub(crate) fn child(id: u64, parent: &Rc<Self>) -> Rc<Self> {
        let is_cancelled = parent.is_cancelled.get();
        let child = Rc::new(Self::new(
            id,
            parent.purpose,
            is_cancelled,
            Rc::downgrade(parent),
        ));
        parent
            .children
            .borrow_mut()
            .insert(id, Rc::downgrade(&child));
        child
    }

    fn new(id: u64, purpose: Purpose, is_cancelled: bool, parent: Weak<Self>) -> Self {
        Self {
            id,
            purpose,
            is_cancelled: Cell::new(is_cancelled),
            parent: RefCell::new(parent),
            children: RefCell::default(),
            operations: RefCell::default(),
        }
    }

    /// Whether code in this scope should come to an end.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.is_cancelled.get()
    }

    /// Whether operations made in this scope are cut off as soon as they are made.
    pub(crate) fn cuts_operations(&self) -> bool {
        match self.purpose {
            Purpose::Main | Purpose::Shield => self.is_cancelled.get(),
            Purpose::Handlers => false,
        }
    }

    /// Marks this scope and all below it, and returns the operations to cancel, in the order of
    /// kind and number.
    pub(crate) fn cancel(self: &Rc<Self>) -> BTreeSet<Key> {
        let mut reached = BTreeSet::new();
        let mut open = vec![Rc::clone(self)];
        while let Some(node) = open.pop() {
            node.is_cancelled.set(true);
            if node.cuts_operations() {
                reached.extend(node.operations.borrow().iter().copied());
            }
            open.extend(node.children.borrow().values().filter_map(Weak::upgrade));
        }
        reached
    }

    pub(crate) fn add(&self, key: Key) {
        self.operations.borrow_mut().insert(key);
    }

    pub(crate) fn remove(&self, key: Key) {
        self.operations.borrow_mut().remove(&key);
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let Some(parent) = self.parent.borrow().upgrade() else {
            return;
        };
        let mut adopted = parent.children.borrow_mut();
        adopted.remove(&self.id);
        for (id, child) in std::mem::take(&mut *self.children.borrow_mut()) {
            if let Some(node) = child.upgrade() {
                *node.parent.borrow_mut() = Rc::downgrade(&parent);
                adopted.insert(id, child);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::Kind;
    use outlast_model::Seq;

    fn key(seq: u32) -> Key {
        Key {
            kind: Kind::Timer,
            seq: Seq(seq),
        }
    }

    #[test]
    fn a_cancel_reaches_all_below_and_nothing_beside() {
        let main = Node::root(0, Purpose::Main);
        let branch = Node::child(1, &main);
        let below = Node::child(2, &branch);
        let beside = Node::child(3, &main);
        below.add(key(9));
        branch.add(key(4));
        beside.add(key(1));
        assert_eq!(
            branch.cancel().into_iter().collect::<Vec<_>>(),
            [key(4), key(9)]
        );
        assert!(below.is_cancelled() && !beside.is_cancelled() && !main.is_cancelled());
        assert!(Node::child(5, &below).is_cancelled());
    }

    #[test]
    fn a_branch_outlives_the_one_that_spawned_it() {
        let main = Node::root(0, Purpose::Main);
        let middle = Node::child(1, &main);
        let last = Node::child(2, &middle);
        last.add(key(7));
        drop(middle);
        assert_eq!(main.cancel().into_iter().collect::<Vec<_>>(), [key(7)]);
    }

    #[test]
    fn handlers_see_the_cancel_and_keep_their_operations() {
        let handlers = Node::root(0, Purpose::Handlers);
        handlers.add(key(1));
        assert!(handlers.cancel().is_empty());
        assert!(handlers.is_cancelled() && !handlers.cuts_operations());
    }
}
