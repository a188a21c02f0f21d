//! A history as the cluster recorded it, as Outlast's events: the inverse of
//! `outlast_model::temporal_json`, so that it replays in Outlast's own replayer.
//!
//! Temporal refers to operations by the ids of the events that began them, Outlast by numbers:
//! those of timers, activities and steps are their ids, those of children and of messages to
//! others are counted. Events that no workflow code of ours hears of (search attributes, options,
//! pauses) are left out, so events are numbered anew, from 1. A task that only kept itself alive
//! while a step ran stays a task: the marker counts rounds from the last of them.

mod between;
mod task;

use std::collections::BTreeMap;

use outlast_model::event::{
    ActivityScheduled, CancelOf, Event, EventKind, Parent, Site, Started, UpdateOutcome,
};
use outlast_model::options::{ActivityOptions, CancelMode};
use outlast_model::shared::Shared;
use outlast_model::{
    ActivityType, Attempt, EventId, QueueName, RequestId, Seq, SignalName, WorkflowId, WorkflowType,
};

use super::{Unsupported, edition, failure, headers, payload, policy, run_id, some_run_id, time};
use crate::proto::history as wire;
use crate::proto::history::history_event::Attributes;

/// The events of a whole history. `workflow_id` is used where the history does not say.
pub(crate) fn from_wire(
    history: wire::History,
    workflow_id: &WorkflowId,
) -> Result<Vec<Event>, Unsupported> {
    let mut reader = Reader {
        workflow_id: workflow_id.clone(),
        ..Reader::default()
    };
    for event in history.events {
        reader.read(event)?;
    }
    Ok(reader.events)
}

/// The outcome of an accepted update.
pub(crate) fn update_outcome(outcome: Option<crate::proto::update::Outcome>) -> UpdateOutcome {
    between::outcome(outcome)
}

/// What earlier events said that later ones refer to.
struct Reader {
    workflow_id: WorkflowId,
    events: Vec<Event>,
    /// Their ids by Temporal's.
    numbers: BTreeMap<i64, EventId>,
    activities: BTreeMap<i64, Seq>,
    children: BTreeMap<i64, Seq>,
    child_of_id: BTreeMap<String, Seq>,
    signals: BTreeMap<i64, Seq>,
    cancels: BTreeMap<i64, CancelOf>,
    external_cancels: u32,
}

impl Default for Reader {
    fn default() -> Self {
        Self {
            workflow_id: WorkflowId::new(""),
            events: Vec::new(),
            numbers: BTreeMap::new(),
            activities: BTreeMap::new(),
            children: BTreeMap::new(),
            child_of_id: BTreeMap::new(),
            signals: BTreeMap::new(),
            cancels: BTreeMap::new(),
            external_cancels: 0,
        }
    }
}

impl Reader {
    fn read(&mut self, event: wire::HistoryEvent) -> Result<(), Unsupported> {
        let (old, time) = (event.event_id, time::time(event.event_time));
        let attributes = event.attributes.ok_or(Unsupported::Missing {
            what: "an event",
            field: "attributes",
        })?;
        let Some(kind) = self.kind(old, attributes)? else {
            return Ok(());
        };
        let id = EventId(self.events.len() as u64 + 1);
        self.numbers.insert(old, id);
        // The clocks of a cluster's machines differ; our time never goes back.
        let time = self.events.last().map_or(time, |last| last.time.max(time));
        self.events.push(Event { id, time, kind });
        Ok(())
    }

