//! Destructors that block their thread when an instance leaves memory.

use std::time::Duration;

use outlast::prelude::*;
use outlast::{App, Events, Settings, Severity, WorkerEvent};

use crate::blocked::{add, patient, quick, strict};
use crate::gate::Gate;
use crate::support::{drive, until};

const GO: Signal<u64> = signal("go");

/// Each test has a gate of its own: its number is the input of its culprits.
static GATES: [Gate; 7] = [const { Gate::new() }; 7];

/// Does not let itself be dropped before its gate is open.
struct Clings(usize);

impl Drop for Clings {
    fn drop(&mut self) {
        GATES[self.0].pass();
    }
}

/// Holds something, waits, and returns what it is sent.
#[workflow]
async fn holds(ctx: Ctx, test: usize) -> Result<u64> {
    let clings = Clings(test);
    ctx.run(add, 1).await?;
    let n = ctx.recv(GO).await?;
    // It lets go of it well before its end.
    std::mem::forget(clings);
    Ok(n)
}

/// Holds it to the end and fails its task.
#[workflow]
async fn fails(ctx: Ctx, test: usize) -> Result<u64> {
    let clings = Clings(test);
    ctx.run(add, 1).await?;
    let branch = ctx.spawn(async move {
        let _clings = clings;
        std::future::pending::<()>().await;
    });
    drop(branch);
    panic!("as planned")
}

/// Its step holds something, and never ends.
#[workflow]
async fn steps(ctx: Ctx, test: usize) -> Result<u64> {
    let clings = Clings(test);
    ctx.run(add, 1).await?;
    let step = ctx.step("waits", move || {
        let _held = &clings;
        std::future::pending::<Result<u64>>()
    });
    Ok(step.await?)
}

async fn open(settings: Settings) -> App {
    let env = TestEnv::new().expect_stuck_code().report(|_| ());
    let env = env.activity(add).workflow(holds).workflow(fails);
    let env = env.workflow(steps).workflow(quick);
    env.settings(settings).start().await
}

/// Waits until some code is given up; returns what is told of it.
async fn given_up(events: &mut Events) -> String {
    loop {
        let event = events.next().await.expect("the application is there");
        if let WorkerEvent::StuckGivenUp(stuck) = &*event {
            return stuck.to_string();
        }
    }
}

async fn neighbours(app: &App) {
    for _ in 0..3 {
        assert_eq!(app.run(quick, ()).await.expect("it ends"), 3);
    }
}

fn is_named(text: &str, id: &str) {
    assert!(text.contains(&format!("workflow {id} ")), "{text}");
    assert!(text.contains("destructors"), "{text}");
    assert!(text.contains("drops.rs:"), "{text}");
}

#[test]
fn an_instance_that_leaves_for_another_holds_up_nobody_and_is_named() {
    drive(async {
        let settings = Settings {
            cached_runs: 1,
            ..strict()
        };
        let app = open(settings).await;
        let mut events = app.events(Severity::Info);
        let first = app.start(holds, 0).id("first").await.expect("it starts");
        until(&first, |d| d.summary.events >= 7).await;
        // It needs the place, and has nothing to do with what follows.
        let second = app.start(holds, 6).id("second").await.expect("it starts");
        GATES[0].crowd(1).await;
        is_named(&given_up(&mut events).await, "first");
        neighbours(&app).await;
        let found = second.describe().await.expect("it is there");
        assert!(found.trouble.is_none(), "{:?}", found.trouble);
        GATES[0].open();
        GATES[6].open();
        for run in [first, second] {
            run.send(GO, 7).await.expect("it is durable");
            assert_eq!(run.result().await.expect("it ends"), 7);
        }
        app.shutdown().await;
    });
}

