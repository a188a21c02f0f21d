//! Scopes: what a cancel reaches, and what fails together.
//!
//! ```text
//!   main scope                       handler scope (supervises)
//!     +-- branch                       +-- handler
//!     |     +-- branch                 |     +-- branch
//!     +-- scope block                  +-- handler
//!           +-- branch
//! ```
//!
//! Two relations hold the tree together. A cancel goes down to *children*; a shield has no
//! parent, so that nothing reaches into it. A failure goes up to the *group*: the scope a branch
//! was spawned in, which fails with it and waits for it; a shield is no group. A scope that ends
//! hands both on to the one around it: a branch may outlive the one that spawned it, and no
//! chain of dead scopes is kept alive.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::{Rc, Weak};
use std::task::Waker;

use outlast_model::{Failure, Line};

use crate::cell::Key;
use crate::wait::WaitCell;

/// Whose code runs in a scope: main's ends when main returns, a handler's by its policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// Main and its branches.
    Main,
    /// Handlers of messages and their branches.
    Handlers,
}

/// How hard a cancel is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cancel {
    /// Code may look, its operations go on.
    Tell,
    /// Operations and waits end.
    Cut,
}

/// What a cancel has reached.
#[derive(Default)]
pub(crate) struct Reached {
    /// In the order in which their cancels are sent.
    pub(crate) operations: BTreeSet<Key>,
    /// In the order in which they began.
    pub(crate) waits: BTreeMap<u64, Rc<WaitCell>>,
}

/// One scope.
pub(crate) struct Node {
    id: u64,
    pub(crate) side: Side,
    is_told: Cell<bool>,
    is_cut: Cell<bool>,
    /// Whose cancel reaches it.
    parent: RefCell<Weak<Node>>,
    children: RefCell<BTreeMap<u64, Weak<Node>>>,
    /// Who fails with it and waits for it.
    group: RefCell<Weak<Node>>,
    members: RefCell<BTreeMap<u64, Weak<Node>>>,
    is_shield: bool,
    /// Its members fail alone.
    supervises: Cell<bool>,
    /// It fails alone.
    is_supervised: Cell<bool>,
    /// Nobody will ask how it ended.
    is_unwatched: Cell<bool>,
    /// The first failure of a member.
    failure: RefCell<Option<Failure>>,
    /// Wants to know when the last member has ended.
    joiner: RefCell<Option<Waker>>,
    operations: RefCell<Line<Key, ()>>,
    waits: RefCell<BTreeMap<u64, Weak<WaitCell>>>,
}

/// Made and ended.
impl Node {
    /// A scope with nothing around it.
    pub(crate) fn root(id: u64, side: Side) -> Rc<Self> {
        Rc::new(Self::new(id, side))
    }

    /// A scope that is cancelled with this one.
    pub(crate) fn child(id: u64, parent: &Rc<Self>) -> Rc<Self> {
        let child = Self::new(id, parent.side);
        child.is_told.set(parent.is_told.get());
        child.is_cut.set(parent.is_cut.get());
        *child.parent.borrow_mut() = Rc::downgrade(parent);
        let child = Rc::new(child);
        let weak = Rc::downgrade(&child);
        parent.children.borrow_mut().insert(id, weak);
        child
    }

    /// A scope of a task: cancelled with this one, and a member of its group.
    pub(crate) fn branch(id: u64, around: &Rc<Self>) -> Rc<Self> {
        let branch = Self::child(id, around);
        if let Some(group) = around.nearest_group() {
            *branch.group.borrow_mut() = Rc::downgrade(&group);
            let weak = Rc::downgrade(&branch);
            group.members.borrow_mut().insert(id, weak);
        }
        branch
    }

    /// A scope that no cancel reaches. What is spawned in it belongs to the group around it.
    pub(crate) fn shield(id: u64, around: &Rc<Self>) -> Rc<Self> {
        let mut shield = Self::new(id, around.side);
        shield.is_shield = true;
        let group = around.nearest_group();
        *shield.group.borrow_mut() = group.map_or_else(Weak::new, |group| Rc::downgrade(&group));
        Rc::new(shield)
    }

