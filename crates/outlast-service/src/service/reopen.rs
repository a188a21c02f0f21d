//! The store failed. Never is a sync tried again on the same handle: everything is closed, opened
//! anew and loaded again, by the writer. Engine threads go on meanwhile and say what is known.

use std::collections::{BTreeMap, VecDeque};
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Duration;

use outlast_model::post::{Post, PostNo};
use outlast_model::{Refusal, record};

use super::{Service, partition, shard_of};
use crate::batch::Batch;
use crate::mail::Mail;
use crate::store::{Boot, CommitError};
use crate::writer::Parcel;

/// Between tries to open the store again, and at most between tries to write where there was no
/// room.
pub(super) const PAUSE: Duration = Duration::from_secs(1);
/// The same while the application stops: it is not kept waiting.
const MOMENT: Duration = Duration::from_millis(10);

impl Service {
    /// Whether the group of these parcels is on disk is unknown. The caller holds the right to
    /// commit.
    pub(super) fn failed(&self, error: &CommitError, parcels: VecDeque<Parcel>) {
        self.meter.failed(error);
        self.store_failed(error);
        let refusal = Refusal::Indeterminate {
            reason: error.to_string(),
        };
        let mut void: Vec<Vec<Batch>> = self.cells.iter().map(|_| Vec::new()).collect();
        for parcel in parcels {
            void[parcel.shard].push(parcel.batch);
        }
        for (shard, (cell, mut void)) in self.cells.iter().zip(void).enumerate() {
            let mut seat = cell.seat();
            void.extend(self.queue.recall(shard));
            seat.shard.cut_off(void, &refusal);
            drop(seat);
            cell.inbox.ring();
        }
        self.queue.break_off();
    }

    /// Opens the store again, or waits a little before that is tried once more.
    pub(super) fn reopen(&self) {
        let lock = self.queue.commit_lock();
        match self.store.reopen() {
            Ok(boot) => {
                self.start_over(boot);
                self.queue.go_on();
                self.store_reopened();
            }
            Err(_) => {
                drop(lock);
                self.pause();
            }
        }
    }

    /// Waits a little, unless the application stops meanwhile.
    fn pause(&self) {
        let (lock, bell) = &self.stop;
        let lock = lock.lock().unwrap_or_else(PoisonError::into_inner);
        let length = match self.is_stopping.load(Ordering::Acquire) {
            true => MOMENT,
            false => PAUSE,
        };
        drop(bell.wait_timeout(lock, length));
    }

    fn start_over(&self, mut boot: Boot) {
        let posts = std::mem::take(&mut boot.posts);
        let parts = partition(std::mem::take(&mut boot.open), self.cells.len());
        let mut said = self.sorted(posts);
        let now = self.clock.now();
        for (shard, (cell, open)) in self.cells.iter().zip(parts).enumerate() {
            let mine = Boot {
                open,
                ..boot.clone()
            };
            let mut seat = cell.seat();
            seat.shard.start_over(mine, &*self.store);
            // At once: nothing happens before what was said is heard.
            let generation = seat.shard.generation();
            for (no, post) in said.remove(&shard).unwrap_or_default() {
                let mail = Mail::Post {
                    no,
                    post,
                    generation,
                };
                seat.shard.accept(mail, now, &*self.store);
            }
            drop(seat);
            cell.inbox.ring();
        }
    }

    /// What the store keeps, by the shard it is for. What cannot be read stays where it is, for
    /// whoever looks at the file.
    fn sorted(&self, posts: Vec<(PostNo, Vec<u8>)>) -> BTreeMap<usize, Vec<(PostNo, Box<Post>)>> {
        let mut said: BTreeMap<usize, Vec<(PostNo, Box<Post>)>> = BTreeMap::new();
        for (no, bytes) in posts {
            if let Ok(post) = record::unframe::<Post>(&bytes) {
                let shard = shard_of(&post.to.workflow_id, self.cells.len());
                said.entry(shard).or_default().push((no, Box::new(post)));
            }
        }
        said
    }
}