    /// The event's kind, or `None` for one that is left out.
    fn kind(&mut self, id: i64, event: Attributes) -> Result<Option<EventKind>, Unsupported> {
        use Attributes as A;
        Ok(Some(match event {
            A::WorkflowExecutionStartedEventAttributes(it) => self.started(it)?,
            A::WorkflowExecutionCompletedEventAttributes(_)
            | A::WorkflowExecutionFailedEventAttributes(_)
            | A::WorkflowExecutionTimedOutEventAttributes(_)
            | A::WorkflowExecutionCanceledEventAttributes(_)
            | A::WorkflowExecutionTerminatedEventAttributes(_)
            | A::WorkflowExecutionContinuedAsNewEventAttributes(_) => task::closed(event)?,
            A::WorkflowExecutionCancelRequestedEventAttributes(it) => EventKind::CancelRequested {
                reason: it.cause,
                request_id: None,
            },
            A::WorkflowExecutionSignaledEventAttributes(it) => signaled(it),
            A::WorkflowTaskScheduledEventAttributes(it) => EventKind::TaskScheduled {
                attempt: Attempt(u32::try_from(it.attempt).unwrap_or(1).max(1)),
            },
            A::WorkflowTaskStartedEventAttributes(_) => EventKind::TaskStarted,
            A::WorkflowTaskCompletedEventAttributes(it) => {
                self.began_under(it.sdk_metadata.as_ref());
                EventKind::TaskCompleted
            }
            A::WorkflowTaskFailedEventAttributes(it) => task::failed(it),
            A::WorkflowTaskTimedOutEventAttributes(it) => task::timed_out(&it),
            A::TimerStartedEventAttributes(_)
            | A::TimerFiredEventAttributes(_)
            | A::TimerCanceledEventAttributes(_) => task::timer(event)?,
            A::MarkerRecordedEventAttributes(it) => task::marker(it)?,
            A::ActivityTaskScheduledEventAttributes(it) => self.activity_scheduled(id, it),
            A::ActivityTaskStartedEventAttributes(_)
            | A::ActivityTaskCompletedEventAttributes(_)
            | A::ActivityTaskFailedEventAttributes(_)
            | A::ActivityTaskTimedOutEventAttributes(_)
            | A::ActivityTaskCancelRequestedEventAttributes(_)
            | A::ActivityTaskCanceledEventAttributes(_) => self.activity(event)?,
            A::StartChildWorkflowExecutionInitiatedEventAttributes(_)
            | A::StartChildWorkflowExecutionFailedEventAttributes(_)
            | A::ChildWorkflowExecutionStartedEventAttributes(_)
            | A::ChildWorkflowExecutionCompletedEventAttributes(_)
            | A::ChildWorkflowExecutionFailedEventAttributes(_)
            | A::ChildWorkflowExecutionCanceledEventAttributes(_)
            | A::ChildWorkflowExecutionTimedOutEventAttributes(_)
            | A::ChildWorkflowExecutionTerminatedEventAttributes(_) => {
                EventKind::Child(self.child(id, event)?)
            }
            A::RequestCancelExternalWorkflowExecutionInitiatedEventAttributes(_)
            | A::RequestCancelExternalWorkflowExecutionFailedEventAttributes(_)
            | A::ExternalWorkflowExecutionCancelRequestedEventAttributes(_)
            | A::SignalExternalWorkflowExecutionInitiatedEventAttributes(_)
            | A::SignalExternalWorkflowExecutionFailedEventAttributes(_)
            | A::ExternalWorkflowExecutionSignaledEventAttributes(_) => {
                EventKind::External(self.external(id, event)?)
            }
            A::WorkflowExecutionUpdateAcceptedEventAttributes(_)
            | A::WorkflowExecutionUpdateCompletedEventAttributes(_)
            | A::WorkflowExecutionUpdateAdmittedEventAttributes(_) => {
                EventKind::Update(self.update(event)?)
            }
            A::UpsertWorkflowSearchAttributesEventAttributes(_)
            | A::WorkflowPropertiesModifiedEventAttributes(_)
            | A::WorkflowPropertiesModifiedExternallyEventAttributes(_)
            | A::ActivityPropertiesModifiedExternallyEventAttributes(_)
            | A::WorkflowExecutionOptionsUpdatedEventAttributes(_)
            | A::WorkflowExecutionUpdateRejectedEventAttributes(_)
            | A::WorkflowExecutionPausedEventAttributes(_)
            | A::WorkflowExecutionUnpausedEventAttributes(_)
            | A::WorkflowExecutionTimeSkippingTransitionedEventAttributes(_) => return Ok(None),
            A::NexusOperationScheduledEventAttributes(_)
            | A::NexusOperationStartedEventAttributes(_)
            | A::NexusOperationCompletedEventAttributes(_)
            | A::NexusOperationFailedEventAttributes(_)
            | A::NexusOperationCanceledEventAttributes(_)
            | A::NexusOperationTimedOutEventAttributes(_)
            | A::NexusOperationCancelRequestedEventAttributes(_)
            | A::NexusOperationCancelRequestCompletedEventAttributes(_)
            | A::NexusOperationCancelRequestFailedEventAttributes(_) => {
                return Err(Unsupported::kind("a Nexus operation"));
            }
        }))
    }

    fn started(
        &mut self,
        it: wire::WorkflowExecutionStartedEventAttributes,
    ) -> Result<EventKind, Unsupported> {
        if !it.workflow_id.is_empty() {
            self.workflow_id = WorkflowId::new(it.workflow_id);
        }
        let run_id = run_id(&it.original_execution_run_id)?;
        let first = some_run_id(&it.first_execution_run_id);
        let initiated = u64::try_from(it.parent_initiated_event_id).unwrap_or(0);
        let parent = it.parent_workflow_execution.and_then(|parent| {
            Some(Box::new(Parent {
                workflow_id: WorkflowId::new(parent.workflow_id),
                run_id: some_run_id(&parent.run_id)?,
                seq: Seq(0),
                initiated: EventId(initiated),
                priority: policy::priority_of(it.priority.as_ref()),
            }))
        });
        let started = Started {
            workflow_id: self.workflow_id.clone(),
            run_id,
            workflow_type: WorkflowType::new(it.workflow_type.unwrap_or_default().name),
            queue: QueueName::new(it.task_queue.unwrap_or_default().name),
            input: payload::input_of(it.input),
            request_id: None,
            run_timeout: time::given(it.workflow_run_timeout),
            parent,
            first_run_id: first.filter(|first| *first != run_id),
            continued_from: some_run_id(&it.continued_execution_run_id),
            headers: headers::of(it.header),
            priority: policy::priority_of(it.priority.as_ref()),
            edition: None,
        };
        Ok(EventKind::Started(Shared::new(started)))
    }

