//! What clients ask for: checked, then put into the right inbox, or read from the store.

use outlast_engine::Input;
use outlast_model::event::UpdateRequest;
use outlast_model::id::WorkflowId;
use outlast_model::start::{SignalRequest, StartReply, StartRequest, UpdateReply, UpdateStage};
use outlast_model::task::{AttemptResult, OpenAttempt, Query, StopReason};
use outlast_model::view::{Description, ListFilter, RunOutcome, RunRef, Summary};
use outlast_model::{Event, Headers, Payload, Refusal, RequestId, limits};

use super::Service;
use crate::mail::{Mail, Reply, With};
use crate::read;

impl Service {
    /// Starts a run; `reply` hears when it is durable, `wait` when it has ended.
    pub fn start(
        &self,
        request: StartRequest,
        reply: Reply<StartReply>,
        wait: Option<Reply<RunOutcome>>,
    ) {
        if let Err(refusal) = check_start(&request) {
            return reply(Err(refusal));
        }
        let cell = self.cell_of(&request.workflow_id);
        cell.inbox.put(Mail::Start {
            request: Box::new(request),
            reply,
            wait,
            with: None,
        });
    }

    /// Starts a run with a signal, or sends it to the open run that the conflict policy chose.
    pub fn signal_with_start(
        &self,
        request: StartRequest,
        mut signal: SignalRequest,
        reply: Reply<StartReply>,
    ) {
        let checked =
            check_start(&request).and_then(|()| check_signal(&request.workflow_id, &signal));
        if let Err(refusal) = checked {
            return reply(Err(refusal));
        }
        // The same request again, without an id for the signal alone, is the same signal.
        signal.request_id = signal.request_id.or_else(|| request.request_id.clone());
        self.start_with(request, With::Signal(signal.into()), reply);
    }

    /// Starts a run with an update, or sends it to the open run that the conflict policy chose.
    pub fn update_with_start(
        &self,
        request: StartRequest,
        update: UpdateRequest,
        stage: UpdateStage,
        started: Reply<StartReply>,
        reply: Reply<UpdateReply>,
    ) {
        let checked =
            check_start(&request).and_then(|()| check_update(&request.workflow_id, &update));
        if let Err(refusal) = checked {
            started(Err(refusal.clone()));
            return reply(Err(refusal));
        }
        self.start_with(request, With::Update(update, stage, reply), started);
    }

    fn start_with(&self, request: StartRequest, with: With, reply: Reply<StartReply>) {
        let cell = self.cell_of(&request.workflow_id);
        cell.inbox.put(Mail::Start {
            request: Box::new(request),
            reply,
            wait: None,
            with: Some(with),
        });
    }

    /// Asks something of a run; `reply` hears when it has come so far.
    pub fn update(
        &self,
        run: RunRef,
        request: UpdateRequest,
        stage: UpdateStage,
        reply: Reply<UpdateReply>,
    ) {
        if let Err(refusal) = check_update(&run.workflow_id, &request) {
            return reply(Err(refusal));
        }
        let cell = self.cell_of(&run.workflow_id);
        cell.inbox.put(Mail::Update {
            run,
            request,
            stage,
            reply,
        });
    }

    /// Asks about a run's settled state.
    pub fn query(&self, run: RunRef, query: Query, reply: Reply<Payload>) {
        let checked = check_id("query name", query.name.as_str())
            .and_then(|()| check_size("query", &run.workflow_id, &query.input))
            .and_then(|()| check_headers(&run.workflow_id, &query.headers));
        if let Err(refusal) = checked {
            return reply(Err(refusal));
        }
        let cell = self.cell_of(&run.workflow_id);
        cell.inbox.put(Mail::Query { run, query, reply });
    }

    /// Waits for the end of a run.
    pub fn result(&self, run: RunRef, reply: Reply<RunOutcome>) {
        self.cell_of(&run.workflow_id)
            .inbox
            .put(Mail::Wait { run, reply });
    }

    /// Sends a message.
    pub fn signal(&self, run: RunRef, signal: SignalRequest, reply: Reply<()>) {
        match check_signal(&run.workflow_id, &signal) {
            Ok(()) => self.message(run, signal.into(), reply),
            Err(refusal) => reply(Err(refusal)),
        }
    }

    /// Answers for an attempt from outside; `reply` hears when it is durable.
    pub fn answer_attempt(
        &self,
        workflow_id: WorkflowId,
        attempt: OpenAttempt,
        result: AttemptResult,
        reply: Reply<()>,
    ) {
        if let AttemptResult::Completed(payload) = &result
            && let Err(refusal) = check_size("result", &workflow_id, payload)
        {
            return reply(Err(refusal));
        }
        let run = run_of(workflow_id, attempt);
        self.message(run, Input::Answer { attempt, result }, reply);
    }

