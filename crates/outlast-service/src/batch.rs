//! Decisions on their way to the disk, with everything that leaves once they are there.

use std::collections::BTreeMap;

use outlast_engine::Effect;
use outlast_model::Refusal;
use outlast_model::task::{AttemptKind, RunNo};

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
}

impl Batch {
    /// Whether there is nothing to write and nobody to tell.
    pub fn is_empty(&self) -> bool {
        self.commits.is_empty() && self.effects.is_empty() && self.acks.is_empty()
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
                Effect::StartActivity(_) => outlet.return_slot(AttemptKind::Activity),
                Effect::StartStep(_) => outlet.return_slot(AttemptKind::Step),
                stop @ Effect::Stop(..) => outlet.release(vec![stop]),
                Effect::Closed(_) | Effect::Update(..) => {}
            }
        }
        for (_, ack) in self.acks {
            ack.refuse(refusal.clone());
        }
    }

    /// One batch a run, for a group that failed for one run's own reason.
    pub fn split(self) -> Vec<Batch> {
        let mut parts: BTreeMap<RunNo, Batch> = BTreeMap::new();
        for commit in self.commits {
            parts.entry(commit.row.no).or_default().commits.push(commit);
        }
        for (run, effect) in self.effects {
            parts.entry(run).or_default().effects.push((run, effect));
        }
        for (run, ack) in self.acks {
            parts.entry(run).or_default().acks.push((run, ack));
        }
        parts.into_values().collect()
    }
}
