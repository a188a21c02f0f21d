//! Decisions on their way to the disk, with everything that leaves once they are there.

use std::collections::BTreeMap;

use outlast_engine::Effect;
use outlast_model::Refusal;
use outlast_model::post::{Post, PostNo};
use outlast_model::task::{RunNo, SlotKind};

use crate::mail::Ack;
use crate::outlet::Outlet;
use crate::store::{Commit, CommitNo};

/// A group of commits of one shard and what they release. Batches of a shard are committed in
/// order, so that an answer without a commit of its own still waits for those before it.
#[derive(Debug, Default)]
pub struct Batch {
    /// The life of the shard it was decided in.
    pub generation: u64,
    /// To write, in order.
    pub commits: Vec<Commit>,
    /// To do when written: which run's commit, and what.
    pub effects: Vec<(RunNo, Effect)>,
    /// To answer when written.
    pub acks: Vec<(RunNo, Ack)>,
    /// To bring to other runs when written: whose commit, the post's number, and what it says.
    pub posts: Vec<(RunNo, PostNo, Box<Post>)>,
    /// Posts that nobody will take.
    pub forgotten: Vec<PostNo>,
}

impl Batch {
    /// An empty one with room for as much as this one has: batches follow each other alike.
    pub fn like(other: &Self) -> Self {
        Self {
            commits: Vec::with_capacity(other.commits.len()),
            effects: Vec::with_capacity(other.effects.len()),
            acks: Vec::with_capacity(other.acks.len()),
            ..Self::default()
        }
    }

    /// Whether there is nothing to write and nobody to tell.
    pub fn is_empty(&self) -> bool {
        self.commits.is_empty()
            && self.effects.is_empty()
            && self.acks.is_empty()
            && self.posts.is_empty()
            && self.forgotten.is_empty()
    }

    /// Whether there is something to write, and nothing that waits for it: outcomes that a run has
    /// seen and that had no consequences yet.
    pub fn is_quiet(&self) -> bool {
        !self.commits.is_empty() && !self.is_awaited()
    }

    /// Whether something waits for it.
    pub fn is_awaited(&self) -> bool {
        !(self.effects.is_empty() && self.acks.is_empty() && self.posts.is_empty())
    }

    /// The newest commit in it.
    pub fn last(&self) -> Option<CommitNo> {
        self.commits.last().map(|c| c.id)
    }

    /// Everything in it is durable: answers go out, attempts start.
    pub fn release(self, outlet: &dyn Outlet) {
        if !self.effects.is_empty() {
            outlet.release(self.effects.into_iter().map(|(_, effect)| effect).collect());
        }
        for (_, ack) in self.acks {
            ack.send();
        }
    }

    /// Nothing of it will happen, but that attempts are told to stop: after a commit that failed
    /// no outcome of this life counts, and the next life may not know that they run.
    pub fn refuse(self, outlet: &dyn Outlet, refusal: &Refusal) {
        for (_, effect) in self.effects {
            match effect {
                Effect::StartActivity(order) => {
                    outlet.return_slot(&order.activity.queue, SlotKind::Activity);
                }
                Effect::StartStep(task) => outlet.return_slot(&task.queue, SlotKind::Step),
                stop @ Effect::Stop(..) => outlet.release(vec![stop]),
                Effect::Closed(_) | Effect::Update(..) => {}
            }
        }
        for (_, ack) in self.acks {
            ack.refuse(refusal.clone());
        }
    }

    /// One batch a run, for a group that failed for one run's own reason. A run and the one that
    /// continues it stay together.
    pub fn split(self) -> Vec<Batch> {
        let mut parts: BTreeMap<RunNo, Batch> = BTreeMap::new();
        let mut kept_with: BTreeMap<RunNo, RunNo> = BTreeMap::new();
        let mut last = RunNo::default();
        for commit in self.commits {
            let no = commit.row.no;
            let part = if commit.is_joined { last } else { no };
            last = *kept_with.entry(no).or_insert(part);
            parts.entry(last).or_default().commits.push(commit);
        }
        let part_of = |run: RunNo| kept_with.get(&run).copied().unwrap_or(run);
        for (run, effect) in self.effects {
            let part = parts.entry(part_of(run)).or_default();
            part.effects.push((run, effect));
        }
        for (run, ack) in self.acks {
            parts.entry(part_of(run)).or_default().acks.push((run, ack));
        }
        for (run, no, post) in self.posts {
            let part = parts.entry(part_of(run)).or_default();
            part.posts.push((run, no, post));
        }
        let mut parts: Vec<Batch> = parts.into_values().collect();
        if let Some(first) = parts.first_mut() {
            first.forgotten = self.forgotten;
        }
        parts
    }
}
