//! How a run stands, as far as the cluster says.

use outlast_model::event::{Site, TaskFailedCause};
use outlast_model::status::Status;
use outlast_model::view::{Description, RunRef, Summary, Trouble, Waiting};
use outlast_model::{
    ActivityType, Attempt, EventKind, Failure, QueueName, Refusal, RunId, Seq, WorkflowId,
    WorkflowType,
};
use temporalio_client::grpc::WorkflowService;
use temporalio_client::tonic::Request;

use super::start::run_id;
use super::{Client, execution};
use crate::convert::{failure, payload, some_run_id, time};
use crate::proto::history::history_event::Attributes;
use crate::proto::service::{DescribeWorkflowExecutionRequest, DescribeWorkflowExecutionResponse};
use crate::proto::{enums, workflow};
use crate::refusal;

/// Which run it is and where it stands.
pub(super) struct Stand {
    pub(super) run_id: RunId,
    pub(super) status: Status,
}

impl Client {
    pub(super) async fn stand(&self, run: &RunRef) -> Result<Stand, Refusal> {
        let info = self.described(run).await?.workflow_execution_info;
        let info = info.unwrap_or_default();
        let status = status(info.status());
        let run_id = run_id(&info.execution.unwrap_or_default().run_id)?;
        Ok(Stand { run_id, status })
    }

    /// The newest run of the chain that `run` belongs to: another chain under the same id is not
    /// meant.
    pub(super) async fn newest(&self, run: &RunRef) -> Result<Stand, Refusal> {
        let stand = self.stand(run).await?;
        if stand.status != Status::ContinuedAsNew {
            return Ok(stand);
        }
        let newest = RunRef::newest(run.workflow_id.clone());
        let found = self.stand(&newest).await?;
        let newest = RunRef {
            run_id: Some(found.run_id),
            ..newest
        };
        let is_same = self.chain(&newest).await? == self.chain(run).await?;
        Ok(if is_same { found } else { stand })
    }

    /// The first run of a chain.
    async fn chain(&self, run: &RunRef) -> Result<String, Refusal> {
        let first = self.first_event(run).await?;
        Ok(match first.and_then(|event| event.attributes) {
            Some(Attributes::WorkflowExecutionStartedEventAttributes(it)) => {
                it.first_execution_run_id
            }
            _ => String::new(),
        })
    }

    async fn described(&self, run: &RunRef) -> Result<DescribeWorkflowExecutionResponse, Refusal> {
        let request = DescribeWorkflowExecutionRequest {
            namespace: self.namespace(),
            execution: Some(execution(run)),
        };
        let mut service = self.cluster.connection.clone();
        let answer = service
            .describe_workflow_execution(Request::new(request))
            .await;
        let answer = answer.map_err(|status| match refusal::absent(&status) {
            Some(_) => refusal::missing(run),
            None => self.refusal(&status),
        })?;
        Ok(answer.into_inner())
    }

    pub(super) async fn description(&self, run: RunRef) -> Result<Description, Refusal> {
        let run = self.open_run(run).await?;
        let described = self.described(&run).await?;
        let summary = summary(described.workflow_execution_info.unwrap_or_default())?;
        let run = RunRef {
            run_id: Some(summary.run_id),
            ..run
        };
        let events = self.events(run.clone()).await?;
        let input = match events.first().map(|event| &event.kind) {
            Some(EventKind::Started(started)) => started.input.clone(),
            _ => payload::or_null(None),
        };
        let outcome = if summary.status.is_open() {
            None
        } else {
            self.past_outcome(&run).await?
        };
        let task = described.pending_workflow_task;
        let trouble = task.as_ref().and_then(|task| trouble(task, &events));
        Ok(Description {
            summary: Summary {
                is_blocked: trouble.is_some(),
                ..summary
            },
            input,
            outcome,
            waiting: waiting(
                described.pending_activities,
                described.pending_children,
                task,
            ),
            trouble,
            notes: Vec::new(),
            unhandled_signals: 0,
            unread: Vec::new(),
        })
    }
}

