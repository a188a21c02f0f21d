//! Batches reach the disk here, and nothing leaves before they have.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use outlast_model::{Refusal, Timestamp};

use super::{Seat, Service, new_incarnation, partition};
use crate::batch::Batch;
use crate::points;
use crate::store::{Boot, Commit, CommitError, CommitNo};
use crate::sync::{Builder, MutexGuard};
use crate::writer::{LEADER_LIMIT, Parcel};

/// How long nothing is tried after the disk was full, and between tries to reopen the store.
pub(super) const PAUSE: Duration = Duration::from_secs(1);

impl Service {
    /// A batch leaves the shard: committed right here if the store is idle, else by the writer.
    /// Its place in the order is settled before the seat is free: a thread that takes the shard
    /// over must not overtake it.
    pub(super) fn hand_over(&self, shard: usize, batch: Batch, seat: MutexGuard<'_, Seat>) {
        points::pass("batch.taken");
        if batch.commits.len() <= LEADER_LIMIT
            && let Some(lead) = self.queue.lead()
        {
            drop(seat);
            points::pass("leader.before");
            self.commit(VecDeque::from([Parcel { shard, batch }]));
            points::pass("leader.after");
            drop(lead);
            return;
        }
        self.enqueue(shard, batch);
        drop(seat);
    }

    pub(super) fn enqueue(&self, shard: usize, batch: Batch) {
        self.queue.put(Parcel { shard, batch });
    }

    pub(super) fn start_writer(self: &Arc<Self>) {
        let service = self.clone();
        let spawned = Builder::new().name("outlast-writer".into()).spawn(move || {
            while let Some(parcels) = service.queue.take() {
                points::pass("writer.taken");
                let count = parcels.len();
                let lock = service.queue.commit_lock();
                points::pass("writer.before");
                service.commit(parcels);
                points::pass("writer.after");
                service.queue.done(count);
                drop(lock);
            }
        });
        if let Ok(handle) = spawned {
            *self.writer.lock().unwrap_or_else(PoisonError::into_inner) = Some(handle);
        }
    }

    /// Writes the parcels in one transaction and releases what they carry. The caller holds the
    /// right to commit.
    fn commit(&self, mut parcels: VecDeque<Parcel>) {
        self.void_old_lives(&mut parcels);
        let lasts: Vec<Option<CommitNo>> = parcels.iter().map(|p| p.batch.last()).collect();
        let mut group: Vec<Commit> = Vec::new();
        for parcel in &mut parcels {
            if group.is_empty() {
                group = std::mem::take(&mut parcel.batch.commits);
            } else {
                group.append(&mut parcel.batch.commits);
            }
        }
        if group.is_empty() {
            return self.release(parcels, &lasts);
        }
        let begun = self.clock.now();
        match self.store.commit(&group) {
            Ok(()) => {
                let spent = self.clock.now().since(begun);
                self.meter.commit_time.record_time(spent);
                self.count(&group);
                self.store_wrote();
                self.release(parcels, &lasts);
            }
            Err(CommitError::Conflict { .. }) => self.one_by_one(parcels, group, &lasts),
            Err(error @ (CommitError::Full | CommitError::Failed { .. })) => {
                self.failed(&error, parcels);
            }
        }
    }

    fn count(&self, group: &[Commit]) {
        self.groups.fetch_add(1, Ordering::Relaxed);
        self.meter.group_size.record(group.len() as u64);
        self.commits
            .fetch_add(group.len() as u64, Ordering::Relaxed);
    }

    fn release(&self, parcels: VecDeque<Parcel>, lasts: &[Option<CommitNo>]) {
        points::pass("release.before");
        self.raise(parcels.iter().map(|parcel| parcel.shard).zip(lasts));
        for mut parcel in parcels {
            self.pass_on(&mut parcel.batch);
            parcel.batch.release(&*self.outlet);
            let cell = &self.cells[parcel.shard];
            if cell.wants_notice.swap(false, Ordering::AcqRel) {
                cell.inbox.ring();
            }
        }
        points::pass("release.after");
    }

