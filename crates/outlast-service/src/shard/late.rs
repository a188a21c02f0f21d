//! Messages to runs that have ended. A request that had its effect before is answered as it was
//! then, also after the end: its sender may have missed the first answer.

use std::collections::VecDeque;

use outlast_engine::{Input, repeated};
use outlast_model::start::UpdateReply;
use outlast_model::view::RunRef;
use outlast_model::{Refusal, RunId, UpdateId};

use super::Shard;
use super::update::{closed, known};
use crate::entry::{Entry, Letter, Sender};
use crate::mail::{Ack, Reply};
use crate::read;
use crate::store::Store;

impl Shard {
    /// A message to a run that is not open here.
    pub(super) fn too_late_for(
        &mut self,
        run: &RunRef,
        input: &Input,
        reply: Reply<()>,
        store: &dyn Store,
    ) {
        if let Some(entry) = self.closing_run(run) {
            let answer = repeated_by(entry, input).unwrap_or_else(|| Err(closed(entry)));
            // The end may not be durable yet: the answer goes behind what is being written.
            let no = entry.row.no;
            return self.batch.acks.push((no, Ack::Message(reply, answer)));
        }
        reply(read::not_open(store, run, input, self.parts.window));
    }

    /// Answers letters whose request had its effect before; returns the others.
    pub(super) fn answer_repeated(
        &mut self,
        entry: &Entry,
        letters: VecDeque<Letter>,
    ) -> VecDeque<Letter> {
        let mut others = VecDeque::new();
        for mut letter in letters {
            if let Some((earlier, id)) = accepted_before(entry, &letter.input) {
                if let Sender::Update(_, reply) = letter.from {
                    self.ask_earlier(&entry.row.workflow_id, earlier, id, reply);
                }
                continue;
            }
            if let Some(answer) = known_answer(entry, &letter.input) {
                let from = std::mem::replace(&mut letter.from, Sender::Nobody);
                if let Sender::Update(_, reply) = from {
                    let ack = Ack::Update(reply, Ok(answer));
                    self.batch.acks.push((entry.row.no, ack));
                }
                continue;
            }
            match (letter.from, repeated_by(entry, &letter.input)) {
                (Sender::Caller(reply), Some(answer)) => {
                    let ack = Ack::Message(reply, answer);
                    self.batch.acks.push((entry.row.no, ack));
                }
                (from, _) => others.push_back(Letter { from, ..letter }),
            }
        }
        others
    }

    pub(super) fn closing_run(&self, run: &RunRef) -> Option<&Entry> {
        let mut closing = self.closing.iter().rev();
        let entry = closing.find_map(|(_, no)| {
            let entry = self.runs.get(no)?;
            (entry.row.workflow_id == run.workflow_id && entry.is(run)).then_some(entry)
        })?;
        Some(entry)
    }
}

fn repeated_by(entry: &Entry, input: &Input) -> Option<Result<(), Refusal>> {
    repeated(entry.run.as_ref()?, input)
}

/// The earlier run of the chain that has the answer to an update.
fn accepted_before(entry: &Entry, input: &Input) -> Option<(RunId, UpdateId)> {
    if let Input::Update { request, .. } = input {
        let earlier = entry.run.as_ref()?.accepted_before(&request.id)?;
        return Some((earlier, request.id.clone()));
    }
    None
}

/// What a run that has ended says about an update it knows.
fn known_answer(entry: &Entry, input: &Input) -> Option<UpdateReply> {
    if let Input::Update { request, .. } = input {
        return known(entry.run.as_ref()?, &request.id);
    }
    None
}
