//! The client half of the port, over the cluster's own service.
//!
//! The cluster chooses run ids, so the id a request brings is its request id: a start that is
//! sent twice has its effect once. A handle names the first run of a chain and means whichever
//! of its runs is open; the cluster knows runs only one by one, so a run that was continued is
//! looked up again.

mod attempt;
mod describe;
mod list;
mod result;
mod start;
mod update;

use std::pin::Pin;

use outlast_model::event::UpdateRequest;
use outlast_model::start::{SignalRequest, StartReply, StartRequest, UpdateReply, UpdateStage};
use outlast_model::task::{AttemptResult, Query, StopReason, settled_promise};
use outlast_model::view::{Description, ListFilter, RunOutcome, RunRef, Summary};
use outlast_model::{AnswerToken, Event, Payload, Refusal, RequestId, RunId};
use outlast_worker::port::{Answer, ClientPort};
use temporalio_client::Connection;
use temporalio_client::grpc::WorkflowService;
use temporalio_client::tonic::{Request, Status};

use crate::connect::Cluster;
use crate::convert::{headers, payload};
use crate::proto::service::{
    QueryWorkflowRequest, RequestCancelWorkflowExecutionRequest, SignalWorkflowExecutionRequest,
    TerminateWorkflowExecutionRequest,
};
use crate::proto::{common, query as wire_query};
use crate::refusal::{self, Absent};

/// The client of a cluster. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Client {
    cluster: Cluster,
}

impl Client {
    /// Over this connection.
    pub fn new(cluster: Cluster) -> Self {
        Self { cluster }
    }

    fn answer<T, F>(&self, ask: impl FnOnce(Self) -> F) -> Answer<T>
    where
        F: Future<Output = Result<T, Refusal>> + Send + 'static,
    {
        Box::pin(ask(self.clone()))
    }

    fn namespace(&self) -> String {
        self.cluster.namespace.to_string()
    }

    fn identity(&self) -> String {
        self.cluster.identity.to_string()
    }

    fn refusal(&self, status: &Status) -> Refusal {
        self.cluster.refusal(status)
    }

    async fn send_signal(&self, run: RunRef, signal: SignalRequest) -> Result<(), Refusal> {
        let request_id = given(signal.request_id);
        if let Some(promise) = settled_promise(&request_id)
            && self.has_request(&run, &request_id).await?
        {
            let workflow_id = run.workflow_id.clone();
            return Err(Refusal::AlreadyResolved {
                workflow_id,
                promise,
            });
        }
        self.on_open(run, |mut service, execution| {
            let request = SignalWorkflowExecutionRequest {
                namespace: self.namespace(),
                workflow_execution: Some(execution),
                signal_name: signal.name.as_str().to_owned(),
                input: payload::argument_list(&signal.input),
                identity: self.identity(),
                request_id: request_id.as_str().to_owned(),
                header: headers::some(&signal.headers),
                ..SignalWorkflowExecutionRequest::default()
            };
            Box::pin(async move {
                service
                    .signal_workflow_execution(Request::new(request))
                    .await?;
                Ok(())
            })
        })
        .await
    }

    /// Whether a message with this request id is in the history: the cluster takes it again
    /// without a word.
    async fn has_request(&self, run: &RunRef, request: &RequestId) -> Result<bool, Refusal> {
        let run = self.open_run(run.clone()).await?;
        let events = self.wire_history(&run).await?;
        Ok(events.iter().any(|event| {
            use crate::proto::history::history_event::Attributes;
            matches!(
                &event.attributes,
                Some(Attributes::WorkflowExecutionSignaledEventAttributes(it))
                    if it.request_id == request.as_str()
            )
        }))
    }

    async fn request_cancel(
        &self,
        run: RunRef,
        reason: String,
        request_id: RequestId,
    ) -> Result<(), Refusal> {
        self.on_open(run, |mut service, execution| {
            let request = RequestCancelWorkflowExecutionRequest {
                namespace: self.namespace(),
                workflow_execution: Some(execution),
                identity: self.identity(),
                request_id: request_id.as_str().to_owned(),
                reason: reason.clone(),
                ..RequestCancelWorkflowExecutionRequest::default()
            };
            Box::pin(async move {
                let request = Request::new(request);
                service.request_cancel_workflow_execution(request).await?;
                Ok(())
            })
        })
        .await
    }

    async fn end(&self, run: RunRef, reason: String) -> Result<(), Refusal> {
        self.on_open(run, |mut service, execution| {
            let request = TerminateWorkflowExecutionRequest {
                namespace: self.namespace(),
                workflow_execution: Some(execution),
                reason: reason.clone(),
                identity: self.identity(),
                ..TerminateWorkflowExecutionRequest::default()
            };
            Box::pin(async move {
                service
                    .terminate_workflow_execution(Request::new(request))
                    .await?;
                Ok(())
            })
        })
        .await
    }

    async fn ask(&self, run: RunRef, query: Query) -> Result<Payload, Refusal> {
        let run = self.open_run(run).await?;
        let request = QueryWorkflowRequest {
            namespace: self.namespace(),
            execution: Some(execution(&run)),
            query: Some(wire_query::WorkflowQuery {
                query_type: query.name.as_str().to_owned(),
                query_args: payload::argument_list(&query.input),
                header: headers::some(&query.headers),
            }),
            ..QueryWorkflowRequest::default()
        };
        let mut service = self.cluster.connection.clone();
        let answer = service.query_workflow(Request::new(request)).await;
        let answer = answer.map_err(|status| {
            refusal::query(&status, &run, query.name.as_str(), &self.cluster.namespace)
        })?;
        Ok(payload::input_of(answer.into_inner().query_result))
    }

