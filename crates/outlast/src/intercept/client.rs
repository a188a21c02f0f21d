//! Around what clients ask for: starts, messages, questions, ends.

use std::fmt;
use std::sync::Arc;

use outlast_model::event::UpdateRequest;
use outlast_model::start::{SignalRequest, StartReply, StartRequest, UpdateReply, UpdateStage};
use outlast_model::task::{AttemptResult, Query, StopReason};
use outlast_model::view::{Description, ListFilter, RunOutcome, RunRef, Summary};
use outlast_model::{AnswerToken, Event, Headers, Payload, RequestId, RunId};
use outlast_worker::port::ClientPort;

pub use outlast_worker::port::Answer;

/// Code around what clients ask for. The defaults let [`headers`](Self::headers) write and pass
/// on. Workflow ids are known to the caller already: leave them as they are.
///
/// An update passes once for each time it is waited for: accepted, and then its result.
pub trait ClientInterceptor: Send + Sync + 'static {
    /// Something with headers leaves.
    fn headers(&self, _headers: &mut Headers) {}

    /// A start, also one that is waited for: its end is a [`result`](Self::result).
    fn start(&self, mut start: StartRequest, next: Next) -> Answer<StartReply> {
        self.headers(&mut start.headers);
        next.start(start)
    }

    /// A start that brings a signal along.
    fn signal_with_start(
        &self,
        mut start: StartRequest,
        mut signal: SignalRequest,
        next: Next,
    ) -> Answer<StartReply> {
        self.headers(&mut start.headers);
        self.headers(&mut signal.headers);
        next.signal_with_start(start, signal)
    }

    /// A start that brings an update along.
    fn update_with_start(
        &self,
        mut start: StartRequest,
        mut update: UpdateRequest,
        stage: UpdateStage,
        next: Next,
    ) -> Answer<(StartReply, UpdateReply)> {
        self.headers(&mut start.headers);
        self.headers(&mut update.headers);
        next.update_with_start(start, update, stage)
    }

    /// A signal. Promises are settled by one, too.
    fn signal(&self, run: RunRef, mut signal: SignalRequest, next: Next) -> Answer<()> {
        self.headers(&mut signal.headers);
        next.signal(run, signal)
    }

    /// An update.
    fn update(
        &self,
        run: RunRef,
        mut update: UpdateRequest,
        stage: UpdateStage,
        next: Next,
    ) -> Answer<UpdateReply> {
        self.headers(&mut update.headers);
        next.update(run, update, stage)
    }

    /// A question.
    fn query(&self, run: RunRef, mut query: Query, next: Next) -> Answer<Payload> {
        self.headers(&mut query.headers);
        next.query(run, query)
    }

    /// A request to stop.
    fn cancel(
        &self,
        run: RunRef,
        reason: String,
        request_id: Option<RequestId>,
        next: Next,
    ) -> Answer<()> {
        next.cancel(run, reason, request_id)
    }

    /// The end of a run, at once.
    fn terminate(&self, run: RunRef, reason: String, next: Next) -> Answer<()> {
        next.terminate(run, reason)
    }

    /// How a run stands.
    fn describe(&self, run: RunRef, next: Next) -> Answer<Description> {
        next.describe(run)
    }

    /// The end of a run, waited for.
    fn result(&self, run: RunRef, next: Next) -> Answer<RunOutcome> {
        next.result(run)
    }
}

/// The next interceptor, and in the end the backend. Cheap to clone: an interceptor may pass on
/// later, again, or not at all.
#[derive(Clone)]
pub struct Next(Arc<dyn ClientPort>);

impl fmt::Debug for Next {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Next")
    }
}

impl Next {
    /// Starts a run.
    pub fn start(&self, start: StartRequest) -> Answer<StartReply> {
        self.0.start(start)
    }

    /// Starts a run with a signal.
    pub fn signal_with_start(
        &self,
        start: StartRequest,
        signal: SignalRequest,
    ) -> Answer<StartReply> {
        self.0.signal_with_start(start, signal)
    }

    /// Starts a run with an update.
    pub fn update_with_start(
        &self,
        start: StartRequest,
        update: UpdateRequest,
        stage: UpdateStage,
    ) -> Answer<(StartReply, UpdateReply)> {
        self.0.update_with_start(start, update, stage)
    }

    /// Sends a signal.
    pub fn signal(&self, run: RunRef, signal: SignalRequest) -> Answer<()> {
        self.0.signal(run, signal)
    }

