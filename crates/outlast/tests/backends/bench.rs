//! Where a scenario runs, and how each becomes a test per backend.

use std::future::Future;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use outlast::model::{Event, EventKind, temporal_json};
use outlast::prelude::*;
use outlast::testing::replay_from_cluster;
use outlast::{App, Builder, Handle, WorkflowFn};

use super::support::{cached, drive, judge, names};

/// An application on one of the backends, with everything that the scenarios use.
pub(crate) struct Bench {
    pub(crate) app: App,
    name: String,
    /// Whether the history is of our own making.
    is_ours: bool,
}

impl Bench {
    pub(crate) fn new(app: App, scenario: &str, is_ours: bool) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{scenario}/{}/{count}", std::process::id());
        Self { app, name, is_ours }
    }

    /// An id that no other scenario has, nor this one when it ran before.
    pub(crate) fn id(&self, id: &str) -> String {
        format!("{}/{id}", self.name)
    }

    /// The history of a run, wherever it was made, is one that the code repeats. What Outlast
    /// exports is a history to the SDK core too, with Outlast's runtime behind it.
    pub(crate) async fn sound<T, E, W: WorkflowFn<K> + Copy, K>(
        &self,
        run: &Handle<T, E>,
        workflow: W,
    ) {
        let history = run.history().await.expect("it has a history");
        if self.is_ours {
            judge(workflow, &history);
        }
        let is_completed = |event: &Event| matches!(event.kind, EventKind::TaskCompleted);
        if !history.iter().any(is_completed) {
            return;
        }
        let replayed = if self.is_ours {
            replay_export(workflow, &history)
        } else {
            replay_from_cluster(workflow, &history)
        };
        if let Err(difference) = replayed {
            let json = temporal_json::export(&history);
            panic!("{difference}\n{json}\n{}", names(&history).join("\n"));
        }
    }
}

#[cfg(feature = "temporal")]
fn replay_export<W: WorkflowFn<K>, K>(workflow: W, history: &[Event]) -> Result<()> {
    outlast::testing::replay_json(workflow, &temporal_json::export(history))
}

/// The core comes with the feature.
#[cfg(not(feature = "temporal"))]
fn replay_export<W: WorkflowFn<K>, K>(_: W, _: &[Event]) -> Result<()> {
    Ok(())
}

/// Starts a workflow, waits for its end, checks its history, gives its result.
macro_rules! outcome {
    ($bench:expr, $workflow:expr, $input:expr) => {{
        let run = $bench.app.start($workflow, $input).await;
        let run = run.expect("it starts");
        let outcome = run.result().await;
        $bench.sound(&run, $workflow).await;
        outcome
    }};
}

/// A test per scenario and backend, and the lines that all of them must print.
macro_rules! scenarios {
    ($($module:ident: $name:ident = [$($line:expr),* $(,)?] $(on a cluster [$($other:expr),*])?,)*) => {
        mod sqlite {
            $(#[test]
            fn $name() {
                let said = super::bench::on_sqlite(1_000, stringify!($name), super::$module::$name);
                assert_eq!(said, [$($line),*]);
            })*
        }

        mod sqlite_without_cache {
            $(#[test]
            fn $name() {
                let said = super::bench::on_sqlite(0, stringify!($name), super::$module::$name);
                assert_eq!(said, [$($line),*]);
            })*
        }

        #[cfg(feature = "temporal")]
        mod temporal {
            $(#[test]
            fn $name() {
                let said = super::temporal_server::run(stringify!($name), super::$module::$name);
                let expected: &[&[&str]] = &[&[$($line),*], $(&[$($other),*])?];
                if let (Some(said), Some(expected)) = (said, expected.last()) {
                    assert_eq!(said, *expected);
                }
            })*
        }
    };
}

pub(crate) use {outcome, scenarios};

/// Looks until there is something to see.
pub(crate) async fn eventually<T>(look: impl AsyncFn() -> Option<T>) -> T {
    loop {
        if let Some(seen) = look().await {
            return seen;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Everything that the scenarios use, on top of a place.
pub(crate) fn everything(builder: Builder) -> Builder {
    let builder = super::calls::register(builder);
    let builder = super::combine::register(builder);
    let builder = super::messages::register(builder);
    let builder = super::states::register(builder);
    let builder = super::cancel::register(builder);
    let builder = super::family::register(builder);
    let builder = super::chains::register(builder);
    let builder = super::steps::register(builder);
    super::patches::register(builder).report(|_| ())
}

/// What a scenario says on a file of its own.
pub(crate) fn on_sqlite<F>(
    instances: usize,
    scenario: &str,
    run: impl FnOnce(Bench) -> F,
) -> Vec<String>
where
    F: Future<Output = Vec<String>>,
{
    let dir = tempfile::tempdir().expect("a folder can be made");
    let place = Outlast::sqlite(dir.path().join("runs.db"));
    drive(async {
        let app = everything(place).settings(cached(instances)).start().await;
        let app = app.expect("the application starts");
        let said = run(Bench::new(app.clone(), scenario, true)).await;
        app.shutdown().await;
        said
    })
}
