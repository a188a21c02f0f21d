//! What a client asks of the backend, and what it makes of the answers.

use std::sync::{Arc, Mutex};

use outlast_model::event::UpdateRequest;
use outlast_model::start::{StartReply, UpdateReply, UpdateStage};
use outlast_model::task::Query;
use outlast_model::view::{Description, ListFilter, RunOutcome, Summary};
use outlast_model::{Event, Failure, SignalName, Status};
use outlast_worker::port::{Answer, ClientPort};

use super::*;
use crate::ctx::play::{block_on, payload};
use crate::prelude::*;
use crate::{Handle, WorkflowDef};

const DOUBLE: WorkflowDef<u64, u64> = WorkflowDef::new("double");
const PAID: Signal<u64> = signal("paid");

/// A backend that writes down what it is asked and answers as it was told.
struct Script {
    outcome: RunOutcome,
    refusal: Option<Refusal>,
    asked: Mutex<Vec<StartRequest>>,
    sent: Mutex<Vec<String>>,
}

impl Script {
    fn app(outcome: RunOutcome, refusal: Option<Refusal>) -> (App, Arc<Self>) {
        let (asked, sent) = (Mutex::default(), Mutex::default());
        let script = Arc::new(Self {
            outcome,
            refusal,
            asked,
            sent,
        });
        let ids = Arc::new(|| RunId(0x0123_4567_89ab_cdef));
        let app = App::new(script.clone(), ids, QueueName::new("default"), None);
        (app, script)
    }

    fn request(&self) -> StartRequest {
        self.asked
            .lock()
            .expect("one thread")
            .pop()
            .expect("a start was asked for")
    }