    /// Calls for the open run that `run` means: as it is, and if that run has ended, again for
    /// the newest run of its chain.
    async fn on_open<T>(
        &self,
        run: RunRef,
        call: impl Fn(Connection, common::WorkflowExecution) -> Call<T> + Send,
    ) -> Result<T, Refusal> {
        let status = match call(self.cluster.connection.clone(), execution(&run)).await {
            Ok(done) => return Ok(done),
            Err(status) => status,
        };
        match refusal::absent(&status) {
            None => return Err(self.refusal(&status)),
            Some(Absent::Missing) => return Err(refusal::missing(&run)),
            Some(Absent::Closed) => {}
        }
        let newest = self.newest(&run).await?;
        if newest.status.is_open() {
            let run = RunRef {
                run_id: Some(newest.run_id),
                ..run
            };
            let again = call(self.cluster.connection.clone(), execution(&run)).await;
            return again.map_err(|status| self.refusal(&status));
        }
        Err(refusal::closed(&run, newest.run_id, newest.status))
    }

    /// The run that `run` means now.
    async fn open_run(&self, run: RunRef) -> Result<RunRef, Refusal> {
        if run.run_id.is_none() {
            return Ok(run);
        }
        let newest = self.newest(&run).await?;
        Ok(RunRef {
            run_id: Some(newest.run_id),
            ..run
        })
    }
}

/// A call on its way.
type Call<T> = Pin<Box<dyn Future<Output = Result<T, Status>> + Send>>;

fn execution(run: &RunRef) -> common::WorkflowExecution {
    common::WorkflowExecution {
        workflow_id: run.workflow_id.as_str().to_owned(),
        run_id: run.run_id.map(|run| run.to_string()).unwrap_or_default(),
    }
}

/// The id of a request whose caller gave none: a retry below us must not have its effect twice.
fn given(request_id: Option<RequestId>) -> RequestId {
    request_id.unwrap_or_else(|| {
        let mut bytes = [0; 16];
        // Without randomness the request has no id, and a retry below us may arrive twice.
        if getrandom::fill(&mut bytes).is_err() {
            return RequestId::new("");
        }
        RequestId::new(RunId(u128::from_be_bytes(bytes)).to_string())
    })
}

impl ClientPort for Client {
    fn start(&self, request: StartRequest) -> Answer<StartReply> {
        self.answer(|me| async move { me.start_run(&request).await })
    }

    fn run(&self, request: StartRequest) -> Answer<(RunId, RunOutcome)> {
        self.answer(|me| async move {
            let reply = me.start_run(&request).await?;
            let run = RunRef {
                workflow_id: request.workflow_id,
                run_id: Some(reply.run_id),
            };
            Ok((reply.run_id, me.outcome(run).await?))
        })
    }

    fn result(&self, run: RunRef) -> Answer<RunOutcome> {
        self.answer(|me| async move { me.outcome(run).await })
    }

    fn signal(&self, run: RunRef, signal: SignalRequest) -> Answer<()> {
        self.answer(|me| async move { me.send_signal(run, signal).await })
    }

    fn signal_with_start(
        &self,
        request: StartRequest,
        signal: SignalRequest,
    ) -> Answer<StartReply> {
        self.answer(|me| async move { me.start_with_signal(&request, signal).await })
    }

    fn update(
        &self,
        run: RunRef,
        update: UpdateRequest,
        stage: UpdateStage,
    ) -> Answer<UpdateReply> {
        self.answer(|me| async move { me.update_run(run, update, stage).await })
    }

    fn update_with_start(
        &self,
        request: StartRequest,
        update: UpdateRequest,
        stage: UpdateStage,
    ) -> Answer<(StartReply, UpdateReply)> {
        self.answer(|me| async move { me.start_with_update(&request, update, stage).await })
    }

    fn query(&self, run: RunRef, query: Query) -> Answer<Payload> {
        self.answer(|me| async move { me.ask(run, query).await })
    }

    fn cancel(&self, run: RunRef, reason: String, request_id: Option<RequestId>) -> Answer<()> {
        let request_id = given(request_id);
        self.answer(|me| async move { me.request_cancel(run, reason, request_id).await })
    }

    fn terminate(&self, run: RunRef, reason: String) -> Answer<()> {
        self.answer(|me| async move { me.end(run, reason).await })
    }

    fn answer_attempt(&self, token: AnswerToken, result: AttemptResult) -> Answer<()> {
        self.answer(|me| async move { me.answer_for(token, result).await })
    }

    fn report_attempt(&self, token: AnswerToken, details: Payload) -> Answer<Option<StopReason>> {
        self.answer(|me| async move { me.report_for(token, &details).await })
    }

    fn retry(&self, _: RunRef) -> Answer<()> {
        self.answer(|_| async move {
            Err(Refusal::Unsupported {
                what: "let one run try again",
                instead: "a cluster tries failing workflow tasks again by itself; deploy the \
                          repaired code and wait",
            })
        })
    }

    fn describe(&self, run: RunRef) -> Answer<Description> {
        self.answer(|me| async move { me.description(run).await })
    }

    fn history(&self, run: RunRef) -> Answer<Vec<Event>> {
        self.answer(|me| async move { me.events(run).await })
    }

    fn list(&self, filter: ListFilter) -> Answer<Vec<Summary>> {
        self.answer(|me| async move { me.summaries(filter).await })
    }
}
