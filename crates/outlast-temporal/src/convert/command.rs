//! What a run answers: commands, answers to questions, failures of its task.
//!
//! A step is the core's local activity: its id is the step's number, its code stays with the
//! instance.

use outlast_model::command::{
    CancelExternal, ContinueAsNew, ScheduleActivity, SignalExternal, StartChild,
};
use outlast_model::event::{TaskFailedCause, UpdateOutcome};
use outlast_model::options::StepOptions;
use outlast_model::view::RunRef;
use outlast_model::{Command, QueueName, Seq, StepName, UpdateId, limits};
use outlast_worker::handle::Completion;

use super::{failure, headers, payload, policy, time};
use crate::proto::core::common::NamespacedWorkflowExecution;
use crate::proto::core::workflow_commands as wire;
use crate::proto::core::workflow_commands::workflow_command::Variant;
use crate::proto::core::workflow_completion::WorkflowActivationCompletion;
use crate::proto::enums;

/// The origin of a failure that is a validator's word, not a handler's: the protocol has no
/// other place to say so.
const REJECTED: &str = "Outlast: rejected";
/// The origin of what the server itself turned away.
const SERVER: &str = "Server";

/// Whether the failure of an update means that it was turned away.
pub(crate) fn is_rejection(failure: &crate::proto::failure::Failure) -> bool {
    failure.source == REJECTED || failure.source == SERVER
}

/// Where commands go that name no place.
pub(crate) struct Home<'a> {
    /// The namespace of the run.
    pub(crate) namespace: &'a str,
    /// The queue of the run.
    pub(crate) queue: &'a QueueName,
}

/// A completion, as the core takes it.
pub(crate) fn completion(
    run_id: String,
    completion: Completion,
    home: &Home<'_>,
) -> WorkflowActivationCompletion {
    match completion {
        Completion::Commands(commands) => {
            let commands = commands.into_iter().map(|command| to_wire(command, home));
            WorkflowActivationCompletion::from_cmds(run_id, commands.collect())
        }
        Completion::Queried(answers) => {
            let answers = answers.into_iter().map(|(query_id, answer)| {
                let variant = match answer {
                    Ok(result) => wire::query_result::Variant::Succeeded(wire::QuerySuccess {
                        response: Some(payload::to_wire(&result)),
                    }),
                    Err(why) => wire::query_result::Variant::Failed(failure::to_wire(&why)),
                };
                Variant::RespondToQuery(wire::QueryResult {
                    query_id,
                    variant: Some(variant),
                })
            });
            WorkflowActivationCompletion::from_cmds(run_id, answers.collect())
        }
        Completion::Failed {
            cause,
            failure: why,
        } => WorkflowActivationCompletion::fail(
            run_id,
            failure::to_wire(&why),
            Some(task_failed(cause)),
        ),
        Completion::Evicted => WorkflowActivationCompletion::empty(run_id),
    }
}

fn task_failed(cause: TaskFailedCause) -> enums::WorkflowTaskFailedCause {
    match cause {
        TaskFailedCause::NonDeterminism => enums::WorkflowTaskFailedCause::NonDeterministicError,
        TaskFailedCause::WorkerUnhandledFailure
        | TaskFailedCause::UnhandledCommand
        | TaskFailedCause::BadCommand
        | TaskFailedCause::Stuck
        | TaskFailedCause::Quarantined => {
            enums::WorkflowTaskFailedCause::WorkflowWorkerUnhandledFailure
        }
    }
}

