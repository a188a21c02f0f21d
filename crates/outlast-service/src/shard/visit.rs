//! One run's turn: bring it into memory, apply what waits, and give its code a slice if there is
//! something to see.

use std::time::Duration;

use outlast_engine::{Error, Input, Run, apply, workflow_task};
use outlast_model::event::DeliveryFailedCause;
use outlast_model::id::Seq;
use outlast_model::planted::Bug;
use outlast_model::post::PostBody;
use outlast_model::task::{AttemptResult, RunNo, StopReason, WorkflowTask};
use outlast_model::view::RunOutcome;
use outlast_model::{Refusal, Timestamp, limits};

use super::Shard;
use super::update::closed;
use crate::entry::{Arming, Entry, Letter, Past, Path, Sender, UpdateWaiter};
use crate::mail::Ack;
use crate::points;
use crate::read;
use crate::store::{ReadError, Store};

/// How long a run that the store could not give waits before it is asked for again.
pub(super) const READ_AGAIN: Duration = Duration::from_secs(1);

/// Payloads of mail that go into one commit; the rest goes into the next. With the commands of
/// the slice that sees them they must stay below the limit of a commit.
pub(super) const MAIL_BYTES: usize = limits::COMMIT_BYTES / 8;

impl Shard {
    pub(super) fn visit(
        &mut self,
        no: RunNo,
        now: Timestamp,
        store: &dyn Store,
    ) -> Option<WorkflowTask> {
        let mut entry = self.runs.remove(&no)?;
        entry.is_queued = false;
        if entry.decision.records.capacity() == 0 {
            entry.decision.records = self.room();
        }
        let task = self.turn_of(&mut entry, now, store);
        self.put_back(entry);
        task
    }

    fn turn_of(
        &mut self,
        entry: &mut Entry,
        now: Timestamp,
        store: &dyn Store,
    ) -> Option<WorkflowTask> {
        if entry.outcome.is_some() {
            self.refuse_letters(entry);
            return None;
        }
        if entry.damage.is_some() {
            self.turn_of_damaged(entry, now, store);
            return None;
        }
        match entry.slice.map(|slice| slice.path) {
            // The mailbox waits: everything in it is applied together when the slice is done.
            Some(Path::Fast | Path::Rebuild | Path::Query) => return None,
            Some(Path::Slow) => {
                self.apply_mail(entry, now);
                self.seal(entry, now);
                return None;
            }
            None => {}
        }
        if !entry.queries.is_empty() && entry.open_since.is_some() {
            // Whoever asks is answered behind the commits of what it is told.
            self.seal(entry, now);
        }
        if entry.run.is_none() && !self.bring_in(entry, now, store) {
            return None;
        }
        self.compare(entry, now);
        self.recover(entry, now);
        // Questions that have waited go before new mail, not before what the code must still see:
        // they are about a state that has settled.
        let is_at_rest = entry.run.as_ref().is_some_and(|run| !wants_task(run, now));
        let is_asked = entry.patient > 0 && !entry.queries.is_empty() && !self.is_draining;
        if is_asked && entry.is_cached && is_at_rest && self.takes_slice_slot(entry, now) {
            return self.ask(entry, None, now);
        }
        // Code that waited for the disk runs before new mail moves the disk out of its reach
        // again; what came meanwhile is buffered while it runs.
        let is_promised = std::mem::take(&mut entry.awaits_disk);
        let runs_first = is_promised && self.is_durable(entry.row.state.head);
        if !runs_first {
            self.apply_mail(entry, now);
        }
        self.hand_out_ready(entry, now);
        points::pass("stimulus.applied");
        if entry.damage.is_some() || !is_open(entry) {
            self.seal(entry, now);
            return None;
        }
        let task = self.slice_for(entry, now, store);
        let is_left = task.is_none() && runs_first && !entry.mailbox.is_empty();
        if is_left && !Self::has_planted(Bug::MailLeftAtStop) {
            // It does not run after all, since no slot is free or the process goes down.
            self.enqueue(entry);
        }
        task
    }

