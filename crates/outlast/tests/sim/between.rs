//! Judgement over what runs have to do with others: what they were told and by whom, their
//! children, their messages, and the chain they belong to.

use std::collections::{BTreeMap, BTreeSet};

use outlast_model::event::{ChildEvent, ExternalEvent};
use outlast_model::id::Seq;
use outlast_model::view::RunOutcome;
use outlast_model::{Event, EventKind, Record, RunId, Status};
use outlast_service::store::{RunRow, Store};

use super::answer::{accepted_of, settlement_of};
use super::check::{diary_of, signal_value};
use super::driver::Simulation;
use super::ledger::Ledger;

impl Simulation {
    /// The histories of a chain up to this run, oldest first.
    fn chain_until(&self, row: &RunRow) -> Vec<Vec<Event>> {
        let mut histories = Vec::new();
        let mut at = Some(row.clone());
        while let Some(row) = at {
            let history = self.disk.history(row.no);
            let before = history.first().and_then(continued_from);
            at = before.and_then(|id| self.disk.store.find_run(id).ok().flatten());
            histories.push(history);
        }
        histories.reverse();
        histories
    }

    /// The last run of the chain that begins with this one.
    fn end_of_chain(&self, first: RunId) -> Option<RunRow> {
        let mut row = self.disk.store.find_run(first).ok().flatten()?;
        while let Some(RunOutcome::ContinuedAsNew(next)) = self.disk.outcome(row.no) {
            row = self.disk.store.find_run(next).ok().flatten()?;
        }
        Some(row)
    }

    /// What the program says it saw is what the histories of its chain say it was told, once and
    /// in order.
    pub fn check_diary(&self, row: &RunRow, history: &[Event]) -> Result<(), String> {
        debug_assert!(!history.is_empty());
        let Some(diary) = diary_of(self.disk.outcome(row.no)) else {
            return Ok(());
        };
        let chain = self.chain_until(row);
        if chain.len() > 1 {
            self.desk.hit("chain.completed");
        }
        let signals = told(&chain, signal_value);
        let sent = |name: &str| -> Vec<u64> {
            let values = signals.iter().copied();
            values
                .filter(|value| self.clients.name_of(*value) == Some(name))
                .collect()
        };
        // The answer to an update is known for as long as its run is: the next one runs it anew.
        let all = chain.iter().flatten();
        let accepted: Vec<u64> = all
            .filter_map(|event| accepted_of(&Record::Event(event.clone())))
            .collect();
        // A run that failed may go on undoing after its code said what it saw; one with a handler
        // that it waits for may be told more, which the next run of the chain does not know.
        let is_failed = row.state.status == Status::Failed;
        let is_more = accepted.iter().any(|v| self.clients.is_waited_for(*v));
        let agrees = |all: &[u64], seen: &[u64]| match (is_more, is_failed) {
            (true, _) => is_part(seen, all),
            (false, true) => all.starts_with(seen),
            (false, false) => all == seen,
        };
        if !agrees(&sent("log"), &diary.logged) {
            let logged = sent("log");
            return Err(format!(
                "the handler saw {:?}, not {logged:?}",
                diary.logged
            ));
        }
        for (name, received) in ["a", "b"].into_iter().zip(&diary.received) {
            if !sent(name).starts_with(received) {
                return Err(format!("`{name}` gave {received:?}, not {:?}", sent(name)));
            }
        }
        if !agrees(&accepted, &diary.updated) {
            return Err(format!("updates ran {:?}, not {accepted:?}", diary.updated));
        }
        let settled = told(&chain, |event| settlement_of(&Record::Event(event.clone())));
        match diary.kept.iter().find(|kept| !settled.contains(kept)) {
            Some(kept) => Err(format!("promise gave {kept:?}, not one of {settled:?}")),
            None => Ok(()),
        }
    }

    /// Each child is started once and its end recorded once, each message is answered for once.
    pub fn check_others(&self, row: &RunRow, history: &[Event]) -> Result<(), String> {
        let mut children: BTreeMap<Seq, RunId> = BTreeMap::new();
        for event in history {
            match &event.kind {
                EventKind::Child(ChildEvent::Initiated(initiated)) => {
                    children.insert(initiated.seq, initiated.run_id);
                }
                EventKind::Child(event) => {
                    let run_id = children.get(&event.seq()).copied().unwrap_or_default();
                    self.check_child(event, run_id)?;
                }
                EventKind::External(ExternalEvent::SignalDelivered { seq }) => {
                    self.check_delivered(history, *seq)?;
                }
                _ => {}
            }
        }
        if let Some(parent) = history.first().and_then(parent_of)
            && row.first_run.is_none()
        {
            let mother = self.disk.store.find_run(parent.0).ok().flatten();
            let asked = mother.map(|mother| self.disk.history(mother.no));
            let is_asked = asked.into_iter().flatten().any(|event| match event.kind {
                EventKind::Child(ChildEvent::Initiated(initiated)) => {
                    initiated.seq == parent.1 && initiated.run_id == row.run_id
                }
                _ => false,
            });
            if !is_asked {
                return Err("nobody asked for this child".into());
            }
        }
        Ok(())
    }