    fn new(id: u64, side: Side) -> Self {
        Self {
            id,
            side,
            is_told: Cell::new(false),
            is_cut: Cell::new(false),
            parent: RefCell::default(),
            children: RefCell::default(),
            group: RefCell::default(),
            members: RefCell::default(),
            is_shield: false,
            supervises: Cell::new(false),
            is_supervised: Cell::new(false),
            is_unwatched: Cell::new(false),
            failure: RefCell::default(),
            joiner: RefCell::default(),
            operations: RefCell::default(),
            waits: RefCell::default(),
        }
    }

    /// Grows with every scope of an instance.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    fn nearest_group(self: &Rc<Self>) -> Option<Rc<Self>> {
        if self.is_shield {
            self.group()
        } else {
            Some(Rc::clone(self))
        }
    }

    /// Its code has ended: what it leaves behind belongs to those around it.
    pub(crate) fn end(&self) {
        if let Some(parent) = self.parent.take().upgrade() {
            let mut adopted = parent.children.borrow_mut();
            adopted.remove(&self.id);
            for (id, child) in self.children.take() {
                if let Some(node) = child.upgrade() {
                    *node.parent.borrow_mut() = Rc::downgrade(&parent);
                    adopted.insert(id, child);
                }
            }
        }
        if let Some(group) = self.group.take().upgrade() {
            group.members.borrow_mut().remove(&self.id);
            for (id, member) in self.members.take() {
                if let Some(node) = member.upgrade() {
                    *node.group.borrow_mut() = Rc::downgrade(&group);
                    group.members.borrow_mut().insert(id, member);
                }
            }
            group.tell_joiner();
        }
    }

    fn tell_joiner(&self) {
        if !self.has_members()
            && let Some(waker) = self.joiner.take()
        {
            waker.wake();
        }
    }
}

/// Cancelled.
impl Node {
    /// Whether code in this scope should come to an end.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.is_told.get()
    }

    /// Whether operations made in this scope are cut off as soon as they are made.
    pub(crate) fn cuts_operations(&self) -> bool {
        self.is_cut.get()
    }

    /// Marks this scope and all below it; the answer is what to end.
    pub(crate) fn cancel(self: &Rc<Self>, how: Cancel) -> Reached {
        let mut reached = Reached::default();
        let mut open = vec![Rc::clone(self)];
        while let Some(node) = open.pop() {
            node.is_told.set(true);
            match how {
                Cancel::Tell => {}
                // What is below a cut scope was cut with it, or born so.
                Cancel::Cut if node.is_cut.replace(true) => continue,
                Cancel::Cut => node.give_up(&mut reached),
            }
            open.extend(node.children.borrow().values().filter_map(Weak::upgrade));
        }
        reached
    }

    fn give_up(&self, reached: &mut Reached) {
        reached.operations.extend(self.operations.borrow().keys());
        let waits = self.waits.borrow();
        let alive = waits.iter().filter_map(|(n, w)| Some((*n, w.upgrade()?)));
        reached.waits.extend(alive);
    }

    pub(crate) fn add(&self, key: Key) {
        self.operations.borrow_mut().insert(key, ());
    }

    pub(crate) fn remove(&self, key: Key) {
        self.operations.borrow_mut().remove(key);
    }

    pub(crate) fn add_wait(&self, number: u64, wait: &Rc<WaitCell>) {
        let wait = Rc::downgrade(wait);
        self.waits.borrow_mut().insert(number, wait);
    }

    pub(crate) fn remove_wait(&self, number: u64) {
        self.waits.borrow_mut().remove(&number);
    }
}

/// Failed.
impl Node {
    /// Who fails with it, unless it fails alone.
    pub(crate) fn fails_with(&self) -> Option<Rc<Self>> {
        let group = self.group()?;
        let fails_alone = self.is_supervised.get() || group.supervises.get();
        (!fails_alone).then_some(group)
    }

    fn group(&self) -> Option<Rc<Self>> {
        self.group.borrow().upgrade()
    }

    /// Keeps the first failure. Whoever calls cancels the scope.
    pub(crate) fn fail(&self, failure: Failure) {
        self.failure.borrow_mut().get_or_insert(failure);
    }