    /// Reports for an attempt from outside; `reply` hears whether to stop.
    pub fn report_attempt(
        &self,
        workflow_id: WorkflowId,
        attempt: OpenAttempt,
        details: Payload,
        reply: Reply<Option<StopReason>>,
    ) {
        if let Err(refusal) = check_size("heartbeat", &workflow_id, &details) {
            return reply(Err(refusal));
        }
        let run = run_of(workflow_id, attempt);
        let input = Input::Report { attempt, details };
        let cell = self.cell_of(&run.workflow_id);
        cell.inbox.put(Mail::Report { run, input, reply });
    }

    /// Asks a run to stop.
    pub fn cancel(
        &self,
        run: RunRef,
        reason: String,
        request_id: Option<RequestId>,
        reply: Reply<()>,
    ) {
        match check_request(request_id.as_ref()) {
            Ok(()) => self.message(run, Input::Cancel { reason, request_id }, reply),
            Err(refusal) => reply(Err(refusal)),
        }
    }

    /// Ends a run at once.
    pub fn terminate(&self, run: RunRef, reason: String, reply: Reply<()>) {
        self.message(run, Input::Terminate { reason }, reply);
    }

    /// Lets a blocked run try again.
    pub fn retry(&self, run: RunRef, reply: Reply<()>) {
        self.message(run, Input::Retry, reply);
    }

    /// How a run stands.
    pub fn describe(&self, run: RunRef, reply: Reply<Description>) {
        self.cell_of(&run.workflow_id)
            .inbox
            .put(Mail::Describe { run, reply });
    }

    /// A run's history, as far as it is durable.
    ///
    /// # Errors
    /// [`Refusal::NotFound`] or [`Refusal::Quarantined`].
    pub fn history(&self, run: &RunRef) -> Result<Vec<Event>, Refusal> {
        let row = read::row_of(&*self.store, run)?;
        read::recall(&*self.store, row.no).map_err(|e| read::unreadable(row.run_id, &e))
    }

    /// Runs that match, newest first.
    ///
    /// # Errors
    /// [`Refusal::Unavailable`] when the store cannot be read.
    pub fn list(&self, filter: &ListFilter) -> Result<Vec<Summary>, Refusal> {
        let rows = self.store.list(filter).map_err(|e| read::unavailable(&e))?;
        Ok(rows.iter().map(read::summary).collect())
    }

    fn message(&self, run: RunRef, input: Input, reply: Reply<()>) {
        self.cell_of(&run.workflow_id)
            .inbox
            .put(Mail::Message { run, input, reply });
    }
}

fn run_of(workflow_id: WorkflowId, attempt: OpenAttempt) -> RunRef {
    RunRef {
        workflow_id,
        run_id: Some(attempt.run_id),
    }
}

fn check_start(request: &StartRequest) -> Result<(), Refusal> {
    check_id("workflow id", request.workflow_id.as_str())?;
    check_id("workflow type", request.workflow_type.as_str())?;
    check_id("task queue", request.queue.as_str())?;
    check_request(request.request_id.as_ref())?;
    check_size("input", &request.workflow_id, &request.input)?;
    check_headers(&request.workflow_id, &request.headers)
}

fn check_signal(workflow_id: &WorkflowId, signal: &SignalRequest) -> Result<(), Refusal> {
    check_id("signal name", signal.name.as_str())?;
    check_size("signal", workflow_id, &signal.input)?;
    check_headers(workflow_id, &signal.headers)?;
    check_request(signal.request_id.as_ref())
}

fn check_update(workflow_id: &WorkflowId, update: &UpdateRequest) -> Result<(), Refusal> {
    check_id("update name", update.name.as_str())?;
    check_id("update id", update.id.as_str())?;
    check_size("update", workflow_id, &update.input)?;
    check_headers(workflow_id, &update.headers)
}

fn check_request(request_id: Option<&RequestId>) -> Result<(), Refusal> {
    request_id.map_or(Ok(()), |id| check_id("request id", id.as_str()))
}

fn check_size(
    what: &'static str,
    workflow_id: &WorkflowId,
    payload: &Payload,
) -> Result<(), Refusal> {
    check_bytes(what, workflow_id, payload.size(), limits::PAYLOAD_BYTES)
}

fn check_headers(workflow_id: &WorkflowId, headers: &Headers) -> Result<(), Refusal> {
    for (name, _) in headers.iter() {
        check_id("header", name)?;
    }
    let (size, limit) = (headers.size(), limits::HEADERS_BYTES);
    check_bytes("what travels with a call", workflow_id, size, limit)
}

fn check_bytes(
    what: &'static str,
    workflow_id: &WorkflowId,
    size: usize,
    limit: usize,
) -> Result<(), Refusal> {
    if size <= limit {
        return Ok(());
    }
    Err(Refusal::TooLarge {
        what,
        workflow_id: workflow_id.clone(),
        size,
        limit,
    })
}

fn check_id(what: &'static str, value: &str) -> Result<(), Refusal> {
    limits::check_id(value).map_err(|why| Refusal::InvalidId {
        what,
        value: value.chars().take(60).collect(),
        why,
    })
}
