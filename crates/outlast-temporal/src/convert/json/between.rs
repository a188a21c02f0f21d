//! Events between a run and others: messages, children, requests to stop, updates.

use super::NotHistory;
use super::fields::Fields;
use crate::proto::enums::{
    CancelExternalWorkflowExecutionFailedCause, ParentClosePolicy, RetryState,
    SignalExternalWorkflowExecutionFailedCause, StartChildWorkflowExecutionFailedCause,
    UpdateAdmittedEventOrigin, WorkflowIdReusePolicy,
};
use crate::proto::history as wire;
use crate::proto::history::history_event::Attributes;
use crate::proto::update;

type Read<T> = Result<T, NotHistory>;

/// What an event says; `None` if its kind is not one of these.
pub(super) fn read(name: &str, it: &mut Fields) -> Read<Option<Attributes>> {
    use Attributes as A;
    Ok(Some(match name {
        "workflowExecutionSignaled" => A::WorkflowExecutionSignaledEventAttributes(
            wire::WorkflowExecutionSignaledEventAttributes {
                signal_name: it.text("signalName")?,
                input: it.message("input")?,
                header: it.message("header")?,
                external_workflow_execution: it.message("externalWorkflowExecution")?,
                request_id: it.text("requestId")?,
                ..wire::WorkflowExecutionSignaledEventAttributes::default()
            },
        ),
        "workflowExecutionCancelRequested" => A::WorkflowExecutionCancelRequestedEventAttributes(
            wire::WorkflowExecutionCancelRequestedEventAttributes {
                cause: it.text("cause")?,
                external_initiated_event_id: it.number("externalInitiatedEventId")?,
                external_workflow_execution: it.message("externalWorkflowExecution")?,
                identity: it.text("identity")?,
            },
        ),
        "startChildWorkflowExecutionInitiated" => {
            A::StartChildWorkflowExecutionInitiatedEventAttributes(child_initiated(it)?)
        }
        "startChildWorkflowExecutionFailed" => {
            A::StartChildWorkflowExecutionFailedEventAttributes(child_not_started(it)?)
        }
        _ if name.starts_with("childWorkflowExecution") => return child(name, it),
        _ if name.starts_with("workflowExecutionUpdate") => return updated(name, it),
        _ if name.starts_with("nexusOperation") => {
            return Err(NotHistory("Outlast has no Nexus operations".into()));
        }
        _ => return external(name, it),
    }))
}

fn child_initiated(
    it: &mut Fields,
) -> Read<wire::StartChildWorkflowExecutionInitiatedEventAttributes> {
    Ok(wire::StartChildWorkflowExecutionInitiatedEventAttributes {
        namespace: it.text("namespace")?,
        workflow_id: it.text("workflowId")?,
        workflow_type: it.message("workflowType")?,
        task_queue: it.queue("taskQueue")?,
        input: it.message("input")?,
        header: it.message("header")?,
        workflow_execution_timeout: it.message("workflowExecutionTimeout")?,
        workflow_run_timeout: it.message("workflowRunTimeout")?,
        workflow_task_timeout: it.message("workflowTaskTimeout")?,
        parent_close_policy: it.choice::<ParentClosePolicy>("parentClosePolicy")?,
        workflow_task_completed_event_id: it.number("workflowTaskCompletedEventId")?,
        workflow_id_reuse_policy: it.choice::<WorkflowIdReusePolicy>("workflowIdReusePolicy")?,
        retry_policy: it.message("retryPolicy")?,
        priority: it.message("priority")?,
        ..wire::StartChildWorkflowExecutionInitiatedEventAttributes::default()
    })
}

fn child_not_started(
    it: &mut Fields,
) -> Read<wire::StartChildWorkflowExecutionFailedEventAttributes> {
    Ok(wire::StartChildWorkflowExecutionFailedEventAttributes {
        namespace: it.text("namespace")?,
        workflow_id: it.text("workflowId")?,
        workflow_type: it.message("workflowType")?,
        cause: it.choice::<StartChildWorkflowExecutionFailedCause>("cause")?,
        initiated_event_id: it.number("initiatedEventId")?,
        workflow_task_completed_event_id: it.number("workflowTaskCompletedEventId")?,
        ..wire::StartChildWorkflowExecutionFailedEventAttributes::default()
    })
}

