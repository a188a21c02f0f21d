//! What nobody waits for is not sealed at once: outcomes of many attempts come back in parts, and
//! the next part may go into the same commit.
//!
//! Such a decision stays open in its run's entry, as it does while a slice is under way, and is
//! sealed with the next batch at latest. So it costs one row and one blob, however many parts it
//! came in, and when the last one ends the run, that goes with it too.

use outlast_engine::Run;
use outlast_model::Timestamp;

use super::Shard;
use super::visit::{MAIL_BYTES, is_open};
use crate::entry::Entry;

impl Shard {
    /// The code has seen what came and asked for nothing: leaves what was decided open for more, or
    /// seals it.
    pub(super) fn gather(&mut self, entry: &mut Entry, now: Timestamp) {
        if !self.may_gather(entry) {
            return self.seal(entry, now);
        }
        if entry.open_since.replace(now).is_none() {
            self.open_decisions.push(entry.row.no);
        }
        let wake = entry.run.as_ref().and_then(Run::wake);
        self.arm(entry, wake);
    }

    /// Whether nobody waits for what was decided, and more is to be expected.
    fn may_gather(&self, entry: &Entry) -> bool {
        let decision = &entry.decision;
        !self.is_draining
            && self.out.len() >= self.parts.gather_from
            && is_open(entry)
            && !entry.run.as_ref().is_some_and(Run::has_unwritten)
            && entry.is_cached
            && entry.damage.is_none()
            && !entry.is_held
            && entry.mail_bytes < MAIL_BYTES
            && !decision.records.is_empty()
            && decision.effects.is_empty()
            && decision.posts.is_empty()
            && decision.successor.is_none()
            && entry.acks.is_empty()
            && entry.taken.is_empty()
            && entry.updates.is_empty()
            && entry.queries.is_empty()
    }

    /// Whether somebody waits for a decision that was left open.
    pub(super) fn is_awaited(&self) -> bool {
        let mut open = self.open_decisions.iter();
        open.any(|no| {
            let entry = self.runs.get(no);
            entry.is_some_and(|entry| !entry.acks.is_empty())
        })
    }

    /// The batch leaves: what was left open goes with it. What a slice is under way for stays.
    pub(super) fn seal_open(&mut self) {
        for no in std::mem::take(&mut self.open_decisions) {
            let Some(mut entry) = self.runs.remove(&no) else {
                continue;
            };
            match entry.open_since {
                Some(_) if entry.slice.is_some() => self.open_decisions.push(no),
                Some(since) => self.seal(&mut entry, since),
                // It was sealed meanwhile.
                None => {}
            }
            self.put_back(entry);
        }
    }
}
