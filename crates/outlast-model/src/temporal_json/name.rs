//! Temporal's names of events, causes and states, as its enums spell them.

use alloc::format;
use alloc::string::String;

use crate::event::{DeliveryFailedCause, EventKind, StartFailedCause, TaskFailedCause};
use crate::failure::{RetryState, TimeoutKind};
use crate::options::ParentClose;
use crate::start::ReusePolicy;

/// Why a run that ended was not run again: ours never are.
pub(super) const NOT_RETRIED: &str = "RETRY_STATE_RETRY_POLICY_NOT_SET";
/// The same, of a run that ran out of time.
pub(super) const OUT_OF_TIME: &str = "RETRY_STATE_TIMEOUT";
/// Who asked for a new run: its code.
pub(super) const CONTINUED_BY_WORKFLOW: &str = "CONTINUE_AS_NEW_INITIATOR_WORKFLOW";

/// The name of `EventType`: `WorkflowTaskScheduled` is `EVENT_TYPE_WORKFLOW_TASK_SCHEDULED`.
pub(super) fn event_type(kind: &EventKind) -> String {
    let mut name = String::from("EVENT_TYPE");
    for c in kind.name().chars() {
        if c.is_ascii_uppercase() {
            name.push('_');
        }
        name.push(c.to_ascii_uppercase());
    }
    name
}

/// The field that holds an event's attributes: `workflowTaskScheduledEventAttributes`.
pub(super) fn attributes(kind: &EventKind) -> String {
    let (first, rest) = kind.name().split_at(1);
    format!("{}{rest}EventAttributes", first.to_ascii_lowercase())
}

/// Temporal has no name for ours alone; the failure beside it says what happened.
pub(super) fn task_failed_cause(cause: TaskFailedCause) -> &'static str {
    match cause {
        TaskFailedCause::WorkerUnhandledFailure
        | TaskFailedCause::Stuck
        | TaskFailedCause::Quarantined => {
            "WORKFLOW_TASK_FAILED_CAUSE_WORKFLOW_WORKER_UNHANDLED_FAILURE"
        }
        TaskFailedCause::NonDeterminism => "WORKFLOW_TASK_FAILED_CAUSE_NON_DETERMINISTIC_ERROR",
        TaskFailedCause::UnhandledCommand => "WORKFLOW_TASK_FAILED_CAUSE_UNHANDLED_COMMAND",
        TaskFailedCause::BadCommand => {
            "WORKFLOW_TASK_FAILED_CAUSE_BAD_SCHEDULE_ACTIVITY_ATTRIBUTES"
        }
    }
}

pub(super) fn retry_state(state: RetryState) -> &'static str {
    match state {
        RetryState::InProgress => "RETRY_STATE_IN_PROGRESS",
        RetryState::NonRetryableFailure => "RETRY_STATE_NON_RETRYABLE_FAILURE",
        RetryState::Timeout => "RETRY_STATE_TIMEOUT",
        RetryState::MaximumAttemptsReached => "RETRY_STATE_MAXIMUM_ATTEMPTS_REACHED",
        RetryState::RetryPolicyNotSet => "RETRY_STATE_RETRY_POLICY_NOT_SET",
        RetryState::CancelRequested => "RETRY_STATE_CANCEL_REQUESTED",
    }
}

pub(super) fn timeout_type(kind: TimeoutKind) -> &'static str {
    match kind {
        TimeoutKind::StartToClose => "TIMEOUT_TYPE_START_TO_CLOSE",
        TimeoutKind::ScheduleToStart => "TIMEOUT_TYPE_SCHEDULE_TO_START",
        TimeoutKind::ScheduleToClose => "TIMEOUT_TYPE_SCHEDULE_TO_CLOSE",
        TimeoutKind::Heartbeat => "TIMEOUT_TYPE_HEARTBEAT",
    }
}

pub(super) fn parent_close(policy: ParentClose) -> &'static str {
    match policy {
        ParentClose::Terminate => "PARENT_CLOSE_POLICY_TERMINATE",
        ParentClose::Abandon => "PARENT_CLOSE_POLICY_ABANDON",
        ParentClose::RequestCancel => "PARENT_CLOSE_POLICY_REQUEST_CANCEL",
    }
}

/// Temporal cannot answer with the ended run; what it has in common with ours is that none is
/// started.
pub(super) fn reuse(policy: ReusePolicy) -> &'static str {
    match policy {
        ReusePolicy::AllowDuplicate => "WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE",
        ReusePolicy::AllowDuplicateFailedOnly => {
            "WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE_FAILED_ONLY"
        }
        ReusePolicy::RejectDuplicate | ReusePolicy::UseExisting => {
            "WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE"
        }
    }
}

/// A Temporal server starts a child whose type no worker has; an export says only that it did
/// not start.
pub(super) fn start_failed_cause(cause: StartFailedCause) -> &'static str {
    match cause {
        StartFailedCause::AlreadyExists => {
            "START_CHILD_WORKFLOW_EXECUTION_FAILED_CAUSE_WORKFLOW_ALREADY_EXISTS"
        }
        StartFailedCause::NotRegistered => {
            "START_CHILD_WORKFLOW_EXECUTION_FAILED_CAUSE_UNSPECIFIED"
        }
    }
}

pub(super) fn signal_failed_cause(cause: DeliveryFailedCause) -> &'static str {
    match cause {
        DeliveryFailedCause::NotFound => {
            "SIGNAL_EXTERNAL_WORKFLOW_EXECUTION_FAILED_CAUSE_EXTERNAL_WORKFLOW_EXECUTION_NOT_FOUND"
        }
        DeliveryFailedCause::HistoryFull => {
            "SIGNAL_EXTERNAL_WORKFLOW_EXECUTION_FAILED_CAUSE_SIGNAL_COUNT_LIMIT_EXCEEDED"
        }
    }
}

/// Temporal knows no limit for requests to stop.
pub(super) fn cancel_failed_cause(cause: DeliveryFailedCause) -> &'static str {
    match cause {
        DeliveryFailedCause::NotFound => {
            "CANCEL_EXTERNAL_WORKFLOW_EXECUTION_FAILED_CAUSE_EXTERNAL_WORKFLOW_EXECUTION_NOT_FOUND"
        }
        DeliveryFailedCause::HistoryFull => {
            "CANCEL_EXTERNAL_WORKFLOW_EXECUTION_FAILED_CAUSE_UNSPECIFIED"
        }
    }
}
