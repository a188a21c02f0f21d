//! Attempts that were handed out and have not come back: what really runs, or will as soon as its
//! commit is durable, whatever the records of its run say.

use std::collections::HashMap;

use outlast_model::Timestamp;
use outlast_model::id::{Attempt, Incarnation, Seq};
use outlast_model::task::{AttemptKind, AttemptToken, RunNo};

type Key = (RunNo, Seq, Attempt, AttemptKind);

/// Attempts of this process that are out, with the time they were handed out.
#[derive(Debug, Default)]
pub(crate) struct Out {
    all: HashMap<Key, Timestamp, foldhash::fast::RandomState>,
}

impl Out {
    /// This attempt was handed out.
    pub(crate) fn insert(&mut self, token: AttemptToken, at: Timestamp) {
        self.all.insert(key(token), at);
    }

    /// It came back, or will never begin.
    pub(crate) fn remove(&mut self, token: AttemptToken) {
        self.all.remove(&key(token));
    }

    /// When it was handed out, if it is out.
    pub(crate) fn since(&self, token: AttemptToken) -> Option<Timestamp> {
        self.all.get(&key(token)).copied()
    }

    /// How many are out.
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// All of them, of this shard and process, in order.
    pub(crate) fn tokens(&self, shard: u32, incarnation: Incarnation) -> Vec<AttemptToken> {
        let tokens = self
            .all
            .keys()
            .map(|(run, seq, attempt, kind)| AttemptToken {
                shard,
                run: *run,
                kind: *kind,
                seq: *seq,
                attempt: *attempt,
                incarnation,
            });
        let mut tokens: Vec<AttemptToken> = tokens.collect();
        tokens.sort_unstable();
        tokens
    }
}

fn key(token: AttemptToken) -> Key {
    (token.run, token.seq, token.attempt, token.kind)
}
