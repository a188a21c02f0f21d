//! Attempts: what the core hands out to run, and how it ended.

use std::time::Duration;

use outlast_model::failure::{Failure, FailureKind, type_name};
use outlast_model::task::{
    ActivityTask, AttemptKind, AttemptResult, AttemptToken, RunNo, StepTask, StopReason,
};
use outlast_model::{ActivityType, Attempt, Incarnation, QueueName, StepName, WorkflowId};
use outlast_worker::handle::{BackendToken, PolledActivity, PolledAttempt};

use super::{Unsupported, failure, headers, payload, run_id, time};
use crate::proto::core::activity_result::{
    ActivityExecutionResult, Cancellation, Failure as Failed, Success, WillCompleteAsync,
    activity_execution_result,
};
use crate::proto::core::activity_task::{
    ActivityCancelReason, ActivityTask as Wire, Start, activity_task,
};

/// Zero would mean that the policy decides.
const AT_ONCE: Duration = Duration::from_millis(1);

/// An attempt to run or to stop.
pub(crate) fn polled(wire: Wire, queue: &QueueName) -> Result<PolledActivity, Unsupported> {
    let token = BackendToken(wire.task_token);
    match wire.variant {
        Some(activity_task::Variant::Start(start)) => {
            Ok(PolledActivity::Start(token, attempt(start, queue)?))
        }
        Some(activity_task::Variant::Cancel(cancel)) => {
            Ok(PolledActivity::Cancel(token, stop_reason(cancel.reason())))
        }
        None => Err(Unsupported::Missing {
            what: "an activity task",
            field: "kind",
        }),
    }
}

fn attempt(start: Start, queue: &QueueName) -> Result<PolledAttempt, Unsupported> {
    let execution = start.workflow_execution.unwrap_or_default();
    let run_id = run_id(&execution.run_id)?;
    let kind = if start.is_local {
        AttemptKind::Step
    } else {
        AttemptKind::Activity
    };
    let token = AttemptToken {
        shard: 0,
        run: RunNo(0),
        kind,
        seq: failure::seq(&start.activity_id),
        attempt: Attempt(start.attempt),
        incarnation: Incarnation::default(),
    };
    if start.is_local {
        let name = StepName::new(start.activity_type);
        return Ok(PolledAttempt::Step(StepTask {
            token,
            run_id,
            name,
            queue: queue.clone(),
        }));
    }
    let heartbeat = start.heartbeat_details;
    Ok(PolledAttempt::Activity(Box::new(ActivityTask {
        token,
        run_id,
        workflow_id: WorkflowId::new(execution.workflow_id),
        queue: queue.clone(),
        activity_type: ActivityType::new(start.activity_type),
        input: payload::input(start.input),
        headers: headers::from_wire(start.header_fields),
        heartbeat_details: (!heartbeat.is_empty()).then(|| payload::input(heartbeat)),
        scheduled: time::time(start.scheduled_time),
        start_to_close: time::given(start.start_to_close_timeout),
        heartbeat: time::given(start.heartbeat_timeout),
    })))
}

fn stop_reason(reason: ActivityCancelReason) -> StopReason {
    match reason {
        ActivityCancelReason::NotFound => StopReason::NotFound,
        ActivityCancelReason::Cancelled => StopReason::Cancelled,
        ActivityCancelReason::Paused => StopReason::Paused,
        ActivityCancelReason::Reset => StopReason::Reset,
        ActivityCancelReason::TimedOut => StopReason::TimedOut,
        ActivityCancelReason::WorkerShutdown => StopReason::Shutdown,
    }
}

/// Who wanted an attempt to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// The cluster: it takes `cancelled` for an answer.
    ByCluster,
    /// Only this worker, or nobody: the cluster would refuse it.
    Not,
}

/// Whether an attempt did not come to an end of its own: its worker goes down.
pub(crate) fn is_handed_back(result: &AttemptResult, asked: Asked) -> bool {
    match (result, asked) {
        (AttemptResult::HandedBack, Asked::ByCluster | Asked::Not)
        | (AttemptResult::Canceled(_), Asked::Not) => true,
        (
            AttemptResult::Completed(_) | AttemptResult::Failed(_) | AttemptResult::Later,
            Asked::ByCluster | Asked::Not,
        )
        | (AttemptResult::Canceled(_), Asked::ByCluster) => false,
    }
}