    /// The first completed task says the edition of the run, if it is not the first.
    fn began_under(&mut self, metadata: Option<&crate::proto::sdk::WorkflowTaskCompletedMetadata>) {
        let is_first = |event: &Event| matches!(event.kind, EventKind::TaskCompleted);
        if self.events.iter().any(is_first) {
            return;
        }
        let edition = metadata.and_then(|metadata| edition::of_flags(&metadata.lang_used_flags));
        if let Some(EventKind::Started(started)) = self.events.first_mut().map(|e| &mut e.kind) {
            started.edition = edition;
        }
    }

    fn activity_scheduled(
        &mut self,
        id: i64,
        it: wire::ActivityTaskScheduledEventAttributes,
    ) -> EventKind {
        let seq = failure::seq(&it.activity_id);
        self.activities.insert(id, seq);
        let scheduled = ActivityScheduled {
            seq,
            activity_type: ActivityType::new(it.activity_type.unwrap_or_default().name),
            queue: QueueName::new(it.task_queue.unwrap_or_default().name),
            input: payload::input_of(it.input),
            headers: headers::of(it.header),
            options: ActivityOptions {
                schedule_to_close: time::given(it.schedule_to_close_timeout),
                schedule_to_start: time::given(it.schedule_to_start_timeout),
                start_to_close: time::given(it.start_to_close_timeout),
                heartbeat: time::given(it.heartbeat_timeout),
                retry: policy::retry_of(it.retry_policy),
                // Not in Temporal's history, nor compared.
                cancel: CancelMode::default(),
                queue: None,
                priority: policy::priority_of(it.priority.as_ref()),
            }
            .into(),
            site: Site::default(),
        };
        EventKind::ActivityScheduled(Shared::new(scheduled))
    }

    fn activity(&self, event: Attributes) -> Result<EventKind, Unsupported> {
        use Attributes as A;
        Ok(match event {
            A::ActivityTaskStartedEventAttributes(it) => EventKind::ActivityStarted {
                seq: self.activity_of(it.scheduled_event_id)?,
                attempt: Attempt(u32::try_from(it.attempt).unwrap_or(1).max(1)),
                last_failure: it.last_failure.map(failure::from_wire),
            },
            A::ActivityTaskCompletedEventAttributes(it) => EventKind::ActivityCompleted {
                seq: self.activity_of(it.scheduled_event_id)?,
                result: payload::input_of(it.result),
            },
            A::ActivityTaskFailedEventAttributes(it) => EventKind::ActivityFailed {
                seq: self.activity_of(it.scheduled_event_id)?,
                retry_state: failure::retry_state_of(it.retry_state()),
                failure: failure::or_unknown(it.failure),
            },
            A::ActivityTaskTimedOutEventAttributes(it) => EventKind::ActivityTimedOut {
                seq: self.activity_of(it.scheduled_event_id)?,
                retry_state: failure::retry_state_of(it.retry_state()),
                failure: failure::or_unknown(it.failure),
            },
            A::ActivityTaskCancelRequestedEventAttributes(it) => {
                EventKind::ActivityCancelRequested {
                    seq: self.activity_of(it.scheduled_event_id)?,
                }
            }
            A::ActivityTaskCanceledEventAttributes(it) => EventKind::ActivityCanceled {
                seq: self.activity_of(it.scheduled_event_id)?,
                details: payload::detail(it.details),
            },
            other => return Err(not(&other, "about an activity")),
        })
    }

    fn activity_of(&self, scheduled: i64) -> Result<Seq, Unsupported> {
        known(&self.activities, scheduled, "activity")
    }
}

/// What an event refers to must have been there.
fn known<T: Copy>(map: &BTreeMap<i64, T>, id: i64, what: &'static str) -> Result<T, Unsupported> {
    map.get(&id).copied().ok_or(Unsupported::Missing {
        what,
        field: "event that began it",
    })
}

fn signaled(it: wire::WorkflowExecutionSignaledEventAttributes) -> EventKind {
    EventKind::Signaled {
        name: SignalName::new(it.signal_name),
        input: payload::input_of(it.input),
        headers: headers::of(it.header),
        request_id: (!it.request_id.is_empty()).then(|| RequestId::new(it.request_id)),
    }
}

/// A mistake of this module: an event was handed to the wrong reader.
fn not(event: &Attributes, what: &str) -> Unsupported {
    Unsupported::kind(format!("{event:?}, which is not {what}"))
}

#[cfg(test)]
mod tests;
