//! Messages to runs that have ended. A request that had its effect before is answered as it was
//! then, also after the end: its sender may have missed the first answer.

use std::collections::VecDeque;

use outlast_engine::Input;
use outlast_model::RequestId;
use outlast_model::start::UpdateReply;
use outlast_model::view::RunRef;

use super::Shard;
use super::update::known;
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
        let request_id = request_of(input);
        if let Some(entry) = self.closing_run(run)
            && has_seen(entry, request_id)
        {
            // The end may not be durable yet: the answer goes behind what is being written.
            let no = entry.row.no;
            return self.batch.acks.push((no, Ack::Done(reply)));
        }
        reply(read::not_open(store, run, request_id));
    }

    /// Answers letters whose request had its effect before; returns the others.
    pub(super) fn answer_repeated(
        &mut self,
        entry: &Entry,
        letters: VecDeque<Letter>,
    ) -> VecDeque<Letter> {
        let mut others = VecDeque::new();
        for mut letter in letters {
            if let Some(answer) = known_answer(entry, &letter.input) {
                let from = std::mem::replace(&mut letter.from, Sender::Nobody);
                if let Sender::Update(_, reply) = from {
                    let ack = Ack::Update(reply, Ok(answer));
                    self.batch.acks.push((entry.row.no, ack));
                }
                continue;
            }
            let is_repeated = has_seen(entry, request_of(&letter.input));
            match letter.from {
                Sender::Caller(reply) if is_repeated => {
                    self.batch.acks.push((entry.row.no, Ack::Done(reply)));
                }
                Sender::Caller(_) | Sender::Nobody | Sender::Update(..) | Sender::Post(_) => {
                    others.push_back(letter);
                }
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

fn has_seen(entry: &Entry, request_id: Option<&RequestId>) -> bool {
    let run = entry.run.as_ref();
    run.is_some_and(|run| run.has_seen(request_id))
}

/// What a run that has ended says about an update it knows.
fn known_answer(entry: &Entry, input: &Input) -> Option<UpdateReply> {
    if let Input::Update { request, .. } = input {
        return known(entry.run.as_ref()?, &request.id);
    }
    None
}

fn request_of(input: &Input) -> Option<&RequestId> {
    if let Input::Signal { request_id, .. } | Input::Cancel { request_id, .. } = input {
        request_id.as_ref()
    } else {
        None
    }
}
