//! A commit was not written: its runs are thrown back to what is on disk, and nothing else is.
//! Attempts that run go on, and their outcomes count.
//!
//! ```text
//!  not written --> answers: refused        what comes only once (outcomes, reports, posts): applied again
//!                  attempts: never began   whoever waits for an end or an update: waits on
//!  first visit --> the record is compared with what is out
//!                    out, recorded         goes on
//!                    out, not recorded     recorded as it runs (it needed no commit of its own)
//!                    out, nobody wants it  told to stop
//!                    recorded, not out     handed back: it begins under the same number
//! ```

use std::collections::{BTreeMap, BTreeSet};

use outlast_engine::{Effect, Input};
use outlast_model::id::{UpdateId, WorkflowId};
use outlast_model::planted::Bug;
use outlast_model::post::{Post, PostNo};
use outlast_model::task::{AttemptToken, RunNo};
use outlast_model::view::RunOutcome;
use outlast_model::{Refusal, Timestamp};

use super::Shard;
use super::slice::is_message;
use crate::batch::Batch;
use crate::entry::{Arming, Entry, Letter, Past, Question, Sender, UpdateWaiter};
use crate::mail::{Ack, Reply};
use crate::store::{CommitNo, ReadError, RunRow, Store};

/// A post that waits until the shard is told to try again.
pub(super) const HELD: Timestamp = Timestamp(u64::MAX);

/// What outlives commits that were not written, of one run.
#[derive(Default)]
pub(super) struct Saved {
    /// Stimuli that come only once, in their order.
    causes: Vec<Letter>,
    /// Who was to be told to stop, once this commit is on disk.
    stops: Vec<(CommitNo, Effect)>,
    waiters: Vec<Reply<RunOutcome>>,
    updates: Vec<(UpdateId, UpdateWaiter)>,
    queries: Vec<Question>,
}

pub(super) type SavedRuns = BTreeMap<RunNo, Saved>;

/// The runs that stand on commits that were not written.
#[derive(Default)]
struct Touched {
    ids: BTreeSet<WorkflowId>,
    runs: BTreeSet<RunNo>,
}

impl Touched {
    /// Whatever is ahead of the disk and of the same id relies on what was not written.
    fn follow(&mut self, batch: &Batch) {
        for commit in &batch.commits {
            if self.ids.contains(&commit.row.workflow_id) {
                self.runs.insert(commit.row.no);
            }
        }
    }
}

/// Batches that nothing was done about, since the store could not say what is on disk.
#[derive(Debug)]
pub struct Unread {
    /// What it said.
    pub error: ReadError,
    /// The batches, in their order.
    pub batches: Vec<Batch>,
}

impl Shard {
    /// These commits are certainly not on disk: their runs are thrown back. `behind` follows them
    /// and is not written yet; what of it does not rely on them is returned, in its order.
    ///
    /// # Errors
    /// When the store cannot be read. Nothing has changed then.
    pub fn roll_back(
        &mut self,
        void: Vec<Batch>,
        mut behind: Vec<Batch>,
        refusal: &Refusal,
        store: &dyn Store,
    ) -> Result<Vec<Batch>, Unread> {
        let touched = self.touched(&void, &behind);
        let rows = match self.rows_on_disk(&touched, store) {
            Ok(rows) => rows,
            Err(error) => {
                let batches = void.into_iter().chain(behind).collect();
                return Err(Unread { error, batches });
            }
        };
        let mut saved = SavedRuns::new();
        let is_theirs = |run: RunNo| touched.runs.contains(&run);
        let mut theirs: Vec<Batch> = void;
        theirs.extend(behind.iter_mut().map(|batch| batch.part(is_theirs)));
        theirs.push(self.batch.part(is_theirs));
        for batch in theirs {
            self.undo(batch, refusal, &mut saved);
        }
        let questions = self.leave_lines(&touched.runs);
        self.throw_all_back(&touched, rows, refusal, &mut saved);
        self.judge_again(saved);
        for (run, question) in questions {
            let is_back = run.run_id.is_none_or(|id| self.by_run_id.contains_key(&id));
            if is_back {
                self.query(run, question, store);
            } else {
                (question.reply)(Err(refusal.clone()));
            }
        }
        behind.retain(|batch| !batch.is_empty());
        Ok(behind)
    }

