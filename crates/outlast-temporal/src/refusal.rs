//! What the cluster says in gRPC codes and details, as refusals: one per remedy.

use outlast_model::status::Status as RunStatus;
use outlast_model::view::RunRef;
use outlast_model::{Refusal, RunId};
use temporalio_client::tonic::{Code, Status};
use temporalio_common::protos::utilities::decode_status_detail;

use crate::convert::{failure, some_run_id};
use crate::proto::errordetails::{
    NamespaceNotFoundFailure, QueryFailedFailure, WorkflowExecutionAlreadyStartedFailure,
};

/// What any call may meet.
pub(crate) fn general(status: &Status, namespace: &str) -> Refusal {
    let reason = status.message().to_owned();
    match status.code() {
        Code::Unauthenticated | Code::PermissionDenied => Refusal::Denied { reason },
        Code::NotFound if is_namespace(status) => Refusal::NoNamespace {
            namespace: namespace.to_owned(),
        },
        Code::NotFound => Refusal::NotFound { what: reason },
        Code::Unimplemented => Refusal::TooOld {
            reason,
            minimum: crate::connect::MINIMUM,
        },
        // The request may have arrived.
        Code::DeadlineExceeded
        | Code::Cancelled
        | Code::Unknown
        | Code::Internal
        | Code::Aborted
        | Code::DataLoss => Refusal::Indeterminate { reason },
        Code::Unavailable
        | Code::ResourceExhausted
        | Code::FailedPrecondition
        | Code::InvalidArgument
        | Code::OutOfRange
        | Code::AlreadyExists
        | Code::Ok => Refusal::Unavailable { reason },
    }
}

/// The detail has no fields of its own kind to tell it by, so the text decides as well.
fn is_namespace(status: &Status) -> bool {
    let text = status.message().to_ascii_lowercase();
    let named = decode_status_detail::<NamespaceNotFoundFailure>(status.details());
    text.contains("namespace") && (text.contains("not found") || named.is_some())
}

/// A run that is not there, or not open any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Absent {
    /// It has ended.
    Closed,
    /// There is none.
    Missing,
}

/// Whether the run is the reason.
pub(crate) fn absent(status: &Status) -> Option<Absent> {
    if status.code() != Code::NotFound || is_namespace(status) {
        return None;
    }
    let text = status.message().to_ascii_lowercase();
    Some(if text.contains("already completed") {
        Absent::Closed
    } else {
        Absent::Missing
    })
}

/// There is no such run.
pub(crate) fn missing(run: &RunRef) -> Refusal {
    let what = match run.run_id {
        Some(run_id) => format!("{} {run_id}", run.workflow_id),
        None => run.workflow_id.to_string(),
    };
    Refusal::NotFound { what }
}

/// The run has ended.
pub(crate) fn closed(run: &RunRef, run_id: RunId, status: RunStatus) -> Refusal {
    Refusal::RunClosed {
        workflow_id: run.workflow_id.clone(),
        run_id,
        status,
    }
}

/// The run that has the id, if that is why.
pub(crate) fn taken_by(status: &Status) -> Option<RunId> {
    if status.code() != Code::AlreadyExists {
        return None;
    }
    let detail = decode_status_detail::<WorkflowExecutionAlreadyStartedFailure>(status.details())?;
    some_run_id(&detail.run_id)
}

/// A query that failed, or a run that cannot answer.
pub(crate) fn query(status: &Status, run: &RunRef, query: &str, namespace: &str) -> Refusal {
    match status.code() {
        Code::InvalidArgument => {
            let detail = decode_status_detail::<QueryFailedFailure>(status.details());
            let failure = detail.and_then(|detail| detail.failure);
            let failure = failure.map_or_else(
                || outlast_model::Failure::application("", status.message()),
                failure::from_wire,
            );
            Refusal::QueryFailed {
                workflow_id: run.workflow_id.clone(),
                query: query.to_owned(),
                failure: Box::new(failure),
            }
        }
        Code::FailedPrecondition | Code::DeadlineExceeded => not_ready(status, run),
        _ => match absent(status) {
            Some(_) => missing(run),
            None => general(status, namespace),
        },
    }
}

/// The run's code cannot go on, or nobody runs it.
pub(crate) fn not_ready(status: &Status, run: &RunRef) -> Refusal {
    Refusal::NotReady {
        workflow_id: run.workflow_id.clone(),
        run_id: run.run_id.unwrap_or_default(),
        why: status.message().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(code: Code, text: &str) -> &'static str {
        general(&Status::new(code, text), "orders").code()
    }

    #[test]
    fn codes_become_remedies() {
        assert_eq!(code(Code::Unauthenticated, "no key"), "OL-4001");
        assert_eq!(code(Code::PermissionDenied, "not yours"), "OL-4001");
        assert_eq!(
            code(Code::NotFound, "Namespace orders is not found."),
            "OL-4002"
        );
        assert_eq!(code(Code::NotFound, "workflow not found"), "OL-1005");
        assert_eq!(code(Code::Unimplemented, "unknown method"), "OL-4003");
        assert_eq!(code(Code::Unavailable, "connection refused"), "OL-2003");
        assert_eq!(code(Code::DeadlineExceeded, "too late"), "OL-2002");
    }

    #[test]
    fn an_ended_run_is_told_from_one_that_never_was() {
        let found = |text| absent(&Status::new(Code::NotFound, text));
        assert_eq!(
            found("workflow execution already completed"),
            Some(Absent::Closed)
        );
        assert_eq!(found("workflow not found for ID: x"), Some(Absent::Missing));
        assert_eq!(found("Namespace x is not found."), None);
    }
}
