//! Failures, with their chains of causes, so that other SDKs read ours and we read theirs.
//!
//! An activity and a child are named by their number in Outlast and by an id in Temporal; the id
//! of an activity of ours is its number. Kinds that Outlast has no word for become application
//! failures of their name.

use outlast_model::failure::{Failure, FailureKind, RetryState, TimeoutKind};
use outlast_model::{ActivityType, Seq, WorkflowId, WorkflowType, limits};

use super::{payload, time};
use crate::proto::failure::failure::FailureInfo;
use crate::proto::{common, enums, failure as wire};

/// What other SDKs show as the origin.
const SOURCE: &str = "Outlast";

pub(crate) fn to_wire(failure: &Failure) -> wire::Failure {
    wire::Failure {
        message: failure.message.clone(),
        source: SOURCE.to_owned(),
        stack_trace: failure.trace.clone().unwrap_or_default(),
        encoded_attributes: None,
        cause: failure.cause.as_ref().map(|cause| Box::new(to_wire(cause))),
        failure_info: Some(info(&failure.kind)),
    }
}

fn info(kind: &FailureKind) -> FailureInfo {
    match kind {
        FailureKind::Application {
            type_name,
            non_retryable,
            details,
            next_retry_delay,
        } => FailureInfo::ApplicationFailureInfo(wire::ApplicationFailureInfo {
            r#type: type_name.clone(),
            non_retryable: *non_retryable,
            details: details.as_ref().map(payload::list),
            next_retry_delay: next_retry_delay.map(time::duration),
            ..wire::ApplicationFailureInfo::default()
        }),
        FailureKind::Timeout {
            kind,
            last_heartbeat,
        } => FailureInfo::TimeoutFailureInfo(wire::TimeoutFailureInfo {
            timeout_type: timeout_type(*kind).into(),
            last_heartbeat_details: last_heartbeat.as_ref().map(payload::list),
        }),
        FailureKind::Canceled { details } => {
            FailureInfo::CanceledFailureInfo(wire::CanceledFailureInfo {
                details: details.as_ref().map(payload::list),
                ..wire::CanceledFailureInfo::default()
            })
        }
        FailureKind::Terminated => {
            FailureInfo::TerminatedFailureInfo(wire::TerminatedFailureInfo::default())
        }
        FailureKind::Server { non_retryable } => {
            let non_retryable = *non_retryable;
            FailureInfo::ServerFailureInfo(wire::ServerFailureInfo { non_retryable })
        }
        FailureKind::Activity {
            activity_type,
            seq,
            retry_state: state,
        } => FailureInfo::ActivityFailureInfo(wire::ActivityFailureInfo {
            activity_type: Some(common::ActivityType {
                name: activity_type.as_str().to_owned(),
            }),
            activity_id: seq.to_string(),
            retry_state: retry_state(*state).into(),
            ..wire::ActivityFailureInfo::default()
        }),
        FailureKind::Child {
            workflow_id,
            workflow_type,
            seq: _,
        } => FailureInfo::ChildWorkflowExecutionFailureInfo(
            wire::ChildWorkflowExecutionFailureInfo {
                workflow_execution: Some(common::WorkflowExecution {
                    workflow_id: workflow_id.as_str().to_owned(),
                    run_id: String::new(),
                }),
                workflow_type: Some(common::WorkflowType {
                    name: workflow_type.as_str().to_owned(),
                }),
                retry_state: enums::RetryState::RetryPolicyNotSet.into(),
                ..wire::ChildWorkflowExecutionFailureInfo::default()
            },
        ),
    }
}

/// Our failure; a chain over the limit loses its innermost links.
pub(crate) fn from_wire(failure: wire::Failure) -> Failure {
    let mut links = Vec::new();
    let mut next = Some(failure);
    while let Some(mut failure) = next.take().filter(|_| links.len() < limits::FAILURE_CAUSES) {
        next = failure.cause.take().map(|cause| *cause);
        links.push(link(failure));
    }
    let mut links = links.into_iter().rev();
    let innermost = links.next();
    let chained =
        innermost.map(|innermost| links.fold(innermost, |cause, link| link.caused_by(cause)));
    chained.unwrap_or_else(unknown)
}

