//! Lists of runs, by the cluster's visibility.

use outlast_model::status::Status;
use outlast_model::view::{ListFilter, Summary};
use outlast_model::{Refusal, RunId};
use temporalio_client::grpc::WorkflowService;
use temporalio_client::tonic::Request;

use super::Client;
use super::describe::summary;
use crate::proto::service::ListWorkflowExecutionsRequest;

/// Runs listed where no number is given.
const DEFAULT: usize = 100;
/// Runs asked for at a time.
const PAGE: i32 = 200;

impl Client {
    /// Visibility lags a little behind the runs, and pages by tokens of its own: a page that
    /// begins behind a certain run is found by reading on from the first.
    pub(super) async fn summaries(&self, filter: ListFilter) -> Result<Vec<Summary>, Refusal> {
        let limit = if filter.limit == 0 {
            DEFAULT
        } else {
            filter.limit
        };
        let mut found = Found {
            runs: Vec::new(),
            before: filter.before,
        };
        let query = query(&filter);
        let mut page = Vec::new();
        loop {
            let request = ListWorkflowExecutionsRequest {
                namespace: self.namespace(),
                page_size: PAGE,
                next_page_token: page,
                query: query.clone(),
            };
            let mut service = self.cluster.connection.clone();
            let answer = service
                .list_workflow_executions(Request::new(request))
                .await;
            let answer = answer.map_err(|status| self.refusal(&status))?.into_inner();
            for info in answer.executions {
                found.add(summary(info)?);
            }
            if found.runs.len() >= limit || answer.next_page_token.is_empty() {
                found.runs.truncate(limit);
                return Ok(found.runs);
            }
            page = answer.next_page_token;
        }
    }
}

/// The runs behind the one named, or all.
struct Found {
    runs: Vec<Summary>,
    before: Option<RunId>,
}

impl Found {
    fn add(&mut self, summary: Summary) {
        match self.before {
            Some(before) if before == summary.run_id => self.before = None,
            Some(_) => {}
            None => self.runs.push(summary),
        }
    }
}

fn query(filter: &ListFilter) -> String {
    let mut parts = Vec::new();
    if let Some(status) = filter.status {
        parts.push(format!("ExecutionStatus = '{}'", name(status)));
    }
    if let Some(workflow_type) = &filter.workflow_type {
        let quoted = workflow_type.as_str().replace('\'', "''");
        parts.push(format!("WorkflowType = '{quoted}'"));
    }
    parts.join(" AND ")
}

fn name(status: Status) -> &'static str {
    match status {
        Status::Running => "Running",
        Status::Completed => "Completed",
        Status::Failed => "Failed",
        Status::Canceled => "Canceled",
        Status::Terminated => "Terminated",
        Status::ContinuedAsNew => "ContinuedAsNew",
        Status::TimedOut => "TimedOut",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_becomes_a_query() {
        assert_eq!(query(&ListFilter::default()), "");
        let filter = ListFilter {
            status: Some(Status::TimedOut),
            workflow_type: Some("it's".into()),
            ..ListFilter::default()
        };
        assert_eq!(
            query(&filter),
            "ExecutionStatus = 'TimedOut' AND WorkflowType = 'it''s'"
        );
    }
}
