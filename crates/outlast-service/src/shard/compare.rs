//! A run that was thrown back to what is on disk is compared with what this process knows: which
//! of its attempts are out, and who waits for its updates.

use outlast_engine::update::State;
use outlast_engine::{Effect, Input, Run, activity, close, step};
use outlast_model::Timestamp;
use outlast_model::id::{Attempt, Incarnation, Seq};
use outlast_model::planted::Bug;
use outlast_model::start::{UpdateReply, UpdateStage};
use outlast_model::task::{AttemptKind, AttemptOutcome, AttemptResult, AttemptToken, StopReason};

use super::Shard;
use crate::entry::{Entry, Letter, Past, UpdateWaiter};
use crate::mail::Ack;
use crate::store::CommitNo;

/// How the record of a run stands to an attempt that is out.
enum Standing {
    /// It runs.
    Runs,
    /// It is what comes next: it began before it was recorded.
    ComesNext,
    /// It is not wanted, or not yet.
    Unknown,
}

impl Shard {
    /// Once for each time that a run was thrown back, when it is loaded.
    pub(super) fn compare(&mut self, entry: &mut Entry, now: Timestamp) {
        if !matches!(entry.past, Past::ThrownBack { .. }) {
            return;
        }
        let past = std::mem::replace(&mut entry.past, Past::Compared);
        if let Past::ThrownBack {
            refusal,
            out,
            stops,
        } = past
        {
            self.compare_updates(entry, &refusal);
            for token in out {
                self.compare_attempt(entry, token);
            }
            self.compare_stops(entry, stops);
            if Self::has_planted(Bug::AttemptRolledBack) {
                let incarnation = Incarnation(0);
                self.apply_input(entry, Input::Recover { incarnation }, now);
            }
            // Whatever began without a commit of its own goes with the next one, as before.
            entry.lazy.append(&mut entry.decision.records);
            self.begin_unreleased(entry);
        }
    }

    /// What they were to be told is on disk after all, and nobody knew.
    fn compare_stops(&mut self, entry: &Entry, stops: Vec<(CommitNo, Effect)>) {
        let head = entry.row.state.head;
        let there = stops.into_iter().filter(|(commit, _)| *commit <= head);
        let stops: Vec<Effect> = there.map(|(_, stop)| stop).collect();
        if !stops.is_empty() {
            self.parts.outlet.release(stops);
        }
    }

    /// Whoever waits for an update that the disk does not know is told; one that has come so far
    /// after all is answered.
    fn compare_updates(&mut self, entry: &mut Entry, refusal: &outlast_model::Refusal) {
        let Some(run) = entry.run.as_ref() else {
            return;
        };
        for (id, waiting) in std::mem::take(&mut entry.updates) {
            for waiter in waiting {
                let known = run.update(&id).map(|update| match &update.state {
                    State::Admitted { .. } => None,
                    State::Accepted if waiter.stage == UpdateStage::Accepted => {
                        Some(UpdateReply::Accepted)
                    }
                    State::Accepted => None,
                    State::Completed(_) | State::Rejected(_) => update.reply(),
                });
                let UpdateWaiter { stage, reply } = waiter;
                match known {
                    Some(None) => {
                        let waiter = UpdateWaiter { stage, reply };
                        let waiting = entry.updates.entry(id.clone()).or_default();
                        waiting.push(waiter);
                        continue;
                    }
                    Some(Some(answer)) => entry.acks.push(Ack::Updated {
                        id: id.clone(),
                        stage,
                        reply,
                        answer: Ok(answer),
                    }),
                    None => reply(Err(refusal.clone())),
                }
                self.waiters = self.waiters.saturating_sub(1);
            }
        }
    }

    fn compare_attempt(&mut self, entry: &mut Entry, token: AttemptToken) {
        let Some(at) = self.out.since(token) else {
            // It came back meanwhile: its outcome is in the mailbox.
            return;
        };
        let Some(run) = entry.run.as_ref() else {
            return;
        };
        match standing(run, token) {
            Standing::Runs => {}
            Standing::ComesNext => {
                self.adopt(entry, token, at);
            }
            Standing::Unknown => {
                let is_to_come =
                    outcomes(entry).any(|t| (t.kind, t.seq) == (token.kind, token.seq));
                if !is_to_come {
                    let stop = Effect::Stop(token, StopReason::NotFound);
                    self.parts.outlet.release(vec![stop]);
                }
            }
        }
    }

