//! What was decided about a run becomes one commit of the current batch, with everything that
//! leaves once it is durable.

use outlast_engine::{Effect, Input, Run};
use outlast_model::planted::Bug;
use outlast_model::post::PostNo;
use outlast_model::view::RunOutcome;
use outlast_model::{Record, Timestamp, record};

use super::{Shard, attention};
use crate::entry::{Entry, Path, Unsnapped};
use crate::mail::Ack;
use crate::points;
use crate::store::{Commit, Expect};

/// A snapshot is taken when this share of its predecessor's size was written since.
const SNAPSHOT_SHARE: u64 = 4;
/// Rooms that are kept for the decisions to come, and records that fit into the largest of them.
const ROOMS: usize = 64;
const ROOM: usize = 64;

impl Shard {
    /// Seals the entry's decision. Without records there is nothing to write; answers still wait
    /// for the commits before them.
    pub(super) fn seal(&mut self, entry: &mut Entry, now: Timestamp) {
        (entry.open_since, entry.mail_bytes) = (None, 0);
        if entry.damage.is_some() {
            return self.drop_decision(entry);
        }
        // Whatever stays unwritten in memory is seen by the slice under way.
        if entry.run.as_ref().is_some_and(Run::has_unwritten)
            && entry.slice.is_none_or(|slice| slice.path != Path::Fast)
        {
            self.apply_input(entry, Input::Admit, now);
        }
        if !entry.decision.records.is_empty() || !entry.decision.posts.is_empty() {
            let commit = self.commit_of(entry, now);
            self.batch.commits.push(commit);
            points::pass("commit.sealed");
        }
        // Without a commit of its own, what was taken had no effect.
        self.batch.forgotten.append(&mut entry.taken);
        self.tell_updates(entry);
        let successor = entry.decision.successor.take();
        if let Some(successor) = successor {
            self.succeed(entry, *successor, now);
        }
        self.release_with(entry);
        self.go_on_later(entry);
        let wake = entry.run.as_ref().and_then(outlast_engine::Run::wake);
        self.arm(entry, wake);
    }

    pub(super) fn commit_of(&mut self, entry: &mut Entry, now: Timestamp) -> Commit {
        let mut records: Vec<Record> = std::mem::take(&mut entry.decision.records);
        if !entry.lazy.is_empty() {
            records.splice(..0, entry.lazy.drain(..));
        }
        let id = self.parts.numbers.next_commit();
        let state = &mut entry.row.state;
        let laid = entry.layers.put(id, state.head, &records);
        self.keep_room(records);
        let expect = match state.version.0 {
            0 => Expect::New,
            _ => Expect::At(state.version, state.epoch),
        };
        let gone = laid.replaces.len() as u64;
        state.version.0 = (state.version.0 + 1).saturating_sub(gone);
        state.head = id;
        // Facts are not history, and no reason to call one full.
        state.bytes += laid.events as u64;
        let since = &mut entry.unsnapped;
        since.blobs = (since.blobs + 1).saturating_sub(gone);
        since.bytes = (since.bytes + laid.blob.len() as u64).saturating_sub(laid.gone as u64);
        if let Some(run) = entry.run.as_mut() {
            run.placed(self.parts.index, entry.row.no, state.bytes);
            state.status = run.status();
            state.epoch = run.epoch();
            state.events = run.events();
            state.wake = run.wake();
            state.attention = attention(run);
            if !run.status().is_open() {
                state.closed = Some(now.max(run.last_event_time()));
            }
        }
        let snapshot = self.snapshot_of(entry);
        Commit {
            id,
            prev: laid.prev,
            replaces: laid.replaces,
            expect,
            row: entry.row.clone(),
            blob: laid.blob,
            snapshot,
            posts: self.posts_of(entry),
            taken: std::mem::take(&mut entry.taken),
            is_joined: false,
        }
    }

    /// A snapshot, if one is due with this commit.
    fn snapshot_of(&self, entry: &mut Entry) -> Option<Vec<u8>> {
        let run = entry.run.as_ref()?;
        let is_due = entry.unsnapped.blobs >= self.parts.snapshot_every;
        if !is_due || !is_worth_it(entry.unsnapped) || !run.status().is_open() {
            return None;
        }
        let data = run.snapshot();
        entry.unsnapped = Unsnapped {
            snapshot: data.len() as u64,
            ..Unsnapped::default()
        };
        // It stands on this commit, which therefore stays.
        entry.layers.clear();
        Some(data)
    }

