//! Blocking attempts that wait for a thread: until they have one they are not there, neither for
//! those who tell them to stop nor for those who want to read.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use outlast::event::StopPhase;
use outlast::prelude::*;
use outlast::{App, ListFilter, Outlast, Settings, Severity, Status, WorkerEvent};

use crate::gate::Gate;
use crate::support::sound;

/// Many more than the runtime has threads for.
const CALLS: u32 = 6;
/// A test that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(60);

const STOP: Signal<()> = signal("stop");

#[derive(Clone)]
struct Door {
    gate: Arc<Gate>,
    begun: Arc<AtomicU32>,
}

impl Door {
    fn new() -> Self {
        let (gate, begun) = (Arc::new(Gate::new()), Arc::default());
        Self { gate, begun }
    }

    /// Opens it at the end of a test, also of one that fails: its thread would be waited for.
    fn opens(&self) -> Opens {
        Opens(self.gate.clone())
    }

    fn begun(&self) -> u32 {
        self.begun.load(Ordering::SeqCst)
    }
}

struct Opens(Arc<Gate>);

impl Drop for Opens {
    fn drop(&mut self) {
        self.0.open();
    }
}

#[activity]
fn passes(State(door): State<Door>, n: u32) -> Result<u32> {
    door.begun.fetch_add(1, Ordering::SeqCst);
    door.gate.pass();
    Ok(n)
}

/// One call that may finish, and others that are cancelled while they wait for its thread.
#[workflow]
async fn asks(ctx: Ctx) -> Result<u32> {
    let first = ctx.run(passes, 7);
    ctx.recv(STOP).await?;
    let others: Vec<_> = (0..CALLS).map(|n| ctx.run(passes, n)).collect();
    ctx.recv(STOP).await?;
    others.iter().for_each(|call| call.cancel());
    for call in others {
        assert!(call.await.is_err(), "it is cancelled");
    }
    Ok(first.await?)
}

/// All of them may finish.
#[workflow]
async fn many(ctx: Ctx) -> Result<u32> {
    let calls: Vec<_> = (0..CALLS).map(|n| ctx.run(passes, n)).collect();
    let mut sum = 0;
    for call in calls {
        sum += call.await?;
    }
    Ok(sum)
}

/// Runs a test on a runtime with one thread for blocking code.
fn drive(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(1)
        .enable_all()
        .build()
        .expect("a runtime can be built");
    let outcome = runtime.block_on(async { tokio::time::timeout(PATIENCE, test).await });
    runtime.shutdown_background();
    outcome.expect("the test comes to an end");
}

/// Returns when so many attempts are under way.
async fn attempts(app: &App, count: u32) {
    let now = || app.worker_state().map_or(0, |state| state.attempts);
    while now() != usize::try_from(count).unwrap_or(usize::MAX) {
        tokio::task::yield_now().await;
    }
}

/// Cancelled attempts lose nothing of their grace here: they should need none.
fn patient() -> Settings {
    Settings {
        zombie_limit: 2,
        ..Settings::default()
    }
}

#[test]
fn what_is_cancelled_before_it_has_a_thread_never_runs_and_is_no_zombie() {
    drive(async {
        let door = Door::new();
        let _opens = door.opens();
        let env = TestEnv::new().real_time().settings(patient());
        let env = env.state(door.clone()).activity(passes).workflow(asks);
        let app = env.start().await;
        let run = app.start(asks, ()).await.expect("it starts");
        door.gate.crowd(1).await;
        run.send(STOP, ()).await.expect("it is durable");
        attempts(&app, CALLS + 1).await;
        run.send(STOP, ()).await.expect("it is durable");
        attempts(&app, 1).await;
        let state = app.worker_state().expect("there is a worker");
        assert_eq!(state.standing.counts().get("cancel-ignored"), None);
        door.gate.open();
        assert_eq!(run.result().await.expect("it ends"), 7);
        // Behind everything that waited for the only thread.
        tokio::task::spawn_blocking(|| ()).await.expect("it runs");
        assert_eq!(door.begun(), 1, "nothing else ever began");
        let state = app.worker_state().expect("there is a worker");
        assert!(state.slots.iter().all(|slots| slots.used == 0), "{state:?}");
        sound(&run, asks).await;
        app.shutdown().await;
    });
}

#[test]
fn the_store_is_read_and_opened_while_blocking_attempts_have_every_thread() {
    drive(async {
        let door = Door::new();
        let _opens = door.opens();
        let env = TestEnv::new().real_time().settings(patient());
        let env = env.state(door.clone()).activity(passes).workflow(many);
        let app = env.start().await;
        let run = app.start(many, ()).await.expect("it starts");
        door.gate.crowd(1).await;
        let listed = app
            .list(ListFilter::default())
            .await
            .expect("it can be read");
        assert_eq!(listed.len(), 1);
        let history = run.history().await.expect("it can be read");
        assert!(!history.is_empty());
        let found = run.describe().await.expect("it can be read");
        assert_eq!(found.summary.status, Status::Running);
        let other = TestEnv::new().start().await;
        other.shutdown().await;
        door.gate.open();
        assert_eq!(run.result().await.expect("it ends"), 15);
        sound(&run, many).await;
    });
}

#[test]
fn what_waits_for_a_thread_when_the_application_stops_is_handed_back() {
    drive(async {
        let door = Door::new();
        let _opens = door.opens();
        let directory = tempfile::tempdir().expect("a directory");
        // No environment for tests: there nobody may finish.
        let open = async || {
            let app = Outlast::sqlite(directory.path().join("runs.db")).settings(patient());
            let app = app.state(door.clone()).activity(passes).workflow(many);
            app.start().await.expect("it starts")
        };
        let app = open().await;
        app.start(many, ()).id("a").await.expect("it starts");
        door.gate.crowd(1).await;
        attempts(&app, CALLS).await;
        let mut events = app.events(Severity::Info);
        let ending = tokio::spawn({
            let app = app.clone();
            async move { app.shutdown().await }
        });
        loop {
            let event = events.next().await.expect("it stops");
            if matches!(*event, WorkerEvent::Stopping { phase, .. } if phase >= StopPhase::Finishing)
            {
                break;
            }
        }
        door.gate.open();
        assert!(ending.await.expect("no panic").left_behind.is_empty());
        tokio::task::spawn_blocking(|| ()).await.expect("it runs");
        assert_eq!(door.begun(), 1, "nothing began when the end had begun");
        drop(app);
        let app = open().await;
        let run = app.get(many, "a");
        assert_eq!(run.result().await.expect("it ends"), 15);
        sound(&run, many).await;
    });
}