    /// There may be room now: some of those that were thrown back try again, those first that have
    /// waited longest.
    pub fn resume(&mut self, count: usize) {
        for _ in 0..count {
            let Some(no) = self.short.pop_front() else {
                break;
            };
            self.enqueue_no(no);
        }
        for (at, ..) in &mut self.postponed {
            if *at == HELD {
                *at = Timestamp(0);
            }
        }
    }

    /// Whether something waits for room.
    pub fn is_short(&self) -> bool {
        !self.short.is_empty() || self.postponed.iter().any(|(at, ..)| *at == HELD)
    }

    fn touched(&self, void: &[Batch], behind: &[Batch]) -> Touched {
        let mut touched = Touched::default();
        for commit in void.iter().flat_map(|batch| &batch.commits) {
            touched.runs.insert(commit.row.no);
            touched.ids.insert(commit.row.workflow_id.clone());
        }
        for batch in behind.iter().chain([&self.batch]) {
            touched.follow(batch);
        }
        let open = touched.ids.iter().filter_map(|id| self.open_ids.get(id));
        touched.runs.extend(open.copied().collect::<Vec<RunNo>>());
        touched.runs.retain(|no| self.runs.contains_key(no));
        touched
    }

    fn rows_on_disk(
        &self,
        touched: &Touched,
        store: &dyn Store,
    ) -> Result<BTreeMap<RunNo, Option<RunRow>>, ReadError> {
        let entries = touched.runs.iter().filter_map(|no| self.runs.get(no));
        let rows = entries.map(|entry| {
            let row = store.find_run(entry.row.run_id)?;
            Ok((entry.row.no, row))
        });
        rows.collect()
    }

    /// What was decided did not happen: no attempt of it began, none is told to stop. Callers are
    /// told; whoever only waits goes on doing so.
    pub(super) fn undo(&mut self, batch: Batch, refusal: &Refusal, saved: &mut SavedRuns) {
        for (no, effect) in batch.effects {
            if let Effect::Stop(..) = effect {
                let mine = batch.commits.iter().filter(|commit| commit.row.no == no);
                if let Some(commit) = mine.map(|commit| commit.id).max() {
                    let saved = saved.entry(no).or_default();
                    saved.stops.push((commit, effect));
                }
            } else {
                self.undo_effect(effect);
            }
        }
        for (no, ack) in batch.acks {
            let is_gone = !self.runs.contains_key(&no);
            let saved = saved.entry(no).or_default();
            match ack {
                // A run leaves memory when its end is on disk.
                ack @ Ack::Closed(..) if is_gone => ack.send(),
                Ack::Closed(reply, _) => saved.waiters.push(reply),
                Ack::Updated {
                    id, stage, reply, ..
                } => saved.updates.push((id, UpdateWaiter { stage, reply })),
                ack @ (Ack::Start(..)
                | Ack::Message(..)
                | Ack::Report(..)
                | Ack::Update(..)
                | Ack::Query(..)) => ack.refuse(refusal.clone()),
            }
        }
        for (no, cause) in batch.causes {
            if Self::has_planted(Bug::OutcomeRolledBack) && matches!(cause.from, Sender::Nobody) {
                continue;
            }
            saved.entry(no).or_default().causes.push(cause);
        }
    }

    pub(super) fn undo_effect(&mut self, effect: Effect) {
        let (queue, token) = match effect {
            Effect::StartActivity(order) => (order.activity.queue.clone(), order.token),
            Effect::StartStep(task) => (task.queue, task.token),
            Effect::Stop(..) | Effect::Closed(_) | Effect::Update(..) => return,
        };
        self.parts.outlet.return_slot(&queue, token.kind.into());
        self.out.remove(token);
    }

    /// Those who were thrown back wait for nothing any more. Returns questions about their end.
    fn leave_lines(
        &mut self,
        runs: &BTreeSet<RunNo>,
    ) -> Vec<(outlast_model::view::RunRef, Question)> {
        let gone = |no: &RunNo| runs.contains(no);
        let ended = |(_, no): &(CommitNo, RunNo)| gone(no);
        let heads: Vec<CommitNo> = self
            .closing
            .iter()
            .filter(|c| ended(c))
            .map(|c| c.0)
            .collect();
        self.ready.retain(|no| !gone(no));
        self.closing.retain(|c| !ended(c));
        self.leaving.retain(|c| !ended(c));
        self.deferred.retain(|c| !ended(c));
        self.waiting.retain(|(no, _)| !gone(no));
        self.short.retain(|no| !gone(no));
        self.closed_queries.take_undurable(&heads)
    }

