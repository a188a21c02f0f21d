//! Updates: asked, and waited for by long polls.
//!
//! The cluster does not say whether a failure is a handler's or a validator's; a worker of ours
//! marks a rejection (see `convert::command`), and what the server itself turns away says so.

use outlast_model::event::{UpdateOutcome, UpdateRequest};
use outlast_model::failure::type_name;
use outlast_model::start::{StartReply, StartRequest, UpdateReply, UpdateStage};
use outlast_model::view::RunRef;
use outlast_model::{Failure, Refusal, UpdateId};
use temporalio_client::grpc::WorkflowService;
use temporalio_client::tonic::{Code, Request, Status};
use temporalio_common::protos::utilities::decode_status_detail;

use super::start::run_id;
use super::{Client, execution};
use crate::convert::{command, failure, headers, history, payload};
use crate::proto::enums::UpdateWorkflowExecutionLifecycleStage as Stage;
use crate::proto::errordetails::MultiOperationExecutionFailure;
use crate::proto::service::execute_multi_operation_request::{Operation, operation};
use crate::proto::service::execute_multi_operation_response::response;
use crate::proto::service::{
    ExecuteMultiOperationRequest, PollWorkflowExecutionUpdateRequest,
    StartWorkflowExecutionResponse, UpdateWorkflowExecutionRequest,
    UpdateWorkflowExecutionResponse,
};
use crate::proto::{common, update as wire};
use crate::refusal;

impl Client {
    pub(super) async fn update_run(
        &self,
        run: RunRef,
        update: UpdateRequest,
        stage: UpdateStage,
    ) -> Result<UpdateReply, Refusal> {
        loop {
            let asked = self.on_open(run.clone(), |mut service, execution| {
                let request = self.update_request(Some(execution), &update, stage);
                Box::pin(async move {
                    let request = Request::new(request);
                    let answer = service.update_workflow_execution(request).await?;
                    Ok(answer.into_inner())
                })
            });
            let answer = asked.await?;
            if has_come(&answer) {
                return self.reply(&run, &update.id, answer, stage).await;
            }
        }
    }

    pub(super) async fn start_with_update(
        &self,
        request: &StartRequest,
        update: UpdateRequest,
        stage: UpdateStage,
    ) -> Result<(StartReply, UpdateReply), Refusal> {
        loop {
            let (started, answer) = self.start_and_update(request, &update, stage).await?;
            if !has_come(&answer) {
                continue;
            }
            let start = StartReply {
                run_id: run_id(&started.run_id)?,
                started: started.started,
            };
            let run = RunRef {
                workflow_id: request.workflow_id.clone(),
                run_id: Some(start.run_id),
            };
            let reply = self.reply(&run, &update.id, answer, stage).await?;
            return Ok((start, reply));
        }
    }

    async fn start_and_update(
        &self,
        request: &StartRequest,
        update: &UpdateRequest,
        stage: UpdateStage,
    ) -> Result<
        (
            StartWorkflowExecutionResponse,
            UpdateWorkflowExecutionResponse,
        ),
        Refusal,
    > {
        let target = common::WorkflowExecution {
            workflow_id: request.workflow_id.as_str().to_owned(),
            run_id: String::new(),
        };
        let operations = [
            operation::Operation::StartWorkflow(self.start_request(request)),
            operation::Operation::UpdateWorkflow(self.update_request(Some(target), update, stage)),
        ];
        let wire = ExecuteMultiOperationRequest {
            namespace: self.namespace(),
            operations: operations
                .into_iter()
                .map(|operation| Operation {
                    operation: Some(operation),
                })
                .collect(),
            ..ExecuteMultiOperationRequest::default()
        };
        let mut service = self.cluster.connection.clone();
        let both = match service.execute_multi_operation(Request::new(wire)).await {
            Ok(both) => both.into_inner(),
            Err(status) => return Err(self.taken(request, &first_cause(status)).await),
        };
        let (mut started, mut answer) = Default::default();
        for response in both.responses {
            match response.response {
                Some(response::Response::StartWorkflow(it)) => started = it,
                Some(response::Response::UpdateWorkflow(it)) => answer = it,
                None => {}
            }
        }
        Ok((started, answer))
    }

    fn update_request(
        &self,
        workflow_execution: Option<common::WorkflowExecution>,
        update: &UpdateRequest,
        stage: UpdateStage,
    ) -> UpdateWorkflowExecutionRequest {
        UpdateWorkflowExecutionRequest {
            namespace: self.namespace(),
            workflow_execution,
            wait_policy: Some(wait_for(stage)),
            request: Some(wire::Request {
                meta: Some(wire::Meta {
                    update_id: update.id.as_str().to_owned(),
                    identity: self.identity(),
                }),
                input: Some(wire::Input {
                    name: update.name.as_str().to_owned(),
                    args: payload::argument_list(&update.input),
                    header: headers::some(&update.headers),
                }),
                ..wire::Request::default()
            }),
            ..UpdateWorkflowExecutionRequest::default()
        }
    }

