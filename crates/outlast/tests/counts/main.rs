//! What things cost, counted at the store port: one durable commit per stimulus, and nothing at
//! all while nothing happens.

#[path = "../support/counting.rs"]
mod counting;
#[path = "../support/mod.rs"]
mod support;

use std::sync::Arc;
use std::time::Duration;

use counting::Counting;
use outlast::model::limits;
use outlast::prelude::*;
use outlast::{App, Settings};
use outlast_service::memory::MemoryStore;
use outlast_service::sqlite::SqliteStore;
use support::{drive, sound};

#[activity]
async fn add(n: u64) -> Result<u64> {
    Ok(n + 1)
}

#[workflow]
async fn chain(ctx: Ctx, length: u64) -> Result<u64> {
    let mut n = 0;
    for _ in 0..length {
        n = ctx.run(add, n).await?;
    }
    Ok(n)
}

#[workflow]
async fn fan(ctx: Ctx, width: u64) -> Result<u64> {
    let all = futures::future::join_all((0..width).map(|n| ctx.run(add, n))).await;
    all.into_iter().try_fold(0, |sum, one| Ok(sum + one?))
}

#[workflow]
async fn sleeps(ctx: Ctx) -> Result<()> {
    ctx.sleep(1.days()).await?;
    Ok(())
}

struct Place {
    store: Arc<Counting<SqliteStore>>,
    _directory: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        Self::with(Counting::new)
    }

    fn with(count: impl Fn(SqliteStore) -> Counting<SqliteStore>) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let store = SqliteStore::open(directory.path().join("runs.db")).expect("it opens");
        let store = Arc::new(count(store));
        Self {
            store,
            _directory: directory,
        }
    }

    async fn app(&self, settings: Settings) -> App {
        let env = TestEnv::on(self.store.clone()).activity(add);
        let env = env.workflow(chain).workflow(fan).workflow(sleeps);
        env.settings(settings).real_time().start().await
    }
}

/// Commits of one run from its start to its result.
async fn cost(settings: Settings, width: u64) -> u64 {
    let place = Place::with(|store| Counting::on_slow_disk(store, Duration::from_millis(20)));
    let app = place.app(settings).await;
    let run = app.start(fan, width).await.expect("it starts");
    assert_eq!(
        run.result().await.expect("it ends"),
        width * (width + 1) / 2
    );
    let cost = place.store.commits();
    sound(&run, fan).await;
    app.shutdown().await;
    cost
}

#[test]
fn a_one_activity_workflow_costs_two_commits() {
    drive(async {
        let place = Place::new();
        let app = place.app(Settings::default()).await;
        for n in 1..=20 {
            app.run(chain, 1).await.expect("it ends");
            assert_eq!(place.store.commits(), 2 * n);
            assert_eq!(place.store.groups(), 2 * n);
        }
        app.shutdown().await;
    });
}

#[test]
fn a_sequence_costs_one_commit_an_activity_and_the_start() {
    drive(async {
        let place = Place::new();
        let app = place.app(Settings::default()).await;
        assert_eq!(app.run(chain, 100).await.expect("it ends"), 100);
        assert_eq!(place.store.commits(), 101);
        assert_eq!(place.store.groups(), 101);
        app.shutdown().await;
    });
}

#[test]
fn a_fan_out_of_five_hundred_costs_a_handful_of_commits() {
    drive(async {
        let wide = Settings {
            activity_slots: 500,
            ..Settings::default()
        };
        for settings in [wide, Settings::default()] {
            let slots = settings.activity_slots;
            let commits = cost(settings, 500).await;
            assert!(commits <= 6, "{slots} slots: {commits} commits");
        }
    });
}

#[activity]
async fn makes(size: usize) -> Result<String> {
    Ok("x".repeat(size))
}

#[activity]
async fn takes(text: String) -> Result<usize> {
    Ok(text.len())
}

const ROUGHLY_TWO_MIB: usize = 2_000_000;

#[workflow]
async fn heavy(ctx: Ctx, is_input: bool) -> Result<usize> {
    if is_input {
        let text = "x".repeat(ROUGHLY_TWO_MIB);
        let calls = (0..26).map(|_| ctx.run(takes, &text));
        return Ok(futures::future::try_join_all(calls)
            .await?
            .into_iter()
            .sum());
    }
    let calls = (0..12).map(|_| ctx.run(makes, ROUGHLY_TWO_MIB));
    let all = futures::future::try_join_all(calls).await?;
    Ok(all.iter().map(String::len).sum())
}

#[test]
fn no_commit_is_larger_than_the_limit() {
    drive(async {
        let sync = Duration::from_millis(200);
        let store = Counting::on_slow_disk(MemoryStore::new(), sync);
        let store = Arc::new(store);
        let env = TestEnv::on(store.clone()).activity(makes).activity(takes);
        let env = env.workflow(heavy).report(|_| ());
        // Encoding all that takes long without optimisation.
        let patient = Settings {
            deadlock_timeout: Duration::ZERO,
            ..Settings::default()
        };
        let app = env.settings(patient).start().await;
        let done = app.run(heavy, false).await.expect("it ends");
        assert_eq!(done, 12 * ROUGHLY_TWO_MIB);
        // All results are there at once, and still go into commits of a moderate size.
        let largest = store.largest();
        assert!(largest < limits::COMMIT_BYTES as u64 / 4, "{largest} bytes");
        let run = app.start(heavy, true).await.expect("it starts");
        let found = support::until(&run, |d| d.trouble.is_some()).await;
        let text = found.trouble.expect("it is in trouble").failure.to_string();
        assert!(text.contains("52000052 bytes"), "{text}");
        assert!(store.largest() < limits::COMMIT_BYTES as u64);
    });
}

/// The one test that needs real time: nothing must happen while it passes.
#[test]
fn an_idle_process_makes_no_store_calls() {
    drive(async {
        let place = Place::new();
        let app = place.app(Settings::default()).await;
        let quiet = async |what: &str, time: Duration| {
            let before = place.store.calls();
            tokio::time::sleep(time).await;
            assert_eq!(place.store.calls(), before, "{what}");
        };
        quiet("with no run", Duration::from_secs(2)).await;
        let run = app.start(sleeps, ()).await.expect("it starts");
        quiet("with a run that sleeps", Duration::from_secs(5)).await;
        app.run(chain, 3).await.expect("it ends");
        quiet("after work", Duration::from_secs(3)).await;
        run.terminate("done").await.expect("it ends");
        app.shutdown().await;
    });
}