    /// Attempts that the record has running and that never began: their commit is there after all,
    /// but nobody knew. They begin under the same number.
    fn begin_unreleased(&mut self, entry: &mut Entry) {
        let Some(run) = entry.run.as_ref() else {
            return;
        };
        let mine = close::running(run)
            .into_iter()
            .filter(|token| token.incarnation == self.parts.incarnation);
        let unreleased: Vec<AttemptToken> = mine
            .filter(|token| self.out.since(*token).is_none())
            .filter(|token| !outcomes(entry).any(|other| other == *token))
            .collect();
        for token in unreleased {
            let result = AttemptResult::HandedBack;
            let input = Input::Outcome(AttemptOutcome { token, result });
            entry.mailbox.push_front(Letter::own(input));
        }
    }

    /// Whether the attempt that this run asks for is out already, since before it was thrown back:
    /// it is recorded as it runs, and nothing begins.
    pub(super) fn goes_on(&mut self, entry: &mut Entry, (kind, seq): (AttemptKind, Seq)) -> bool {
        if !matches!(entry.past, Past::Compared) {
            return false;
        }
        let next = entry.run.as_ref().and_then(|run| next(run, kind, seq));
        let Some(attempt) = next else {
            return false;
        };
        let token = AttemptToken {
            shard: self.parts.index,
            run: entry.row.no,
            kind,
            seq,
            attempt,
            incarnation: self.parts.incarnation,
        };
        match self.out.since(token) {
            Some(at) => self.adopt(entry, token, at),
            None => false,
        }
    }

    /// An attempt reports or has ended that began before its run was thrown back: if the record
    /// does not say so yet, it does now.
    pub(super) fn is_of(&mut self, entry: &mut Entry, input: &Input, now: Timestamp) {
        let token = if let Input::Outcome(outcome) = input {
            outcome.token
        } else if let Input::Heartbeat { token, .. } = input {
            *token
        } else {
            return;
        };
        let is_mine = token.incarnation == self.parts.incarnation;
        let run = entry.run.as_ref().filter(|_| is_mine);
        if run.is_some_and(|run| matches!(standing(run, token), Standing::ComesNext)) {
            self.adopt(entry, token, now);
        }
    }

    /// Records an attempt that runs; nothing begins.
    fn adopt(&mut self, entry: &mut Entry, token: AttemptToken, at: Timestamp) -> bool {
        let before = entry.decision.effects.len();
        let input = Input::HandOut {
            kind: token.kind,
            seq: token.seq,
            incarnation: token.incarnation,
        };
        self.apply_input(entry, input, at);
        let is_recorded = entry.decision.effects.len() > before;
        entry.decision.effects.truncate(before);
        is_recorded
    }
}

/// Attempts whose outcome is in the mailbox.
fn outcomes(entry: &Entry) -> impl Iterator<Item = AttemptToken> {
    entry.mailbox.iter().filter_map(|letter| {
        if let Input::Outcome(outcome) = &letter.input {
            Some(outcome.token)
        } else {
            None
        }
    })
}

/// The attempt that comes next, if one does.
fn next(run: &Run, kind: AttemptKind, seq: Seq) -> Option<Attempt> {
    match kind {
        AttemptKind::Activity => match &run.activity(seq)?.state {
            activity::State::Waiting { attempt, .. } => Some(*attempt),
            activity::State::Running { .. }
            | activity::State::Closing
            | activity::State::Outside { .. } => None,
        },
        AttemptKind::Step => match &run.step(seq)?.state {
            step::State::Waiting { attempt, .. } => Some(*attempt),
            step::State::Running { .. } | step::State::Resolved { .. } => None,
        },
    }
}

fn standing(run: &Run, token: AttemptToken) -> Standing {
    if next(run, token.kind, token.seq) == Some(token.attempt) {
        return Standing::ComesNext;
    }
    let runs = match token.kind {
        AttemptKind::Activity => {
            let activity = run.activity(token.seq);
            activity.is_some_and(|a| a.is_open(token.attempt, token.incarnation))
        }
        AttemptKind::Step => run.step(token.seq).is_some_and(|step| match &step.state {
            step::State::Running {
                attempt,
                incarnation,
            } => (*attempt, *incarnation) == (token.attempt, token.incarnation),
            step::State::Waiting { .. } | step::State::Resolved { .. } => false,
        }),
    };
    if runs {
        Standing::Runs
    } else {
        Standing::Unknown
    }
}
