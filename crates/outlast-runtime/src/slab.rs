//! Where a context finds its run: a slab of the thread, and the mark of the slice that runs.
//!
//! A context is an index with a generation, so that it can be `Copy` and still be caught when it
//! outlives its run. Generations are unique in the whole process, not only in the thread: that a
//! generation is the one entered here proves at once that a wake comes from the right thread and
//! from inside the right slice.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::shared::Shared;

/// Names one instance: where it is in its thread's slab, and which one it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    slot: usize,
    generation: u64,
}

/// What the thread does for the instance it has entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    /// The runtime's own work: applying jobs, dropping.
    Runtime,
    /// User code runs.
    Polling,
}

#[derive(Default)]
struct Slab {
    entries: Vec<Option<(u64, Rc<Shared>)>>,
    free: Vec<usize>,
}

thread_local! {
    static SLAB: RefCell<Slab> = RefCell::default();
    static ENTERED: Cell<Option<(Address, Presence)>> = const { Cell::new(None) };
}

static GENERATION: AtomicU64 = AtomicU64::new(1);

/// Makes room for an instance; `make` gets the address it will have.
pub(crate) fn insert(make: impl FnOnce(Address) -> Shared) -> Rc<Shared> {
    let generation = GENERATION.fetch_add(1, Ordering::Relaxed);
    let slot = SLAB.with_borrow_mut(|slab| {
        slab.free.pop().unwrap_or_else(|| {
            slab.entries.push(None);
            slab.entries.len() - 1
        })
    });
    let shared = Rc::new(make(Address { slot, generation }));
    SLAB.with_borrow_mut(|slab| slab.entries[slot] = Some((generation, Rc::clone(&shared))));
    shared
}

/// The instance at this address, if it still lives.
pub(crate) fn find(address: Address) -> Option<Rc<Shared>> {
    let found = SLAB.try_with(|slab| {
        let slab = slab.borrow();
        let (generation, shared) = slab.entries.get(address.slot)?.as_ref()?;
        (*generation == address.generation).then(|| Rc::clone(shared))
    });
    found.ok().flatten()
}

/// Frees the place of an instance. A thread that is going down has no slab any more.
pub(crate) fn remove(address: Address) {
    let removed = SLAB.try_with(|slab| {
        let mut slab = slab.borrow_mut();
        let entry = slab.entries.get_mut(address.slot)?;
        if entry
            .as_ref()
            .is_none_or(|(generation, _)| *generation != address.generation)
        {
            return None;
        }
        let shared = entry.take();
        slab.free.push(address.slot);
        shared
    });
    // Dropped only now: what it owns may look into the slab again.
    drop(removed);
}

/// The slice this thread is in.
pub(crate) fn entered() -> Option<(Address, Presence)> {
    ENTERED.try_with(Cell::get).ok().flatten()
}

/// Whether this thread is in a slice of this very instance.
pub(crate) fn is_entered(address: Address) -> bool {
    entered().is_some_and(|(here, _)| here == address)
}

/// Marks the thread as inside an instance until it is dropped.
pub(crate) struct Entry {
    before: Option<(Address, Presence)>,
}

impl Entry {
    pub(crate) fn new(address: Address, presence: Presence) -> Self {
        let before = entered();
        set(Some((address, presence)));
        Self { before }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        set(self.before);
    }
}

fn set(mark: Option<(Address, Presence)>) {
    // Fails only while the thread goes down, when nothing is left to be marked.
    ENTERED.try_with(|entered| entered.set(mark)).unwrap_or(());
}