/// Events of a child that has started. All say whom they are about.
fn child(name: &str, it: &mut Fields) -> Read<Option<Attributes>> {
    use Attributes as A;
    let namespace = it.text("namespace")?;
    let workflow_execution = it.message("workflowExecution")?;
    let workflow_type = it.message("workflowType")?;
    let initiated_event_id = it.number("initiatedEventId")?;
    let started_event_id = it.number("startedEventId")?;
    let retry_state = it.choice::<RetryState>("retryState")?;
    Ok(Some(match name {
        "childWorkflowExecutionStarted" => A::ChildWorkflowExecutionStartedEventAttributes(
            wire::ChildWorkflowExecutionStartedEventAttributes {
                namespace,
                initiated_event_id,
                workflow_execution,
                workflow_type,
                header: it.message("header")?,
                ..wire::ChildWorkflowExecutionStartedEventAttributes::default()
            },
        ),
        "childWorkflowExecutionCompleted" => A::ChildWorkflowExecutionCompletedEventAttributes(
            wire::ChildWorkflowExecutionCompletedEventAttributes {
                result: it.message("result")?,
                namespace,
                workflow_execution,
                workflow_type,
                initiated_event_id,
                started_event_id,
                ..wire::ChildWorkflowExecutionCompletedEventAttributes::default()
            },
        ),
        "childWorkflowExecutionFailed" => A::ChildWorkflowExecutionFailedEventAttributes(
            wire::ChildWorkflowExecutionFailedEventAttributes {
                failure: it.message("failure")?,
                namespace,
                workflow_execution,
                workflow_type,
                initiated_event_id,
                started_event_id,
                retry_state,
                ..wire::ChildWorkflowExecutionFailedEventAttributes::default()
            },
        ),
        "childWorkflowExecutionCanceled" => A::ChildWorkflowExecutionCanceledEventAttributes(
            wire::ChildWorkflowExecutionCanceledEventAttributes {
                details: it.message("details")?,
                namespace,
                workflow_execution,
                workflow_type,
                initiated_event_id,
                started_event_id,
                ..wire::ChildWorkflowExecutionCanceledEventAttributes::default()
            },
        ),
        "childWorkflowExecutionTimedOut" => A::ChildWorkflowExecutionTimedOutEventAttributes(
            wire::ChildWorkflowExecutionTimedOutEventAttributes {
                namespace,
                workflow_execution,
                workflow_type,
                initiated_event_id,
                started_event_id,
                retry_state,
                ..wire::ChildWorkflowExecutionTimedOutEventAttributes::default()
            },
        ),
        "childWorkflowExecutionTerminated" => A::ChildWorkflowExecutionTerminatedEventAttributes(
            wire::ChildWorkflowExecutionTerminatedEventAttributes {
                namespace,
                workflow_execution,
                workflow_type,
                initiated_event_id,
                started_event_id,
                ..wire::ChildWorkflowExecutionTerminatedEventAttributes::default()
            },
        ),
        _ => return Ok(None),
    }))
}

