//! A group that was certainly not written, for want of room or because one run is not on disk as
//! its commit expects: whatever can be written is, and only what cannot is thrown back.
//!
//! Runs of one workflow id stay together, since a start relies on the end before it. Everything
//! else is independent: a group is halved until those that cannot be written are alone. When that
//! takes too many tries, as on a disk without any room, what is left counts as not written.

use std::collections::{BTreeMap, VecDeque};

use outlast_model::Refusal;

use super::Service;
use crate::batch::{self, Batch};
use crate::store::{Commit, CommitError, CommitNo};
use crate::writer::Parcel;

/// So many parts of a group are refused before nothing more of it is tried.
const TRIES: u32 = 16;

/// What became of the parts of one shard.
#[derive(Default)]
struct Sorted {
    /// Written.
    good: Vec<Batch>,
    last: Option<CommitNo>,
    /// Not written.
    void: Vec<Batch>,
    /// What belongs to no commit.
    rest: Batch,
}

/// How the store took the parts.
struct Tries {
    refused: u32,
    /// The last thing it said.
    error: CommitError,
    /// The largest part that there was no room for.
    heaviest: Option<usize>,
}

impl Tries {
    /// Whether nothing more is tried.
    fn is_over(&self) -> bool {
        self.refused >= TRIES || self.has_failed()
    }

    fn has_failed(&self) -> bool {
        match self.error {
            CommitError::Failed { .. } => true,
            CommitError::Full | CommitError::Conflict { .. } => false,
        }
    }

    fn refusal(&self) -> Refusal {
        match &self.error {
            CommitError::Full => Refusal::StoreFull,
            error @ (CommitError::Failed { .. } | CommitError::Conflict { .. }) => {
                Refusal::Indeterminate {
                    reason: error.to_string(),
                }
            }
        }
    }
}

impl Service {
    /// The group of these parcels was not written. The caller holds the right to commit.
    pub(super) fn write_in_parts(&self, error: &CommitError, parcels: VecDeque<Parcel>) {
        self.meter.failed(error);
        let mut tries = Tries {
            refused: 1,
            error: error.clone(),
            heaviest: None,
        };
        let mut shards: BTreeMap<usize, Batch> = BTreeMap::new();
        for parcel in parcels {
            shards.entry(parcel.shard).or_default().absorb(parcel.batch);
        }
        let is_one = shards.len() == 1;
        let sort = |(shard, batch): (usize, Batch)| {
            let (pieces, rest) = batch.pieces();
            let mut sorted = Sorted {
                rest,
                ..Sorted::default()
            };
            if is_one {
                self.halve(shard, pieces, &mut sorted, &mut tries);
            } else {
                self.write_part(shard, pieces, &mut sorted, &mut tries);
            }
            (shard, sorted)
        };
        let sorted: Vec<(usize, Sorted)> = shards.into_iter().map(sort).collect();
        if let Some(weight) = tries.heaviest {
            self.store_is_short(weight);
        }
        self.settle_parts(sorted, &tries);
    }

    fn write_part(
        &self,
        shard: usize,
        mut pieces: Vec<Batch>,
        sorted: &mut Sorted,
        tries: &mut Tries,
    ) {
        if pieces.is_empty() {
            return;
        }
        if tries.is_over() {
            return sorted.void.append(&mut pieces);
        }
        let mut group: Vec<Commit> = Vec::new();
        let mut counts = Vec::with_capacity(pieces.len());
        for piece in &mut pieces {
            counts.push(piece.commits.len());
            group.append(&mut piece.commits);
        }
        let Err(error) = self.store.commit(&group) else {
            self.count(&group);
            self.count_runs(shard, &group);
            sorted.last = sorted.last.max(group.iter().map(|commit| commit.id).max());
            return sorted.good.append(&mut pieces);
        };
        let weight = batch::weight(&group);
        let mut group = group.into_iter();
        for (piece, count) in pieces.iter_mut().zip(counts) {
            piece.commits = group.by_ref().take(count).collect();
        }
        tries.refused += 1;
        tries.error = error;
        if pieces.len() == 1 {
            tries.note(weight);
        }
        self.halve(shard, pieces, sorted, tries);
    }

    /// These were not written together.
    fn halve(&self, shard: usize, mut left: Vec<Batch>, sorted: &mut Sorted, tries: &mut Tries) {
        if left.len() <= 1 || tries.is_over() {
            for piece in &left {
                tries.note(batch::weight(&piece.commits));
            }
            return sorted.void.append(&mut left);
        }
        let right = left.split_off(left.len() / 2);
        self.write_part(shard, left, sorted, tries);
        self.write_part(shard, right, sorted, tries);
    }

    /// What was not written is thrown back before anybody can take it for written.
    fn settle_parts(&self, sorted: Vec<(usize, Sorted)>, tries: &Tries) {
        let refusal = tries.refusal();
        let mut failed = tries.has_failed().then(|| tries.error.clone());
        let mut left = VecDeque::new();
        let mut good = Vec::new();
        for (shard, sorted) in sorted {
            let Sorted { void, rest, .. } = sorted;
            good.push((shard, sorted.last, sorted.good));
            if failed.is_none() && !void.is_empty() {
                match self.roll_back(shard, void, rest, &refusal, sorted.last) {
                    Ok(()) => {}
                    Err((error, batches)) => {
                        failed = Some(error);
                        let batches = batches.into_iter();
                        left.extend(batches.map(|batch| Parcel::new(shard, batch)));
                    }
                }
                continue;
            }
            let batches = void.into_iter().chain([rest]);
            left.extend(batches.map(|batch| Parcel::new(shard, batch)));
        }
        for (shard, last, batches) in good {
            self.raise(shard, last);
            for batch in batches {
                self.release_one(shard, batch);
            }
        }
        match failed {
            Some(error) => self.failed(&error, left),
            None => {
                for parcel in left {
                    self.release_one(parcel.shard, parcel.batch);
                }
            }
        }
    }

    /// Throws back what these batches of a shard were to write. What waits behind them and does
    /// not rely on them goes on waiting.
    fn roll_back(
        &self,
        shard: usize,
        void: Vec<Batch>,
        rest: Batch,
        refusal: &Refusal,
        last: Option<CommitNo>,
    ) -> Result<(), (CommitError, Vec<Batch>)> {
        let cell = &self.cells[shard];
        let mut seat = cell.seat();
        let mut behind = vec![rest];
        behind.extend(self.queue.recall(shard));
        let rolled = seat.shard.roll_back(void, behind, refusal, &*self.store);
        match rolled {
            Ok(left) => {
                for batch in left {
                    self.enqueue(shard, batch);
                }
                self.raise(shard, last);
                seat.room.refused(crate::clock::instant());
                drop(seat);
                cell.inbox.ring();
                Ok(())
            }
            Err(unread) => {
                let reason = unread.error.to_string();
                Err((CommitError::Failed { reason }, unread.batches))
            }
        }
    }
}

impl Tries {
    /// There was no room for a part as large as this.
    fn note(&mut self, weight: usize) {
        if self.error == CommitError::Full {
            self.heaviest = self.heaviest.max(Some(weight));
        }
    }
}