/// A line of a list.
pub(super) fn summary(info: workflow::WorkflowExecutionInfo) -> Result<Summary, Refusal> {
    let status = status(info.status());
    let execution = info.execution.unwrap_or_default();
    let run_id = run_id(&execution.run_id)?;
    let first = some_run_id(&info.first_run_id);
    Ok(Summary {
        workflow_id: WorkflowId::new(execution.workflow_id),
        run_id,
        workflow_type: WorkflowType::new(info.r#type.unwrap_or_default().name),
        queue: QueueName::new(info.task_queue),
        status,
        is_blocked: false,
        started: time::time(info.start_time),
        closed: info.close_time.map(|at| time::time(Some(at))),
        events: u64::try_from(info.history_length).unwrap_or(0),
        bytes: u64::try_from(info.history_size_bytes).unwrap_or(0),
        wake: None,
        first_run: first.filter(|first| *first != run_id),
    })
}

pub(super) fn status(status: enums::WorkflowExecutionStatus) -> Status {
    use enums::WorkflowExecutionStatus as Wire;
    match status {
        // A paused run is open; the cluster's own tools let it go on.
        Wire::Unspecified | Wire::Running | Wire::Paused => Status::Running,
        Wire::Completed => Status::Completed,
        Wire::Failed => Status::Failed,
        Wire::Canceled => Status::Canceled,
        Wire::Terminated => Status::Terminated,
        Wire::ContinuedAsNew => Status::ContinuedAsNew,
        Wire::TimedOut => Status::TimedOut,
    }
}

fn waiting(
    activities: Vec<workflow::PendingActivityInfo>,
    children: Vec<workflow::PendingChildExecutionInfo>,
    task: Option<workflow::PendingWorkflowTaskInfo>,
) -> Vec<Waiting> {
    let mut waiting: Vec<Waiting> = activities.into_iter().map(activity).collect();
    waiting.extend(children.into_iter().map(child));
    waiting.extend(task.map(|_| Waiting::Task));
    waiting
}

fn activity(info: workflow::PendingActivityInfo) -> Waiting {
    use enums::PendingActivityState as State;
    let seq = failure::seq(&info.activity_id);
    let attempt = Attempt(u32::try_from(info.attempt).unwrap_or(1));
    let state = info.state();
    let activity_type = ActivityType::new(info.activity_type.unwrap_or_default().name);
    let last_failure = info.last_failure.map(failure::from_wire);
    let site = Site::default();
    match state {
        State::Started | State::CancelRequested | State::PauseRequested => {
            Waiting::ActivityRunning {
                seq,
                activity_type,
                attempt,
                since: time::time(info.last_started_time),
                last_failure,
                site,
            }
        }
        State::Unspecified | State::Scheduled | State::Paused => Waiting::ActivityPending {
            seq,
            activity_type,
            attempt,
            due: time::time(info.next_attempt_schedule_time.or(info.scheduled_time)),
            last_failure,
            site,
        },
    }
}

fn child(info: workflow::PendingChildExecutionInfo) -> Waiting {
    let run_id = some_run_id(&info.run_id);
    Waiting::Child {
        // Its number is not the cluster's to know.
        seq: Seq(0),
        workflow_id: WorkflowId::new(info.workflow_id),
        run_id: run_id.unwrap_or_default(),
        is_started: run_id.is_some(),
        site: Site::default(),
    }
}

/// A task that is tried again tells its reason in the last failure the history has.
fn trouble(
    task: &workflow::PendingWorkflowTaskInfo,
    events: &[outlast_model::Event],
) -> Option<Trouble> {
    let attempts = u32::try_from(task.attempt).unwrap_or(0).saturating_sub(1);
    let last = events.iter().rev().find_map(|event| match &event.kind {
        EventKind::TaskFailed { cause, failure } => Some((*cause, failure.clone(), event.time)),
        _ => None,
    });
    if attempts == 0 {
        return None;
    }
    let (cause, failure, since) = last.unwrap_or_else(|| {
        (
            TaskFailedCause::WorkerUnhandledFailure,
            Failure::application("", "the workflow task failed"),
            time::time(task.original_scheduled_time),
        )
    });
    Some(Trouble {
        cause,
        since,
        attempts,
        failure,
        next_try: None,
    })
}
