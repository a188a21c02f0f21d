//! Batches reach the disk here, and nothing leaves before they have.
//!
//! ```text
//!  written                    --> released
//!  not written (no room, or   --> in parts: what can be written is, the rest is thrown back,
//!   a row is not as expected)     with what relies on it and nothing else (`part`)
//!  nobody knows (it failed)   --> every shard is cut off; the writer opens the store again and
//!                                 the shards start over from what it has (`reopen`)
//! ```

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use super::{Seat, Service};
use crate::batch::{self, Batch};
use crate::points;
use crate::store::{Commit, CommitError, CommitNo, Expect};
use crate::sync::{Builder, MutexGuard};
use crate::writer::{Job, LEADER_LIMIT, Parcel, Taken};

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
            self.commit(VecDeque::from([Parcel::new(shard, batch)]));
            points::pass("leader.after");
            drop(lead);
            return;
        }
        self.enqueue(shard, batch);
        drop(seat);
    }

    pub(super) fn enqueue(&self, shard: usize, batch: Batch) {
        self.queue.put(Parcel::new(shard, batch));
    }

    pub(super) fn start_writer(self: &Arc<Self>) {
        let service = self.clone();
        let spawned = Builder::new()
            .name("outlast-writer".into())
            .spawn(move || service.write_until_stopped());
        if let Ok(handle) = spawned {
            *self.writer.lock().unwrap_or_else(PoisonError::into_inner) = Some(handle);
        }
    }

    fn write_until_stopped(&self) {
        loop {
            match self.queue.next() {
                Job::Write => {
                    let lock = self.queue.commit_lock();
                    let parcels = self.queue.take();
                    points::pass("writer.taken");
                    let count = parcels.len();
                    points::pass("writer.before");
                    self.commit(parcels);
                    points::pass("writer.after");
                    self.queue.done(count);
                    drop(lock);
                }
                Job::Reopen => self.reopen(),
                Job::Leave => return,
            }
        }
    }

    /// Writes the parcels in one transaction and releases what they carry. The caller holds the
    /// right to commit.
    fn commit(&self, mut parcels: VecDeque<Parcel>) {
        let mut group: Vec<Commit> = Vec::new();
        for parcel in &mut parcels {
            parcel.taken = Taken {
                commits: parcel.batch.commits.len(),
                last: parcel.batch.last(),
            };
            if group.is_empty() {
                group = std::mem::take(&mut parcel.batch.commits);
            } else {
                group.append(&mut parcel.batch.commits);
            }
        }
        if group.is_empty() {
            return self.release(parcels);
        }
        let begun = self.clock.now();
        match self.store.commit(&group) {
            Ok(()) => {
                let spent = self.clock.now().since(begun);
                self.meter.commit_time.record_time(spent);
                let mut rest = group.as_slice();
                for parcel in &parcels {
                    let (mine, others) = rest.split_at(parcel.taken.commits);
                    self.count_runs(parcel.shard, mine);
                    rest = others;
                }
                self.count(&group);
                self.store_wrote(&group);
                self.release(parcels);
            }
            Err(error) => {
                let mut rest = group.into_iter();
                for parcel in &mut parcels {
                    parcel.batch.commits = rest.by_ref().take(parcel.taken.commits).collect();
                }
                match error {
                    CommitError::Full | CommitError::Conflict { .. } => {
                        self.write_in_parts(&error, parcels);
                    }
                    CommitError::Failed { .. } => self.failed(&error, parcels),
                }
            }
        }
    }

    /// These commits are on disk.
    pub(super) fn count(&self, group: &[Commit]) {
        self.groups.fetch_add(1, Ordering::Relaxed);
        self.meter.group_size.record(group.len() as u64);
        self.commits
            .fetch_add(group.len() as u64, Ordering::Relaxed);
    }

    /// Runs that began or ended with these commits, which are on disk.
    pub(super) fn count_runs(&self, shard: usize, commits: &[Commit]) {
        let meter = &self.cells[shard].meter;
        for Commit { expect, row, .. } in commits {
            if *expect == Expect::New {
                meter.started(&row.workflow_type);
            }
            if !row.state.status.is_open() {
                meter.closed(&row.workflow_type, row.state.status);
            }
        }
    }

    fn release(&self, parcels: VecDeque<Parcel>) {
        points::pass("release.before");
        for parcel in &parcels {
            self.raise(parcel.shard, parcel.taken.last);
        }
        for parcel in parcels {
            self.release_one(parcel.shard, parcel.batch);
        }
        points::pass("release.after");
    }

    pub(super) fn release_one(&self, shard: usize, mut batch: Batch) {
        self.pass_on(&mut batch);
        let cell = &self.cells[shard];
        if !batch.effects.is_empty() {
            let now = self.clock.now();
            for (_, effect) in &batch.effects {
                cell.meter.handed_out(effect, now);
            }
        }
        batch.release(&*self.outlet);
        if cell.wants_notice.swap(false, Ordering::AcqRel) {
            cell.inbox.ring();
        }
    }

    /// The disk is so far.
    pub(super) fn raise(&self, shard: usize, last: Option<CommitNo>) {
        if let Some(last) = last {
            let durable = &self.cells[shard].durable;
            durable.fetch_max(last.0, Ordering::AcqRel);
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

    /// A group was taken.
    fn store_wrote(&self, group: &[Commit]) {
        if self.is_in_trouble() {
            self.wrote_in_trouble(batch::weight(group));
        }
    }
}