/// One command.
pub(crate) fn to_wire(command: Command, home: &Home<'_>) -> Variant {
    match command {
        Command::ScheduleActivity(activity) => schedule_activity(*activity, home),
        Command::RequestCancelActivity { seq } => {
            Variant::RequestCancelActivity(wire::RequestCancelActivity { seq: seq.0 })
        }
        Command::StartTimer { seq, delay, .. } => Variant::StartTimer(wire::StartTimer {
            seq: seq.0,
            start_to_fire_timeout: Some(time::duration(delay)),
        }),
        Command::CancelTimer { seq } => Variant::CancelTimer(wire::CancelTimer { seq: seq.0 }),
        Command::ScheduleStep {
            seq, name, options, ..
        } => schedule_step(seq, &name, &options),
        Command::CancelStep { seq } => {
            Variant::RequestCancelLocalActivity(wire::RequestCancelLocalActivity { seq: seq.0 })
        }
        Command::StartChild(child) => start_child(*child, home),
        Command::CancelChild { seq, reason, .. } => {
            Variant::CancelChildWorkflowExecution(wire::CancelChildWorkflowExecution {
                child_workflow_seq: seq.0,
                reason,
            })
        }
        Command::SignalExternal(signal) => signal_external(&signal, home),
        Command::CancelExternal(cancel) => cancel_external(*cancel, home),
        Command::SetPatch {
            id, is_deprecated, ..
        } => Variant::SetPatchMarker(wire::SetPatchMarker {
            patch_id: id.as_str().to_owned(),
            deprecated: is_deprecated,
        }),
        Command::AcceptUpdate { id } => respond(&id, wire::update_response::Response::Accepted(())),
        Command::RejectUpdate { id, failure: why } => {
            let mut why = failure::to_wire(&why);
            why.source = REJECTED.to_owned();
            respond(&id, wire::update_response::Response::Rejected(why))
        }
        Command::CompleteUpdate { id, outcome } => respond(&id, update_outcome(&outcome)),
        Command::ContinueAsNew(next) => continue_as_new(&next),
        Command::CompleteWorkflow { result } => {
            Variant::CompleteWorkflowExecution(wire::CompleteWorkflowExecution {
                result: Some(payload::to_wire(&result)),
            })
        }
        Command::FailWorkflow { failure: why } => {
            Variant::FailWorkflowExecution(wire::FailWorkflowExecution {
                failure: Some(failure::to_wire(&why)),
            })
        }
        Command::CancelWorkflow => {
            Variant::CancelWorkflowExecution(wire::CancelWorkflowExecution::default())
        }
    }
}

fn schedule_activity(activity: ScheduleActivity, home: &Home<'_>) -> Variant {
    let options = activity.options;
    let is_unbounded = options.schedule_to_close.is_none() && options.start_to_close.is_none();
    let default = is_unbounded.then_some(limits::START_TO_CLOSE_DEFAULT);
    let queue = options.queue.as_ref().unwrap_or(home.queue);
    Variant::ScheduleActivity(wire::ScheduleActivity {
        seq: activity.seq.0,
        activity_id: activity.seq.to_string(),
        activity_type: activity.activity_type.as_str().to_owned(),
        task_queue: queue.as_str().to_owned(),
        headers: headers::to_wire(&activity.headers),
        arguments: payload::arguments(&activity.input),
        schedule_to_close_timeout: options.schedule_to_close.map(time::duration),
        schedule_to_start_timeout: options.schedule_to_start.map(time::duration),
        start_to_close_timeout: options.start_to_close.or(default).map(time::duration),
        heartbeat_timeout: options.heartbeat.map(time::duration),
        retry_policy: Some(policy::retry(&options.retry)),
        cancellation_type: policy::activity_cancel(options.cancel).into(),
        priority: options.priority.map(policy::priority),
        ..wire::ScheduleActivity::default()
    })
}

/// The core demands a limit and would have us wait for a long back-off ourselves: the limit is
/// the longest there is, for both.
fn schedule_step(seq: Seq, name: &StepName, options: &StepOptions) -> Variant {
    Variant::ScheduleLocalActivity(wire::ScheduleLocalActivity {
        seq: seq.0,
        activity_id: seq.to_string(),
        activity_type: name.as_str().to_owned(),
        attempt: 1,
        schedule_to_close_timeout: Some(time::duration(limits::DELAY)),
        retry_policy: Some(policy::retry(&options.retry)),
        local_retry_threshold: Some(time::duration(limits::DELAY)),
        cancellation_type: wire::ActivityCancellationType::WaitCancellationCompleted.into(),
        ..wire::ScheduleLocalActivity::default()
    })
}

