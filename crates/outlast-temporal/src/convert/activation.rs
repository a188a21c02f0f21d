//! What the core tells a run: jobs, questions, evictions.
//!
//! Jobs come sorted by class, and questions and evictions alone; that is the core's promise and
//! the runtime's law. Messages that the run before this one left unread travel in headers of the
//! start (see [`super::headers`]) and are told first.

use outlast_model::event::UpdateRequest;
use outlast_model::event::{CancelOf, DeliveryFailedCause, Parent, StartFailedCause, Started};
use outlast_model::failure::{Failure, FailureKind, RetryState};
use outlast_model::job::{ChildStart, Resolution, UpdateJob};
use outlast_model::shared::Shared;
use outlast_model::task::{Query, builtin_query};
use outlast_model::{
    Activation, Edition, EventId, Job, PatchId, QueryName, QueueName, Seq, SignalName, UpdateId,
    UpdateName, WorkflowId, WorkflowType,
};
use outlast_worker::handle::{PolledActivation, PolledQuery, PolledWork};

use super::{Unsupported, edition, failure, headers, payload, policy, run_id, some_run_id, time};
use crate::proto::core::activity_result::{ActivityResolution, activity_resolution};
use crate::proto::core::child_workflow::{
    ChildWorkflowResult, StartChildWorkflowExecutionFailedCause, child_workflow_result,
};
use crate::proto::core::workflow_activation::workflow_activation_job::Variant;
use crate::proto::core::workflow_activation::{
    DoUpdate, InitializeWorkflow, QueryWorkflow, ResolveActivity,
    ResolveChildWorkflowExecutionStart, WorkflowActivation, resolve_child_workflow_execution_start,
};
use crate::proto::{enums, failure as wire};

/// The query other tools ask for a run's stack.
const STACK_TRACE: &str = "__stack_trace";

/// An activation, as the worker takes it.
pub(crate) fn polled(
    wire: WorkflowActivation,
    queue: &QueueName,
) -> Result<PolledActivation, Unsupported> {
    let run_id = run_id(&wire.run_id)?;
    let mut heard = Heard {
        edition: edition::of_activation(wire.is_replaying, &wire.available_internal_flags),
        jobs: Vec::new(),
        queries: Vec::new(),
        eviction: None,
    };
    for job in wire.jobs {
        heard.job(job.variant, &wire.run_id, queue)?;
    }
    let work = if let Some(reason) = heard.eviction {
        PolledWork::Evict { reason }
    } else if !heard.queries.is_empty() {
        PolledWork::Ask(heard.queries)
    } else {
        // Stable: only what came with the start is moved.
        heard.jobs.sort_by_key(Job::class);
        PolledWork::Activate(Activation {
            now: time::time(wire.timestamp),
            is_replaying: wire.is_replaying,
            history_events: u64::from(wire.history_length),
            suggest_continue_as_new: wire.continue_as_new_suggested,
            jobs: heard.jobs,
        })
    };
    Ok(PolledActivation { run_id, work })
}

/// What the jobs of one activation add up to.
struct Heard {
    /// Of the run, if it begins.
    edition: Edition,
    jobs: Vec<Job>,
    queries: Vec<PolledQuery>,
    eviction: Option<String>,
}

impl Heard {
    fn job(
        &mut self,
        variant: Option<Variant>,
        run: &str,
        queue: &QueueName,
    ) -> Result<(), Unsupported> {
        let variant = variant.ok_or(Unsupported::Missing {
            what: "a job",
            field: "kind",
        })?;
        let job = match variant {
            Variant::InitializeWorkflow(start) => return self.initialize(start, run, queue),
            Variant::QueryWorkflow(query) => {
                self.queries.push(question(query));
                return Ok(());
            }
            Variant::RemoveFromCache(evict) => {
                self.eviction = Some(format!("{:?}: {}", evict.reason(), evict.message));
                return Ok(());
            }
            Variant::FireTimer(timer) => Job::FireTimer {
                seq: Seq(timer.seq),
            },
            Variant::UpdateRandomSeed(seed) => Job::UpdateRandomSeed {
                seed: seed.randomness_seed,
            },
            Variant::CancelWorkflow(cancel) => Job::CancelWorkflow {
                reason: cancel.reason,
            },
            Variant::SignalWorkflow(signal) => Job::Signal {
                name: SignalName::new(signal.signal_name),
                input: payload::input(signal.input),
                headers: headers::from_wire(signal.headers),
            },
            Variant::ResolveActivity(resolved) => activity(resolved)?,
            Variant::NotifyHasPatch(patch) => Job::NotifyPatch {
                id: PatchId::new(patch.patch_id),
            },
            Variant::ResolveChildWorkflowExecutionStart(resolved) => child_start(resolved)?,
            Variant::ResolveChildWorkflowExecution(resolved) => Job::ResolveChild {
                seq: Seq(resolved.seq),
                resolution: child_resolution(resolved.result)?,
            },
            Variant::ResolveSignalExternalWorkflow(resolved) => Job::ResolveSignalExternal {
                seq: Seq(resolved.seq),
                cause: resolved
                    .failure
                    .as_ref()
                    .map(|_| signal_cause(resolved.cause())),
            },
            Variant::ResolveRequestCancelExternalWorkflow(resolved) => Job::ResolveCancelExternal {
                of: CancelOf::External(Seq(resolved.seq)),
                cause: resolved.failure.map(|_| DeliveryFailedCause::NotFound),
            },
            Variant::DoUpdate(update) => Job::Update(Box::new(update_job(update))),
            // Outlast never asks for one.
            Variant::ResolveNexusOperationStart(_) | Variant::ResolveNexusOperation(_) => {
                return Err(Unsupported::kind("a Nexus operation"));
            }
        };
        self.jobs.push(job);
        Ok(())
    }

