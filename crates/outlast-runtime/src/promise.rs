//! Promises of a run: settled from outside by id, before or after somebody waits.
//!
//! The first settlement counts; it stays, so that whoever asks later, or again, gets it too. A
//! wait that is cancelled or dropped leaves the promise open.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use outlast_model::event::Site;
use outlast_model::failure::RetryState;
use outlast_model::payload::PayloadError;
use outlast_model::promise::Settlement;
use outlast_model::{Failure, Payload, PromiseId, Resolution, Seq};

use crate::cell::{Kind, Subject};
use crate::operation::Operation;
use crate::shared::{Commands, Shared};

#[derive(Default)]
pub(crate) struct Promises {
    settled: BTreeMap<PromiseId, Settled>,
    waiting: BTreeMap<PromiseId, BTreeSet<Seq>>,
    unnamed: u32,
}

struct Settled {
    outcome: Result<Payload, Failure>,
    /// The signal that nobody has asked for yet: when it arrived, and what it said.
    unread: Option<(u64, Payload)>,
}

impl Promises {
    /// A settlement arrives; these waits end.
    pub(crate) fn settle(
        &mut self,
        arrived: u64,
        signal: &Payload,
    ) -> Result<Vec<(Seq, Resolution)>, PayloadError> {
        let Settlement { id, outcome } = Settlement::decode(signal)?;
        if self.settled.contains_key(&id) {
            return Ok(Vec::new());
        }
        let waiting = self.waiting.remove(&id).unwrap_or_default();
        let unread = waiting.is_empty().then(|| (arrived, signal.clone()));
        let ended = waiting.into_iter();
        let ended = ended.map(|seq| (seq, resolution(&outcome))).collect();
        self.settled.insert(id, Settled { outcome, unread });
        Ok(ended)
    }

    /// What it was settled with, before anybody waits.
    fn take(&mut self, id: &PromiseId) -> Option<Resolution> {
        let settled = self.settled.get_mut(id)?;
        settled.unread = None;
        Some(resolution(&settled.outcome))
    }

    fn wait(&mut self, id: PromiseId, seq: Seq) {
        self.waiting.entry(id).or_default().insert(seq);
    }

    /// A wait is over.
    pub(crate) fn leave(&mut self, id: &PromiseId, seq: Seq) {
        if let Some(waiting) = self.waiting.get_mut(id) {
            waiting.remove(&seq);
            if waiting.is_empty() {
                self.waiting.remove(id);
            }
        }
    }

    /// The id of the next promise without a name.
    pub(crate) fn next_id(&mut self) -> PromiseId {
        self.unnamed += 1;
        PromiseId::new(format!("#{}", self.unnamed))
    }

    /// Promises that somebody waits for.
    pub(crate) fn awaited(&self) -> impl Iterator<Item = &str> {
        self.waiting.keys().map(PromiseId::as_str)
    }

    /// Takes settlements that nobody has asked for, with the time of their arrival.
    pub(crate) fn take_unread(&mut self) -> impl Iterator<Item = (u64, Payload)> {
        let settled = self.settled.values_mut();
        settled.filter_map(|settled| settled.unread.take())
    }
}

fn resolution(outcome: &Result<Payload, Failure>) -> Resolution {
    match outcome {
        Ok(value) => Resolution::Completed(value.clone()),
        Err(failure) => Resolution::Failed(failure.clone(), RetryState::NonRetryableFailure),
    }
}

impl Shared {
    pub(crate) fn schedule_promise(self: &Rc<Self>, id: PromiseId, site: Site) -> Operation {
        let subject = Subject::Promise { id: id.clone() };
        let operation = self.schedule(Kind::Promise, subject, site, |_, _| None);
        if self.commands.get() != Commands::On {
            return operation;
        }
        let settled = self.mailbox.borrow_mut().promises.take(&id);
        match settled {
            Some(resolution) => operation.fill(resolution),
            None => {
                let (_, seq) = operation.kind_and_seq();
                self.mailbox.borrow_mut().promises.wait(id, seq);
            }
        }
        operation
    }
}
