//! Answers for attempts from outside, by the cluster's own task token.

use outlast_model::task::{AttemptResult, StopReason};
use outlast_model::{AnswerToken, Attempt, Failure, Payload, Refusal, Seq, WorkflowId};
use outlast_worker::handle::BackendToken;
use temporalio_client::grpc::WorkflowService;
use temporalio_client::tonic::{Code, Request, Status};

use super::Client;
use crate::convert::{failure, payload};
use crate::proto::service::{
    RecordActivityTaskHeartbeatRequest, RespondActivityTaskCanceledRequest,
    RespondActivityTaskCompletedRequest, RespondActivityTaskFailedRequest,
};

impl Client {
    pub(super) async fn answer_for(
        &self,
        token: AnswerToken,
        result: AttemptResult,
    ) -> Result<(), Refusal> {
        let task_token = read(&token)?;
        let answered = match result {
            AttemptResult::Completed(done) => self.completed(task_token, &done).await,
            AttemptResult::Failed(why) => self.failed(task_token, &why).await,
            AttemptResult::Canceled(details) => self.canceled(task_token, details.as_ref()).await,
            AttemptResult::HandedBack | AttemptResult::Later => {
                return Err(Refusal::Unsupported {
                    what: "take an attempt back from outside",
                    instead: "answer with a result, a failure or a cancellation",
                });
            }
        };
        answered.map_err(|status| self.not_taken(&status))
    }

    pub(super) async fn report_for(
        &self,
        token: AnswerToken,
        details: &Payload,
    ) -> Result<Option<StopReason>, Refusal> {
        let request = RecordActivityTaskHeartbeatRequest {
            namespace: self.namespace(),
            task_token: read(&token)?,
            details: Some(payload::list(details)),
            identity: self.identity(),
            ..RecordActivityTaskHeartbeatRequest::default()
        };
        let mut service = self.cluster.connection.clone();
        let answer = service
            .record_activity_task_heartbeat(Request::new(request))
            .await;
        let answer = answer
            .map_err(|status| self.not_taken(&status))?
            .into_inner();
        Ok(if answer.cancel_requested {
            Some(StopReason::Cancelled)
        } else if answer.activity_reset {
            Some(StopReason::Reset)
        } else if answer.activity_paused {
            Some(StopReason::Paused)
        } else {
            None
        })
    }

    async fn completed(&self, task_token: Vec<u8>, result: &Payload) -> Result<(), Status> {
        let request = RespondActivityTaskCompletedRequest {
            namespace: self.namespace(),
            task_token,
            result: Some(payload::list(result)),
            identity: self.identity(),
            ..RespondActivityTaskCompletedRequest::default()
        };
        let mut service = self.cluster.connection.clone();
        service
            .respond_activity_task_completed(Request::new(request))
            .await?;
        Ok(())
    }

    async fn failed(&self, task_token: Vec<u8>, why: &Failure) -> Result<(), Status> {
        let request = RespondActivityTaskFailedRequest {
            namespace: self.namespace(),
            task_token,
            failure: Some(failure::to_wire(why)),
            identity: self.identity(),
            ..RespondActivityTaskFailedRequest::default()
        };
        let mut service = self.cluster.connection.clone();
        service
            .respond_activity_task_failed(Request::new(request))
            .await?;
        Ok(())
    }

    async fn canceled(&self, task_token: Vec<u8>, details: Option<&Payload>) -> Result<(), Status> {
        let request = RespondActivityTaskCanceledRequest {
            namespace: self.namespace(),
            task_token,
            details: details.map(payload::list),
            identity: self.identity(),
            ..RespondActivityTaskCanceledRequest::default()
        };
        let mut service = self.cluster.connection.clone();
        service
            .respond_activity_task_canceled(Request::new(request))
            .await?;
        Ok(())
    }

    /// The cluster knows the attempt by its token alone, and so do we.
    fn not_taken(&self, status: &Status) -> Refusal {
        if status.code() == Code::NotFound {
            return Refusal::AttemptEnded {
                workflow_id: WorkflowId::new("the token's run"),
                seq: Seq(0),
                attempt: Attempt(0),
            };
        }
        self.refusal(status)
    }
}

fn read(token: &AnswerToken) -> Result<Vec<u8>, Refusal> {
    let wrong = || Refusal::InvalidId {
        what: "answer token",
        value: token.as_str().chars().take(40).collect(),
        why: "no cluster made it",
    };
    Ok(BackendToken::read(token).ok_or_else(wrong)?.0)
}