    fn initialize(
        &mut self,
        start: InitializeWorkflow,
        run: &str,
        queue: &QueueName,
    ) -> Result<(), Unsupported> {
        let carried = headers::carried(&start.headers);
        // A run that was reset draws the random numbers of the run it was made from.
        let is_reset = start.original_execution_run_id != run;
        let seed = start.randomness_seed;
        let started = Started {
            edition: Some(self.edition),
            ..started(start, run, queue)?
        };
        self.jobs.push(Job::Initialize(Shared::new(started)));
        if is_reset {
            self.jobs.push(Job::UpdateRandomSeed { seed });
        }
        let carried = carried.into_iter();
        self.jobs.extend(carried.map(|signal| Job::Signal {
            name: signal.name,
            input: signal.input,
            headers: signal.headers,
        }));
        Ok(())
    }
}

fn started(
    start: InitializeWorkflow,
    run: &str,
    queue: &QueueName,
) -> Result<Started, Unsupported> {
    let run_id = run_id(run)?;
    let first = some_run_id(&start.first_execution_run_id);
    let parent = start.parent_workflow_info.and_then(|parent| {
        Some(Box::new(Parent {
            workflow_id: WorkflowId::new(parent.workflow_id),
            run_id: some_run_id(&parent.run_id)?,
            // The cluster keeps these to itself.
            seq: Seq(0),
            initiated: EventId(0),
            priority: policy::priority_of(start.priority.as_ref()),
        }))
    });
    Ok(Started {
        workflow_id: WorkflowId::new(start.workflow_id),
        run_id,
        workflow_type: WorkflowType::new(start.workflow_type),
        queue: queue.clone(),
        input: payload::input(start.arguments),
        request_id: None,
        run_timeout: time::given(start.workflow_run_timeout),
        parent,
        first_run_id: first.filter(|first| *first != run_id),
        continued_from: some_run_id(&start.continued_from_execution_run_id),
        headers: headers::from_wire(start.headers),
        priority: policy::priority_of(start.priority.as_ref()),
        edition: None,
    })
}

fn question(query: QueryWorkflow) -> PolledQuery {
    let name = match query.query_type.as_str() {
        STACK_TRACE => builtin_query::STACK,
        own => own,
    };
    PolledQuery {
        query: Query {
            name: QueryName::new(name),
            input: payload::input(query.arguments),
            headers: headers::from_wire(query.headers),
        },
        id: query.query_id,
    }
}

fn update_job(update: DoUpdate) -> UpdateJob {
    UpdateJob {
        request: UpdateRequest {
            // The answer names this one; it is the id its caller gave.
            id: UpdateId::new(update.protocol_instance_id),
            name: UpdateName::new(update.name),
            input: payload::input(update.input),
            headers: headers::from_wire(update.headers),
        },
        run_validator: update.run_validator,
    }
}

fn activity(resolved: ResolveActivity) -> Result<Job, Unsupported> {
    let seq = Seq(resolved.seq);
    let resolution = activity_resolution(resolved.result)?;
    Ok(if resolved.is_local {
        Job::ResolveStep { seq, resolution }
    } else {
        Job::ResolveActivity { seq, resolution }
    })
}