    async fn reply(
        &self,
        run: &RunRef,
        update: &UpdateId,
        answer: UpdateWorkflowExecutionResponse,
        stage: UpdateStage,
    ) -> Result<UpdateReply, Refusal> {
        if let Some(outcome) = answer.outcome {
            return Ok(ended(outcome));
        }
        match stage {
            UpdateStage::Accepted => Ok(UpdateReply::Accepted),
            UpdateStage::Completed => {
                let fallback = || wire::UpdateRef {
                    workflow_execution: Some(execution(run)),
                    update_id: update.as_str().to_owned(),
                };
                let update_ref = answer.update_ref.unwrap_or_else(fallback);
                self.poll(run, update_ref).await
            }
        }
    }

    async fn poll(&self, run: &RunRef, update: wire::UpdateRef) -> Result<UpdateReply, Refusal> {
        loop {
            let request = PollWorkflowExecutionUpdateRequest {
                namespace: self.namespace(),
                update_ref: Some(update.clone()),
                identity: self.identity(),
                wait_policy: Some(wait_for(UpdateStage::Completed)),
            };
            let mut service = self.cluster.connection.clone();
            let request = Request::new(request);
            match service.poll_workflow_execution_update(request).await {
                Ok(answer) => {
                    if let Some(outcome) = answer.into_inner().outcome {
                        return Ok(ended(outcome));
                    }
                }
                // The poll ran out of time, not the update.
                Err(status) if is_out_of_time(&status) => {}
                Err(status) => {
                    return Err(match refusal::absent(&status) {
                        Some(_) => refusal::missing(run),
                        None => self.refusal(&status),
                    });
                }
            }
        }
    }
}

fn is_out_of_time(status: &Status) -> bool {
    matches!(status.code(), Code::DeadlineExceeded | Code::Cancelled)
}

fn wait_for(stage: UpdateStage) -> wire::WaitPolicy {
    let stage = match stage {
        UpdateStage::Accepted => Stage::Accepted,
        UpdateStage::Completed => Stage::Completed,
    };
    wire::WaitPolicy {
        lifecycle_stage: stage.into(),
    }
}

/// Whether an update is beyond the server's memory: until then the same request is sent again.
fn has_come(answer: &UpdateWorkflowExecutionResponse) -> bool {
    answer.outcome.is_some()
        || match answer.stage() {
            Stage::Unspecified | Stage::Admitted => false,
            Stage::Accepted | Stage::Completed => true,
        }
}

fn ended(outcome: wire::Outcome) -> UpdateReply {
    match outcome.value {
        Some(wire::outcome::Value::Failure(why)) if is_left_behind(&why) => {
            let failure = Failure::application(type_name::RUN_FINISHED, why.message);
            UpdateReply::Done(UpdateOutcome::Failed(failure))
        }
        Some(wire::outcome::Value::Failure(why)) if command::is_rejection(&why) => {
            UpdateReply::Rejected(failure::from_wire(why))
        }
        value => UpdateReply::Done(history::update_outcome(Some(wire::Outcome { value }))),
    }
}

/// Whether the run ended before it had answered what it had accepted.
fn is_left_behind(failure: &crate::proto::failure::Failure) -> bool {
    use crate::proto::failure::failure::FailureInfo;
    let info = failure.failure_info.as_ref();
    matches!(info, Some(FailureInfo::ApplicationFailureInfo(info)) if info.r#type == LEFT_BEHIND)
}

/// The server's name for it.
const LEFT_BEHIND: &str = "AcceptedUpdateCompletedWorkflow";

/// Of two operations, the status of the one that was the reason.
fn first_cause(status: Status) -> Status {
    let detail = decode_status_detail::<MultiOperationExecutionFailure>(status.details());
    let statuses = detail.map(|detail| detail.statuses).unwrap_or_default();
    let aborted = Code::Aborted as i32;
    let reason = statuses
        .into_iter()
        .find(|it| it.code != aborted && it.code != Code::Ok as i32);
    match reason {
        Some(reason) => {
            let details = temporalio_common::protos::google::rpc::Status {
                code: reason.code,
                message: reason.message.clone(),
                details: reason.details,
            };
            let details = temporalio_common::protos::utilities::encode_status_details(&details);
            Status::with_details(Code::from_i32(reason.code), reason.message, details.into())
        }
        None => status,
    }
}
