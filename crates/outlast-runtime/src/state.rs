//! The workflow's state: borrowed by one piece of code at a time, never across an await.
//!
//! The state is taken out of its cell while code looks at it, so that code that calls back meets
//! an error that names both places, not a second borrow. Writes are counted: conditions are
//! tested only when the count has moved.

use std::any::Any;
use std::panic::Location;
use std::rc::Rc;

use crate::guard::Reader;
use crate::shared::{Place, Shared};

impl Shared {
    /// Replaces the state; the answer is what it was.
    #[track_caller]
    pub(crate) fn set_state(&self, state: Box<dyn Any>) -> Option<Box<dyn Any>> {
        self.assert_writable("a new state");
        self.count_write();
        self.state.replace(Some(state))
    }

    /// Lets code change the state.
    #[track_caller]
    pub(crate) fn with_state<R>(self: &Rc<Self>, change: impl FnOnce(&mut dyn Any) -> R) -> R {
        self.assert_writable("ctx.with");
        let mut borrowed = Borrowed::new(self, "ctx.with", Location::caller());
        self.count_write();
        change(borrowed.existing())
    }

    /// Lets code look at the state.
    #[track_caller]
    pub(crate) fn read_state<R>(self: &Rc<Self>, look: impl FnOnce(&dyn Any) -> R) -> R {
        let mut borrowed = Borrowed::new(self, "ctx.read", Location::caller());
        look(borrowed.existing())
    }

    /// Something that conditions may depend on has changed.
    pub(crate) fn count_write(&self) {
        self.writes.set(self.writes.get() + 1);
    }
}

/// Puts the state back, after a panic too: code may catch it.
pub(crate) struct Borrowed {
    shared: Rc<Shared>,
    state: Option<Box<dyn Any>>,
    what: &'static str,
    place: Place,
}

impl Borrowed {
    pub(crate) fn new(shared: &Rc<Shared>, what: &'static str, place: Place) -> Self {
        if shared.reader.get() == Some(Reader::Condition) && what != CONDITION {
            panic!("{what} at {place} was made in a condition: look at the state it is given");
        }
        if let Some((before, there)) = shared.borrowed.get() {
            panic!(
                "{what} at {place} is inside another {before} at {there}: finish the first \
                 closure before you start the second"
            );
        }
        shared.borrowed.set(Some((what, place)));
        Self {
            shared: Rc::clone(shared),
            state: shared.state.take(),
            what,
            place,
        }
    }

    /// The state, or nothing in a workflow that has none.
    pub(crate) fn any(&self) -> &dyn Any {
        self.state.as_deref().unwrap_or(&())
    }

    fn existing(&mut self) -> &mut dyn Any {
        match &mut self.state {
            Some(state) => &mut **state,
            None => panic!(
                "{} at {}: this workflow has no state",
                self.what, self.place
            ),
        }
    }
}

/// What conditions are called when their borrow clashes.
pub(crate) const CONDITION: &str = "ctx.wait_until";

impl Drop for Borrowed {
    fn drop(&mut self) {
        self.shared.borrowed.set(None);
        *self.shared.state.borrow_mut() = self.state.take();
    }
}
