//! Who may move when: every operation is asked for once, ends at most once, and only after it
//! was asked for.
//!
//! ```text
//!   activity  Scheduled [CancelRequested] ( Started outcome | TimedOut | Canceled )
//!   timer     Started ( Fired | Canceled )
//!   child     Initiated ( StartFailed | Started outcome )
//!   message   Initiated ( Delivered | Failed )        to another run: a signal, a cancel
//!   update    [Admitted] Accepted Completed
//! ```
//!
//! What stands here is about the operations; where an event may stand is the grammar's.

use alloc::collections::{BTreeMap, BTreeSet};

use super::Rule;
use crate::event::{
    CancelOf, ChildEvent, Event, EventKind, ExternalEvent, UpdateAccepted, UpdateEvent,
};
use crate::id::{EventId, PatchId, RequestId, Seq, UpdateId};

/// Everything that was asked for so far, and how far it has come.
#[derive(Default)]
pub(super) struct Operations {
    task_started: EventId,
    activities: BTreeMap<Seq, Activity>,
    timers: BTreeMap<Seq, Operation>,
    steps: BTreeSet<Seq>,
    children: BTreeMap<Seq, Child>,
    signals: BTreeMap<Seq, Operation>,
    cancels: BTreeMap<CancelOf, Operation>,
    updates: BTreeMap<UpdateId, Update>,
    patches: BTreeSet<PatchId>,
    requests: BTreeSet<RequestId>,
}

#[derive(Clone, Copy)]
struct Activity {
    state: Operation,
    is_cancel_requested: bool,
}

#[derive(Clone, Copy)]
enum Operation {
    Pending,
    Ended,
}

#[derive(Clone, Copy)]
enum Child {
    Initiated,
    Started,
    Ended,
}

#[derive(Clone, Copy)]
enum Update {
    Admitted,
    Accepted,
    Completed,
}

impl Operations {
    pub(super) fn read(&mut self, event: &Event) -> Result<(), Rule> {
        match &event.kind {
            EventKind::TaskStarted => {
                self.task_started = event.id;
                Ok(())
            }
            EventKind::ActivityScheduled(scheduled) => self.schedule_activity(scheduled.seq),
            EventKind::ActivityStarted { seq, .. } => self.pending_activity(*seq).map(|_| ()),
            EventKind::ActivityCompleted { seq, .. }
            | EventKind::ActivityFailed { seq, .. }
            | EventKind::ActivityTimedOut { seq, .. } => self.end_activity(*seq),
            EventKind::ActivityCancelRequested { seq } => self.request_cancel(*seq),
            EventKind::ActivityCanceled { seq, .. } => self.cancel_activity(*seq),
            EventKind::TimerStarted { seq, .. } => ask(&mut self.timers, *seq, Rule::SeqTwice),
            EventKind::TimerFired { seq } | EventKind::TimerCanceled { seq } => {
                end(&mut self.timers, *seq)
            }
            EventKind::StepRecorded(step) => once(self.steps.insert(step.seq), Rule::SeqTwice),
            EventKind::CancelRequested { request_id, .. }
            | EventKind::Signaled { request_id, .. } => self.request(request_id.as_ref()),
            EventKind::Child(event) => self.child(event),
            EventKind::External(event) => self.external(event),
            EventKind::Update(event) => self.update(event),
            EventKind::Patched { id, .. } => {
                once(self.patches.insert(id.clone()), Rule::PatchTwice)
            }
            EventKind::Started(_)
            | EventKind::Completed { .. }
            | EventKind::Failed { .. }
            | EventKind::TimedOut
            | EventKind::TaskScheduled { .. }
            | EventKind::TaskCompleted
            | EventKind::TaskFailed { .. }
            | EventKind::Canceled
            | EventKind::Terminated { .. }
            | EventKind::ContinuedAsNew(_) => Ok(()),
        }
    }

    fn schedule_activity(&mut self, seq: Seq) -> Result<(), Rule> {
        let activity = Activity {
            state: Operation::Pending,
            is_cancel_requested: false,
        };
        let earlier = self.activities.insert(seq, activity);
        once(earlier.is_none(), Rule::SeqTwice)
    }

    fn pending_activity(&mut self, seq: Seq) -> Result<&mut Activity, Rule> {
        let activity = self.activities.get_mut(&seq).ok_or(Rule::NeverScheduled)?;
        match activity.state {
            Operation::Pending => Ok(activity),
            Operation::Ended => Err(Rule::OutcomeTwice),
        }
    }

    fn end_activity(&mut self, seq: Seq) -> Result<(), Rule> {
        self.pending_activity(seq)?.state = Operation::Ended;
        Ok(())
    }

    fn request_cancel(&mut self, seq: Seq) -> Result<(), Rule> {
        let activity = self.pending_activity(seq)?;
        if activity.is_cancel_requested {
            return Err(Rule::CancelTwice);
        }
        activity.is_cancel_requested = true;
        Ok(())
    }

    fn cancel_activity(&mut self, seq: Seq) -> Result<(), Rule> {
        let activity = self.pending_activity(seq)?;
        if !activity.is_cancel_requested {
            return Err(Rule::CanceledUnasked);
        }
        activity.state = Operation::Ended;
        Ok(())
    }

    fn request(&mut self, id: Option<&RequestId>) -> Result<(), Rule> {
        let is_new = id.is_none_or(|id| self.requests.insert(id.clone()));
        once(is_new, Rule::RequestTwice)
    }

    fn child(&mut self, event: &ChildEvent) -> Result<(), Rule> {
        let seq = event.seq();
        let next = next_child(self.children.get(&seq).copied(), event)?;
        self.children.insert(seq, next);
        Ok(())
    }