    /// The disk is so far.
    fn raise<'a>(&self, lasts: impl Iterator<Item = (usize, &'a Option<CommitNo>)>) {
        for (shard, last) in lasts {
            if let Some(last) = last {
                let durable = &self.cells[shard].durable;
                durable.fetch_max(last.0, Ordering::AcqRel);
            }
        }
    }

    /// What runs said to others is on disk: it goes on its way.
    fn pass_on(&self, batch: &mut Batch) {
        let generation = batch.generation;
        for (_, no, post) in batch.posts.drain(..) {
            self.bring(no, post, generation);
        }
        if !batch.forgotten.is_empty() {
            // Forgetting is a courtesy: what comes back is forgotten again.
            drop(self.store.forget(&std::mem::take(&mut batch.forgotten)));
        }
    }

    /// Batches decided before the shard started over belong to a past that did not happen.
    fn void_old_lives(&self, parcels: &mut VecDeque<Parcel>) {
        let is_void = |p: &Parcel| {
            p.batch.generation != self.cells[p.shard].generation.load(Ordering::Acquire)
        };
        if !parcels.iter().any(is_void) {
            return;
        }
        let refusal = Refusal::Indeterminate {
            reason: "the store was reopened".into(),
        };
        let (void, good): (Vec<Parcel>, Vec<Parcel>) =
            std::mem::take(parcels).into_iter().partition(is_void);
        for parcel in void {
            parcel.batch.refuse(&*self.outlet, &refusal);
        }
        parcels.extend(good);
    }

    /// One commit was not as its run is on disk: the others must not suffer for it.
    fn one_by_one(
        &self,
        parcels: VecDeque<Parcel>,
        group: Vec<Commit>,
        lasts: &[Option<CommitNo>],
    ) {
        let shards: Vec<usize> = parcels.iter().map(|parcel| parcel.shard).collect();
        let generation = parcels.front().map_or(0, |p| p.batch.generation);
        let mut whole = Batch {
            commits: group,
            ..Batch::default()
        };
        for parcel in parcels {
            whole.effects.extend(parcel.batch.effects);
            whole.acks.extend(parcel.batch.acks);
            whole.posts.extend(parcel.batch.posts);
            whole.forgotten.extend(parcel.batch.forgotten);
        }
        let mut conflict = None;
        for mut part in whole.split() {
            part.generation = generation;
            match self.store.commit(&part.commits) {
                Ok(()) => {
                    self.count(&part.commits);
                    self.pass_on(&mut part);
                    part.release(&*self.outlet);
                }
                Err(error) => {
                    let refusal = Refusal::Indeterminate {
                        reason: error.to_string(),
                    };
                    part.refuse(&*self.outlet, &refusal);
                    conflict = Some(error);
                }
            }
        }
        let Some(error) = conflict else {
            // All of it is there after all: whoever waits for that goes on.
            self.raise(shards.iter().copied().zip(lasts));
            return shards
                .iter()
                .for_each(|shard| self.cells[*shard].inbox.ring());
        };
        self.failed(&error, VecDeque::new());
    }

    /// The store failed. Never is a sync tried again on the same handle: everything is closed,
    /// opened anew and loaded again, and callers hear what is known.
    fn failed(&self, error: &CommitError, parcels: VecDeque<Parcel>) {
        let refusal = match error {
            CommitError::Full => Refusal::StoreFull,
            CommitError::Failed { .. } | CommitError::Conflict { .. } => Refusal::Indeterminate {
                reason: error.to_string(),
            },
        };
        for parcel in parcels.into_iter().chain(self.queue.drain()) {
            parcel.batch.refuse(&*self.outlet, &refusal);
        }
        let pause = match error {
            CommitError::Full => Some(self.clock.now().after(PAUSE)),
            CommitError::Failed { .. } | CommitError::Conflict { .. } => None,
        };
        self.meter.failed(error);
        self.store_failed(error);
        let Some(boot) = self.reopen() else { return };
        self.start_over(&boot, &refusal, pause);
        self.store_reopened(error);
    }

    fn reopen(&self) -> Option<Boot> {
        loop {
            match self.store.reopen() {
                Ok(boot) => return Some(boot),
                Err(_) if self.is_stopping.load(Ordering::Acquire) => return None,
                Err(_) => self.pause(),
            }
        }
    }

    /// Waits a little, unless the application stops meanwhile.
    fn pause(&self) {
        let (lock, bell) = &self.stop;
        let lock = lock.lock().unwrap_or_else(PoisonError::into_inner);
        drop(bell.wait_timeout(lock, PAUSE));
    }

    fn start_over(&self, boot: &Boot, refusal: &Refusal, pause: Option<Timestamp>) {
        let incarnation = new_incarnation();
        let parts = partition(boot.open.clone(), self.cells.len());
        for (cell, open) in self.cells.iter().zip(parts) {
            let mine = Boot {
                open,
                ..boot.clone()
            };
            let mut seat = cell.seat();
            seat.shard.start_over(mine, incarnation, refusal, pause);
            cell.generation
                .store(seat.shard.generation(), Ordering::Release);
            drop(seat);
            cell.inbox.ring();
        }
        let generation = self.cells[0].generation.load(Ordering::Acquire);
        self.deliver(boot.posts.clone(), generation);
    }
}
