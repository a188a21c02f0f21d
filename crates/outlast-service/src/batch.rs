//! Commits on their way to the disk, with everything that leaves once they are there.

use std::collections::BTreeMap;

use outlast_engine::Effect;
use outlast_model::WorkflowId;
use outlast_model::post::{Post, PostNo};
use outlast_model::task::RunNo;

use crate::entry::Letter;
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
    /// Why it was decided, as far as that comes only once: applied again if it is not written. A
    /// post that no run took is that of run 0.
    pub(crate) causes: Vec<(RunNo, Letter)>,
}

impl Batch {
    /// An empty one with room for as much as this one has: batches follow each other alike.
    pub fn like(other: &Self) -> Self {
        Self {
            commits: Vec::with_capacity(other.commits.len()),
            effects: Vec::with_capacity(other.effects.len()),
            acks: Vec::with_capacity(other.acks.len()),
            causes: Vec::with_capacity(other.causes.len()),
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

    /// Takes everything out that belongs to these runs. What belongs to none goes with them: it
    /// may have been judged by them.
    pub(crate) fn part(&mut self, is_theirs: impl Fn(RunNo) -> bool) -> Batch {
        let is_theirs = |run: RunNo| run == RunNo(0) || is_theirs(run);
        let of_commit = |commit: &mut Commit| is_theirs(commit.row.no);
        Batch {
            generation: self.generation,
            commits: self.commits.extract_if(.., of_commit).collect(),
            effects: extract(&mut self.effects, |(run, _)| is_theirs(*run)),
            acks: extract(&mut self.acks, |(run, _)| is_theirs(*run)),
            posts: extract(&mut self.posts, |(run, ..)| is_theirs(*run)),
            forgotten: std::mem::take(&mut self.forgotten),
            causes: extract(&mut self.causes, |(run, _)| is_theirs(*run)),
        }
    }

    /// One batch a workflow id, for a group that was not written as a whole: runs of an id follow
    /// each other, a start relies on the end before it. And what belongs to none of its commits.
    pub fn pieces(self) -> (Vec<Batch>, Batch) {
        let mut ids: BTreeMap<WorkflowId, usize> = BTreeMap::new();
        let mut runs: BTreeMap<RunNo, usize> = BTreeMap::new();
        let mut pieces: Vec<Batch> = Vec::new();
        let rest = Batch {
            forgotten: self.forgotten,
            ..Batch::default()
        };
        for commit in self.commits {
            let place = *ids
                .entry(commit.row.workflow_id.clone())
                .or_insert(pieces.len());
            if place == pieces.len() {
                pieces.push(Batch::default());
            }
            runs.insert(commit.row.no, place);
            pieces[place].commits.push(commit);
        }
        // What belongs to no commit comes behind all of them.
        let others = pieces.len();
        pieces.push(rest);
        let place_of = |run: &RunNo| runs.get(run).copied().unwrap_or(others);
        for item in self.effects {
            pieces[place_of(&item.0)].effects.push(item);
        }
        for item in self.acks {
            pieces[place_of(&item.0)].acks.push(item);
        }
        for item in self.posts {
            pieces[place_of(&item.0)].posts.push(item);
        }
        for item in self.causes {
            pieces[place_of(&item.0)].causes.push(item);
        }
        for piece in &mut pieces {
            piece.generation = self.generation;
        }
        let rest = pieces.pop().unwrap_or_default();
        (pieces, rest)
    }

    /// Takes in what comes after it.
    pub(crate) fn absorb(&mut self, mut other: Batch) {
        self.generation = other.generation;
        self.commits.append(&mut other.commits);
        self.effects.append(&mut other.effects);
        self.acks.append(&mut other.acks);
        self.posts.append(&mut other.posts);
        self.forgotten.append(&mut other.forgotten);
        self.causes.append(&mut other.causes);
    }
}

/// About how much its commits need on the disk.
pub(crate) fn weight(commits: &[Commit]) -> usize {
    let of_commit = |commit: &Commit| {
        let posts: usize = commit.posts.iter().map(|(_, post)| post.len()).sum();
        commit.blob.len() + commit.snapshot.as_ref().map_or(0, Vec::len) + posts
    };
    commits.iter().map(of_commit).sum()
}

fn extract<T>(all: &mut Vec<T>, is_theirs: impl Fn(&T) -> bool) -> Vec<T> {
    all.extract_if(.., |item| is_theirs(item)).collect()
}