    fn throw_all_back(
        &mut self,
        touched: &Touched,
        rows: BTreeMap<RunNo, Option<RunRow>>,
        refusal: &Refusal,
        saved: &mut SavedRuns,
    ) {
        let mut out = self.out_by_run();
        for id in &touched.ids {
            self.open_ids.remove(id);
        }
        // Those that never were on disk, newest first: what waits for them falls back to the run
        // that they would have continued.
        for (no, row) in rows.into_iter().rev() {
            let Some(entry) = self.runs.remove(&no) else {
                continue;
            };
            self.by_run_id.remove(&entry.row.run_id);
            let tokens = out.remove(&no).unwrap_or_default();
            let fresh = self.thrown_back(*entry, tokens, refusal, saved);
            match row.filter(|row| row.state.status.is_open()) {
                Some(row) => self.settle_back(fresh, row),
                None => {
                    let older = touched.runs.range(..no).rev();
                    let older = older.filter_map(|no| self.runs.get(no));
                    let before = older.map(|e| &e.row).find(|row| continues(&fresh.row, row));
                    let before = before.map(|row| row.no);
                    self.dissolve(fresh, before, refusal, saved);
                }
            }
        }
    }

    /// The entry as if it were new, with everybody who waits for it and what comes only once.
    pub(super) fn thrown_back(
        &mut self,
        mut entry: Entry,
        out: Vec<AttemptToken>,
        refusal: &Refusal,
        saved: &mut SavedRuns,
    ) -> Entry {
        let no = entry.row.no;
        let unsealed = Batch {
            effects: entry.decision.effects.drain(..).map(|e| (no, e)).collect(),
            acks: entry.acks.drain(..).map(|ack| (no, ack)).collect(),
            causes: entry.causes.drain(..).map(|cause| (no, cause)).collect(),
            ..Batch::default()
        };
        self.undo(unsealed, refusal, saved);
        if entry.is_cached || entry.slice.is_some() || entry.has_steps {
            self.evictions.push_back(entry.row.run_id);
        }
        self.give_slice_slot(&mut entry);
        self.is_no_suspect(no);
        self.arm(&mut entry, None);
        let mut fresh = Entry::new(entry.row);
        fresh.mailbox = entry.mailbox;
        fresh.waiters = entry.waiters;
        fresh.updates = entry.updates;
        fresh.queries = entry.queries;
        fresh.queries.append(&mut entry.asked);
        fresh.is_starved = entry.is_starved;
        fresh.unsnapped = entry.unsnapped;
        fresh.stuck_turn = entry.stuck_turn;
        fresh.damage = entry.damage;
        fresh.arming = match entry.arming {
            Arming::Unneeded => Arming::Unneeded,
            Arming::Needed | Arming::Said(_) => Arming::Needed,
        };
        let refusal = refusal.clone();
        let mut saved = saved.remove(&no).unwrap_or_default();
        let stops = std::mem::take(&mut saved.stops);
        fresh.past = Past::ThrownBack {
            refusal,
            out,
            stops,
        };
        self.rejoin(&mut fresh, saved);
        fresh
    }

    /// What waited for commits that were not written waits for the run again.
    pub(super) fn rejoin(&mut self, entry: &mut Entry, saved: Saved) {
        self.waiters += saved.waiters.len() + saved.updates.len();
        entry.waiters.extend(saved.waiters);
        for (id, waiter) in saved.updates {
            entry.updates.entry(id).or_default().push(waiter);
        }
        entry.queries.extend(saved.queries);
        for cause in saved.causes.into_iter().rev() {
            entry.mailbox.push_front(cause);
        }
    }