fn activity_resolution(result: Option<ActivityResolution>) -> Result<Resolution, Unsupported> {
    use activity_resolution::Status;
    match result.and_then(|result| result.status) {
        Some(Status::Completed(done)) => Ok(Resolution::Completed(payload::or_null(done.result))),
        Some(Status::Failed(failed)) => Ok(failed_with(failed.failure)),
        Some(Status::Cancelled(cancelled)) => Ok(cancelled_with(cancelled.failure)),
        // Commands ask the core to wait by itself, however long.
        Some(Status::Backoff(_)) => Err(Unsupported::kind("a step that backs off as a timer")),
        None => Err(Unsupported::Missing {
            what: "the outcome of an activity",
            field: "kind",
        }),
    }
}

fn child_start(resolved: ResolveChildWorkflowExecutionStart) -> Result<Job, Unsupported> {
    use resolve_child_workflow_execution_start::Status;
    let seq = Seq(resolved.seq);
    let result = match resolved.status {
        Some(Status::Succeeded(started)) => ChildStart::Started(run_id(&started.run_id)?),
        Some(Status::Failed(failed)) => ChildStart::Failed(start_failed(failed.cause())?),
        // Cancelled before it was sent: it never ran.
        Some(Status::Cancelled(_)) => {
            let resolution = Resolution::Canceled(None);
            return Ok(Job::ResolveChild { seq, resolution });
        }
        None => {
            return Err(Unsupported::Missing {
                what: "the start of a child",
                field: "outcome",
            });
        }
    };
    Ok(Job::ResolveChildStart { seq, result })
}

fn start_failed(
    cause: StartChildWorkflowExecutionFailedCause,
) -> Result<StartFailedCause, Unsupported> {
    match cause {
        StartChildWorkflowExecutionFailedCause::WorkflowAlreadyExists => {
            Ok(StartFailedCause::AlreadyExists)
        }
        StartChildWorkflowExecutionFailedCause::Unspecified => Ok(StartFailedCause::NotRegistered),
        // A child is always asked for in its parent's namespace, and without an override.
        StartChildWorkflowExecutionFailedCause::NamespaceNotFound => {
            Err(Unsupported::kind("a child in another namespace"))
        }
        StartChildWorkflowExecutionFailedCause::InvalidVersioningOverride => {
            Err(Unsupported::kind("a child with a versioning override"))
        }
    }
}

fn child_resolution(result: Option<ChildWorkflowResult>) -> Result<Resolution, Unsupported> {
    use child_workflow_result::Status;
    match result.and_then(|result| result.status) {
        Some(Status::Completed(done)) => Ok(Resolution::Completed(payload::or_null(done.result))),
        Some(Status::Failed(failed)) => Ok(failed_with(failed.failure)),
        Some(Status::Cancelled(_)) => Ok(Resolution::Canceled(None)),
        None => Err(Unsupported::Missing {
            what: "the outcome of a child",
            field: "kind",
        }),
    }
}

/// The core wraps what happened in the operation it happened to; the runtime does that itself.
fn failed_with(failure: Option<wire::Failure>) -> Resolution {
    let (cause, state) = unwrapped(failure);
    Resolution::Failed(cause, state)
}

fn cancelled_with(failure: Option<wire::Failure>) -> Resolution {
    let (cause, _) = unwrapped(failure);
    let details = match cause.kind.clone() {
        FailureKind::Canceled { details } => details,
        FailureKind::Application { .. }
        | FailureKind::Timeout { .. }
        | FailureKind::Terminated
        | FailureKind::Server { .. }
        | FailureKind::Activity { .. }
        | FailureKind::Child { .. } => None,
    };
    Resolution::Canceled(details)
}

fn unwrapped(failure: Option<wire::Failure>) -> (Failure, RetryState) {
    let failure = failure::or_unknown(failure);
    let state = match failure.kind {
        FailureKind::Activity { retry_state, .. } => retry_state,
        FailureKind::Child { .. } => RetryState::RetryPolicyNotSet,
        FailureKind::Application { .. }
        | FailureKind::Timeout { .. }
        | FailureKind::Canceled { .. }
        | FailureKind::Terminated
        | FailureKind::Server { .. } => return (failure, RetryState::RetryPolicyNotSet),
    };
    match failure.cause.clone() {
        Some(cause) => (cause, state),
        None => (failure, state),
    }
}

fn signal_cause(cause: enums::SignalExternalWorkflowExecutionFailedCause) -> DeliveryFailedCause {
    use enums::SignalExternalWorkflowExecutionFailedCause as Cause;
    match cause {
        Cause::SignalCountLimitExceeded => DeliveryFailedCause::HistoryFull,
        Cause::Unspecified
        | Cause::ExternalWorkflowExecutionNotFound
        | Cause::NamespaceNotFound => DeliveryFailedCause::NotFound,
    }
}

#[cfg(test)]
mod tests;
