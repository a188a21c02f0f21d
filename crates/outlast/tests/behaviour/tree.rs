//! What an application is made of, on the embedded backend: queues, engine threads that runs share,
//! attempts; and that one part which fails costs no other.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use outlast::event::EvictCause;
use outlast::prelude::*;
use outlast::{App, Ask, Permit, Settings, Severity, SlotKind, SlotSupplier, WorkerEvent};

use super::support::{cached, drive, sound, threads, until};

#[activity]
async fn add(n: u64) -> Result<u64> {
    Ok(n + 1)
}

/// Runs until it is told to stop.
#[activity]
async fn hog(ctx: ActivityCtx) -> Result<()> {
    Err(ctx.cancelled().await.into())
}

#[workflow]
async fn hogs(ctx: Ctx) -> Result<()> {
    Ok(ctx.run(hog, ()).await?)
}

#[workflow]
async fn adds(ctx: Ctx, n: u64) -> Result<u64> {
    Ok(ctx.run(add, n).await?)
}

#[test]
fn an_application_has_queues_engine_threads_instances_and_attempts() {
    drive(async {
        let place = tempfile::tempdir().expect("a directory");
        let builder = Outlast::sqlite(place.path().join("runs.db")).shards(2);
        let builder = builder.activity(hog).workflow(hogs);
        let builder = builder.queue("gpu", |q| q.activity(hog).workflow(hogs).slots(7));
        let app = builder.start().await.expect("it opens");
        let first = app.start(hogs, ()).await.expect("it starts");
        let second = app.start(hogs, ()).queue("gpu").await.expect("it starts");
        let runs = |app: &App| app.worker_state().expect("there is a worker").attempts;
        while runs(&app) < 2 {
            tokio::task::yield_now().await;
        }
        let state = app.worker_state().expect("there is a worker");
        let queues: Vec<String> = state
            .standing
            .queues
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(queues, ["default", "gpu"]);
        assert_eq!((state.shards, state.cached()), (2, 2));
        let used = state.slots.iter().filter(|slots| slots.kind == "activity");
        let used: Vec<_> = used.map(|slots| (slots.used, slots.slots)).collect();
        assert_eq!(used, [(1, Some(200)), (1, Some(7))], "each its own slots");
        let names = threads();
        for part in ["outlast-engine-0", "outlast-engine-", "outlast-watch"] {
            // The kernel keeps 15 letters of a name.
            let part = &part[..part.len().min(15)];
            assert!(names.iter().any(|name| name.starts_with(part)), "{names:?}");
        }
        for run in [first, second] {
            run.cancel().await.expect("it is durable");
            assert!(run.result().await.is_err(), "it is cancelled");
        }
        app.shutdown().await;
        assert_eq!(runs(&app), 0);
    });
}

struct Broken;

impl SlotSupplier for Broken {
    fn take(&self, _: &Ask<'_>) -> Permit {
        panic!("no slots on this queue")
    }