    fn check_child(&self, event: &ChildEvent, first: RunId) -> Result<(), String> {
        let last = self.end_of_chain(first);
        let outcome = last.as_ref().and_then(|row| self.disk.outcome(row.no));
        let is_right = match event {
            ChildEvent::Initiated(_) => true,
            ChildEvent::StartFailed { .. } => last.is_none(),
            ChildEvent::Started { .. } => last.is_some(),
            ChildEvent::Completed { result, .. } => {
                outcome == Some(RunOutcome::Completed(result.clone()))
            }
            ChildEvent::Failed { failure, .. } => {
                outcome == Some(RunOutcome::Failed(failure.clone()))
            }
            ChildEvent::Canceled { .. } => outcome == Some(RunOutcome::Canceled),
            ChildEvent::TimedOut { .. } => outcome == Some(RunOutcome::TimedOut),
            ChildEvent::Terminated { .. } => {
                matches!(outcome, Some(RunOutcome::Terminated { .. }))
            }
        };
        match is_right {
            true => Ok(()),
            false => Err(format!("{event:?}, but its child came to {outcome:?}")),
        }
    }

    /// A message that was delivered is there.
    fn check_delivered(&self, history: &[Event], wanted: Seq) -> Result<(), String> {
        let signal = history.iter().find_map(|event| match &event.kind {
            EventKind::External(ExternalEvent::SignalInitiated(signal)) if signal.seq == wanted => {
                Some(signal)
            }
            _ => None,
        });
        let Some(signal) = signal else {
            return Err(format!("message {wanted} was delivered and never sent"));
        };
        let value = signal.input.decode::<u64>().ok();
        let rows = self.disk.runs_of(&signal.target.workflow_id);
        let mut histories = rows.iter().map(|row| self.disk.history(row.no));
        if histories.any(|history| history.iter().any(|event| signal_value(event) == value)) {
            return Ok(());
        }
        Err(format!("message {wanted} is not where it was delivered"))
    }

    /// When everything has come to rest, nothing is left to be said.
    pub fn check_posts(&self) -> Result<(), String> {
        let left = self.disk.store.posts();
        match left.is_empty() {
            true => Ok(()),
            false => Err(format!("posts {left:?} stayed in the store")),
        }
    }

    /// Updates and promises that were acknowledged are there, for good.
    pub fn check_kept(&self, ledger: &Ledger) -> Result<(), String> {
        let is_there = |id: &outlast_model::WorkflowId, is_like: &dyn Fn(&Record) -> bool| {
            let rows = self.disk.runs_of(id);
            rows.iter().any(|row| self.disk.has(row.no, is_like))
        };
        for (id, value) in &ledger.accepted {
            if !is_there(id, &|record| accepted_of(record) == Some(*value)) {
                return Err(format!("update {value} of {id} was lost"));
            }
        }
        for (id, number, value) in &ledger.settled {
            if !is_there(id, &|record| {
                settlement_of(record) == Some((*number, *value))
            }) {
                return Err(format!("promise {number} of {id} was lost"));
            }
        }
        Ok(())
    }
}

/// Everything of a kind that a chain was told: what a run hands on counts where it first came.
fn told<T: Ord + Copy>(chain: &[Vec<Event>], what: impl Fn(&Event) -> Option<T>) -> Vec<T> {
    let mut seen = BTreeSet::new();
    let all = chain.iter().flatten().filter_map(what);
    all.filter(|value| seen.insert(*value)).collect()
}

/// Whether everything of the one is in the other, in order.
fn is_part(some: &[u64], all: &[u64]) -> bool {
    let mut rest = all.iter();
    some.iter().all(|value| rest.any(|other| other == value))
}

fn continued_from(first: &Event) -> Option<RunId> {
    match &first.kind {
        EventKind::Started(started) => started.continued_from,
        _ => None,
    }
}

fn parent_of(first: &Event) -> Option<(RunId, Seq)> {
    match &first.kind {
        EventKind::Started(started) => {
            let parent = started.parent.as_ref()?;
            Some((parent.run_id, parent.seq))
        }
        _ => None,
    }
}
