//! What runs say to each other, and what the world asks of them, in a history.

use outlast_model::event::{
    CancelInitiated, CancelOf, ChildEvent, ChildInitiated, ContinuedAsNew, DeliveryFailedCause,
    EventKind, ExternalEvent, SignalInitiated, Site, StartFailedCause, UpdateAccepted, UpdateEvent,
    UpdateOutcome, UpdateRequest,
};
use outlast_model::options::{ChildCancel, ChildOptions};
use outlast_model::view::RunRef;
use outlast_model::{
    EventId, QueueName, RunId, Seq, SignalName, UpdateId, UpdateName, WorkflowId, WorkflowType,
};

use super::super::{Unsupported, failure, headers, payload, policy, run_id, some_run_id, time};
use super::{Reader, known, not};
use crate::proto::history::history_event::Attributes;
use crate::proto::{common, enums, history as wire, update};

pub(super) fn continued(
    it: wire::WorkflowExecutionContinuedAsNewEventAttributes,
) -> Result<EventKind, Unsupported> {
    Ok(EventKind::ContinuedAsNew(Box::new(ContinuedAsNew {
        new_run_id: run_id(&it.new_execution_run_id)?,
        workflow_type: WorkflowType::new(it.workflow_type.unwrap_or_default().name),
        queue: QueueName::new(it.task_queue.unwrap_or_default().name),
        input: payload::input_of(it.input),
        headers: headers::of(it.header),
        run_timeout: time::given(it.workflow_run_timeout),
    })))
}

impl Reader {
    pub(super) fn child(&mut self, id: i64, event: Attributes) -> Result<ChildEvent, Unsupported> {
        use Attributes as A;
        Ok(match event {
            A::StartChildWorkflowExecutionInitiatedEventAttributes(it) => {
                ChildEvent::Initiated(Box::new(self.child_initiated(id, it)))
            }
            A::StartChildWorkflowExecutionFailedEventAttributes(it) => ChildEvent::StartFailed {
                seq: self.child_of(it.initiated_event_id)?,
                cause: start_failed(it.cause()),
            },
            A::ChildWorkflowExecutionStartedEventAttributes(it) => {
                let seq = self.child_of(it.initiated_event_id)?;
                let run_id = run_id(&it.workflow_execution.unwrap_or_default().run_id)?;
                self.name_child(seq, run_id);
                ChildEvent::Started { seq, run_id }
            }
            A::ChildWorkflowExecutionCompletedEventAttributes(it) => ChildEvent::Completed {
                seq: self.child_of(it.initiated_event_id)?,
                result: payload::input_of(it.result),
            },
            A::ChildWorkflowExecutionFailedEventAttributes(it) => ChildEvent::Failed {
                seq: self.child_of(it.initiated_event_id)?,
                failure: failure::or_unknown(it.failure),
            },
            A::ChildWorkflowExecutionCanceledEventAttributes(it) => ChildEvent::Canceled {
                seq: self.child_of(it.initiated_event_id)?,
            },
            A::ChildWorkflowExecutionTimedOutEventAttributes(it) => ChildEvent::TimedOut {
                seq: self.child_of(it.initiated_event_id)?,
            },
            A::ChildWorkflowExecutionTerminatedEventAttributes(it) => ChildEvent::Terminated {
                seq: self.child_of(it.initiated_event_id)?,
            },
            other => return Err(not(&other, "about a child")),
        })
    }

    fn child_initiated(
        &mut self,
        id: i64,
        it: wire::StartChildWorkflowExecutionInitiatedEventAttributes,
    ) -> ChildInitiated {
        let seq = next(self.children.len());
        self.children.insert(id, seq);
        self.child_of_id.insert(it.workflow_id.clone(), seq);
        let (parent_close, reuse) = (it.parent_close_policy(), it.workflow_id_reuse_policy());
        ChildInitiated {
            seq,
            workflow_id: WorkflowId::new(it.workflow_id),
            // Known when it starts.
            run_id: RunId::default(),
            workflow_type: WorkflowType::new(it.workflow_type.unwrap_or_default().name),
            queue: QueueName::new(it.task_queue.unwrap_or_default().name),
            input: payload::input_of(it.input),
            headers: headers::of(it.header),
            options: ChildOptions {
                queue: None,
                run_timeout: time::given(it.workflow_run_timeout),
                parent_close: policy::parent_close_of(parent_close),
                // Not in Temporal's history, nor compared.
                cancel: ChildCancel::default(),
                reuse: policy::reuse_of(reuse),
                priority: policy::priority_of(it.priority.as_ref()),
            },
            site: Site::default(),
        }
    }

    /// Outlast knows the run of a child from the event that asked for it.
    fn name_child(&mut self, child: Seq, run: RunId) {
        for event in &mut self.events {
            if let EventKind::Child(ChildEvent::Initiated(initiated)) = &mut event.kind
                && initiated.seq == child
            {
                initiated.run_id = run;
            }
        }
    }

    fn child_of(&self, initiated: i64) -> Result<Seq, Unsupported> {
        known(&self.children, initiated, "child")
    }