    /// Room for the records of a decision: most decisions are small, short-lived and alike.
    pub(super) fn room(&mut self) -> Vec<Record> {
        self.rooms.pop().unwrap_or_default()
    }

    pub(super) fn keep_room(&mut self, mut records: Vec<Record>) {
        records.clear();
        if (1..=ROOM).contains(&records.capacity()) && self.rooms.len() < ROOMS {
            self.rooms.push(records);
        }
    }

    /// Room for the causes of a decision, kept like that for its records.
    pub(super) fn cause_room(&mut self, entry: &mut Entry) {
        if entry.causes.capacity() == 0 {
            entry.causes = self.cause_rooms.pop().unwrap_or_default();
        }
    }

    fn keep_cause_room(&mut self, entry: &mut Entry) {
        if (1..=ROOM).contains(&entry.causes.capacity()) && self.cause_rooms.len() < ROOMS {
            self.cause_rooms.push(std::mem::take(&mut entry.causes));
        }
    }

    /// What the run says to others: kept with the commit, delivered after it.
    fn posts_of(&mut self, entry: &mut Entry) -> Vec<(PostNo, Vec<u8>)> {
        let posts = std::mem::take(&mut entry.decision.posts);
        let mut kept = Vec::with_capacity(posts.len());
        for post in posts {
            let no = self.parts.numbers.next_post();
            kept.push((no, record::frame(&post)));
            self.batch.posts.push((entry.row.no, no, Box::new(post)));
        }
        kept
    }

    pub(super) fn release_with(&mut self, entry: &mut Entry) {
        let no = entry.row.no;
        let effects = std::mem::take(&mut entry.decision.effects);
        self.batch.effects.reserve(effects.len());
        for effect in effects {
            if let Effect::Closed(outcome) = effect {
                self.closed(entry, outcome);
                continue;
            }
            if Self::has_planted(Bug::EffectBeforeCommit) {
                self.parts.outlet.release(vec![effect]);
                continue;
            }
            self.batch.effects.push((no, effect));
        }
        for cause in entry.causes.drain(..) {
            self.batch.causes.push((no, cause));
        }
        self.keep_cause_room(entry);
        for ack in entry.acks.drain(..) {
            if Self::has_planted(Bug::AnswerBeforeCommit) {
                ack.send();
                continue;
            }
            self.batch.acks.push((no, ack));
        }
    }

    /// The run has ended: its id is free, whoever waits is told, and it leaves memory when that
    /// is durable.
    fn closed(&mut self, entry: &mut Entry, outcome: RunOutcome) {
        let no = entry.row.no;
        if self.open_ids.get(&entry.row.workflow_id) == Some(&no) {
            self.open_ids.remove(&entry.row.workflow_id);
        }
        for wait in entry.waiters.drain(..) {
            self.waiters = self.waiters.saturating_sub(1);
            entry.acks.push(Ack::Closed(wait, outcome.clone()));
        }
        self.updates_end(entry);
        self.queries_end(entry);
        if entry.is_cached || entry.has_steps {
            self.evictions.push_back(entry.row.run_id);
            entry.is_cached = false;
        }
        self.is_no_suspect(no);
        points::pass("commit.closing");
        entry.outcome = Some(outcome);
        self.closing.push_back((entry.row.state.head, no));
        if !entry.mailbox.is_empty() {
            self.enqueue(entry);
        }
    }

    /// The run contradicts itself: nothing of what was just decided is written, and it is left
    /// alone from here on.
    fn drop_decision(&mut self, entry: &mut Entry) {
        let decision = std::mem::take(&mut entry.decision);
        for effect in decision.effects {
            self.undo_effect(effect);
        }
        entry.run = None;
        entry.layers.clear();
        self.is_no_suspect(entry.row.no);
        self.enqueue(entry);
    }
}

/// Whether enough was written since the last snapshot: that of a run which remembers much, as
/// requests it has seen or messages it cannot deal with, is not written over and over again.
fn is_worth_it(since: Unsnapped) -> bool {
    since.bytes >= since.snapshot / SNAPSHOT_SHARE
}