/// What was said to another run. All say to whom.
fn external(name: &str, it: &mut Fields) -> Read<Option<Attributes>> {
    use Attributes as A;
    let namespace = it.text("namespace")?;
    let workflow_execution = it.message("workflowExecution")?;
    let workflow_task_completed_event_id = it.number("workflowTaskCompletedEventId")?;
    let initiated_event_id = it.number("initiatedEventId")?;
    let child_workflow_only = it.plain("childWorkflowOnly")?;
    Ok(Some(match name {
        "signalExternalWorkflowExecutionInitiated" => {
            A::SignalExternalWorkflowExecutionInitiatedEventAttributes(
                wire::SignalExternalWorkflowExecutionInitiatedEventAttributes {
                    workflow_task_completed_event_id,
                    namespace,
                    workflow_execution,
                    signal_name: it.text("signalName")?,
                    input: it.message("input")?,
                    child_workflow_only,
                    header: it.message("header")?,
                    ..wire::SignalExternalWorkflowExecutionInitiatedEventAttributes::default()
                },
            )
        }
        "signalExternalWorkflowExecutionFailed" => {
            A::SignalExternalWorkflowExecutionFailedEventAttributes(
                wire::SignalExternalWorkflowExecutionFailedEventAttributes {
                    cause: it.choice::<SignalExternalWorkflowExecutionFailedCause>("cause")?,
                    workflow_task_completed_event_id,
                    namespace,
                    workflow_execution,
                    initiated_event_id,
                    ..wire::SignalExternalWorkflowExecutionFailedEventAttributes::default()
                },
            )
        }
        "externalWorkflowExecutionSignaled" => A::ExternalWorkflowExecutionSignaledEventAttributes(
            wire::ExternalWorkflowExecutionSignaledEventAttributes {
                initiated_event_id,
                namespace,
                workflow_execution,
                ..wire::ExternalWorkflowExecutionSignaledEventAttributes::default()
            },
        ),
        "requestCancelExternalWorkflowExecutionInitiated" => {
            A::RequestCancelExternalWorkflowExecutionInitiatedEventAttributes(
                wire::RequestCancelExternalWorkflowExecutionInitiatedEventAttributes {
                    workflow_task_completed_event_id,
                    namespace,
                    workflow_execution,
                    child_workflow_only,
                    reason: it.text("reason")?,
                    ..wire::RequestCancelExternalWorkflowExecutionInitiatedEventAttributes::default(
                    )
                },
            )
        }
        "requestCancelExternalWorkflowExecutionFailed" => {
            A::RequestCancelExternalWorkflowExecutionFailedEventAttributes(
                wire::RequestCancelExternalWorkflowExecutionFailedEventAttributes {
                    cause: it.choice::<CancelExternalWorkflowExecutionFailedCause>("cause")?,
                    workflow_task_completed_event_id,
                    namespace,
                    workflow_execution,
                    initiated_event_id,
                    ..wire::RequestCancelExternalWorkflowExecutionFailedEventAttributes::default()
                },
            )
        }
        "externalWorkflowExecutionCancelRequested" => {
            A::ExternalWorkflowExecutionCancelRequestedEventAttributes(
                wire::ExternalWorkflowExecutionCancelRequestedEventAttributes {
                    initiated_event_id,
                    namespace,
                    workflow_execution,
                    ..wire::ExternalWorkflowExecutionCancelRequestedEventAttributes::default()
                },
            )
        }
        _ => return Ok(None),
    }))
}

fn updated(name: &str, it: &mut Fields) -> Read<Option<Attributes>> {
    use Attributes as A;
    Ok(Some(match name {
        "workflowExecutionUpdateAdmitted" => A::WorkflowExecutionUpdateAdmittedEventAttributes(
            wire::WorkflowExecutionUpdateAdmittedEventAttributes {
                request: request(it.object("request")?)?,
                origin: it.choice::<UpdateAdmittedEventOrigin>("origin")?,
            },
        ),
        "workflowExecutionUpdateAccepted" => A::WorkflowExecutionUpdateAcceptedEventAttributes(
            wire::WorkflowExecutionUpdateAcceptedEventAttributes {
                protocol_instance_id: it.text("protocolInstanceId")?,
                accepted_request_message_id: it.text("acceptedRequestMessageId")?,
                accepted_request_sequencing_event_id: it
                    .number("acceptedRequestSequencingEventId")?,
                accepted_request: request(it.object("acceptedRequest")?)?,
            },
        ),
        "workflowExecutionUpdateCompleted" => A::WorkflowExecutionUpdateCompletedEventAttributes(
            wire::WorkflowExecutionUpdateCompletedEventAttributes {
                meta: meta(it.object("meta")?)?,
                accepted_event_id: it.number("acceptedEventId")?,
                outcome: outcome(it.object("outcome")?)?,
            },
        ),
        _ => return Ok(None),
    }))
}

fn request(it: Option<Fields>) -> Read<Option<update::Request>> {
    let Some(mut it) = it else { return Ok(None) };
    let input = match it.object("input")? {
        None => None,
        Some(mut input) => Some(update::Input {
            header: input.message("header")?,
            name: input.text("name")?,
            args: input.message("args")?,
        }),
    };
    Ok(Some(update::Request {
        meta: meta(it.object("meta")?)?,
        input,
        ..update::Request::default()
    }))
}

fn meta(it: Option<Fields>) -> Read<Option<update::Meta>> {
    let Some(mut it) = it else { return Ok(None) };
    Ok(Some(update::Meta {
        update_id: it.text("updateId")?,
        identity: it.text("identity")?,
    }))
}

fn outcome(it: Option<Fields>) -> Read<Option<update::Outcome>> {
    use update::outcome::Value;
    let Some(mut it) = it else { return Ok(None) };
    let value = match it.message("success")? {
        Some(result) => Some(Value::Success(result)),
        None => it.message("failure")?.map(Value::Failure),
    };
    Ok(Some(update::Outcome { value }))
}