    /// Loads the run's state. `false`: it goes on later, or it cannot be read.
    fn bring_in(&mut self, entry: &mut Entry, now: Timestamp, store: &dyn Store) -> bool {
        if !self.is_durable(entry.row.state.head) {
            self.deferred.push((entry.row.state.head, entry.row.no));
            return false;
        }
        match read::fetch(store, entry.row.no, self.parts.index, self.parts.window) {
            Ok(fetched) => {
                points::pass("run.loaded");
                entry.run = Some(fetched.run);
                entry.unsnapped = fetched.unsnapped;
                entry.layers = fetched.layers;
                true
            }
            Err(error) => {
                self.unread(entry, &error, now);
                false
            }
        }
    }

    /// The run could not be read. Damage stays; a store that failed is asked again later.
    pub(super) fn unread(&mut self, entry: &mut Entry, error: &ReadError, now: Timestamp) {
        match error {
            ReadError::Damaged { .. } | ReadError::Missing => {
                entry.damage = Some(error.to_string());
                self.is_no_suspect(entry.row.no);
                self.refuse_letters(entry);
            }
            ReadError::Failed { .. } => {
                let refusal = read::unavailable(error);
                // Only callers can ask again; outcomes of attempts come once.
                let (asked, kept) = std::mem::take(&mut entry.mailbox)
                    .into_iter()
                    .partition(|letter| letter.from.is_caller());
                entry.mailbox = kept;
                for letter in asked {
                    letter.from.refuse(&refusal);
                }
                for question in entry.queries.drain(..) {
                    (question.reply)(Err(refusal.clone()));
                }
                let again = now.after(READ_AGAIN);
                let wake = entry.armed_wake.map_or(again, |wake| wake.min(again));
                self.arm(entry, Some(wake));
            }
        }
    }

    /// Applies the mailbox, and the clock, in that order. What is over the limit of stimuli that
    /// are not yet on disk waits, and so does whoever sent it.
    pub(super) fn apply_mail(&mut self, entry: &mut Entry, now: Timestamp) {
        let mut room = MAIL_BYTES.saturating_sub(entry.mail_bytes);
        if self.is_durable(entry.row.state.head) && entry.decision.records.is_empty() {
            entry.uncommitted = 0;
            entry.held_until = None;
        }
        let mut left = limits::UNCOMMITTED_STIMULI.saturating_sub(entry.uncommitted);
        let is_fast = self.is_fast(entry);
        entry.decision.expect(entry.mailbox.len());
        while room > 0
            && left > 0
            && let Some(letter) = entry.mailbox.pop_front()
        {
            let weight = weight(&letter.input);
            room = room.saturating_sub(weight);
            entry.mail_bytes += weight;
            left -= 1;
            entry.uncommitted += 1;
            if let Err(reason) = self.apply_letter(entry, letter, is_fast, now) {
                entry.damage = Some(reason);
                return;
            }
        }
        if left > 0 && !entry.mailbox.is_empty() {
            self.enqueue(entry);
        }
        entry.is_held = left == 0 && !entry.mailbox.is_empty();
        self.apply_input(entry, Input::Due, now);
    }

    /// Mail that was left because of the limit goes on when all before it is on disk.
    pub(super) fn go_on_later(&mut self, entry: &mut Entry) {
        let head = entry.row.state.head;
        if entry.is_held && entry.held_until != Some(head) {
            entry.held_until = Some(head);
            self.deferred.push((head, entry.row.no));
        }
    }

