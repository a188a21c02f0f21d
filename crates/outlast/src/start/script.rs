//! A backend for tests of the client: it writes down what it is asked.

use std::sync::{Arc, Mutex};

use outlast_model::event::{UpdateOutcome, UpdateRequest};
use outlast_model::start::{SignalRequest, StartReply, StartRequest, UpdateReply, UpdateStage};
use outlast_model::task::{AttemptResult, Query, StopReason};
use outlast_model::view::{Description, ListFilter, RunOutcome, RunRef, Summary};
use outlast_model::{AnswerToken, Event, Failure, Payload, QueueName, Refusal, RequestId, RunId};
use outlast_worker::port::{Answer, ClientPort};

use crate::client::App;
use crate::ctx::play::payload;

/// A backend that writes down what it is asked and answers as it was told.
pub(crate) struct Script {
    pub(crate) outcome: RunOutcome,
    pub(crate) refusal: Option<Refusal>,
    /// How queries and updates fail.
    pub(crate) failure: Option<Failure>,
    /// Updates are turned away with that failure.
    pub(crate) rejects: bool,
    pub(crate) asked: Mutex<Vec<StartRequest>>,
    pub(crate) sent: Mutex<Vec<String>>,
}

impl Script {
    pub(crate) fn app(outcome: RunOutcome, refusal: Option<Refusal>) -> (App, Arc<Self>) {
        Self {
            outcome,
            refusal,
            ..Self::default()
        }
        .start()
    }

    pub(crate) fn start(self) -> (App, Arc<Self>) {
        let script = Arc::new(self);
        let ids = Arc::new(|| RunId(0x0123_4567_89ab_cdef));
        let app = App::new(script.clone(), ids, QueueName::new("default"), None);
        (app, script)
    }

    pub(crate) fn request(&self) -> StartRequest {
        self.asked
            .lock()
            .expect("one thread")
            .pop()
            .expect("a start was asked for")
    }

    pub(crate) fn asked(&self) -> Vec<String> {
        self.sent.lock().expect("one thread").clone()
    }

    fn reply(&self, stage: UpdateStage) -> UpdateReply {
        match (self.failure.clone(), stage) {
            (Some(failure), _) if self.rejects => UpdateReply::Rejected(failure),
            (_, UpdateStage::Accepted) => UpdateReply::Accepted,
            (Some(failure), _) => UpdateReply::Done(UpdateOutcome::Failed(failure)),
            (None, _) => UpdateReply::Done(UpdateOutcome::Completed(payload(42))),
        }
    }

    fn note<T: Send + 'static>(&self, text: String, answer: Result<T, Refusal>) -> Answer<T> {
        self.sent.lock().expect("one thread").push(text);
        Box::pin(std::future::ready(answer))
    }
}

impl Default for Script {
    fn default() -> Self {
        Self {
            outcome: RunOutcome::Completed(payload(42)),
            refusal: None,
            failure: None,
            rejects: false,
            asked: Mutex::default(),
            sent: Mutex::default(),
        }
    }
}

fn text(payload: &Payload) -> String {
    String::from_utf8_lossy(&payload.data).into_owned()
}

impl ClientPort for Script {
    fn start(&self, request: StartRequest) -> Answer<StartReply> {
        let run_id = request.run_id;
        self.asked.lock().expect("one thread").push(request);
        let reply = StartReply {
            run_id,
            started: true,
        };
        let answer = self.refusal.clone().map_or(Ok(reply), Err);
        Box::pin(std::future::ready(answer))
    }

    fn run(&self, request: StartRequest) -> Answer<(RunId, RunOutcome)> {
        let run_id = request.run_id;
        self.asked.lock().expect("one thread").push(request);
        let answer = self
            .refusal
            .clone()
            .map_or(Ok((run_id, self.outcome.clone())), Err);
        Box::pin(std::future::ready(answer))
    }

    fn result(&self, run: RunRef) -> Answer<RunOutcome> {
        // The chain ends with the second run.
        let next = run.run_id.map(RunOutcome::ContinuedAsNew);
        let is_last = next.is_some_and(|next| next == self.outcome);
        let outcome = if is_last {
            RunOutcome::Completed(payload(42))
        } else {
            self.outcome.clone()
        };
        self.note(format!("result of {:?}", run.run_id), Ok(outcome))
    }

    fn signal(&self, run: RunRef, signal: SignalRequest) -> Answer<()> {
        let (text, id) = (text(&signal.input), run.workflow_id);
        let (name, request_id) = (signal.name, signal.request_id);
        self.note(format!("{name} {text} {request_id:?} to {id}"), Ok(()))
    }

    fn signal_with_start(
        &self,
        request: StartRequest,
        signal: SignalRequest,
    ) -> Answer<StartReply> {
        let (name, text) = (signal.name, text(&signal.input));
        let note = format!("{} with {name} {text}", request.workflow_id);
        self.sent.lock().expect("one thread").push(note);
        self.start(request)
    }

    fn update(
        &self,
        run: RunRef,
        update: UpdateRequest,
        stage: UpdateStage,
    ) -> Answer<UpdateReply> {
        let UpdateRequest {
            id, name, input, ..
        } = update;
        let note = format!(
            "{name} {} as {id} to {} {stage:?}",
            text(&input),
            run.workflow_id
        );
        self.note(note, Ok(self.reply(stage)))
    }

    fn update_with_start(
        &self,
        request: StartRequest,
        update: UpdateRequest,
        stage: UpdateStage,
    ) -> Answer<(StartReply, UpdateReply)> {
        let run = RunRef::newest(request.workflow_id.clone());
        let (started, told) = (self.start(request), self.update(run, update, stage));
        Box::pin(async move { Ok((started.await?, told.await?)) })
    }

    fn query(&self, run: RunRef, query: Query) -> Answer<Payload> {
        let (workflow_id, name) = (run.workflow_id, query.name);
        let answer = match self.failure.clone() {
            None => Ok(payload(42)),
            Some(failure) => Err(Refusal::QueryFailed {
                workflow_id: workflow_id.clone(),
                query: name.to_string(),
                failure: Box::new(failure),
            }),
        };
        self.note(
            format!("{name} {} of {workflow_id}", text(&query.input)),
            answer,
        )
    }

    fn cancel(&self, run: RunRef, _: String, _: Option<RequestId>) -> Answer<()> {
        self.note(format!("cancel {}", run.workflow_id), Ok(()))
    }

    fn terminate(&self, run: RunRef, reason: String) -> Answer<()> {
        self.note(format!("terminate {}: {reason}", run.workflow_id), Ok(()))
    }

    fn answer_attempt(&self, token: AnswerToken, result: AttemptResult) -> Answer<()> {
        self.note(format!("answer {token} {result:?}"), Ok(()))
    }

    fn report_attempt(&self, token: AnswerToken, details: Payload) -> Answer<Option<StopReason>> {
        let text = text(&details);
        self.note(format!("report {token} {text}"), Ok(None))
    }

    fn retry(&self, run: RunRef) -> Answer<()> {
        self.note(format!("retry {}", run.workflow_id), Ok(()))
    }

    fn describe(&self, run: RunRef) -> Answer<Description> {
        let what = run.workflow_id.to_string();
        self.note(String::new(), Err(Refusal::NotFound { what }))
    }

    fn history(&self, run: RunRef) -> Answer<Vec<Event>> {
        self.note(format!("history {}", run.workflow_id), Ok(Vec::new()))
    }

    fn list(&self, _: ListFilter) -> Answer<Vec<Summary>> {
        self.note("list".into(), Ok(Vec::new()))
    }
}