/// A failure that may be absent where the protocol demands one.
pub(crate) fn or_unknown(failure: Option<wire::Failure>) -> Failure {
    failure.map_or_else(unknown, from_wire)
}

fn unknown() -> Failure {
    Failure::application("", "the cluster gave no reason")
}

fn link(failure: wire::Failure) -> Failure {
    let link = Failure::new(kind(failure.failure_info), failure.message);
    if failure.stack_trace.is_empty() {
        return link;
    }
    link.at(failure.stack_trace)
}

fn kind(info: Option<FailureInfo>) -> FailureKind {
    match info {
        Some(FailureInfo::ApplicationFailureInfo(info)) => FailureKind::Application {
            type_name: info.r#type,
            non_retryable: info.non_retryable,
            details: payload::detail(info.details),
            next_retry_delay: time::given(info.next_retry_delay),
        },
        Some(FailureInfo::TimeoutFailureInfo(info)) => FailureKind::Timeout {
            kind: timeout_kind(info.timeout_type()),
            last_heartbeat: payload::detail(info.last_heartbeat_details),
        },
        Some(FailureInfo::CanceledFailureInfo(info)) => FailureKind::Canceled {
            details: payload::detail(info.details),
        },
        Some(FailureInfo::TerminatedFailureInfo(_)) => FailureKind::Terminated,
        Some(FailureInfo::ServerFailureInfo(info)) => FailureKind::Server {
            non_retryable: info.non_retryable,
        },
        Some(FailureInfo::ActivityFailureInfo(info)) => FailureKind::Activity {
            retry_state: retry_state_of(info.retry_state()),
            activity_type: ActivityType::new(info.activity_type.unwrap_or_default().name),
            seq: seq(&info.activity_id),
        },
        Some(FailureInfo::ChildWorkflowExecutionFailureInfo(info)) => FailureKind::Child {
            workflow_id: WorkflowId::new(info.workflow_execution.unwrap_or_default().workflow_id),
            workflow_type: WorkflowType::new(info.workflow_type.unwrap_or_default().name),
            seq: Seq(0),
        },
        Some(FailureInfo::ResetWorkflowFailureInfo(_)) => application("ResetWorkflow"),
        Some(FailureInfo::NexusOperationExecutionFailureInfo(_)) => application("NexusOperation"),
        Some(FailureInfo::NexusHandlerFailureInfo(_)) => application("NexusHandler"),
        None => application(""),
    }
}

fn application(type_name: &str) -> FailureKind {
    FailureKind::Application {
        type_name: type_name.to_owned(),
        non_retryable: false,
        details: None,
        next_retry_delay: None,
    }
}

/// The number behind an id of ours; 0 for an id of another SDK.
pub(crate) fn seq(id: &str) -> Seq {
    Seq(id.parse().unwrap_or(0))
}

pub(crate) fn timeout_type(kind: TimeoutKind) -> enums::TimeoutType {
    match kind {
        TimeoutKind::StartToClose => enums::TimeoutType::StartToClose,
        TimeoutKind::ScheduleToStart => enums::TimeoutType::ScheduleToStart,
        TimeoutKind::ScheduleToClose => enums::TimeoutType::ScheduleToClose,
        TimeoutKind::Heartbeat => enums::TimeoutType::Heartbeat,
    }
}

fn timeout_kind(kind: enums::TimeoutType) -> TimeoutKind {
    match kind {
        enums::TimeoutType::Unspecified | enums::TimeoutType::StartToClose => {
            TimeoutKind::StartToClose
        }
        enums::TimeoutType::ScheduleToStart => TimeoutKind::ScheduleToStart,
        enums::TimeoutType::ScheduleToClose => TimeoutKind::ScheduleToClose,
        enums::TimeoutType::Heartbeat => TimeoutKind::Heartbeat,
    }
}