    fn give(&self, _: &Ask<'_>) {}
}

#[activity]
async fn bursts(_: u64) -> Result<u64> {
    panic!("on purpose")
}

#[workflow]
async fn falls(_ctx: Ctx, n: u64) -> Result<u64> {
    panic!("run {n} falls")
}

#[workflow]
async fn asks_for_the_impossible(ctx: Ctx, n: u64) -> Result<u64> {
    Ok(ctx.run(bursts, n).await?)
}

#[test]
fn queues_whose_code_and_slots_fail_leave_their_siblings_alone() {
    drive(async {
        let env = TestEnv::new().activity(add).workflow(adds).report(|_| ());
        let env = env.queue("falls", |q| q.workflow(falls));
        let env = env.queue("bursts", |q| {
            q.workflow(asks_for_the_impossible).activity(bursts)
        });
        let env = env.queue("broken", |q| {
            let q = q.workflow(adds).activity(add);
            q.slot_supplier(SlotKind::Activity, Broken)
        });
        let app = env.start().await;
        let mut failing = Vec::new();
        for n in 0..10 {
            let falls = app.start(falls, n).queue("falls").await;
            failing.push(falls.expect("it starts"));
            let bursts = app.start(asks_for_the_impossible, n).queue("bursts").await;
            failing.push(bursts.expect("it starts"));
            let broken = app.start(adds, n).queue("broken").await;
            failing.push(broken.expect("it starts"));
            let healthy = app.start(adds, n).await.expect("it starts");
            assert_eq!(healthy.result().await.expect("it ends"), n + 1);
            sound(&healthy, adds).await;
        }
        assert!(app.health().live, "{:?}", app.health());
        for run in failing {
            let found = run.describe().await.expect("it is there");
            assert!(found.summary.status.is_open(), "it waits for better code");
            run.terminate("seen").await.expect("it can be ended");
        }
    });
}

static SEEN: Mutex<BTreeMap<String, BTreeSet<String>>> = Mutex::new(BTreeMap::new());

const STEP: Signal<u64> = signal("step");

/// Notes the thread of every slice; its state is in its own variables.
#[workflow]
async fn wanders(ctx: Ctx, slices: u64) -> Result<u64> {
    let mut sum = 0;
    for _ in 0..slices {
        sum += ctx.recv(STEP).await?;
        let here = format!("{:?}", thread::current().id());
        let mut seen = SEEN.lock().expect("nobody panics");
        seen.entry(ctx.id().to_string()).or_default().insert(here);
    }
    Ok(sum)
}

async fn wandering(path: &Path) -> App {
    let settings = Settings {
        // However busy the machine is, nobody takes a shard over.
        fast_slice: Duration::from_secs(3_600),
        deadlock_timeout: Duration::ZERO,
        ..Settings::default()
    };
    let builder = Outlast::sqlite(path).workflow(wanders).shards(2);
    builder.settings(settings).start().await.expect("it opens")
}

#[test]
fn a_run_stays_on_one_thread_that_many_share_and_is_built_again_on_another() {
    drive(async {
        let place = tempfile::tempdir().expect("a directory");
        let path = place.path().join("runs.db");
        let app = wandering(&path).await;
        for n in 0..20 {
            let run = app.start(wanders, 6).id(format!("w{n}")).await;
            run.expect("it starts");
        }
        for step in 1..=5 {
            for n in 0..20 {
                let run = app.get(wanders, format!("w{n}"));
                run.send(STEP, step).await.expect("it is durable");
            }
        }
        for n in 0..20 {
            let run = app.get(wanders, format!("w{n}"));
            until(&run, |d| d.unhandled_signals == 0).await;
        }
        app.shutdown().await;
        drop(app);
        let before = SEEN.lock().expect("nobody panics").clone();
        assert_eq!(before.len(), 20);
        for (run, threads) in &before {
            assert_eq!(threads.len(), 1, "{run} was on {threads:?}");
        }
        let all: BTreeSet<&String> = before.values().flatten().collect();
        assert_eq!(all.len(), 2, "twenty runs on two engine threads");

        SEEN.lock().expect("nobody panics").clear();
        let app = wandering(&path).await;
        for n in 0..20 {
            let run = app.get(wanders, format!("w{n}"));
            run.send(STEP, 100).await.expect("it is durable");
            let sum = run.result().await.expect("it ends");
            assert_eq!(sum, 115, "its state went with it");
            sound(&run, wanders).await;
        }
        let after = SEEN.lock().expect("nobody panics").clone();
        let now: BTreeSet<&String> = after.values().flatten().collect();
        assert!(now.is_disjoint(&all), "{now:?} are new threads");
        app.shutdown().await;
    });
}

static DROPPED: AtomicU32 = AtomicU32::new(0);

/// What has to be put back, however the code ends; it asks for something durable then.
struct Lent(Ctx);

impl Drop for Lent {
    fn drop(&mut self) {
        self.0.run(add, 1).detach();
        DROPPED.fetch_add(1, Ordering::SeqCst);
    }
}

#[workflow]
async fn borrows(ctx: Ctx) -> Result<u64> {
    let _main = Lent(ctx);
    let branch = ctx.spawn(async move {
        let _branch = Lent(ctx);
        ctx.sleep(30.days()).await
    });
    ctx.on_signal(signal("visit"), async move |(): ()| {
        let _handler = Lent(ctx);
        ctx.sleep(30.days()).await
    });
    let n = ctx.recv(STEP).await?;
    drop(branch);
    Ok(n)
}

#[test]
fn an_evicted_run_runs_its_destructors_in_silence_and_goes_on_when_it_is_wanted() {
    drive(async {
        let told = Arc::new(Mutex::new(Vec::new()));
        let ear = told.clone();
        let env = TestEnv::new().report(move |line| {
            ear.lock().expect("nobody panics").push(line.to_owned());
        });
        let env = env.workflow(borrows).workflow(adds).activity(add);
        let app = env.settings(cached(1)).start().await;
        let mut events = app.events(Severity::Debug);
        let run = app.start(borrows, ()).await.expect("it starts");
        run.send(signal("visit"), ()).await.expect("it is durable");
        until(&run, |d| d.unhandled_signals == 0).await;
        let run_id = run.describe().await.expect("it is there").summary.run_id;
        let before = run.history().await.expect("it has one").len();
        app.run(adds, 1)
            .await
            .expect("the cache holds one of the two");
        loop {
            let event = events.next().await.expect("the worker is there");
            if let WorkerEvent::Evicted {
                run_id: gone,
                cause,
                ..
            } = &*event
                && *gone == run_id
            {
                assert_eq!(*cause, EvictCause::Runs);
                break;
            }
        }
        while DROPPED.load(Ordering::SeqCst) < 3 {
            tokio::task::yield_now().await;
        }
        let after = run.history().await.expect("it has one").len();
        assert_eq!(after, before, "nothing was recorded of it");
        let told = told.lock().expect("nobody panics").clone();
        assert_eq!(told, Vec::<String>::new(), "and nothing told");
        run.send(STEP, 7).await.expect("it is durable");
        assert_eq!(run.result().await.expect("it ends"), 7);
        sound(&run, borrows).await;
    });
}