    /// The first failure of a member.
    pub(crate) fn failure(&self) -> Option<Failure> {
        self.failure.borrow().clone()
    }

    /// The first failure of a member, for one who answers for it.
    pub(crate) fn take_failure(&self) -> Option<Failure> {
        self.failure.take()
    }

    pub(crate) fn supervise_members(&self) {
        self.supervises.set(true);
    }

    pub(crate) fn fail_alone(&self) {
        self.is_supervised.set(true);
    }

    pub(crate) fn leave_unwatched(&self) {
        self.is_unwatched.set(true);
    }

    pub(crate) fn is_unwatched(&self) -> bool {
        self.is_unwatched.get()
    }

    /// Whether branches spawned in it still run.
    pub(crate) fn has_members(&self) -> bool {
        !self.members.borrow().is_empty()
    }

    /// Wakes when the last branch spawned in it has ended.
    pub(crate) fn join(&self, waker: &Waker) {
        *self.joiner.borrow_mut() = Some(waker.clone());
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.end();
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

    fn cut(node: &Rc<Node>) -> Vec<Key> {
        node.cancel(Cancel::Cut).operations.into_iter().collect()
    }

    #[test]
    fn a_cancel_reaches_all_below_and_nothing_beside() {
        let main = Node::root(0, Side::Main);
        let branch = Node::branch(1, &main);
        let below = Node::branch(2, &branch);
        let beside = Node::branch(3, &main);
        below.add(key(9));
        branch.add(key(4));
        beside.add(key(1));
        assert_eq!(cut(&branch), [key(4), key(9)]);
        assert_eq!(cut(&branch), []);
        assert!(below.is_cancelled() && !beside.is_cancelled() && !main.is_cancelled());
        assert!(Node::child(5, &below).cuts_operations());
    }

    #[test]
    fn a_branch_outlives_the_one_that_spawned_it() {
        let main = Node::root(0, Side::Main);
        let middle = Node::branch(1, &main);
        let last = Node::branch(2, &middle);
        last.add(key(7));
        middle.end();
        assert_eq!(cut(&middle), []);
        assert!(Rc::ptr_eq(&last.fails_with().expect("a group"), &main));
        assert_eq!(cut(&main), [key(7)]);
        last.end();
        assert!(!main.has_members());
    }

    #[test]
    fn what_is_told_keeps_its_operations_until_it_is_cut() {
        let handlers = Node::root(0, Side::Handlers);
        let handler = Node::branch(1, &handlers);
        handler.add(key(1));
        assert!(handlers.cancel(Cancel::Tell).operations.is_empty());
        assert!(handler.is_cancelled() && !handler.cuts_operations());
        assert!(!Node::child(2, &handler).cuts_operations());
        assert_eq!(cut(&handler), [key(1)]);
    }

    #[test]
    fn a_shield_is_out_of_reach_and_no_group() {
        let main = Node::root(0, Side::Main);
        let shield = Node::shield(1, &main);
        let inside = Node::branch(2, &shield);
        inside.add(key(1));
        assert_eq!(cut(&main), []);
        assert!(!inside.is_cancelled());
        assert!(Rc::ptr_eq(&inside.fails_with().expect("a group"), &main));
        assert!(main.has_members() && !shield.has_members());
        drop(shield);
        assert!(Rc::ptr_eq(&inside.fails_with().expect("a group"), &main));
    }

    #[test]
    fn a_supervised_branch_and_a_branch_of_a_supervisor_fail_alone() {
        let main = Node::root(0, Side::Main);
        let alone = Node::branch(1, &main);
        alone.fail_alone();
        assert!(alone.fails_with().is_none());
        let together = Node::branch(2, &main);
        assert!(together.fails_with().is_some());
        main.supervise_members();
        assert!(together.fails_with().is_none());
    }

    #[test]
    fn the_first_failure_counts() {
        let main = Node::root(0, Side::Main);
        main.fail(Failure::application("", "first"));
        main.fail(Failure::application("", "second"));
        assert_eq!(main.failure().expect("failed").message, "first");
    }
}
