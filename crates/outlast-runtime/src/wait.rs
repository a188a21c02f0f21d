//! A wait for something inside the run: a condition, a lock, a message between branches.
//!
//! ```text
//!   Waiting --released, cancelled or its condition panicked--> Ended --poll--> Taken
//! ```
//!
//! Nothing of it is recorded: what ends it is workflow code, which a replay repeats. It belongs
//! to a scope like a durable operation, so that a cancel reaches every await; what was released
//! before the cancel came stays released.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use futures_core::FusedFuture;
use outlast_model::Failure;
use outlast_model::event::Site;

use crate::scope::Node;
use crate::shared::{Place, Shared, site};

/// How a wait ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Waited {
    /// What it waited for has come.
    Released,
    /// It was cancelled, or its scope was.
    Canceled,
    /// The condition it waited for panicked.
    Panicked(Failure),
}

#[derive(Debug, PartialEq)]
enum State {
    Waiting,
    Ended(Waited),
    Taken,
}

pub(crate) struct WaitCell {
    pub(crate) number: u64,
    pub(crate) place: Place,
    state: RefCell<State>,
    waker: RefCell<Option<Waker>>,
    scope: RefCell<Rc<Node>>,
    is_cancelled: Cell<bool>,
}

impl WaitCell {
    pub(crate) fn new(number: u64, place: Place, scope: &Rc<Node>) -> Rc<Self> {
        let cell = Rc::new(Self {
            number,
            place,
            state: RefCell::new(State::Waiting),
            waker: RefCell::default(),
            scope: RefCell::new(Rc::clone(scope)),
            is_cancelled: Cell::new(false),
        });
        scope.add_wait(number, &cell);
        cell
    }

    pub(crate) fn is_waiting(&self) -> bool {
        *self.state.borrow() == State::Waiting
    }

    /// Ends the wait, once: the answer is whether this was what ended it.
    pub(crate) fn end(&self, how: Waited) -> bool {
        let mut state = self.state.borrow_mut();
        match *state {
            State::Waiting => {}
            State::Ended(_) | State::Taken => return false,
        }
        self.is_cancelled.set(how == Waited::Canceled);
        *state = State::Ended(how);
        drop(state);
        self.scope.borrow().remove_wait(self.number);
        let waker = self.waker.take();
        if let Some(waker) = waker {
            waker.wake();
        }
        true
    }

    fn take(&self) -> Poll<Waited> {
        let mut state = self.state.borrow_mut();
        match mem::replace(&mut *state, State::Taken) {
            State::Waiting => {
                *state = State::Waiting;
                Poll::Pending
            }
            State::Ended(how) => Poll::Ready(how),
            State::Taken => panic!("the wait at {} was polled after it ended", self.place),
        }
    }
}

/// A wait for something inside the run.
#[must_use = "futures do nothing unless awaited"]
pub struct Wait {
    shared: Rc<Shared>,
    cell: Rc<WaitCell>,
}

impl Wait {
    pub(crate) fn new(shared: Rc<Shared>, cell: Rc<WaitCell>) -> Self {
        Self { shared, cell }
    }

    /// What ends it.
    pub fn releaser(&self) -> Releaser {
        Releaser {
            cell: Rc::clone(&self.cell),
        }
    }

    /// Whether it was released, and nobody has looked yet.
    pub fn is_released(&self) -> bool {
        *self.cell.state.borrow() == State::Ended(Waited::Released)
    }

    /// Ends it as cancelled. No effect on one that has ended.
    #[track_caller]
    pub fn cancel(&self) {
        self.shared.assert_writable("a cancel");
        self.cell.end(Waited::Canceled);
    }

    /// Whether it was cancelled before it ended, or its scope was.
    pub fn is_cancelled(&self) -> bool {
        let is_doomed = self.cell.is_waiting() && self.cell.scope.borrow().cuts_operations();
        self.cell.is_cancelled.get() || is_doomed
    }

    /// Moves it out of reach of cancelled scopes.
    pub fn shielded(self) -> Self {
        let shield = self.shared.shield_scope();
        if self.cell.is_waiting() {
            shield.add_wait(self.cell.number, &self.cell);
        }
        let before = self.cell.scope.replace(shield);
        before.remove_wait(self.cell.number);
        self
    }

    /// Where it was made.
    pub fn site(&self) -> Site {
        site(self.cell.place)
    }
}

impl Future for Wait {
    type Output = Waited;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Waited> {
        let cell = &self.cell;
        let is_over = || {
            cell.scope.borrow().cuts_operations()
                || self
                    .shared
                    .is_out_of_reach(|| format!("the wait at {}", cell.place))
        };
        if cell.is_waiting() && is_over() {
            cell.end(Waited::Canceled);
        }
        let taken = cell.take();
        if taken.is_pending() {
            let mut waker = cell.waker.borrow_mut();
            match &mut *waker {
                Some(waker) => waker.clone_from(cx.waker()),
                None => *waker = Some(cx.waker().clone()),
            }
        }
        taken
    }
}

impl FusedFuture for Wait {
    fn is_terminated(&self) -> bool {
        *self.cell.state.borrow() == State::Taken
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        let cell = &self.cell;
        let before = cell.state.replace(State::Taken);
        cell.waker.take();
        if before == State::Waiting {
            cell.scope.borrow().remove_wait(cell.number);
        }
        self.shared.forget_condition(cell.number);
    }
}

impl fmt::Debug for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wait")
            .field("at", &self.cell.place)
            .field("state", &self.cell.state.borrow())
            .finish_non_exhaustive()
    }
}

/// Ends a [`Wait`].
#[derive(Clone)]
pub struct Releaser {
    cell: Rc<WaitCell>,
}

impl Releaser {
    /// Lets the one who waits go on; false if nobody waits any more.
    pub fn release(&self) -> bool {
        self.cell.end(Waited::Released)
    }

    /// Whether somebody waits.
    pub fn is_waiting(&self) -> bool {
        self.cell.is_waiting()
    }
}

impl fmt::Debug for Releaser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Releaser")
            .field("at", &self.cell.place)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scope::{Cancel, Side};
    use std::panic::Location;

    #[test]
    fn only_the_first_end_counts() {
        let scope = Node::root(0, Side::Main);
        let ends = [
            Waited::Released,
            Waited::Canceled,
            Waited::Panicked(Failure::panic("no")),
        ];
        for first in &ends {
            for second in &ends {
                let cell = WaitCell::new(1, Location::caller(), &scope);
                assert_eq!(cell.take(), Poll::Pending);
                assert!(cell.end(first.clone()));
                assert!(!cell.end(second.clone()));
                assert_eq!(cell.take(), Poll::Ready(first.clone()));
                assert!(!cell.end(second.clone()));
                assert_eq!(cell.is_cancelled.get(), *first == Waited::Canceled);
            }
        }
    }

    #[test]
    fn a_scope_knows_only_those_who_wait() {
        let scope = Node::root(0, Side::Main);
        let (one, two) = (
            WaitCell::new(1, Location::caller(), &scope),
            WaitCell::new(2, Location::caller(), &scope),
        );
        one.end(Waited::Released);
        let reached = scope.cancel(Cancel::Cut).waits;
        assert_eq!(reached.into_keys().collect::<Vec<_>>(), [two.number]);
    }
}
