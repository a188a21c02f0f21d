//! The store failed: what became of the commits under way is unknown. The shard stands still until
//! the store is open again, and goes on from what it finds there. The process lives: its attempts
//! go on, and so does everybody who waits.
//!
//! ```text
//!  decides --store failed: cut_off--> away --open again: start_over--> decides
//!                                      callers are refused at once; outcomes and waits are kept
//! ```

use std::sync::atomic::Ordering;

use outlast_engine::Effect;
use outlast_model::Refusal;
use outlast_model::task::StopReason;
use outlast_model::view::{RunOutcome, RunRef};

use super::Shard;
use super::rollback::{SavedRuns, continues};
use crate::batch::Batch;
use crate::entry::{Entry, Past, Sender};
use crate::mail::{Mail, Reply};
use crate::read;
use crate::store::{Boot, RunRow, Store};
use crate::waiting::Waiting;

/// What a shard keeps while its store cannot be used.
pub(super) struct Away {
    /// What callers hear whose calls were under way.
    refusal: Refusal,
    /// What all others hear.
    unavailable: Refusal,
    /// Who began to wait meanwhile.
    waits: Vec<(RunRef, Reply<RunOutcome>)>,
}

impl std::fmt::Debug for Away {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Away").finish_non_exhaustive()
    }
}

impl Shard {
    /// Nothing that is ahead of the disk counts any more, neither what was handed over and is not
    /// written nor what is decided: callers are told, and nothing is decided until the shard
    /// starts over.
    pub fn cut_off(&mut self, void: Vec<Batch>, refusal: &Refusal) {
        let mut saved = SavedRuns::new();
        let own = std::mem::take(&mut self.batch);
        for batch in void.into_iter().chain([own]) {
            self.undo(batch, refusal, &mut saved);
        }
        let mut out = self.out_by_run();
        self.none_starve();
        let mut all: Vec<Box<Entry>> = self.runs.drain().map(|(_, entry)| entry).collect();
        all.sort_unstable_by_key(|entry| entry.row.no);
        for entry in all {
            let no = entry.row.no;
            let tokens = out.remove(&no).unwrap_or_default();
            let mut fresh = self.thrown_back(*entry, tokens, refusal, &mut saved);
            fresh.is_starved = false;
            self.hang_up(&mut fresh, refusal);
            self.runs.insert(no, Box::new(fresh));
        }
        self.ready.clear();
        self.wakes.clear();
        self.waiting = Waiting::default();
        self.closing.clear();
        self.leaving.clear();
        self.deferred.clear();
        self.postponed.clear();
        self.short.clear();
        self.open_decisions.clear();
        self.suspects.clear();
        self.suspect = None;
        self.closed_queries.refuse(refusal);
        for asked in std::mem::take(&mut self.asked_again) {
            asked.refuse(refusal);
        }
        self.generation += 1;
        let unavailable = unavailable(refusal);
        let waits = self.away.take().map(|away| away.waits);
        self.away = Some(Box::new(Away {
            refusal: refusal.clone(),
            unavailable,
            waits: waits.unwrap_or_default(),
        }));
    }

    /// Callers are not kept waiting for a store that may be away for long. Only outcomes of attempts
    /// stay, which come once, and whoever waits for the end; what others said is in the store.
    fn hang_up(&mut self, entry: &mut Entry, refusal: &Refusal) {
        let unavailable = unavailable(refusal);
        for letter in std::mem::take(&mut entry.mailbox) {
            match &letter.from {
                Sender::Nobody => entry.mailbox.push_back(letter),
                Sender::Post(_) => {}
                Sender::Caller(_) | Sender::Report(_) | Sender::Update(..) => {
                    letter.from.refuse(&unavailable);
                }
            }
        }
        for question in entry.queries.drain(..) {
            (question.reply)(Err(unavailable.clone()));
        }
        for waiter in std::mem::take(&mut entry.updates).into_values().flatten() {
            self.waiters = self.waiters.saturating_sub(1);
            (waiter.reply)(Err(refusal.clone()));
        }
    }