    fn note<T: Send + 'static>(&self, text: String, answer: Result<T, Refusal>) -> Answer<T> {
        self.sent.lock().expect("one thread").push(text);
        Box::pin(std::future::ready(answer))
    }
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
        self.note(
            format!("result of {:?}", run.run_id),
            Ok(self.outcome.clone()),
        )
    }

    fn signal(
        &self,
        run: RunRef,
        name: SignalName,
        input: Payload,
        request_id: Option<RequestId>,
    ) -> Answer<()> {
        let text = String::from_utf8_lossy(&input.data).into_owned();
        self.note(
            format!("{name} {text} {request_id:?} to {}", run.workflow_id),
            Ok(()),
        )
    }

    fn signal_with_start(
        &self,
        _: StartRequest,
        _: SignalName,
        _: Payload,
        _: Option<RequestId>,
    ) -> Answer<StartReply> {
        Box::pin(std::future::ready(Err(Refusal::Unavailable {
            reason: "not yet".into(),
        })))
    }

    fn update(&self, _: RunRef, _: UpdateRequest, _: UpdateStage) -> Answer<UpdateReply> {
        Box::pin(std::future::ready(Err(Refusal::Unavailable {
            reason: "not yet".into(),
        })))
    }

    fn update_with_start(
        &self,
        _: StartRequest,
        _: UpdateRequest,
        _: UpdateStage,
    ) -> Answer<(StartReply, UpdateReply)> {
        Box::pin(std::future::ready(Err(Refusal::Unavailable {
            reason: "not yet".into(),
        })))
    }

    fn query(&self, _: RunRef, _: Query) -> Answer<Payload> {
        Box::pin(std::future::ready(Err(Refusal::Unavailable {
            reason: "not yet".into(),
        })))
    }

    fn cancel(&self, run: RunRef, _: String, _: Option<RequestId>) -> Answer<()> {
        self.note(format!("cancel {}", run.workflow_id), Ok(()))
    }

    fn terminate(&self, run: RunRef, reason: String) -> Answer<()> {
        self.note(format!("terminate {}: {reason}", run.workflow_id), Ok(()))
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

fn completed() -> RunOutcome {
    RunOutcome::Completed(payload(42))
}

#[test]
fn a_start_without_an_id_gets_one_of_its_own() {
    let (app, script) = Script::app(completed(), None);
    let handle = block_on(app.start(DOUBLE, 21).into_future()).expect("starts");
    let request = script.request();
    assert_eq!(request.workflow_id.as_str(), "double-456789abcdef");
    assert_eq!((request.conflict, request.reuse), Default::default());
    assert_eq!(
        (handle.id(), handle.run_id()),
        ("double-456789abcdef", Some(request.run_id))
    );
    assert_eq!(block_on(handle.result()).expect("completed"), 42);
}

#[test]
fn what_a_caller_says_is_in_the_request() {
    let (app, script) = Script::app(completed(), None);
    let start = app
        .start(DOUBLE, 21)
        .id("d-1")
        .request_id("r-1")
        .queue("gpu");
    let start = start
        .conflict(ConflictPolicy::TerminateExisting)
        .run_timeout(1.hours());
    block_on(start.reuse(ReusePolicy::RejectDuplicate).into_future()).expect("starts");
    let request = script.request();
    assert_eq!(request.input, payload(21));
    assert_eq!(request.request_id.expect("given").as_str(), "r-1");
    assert_eq!(
        (request.queue.as_str(), request.run_timeout),
        ("gpu", Some(1.hours()))
    );
    assert_eq!(request.conflict, ConflictPolicy::TerminateExisting);
    assert_eq!(request.reuse, ReusePolicy::RejectDuplicate);
}

#[test]
fn a_run_with_an_id_attaches() {
    let (app, script) = Script::app(completed(), None);
    assert_eq!(
        block_on(app.run(DOUBLE, 21).id("d-1").into_future()).expect("completed"),
        42
    );
    let request = script.request();
    let policies = (request.conflict, request.reuse);
    assert_eq!(
        policies,
        (ConflictPolicy::UseExisting, ReusePolicy::UseExisting)
    );
}

#[test]
fn again_starts_anew_unless_the_run_completed() {
    let already = Refusal::AlreadyStarted {
        workflow_id: WorkflowId::new("d-1"),
        run_id: RunId(5),
        status: Status::Completed,
    };
    for run in [
        |app: &App| app.run(DOUBLE, 1).id("d-1").again(),
        |app: &App| app.run(DOUBLE, 1).again().id("d-1"),
    ] {
        let (app, script) = Script::app(completed(), Some(already.clone()));
        assert_eq!(block_on(run(&app).into_future()).expect("its result"), 42);
        assert_eq!(
            script.request().reuse,
            ReusePolicy::AllowDuplicateFailedOnly
        );
        let asked = script.sent.lock().expect("one thread").clone();
        assert_eq!(
            asked,
            ["result of Some(00000000-0000-0000-0000-000000000005)"]
        );
    }
}

#[test]
fn every_end_of_a_run_has_its_error() {
    let end = |outcome| {
        let (app, _) = Script::app(outcome, None);
        block_on(app.run(DOUBLE, 1).id("d-1").into_future()).expect_err("did not complete")
    };
    let failed = end(RunOutcome::Failed(Failure::application("", "no")));
    assert_eq!(failed.to_string(), "workflow double (d-1) failed: no");
    assert!(end(RunOutcome::Canceled).is_cancelled());
    assert!(end(RunOutcome::TimedOut).is_timeout());
    let ended = end(RunOutcome::Terminated {
        reason: "enough".into(),
    });
    assert!(matches!(ended, CallError::Terminated(_)));
    let other = end(RunOutcome::Completed(payload("text"))).to_string();
    assert!(other.contains("its result is not a `u64`"), "{other}");
}

#[test]
fn a_handle_talks_to_the_newest_run_of_its_id() {
    let (app, script) = Script::app(completed(), Some(Refusal::StoreFull));
    let handle: Handle<u64> = app.get(DOUBLE, "d-1");
    assert_eq!(handle.run_id(), None);
    block_on(async {
        handle.send(PAID, 9).request_id("r-1").await?;
        handle.cancel().await?;
        handle.terminate("enough").await?;
        handle.retry().await?;
        handle.history().await?;
        app.list(ListFilter::default()).await
    })
    .expect("all are answered");
    let asked = script.sent.lock().expect("one thread").join(", ");
    let sent = "paid 9 Some(\"r-1\") to d-1, cancel d-1, terminate d-1: enough, retry d-1";
    assert_eq!(asked, format!("{sent}, history d-1, list"));
    let refused = block_on(handle.describe()).expect_err("there is none");
    assert_eq!(
        refused.to_string(),
        "no run for \"d-1\": list them with `outlast ls` [OL-1005]"
    );
    let full = block_on(app.start(DOUBLE, 1).into_future()).expect_err("refused");
    assert_eq!(full.refusal(), Some(&Refusal::StoreFull));
}
