//! The ids, names and times that later events refer to, gathered by one scan.

use alloc::collections::BTreeMap;

use crate::edition::Edition;
use crate::event::{CancelOf, ChildEvent, Event, EventKind, ExternalEvent, UpdateEvent};
use crate::id::{EventId, QueueName, RunId, Seq, UpdateId, WorkflowId, WorkflowType};
use crate::time::Timestamp;
use crate::view::RunRef;

#[derive(Default)]
pub(super) struct Ids {
    pub(super) task_scheduled: EventId,
    pub(super) task_started: EventId,
    pub(super) task_completed: EventId,
    /// The first that completed.
    pub(super) first_task: EventId,
    pub(super) edition: Option<Edition>,
    /// The workflow's time in the newest task.
    pub(super) now: Timestamp,
    pub(super) queue: Option<QueueName>,
    activities: BTreeMap<Seq, ActivityIds>,
    timers: BTreeMap<Seq, EventId>,
    children: BTreeMap<Seq, ChildIds>,
    signals: BTreeMap<Seq, Sent>,
    cancels: BTreeMap<CancelOf, Sent>,
    accepted: BTreeMap<UpdateId, EventId>,
}

/// Events of one activity; 0 is none.
#[derive(Clone, Copy, Default)]
pub(super) struct ActivityIds {
    pub(super) scheduled: EventId,
    pub(super) started: EventId,
    pub(super) cancel_requested: EventId,
}

/// Events of one child, and who it is.
#[derive(Clone)]
pub(super) struct ChildIds {
    pub(super) initiated: EventId,
    /// 0 until it has started.
    pub(super) started: EventId,
    pub(super) workflow_id: WorkflowId,
    pub(super) workflow_type: WorkflowType,
    /// Its run, once it has one.
    pub(super) run_id: Option<RunId>,
}

/// The event that sent something to another run.
#[derive(Clone)]
pub(super) struct Sent {
    pub(super) initiated: EventId,
    pub(super) target: RunRef,
}

impl Ids {
    pub(super) fn note(&mut self, event: &Event) {
        match &event.kind {
            EventKind::Started(started) => {
                (self.queue, self.edition) = (Some(started.queue.clone()), started.edition);
            }
            EventKind::TaskScheduled { .. } => self.task_scheduled = event.id,
            EventKind::TaskStarted => (self.task_started, self.now) = (event.id, event.time),
            EventKind::TaskCompleted => {
                self.task_completed = event.id;
                if self.first_task == EventId::default() {
                    self.first_task = event.id;
                }
            }
            EventKind::ActivityScheduled(a) => self.entry(a.seq).scheduled = event.id,
            EventKind::ActivityStarted { seq, .. } => self.entry(*seq).started = event.id,
            EventKind::ActivityCancelRequested { seq } => {
                self.entry(*seq).cancel_requested = event.id;
            }
            EventKind::TimerStarted { seq, .. } => {
                self.timers.insert(*seq, event.id);
            }
            EventKind::Child(child) => self.note_child(event.id, child),
            EventKind::External(external) => self.note_external(event.id, external),
            EventKind::Update(UpdateEvent::Accepted(accepted)) => {
                self.accepted.insert(accepted.id.clone(), event.id);
            }
            EventKind::Update(UpdateEvent::Completed { .. } | UpdateEvent::Admitted(_))
            | EventKind::Completed { .. }
            | EventKind::Failed { .. }
            | EventKind::TimedOut
            | EventKind::TaskFailed { .. }
            | EventKind::ActivityCompleted { .. }
            | EventKind::ActivityFailed { .. }
            | EventKind::ActivityTimedOut { .. }
            | EventKind::ActivityCanceled { .. }
            | EventKind::TimerFired { .. }
            | EventKind::TimerCanceled { .. }
            | EventKind::CancelRequested { .. }
            | EventKind::Canceled
            | EventKind::StepRecorded(_)
            | EventKind::Signaled { .. }
            | EventKind::Terminated { .. }
            | EventKind::ContinuedAsNew(_)
            | EventKind::Patched { .. } => {}
        }
    }

    fn note_child(&mut self, id: EventId, event: &ChildEvent) {
        match event {
            ChildEvent::Initiated(child) => {
                let ids = ChildIds {
                    initiated: id,
                    started: EventId(0),
                    workflow_id: child.workflow_id.clone(),
                    workflow_type: child.workflow_type.clone(),
                    run_id: None,
                };
                self.children.insert(child.seq, ids);
            }
            ChildEvent::Started { seq, run_id } => {
                if let Some(child) = self.children.get_mut(seq) {
                    (child.started, child.run_id) = (id, Some(*run_id));
                }
            }
            ChildEvent::StartFailed { .. }
            | ChildEvent::Completed { .. }
            | ChildEvent::Failed { .. }
            | ChildEvent::Canceled { .. }
            | ChildEvent::TimedOut { .. }
            | ChildEvent::Terminated { .. } => {}
        }
    }

    fn note_external(&mut self, initiated: EventId, event: &ExternalEvent) {
        match event {
            ExternalEvent::CancelInitiated(cancel) => {
                let target = cancel.target.clone();
                self.cancels.insert(cancel.of, Sent { initiated, target });
            }
            ExternalEvent::SignalInitiated(signal) => {
                let target = signal.target.clone();
                self.signals.insert(signal.seq, Sent { initiated, target });
            }
            ExternalEvent::CancelFailed { .. }
            | ExternalEvent::CancelDelivered { .. }
            | ExternalEvent::SignalFailed { .. }
            | ExternalEvent::SignalDelivered { .. } => {}
        }
    }

    fn entry(&mut self, seq: Seq) -> &mut ActivityIds {
        self.activities.entry(seq).or_default()
    }

    pub(super) fn activity(&self, seq: Seq) -> ActivityIds {
        self.activities.get(&seq).copied().unwrap_or_default()
    }

    pub(super) fn timer(&self, seq: Seq) -> EventId {
        self.timers.get(&seq).copied().unwrap_or_default()
    }

    pub(super) fn child(&self, seq: Seq) -> Option<&ChildIds> {
        self.children.get(&seq)
    }

    pub(super) fn signal(&self, seq: Seq) -> Option<&Sent> {
        self.signals.get(&seq)
    }

    pub(super) fn cancel(&self, of: CancelOf) -> Option<&Sent> {
        self.cancels.get(&of)
    }

    pub(super) fn accepted(&self, id: &UpdateId) -> EventId {
        self.accepted.get(id).copied().unwrap_or_default()
    }
}
