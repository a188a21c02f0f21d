//! How runs end, and what they did: reads of a run's history.

use std::time::Duration;

use outlast_model::view::{RunOutcome, RunRef};
use outlast_model::{Event, Refusal, WorkflowId};
use temporalio_client::grpc::WorkflowService;
use temporalio_client::tonic::Request;

use super::{Client, execution};
use crate::convert::{failure, history, payload, some_run_id};
use crate::proto::enums;
use crate::proto::history::history_event::Attributes;
use crate::proto::history::{History, HistoryEvent};
use crate::proto::service::GetWorkflowExecutionHistoryRequest;
use crate::refusal;

/// The pause before a cluster that did not answer is asked again.
const AGAIN: Duration = Duration::from_secs(1);

impl Client {
    /// Waits for the end of a run and of those that continue it.
    pub(super) async fn outcome(&self, mut run: RunRef) -> Result<RunOutcome, Refusal> {
        loop {
            let close = self.close_event(&run).await?;
            match ended(close) {
                Ended::For(outcome) => return Ok(outcome),
                Ended::GoesOn(next) => run.run_id = Some(next),
                Ended::Unknown => {
                    return Err(Refusal::Indeterminate {
                        reason: "the cluster sent an event that ends no run".into(),
                    });
                }
            }
        }
    }

    /// The cluster answers empty after a while, or not at all for a time: it is asked again, for
    /// as long as it takes.
    async fn close_event(&self, run: &RunRef) -> Result<HistoryEvent, Refusal> {
        let mut page = Vec::new();
        loop {
            let request = GetWorkflowExecutionHistoryRequest {
                wait_new_event: true,
                history_event_filter_type: enums::HistoryEventFilterType::CloseEvent.into(),
                next_page_token: page.clone(),
                ..self.history_request(run)
            };
            let (mut events, next) = match self.page(run, request).await {
                Ok(answer) => answer,
                // Reading twice does no harm.
                Err(Refusal::Unavailable { .. } | Refusal::Indeterminate { .. }) => {
                    tokio::time::sleep(AGAIN).await;
                    continue;
                }
                Err(refusal) => return Err(refusal),
            };
            if let Some(close) = events.pop() {
                return Ok(close);
            }
            page = next;
        }
    }

    /// How a run that has ended did so.
    pub(super) async fn past_outcome(&self, run: &RunRef) -> Result<Option<RunOutcome>, Refusal> {
        Ok(match ended(self.close_event(run).await?) {
            Ended::For(outcome) => Some(outcome),
            Ended::GoesOn(next) => Some(RunOutcome::ContinuedAsNew(next)),
            Ended::Unknown => None,
        })
    }

    /// The whole history of the run that is meant, as Outlast's events.
    pub(super) async fn events(&self, run: RunRef) -> Result<Vec<Event>, Refusal> {
        let wire = self.wire_history(&run).await?;
        to_events(wire, &run.workflow_id)
    }

    /// The whole history of a run, as the cluster has it.
    pub(crate) async fn wire_history(&self, run: &RunRef) -> Result<Vec<HistoryEvent>, Refusal> {
        let mut events = Vec::new();
        let mut page = Vec::new();
        loop {
            let request = GetWorkflowExecutionHistoryRequest {
                next_page_token: page,
                ..self.history_request(run)
            };
            let (more, next) = self.page(run, request).await?;
            events.extend(more);
            if next.is_empty() {
                return Ok(events);
            }
            page = next;
        }
    }

    /// The event a history begins with.
    pub(super) async fn first_event(&self, run: &RunRef) -> Result<Option<HistoryEvent>, Refusal> {
        let request = GetWorkflowExecutionHistoryRequest {
            maximum_page_size: 1,
            ..self.history_request(run)
        };
        let (events, _) = self.page(run, request).await?;
        Ok(events.into_iter().next())
    }

    fn history_request(&self, run: &RunRef) -> GetWorkflowExecutionHistoryRequest {
        GetWorkflowExecutionHistoryRequest {
            namespace: self.namespace(),
            execution: Some(execution(run)),
            skip_archival: true,
            ..GetWorkflowExecutionHistoryRequest::default()
        }
    }

    async fn page(
        &self,
        run: &RunRef,
        request: GetWorkflowExecutionHistoryRequest,
    ) -> Result<(Vec<HistoryEvent>, Vec<u8>), Refusal> {
        let mut service = self.cluster.connection.clone();
        let request = Request::new(request);
        let page = service.get_workflow_execution_history(request).await;
        let page = page.map_err(|status| match refusal::absent(&status) {
            Some(_) => refusal::missing(run),
            None => self.refusal(&status),
        })?;
        let page = page.into_inner();
        Ok((
            page.history.unwrap_or_default().events,
            page.next_page_token,
        ))
    }
}

pub(super) fn to_events(
    events: Vec<HistoryEvent>,
    workflow_id: &WorkflowId,
) -> Result<Vec<Event>, Refusal> {
    let history = History { events };
    history::from_wire(history, workflow_id).map_err(|error| Refusal::Indeterminate {
        reason: error.to_string(),
    })
}

/// What the last event of a run says.
enum Ended {
    /// It is over.
    For(RunOutcome),
    /// Another run continues it.
    GoesOn(outlast_model::RunId),
    /// It is not the last event.
    Unknown,
}

fn ended(event: HistoryEvent) -> Ended {
    let (outcome, next) = match event.attributes {
        Some(Attributes::WorkflowExecutionCompletedEventAttributes(it)) => (
            RunOutcome::Completed(payload::input_of(it.result)),
            it.new_execution_run_id,
        ),
        Some(Attributes::WorkflowExecutionFailedEventAttributes(it)) => (
            RunOutcome::Failed(failure::or_unknown(it.failure)),
            it.new_execution_run_id,
        ),
        Some(Attributes::WorkflowExecutionTimedOutEventAttributes(it)) => {
            (RunOutcome::TimedOut, it.new_execution_run_id)
        }
        Some(Attributes::WorkflowExecutionCanceledEventAttributes(_)) => {
            (RunOutcome::Canceled, String::new())
        }
        Some(Attributes::WorkflowExecutionTerminatedEventAttributes(it)) => {
            (RunOutcome::Terminated { reason: it.reason }, String::new())
        }
        Some(Attributes::WorkflowExecutionContinuedAsNewEventAttributes(it)) => {
            return some_run_id(&it.new_execution_run_id).map_or(Ended::Unknown, Ended::GoesOn);
        }
        _ => return Ended::Unknown,
    };
    // A run with a retry policy or a schedule of another SDK goes on as well.
    some_run_id(&next).map_or(Ended::For(outcome), Ended::GoesOn)
}