    /// The store cannot be used: callers hear so at once, everything else is kept. Returns what
    /// can be dealt with all the same.
    pub(super) fn while_away(&mut self, mail: Mail) -> Option<Mail> {
        let Some(away) = &mut self.away else {
            return Some(mail);
        };
        let refusal = away.unavailable.clone();
        match mail {
            Mail::Start {
                reply, wait, with, ..
            } => super::intake::Starter { reply, wait, with }.refuse(&refusal),
            Mail::Update { reply, .. } => reply(Err(refusal)),
            Mail::Query { reply, .. } => reply(Err(refusal)),
            Mail::Message { reply, .. } => reply(Err(refusal)),
            Mail::Report { reply, .. } => reply(Err(refusal)),
            Mail::Wait { run, reply } => away.waits.push((run, reply)),
            // It is read again with the store.
            Mail::Post { .. } => {}
            mail @ (Mail::Describe { .. }
            | Mail::Outcomes(_)
            | Mail::Heartbeat(..)
            | Mail::ForeignWake(_)
            | Mail::MayGoOn(_)
            | Mail::Look) => return Some(mail),
        }
        None
    }

    /// The store is open again, and this is what it has.
    pub fn start_over(&mut self, boot: Boot, store: &dyn Store) {
        let Some(away) = self.away.take() else {
            return;
        };
        let refusal = &away.refusal;
        self.parts.numbers.raise(&boot);
        self.durable.store(boot.last_commit.0, Ordering::Release);
        let mut known = std::mem::take(&mut self.runs);
        self.open_ids.clear();
        self.by_run_id.clear();
        for row in boot.open {
            let entry = known.remove(&row.no);
            let entry = entry.unwrap_or_else(|| Box::new(Entry::new(row.clone())));
            self.settle_again(entry, row);
        }
        let mut gone: Vec<Box<Entry>> = known.into_values().collect();
        gone.sort_unstable_by_key(|entry| entry.row.no);
        let mut saved = SavedRuns::new();
        for entry in gone {
            self.let_go(*entry, refusal, &mut saved, store);
        }
        for (no, saved) in saved {
            if let Some(mut entry) = self.runs.remove(&no) {
                self.rejoin(&mut entry, saved);
                self.enqueue(&mut entry);
                self.runs.insert(no, entry);
            }
        }
        for (run, reply) in away.waits {
            self.wait(&run, reply, store);
        }
    }

    fn settle_again(&mut self, mut entry: Box<Entry>, row: RunRow) {
        let no = row.no;
        self.open_ids.insert(row.workflow_id.clone(), no);
        self.by_run_id.insert(row.run_id, no);
        let (wake, attention) = (row.state.wake, row.state.attention);
        entry.row = row;
        self.arm(&mut entry, wake);
        let is_out = match &entry.past {
            Past::ThrownBack { out, .. } => !out.is_empty(),
            Past::Straight | Past::Compared => false,
        };
        if is_out || !entry.mailbox.is_empty() || !attention.is_none() {
            self.enqueue(&mut entry);
        }
        self.runs.insert(no, entry);
    }

    /// The run never began, or has ended after all: nobody wants its attempts, and whoever waits
    /// for its end hears of it.
    fn let_go(
        &mut self,
        mut entry: Entry,
        refusal: &Refusal,
        saved: &mut SavedRuns,
        store: &dyn Store,
    ) {
        if let Past::ThrownBack { out, .. } = std::mem::take(&mut entry.past) {
            let out = out
                .into_iter()
                .filter(|token| self.out.since(*token).is_some());
            let stops: Vec<Effect> = out
                .map(|token| Effect::Stop(token, StopReason::NotFound))
                .collect();
            if !stops.is_empty() {
                self.parts.outlet.release(stops);
            }
        }
        let heir = self.open_ids.get(&entry.row.workflow_id);
        let heir = heir.and_then(|no| self.runs.get(no));
        let heir = heir.filter(|heir| continues(&entry.row, &heir.row));
        let heir = heir.map(|heir| heir.row.no);
        if heir.is_none() {
            let waiters = std::mem::take(&mut entry.waiters);
            self.waiters = self.waiters.saturating_sub(waiters.len());
            for reply in waiters {
                self.wait_again(&entry.row, reply, refusal, store);
            }
        }
        self.dissolve(entry, heir, refusal, saved);
    }

    fn wait_again(
        &mut self,
        row: &RunRow,
        reply: Reply<RunOutcome>,
        refusal: &Refusal,
        store: &dyn Store,
    ) {
        match store.find_run(row.run_id) {
            Ok(Some(_)) => {
                let run = RunRef {
                    workflow_id: row.workflow_id.clone(),
                    run_id: Some(row.run_id),
                };
                self.wait(&run, reply, store);
            }
            Ok(None) => reply(Err(refusal.clone())),
            Err(error) => reply(Err(read::unavailable(&error))),
        }
    }
}

/// For requests that were not begun.
fn unavailable(refusal: &Refusal) -> Refusal {
    let reason = if let Refusal::Indeterminate { reason } = refusal {
        reason.clone()
    } else {
        refusal.to_string()
    };
    Refusal::Unavailable { reason }
}