#[test]
fn the_destructors_of_a_terminated_run_hold_up_nobody() {
    drive(async {
        let app = open(patient()).await;
        let run = app.start(holds, 1).await.expect("it starts");
        until(&run, |d| d.summary.events >= 7).await;
        run.terminate("enough").await.expect("it is durable");
        GATES[1].crowd(1).await;
        neighbours(&app).await;
        assert!(matches!(run.result().await, Err(CallError::Terminated(_))));
        GATES[1].open();
        app.shutdown().await;
    });
}

#[test]
fn the_destructors_of_a_failed_task_are_given_up_with_it() {
    drive(async {
        let app = open(strict()).await;
        let mut events = app.events(Severity::Info);
        let run = app.start(fails, 2).id("fails").await.expect("it starts");
        is_named(&given_up(&mut events).await, "fails");
        neighbours(&app).await;
        let found = run.describe().await.expect("it is there");
        assert!(found.summary.is_blocked, "{found:?}");
        run.terminate("enough").await.expect("it is durable");
        GATES[2].open();
        app.shutdown().await;
    });
}

#[test]
fn what_the_code_of_a_step_holds_holds_up_nobody_when_its_run_has_ended() {
    drive(async {
        let app = open(strict()).await;
        let mut events = app.events(Severity::Info);
        let run = app.start(steps, 3).id("steps").await.expect("it starts");
        until(&run, |d| d.summary.events >= 7).await;
        run.terminate("enough").await.expect("it is durable");
        let text = given_up(&mut events).await;
        assert!(text.contains("workflow steps "), "{text}");
        assert!(text.contains("destructors of its steps"), "{text}");
        neighbours(&app).await;
        GATES[3].open();
        app.shutdown().await;
    });
}

#[test]
fn a_shutdown_names_the_run_whose_destructors_block_and_does_not_wait_for_them() {
    drive(async {
        let settings = Settings {
            shutdown_evictions: Duration::from_millis(100),
            ..patient()
        };
        let app = open(settings).await;
        let run = app.start(holds, 4).id("stays").await.expect("it starts");
        until(&run, |d| d.summary.events >= 7).await;
        let stopped = app.shutdown().await;
        let [left] = stopped.left_behind.as_slice() else {
            panic!("{stopped:?}");
        };
        assert!(
            left.contains("stays") && left.contains("drops.rs:"),
            "{left}"
        );
        GATES[4].open();
    });
}

#[test]
fn threads_that_come_back_give_back_their_stacks() {
    drive(async {
        let place = tempfile::tempdir().expect("a directory");
        let builder = outlast::Outlast::sqlite(place.path().join("runs.db"));
        let builder = builder.activity(add).workflow(blocks).shards(8);
        let settings = Settings {
            spare_threads: 32,
            ..patient()
        };
        let builder = builder.settings(settings).report(|_| ());
        let app = builder.start().await.expect("it starts");
        let mut events = app.events(Severity::Debug);
        let mut taken = 0;
        for (round, gate) in ROUNDS.iter().enumerate() {
            let starts = (0..32).map(|n| {
                let run = app.start(blocks, round).id(format!("{round}-{n}"));
                async move { run.await.expect("it starts") }
            });
            let runs = tokio::spawn(futures::future::join_all(starts));
            // Every shard has a culprit and is taken over once a round at the most.
            while taken < 8 * (round + 1) {
                let event = events.next().await.expect("the application is there");
                taken += usize::from(matches!(*event, WorkerEvent::ShardTakenOver { .. }));
            }
            gate.open();
            for run in runs.await.expect("nobody panics") {
                run.result().await.expect("it ends");
            }
        }
        assert!(taken >= 32, "{taken}");
        let stacks = app.worker_state().map_or(0, |state| state.stacks);
        assert!(stacks <= 24, "{stacks} stacks after {taken} take-overs");
        app.shutdown().await;
    });
}

static ROUNDS: [Gate; 4] = [const { Gate::new() }; 4];

#[workflow]
async fn blocks(ctx: Ctx, round: usize) -> Result<u64> {
    ROUNDS[round].pass();
    Ok(ctx.run(add, 1).await?)
}
