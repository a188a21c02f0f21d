//! What a run does to the world, and what its callers hear, leaves behind the commit that says so.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use outlast::model::post::PostNo;
use outlast::model::task::RunNo;
use outlast::model::{EventKind, RunId, WorkflowId};
use outlast::prelude::*;
use outlast::{App, ListFilter};
use outlast_service::memory::MemoryStore;
use outlast_service::store::{Boot, Commit, CommitError, Loaded, ReadError, RunRow, Store};

use super::support::{code, drive, sound};

/// What becomes of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gate {
    Open,
    /// It waits until somebody decides.
    Held,
    /// The disk does not answer, until it is opened again. Nothing is written.
    Fails,
}

/// A store in memory whose commits pass a gate.
#[derive(Clone)]
struct Gated {
    store: MemoryStore,
    /// The gate, and how many commits wait at it.
    at: Arc<(Mutex<(Gate, u32)>, Condvar)>,
}

impl Gated {
    fn new() -> Self {
        Self {
            store: MemoryStore::new(),
            at: Arc::new((Mutex::new((Gate::Open, 0)), Condvar::new())),
        }
    }

    fn state(&self) -> MutexGuard<'_, (Gate, u32)> {
        self.at.0.lock().expect("nobody panics with it")
    }

    fn set(&self, gate: Gate) {
        self.state().0 = gate;
        self.at.1.notify_all();
    }

    async fn until_one_waits(&self) {
        while self.state().1 == 0 {
            tokio::task::yield_now().await;
        }
    }

    /// What the gate says when it says something.
    fn pass(&self) -> Gate {
        let mut state = self.state();
        state.1 += 1;
        let is_held = |state: &mut (Gate, u32)| state.0 == Gate::Held;
        let passed = self.at.1.wait_while(state, is_held);
        state = passed.expect("nobody panics with it");
        state.1 -= 1;
        state.0
    }
}

impl Store for Gated {
    fn boot(&self) -> Result<Boot, ReadError> {
        self.store.boot()
    }

    fn commit(&self, group: &[Commit]) -> Result<(), CommitError> {
        if self.pass() == Gate::Fails {
            let reason = "the disk does not answer".into();
            return Err(CommitError::Failed { reason });
        }
        self.store.commit(group)
    }

    fn load(&self, run: RunNo) -> Result<Loaded, ReadError> {
        self.store.load(run)
    }

    fn history(&self, run: RunNo) -> Result<Vec<Vec<u8>>, ReadError> {
        self.store.history(run)
    }

    fn find(&self, workflow_id: &WorkflowId, limit: usize) -> Result<Vec<RunRow>, ReadError> {
        self.store.find(workflow_id, limit)
    }

    fn find_run(&self, run_id: RunId) -> Result<Option<RunRow>, ReadError> {
        self.store.find_run(run_id)
    }

    fn list(&self, filter: &ListFilter) -> Result<Vec<RunRow>, ReadError> {
        self.store.list(filter)
    }

    fn forget(&self, posts: &[PostNo]) -> Result<(), CommitError> {
        self.store.forget(posts)
    }

    fn reopen(&self) -> Result<Boot, ReadError> {
        self.set(Gate::Open);
        self.store.reopen()
    }

    fn close(&self) -> Result<(), ReadError> {
        self.store.close()
    }
}

const TOLD: Signal<u64> = signal("told");
const END: Signal<()> = signal("end");

#[activity]
async fn act(State(acted): State<Arc<AtomicU32>>) -> Result<u32> {
    Ok(acted.fetch_add(1, Ordering::SeqCst) + 1)
}

/// Asks for an activity and tells another run, in its first slice.
#[workflow]
async fn asks(ctx: Ctx) -> Result<u32> {
    let (call, message) = (ctx.run(act, ()), ctx.external("ears").send(TOLD, 7));
    message.await?;
    Ok(call.await?)
}

#[workflow]
async fn ears(ctx: Ctx) -> Result<()> {
    ctx.recv(END).await?;
    Ok(())
}

#[workflow]
async fn others(ctx: Ctx) -> Result<u32> {
    let mut all = 0;
    for _ in 0..20 {
        all = ctx.run(act, ()).await?;
    }
    Ok(all)
}

async fn started(env: TestEnv) -> (App, Arc<AtomicU32>) {
    let acted = Arc::new(AtomicU32::new(0));
    let env = env.state(acted.clone()).activity(act).workflow(asks);
    let app = env.workflow(ears).workflow(others).start().await;
    (app, acted)
}

/// How many messages the other run has.
async fn heard(app: &App) -> usize {
    let events = sound(&app.get(ears, "ears"), ears).await;
    let is_told = |kind: &EventKind| matches!(kind, EventKind::Signaled { .. });
    events.iter().filter(|event| is_told(&event.kind)).count()
}

/// Another application has done this much: what could happen meanwhile has.
async fn a_while() {
    let (app, acted) = started(TestEnv::new()).await;
    assert_eq!(app.run(others, ()).await.expect("it ends"), 20);
    assert_eq!(acted.load(Ordering::SeqCst), 20);
}

#[test]
fn effects_and_answers_leave_behind_the_commit() {
    drive(async {
        for verdict in [Gate::Open, Gate::Fails] {
            let store = Gated::new();
            let (app, acted) = started(TestEnv::on(Arc::new(store.clone()))).await;
            app.start(ears, ()).id("ears").await.expect("it starts");
            store.set(Gate::Held);
            let asked = app.start(asks, ()).id("asks");
            let asked = tokio::spawn(asked.into_future());
            store.until_one_waits().await;
            a_while().await;
            assert_eq!(acted.load(Ordering::SeqCst), 0, "nothing says so yet");
            assert!(!asked.is_finished(), "nobody can promise it yet");

            store.set(verdict);
            let asked = asked.await.expect("no panic").map(|_| ());
            if verdict == Gate::Fails {
                assert_eq!(code(asked), "OL-2002", "nobody knows");
                a_while().await;
                assert_eq!(acted.load(Ordering::SeqCst), 0, "it was never said");
                assert_eq!(heard(&app).await, 0, "it was never said");
                assert_eq!(code(app.get(asks, "asks").describe().await), "OL-1005");
                app.start(asks, ()).id("asks").await.expect("it starts");
            }
            let run = app.get(asks, "asks");
            assert_eq!(run.result().await.expect("it ends"), 1);
            assert_eq!((acted.load(Ordering::SeqCst), heard(&app).await), (1, 1));
            sound(&run, asks).await;
        }
    });
}
