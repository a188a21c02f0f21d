//! A run that cannot be read, or contradicts itself, is set aside: everything is refused but its
//! end. Whoever needs its id must be able to get it back.
//!
//! Terminating it appends the closing event to whatever is in the store, so that the bytes stay
//! for whoever wants to look at them. The parent and the children that it is known to have are
//! told; those that nothing readable names are not.

use outlast_engine::{Decision, Effect, Input, Run, apply, close};
use outlast_model::id::{Epoch, EventId};
use outlast_model::post::PostBody;
use outlast_model::{Event, EventKind, Fact, Record, Status, Timestamp, limits};

use super::Shard;
use crate::entry::{Entry, Letter, Sender};
use crate::mail::Ack;
use crate::points;
use crate::salvage::{Rest, salvage};
use crate::store::{Attention, Store};

impl Shard {
    /// A turn of a run that is set aside: a terminate that had to wait ends it, everything else is
    /// refused.
    pub(super) fn turn_of_damaged(&mut self, entry: &mut Entry, now: Timestamp, store: &dyn Store) {
        let is_end = |letter: &Letter| reason_of(&letter.input).is_some();
        let waiting = entry.mailbox.iter().position(is_end);
        match waiting.and_then(|at| entry.mailbox.remove(at)) {
            Some(letter) => self.end_damaged(entry, letter, now, store),
            None => self.refuse_letters(entry),
        }
    }

    /// Ends a run that is set aside: the letter says so.
    pub(super) fn end_damaged(
        &mut self,
        entry: &mut Entry,
        letter: Letter,
        now: Timestamp,
        store: &dyn Store,
    ) {
        let head = entry.row.state.head;
        if !self.is_durable(head) {
            self.deferred.push((head, entry.row.no));
            return keep(entry, letter);
        }
        match salvage(store, entry.row.no, self.parts.window) {
            Ok(rest) => self.end_with(entry, rest, letter, now),
            Err(error) => {
                keep(entry, letter);
                self.unread(entry, &error, now);
            }
        }
    }

    fn end_with(&mut self, entry: &mut Entry, rest: Rest, letter: Letter, now: Timestamp) {
        if entry.slice.take().is_some() {
            self.slice_is_over(entry);
            self.evictions.push_back(entry.row.run_id);
            entry.is_cached = false;
        }
        entry.lazy.clear();
        entry.damage = None;
        let reason = limits::reason(reason_of(&letter.input).unwrap_or_default());
        match letter.from {
            Sender::Caller(reply) => entry.acks.push(Ack::Message(reply, Ok(()))),
            Sender::Post(no) => {
                entry.taken.push(no);
                entry.keep(Some(letter.input), Sender::Post(no), now);
            }
            Sender::Nobody | Sender::Report(_) | Sender::Update(..) => {}
        }
        let is_whole = matches!(rest, Rest::Whole(_));
        let known = match rest {
            Rest::Whole(run) | Rest::Part(run) => self.last_words(entry, *run, &reason, now),
            Rest::Nothing => None,
        };
        match known {
            Some((run, decision)) if is_whole => {
                (entry.run, entry.decision) = (Some(run), decision);
                self.seal(entry, now);
            }
            Some((run, decision)) => {
                let time = now.max(run.last_event_time());
                self.close_unread(entry, decision, reason, time);
            }
            None => self.close_unread(entry, Decision::default(), reason, now),
        }
    }

    /// What the run would say at its end, as far as it is known.
    fn last_words(
        &self,
        entry: &Entry,
        mut run: Run,
        reason: &str,
        now: Timestamp,
    ) -> Option<(Run, Decision)> {
        let mut decision = Decision::default();
        run.placed(self.parts.index, entry.row.no, entry.row.state.bytes);
        let reason = reason.to_owned();
        apply(&mut run, Input::Terminate { reason }, now, &mut decision).ok()?;
        Some((run, decision))
    }

    /// Writes the end behind a history that cannot be read, numbered as the row has it.
    fn close_unread(
        &mut self,
        entry: &mut Entry,
        known: Decision,
        reason: String,
        time: Timestamp,
    ) {
        let state = &mut entry.row.state;
        let epoch = Epoch(state.epoch.0.saturating_add(1));
        state.events += 1;
        (state.status, state.closed) = (Status::Terminated, Some(time));
        (state.wake, state.attention) = (None, Attention::default());
        let id = EventId(state.events);
        let kind = EventKind::Terminated { reason };
        let outcome = close::outcome(&kind);
        let is_stop = |effect: &Effect| matches!(effect, Effect::Stop(..));
        let stops = known.effects.into_iter().filter(is_stop);
        entry.run = None;
        entry.decision = Decision {
            records: vec![
                Record::Fact(Fact::EpochRaised { epoch }),
                Record::Event(Event { id, time, kind }),
            ],
            effects: stops.chain(outcome.map(Effect::Closed)).collect(),
            posts: known.posts,
            ..Decision::default()
        };
        let mut commit = self.commit_of(entry, time);
        entry.row.state.epoch = epoch;
        commit.row.state.epoch = epoch;
        self.batch.commits.push(commit);
        points::pass("commit.sealed");
        self.release_with(entry);
        self.arm(entry, None);
    }
}

/// A letter that cannot be dealt with now. One from this process itself is said again.
fn keep(entry: &mut Entry, letter: Letter) {
    match letter.from {
        Sender::Nobody => {}
        Sender::Caller(_) | Sender::Report(_) | Sender::Update(..) | Sender::Post(_) => {
            entry.mailbox.push_back(letter);
        }
    }
}

/// Why the run shall end, if the input says that it shall.
fn reason_of(input: &Input) -> Option<String> {
    if let Input::Terminate { reason } = input {
        return Some(reason.clone());
    }
    if let Input::Post(post) = input
        && let PostBody::Terminate { reason } = &post.body
    {
        return Some(reason.clone());
    }
    None
}
