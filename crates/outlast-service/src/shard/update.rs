//! Callers who wait for updates: told when theirs has come so far, durably, or that the run has
//! ended first.

use outlast_engine::update::{State, run_finished};
use outlast_engine::{Effect, Input, Run};
use outlast_model::event::UpdateRequest;
use outlast_model::planted::Bug;
use outlast_model::start::{UpdateReply, UpdateStage};
use outlast_model::view::RunRef;
use outlast_model::{Refusal, RunId, UpdateId, WorkflowId};

use super::Shard;
use crate::entry::{Entry, Letter, Sender, UpdateWaiter};
use crate::mail::{Ack, Reply};
use crate::read;
use crate::store::Store;

/// An update that an earlier run of the chain accepted, and that is asked for again.
pub(super) struct AskedAgain {
    run: RunRef,
    id: UpdateId,
    reply: Reply<UpdateReply>,
}

impl UpdateWaiter {
    fn answered(self, id: UpdateId, answer: Result<UpdateReply, Refusal>) -> Ack {
        let Self { stage, reply } = self;
        Ack::Updated {
            id,
            stage,
            reply,
            answer,
        }
    }
}

impl AskedAgain {
    pub(super) fn refuse(self, refusal: &Refusal) {
        (self.reply)(Err(refusal.clone()));
    }
}

impl std::fmt::Debug for AskedAgain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AskedAgain")
            .field("run", &self.run)
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

impl Shard {
    /// An update arrives.
    pub(super) fn update(
        &mut self,
        run: &RunRef,
        request: UpdateRequest,
        stage: UpdateStage,
        reply: Reply<UpdateReply>,
        store: &dyn Store,
    ) {
        let Some(no) = self.open(run) else {
            return self.update_of_ended(run, &request.id, reply, store);
        };
        let input = Input::Update {
            request,
            is_fast: true,
        };
        self.deliver(no, Letter::new(input, Sender::Update(stage, reply)));
    }

    /// A run that has ended still knows what it answered.
    pub(super) fn update_of_ended(
        &mut self,
        run: &RunRef,
        id: &UpdateId,
        reply: Reply<UpdateReply>,
        store: &dyn Store,
    ) {
        let closing = self.closing_run(run);
        if let Some((entry, ended)) = closing.and_then(|e| Some((e, e.run.as_ref()?))) {
            if let Some(earlier) = ended.accepted_before(id) {
                return self.ask_earlier(&run.workflow_id.clone(), earlier, id.clone(), reply);
            }
            let answer = known(ended, id).ok_or_else(|| closed(entry));
            let ack = Ack::Update(reply, answer);
            return self.batch.acks.push((entry.row.no, ack));
        }
        reply(read::update(store, run, id));
    }

    /// An update that an earlier run of the chain accepted is asked for again.
    pub(super) fn ask_earlier(
        &mut self,
        workflow_id: &WorkflowId,
        run_id: RunId,
        id: UpdateId,
        reply: Reply<UpdateReply>,
    ) {
        let run = RunRef {
            workflow_id: workflow_id.clone(),
            run_id: Some(run_id),
        };
        self.asked_again.push(AskedAgain { run, id, reply });
    }

    /// Answers what was asked again, in the name of the very run that accepted it.
    pub(super) fn answer_earlier(&mut self, store: &dyn Store) {
        for AskedAgain { run, id, reply } in std::mem::take(&mut self.asked_again) {
            let mut closing = self.closing.iter().filter_map(|(_, no)| self.runs.get(no));
            let entry = closing.find(|entry| Some(entry.row.run_id) == run.run_id);
            match entry.and_then(|entry| Some((entry, entry.run.as_ref()?))) {
                // Its end may not be durable yet: the answer goes behind what is being written.
                Some((entry, ended)) => {
                    let answer = known(ended, &id).ok_or_else(|| closed(entry));
                    let ack = Ack::Update(reply, answer);
                    self.batch.acks.push((entry.row.no, ack));
                }
                None => reply(read::update(store, &run, &id)),
            }
        }
    }

    /// What was decided about updates. Before anything else of the commit: a caller whose update
    /// has its answer does not go on waiting with the run that continues this one.
    pub(super) fn tell_updates(&mut self, entry: &mut Entry) {
        let is_update = |effect: &Effect| matches!(effect, Effect::Update(..));
        if !entry.decision.effects.iter().any(is_update) {
            return;
        }
        let effects = std::mem::take(&mut entry.decision.effects);
        for effect in effects {
            match effect {
                Effect::Update(id, reply) => self.updated(entry, &id, &reply),
                other @ (Effect::StartActivity(_)
                | Effect::StartStep(_)
                | Effect::Stop(..)
                | Effect::Closed(_)) => entry.decision.effects.push(other),
            }
        }
    }

    /// Updates have come so far: whoever waits for that is told with the commit.
    fn updated(&mut self, entry: &mut Entry, id: &UpdateId, reply: &UpdateReply) {
        let is_final = match reply {
            UpdateReply::Accepted => false,
            UpdateReply::Done(_) | UpdateReply::Rejected(_) => true,
        };
        let Some(waiting) = entry.updates.remove(id) else {
            return;
        };
        let (told, others): (Vec<UpdateWaiter>, Vec<UpdateWaiter>) = waiting
            .into_iter()
            .partition(|waiter| is_final || waiter.stage == UpdateStage::Accepted);
        if !others.is_empty() {
            entry.updates.insert(id.clone(), others);
        }
        for waiter in told {
            self.waiters = self.waiters.saturating_sub(1);
            let ack = waiter.answered(id.clone(), Ok(reply.clone()));
            if Self::has_planted(Bug::UpdateBeforeCommit) {
                ack.send();
            } else {
                entry.acks.push(ack);
            }
        }
    }

    /// The run has ended: whoever still waits hears what it said before, or that it has ended.
    pub(super) fn updates_end(&mut self, entry: &mut Entry) {
        let refusal = closed(entry);
        for (id, waiting) in std::mem::take(&mut entry.updates) {
            let known = entry.run.as_ref().and_then(|run| known(run, &id));
            let answer = known.ok_or_else(|| refusal.clone());
            for waiter in waiting {
                self.waiters = self.waiters.saturating_sub(1);
                let ack = waiter.answered(id.clone(), answer.clone());
                entry.acks.push(ack);
            }
        }
    }
}

/// What a run that has ended says about an update; nothing if it never heard of it.
pub(crate) fn known(run: &Run, id: &UpdateId) -> Option<UpdateReply> {
    let update = run.update(id)?;
    match &update.state {
        State::Admitted { .. } => None,
        State::Accepted => Some(UpdateReply::Done(run_finished())),
        State::Completed(_) | State::Rejected(_) => update.reply(),
    }
}

/// What a run that has ended says to what is new.
pub(super) fn closed(entry: &Entry) -> Refusal {
    Refusal::RunClosed {
        workflow_id: entry.row.workflow_id.clone(),
        run_id: entry.row.run_id,
        status: entry.row.state.status,
    }
}