/// How an attempt ended. One that is handed back has failed, and is due again at once: the
/// cluster has no other word for it.
pub(crate) fn result(result: AttemptResult, asked: Asked) -> ActivityExecutionResult {
    use activity_execution_result::Status;
    let status = match (result, asked) {
        (AttemptResult::Completed(done), Asked::ByCluster | Asked::Not) => {
            Status::Completed(Success {
                result: Some(payload::to_wire(&done)),
            })
        }
        (AttemptResult::Failed(why), Asked::ByCluster | Asked::Not) => failed(&why),
        (AttemptResult::Later, Asked::ByCluster | Asked::Not) => {
            Status::WillCompleteAsync(WillCompleteAsync {})
        }
        (AttemptResult::Canceled(details), Asked::ByCluster) => {
            let kind = FailureKind::Canceled { details };
            let why = Failure::new(kind, "the attempt was cancelled");
            Status::Cancelled(Cancellation {
                failure: Some(failure::to_wire(&why)),
            })
        }
        (AttemptResult::Canceled(_), Asked::Not)
        | (AttemptResult::HandedBack, Asked::ByCluster | Asked::Not) => failed(&handed_back()),
    };
    ActivityExecutionResult {
        status: Some(status),
    }
}

fn handed_back() -> Failure {
    let kind = FailureKind::Application {
        type_name: type_name::WORKER_LOST.to_owned(),
        non_retryable: false,
        details: None,
        next_retry_delay: Some(AT_ONCE),
    };
    Failure::new(kind, "the worker went down while the attempt ran")
}

fn failed(why: &Failure) -> activity_execution_result::Status {
    activity_execution_result::Status::Failed(Failed {
        failure: Some(failure::to_wire(why)),
        ..Failed::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::common;
    use outlast_model::{Payload, Seq};

    const RUN: &str = "0191f0c0-0000-7000-8000-000000000001";

    fn start(is_local: bool) -> Start {
        Start {
            workflow_execution: Some(common::WorkflowExecution {
                workflow_id: "order-1".into(),
                run_id: RUN.into(),
            }),
            activity_id: "3".into(),
            activity_type: "charge".into(),
            attempt: 2,
            is_local,
            ..Start::default()
        }
    }

    fn polled_start(start: Start) -> PolledAttempt {
        let wire = Wire {
            task_token: vec![1],
            variant: Some(activity_task::Variant::Start(start)),
        };
        match polled(wire, &QueueName::new("q")).expect("converts") {
            PolledActivity::Start(_, attempt) => attempt,
            other @ PolledActivity::Cancel(..) => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_activity_and_a_step_are_told_apart() {
        let PolledAttempt::Activity(task) = polled_start(start(false)) else {
            panic!("not an activity");
        };
        assert_eq!(task.token.seq, Seq(3));
        assert_eq!(task.token.attempt, Attempt(2));
        assert_eq!(task.workflow_id.as_str(), "order-1");
        assert_eq!(task.heartbeat_details, None);
        let PolledAttempt::Step(step) = polled_start(start(true)) else {
            panic!("not a step");
        };
        assert_eq!(step.token.kind, AttemptKind::Step);
        assert_eq!(step.name.as_str(), "charge");
    }

    #[test]
    fn every_reason_to_stop_is_told() {
        let told = |reason: ActivityCancelReason| stop_reason(reason);
        assert_eq!(told(ActivityCancelReason::NotFound), StopReason::NotFound);
        assert_eq!(told(ActivityCancelReason::Cancelled), StopReason::Cancelled);
        assert_eq!(told(ActivityCancelReason::TimedOut), StopReason::TimedOut);
        assert_eq!(told(ActivityCancelReason::Paused), StopReason::Paused);
        assert_eq!(told(ActivityCancelReason::Reset), StopReason::Reset);
        assert_eq!(
            told(ActivityCancelReason::WorkerShutdown),
            StopReason::Shutdown
        );
    }

    #[test]
    fn only_what_the_cluster_asked_to_stop_is_cancelled() {
        use activity_execution_result::Status;
        let cancelled = || AttemptResult::Canceled(Some(Payload::null()));
        let status = |asked| result(cancelled(), asked).status.expect("a status");
        assert!(matches!(status(Asked::ByCluster), Status::Cancelled(_)));
        assert!(matches!(status(Asked::Not), Status::Failed(_)));
    }
}