    fn external(&mut self, event: &ExternalEvent) -> Result<(), Rule> {
        match event {
            ExternalEvent::CancelInitiated(cancel) => match cancel.of {
                CancelOf::Child(seq) => {
                    self.open_child(seq)?;
                    ask(&mut self.cancels, cancel.of, Rule::CancelTwice)
                }
                CancelOf::External(_) => ask(&mut self.cancels, cancel.of, Rule::SeqTwice),
            },
            ExternalEvent::CancelFailed { of, .. } | ExternalEvent::CancelDelivered { of } => {
                end(&mut self.cancels, *of)
            }
            ExternalEvent::SignalInitiated(signal) => {
                ask(&mut self.signals, signal.seq, Rule::SeqTwice)
            }
            ExternalEvent::SignalFailed { seq, .. } | ExternalEvent::SignalDelivered { seq } => {
                end(&mut self.signals, *seq)
            }
        }
    }

    fn open_child(&self, seq: Seq) -> Result<(), Rule> {
        match self.children.get(&seq) {
            Some(Child::Initiated | Child::Started) => Ok(()),
            Some(Child::Ended) => Err(Rule::OutcomeTwice),
            None => Err(Rule::NeverScheduled),
        }
    }

    fn update(&mut self, event: &UpdateEvent) -> Result<(), Rule> {
        let id = match event {
            UpdateEvent::Accepted(accepted) => &accepted.id,
            UpdateEvent::Completed { id, .. } => id,
            UpdateEvent::Admitted(request) => &request.id,
        };
        let next = next_update(self.updates.get(id).copied(), event, self.task_started)?;
        self.updates.insert(id.clone(), next);
        Ok(())
    }
}

fn next_child(child: Option<Child>, event: &ChildEvent) -> Result<Child, Rule> {
    match (child, event) {
        (None, ChildEvent::Initiated(_)) => Ok(Child::Initiated),
        (Some(_), ChildEvent::Initiated(_)) => Err(Rule::SeqTwice),
        (
            None,
            ChildEvent::StartFailed { .. }
            | ChildEvent::Started { .. }
            | ChildEvent::Completed { .. }
            | ChildEvent::Failed { .. }
            | ChildEvent::Canceled { .. }
            | ChildEvent::TimedOut { .. }
            | ChildEvent::Terminated { .. },
        ) => Err(Rule::NeverScheduled),

        (Some(Child::Initiated), ChildEvent::StartFailed { .. }) => Ok(Child::Ended),
        (Some(Child::Initiated), ChildEvent::Started { .. }) => Ok(Child::Started),
        (
            Some(Child::Started | Child::Ended),
            ChildEvent::StartFailed { .. } | ChildEvent::Started { .. },
        ) => Err(Rule::ChildStartTwice),

        (
            Some(state),
            ChildEvent::Completed { .. }
            | ChildEvent::Failed { .. }
            | ChildEvent::Canceled { .. }
            | ChildEvent::TimedOut { .. }
            | ChildEvent::Terminated { .. },
        ) => match state {
            Child::Initiated => Err(Rule::ChildNotStarted),
            Child::Started => Ok(Child::Ended),
            Child::Ended => Err(Rule::OutcomeTwice),
        },
    }
}

fn next_update(
    update: Option<Update>,
    event: &UpdateEvent,
    task_started: EventId,
) -> Result<Update, Rule> {
    match (update, event) {
        (None, UpdateEvent::Admitted(_)) => Ok(Update::Admitted),
        (Some(Update::Admitted), UpdateEvent::Admitted(_)) => Err(Rule::AdmittedTwice),
        (Some(Update::Accepted | Update::Completed), UpdateEvent::Admitted(_)) => {
            Err(Rule::AdmittedLate)
        }
        (None | Some(Update::Admitted), UpdateEvent::Accepted(accepted)) => {
            acceptance(update, accepted, task_started)
        }
        (Some(Update::Accepted | Update::Completed), UpdateEvent::Accepted(_)) => {
            Err(Rule::AcceptedTwice)
        }
        (Some(Update::Accepted), UpdateEvent::Completed { .. }) => Ok(Update::Completed),
        (Some(Update::Completed), UpdateEvent::Completed { .. }) => Err(Rule::OutcomeTwice),
        (None | Some(Update::Admitted), UpdateEvent::Completed { .. }) => Err(Rule::NeverAccepted),
    }
}

/// Replay must find the request, once, and the point at which it came in.
fn acceptance(
    update: Option<Update>,
    accepted: &UpdateAccepted,
    task_started: EventId,
) -> Result<Update, Rule> {
    let is_known = match (&accepted.request, update) {
        (Some(request), None) => request.id == accepted.id,
        (None, Some(_)) => true,
        (Some(_), Some(_)) | (None, None) => false,
    };
    once(is_known, Rule::UpdateRequest)?;
    let is_before = accepted.behind > EventId(0) && accepted.behind < task_started;
    once(is_before, Rule::UpdateBehind)?;
    Ok(Update::Accepted)
}

fn ask<K: Ord>(asked: &mut BTreeMap<K, Operation>, key: K, twice: Rule) -> Result<(), Rule> {
    once(asked.insert(key, Operation::Pending).is_none(), twice)
}

fn end<K: Ord>(asked: &mut BTreeMap<K, Operation>, key: K) -> Result<(), Rule> {
    match asked.insert(key, Operation::Ended) {
        Some(Operation::Pending) => Ok(()),
        Some(Operation::Ended) => Err(Rule::OutcomeTwice),
        None => Err(Rule::NeverScheduled),
    }
}

fn once(holds: bool, rule: Rule) -> Result<(), Rule> {
    holds.then_some(()).ok_or(rule)
}
