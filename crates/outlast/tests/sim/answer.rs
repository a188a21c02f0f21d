//! What updates, queries and promises are answered, judged when they are.

use outlast_model::event::{UpdateEvent, UpdateOutcome};
use outlast_model::failure::type_name;
use outlast_model::id::{UpdateId, WorkflowId};
use outlast_model::promise::Settlement;
use outlast_model::start::UpdateReply;
use outlast_model::task::PROMISE_SIGNAL;
use outlast_model::{EventKind, Payload, Record, RunId};
use outlast_service::store::{Attention, Store};

use super::disk::Disk;
use super::ledger::{Call, Ledger, Open, is_in_some_run, kind_of, signal_of};
use super::program::{Diary, is_turned_away, promise_id};

/// The id of the update with this value.
pub fn update_id(value: u64) -> UpdateId {
    UpdateId::new(format!("u{value}"))
}

/// The value of an update that a record says was accepted.
pub fn accepted_of(record: &Record) -> Option<u64> {
    match kind_of(record)? {
        EventKind::Update(UpdateEvent::Accepted(accepted)) => value_of(&accepted.id),
        _ => None,
    }
}

pub fn value_of(id: &UpdateId) -> Option<u64> {
    id.as_str().strip_prefix('u')?.parse().ok()
}

/// The outcome of an update that a record says was completed.
pub fn completed_of(record: &Record) -> Option<(u64, &UpdateOutcome)> {
    match kind_of(record)? {
        EventKind::Update(UpdateEvent::Completed { id, outcome }) => Some((value_of(id)?, outcome)),
        _ => None,
    }
}

/// The promise that a record says was settled, and with what.
pub fn settlement_of(record: &Record) -> Option<(u8, u64)> {
    let EventKind::Signaled { name, input, .. } = kind_of(record)? else {
        return None;
    };
    if name.as_str() != PROMISE_SIGNAL {
        return None;
    }
    let settlement = Settlement::decode(input).ok()?;
    let number = (0..2).find(|number| promise_id(*number) == settlement.id)?;
    Some((number, settlement.outcome.ok()?.decode().ok()?))
}

/// Whether this is what an accepted update hears when its run ends first.
pub fn is_run_finished(outcome: &UpdateOutcome) -> bool {
    match outcome {
        UpdateOutcome::Completed(_) => false,
        UpdateOutcome::Failed(failure) => failure.type_name() == Some(type_name::RUN_FINISHED),
    }
}

/// Whether the process may have died in the code of a run, or the run was set aside for that: such
/// code is not run for a question.
pub fn may_be_deadly(disk: &Disk, workflow_id: &WorkflowId) -> bool {
    let is_marked =
        |attention: Attention| attention.has(Attention::ARMED) || attention.has(Attention::BLOCKED);
    let rows = disk.runs_of(workflow_id);
    rows.iter().any(|row| is_marked(row.state.attention))
}

/// Whether the code of a run never came to rest: there is nothing to ask about.
pub fn has_never_run(disk: &Disk, id: &WorkflowId) -> bool {
    let rows = disk.runs_of(id);
    let is_answer = |record: &Record| matches!(kind_of(record), Some(EventKind::TaskCompleted));
    rows.iter().any(|row| !disk.has(row.no, is_answer))
}

impl Ledger {
    /// An update is answered; says whether what it says is durable.
    pub fn updated(
        &mut self,
        id: &WorkflowId,
        value: u64,
        reply: &UpdateReply,
        disk: &Disk,
    ) -> bool {
        let is_accepted = || is_in_some_run(disk, id, |r| accepted_of(r) == Some(value));
        match reply {
            UpdateReply::Accepted => {
                self.markers.hit("update.told-accepted");
                self.accepted.insert((id.clone(), value));
                is_accepted()
            }
            UpdateReply::Done(outcome) if is_run_finished(outcome) => {
                self.markers.hit("update.run-finished");
                self.accepted.insert((id.clone(), value));
                disk.runs_of(id).iter().any(|row| {
                    !row.state.status.is_open()
                        && disk.has(row.no, |r| accepted_of(r) == Some(value))
                })
            }
            UpdateReply::Done(outcome) => {
                self.markers.hit("update.told-done");
                self.accepted.insert((id.clone(), value));
                is_accepted()
                    && is_in_some_run(disk, id, |r| completed_of(r) == Some((value, outcome)))
            }
            UpdateReply::Rejected(_) => {
                self.markers.hit("update.rejected");
                if is_accepted() {
                    let text = format!("update {value} of {id} was accepted and rejected");
                    self.violations.push(text);
                }
                true
            }
        }
    }

    /// A query is answered: everything that the run has seen is durable.
    pub fn asked(&mut self, id: &WorkflowId, answer: &Payload, disk: &Disk) -> bool {
        self.markers.hit("query.answered");
        let Ok(diary) = answer.decode::<Diary>() else {
            return false;
        };
        let received = diary.received.iter().flatten();
        let signals = diary.logged.iter().chain(received);
        let has_signal = |value| is_in_some_run(disk, id, |r| signal_of(r) == Some(value));
        let has_update = |value| is_in_some_run(disk, id, |r| accepted_of(r) == Some(value));
        signals.copied().all(has_signal) && diary.updated.iter().copied().all(has_update)
    }

    /// Whether a request may hear that its run has ended.
    pub fn may_be_closed(&self, open: &Open, run_id: RunId, disk: &Disk) -> bool {
        match open.call {
            // It can still be asked.
            Call::Query(_) => false,
            // It has its answer, for good.
            Call::Update(value, _) => {
                let row = disk.store.find_run(run_id).ok().flatten();
                row.is_none_or(|row| !disk.has(row.no, |r| accepted_of(r) == Some(value)))
            }
            _ => true,
        }
    }

    pub fn was_settled_before(&self, open: &Open, disk: &Disk) -> bool {
        let Call::Settle(number, _) = open.call else {
            return false;
        };
        is_in_some_run(disk, &open.workflow_id, |record| {
            settlement_of(record).is_some_and(|(other, _)| other == number)
        })
    }

    /// Whether this update may be turned away.
    pub fn may_be_turned_away(value: u64, is_known: bool) -> bool {
        !is_known || is_turned_away(value)
    }
}