    fn apply_letter(
        &mut self,
        entry: &mut Entry,
        letter: Letter,
        is_fast: bool,
        now: Timestamp,
    ) -> Result<(), String> {
        let Letter {
            mut input,
            from,
            before,
        } = letter;
        let now = before.unwrap_or(now);
        if let Past::Compared = entry.past {
            self.is_of(entry, &input, now);
        }
        if comes_once(&input) {
            self.cause_room(entry);
        }
        let Some(run) = entry.run.as_mut() else {
            return Ok(());
        };
        if let Input::Update { request, .. } = &input
            && let Some(earlier) = run.accepted_before(&request.id)
        {
            if let Sender::Update(_, reply) = from {
                let id = request.id.clone();
                self.ask_earlier(&entry.row.workflow_id, earlier, id, reply);
            }
            return Ok(());
        }
        if let Input::Update { is_fast: fast, .. } = &mut input {
            *fast = is_fast;
        }
        let once = comes_once(&input).then(|| input.clone());
        let (mut update, mut reported) = (None, None);
        if let Input::Update { request, .. } = &input {
            update = Some(request.id.clone());
        } else if let Input::Report { attempt, .. } = &input {
            reported = Some(attempt.seq);
        }
        match (apply(run, input, now, &mut entry.decision), from) {
            (Ok(()), Sender::Report(reply)) => {
                let stop = reported.and_then(|seq| stop_of(run, seq));
                entry.acks.push(Ack::Report(reply, Ok(stop)));
            }
            (Err(Error::Refused(refusal)), Sender::Report(reply)) => {
                entry.acks.push(Ack::Report(reply, Err(refusal)));
            }
            (Ok(()), Sender::Caller(reply)) => entry.acks.push(Ack::Message(reply, Ok(()))),
            (Ok(()), Sender::Post(no)) => {
                entry.taken.push(no);
                entry.keep(once, Sender::Post(no), now);
            }
            (Ok(()), Sender::Update(stage, reply)) => {
                if let Some(id) = update {
                    self.waiters += 1;
                    let waiter = UpdateWaiter { stage, reply };
                    entry.updates.entry(id).or_default().push(waiter);
                }
            }
            (Err(Error::Refused(_)), Sender::Post(no)) => {
                if let Some(Input::Post(post)) = once {
                    self.undelivered(no, &post, DeliveryFailedCause::NotFound);
                }
            }
            // A refusal, too, speaks of something that may not be durable yet.
            (Err(Error::Refused(refusal)), Sender::Caller(reply)) => {
                entry.acks.push(Ack::Message(reply, Err(refusal)));
            }
            (Err(Error::Refused(refusal)), Sender::Update(_, reply)) => {
                entry.acks.push(Ack::Update(reply, Err(refusal)));
            }
            (Ok(()) | Err(Error::Refused(_)), Sender::Nobody) => {
                entry.keep(once, Sender::Nobody, now);
            }
            (Err(error @ (Error::Unexpected(_) | Error::Corrupt(_))), _) => {
                return Err(error.reason());
            }
        }
        Ok(())
    }

    /// Whether workflow code will see at once what is applied now.
    fn is_fast(&self, entry: &Entry) -> bool {
        let Some(run) = entry.run.as_ref() else {
            return false;
        };
        entry.slice.is_none()
            && !self.is_draining
            && entry.arming == Arming::Unneeded
            && (entry.is_cached || !run.has_history())
            && self.has_type(run)
    }

    pub(super) fn apply_input(&mut self, entry: &mut Entry, input: Input, now: Timestamp) {
        let Some(run) = entry.run.as_mut() else {
            return;
        };
        match apply(run, input, now, &mut entry.decision) {
            Ok(()) | Err(Error::Refused(_)) => {}
            Err(error @ (Error::Unexpected(_) | Error::Corrupt(_))) => {
                entry.damage = Some(error.reason());
            }
        }
    }

    pub(super) fn put_back(&mut self, mut entry: Box<Entry>) {
        if entry.slice.is_none() && entry.decision.records.is_empty() {
            self.keep_room(std::mem::take(&mut entry.decision.records));
        }
        self.runs.insert(entry.row.no, entry);
    }

    /// Ends a run at once, whatever it does: the letter says so.
    pub(super) fn terminate(
        &mut self,
        no: RunNo,
        letter: Letter,
        now: Timestamp,
        store: &dyn Store,
    ) {
        let Some(mut entry) = self.runs.remove(&no) else {
            return;
        };
        let is_whole = entry.damage.is_none();
        let is_here = is_whole && (entry.run.is_some() || self.bring_in(&mut entry, now, store));
        if entry.damage.is_some() {
            self.end_damaged(&mut entry, letter, now, store);
            return self.put_back(entry);
        }
        if !is_here {
            // Not readable now: it stays in the mailbox and is applied when it is.
            entry.mailbox.push_back(letter);
            self.enqueue(&mut entry);
            return self.put_back(entry);
        }
        self.compare(&mut entry, now);
        if entry.slice.take().is_some() {
            self.slice_is_over(&mut entry);
            self.evictions.push_back(entry.row.run_id);
            entry.is_cached = false;
        }
        if let Err(reason) = self.apply_letter(&mut entry, letter, false, now) {
            entry.damage = Some(reason);
        }
        self.seal(&mut entry, now);
        self.put_back(entry);
    }

