//! Starting runs, alone and with a message.

use outlast_model::Refusal;
use outlast_model::start::{ReusePolicy, SignalRequest, StartReply, StartRequest};
use outlast_model::view::RunRef;
use temporalio_client::grpc::WorkflowService;
use temporalio_client::tonic::{Request, Status};

use super::{Client, given};
use crate::convert::{self, headers, payload, policy, time};
use crate::proto::service::{
    SignalWithStartWorkflowExecutionRequest, StartWorkflowExecutionRequest,
};
use crate::proto::{common, enums, taskqueue};
use crate::refusal;

impl Client {
    pub(super) async fn start_run(&self, request: &StartRequest) -> Result<StartReply, Refusal> {
        let mut service = self.cluster.connection.clone();
        let wire = self.start_request(request);
        let started = match service.start_workflow_execution(Request::new(wire)).await {
            Ok(response) => response.into_inner(),
            Err(status) => return self.not_started(request, &status).await,
        };
        Ok(StartReply {
            run_id: run_id(&started.run_id)?,
            started: started.started,
        })
    }

    pub(super) fn start_request(&self, request: &StartRequest) -> StartWorkflowExecutionRequest {
        StartWorkflowExecutionRequest {
            namespace: self.namespace(),
            workflow_id: request.workflow_id.as_str().to_owned(),
            workflow_type: Some(common::WorkflowType {
                name: request.workflow_type.as_str().to_owned(),
            }),
            task_queue: Some(queue(request)),
            input: payload::argument_list(&request.input),
            workflow_run_timeout: request.run_timeout.map(time::duration),
            workflow_task_timeout: request.task_timeout.map(time::duration),
            priority: request.priority.map(policy::priority),
            identity: self.identity(),
            request_id: request_id(request),
            header: headers::some(&request.headers),
            workflow_id_reuse_policy: policy::reuse(request.reuse).into(),
            workflow_id_conflict_policy: policy::conflict(request.conflict).into(),
            ..StartWorkflowExecutionRequest::default()
        }
    }

    pub(super) async fn start_with_signal(
        &self,
        request: &StartRequest,
        signal: SignalRequest,
    ) -> Result<StartReply, Refusal> {
        let wire = SignalWithStartWorkflowExecutionRequest {
            namespace: self.namespace(),
            workflow_id: request.workflow_id.as_str().to_owned(),
            workflow_type: Some(common::WorkflowType {
                name: request.workflow_type.as_str().to_owned(),
            }),
            task_queue: Some(queue(request)),
            input: payload::argument_list(&request.input),
            workflow_run_timeout: request.run_timeout.map(time::duration),
            workflow_task_timeout: request.task_timeout.map(time::duration),
            priority: request.priority.map(policy::priority),
            identity: self.identity(),
            // One id for both: the message is what must not arrive twice.
            request_id: given(signal.request_id).as_str().to_owned(),
            workflow_id_reuse_policy: policy::reuse(request.reuse).into(),
            workflow_id_conflict_policy: policy::conflict(request.conflict).into(),
            signal_name: signal.name.as_str().to_owned(),
            signal_input: payload::argument_list(&signal.input),
            header: headers::some(&request.headers),
            ..SignalWithStartWorkflowExecutionRequest::default()
        };
        let mut service = self.cluster.connection.clone();
        let wire = Request::new(wire);
        match service.signal_with_start_workflow_execution(wire).await {
            Ok(response) => {
                let response = response.into_inner();
                Ok(StartReply {
                    run_id: run_id(&response.run_id)?,
                    started: response.started,
                })
            }
            Err(status) => Err(self.taken(request, &status).await),
        }
    }

    /// A start that was refused: an ended run may be just what its caller wants.
    async fn not_started(
        &self,
        request: &StartRequest,
        status: &Status,
    ) -> Result<StartReply, Refusal> {
        let refusal = self.taken(request, status).await;
        match refusal {
            Refusal::AlreadyStarted { run_id, status, .. }
                if request.reuse == ReusePolicy::UseExisting && !status.is_open() =>
            {
                Ok(StartReply {
                    run_id,
                    started: false,
                })
            }
            other => Err(other),
        }
    }

    /// The refusal of a start, with the run that has the id.
    pub(super) async fn taken(&self, request: &StartRequest, status: &Status) -> Refusal {
        let Some(run_id) = refusal::taken_by(status) else {
            return self.refusal(status);
        };
        let run = RunRef {
            workflow_id: request.workflow_id.clone(),
            run_id: Some(run_id),
        };
        let status = match self.stand(&run).await {
            Ok(stand) => stand.status,
            Err(refusal) => return refusal,
        };
        Refusal::AlreadyStarted {
            workflow_id: run.workflow_id,
            run_id,
            status,
        }
    }
}

fn queue(request: &StartRequest) -> taskqueue::TaskQueue {
    taskqueue::TaskQueue {
        name: request.queue.as_str().to_owned(),
        kind: enums::TaskQueueKind::Normal.into(),
        ..taskqueue::TaskQueue::default()
    }
}

fn request_id(request: &StartRequest) -> String {
    match &request.request_id {
        Some(id) => id.as_str().to_owned(),
        None => request.run_id.to_string(),
    }
}

pub(super) fn run_id(text: &str) -> Result<outlast_model::RunId, Refusal> {
    convert::run_id(text).map_err(|error| Refusal::Indeterminate {
        reason: error.to_string(),
    })
}
