//! The life of workflow tasks in a history, and the markers that they leave.

use outlast_model::event::{EventKind, Site, StepRecorded, TaskFailedCause};
use outlast_model::failure::{Failure, FailureKind, RetryState, TimeoutKind};
use outlast_model::job::Resolution;
use outlast_model::{Attempt, PatchId, Payload, Seq, StepName};
use temporalio_common::protos::constants::{LOCAL_ACTIVITY_MARKER_NAME, PATCH_MARKER_NAME};

use super::super::{Unsupported, failure, payload, time};
use super::{between, not};
use crate::proto::core::external_data::{LocalActivityMarkerData, PatchedMarkerData};
use crate::proto::history::history_event::Attributes;
use crate::proto::{common, enums, history as wire};

/// How a run ended.
pub(super) fn closed(event: Attributes) -> Result<EventKind, Unsupported> {
    use Attributes as A;
    Ok(match event {
        A::WorkflowExecutionCompletedEventAttributes(it) => EventKind::Completed {
            result: payload::input_of(it.result),
        },
        A::WorkflowExecutionFailedEventAttributes(it) => EventKind::Failed {
            failure: failure::or_unknown(it.failure),
        },
        A::WorkflowExecutionTimedOutEventAttributes(_) => EventKind::TimedOut,
        A::WorkflowExecutionCanceledEventAttributes(_) => EventKind::Canceled,
        A::WorkflowExecutionTerminatedEventAttributes(it) => {
            EventKind::Terminated { reason: it.reason }
        }
        A::WorkflowExecutionContinuedAsNewEventAttributes(it) => between::continued(it)?,
        other => return Err(not(&other, "the end of a run")),
    })
}

/// What became of a timer.
pub(super) fn timer(event: Attributes) -> Result<EventKind, Unsupported> {
    use Attributes as A;
    Ok(match event {
        A::TimerStartedEventAttributes(it) => EventKind::TimerStarted {
            seq: failure::seq(&it.timer_id),
            delay: time::exactly(it.start_to_fire_timeout.unwrap_or_default()),
            site: Site::default(),
        },
        A::TimerFiredEventAttributes(it) => EventKind::TimerFired {
            seq: failure::seq(&it.timer_id),
        },
        A::TimerCanceledEventAttributes(it) => EventKind::TimerCanceled {
            seq: failure::seq(&it.timer_id),
        },
        other => return Err(not(&other, "about a timer")),
    })
}

pub(super) fn failed(it: wire::WorkflowTaskFailedEventAttributes) -> EventKind {
    use enums::WorkflowTaskFailedCause as Cause;
    let cause = match it.cause() {
        Cause::NonDeterministicError => TaskFailedCause::NonDeterminism,
        Cause::UnhandledCommand => TaskFailedCause::UnhandledCommand,
        Cause::Unspecified
        | Cause::WorkflowWorkerUnhandledFailure
        | Cause::ResetStickyTaskQueue
        | Cause::ForceCloseCommand
        | Cause::FailoverCloseCommand
        | Cause::ResetWorkflow
        | Cause::UnhandledUpdate
        | Cause::WorkflowPauseRequestedBeforeTaskStarted => TaskFailedCause::WorkerUnhandledFailure,
        Cause::BadScheduleActivityAttributes
        | Cause::BadRequestCancelActivityAttributes
        | Cause::BadStartTimerAttributes
        | Cause::BadCancelTimerAttributes
        | Cause::BadRecordMarkerAttributes
        | Cause::BadCompleteWorkflowExecutionAttributes
        | Cause::BadFailWorkflowExecutionAttributes
        | Cause::BadCancelWorkflowExecutionAttributes
        | Cause::BadRequestCancelExternalWorkflowExecutionAttributes
        | Cause::BadContinueAsNewAttributes
        | Cause::StartTimerDuplicateId
        | Cause::BadSignalWorkflowExecutionAttributes
        | Cause::BadStartChildExecutionAttributes
        | Cause::BadSignalInputSize
        | Cause::BadBinary
        | Cause::ScheduleActivityDuplicateId
        | Cause::BadSearchAttributes
        | Cause::BadModifyWorkflowPropertiesAttributes
        | Cause::PendingChildWorkflowsLimitExceeded
        | Cause::PendingActivitiesLimitExceeded
        | Cause::PendingSignalsLimitExceeded
        | Cause::PendingRequestCancelLimitExceeded
        | Cause::BadUpdateWorkflowExecutionMessage
        | Cause::BadScheduleNexusOperationAttributes
        | Cause::PendingNexusOperationsLimitExceeded
        | Cause::BadRequestCancelNexusOperationAttributes
        | Cause::FeatureDisabled
        | Cause::GrpcMessageTooLarge
        | Cause::PayloadsTooLarge
        | Cause::ExternalStorageFailure
        | Cause::RequestTooLarge => TaskFailedCause::BadCommand,
    };
    let failure = failure::or_unknown(it.failure);
    EventKind::TaskFailed { cause, failure }
}

