//! The newest commits of a run, as long as they hold nothing but facts that pass.
//!
//! Attempts, heartbeats and failing tasks are not history. A commit of such facts alone takes the
//! place of those like it before it, with what is left of all of them: a run that retries for ever
//! needs the same room for ever. Where that would write much again for a little that is new, as
//! with many attempts that report, it lies on top until as much has come: each layer outweighs
//! those above it, so a fact is written again a few times only, and all layers together are a
//! small multiple of what is left of them.

#[cfg(test)]
mod tests;

use outlast_engine::passing::{is_passing, needed};
use outlast_model::Record;
use outlast_model::planted::{Bug, is_planted};
use outlast_model::record::{self, Measured};

use crate::store::{CommitNo, Loaded};

/// So many bytes are written again without a second thought: they share a page of a file.
const LITTLE: usize = 4 << 10;
/// So many facts are looked through for what is left of them, however much they weigh.
const FEW: usize = 64;
/// So many commits are replaced at once. Older builds left one for each attempt ever made.
const MOST: usize = 64;

/// Commits that may be replaced, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Layers(Vec<Layer>);

#[derive(Debug)]
struct Layer {
    id: CommitNo,
    prev: CommitNo,
    facts: Facts,
    /// Of the blob.
    bytes: usize,
}

/// Records that pass, and how much each of them weighs.
#[derive(Debug, Default)]
struct Facts {
    records: Vec<Record>,
    sizes: Vec<usize>,
}

/// What is to be written for a decision.
pub(crate) struct Laid {
    pub(crate) blob: Vec<u8>,
    /// How much of it is history.
    pub(crate) events: usize,
    pub(crate) prev: CommitNo,
    pub(crate) replaces: Vec<CommitNo>,
    /// Bytes of what it replaces.
    pub(crate) gone: usize,
}

impl Layers {
    /// Those of a run that was just read.
    pub(crate) fn of(loaded: &Loaded) -> Self {
        let mut layers = Vec::new();
        let places = loaded.numbers.iter().zip(&loaded.blobs).enumerate();
        for (at, (id, blob)) in places.rev().take(MOST) {
            if record::has_events(blob) {
                break;
            }
            let Some(records) = record::decode(blob).ok().filter(|r| all_pass(r)) else {
                break;
            };
            let before = at.checked_sub(1).and_then(|at| loaded.numbers.get(at));
            layers.push(Layer {
                id: *id,
                prev: before.copied().unwrap_or(loaded.before),
                facts: Facts::new(records),
                bytes: blob.len(),
            });
        }
        layers.reverse();
        Self(layers)
    }

    /// The next commit cannot replace any.
    pub(crate) fn clear(&mut self) {
        self.0 = Vec::new();
    }

    /// A commit on top of `head`, with what it replaces.
    pub(crate) fn put(&mut self, id: CommitNo, head: CommitNo, records: &[Record]) -> Laid {
        if self.0.last().is_some_and(|layer| layer.id != head) {
            self.clear();
        }
        if all_pass(records) {
            return self.lay(id, head, records);
        }
        self.clear();
        let Measured { blob, events } = record::measure(records);
        if is_planted(Bug::EventReplaced) {
            let passing = records.iter().filter(|record| is_passing(record));
            self.0.push(Layer {
                id,
                prev: head,
                facts: Facts::new(passing.cloned().collect()),
                bytes: blob.len(),
            });
        }
        Laid {
            blob,
            events,
            prev: head,
            replaces: Vec::new(),
            gone: 0,
        }
    }

    fn lay(&mut self, id: CommitNo, head: CommitNo, records: &[Record]) -> Laid {
        let mut facts = Facts::new(records.to_vec()).left();
        let (mut prev, mut replaces, mut gone) = (head, Vec::new(), 0);
        let stays = self.0.len() - self.worth_replacing(&facts);
        for layer in self.0.drain(stays..).rev() {
            prev = layer.prev;
            gone += layer.bytes;
            replaces.push(layer.id);
            facts = layer.facts.and(facts);
        }
        let blob = record::encode(&facts.records);
        self.0.push(Layer {
            id,
            prev,
            facts,
            bytes: blob.len(),
        });
        Laid {
            blob,
            events: 0,
            prev,
            replaces,
            gone,
        }
    }

    /// How many of the newest are better written again, as far as they still say something, with
    /// these facts: what that writes must be little, or not much more than is written anyway, or
    /// at most half of what goes away.
    fn worth_replacing(&self, facts: &Facts) -> usize {
        let (mut worth, mut own, mut below) = (0, facts.bytes(), 0);
        let mut newest_first: Vec<(&Record, usize)> = facts.newest_first().collect();
        for (depth, layer) in (1..=MOST).zip(self.0.iter().rev()) {
            let weight = layer.facts.bytes();
            let is_light = worth + 1 == depth && weight <= LITTLE.max(2 * own);
            newest_first.extend(layer.facts.newest_first());
            if !is_light && newest_first.len() > FEW {
                break;
            }
            below += weight;
            let left = left_of(&newest_first);
            if is_light || left <= LITTLE.max(2 * own).max(below / 2) {
                (worth, own) = (depth, left);
            }
        }
        worth
    }
}

impl Facts {
    fn new(records: Vec<Record>) -> Self {
        let sizes = records.iter().map(record::size).collect();
        Self { records, sizes }
    }

    fn bytes(&self) -> usize {
        self.sizes.iter().sum()
    }

    fn newest_first(&self) -> impl Iterator<Item = (&Record, usize)> {
        let sizes = self.sizes.iter().copied();
        self.records.iter().zip(sizes).rev()
    }

    /// What is left of both.
    fn and(mut self, mut newer: Self) -> Self {
        self.records.append(&mut newer.records);
        self.sizes.append(&mut newer.sizes);
        self.left()
    }

    /// What is left of them.
    fn left(mut self) -> Self {
        if self.records.len() <= 1 {
            return self;
        }
        let needed = needed(self.records.iter());
        let mut kept = needed.iter();
        self.records.retain(|_| kept.next() == Some(&true));
        let mut kept = needed.iter();
        self.sizes.retain(|_| kept.next() == Some(&true));
        self
    }
}

/// Bytes of those that still say something.
fn left_of(newest_first: &[(&Record, usize)]) -> usize {
    let oldest_first = newest_first.iter().rev();
    let kept = needed(oldest_first.clone().map(|(record, _)| *record));
    let sizes = kept.into_iter().zip(oldest_first);
    sizes
        .filter_map(|(kept, (_, size))| kept.then_some(size))
        .sum()
}

/// Whether they may be replaced.
fn all_pass(records: &[Record]) -> bool {
    !records.is_empty() && records.iter().all(is_passing)
}