fn start_child(child: StartChild, home: &Home<'_>) -> Variant {
    let options = child.options;
    let queue = options.queue.as_ref().unwrap_or(home.queue);
    Variant::StartChildWorkflowExecution(wire::StartChildWorkflowExecution {
        seq: child.seq.0,
        namespace: home.namespace.to_owned(),
        workflow_id: child.workflow_id.as_str().to_owned(),
        workflow_type: child.workflow_type.as_str().to_owned(),
        task_queue: queue.as_str().to_owned(),
        headers: headers::to_wire(&child.headers),
        input: payload::arguments(&child.input),
        workflow_run_timeout: options.run_timeout.map(time::duration),
        parent_close_policy: policy::parent_close(options.parent_close).into(),
        workflow_id_reuse_policy: policy::reuse(options.reuse).into(),
        cancellation_type: policy::child_cancel(options.cancel).into(),
        priority: options.priority.map(policy::priority),
        ..wire::StartChildWorkflowExecution::default()
    })
}

fn signal_external(signal: &SignalExternal, home: &Home<'_>) -> Variant {
    let target = execution(&signal.target, home);
    let target = wire::signal_external_workflow_execution::Target::WorkflowExecution(target);
    Variant::SignalExternalWorkflowExecution(wire::SignalExternalWorkflowExecution {
        seq: signal.seq.0,
        target: Some(target),
        signal_name: signal.name.as_str().to_owned(),
        headers: headers::to_wire(&signal.headers),
        args: payload::arguments(&signal.input),
    })
}

fn cancel_external(cancel: CancelExternal, home: &Home<'_>) -> Variant {
    Variant::RequestCancelExternalWorkflowExecution(wire::RequestCancelExternalWorkflowExecution {
        seq: cancel.seq.0,
        workflow_execution: Some(execution(&cancel.target, home)),
        reason: cancel.reason,
    })
}

fn execution(run: &RunRef, home: &Home<'_>) -> NamespacedWorkflowExecution {
    NamespacedWorkflowExecution {
        namespace: home.namespace.to_owned(),
        workflow_id: run.workflow_id.as_str().to_owned(),
        run_id: run.run_id.map(|run| run.to_string()).unwrap_or_default(),
    }
}

fn respond(id: &UpdateId, response: wire::update_response::Response) -> Variant {
    Variant::UpdateResponse(wire::UpdateResponse {
        protocol_instance_id: id.as_str().to_owned(),
        response: Some(response),
    })
}

/// A rejection behind an acceptance is how the core is told of a handler that failed.
fn update_outcome(outcome: &UpdateOutcome) -> wire::update_response::Response {
    match outcome {
        UpdateOutcome::Completed(result) => {
            wire::update_response::Response::Completed(payload::to_wire(result))
        }
        UpdateOutcome::Failed(why) => {
            wire::update_response::Response::Rejected(failure::to_wire(why))
        }
    }
}

fn continue_as_new(next: &ContinueAsNew) -> Variant {
    let name = |name: Option<&str>| name.unwrap_or_default().to_owned();
    Variant::ContinueAsNewWorkflowExecution(wire::ContinueAsNewWorkflowExecution {
        workflow_type: name(next.workflow_type.as_ref().map(|it| it.as_str())),
        task_queue: name(next.queue.as_ref().map(|it| it.as_str())),
        arguments: payload::arguments(&next.input),
        workflow_run_timeout: next.run_timeout.map(time::duration),
        headers: headers::carry(&next.headers, &next.signals),
        ..wire::ContinueAsNewWorkflowExecution::default()
    })
}

#[cfg(test)]
mod tests;
