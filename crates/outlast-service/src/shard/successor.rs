//! A run goes on as a new one: both in one commit, and whoever waits for the old one waits for
//! the new one.

use outlast_engine::successor::Successor;
use outlast_model::Timestamp;

use super::Shard;
use super::intake::first_row;
use super::slice::is_message;
use crate::entry::{Entry, Letter};
use crate::points;

impl Shard {
    /// The run that continues `old` takes its place. Its first commit goes right behind the one
    /// that ends the old run, and never without it.
    pub(super) fn succeed(&mut self, old: &mut Entry, successor: Successor, now: Timestamp) {
        points::pass("successor.decided");
        let Successor { mut run, decision } = successor;
        let no = self.parts.numbers.next_run();
        run.placed(self.parts.index, no, 0);
        let mut entry = Box::new(Entry::new(first_row(no, &run)));
        entry.run = Some(run);
        entry.decision = decision;
        entry.is_recovered = true;
        entry.waiters = std::mem::take(&mut old.waiters);
        entry.updates = std::mem::take(&mut old.updates);
        let (messages, rest): (Vec<Letter>, Vec<Letter>) = old
            .mailbox
            .drain(..)
            .partition(|letter| is_message(&letter.input));
        entry.mailbox = messages.into();
        old.mailbox = rest.into();
        entry.queries = std::mem::take(&mut old.queries);
        let mut commit = self.commit_of(&mut entry, now);
        commit.is_joined = true;
        self.batch.commits.push(commit);
        self.settle_new(entry);
    }
}
