//! Temporal's names of events, causes and states, as its enums spell them.

use alloc::format;
use alloc::string::String;

use crate::event::{EventKind, TaskFailedCause};
use crate::failure::{RetryState, TimeoutKind};

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