    /// Sends an update.
    pub fn update(
        &self,
        run: RunRef,
        update: UpdateRequest,
        stage: UpdateStage,
    ) -> Answer<UpdateReply> {
        self.0.update(run, update, stage)
    }

    /// Asks something.
    pub fn query(&self, run: RunRef, query: Query) -> Answer<Payload> {
        self.0.query(run, query)
    }

    /// Asks a run to stop.
    pub fn cancel(&self, run: RunRef, reason: String, request_id: Option<RequestId>) -> Answer<()> {
        self.0.cancel(run, reason, request_id)
    }

    /// Ends a run.
    pub fn terminate(&self, run: RunRef, reason: String) -> Answer<()> {
        self.0.terminate(run, reason)
    }

    /// Says how a run stands.
    pub fn describe(&self, run: RunRef) -> Answer<Description> {
        self.0.describe(run)
    }

    /// Waits for the end of a run.
    pub fn result(&self, run: RunRef) -> Answer<RunOutcome> {
        self.0.result(run)
    }
}

/// The same backend, behind one more interceptor.
pub(super) fn before(
    interceptor: Arc<dyn ClientInterceptor>,
    next: Arc<dyn ClientPort>,
) -> Arc<dyn ClientPort> {
    Arc::new(Link { interceptor, next })
}

#[derive(Clone)]
struct Link {
    interceptor: Arc<dyn ClientInterceptor>,
    next: Arc<dyn ClientPort>,
}

impl Link {
    fn next(&self) -> Next {
        Next(self.next.clone())
    }
}

impl ClientPort for Link {
    fn start(&self, request: StartRequest) -> Answer<StartReply> {
        self.interceptor.start(request, self.next())
    }

    /// A start and the wait for its end, so that each passes through its own stage.
    fn run(&self, request: StartRequest) -> Answer<(RunId, RunOutcome)> {
        let (me, workflow_id) = (self.clone(), request.workflow_id.clone());
        let started = self.start(request);
        Box::pin(async move {
            let run_id = started.await?.run_id;
            let run = RunRef {
                workflow_id,
                run_id: Some(run_id),
            };
            Ok((run_id, me.result(run).await?))
        })
    }

    fn result(&self, run: RunRef) -> Answer<RunOutcome> {
        self.interceptor.result(run, self.next())
    }

    fn signal(&self, run: RunRef, signal: SignalRequest) -> Answer<()> {
        self.interceptor.signal(run, signal, self.next())
    }

    fn signal_with_start(
        &self,
        request: StartRequest,
        signal: SignalRequest,
    ) -> Answer<StartReply> {
        self.interceptor
            .signal_with_start(request, signal, self.next())
    }

    fn update(
        &self,
        run: RunRef,
        update: UpdateRequest,
        stage: UpdateStage,
    ) -> Answer<UpdateReply> {
        self.interceptor.update(run, update, stage, self.next())
    }

    fn update_with_start(
        &self,
        request: StartRequest,
        update: UpdateRequest,
        stage: UpdateStage,
    ) -> Answer<(StartReply, UpdateReply)> {
        self.interceptor
            .update_with_start(request, update, stage, self.next())
    }

    fn query(&self, run: RunRef, query: Query) -> Answer<Payload> {
        self.interceptor.query(run, query, self.next())
    }

    fn cancel(&self, run: RunRef, reason: String, request_id: Option<RequestId>) -> Answer<()> {
        self.interceptor
            .cancel(run, reason, request_id, self.next())
    }

    fn terminate(&self, run: RunRef, reason: String) -> Answer<()> {
        self.interceptor.terminate(run, reason, self.next())
    }

    fn retry(&self, run: RunRef) -> Answer<()> {
        self.next.retry(run)
    }

    fn describe(&self, run: RunRef) -> Answer<Description> {
        self.interceptor.describe(run, self.next())
    }

    fn history(&self, run: RunRef) -> Answer<Vec<Event>> {
        self.next.history(run)
    }

    fn answer_attempt(&self, token: AnswerToken, result: AttemptResult) -> Answer<()> {
        self.next.answer_attempt(token, result)
    }

    fn report_attempt(&self, token: AnswerToken, details: Payload) -> Answer<Option<StopReason>> {
        self.next.report_attempt(token, details)
    }

    fn list(&self, filter: ListFilter) -> Answer<Vec<Summary>> {
        self.next.list(filter)
    }
}