    pub(super) fn external(
        &mut self,
        id: i64,
        event: Attributes,
    ) -> Result<ExternalEvent, Unsupported> {
        use Attributes as A;
        Ok(match event {
            A::RequestCancelExternalWorkflowExecutionInitiatedEventAttributes(it) => {
                ExternalEvent::CancelInitiated(Box::new(self.cancel_initiated(id, it)?))
            }
            A::RequestCancelExternalWorkflowExecutionFailedEventAttributes(it) => {
                ExternalEvent::CancelFailed {
                    of: known(&self.cancels, it.initiated_event_id, "request to stop")?,
                    cause: DeliveryFailedCause::NotFound,
                }
            }
            A::ExternalWorkflowExecutionCancelRequestedEventAttributes(it) => {
                ExternalEvent::CancelDelivered {
                    of: known(&self.cancels, it.initiated_event_id, "request to stop")?,
                }
            }
            A::SignalExternalWorkflowExecutionInitiatedEventAttributes(it) => {
                let seq = next(self.signals.len());
                self.signals.insert(id, seq);
                ExternalEvent::SignalInitiated(Box::new(SignalInitiated {
                    seq,
                    target: target(it.workflow_execution),
                    name: SignalName::new(it.signal_name),
                    input: payload::input_of(it.input),
                    headers: headers::of(it.header),
                    site: Site::default(),
                }))
            }
            A::SignalExternalWorkflowExecutionFailedEventAttributes(it) => {
                use enums::SignalExternalWorkflowExecutionFailedCause as Cause;
                let cause = match it.cause() {
                    Cause::SignalCountLimitExceeded => DeliveryFailedCause::HistoryFull,
                    Cause::Unspecified
                    | Cause::ExternalWorkflowExecutionNotFound
                    | Cause::NamespaceNotFound => DeliveryFailedCause::NotFound,
                };
                let seq = known(&self.signals, it.initiated_event_id, "message")?;
                ExternalEvent::SignalFailed { seq, cause }
            }
            A::ExternalWorkflowExecutionSignaledEventAttributes(it) => {
                ExternalEvent::SignalDelivered {
                    seq: known(&self.signals, it.initiated_event_id, "message")?,
                }
            }
            other => return Err(not(&other, "about another run")),
        })
    }

    fn cancel_initiated(
        &mut self,
        id: i64,
        it: wire::RequestCancelExternalWorkflowExecutionInitiatedEventAttributes,
    ) -> Result<CancelInitiated, Unsupported> {
        let target = target(it.workflow_execution);
        let of = if it.child_workflow_only {
            let child = self.child_of_id.get(target.workflow_id.as_str());
            CancelOf::Child(*child.ok_or(Unsupported::Missing {
                what: "a request to stop a child",
                field: "child",
            })?)
        } else {
            self.external_cancels += 1;
            CancelOf::External(Seq(self.external_cancels))
        };
        self.cancels.insert(id, of);
        Ok(CancelInitiated {
            of,
            target,
            reason: it.reason,
            site: Site::default(),
        })
    }

    pub(super) fn update(&self, event: Attributes) -> Result<UpdateEvent, Unsupported> {
        use Attributes as A;
        Ok(match event {
            A::WorkflowExecutionUpdateAcceptedEventAttributes(it) => {
                UpdateEvent::Accepted(Box::new(UpdateAccepted {
                    id: UpdateId::new(it.protocol_instance_id),
                    request: it.accepted_request.map(request),
                    behind: self.behind(it.accepted_request_sequencing_event_id),
                }))
            }
            A::WorkflowExecutionUpdateCompletedEventAttributes(it) => UpdateEvent::Completed {
                id: UpdateId::new(it.meta.unwrap_or_default().update_id),
                outcome: outcome(it.outcome),
            },
            A::WorkflowExecutionUpdateAdmittedEventAttributes(it) => {
                UpdateEvent::Admitted(Box::new(request(it.request.unwrap_or_default())))
            }
            other => return Err(not(&other, "about an update")),
        })
    }

    /// The newest of our events that is not behind this one.
    fn behind(&self, id: i64) -> EventId {
        let known = self.numbers.range(..=id).next_back();
        known.map_or(EventId(0), |(_, id)| *id)
    }
}

fn next(count: usize) -> Seq {
    Seq(u32::try_from(count).unwrap_or(u32::MAX).saturating_add(1))
}

fn start_failed(cause: enums::StartChildWorkflowExecutionFailedCause) -> StartFailedCause {
    use enums::StartChildWorkflowExecutionFailedCause as Cause;
    match cause {
        Cause::WorkflowAlreadyExists => StartFailedCause::AlreadyExists,
        Cause::Unspecified | Cause::NamespaceNotFound | Cause::InvalidVersioningOverride => {
            StartFailedCause::NotRegistered
        }
    }
}

fn target(execution: Option<common::WorkflowExecution>) -> RunRef {
    let execution = execution.unwrap_or_default();
    RunRef {
        run_id: some_run_id(&execution.run_id),
        workflow_id: WorkflowId::new(execution.workflow_id),
    }
}

fn request(request: update::Request) -> UpdateRequest {
    let input = request.input.unwrap_or_default();
    UpdateRequest {
        id: UpdateId::new(request.meta.unwrap_or_default().update_id),
        name: UpdateName::new(input.name),
        input: payload::input_of(input.args),
        headers: headers::of(input.header),
    }
}

pub(super) fn outcome(outcome: Option<update::Outcome>) -> UpdateOutcome {
    use update::outcome::Value;
    match outcome.and_then(|outcome| outcome.value) {
        Some(Value::Success(result)) => UpdateOutcome::Completed(payload::input_of(Some(result))),
        Some(Value::Failure(why)) => UpdateOutcome::Failed(failure::from_wire(why)),
        None => UpdateOutcome::Failed(failure::or_unknown(None)),
    }
}
