//! The writer: takes every batch that waits and makes them durable in one transaction. It never
//! waits for company; company gathers while the disk is busy.
//!
//! When the store is idle and the batch small, the engine thread commits by itself: that saves
//! two thread hops, which cost as much as half a sync. Order is kept because it may do so only
//! when nothing is outstanding.

use std::collections::VecDeque;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use crate::batch::Batch;
use crate::store::CommitNo;
use crate::sync::{AtomicUsize, Condvar, Mutex, MutexGuard, yield_now};

/// A batch and the shard it came from.
#[derive(Debug)]
pub(crate) struct Parcel {
    pub(crate) shard: usize,
    pub(crate) batch: Batch,
    /// Of its commits, once they are in a group to be written.
    pub(crate) taken: Taken,
}

/// What was taken out of a parcel to be written in one group.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Taken {
    /// How many commits.
    pub(crate) commits: usize,
    /// The last of them.
    pub(crate) last: Option<CommitNo>,
}

impl Parcel {
    /// As it comes from the shard.
    pub(crate) fn new(shard: usize, batch: Batch) -> Self {
        let taken = Taken::default();
        Self {
            shard,
            batch,
            taken,
        }
    }
}

/// Batches on their way to the writer thread.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    state: Mutex<State>,
    bell: Condvar,
    /// Batches handed over and not yet released.
    outstanding: AtomicUsize,
    /// Held by whoever commits.
    committing: Mutex<()>,
}

#[derive(Debug, Default)]
struct State {
    parcels: VecDeque<Parcel>,
    is_asleep: bool,
    is_stopped: bool,
    is_broken: bool,
}

/// What the writer does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Job {
    /// Write what waits.
    Write,
    /// Open the store again.
    Reopen,
    /// There is nothing left to do.
    Leave,
}

/// A batch of at most so many commits may be committed by its engine thread.
pub(crate) const LEADER_LIMIT: usize = 64;

impl Queue {
    /// The right to commit at once, if nothing is outstanding and nobody commits.
    pub(crate) fn lead(&self) -> Option<MutexGuard<'_, ()>> {
        if self.outstanding.load(Ordering::Acquire) > 0 {
            return None;
        }
        self.committing.try_lock().ok()
    }

    /// The right to commit, after whoever has it now.
    pub(crate) fn commit_lock(&self) -> MutexGuard<'_, ()> {
        self.committing
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn put(&self, parcel: Parcel) {
        self.outstanding.fetch_add(1, Ordering::AcqRel);
        let mut state = self.lock();
        state.parcels.push_back(parcel);
        let is_asleep = state.is_asleep;
        drop(state);
        if is_asleep {
            self.bell.notify_one();
        }
    }

    /// What the writer does next; blocks while there is nothing. What waits is not taken yet:
    /// whoever has the right to commit must see all of it.
    pub(crate) fn next(&self) -> Job {
        let mut state = self.lock();
        loop {
            match state.is_broken {
                true if state.is_stopped => return Job::Leave,
                true => return Job::Reopen,
                false if !state.parcels.is_empty() => return Job::Write,
                false if state.is_stopped => return Job::Leave,
                false => {}
            }
            state.is_asleep = true;
            state = self
                .bell
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
            state.is_asleep = false;
        }
    }

    /// Everything that waits. Only with the right to commit.
    pub(crate) fn take(&self) -> VecDeque<Parcel> {
        std::mem::take(&mut self.lock().parcels)
    }

    /// What waits of one shard, which will not be written as it is. Only with the right to commit,
    /// and while the shard hands nothing over.
    pub(crate) fn recall(&self, shard: usize) -> Vec<Batch> {
        let mut state = self.lock();
        let (theirs, others): (Vec<Parcel>, Vec<Parcel>) = std::mem::take(&mut state.parcels)
            .into_iter()
            .partition(|parcel| parcel.shard == shard);
        state.parcels = others.into();
        drop(state);
        self.done(theirs.len());
        theirs.into_iter().map(|parcel| parcel.batch).collect()
    }

    /// The store failed: the writer opens it again.
    pub(crate) fn break_off(&self) {
        self.lock().is_broken = true;
        self.bell.notify_all();
    }

    /// The store is open again.
    pub(crate) fn go_on(&self) {
        self.lock().is_broken = false;
    }

    /// So many batches are settled.
    pub(crate) fn done(&self, batches: usize) {
        self.outstanding.fetch_sub(batches, Ordering::AcqRel);
    }

    /// Whether everything handed over has been released or refused.
    pub(crate) fn is_settled(&self) -> bool {
        self.outstanding.load(Ordering::Acquire) == 0
    }

    /// Waits until it is. For the end of a shard: nothing is handed over meanwhile. After the
    /// writer's own end nobody settles anything: then there is nothing to wait for.
    pub(crate) fn settle(&self) {
        while !self.is_settled() && !self.is_stopped() {
            // Whoever commits holds it until it is done.
            drop(self.commit_lock());
            yield_now();
        }
    }

    /// Whether the writer takes no more.
    pub(crate) fn is_stopped(&self) -> bool {
        self.lock().is_stopped
    }

    pub(crate) fn stop(&self) {
        self.lock().is_stopped = true;
        self.bell.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