pub(crate) fn retry_state(state: RetryState) -> enums::RetryState {
    match state {
        RetryState::InProgress => enums::RetryState::InProgress,
        RetryState::NonRetryableFailure => enums::RetryState::NonRetryableFailure,
        RetryState::Timeout => enums::RetryState::Timeout,
        RetryState::MaximumAttemptsReached => enums::RetryState::MaximumAttemptsReached,
        RetryState::RetryPolicyNotSet => enums::RetryState::RetryPolicyNotSet,
        RetryState::CancelRequested => enums::RetryState::CancelRequested,
    }
}

pub(crate) fn retry_state_of(state: enums::RetryState) -> RetryState {
    match state {
        enums::RetryState::InProgress => RetryState::InProgress,
        enums::RetryState::NonRetryableFailure | enums::RetryState::InternalServerError => {
            RetryState::NonRetryableFailure
        }
        enums::RetryState::Timeout => RetryState::Timeout,
        enums::RetryState::MaximumAttemptsReached => RetryState::MaximumAttemptsReached,
        enums::RetryState::Unspecified | enums::RetryState::RetryPolicyNotSet => {
            RetryState::RetryPolicyNotSet
        }
        enums::RetryState::CancelRequested => RetryState::CancelRequested,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use outlast_model::Payload;
    use std::time::Duration;

    fn kinds() -> Vec<FailureKind> {
        let details = || Some(Payload::encode(&vec![1, 2]).expect("encodes"));
        vec![
            FailureKind::Application {
                type_name: "NoFunds".into(),
                non_retryable: true,
                details: details(),
                next_retry_delay: Some(Duration::from_millis(1_500)),
            },
            FailureKind::Timeout {
                kind: TimeoutKind::Heartbeat,
                last_heartbeat: details(),
            },
            FailureKind::Canceled { details: details() },
            FailureKind::Canceled { details: None },
            FailureKind::Terminated,
            FailureKind::Server {
                non_retryable: true,
            },
            FailureKind::Activity {
                activity_type: "charge".into(),
                seq: Seq(4),
                retry_state: RetryState::MaximumAttemptsReached,
            },
            FailureKind::Child {
                workflow_id: "child-1".into(),
                workflow_type: "ship".into(),
                seq: Seq(0),
            },
        ]
    }

    #[test]
    fn every_kind_survives_alone_and_as_a_chain() {
        let links: Vec<Failure> = kinds()
            .into_iter()
            .map(|kind| Failure::new(kind, "what happened").at("src/main.rs:7"))
            .collect();
        for link in &links {
            assert_eq!(from_wire(to_wire(link)), *link);
        }
        let chain = links
            .into_iter()
            .rev()
            .reduce(|cause, link| link.caused_by(cause));
        let chain = chain.expect("some links");
        assert_eq!(from_wire(to_wire(&chain)), chain);
    }

    #[test]
    fn timeouts_and_reasons_survive() {
        for kind in [
            TimeoutKind::StartToClose,
            TimeoutKind::ScheduleToStart,
            TimeoutKind::ScheduleToClose,
            TimeoutKind::Heartbeat,
        ] {
            assert_eq!(timeout_kind(timeout_type(kind)), kind);
        }
        for state in [
            RetryState::InProgress,
            RetryState::NonRetryableFailure,
            RetryState::Timeout,
            RetryState::MaximumAttemptsReached,
            RetryState::RetryPolicyNotSet,
            RetryState::CancelRequested,
        ] {
            assert_eq!(retry_state_of(retry_state(state)), state);
        }
    }

    #[test]
    fn a_failure_without_a_kind_and_a_long_chain_are_read_all_the_same() {
        let mut deep = wire::Failure::default();
        for _ in 0..90 {
            deep = wire::Failure {
                message: "again".into(),
                cause: Some(Box::new(deep)),
                ..wire::Failure::default()
            };
        }
        let read = from_wire(deep);
        assert_eq!(read.chain().count(), limits::FAILURE_CAUSES);
        assert_eq!(read.type_name(), Some(""));
    }
}
