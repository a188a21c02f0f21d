//! A workflow type whose every run is stuck.

use std::sync::atomic::{AtomicBool, Ordering};

use outlast::prelude::*;
use outlast::{App, Events, Settings, Severity, WorkerEvent};

use crate::blocked::{add, quick, strict};
use crate::gate::Gate;
use crate::support::{drive, until};

static GATE: Gate = Gate::new();

#[workflow]
async fn hangs(ctx: Ctx) -> Result<u64> {
    GATE.pass();
    Ok(ctx.run(add, 1).await?)
}

async fn open(settings: Settings) -> App {
    let env = TestEnv::new().expect_stuck_code().report(|_| ());
    let env = env.activity(add).workflow(hangs).workflow(asked);
    env.workflow(quick).settings(settings).start().await
}

async fn hear(events: &mut Events, is_it: impl Fn(&WorkerEvent) -> bool) {
    loop {
        let event = events.next().await.expect("the application is there");
        if is_it(&event) {
            return;
        }
    }
}

#[test]
fn a_hundred_runs_of_a_stuck_type_cost_eight_threads_and_no_neighbour() {
    drive(async {
        let app = open(strict()).await;
        let mut events = app.events(Severity::Info);
        let starts = (0..100).map(|n| {
            let start = app.start(hangs, ()).id(format!("stuck-{n}"));
            async move { start.await.expect("it starts") }
        });
        let starts = tokio::spawn(futures::future::join_all(starts));
        let is_it = |event: &WorkerEvent| matches!(event, WorkerEvent::TypeBlocked { workflow_type, .. } if workflow_type.as_str() == "hangs");
        hear(&mut events, is_it).await;
        let runs = starts.await.expect("nobody panics");
        for _ in 0..3 {
            assert_eq!(app.run(quick, ()).await.expect("it ends"), 3);
        }
        let mut refused = 0;
        for run in &runs {
            let found = until(run, |d| d.trouble.is_some()).await;
            assert!(found.summary.is_blocked, "{found:?}");
            let text = found.trouble.expect("it is in trouble").failure.to_string();
            refused += usize::from(text.contains("workflow type hangs is blocked: 8 threads"));
        }
        assert_eq!((GATE.waiting(), refused), (8, 92));
        let why = runs[99].why().await.expect("somebody says why");
        let is_named = why
            .iter()
            .any(|answer| answer.text.contains("type hangs is blocked"));
        assert!(is_named, "{why:?}");
        let standing = app.worker_state().expect("it has a worker").standing;
        assert_eq!(standing.blocked_types.len(), 1);
        // To ask for it is not enough.
        runs[99].retry().await.expect("it is durable");
        until(&runs[99], |d| {
            d.trouble.as_ref().is_some_and(|t| t.attempts == 2)
        })
        .await;
        assert_eq!(GATE.waiting(), 8);
        GATE.open();
        hear(&mut events, |event| {
            matches!(event, WorkerEvent::TypeReleased { .. })
        })
        .await;
        for run in runs {
            assert_eq!(run.result().await.expect("it ends"), 2);
        }
        app.shutdown().await;
    });
}

static QUESTION: Gate = Gate::new();
static IS_MENDED: AtomicBool = AtomicBool::new(false);
const HOW: Query<(), u64> = query("how");
const GO: Signal<u64> = signal("go");

/// Has a question that does not end.
#[workflow]
async fn asked(ctx: Ctx) -> Result<u64> {
    ctx.on_query(HOW, |()| {
        if !IS_MENDED.load(Ordering::SeqCst) {
            QUESTION.pass();
        }
        Ok::<_, Error>(7)
    });
    Ok(ctx.recv(GO).await?)
}

#[test]
fn a_question_without_end_costs_its_run_one_thread_and_no_turn() {
    drive(async {
        let app = open(strict()).await;
        let run = app.start(asked, ()).await.expect("it starts");
        assert!(run.query(HOW, ()).await.is_err(), "it is given up");
        for _ in 0..3 {
            let refused = run.query(HOW, ()).await.expect_err("it is refused");
            assert!(
                refused.to_string().contains("has not come back"),
                "{refused}"
            );
        }
        assert_eq!(QUESTION.waiting(), 1);
        run.send(GO, 5).await.expect("it is durable");
        assert_eq!(run.result().await.expect("it ends"), 5);
        IS_MENDED.store(true, Ordering::SeqCst);
        QUESTION.open();
        app.shutdown().await;
    });
}
