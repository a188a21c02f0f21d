//! Callers who wait for the end of a run, or of the chain that it began: a run that went on as a
//! new one has not said its last word.

use outlast_model::Refusal;
use outlast_model::id::{RunId, WorkflowId};
use outlast_model::task::RunNo;
use outlast_model::view::{RunOutcome, RunRef};

use super::Shard;
use crate::mail::{Ack, Reply};
use crate::read;
use crate::store::{RunRow, Store};

/// A run of a chain.
enum Spot {
    Number(RunNo),
    /// It need not be loaded to know its id, so that it may be one that cannot be.
    Row(Box<RunRow>),
}

impl Spot {
    fn no(&self) -> RunNo {
        match self {
            Self::Number(no) => *no,
            Self::Row(row) => row.no,
        }
    }

    fn ended(&self, store: &dyn Store) -> Result<(WorkflowId, RunOutcome), Refusal> {
        match self {
            Self::Number(no) => read::ended(store, *no),
            Self::Row(row) => Ok((row.workflow_id.clone(), read::outcome(store, row)?)),
        }
    }
}

impl Shard {
    /// Somebody waits for a run.
    pub(super) fn wait(&mut self, run: &RunRef, reply: Reply<RunOutcome>, store: &dyn Store) {
        let closing = || self.closing_run(run).map(|entry| entry.row.no);
        if let Some(no) = self.open(run).or_else(closing) {
            return self.wait_for(no, reply, store);
        }
        match read::row_of(store, run) {
            Ok(row) => self.walk(Spot::Row(Box::new(row)), reply, store),
            Err(refusal) => reply(Err(refusal)),
        }
    }

    /// The same, by number.
    pub(super) fn wait_for(&mut self, no: RunNo, reply: Reply<RunOutcome>, store: &dyn Store) {
        self.walk(Spot::Number(no), reply, store);
    }

    /// A chain may be very long: it is walked, not called into.
    fn walk(&mut self, from: Spot, reply: Reply<RunOutcome>, store: &dyn Store) {
        let mut spot = from;
        loop {
            let no = spot.no();
            let next = match self.runs.get(&no) {
                Some(entry) => match &entry.outcome {
                    Some(RunOutcome::ContinuedAsNew(next)) => {
                        self.next_of(&entry.row.workflow_id, *next, store)
                    }
                    Some(_) | None => return self.wait_here(no, reply),
                },
                None => match spot.ended(store) {
                    Ok((workflow_id, RunOutcome::ContinuedAsNew(next))) => {
                        self.next_of(&workflow_id, next, store)
                    }
                    Ok((_, outcome)) => return reply(Ok(outcome)),
                    Err(refusal) => return reply(Err(refusal)),
                },
            };
            spot = match next {
                Ok(next) => next,
                Err(refusal) => return reply(Err(refusal)),
            };
        }
    }

    /// The run that continued another, or a later one of their chain.
    fn next_of(&self, id: &WorkflowId, next: RunId, store: &dyn Store) -> Result<Spot, Refusal> {
        if let Some(no) = self.by_run_id.get(&next) {
            return Ok(Spot::Number(*no));
        }
        let run = RunRef {
            workflow_id: id.clone(),
            run_id: Some(next),
        };
        let row = read::row_of(store, &run)?;
        let newest = read::row_of(store, &RunRef::newest(id.clone()))?;
        // Nobody reads a thousand histories if the last one is at hand.
        let is_of_chain = newest.first_run == row.first_run;
        Ok(Spot::Row(Box::new(if is_of_chain { newest } else { row })))
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