/// Outlast's tasks do not time out; the code hears of neither.
pub(super) fn timed_out(it: &wire::WorkflowTaskTimedOutEventAttributes) -> EventKind {
    let kind = match it.timeout_type() {
        enums::TimeoutType::ScheduleToStart => TimeoutKind::ScheduleToStart,
        enums::TimeoutType::Unspecified
        | enums::TimeoutType::StartToClose
        | enums::TimeoutType::ScheduleToClose
        | enums::TimeoutType::Heartbeat => TimeoutKind::StartToClose,
    };
    EventKind::TaskFailed {
        cause: TaskFailedCause::WorkerUnhandledFailure,
        failure: Failure::timeout(kind, None),
    }
}

pub(super) fn marker(
    mut it: wire::MarkerRecordedEventAttributes,
) -> Result<EventKind, Unsupported> {
    let mut detail = |key: &str| it.details.remove(key);
    match it.marker_name.as_str() {
        PATCH_MARKER_NAME => {
            let data: PatchedMarkerData = read(detail("patch-data"), "a patch marker")?;
            Ok(EventKind::Patched {
                id: PatchId::new(data.id),
                is_deprecated: data.deprecated,
                site: Site::default(),
            })
        }
        LOCAL_ACTIVITY_MARKER_NAME => {
            let data: LocalActivityMarkerData = read(detail("data"), "the marker of a step")?;
            let outcome = match it.failure.take() {
                Some(why) => ended(failure::from_wire(why)),
                None => Resolution::Completed(payload::input_of(detail("result"))),
            };
            Ok(EventKind::StepRecorded(Box::new(step(data, outcome))))
        }
        other => Err(Unsupported::kind(format!("a marker {other:?}"))),
    }
}

fn read<T: serde::de::DeserializeOwned>(
    details: Option<common::Payloads>,
    what: &'static str,
) -> Result<T, Unsupported> {
    let missing = || Unsupported::Missing {
        what,
        field: "details",
    };
    let payload: Payload = payload::detail(details).ok_or_else(missing)?;
    payload.decode().map_err(|_| missing())
}

fn step(data: LocalActivityMarkerData, outcome: Resolution) -> StepRecorded {
    StepRecorded {
        seq: Seq(data.seq),
        name: StepName::new(data.activity_type),
        attempt: Attempt(data.attempt),
        outcome,
        activation: data
            .activation_index
            .and_then(|index| u32::try_from(index).ok())
            .unwrap_or(0),
        site: Site::default(),
    }
}

/// The core may have wrapped what happened in the step it happened to.
fn ended(failure: Failure) -> Resolution {
    let inner = match (&failure.kind, &failure.cause) {
        (FailureKind::Activity { retry_state, .. }, Some(cause)) => (cause.clone(), *retry_state),
        (
            FailureKind::Activity { .. }
            | FailureKind::Application { .. }
            | FailureKind::Timeout { .. }
            | FailureKind::Canceled { .. }
            | FailureKind::Terminated
            | FailureKind::Server { .. }
            | FailureKind::Child { .. },
            _,
        ) => (failure, RetryState::RetryPolicyNotSet),
    };
    match &inner.0.kind {
        FailureKind::Canceled { details } => Resolution::Canceled(details.clone()),
        FailureKind::Activity { .. }
        | FailureKind::Application { .. }
        | FailureKind::Timeout { .. }
        | FailureKind::Terminated
        | FailureKind::Server { .. }
        | FailureKind::Child { .. } => Resolution::Failed(inner.0, inner.1),
    }
}
