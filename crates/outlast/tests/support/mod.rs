//! What the tests of the whole share: a runtime with an end, waiting without sleeping, and the
//! check that every history goes through.
#![allow(dead_code, reason = "each test binary uses its part")]

pub(crate) mod cluster;

use std::fmt::Debug;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use outlast::model::{Event, EventKind, grammar};
use outlast::testing::{TestEnv, replay};
use outlast::{CallError, Description, Handle, Settings, WorkflowFn};
use outlast_service::memory::MemoryStore;

/// A test that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs a test on a runtime with two threads.
pub(crate) fn drive<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime can be built");
    let outcome = runtime.block_on(async { tokio::time::timeout(PATIENCE, test).await });
    // A blocked activity of a failed test must not keep the process.
    runtime.shutdown_background();
    outcome.expect("the test comes to an end")
}

/// An environment on a store that outlives it.
pub(crate) fn on(store: &MemoryStore) -> TestEnv {
    TestEnv::on(Arc::new(store.clone()))
}

/// Settings that keep so many instances in memory.
pub(crate) fn cached(runs: usize) -> Settings {
    Settings {
        cached_runs: runs,
        ..Settings::default()
    }
}

/// Looks at the run again and again until it is as wanted.
pub(crate) async fn until<T, E>(
    run: &Handle<T, E>,
    is_so: impl Fn(&Description) -> bool,
) -> Description {
    loop {
        let found = run.describe().await.expect("the run is there");
        if is_so(&found) {
            return found;
        }
        tokio::task::yield_now().await;
    }
}

/// The history of a run, checked: it obeys the grammar, and the code that made it replays it.
pub(crate) async fn sound<T, E, W: WorkflowFn<K>, K>(
    run: &Handle<T, E>,
    workflow: W,
) -> Vec<Event> {
    let history = run.history().await.expect("the run has a history");
    judge(workflow, &history);
    history
}

/// Holds a history against the grammar and the code.
pub(crate) fn judge<W: WorkflowFn<K>, K>(workflow: W, history: &[Event]) {
    if let Err(violation) = grammar::check(history) {
        panic!("{violation}\n{}", names(history).join("\n"));
    }
    let is_completed = |event: &Event| matches!(event.kind, EventKind::TaskCompleted);
    if history.iter().any(is_completed)
        && let Err(difference) = replay(workflow, history)
    {
        panic!("{difference}\n{}", names(history).join("\n"));
    }
}

/// The kinds of all events.
pub(crate) fn names(history: &[Event]) -> Vec<&'static str> {
    history.iter().map(|event| event.kind.name()).collect()
}

/// The failure of a call, as text.
pub(crate) fn failure<T: Debug, E: Debug>(outcome: Result<T, CallError<E>>) -> String {
    match outcome {
        Ok(value) => panic!("expected a failure, got {value:?}"),
        Err(error) => format!("{error}"),
    }
}

/// The code of the refusal of a call.
pub(crate) fn code<T: Debug, E: Debug>(outcome: Result<T, CallError<E>>) -> &'static str {
    match outcome {
        Ok(value) => panic!("expected a refusal, got {value:?}"),
        Err(error) => match error.refusal() {
            Some(refusal) => refusal.code(),
            None => panic!("expected a refusal, got {error}"),
        },
    }
}

/// Threads of ours in this process, where the system tells.
pub(crate) fn threads() -> Vec<String> {
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else {
        return Vec::new();
    };
    let name = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm")).ok();
    let mut all: Vec<String> = tasks.filter_map(|task| name(task.ok()?)).collect();
    all.retain(|name| name.starts_with("outlast-"));
    all
}
