//! Conditions on state: tested when everything waits, and only if state was written.
//!
//! A condition is tested once when it is registered. Afterwards it is tested when the run is at
//! rest, in order of registration, if state was written since its last test. The first one that
//! holds wakes its waiter, which runs until all wait again; then the walk goes on, or begins
//! anew if state was written. So whoever awaits a condition finds it true, even where several
//! wait for the same thing and the first one takes it away. A condition that panics ends its own
//! wait and nothing else.

use std::any::Any;
use std::panic::Location;
use std::rc::Rc;

use outlast_model::Failure;

use crate::guard::{Guard, Reader, guarded};
use crate::shared::{Place, Shared};
use crate::slab::{Entry as Inside, Presence};
use crate::state::{Borrowed, CONDITION};
use crate::wait::{Wait, WaitCell, Waited};

/// Whether what somebody waits for is so.
pub type Predicate = Box<dyn Fn(&dyn Any) -> bool>;

/// One condition; without a predicate once its wait is over.
struct Entry {
    predicate: Option<Predicate>,
    /// How often state had been written when it was last tested.
    tested: u64,
    cell: Rc<WaitCell>,
}

/// All conditions of an instance, in order of registration.
#[derive(Default)]
pub(crate) struct Conditions {
    entries: Vec<Entry>,
    over: usize,
    /// Where the walk stands, and for which count of writes it is made.
    next: usize,
    walk: u64,
}

impl Conditions {
    /// The next that ends its wait. Those before it, tested on this very state, are not tested
    /// again.
    fn next_to_end(&mut self, writes: u64, state: &dyn Any) -> Option<Found> {
        if self.walk != writes {
            (self.walk, self.next) = (writes, 0);
        }
        for entry in &mut self.entries[self.next..] {
            self.next += 1;
            if entry.tested == writes || !entry.cell.is_waiting() {
                continue;
            }
            let Some(predicate) = &entry.predicate else {
                continue;
            };
            entry.tested = writes;
            if let Some(how) = test(predicate, state, entry.cell.place) {
                self.over += 1;
                return Some(Found {
                    cell: Rc::clone(&entry.cell),
                    how,
                    predicate: entry.predicate.take(),
                });
            }
        }
        None
    }

    /// Where those that wait were made.
    pub(crate) fn places(&self) -> impl Iterator<Item = Place> {
        let waiting = self.entries.iter().filter(|entry| entry.cell.is_waiting());
        waiting.map(|entry| entry.cell.place)
    }

    /// Nobody waits for it any more.
    fn forget(&mut self, number: u64) -> Option<Predicate> {
        let found = self
            .entries
            .binary_search_by_key(&number, |e| e.cell.number);
        let predicate = self.entries[found.ok()?].predicate.take()?;
        self.over += 1;
        self.sweep();
        Some(predicate)
    }

    /// Drops entries that are over, when they are the most.
    fn sweep(&mut self) {
        if self.over * 2 <= self.entries.len() {
            return;
        }
        let mut at = 0;
        let next = self.next;
        self.entries.retain(|entry| {
            if at < next && entry.predicate.is_none() {
                self.next -= 1;
            }
            at += 1;
            entry.predicate.is_some()
        });
        self.over = 0;
    }
}

/// A wait to end; its predicate is dropped when nothing is borrowed any more.
struct Found {
    cell: Rc<WaitCell>,
    how: Waited,
    predicate: Option<Predicate>,
}

/// How a test ends the wait, if it does.
fn test(predicate: &Predicate, state: &dyn Any, place: Place) -> Option<Waited> {
    match guarded(|| predicate(state)) {
        Ok(false) => None,
        Ok(true) => Some(Waited::Released),
        Err(failure) => {
            let text = format!("the condition at {place} panicked: {}", failure.message);
            Some(Waited::Panicked(Failure::panic(text)))
        }
    }
}

impl Shared {
    /// Waits until the predicate holds.
    pub(crate) fn wait_until(self: &Rc<Self>, predicate: Predicate, place: Place) -> Wait {
        let cell = WaitCell::new(self.next_wait(), place, &self.scope.borrow());
        let ended = {
            let state = Borrowed::new(self, CONDITION, place);
            let _guard = Guard::new(self, Reader::Condition);
            test(&predicate, state.any(), place)
        };
        match ended {
            Some(how) => drop(cell.end(how)),
            None => self.conditions.borrow_mut().entries.push(Entry {
                predicate: Some(predicate),
                tested: self.writes.get(),
                cell: Rc::clone(&cell),
            }),
        }
        Wait::new(Rc::clone(self), cell)
    }

    /// Whether state was written since all conditions were tested.
    pub(crate) fn has_conditions_to_test(&self) -> bool {
        let conditions = self.conditions.borrow();
        let is_new = conditions.walk != self.writes.get();
        (is_new || conditions.next < conditions.entries.len()) && !conditions.entries.is_empty()
    }

    /// Ends the first wait whose condition holds; false if there is none.
    pub(crate) fn test_conditions(self: &Rc<Self>) -> bool {
        // Out of its cell while user code runs: a predicate may drop what it holds.
        let mut conditions = self.conditions.take();
        let found = {
            let _inside = Inside::new(self.address, Presence::Polling);
            let state = Borrowed::new(self, CONDITION, Location::caller());
            let _guard = Guard::new(self, Reader::Condition);
            conditions.next_to_end(self.writes.get(), state.any())
        };
        conditions.sweep();
        *self.conditions.borrow_mut() = conditions;
        let Some(Found {
            cell,
            how,
            predicate,
        }) = found
        else {
            return false;
        };
        cell.end(how);
        let _inside = Inside::new(self.address, Presence::Polling);
        drop(predicate);
        true
    }

    /// Nobody waits for it any more.
    pub(crate) fn forget_condition(&self, number: u64) {
        let predicate = self.conditions.borrow_mut().forget(number);
        // Only now: what it holds may call back.
        drop(predicate);
    }
}
