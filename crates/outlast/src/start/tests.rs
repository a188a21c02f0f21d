//! What a client asks of the backend, and what it makes of the answers.

use outlast_model::view::{ListFilter, RunOutcome};
use outlast_model::{Failure, Status};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::script::Script;
use super::*;
use crate::ctx::play::{block_on, payload};
use crate::prelude::*;
use crate::{Handle, Query, Update, WorkflowDef, query, update};

const DOUBLE: WorkflowDef<u64, u64> = WorkflowDef::new("double");
const PAID: Signal<u64> = signal("paid");
const TOTAL: Query<(), u64> = query("total");
const ADD: Update<u64, u64> = update("add");

#[derive(Debug, thiserror::Error, Serialize, Deserialize, Failure)]
#[error("{0} is too much")]
struct TooMuch(u64);

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
        .run_timeout(1.hours())
        .task_timeout(1.secs())
        .priority(2);
    block_on(start.reuse(ReusePolicy::RejectDuplicate).into_future()).expect("starts");
    let request = script.request();
    assert_eq!(request.input, payload(21));
    assert_eq!(request.request_id.expect("given").as_str(), "r-1");
    assert_eq!(
        (request.queue.as_str(), request.run_timeout),
        ("gpu", Some(1.hours()))
    );
    assert_eq!(request.task_timeout, Some(1.secs()));
    assert_eq!(request.priority.map(|priority| priority.key()), Some(2));
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
        "no run for \"d-1\": list them with `outlast ls --db FILE` [OL-1005]"
    );
    let full = block_on(app.start(DOUBLE, 1).into_future()).expect_err("refused");
    assert_eq!(full.refusal(), Some(&Refusal::StoreFull));
}

#[test]
fn a_result_follows_the_chain_of_runs() {
    let (app, script) = Script::app(RunOutcome::ContinuedAsNew(RunId(9)), None);
    let result = block_on(app.run(DOUBLE, 1).into_future());
    assert_eq!(result.expect("of the last run"), 42);
    let next = "result of Some(00000000-0000-0000-0000-000000000009)";
    assert_eq!(script.asked(), [next]);
}

#[test]
fn questions_and_updates_say_what_they_are_and_to_whom() {
    let (app, script) = Script::default().start();
    let handle = app.get(DOUBLE, "d-1");
    block_on(async {
        assert_eq!(handle.query(TOTAL, ()).await?, 42);
        assert_eq!(handle.update(ADD, 7).id("u-1").await?, 42);
        let accepted = handle.update(ADD, 8).id("u-2").accepted().await?;
        assert_eq!((accepted.id(), accepted.result().await?), ("u-2", 42));
        assert_eq!(app.get_raw("d-2").update_raw("add", &json!(9)).await?, 42);
        assert_eq!(
            app.get_raw("d-2").query_raw("total", &json!(null)).await?,
            42
        );
        app.get_raw("d-2").send_raw("paid", &json!([1])).await
    })
    .expect("all are answered");
    let made = "00000000-0000-0000-0123-456789abcdef";
    assert_eq!(
        script.asked(),
        [
            "total  of d-1",
            "add 7 as u-1 to d-1 Completed",
            "add 8 as u-2 to d-1 Accepted",
            "add 8 as u-2 to d-1 Completed",
            &format!("add 9 as {made} to d-2 Completed"),
            "total  of d-2",
            "paid [1] None to d-2",
        ]
    );
}

#[test]
fn an_update_that_is_turned_away_differs_from_one_that_fails() {
    let script = |rejects| Script {
        failure: Some(crate::IntoFailure::into_failure(TooMuch(9))),
        rejects,
        ..Script::default()
    };
    let (app, _) = script(true).start();
    let handle = app.get(DOUBLE, "d-1");
    let rejected = block_on(handle.update(ADD, 9).into_future()).expect_err("turned away");
    assert_eq!(
        rejected.to_string(),
        "update add of d-1 was rejected: 9 is too much"
    );
    assert_eq!(rejected.code(), "OL-4207");
    assert!(matches!(rejected, CallError::Rejected(_)));
    assert_eq!(rejected.find::<TooMuch>().expect("typed").0, 9);
    let accepting = block_on(handle.update(ADD, 9).accepted().into_future());
    assert!(matches!(accepting, Err(CallError::Rejected(_))));
    let (app, _) = script(false).start();
    let failed = block_on(app.get(DOUBLE, "d-1").update(ADD, 9).into_future());
    let failed = failed.expect_err("it fails");
    assert_eq!(
        failed.to_string(),
        "update add of d-1 failed: 9 is too much"
    );
    assert!(matches!(failed, CallError::Failed(..)));
}

#[test]
fn a_question_fails_with_what_its_handler_raised_or_with_a_refusal() {
    let ask = |failure| {
        let script = Script {
            failure: Some(failure),
            ..Script::default()
        };
        let (app, _) = script.start();
        let asked = app.get(DOUBLE, "d-1").query(TOTAL, ());
        block_on(asked.into_future()).expect_err("it fails")
    };
    let raised = ask(crate::IntoFailure::into_failure(TooMuch(9)));
    assert_eq!(
        raised.to_string(),
        "query total of d-1 failed: 9 is too much"
    );
    assert!(matches!(raised, CallError::Failed(..)));
    let panicked = ask(Failure::panic("oh"));
    assert!(matches!(panicked, CallError::Panicked(_)), "{panicked}");
    let unknown = outlast_model::failure::type_name::UNKNOWN_HANDLER;
    let refused = ask(Failure::application(unknown, "known: sum"));
    assert_eq!(refused.code(), "OL-1009");
    assert!(refused.to_string().contains("known: sum"), "{refused}");
}

#[test]
fn a_start_may_bring_a_message_along() {
    let (app, script) = Script::default().start();
    let start = || app.start(DOUBLE, 1).id("d-1");
    block_on(async {
        start().with_signal(|run| run.send(PAID, 5)).await?;
        let (run, sum) = start()
            .with_update(|run| run.update(ADD, 6).id("u"))
            .await?;
        assert_eq!((run.id(), sum), ("d-1", 42));
        let brought = start().with_update(|run| run.update(ADD, 7).id("v"));
        let (_, update) = brought.accepted().await?;
        assert_eq!(update.id(), "v");
        outlast::Ok(())
    })
    .expect("all are answered");
    assert_eq!(script.request().conflict, ConflictPolicy::UseExisting);
    assert_eq!(
        script.asked(),
        [
            "d-1 with paid 5",
            "add 6 as u to d-1 Completed",
            "add 7 as v to d-1 Accepted"
        ]
    );
}

#[test]
fn a_promise_is_settled_by_name_or_by_token() {
    let (app, script) = Script::default().start();
    block_on(async {
        app.promise::<String>("d-1", "approval")
            .resolve("yes")
            .await?;
        let token = "p1.00000000-0000-0000-0000-000000000007.%231.d-1";
        app.resolve_token(token, 5).await?;
        app.reject_token(token, "too late").await?;
        app.resolve_token("nonsense", 5).await
    })
    .expect_err("the last is no token");
    assert_eq!(
        script.asked(),
        [
            r#"__outlast_promise {"id":"approval","ok":"yes"} Some("__outlast_promise/approval") to d-1"#,
            r##"__outlast_promise {"id":"#1","ok":5} Some("__outlast_promise/#1") to d-1"##,
            r##"__outlast_promise {"id":"#1","err":{"type":"","message":"too late"}} Some("__outlast_promise/#1") to d-1"##,
        ]
    );
}
