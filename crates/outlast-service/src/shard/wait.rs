//! Callers who wait for the end of a run, or of the chain that it began: a run that went on as a
//! new one has not said its last word.

use outlast_model::Refusal;
use outlast_model::id::{RunId, WorkflowId};
use outlast_model::task::RunNo;
use outlast_model::view::{RunOutcome, RunRef};

use super::Shard;
use crate::mail::{Ack, Reply};
use crate::read;
use crate::store::Store;

impl Shard {
    /// Somebody waits for a run.
    pub(super) fn wait(&mut self, run: &RunRef, reply: Reply<RunOutcome>, store: &dyn Store) {
        let closing = || self.closing_run(run).map(|entry| entry.row.no);
        if let Some(no) = self.open(run).or_else(closing) {
            return self.wait_for(no, reply, store);
        }
        match read::row_of(store, run) {
            Ok(row) => self.wait_for(row.no, reply, store),
            Err(refusal) => reply(Err(refusal)),
        }
    }

    /// The same, by number. A chain may be very long: it is walked, not called into.
    pub(super) fn wait_for(&mut self, no: RunNo, reply: Reply<RunOutcome>, store: &dyn Store) {
        let mut no = no;
        loop {
            let next = match self.runs.get(&no) {
                Some(entry) => match &entry.outcome {
                    Some(RunOutcome::ContinuedAsNew(next)) => {
                        self.next_of(&entry.row.workflow_id, *next, store)
                    }
                    Some(_) | None => return self.wait_here(no, reply),
                },
                None => match read::ended(store, no) {
                    Ok((workflow_id, RunOutcome::ContinuedAsNew(next))) => {
                        self.next_of(&workflow_id, next, store)
                    }
                    Ok((_, outcome)) => return reply(Ok(outcome)),
                    Err(refusal) => return reply(Err(refusal)),
                },
            };
            no = match next {
                Ok(next) => next,
                Err(refusal) => return reply(Err(refusal)),
            };
        }
    }

    /// The run that continued another, or a later one of their chain.
    fn next_of(&self, id: &WorkflowId, next: RunId, store: &dyn Store) -> Result<RunNo, Refusal> {
        if let Some(no) = self.by_run_id.get(&next) {
            return Ok(*no);
        }
        let run = RunRef {
            workflow_id: id.clone(),
            run_id: Some(next),
        };
        let row = read::row_of(store, &run)?;
        let newest = read::row_of(store, &RunRef::newest(id.clone()))?;
        // Nobody reads a thousand histories if the last one is at hand.
        let is_of_chain = newest.first_run == row.first_run;
        Ok(if is_of_chain { newest.no } else { row.no })
    }

    /// Waits for a run in memory, which is the last of its chain.
    fn wait_here(&mut self, no: RunNo, reply: Reply<RunOutcome>) {
        let Some(entry) = self.runs.get_mut(&no) else {
            return;
        };
        if let Some(outcome) = &entry.outcome {
            // Ended, maybe not durable: the answer goes behind what is being written.
            let ack = Ack::Closed(reply, outcome.clone());
            self.batch.acks.push((no, ack));
        } else if let Some(reason) = entry.damage.clone() {
            let run_id = entry.row.run_id;
            reply(Err(Refusal::Quarantined { run_id, reason }));
        } else {
            entry.waiters.push(reply);
            self.waiters += 1;
        }
    }
}