    /// The run is there, as the disk has it.
    fn settle_back(&mut self, mut entry: Entry, row: RunRow) {
        let no = row.no;
        self.open_ids.insert(row.workflow_id.clone(), no);
        self.by_run_id.insert(row.run_id, no);
        entry.row = row;
        self.short.push_back(no);
        let asks = entry.mailbox.iter().any(|letter| letter.from.is_caller());
        if asks || !entry.queries.is_empty() {
            // Callers hear at once whether there is room for them.
            self.enqueue(&mut entry);
        }
        self.runs.insert(no, Box::new(entry));
    }

    /// The run never began, or has ended after all. What was meant for it goes to the run that it
    /// would have continued, if there is one; else callers are told.
    pub(super) fn dissolve(
        &mut self,
        entry: Entry,
        before: Option<RunNo>,
        refusal: &Refusal,
        saved: &mut SavedRuns,
    ) {
        let Some(before) = before else {
            return self.turn_away(entry, refusal, saved);
        };
        self.waiters = self.waiters.saturating_sub(waiting_for(&entry));
        let heir = saved.entry(before).or_default();
        heir.waiters.extend(entry.waiters);
        for (id, waiting) in entry.updates {
            let waiting = waiting.into_iter().map(|waiter| (id.clone(), waiter));
            heir.updates.extend(waiting);
        }
        heir.queries.extend(entry.queries);
        let (messages, rest): (Vec<Letter>, Vec<Letter>) = entry
            .mailbox
            .into_iter()
            .partition(|letter| is_message(&letter.input));
        heir.causes.extend(messages);
        self.turn_letters_away(rest, refusal, saved);
    }

    fn turn_away(&mut self, entry: Entry, refusal: &Refusal, saved: &mut SavedRuns) {
        self.waiters = self.waiters.saturating_sub(waiting_for(&entry));
        self.turn_letters_away(entry.mailbox, refusal, saved);
        for waiter in entry.updates.into_values().flatten() {
            (waiter.reply)(Err(refusal.clone()));
        }
        for question in entry.queries {
            (question.reply)(Err(refusal.clone()));
        }
        for reply in entry.waiters {
            reply(Err(refusal.clone()));
        }
    }

    fn turn_letters_away(
        &mut self,
        letters: impl IntoIterator<Item = Letter>,
        refusal: &Refusal,
        saved: &mut SavedRuns,
    ) {
        let nobodys = saved.entry(RunNo(0)).or_default();
        for letter in letters {
            match letter.from {
                Sender::Post(_) => nobodys.causes.push(letter),
                from @ (Sender::Nobody
                | Sender::Caller(_)
                | Sender::Report(_)
                | Sender::Update(..)) => from.refuse(refusal),
            }
        }
    }

    /// Posts that were judged by what did not happen, or began a run that was not written, are
    /// judged again when there may be room; nothing said to the same run overtakes them.
    fn judge_again(&mut self, saved: SavedRuns) {
        let causes = saved.into_values().flat_map(|saved| saved.causes);
        let mut posts: Vec<(PostNo, Box<Post>)> = causes
            .filter_map(|letter| match (letter.from, letter.input) {
                (Sender::Post(no), Input::Post(post)) => Some((no, post)),
                (_, _) => None,
            })
            .collect();
        posts.sort_by_key(|(no, _)| *no);
        for (no, post) in posts.into_iter().rev() {
            self.postponed.push_front((HELD, no, post));
        }
    }

    /// Attempts that run, by run.
    pub(super) fn out_by_run(&self) -> BTreeMap<RunNo, Vec<AttemptToken>> {
        let mut all: BTreeMap<RunNo, Vec<AttemptToken>> = BTreeMap::new();
        let tokens = self.out.tokens(self.parts.index, self.parts.incarnation);
        for token in tokens {
            all.entry(token.run).or_default().push(token);
        }
        all
    }
}

/// How many callers wait for this run.
fn waiting_for(entry: &Entry) -> usize {
    let updates: usize = entry.updates.values().map(Vec::len).sum();
    entry.waiters.len() + updates
}

/// Whether a run continues the chain of another.
pub(super) fn continues(row: &RunRow, older: &RunRow) -> bool {
    let is_of_chain = |first| older.run_id == first || older.first_run == Some(first);
    let is_newer = older.no < row.no && older.workflow_id == row.workflow_id;
    is_newer && row.first_run.is_some_and(is_of_chain)
}
