//! What hostile code holds on to: a place for each run, with a gate that keeps its threads, and a count
//! of everything that should be gone in the end.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

/// Which run of which seed: its input.
pub type Key = u64;

/// What the code of one run and its judge share.
#[derive(Default)]
pub struct Place {
    is_open: Mutex<bool>,
    bell: Condvar,
    /// Wakers that the code gave away.
    pub wakers: Mutex<Vec<Waker>>,
    /// What never comes.
    pub senders: Mutex<Vec<tokio::sync::oneshot::Sender<u64>>>,
}

impl Place {
    /// Blocks the thread until the judge has seen enough.
    pub fn pass(&self) {
        let mut is_open = lock(&self.is_open);
        while !*is_open {
            is_open = self
                .bell
                .wait(is_open)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Whether the judge has seen enough.
    pub fn is_open(&self) -> bool {
        *lock(&self.is_open)
    }

    /// Lets everybody go.
    pub fn open(&self) {
        *lock(&self.is_open) = true;
        self.bell.notify_all();
    }
}

static PLACES: Mutex<BTreeMap<Key, Arc<Place>>> = Mutex::new(BTreeMap::new());
static ALIVE: AtomicI64 = AtomicI64::new(0);

/// Makes the place of a run.
pub fn make(key: Key) -> Arc<Place> {
    let place = Arc::new(Place::default());
    lock(&PLACES).insert(key, place.clone());
    place
}

/// The place of a run; an open one when the run is over for its judge.
pub fn place(key: Key) -> Arc<Place> {
    let found = lock(&PLACES).get(&key).cloned();
    found.unwrap_or_else(|| {
        let place = Arc::new(Place::default());
        place.open();
        place
    })
}

/// The run is over: whoever still comes to its place passes.
pub fn forget(key: Key) {
    let place = lock(&PLACES).remove(&key);
    if let Some(place) = place {
        place.open();
    }
}

/// Held by an instance of code for as long as it is in memory.
pub struct Here(());

/// Counts whoever calls, until what this returns is dropped.
pub fn here() -> Here {
    ALIVE.fetch_add(1, Ordering::SeqCst);
    Here(())
}

impl Drop for Here {
    fn drop(&mut self) {
        ALIVE.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Instances of code that are in memory.
pub fn alive() -> i64 {
    ALIVE.load(Ordering::SeqCst)
}

pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