    pub(super) fn refuse_letters(&mut self, entry: &mut Entry) {
        let refusal = match &entry.damage {
            Some(reason) => Refusal::Quarantined {
                run_id: entry.row.run_id,
                reason: reason.clone(),
            },
            None => closed(entry),
        };
        let letters = std::mem::take(&mut entry.mailbox);
        if entry.damage.is_none() {
            for letter in self.answer_repeated(entry, letters) {
                self.refuse_letter(entry.row.no, letter, &refusal);
            }
        } else {
            // What other runs said stays, here and in the store: the end of the run answers it, or
            // the next process may be able to read it.
            for letter in letters {
                if let Sender::Post(_) = letter.from {
                    entry.mailbox.push_back(letter);
                } else {
                    letter.from.refuse(&refusal);
                }
            }
        }
        for question in entry.queries.drain(..).chain(entry.asked.drain(..)) {
            (question.reply)(Err(refusal.clone()));
        }
        if entry.damage.is_some() {
            let waiting = std::mem::take(&mut entry.updates).into_values();
            for waiter in waiting.flatten() {
                self.waiters = self.waiters.saturating_sub(1);
                (waiter.reply)(Err(refusal.clone()));
            }
            for ack in entry.acks.drain(..) {
                ack.refuse(refusal.clone());
            }
            for wait in entry.waiters.drain(..) {
                self.waiters = self.waiters.saturating_sub(1);
                wait(Err(refusal.clone()));
            }
        }
    }
}

/// Whether nobody will say it again: it is kept until what it causes is on disk.
pub(super) fn comes_once(input: &Input) -> bool {
    matches!(
        input,
        Input::Outcome(_)
            | Input::Heartbeat { .. }
            | Input::Post(_)
            | Input::Returned
            | Input::ForeignWake
    )
}

/// Whether an attempt that reports is told to stop.
fn stop_of(run: &Run, seq: Seq) -> Option<StopReason> {
    let is_unwanted = run.activity(seq)?.is_cancel_requested;
    is_unwanted.then_some(StopReason::Cancelled)
}

/// Bytes of the payloads that an input brings.
fn weight(input: &Input) -> usize {
    if let Input::Signal { input, headers, .. } = input {
        return input.size() + headers.size();
    }
    if let Input::Heartbeat { details, .. } = input {
        return details.size();
    }
    if let Input::Update { request, .. } = input {
        return request.input.size() + request.headers.size();
    }
    if let Input::Post(post) = input {
        return post_weight(&post.body);
    }
    if let Input::Report { details, .. } = input {
        return details.size();
    }
    if let Input::Answer { result, .. } = input
        && let AttemptResult::Completed(result) = result
    {
        return result.size();
    }
    if let Input::Outcome(outcome) = input
        && let AttemptResult::Completed(result) = &outcome.result
    {
        return result.size();
    }
    0
}

fn post_weight(body: &PostBody) -> usize {
    if let PostBody::Signal { input, headers, .. } = body {
        return input.size() + headers.size();
    }
    if let PostBody::ChildEnded { outcome, .. } = body
        && let RunOutcome::Completed(result) = outcome
    {
        return result.size();
    }
    0
}

pub(super) fn is_open(entry: &Entry) -> bool {
    entry.run.as_ref().is_some_and(|run| run.status().is_open())
}

/// Whether workflow code should run now.
pub(super) fn wants_task(run: &Run, now: Timestamp) -> bool {
    run.task().decide(workflow_task::Input::Ask, now) == workflow_task::Verdict::HandOut
}
