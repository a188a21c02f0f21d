//! An end at random moments, on a file, with real threads: what was claimed is finished or handed
//! back, so that not one attempt of an activity with a single attempt is lost; nothing leaks; the
//! next process starts at once and completes all.
//!
//! A moment is not a time but so many things that have happened: on a fast machine and on a slow
//! one an end comes in the midst of the work, and that it does is asserted.
//!
//! `OUTLAST_STOPS` asks for more of them; each seed is one file with a chain of processes on it.

use std::sync::atomic::{AtomicUsize, Ordering};

use futures::future::Either;
use outlast::model::RetryPolicy;
use outlast::prelude::*;
use outlast::{App, CallError, Outlast, Settings};
use std::path::Path;
use std::time::Duration;
use tokio::sync::Notify;

use crate::rng::Rng;
use crate::{alone, deserted};

/// Ends of one file.
const CHAIN: u64 = 20;
/// Ends in a short run.
const STOPS: u64 = 100;
/// Things that happen in one process before its end, at most: as many as its runs and those of the
/// one before it make.
const LIVELY: usize = 200;
/// Of the 80 runs of a file: with fewer, ends come too early to say anything.
const ACKNOWLEDGED: usize = 10;

static INSTANCES: AtomicUsize = AtomicUsize::new(0);
static ATTEMPTS: AtomicUsize = AtomicUsize::new(0);
/// Attempts on threads of their own, which nobody can drop.
static THREADS: AtomicUsize = AtomicUsize::new(0);

/// Things that happened, ever: an end comes after so many of them.
static HAPPENED: AtomicUsize = AtomicUsize::new(0);
static BELL: Notify = Notify::const_new();

fn happens() {
    HAPPENED.fetch_add(1, Ordering::SeqCst);
    BELL.notify_one();
}

/// Returns when so much has happened, ever.
async fn comes(moment: usize) {
    while HAPPENED.load(Ordering::SeqCst) < moment {
        BELL.notified().await;
    }
}

/// Counts itself while it lives.
struct Counted(&'static AtomicUsize);

impl Counted {
    fn new(all: &'static AtomicUsize) -> Self {
        happens();
        all.fetch_add(1, Ordering::SeqCst);
        Self(all)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Takes a while, and stops when it is told to.
#[activity]
async fn slow(ctx: ActivityCtx, n: u64) -> Result<u64> {
    let _counted = Counted::new(&ATTEMPTS);
    assert_eq!(ctx.attempt(), 1, "it was handed back");
    for beat in 0..n % 7 {
        happens();
        ctx.heartbeat(beat)?;
        tokio::task::yield_now().await;
        if ctx.is_cancelled() {
            return Err(ctx.cancelled().await.into());
        }
    }
    Ok(n + 1)
}

/// The same on a thread of its own.
#[activity]
fn blocking(n: u64) -> Result<u64> {
    let _counted = Counted::new(&THREADS);
    std::thread::yield_now();
    Ok(n + 1)
}

const GO: Signal<u64> = signal("go");

#[workflow]
async fn child(ctx: Ctx, n: u64) -> Result<u64> {
    let _counted = Counted::new(&INSTANCES);
    Ok(ctx.run(slow, n).retry(RetryPolicy::times(1)).await?)
}

/// Something of everything: each part adds one, the signal adds what it brings.
#[workflow]
async fn mixed(ctx: Ctx, n: u64) -> Result<u64> {
    let _counted = Counted::new(&INSTANCES);
    let once = RetryPolicy::times(1);
    let a = ctx.run(slow, n).retry(once.clone()).await?;
    let step = ctx.step("add", move || async move {
        tokio::task::yield_now().await;
        outlast::Ok(a + 1)
    });
    let b = step.retry(once.clone()).await?;
    let blocked = ctx.run(blocking, b).retry(once.clone());
    let (c, d) = futures::join!(blocked, ctx.child(child, b));
    let (c, d) = (c?, d?);
    ctx.sleep(1.millis()).await?;
    let go = ctx.recv(GO).await?;
    Ok(ctx.run(slow, c.max(d) + go).retry(once).await?)
}

async fn open(path: &Path) -> App {
    // An attempt is told to stop and dropped at once, at whatever await it is.
    let settings = Settings {
        shutdown_grace: Duration::from_millis(2),
        abort_after: Duration::ZERO,
        ..Settings::default()
    };
    let builder = Outlast::sqlite(path).activity(slow).activity(blocking);
    let builder = builder.workflow(mixed).workflow(child).shards(2);
    let builder = builder.settings(settings).report(|_| ());
    builder.start().await.expect("nobody has the file")
}

/// A client that may be cut short at any await: it keeps what was acknowledged.
async fn work(app: &App, first: u64, started: &mut Vec<u64>, sent: &mut Vec<u64>) {
    for n in first..first + 4 {
        let id = format!("run-{n}");
        match app.start(mixed, n).id(&id).await {
            Ok(_) => started.push(n),
            Err(_) => return,
        }
        happens();
        let run = app.get(mixed, &id);
        if run.send(GO, 10).request_id(&id).await.is_err() {
            return;
        }
        sent.push(n);
        happens();
    }
    for n in started.clone() {
        // Refused when the application ends first.
        drop(app.get(mixed, format!("run-{n}")).result().await);
    }
}

/// Ends an application in one of the ways there are. What it leaves behind are threads at most, and
/// it says which, if there is anybody to tell.
async fn end(app: App, way: u64) -> Option<Vec<String>> {
    let stopped = match way {
        0 => app.shutdown().await,
        1 => app.shutdown_now().await,
        2 => tokio::join!(app.shutdown(), app.shutdown_now()).0,
        3 => {
            // Nobody waits for the first; the second does.
            let mut ending = Box::pin(app.shutdown());
            drop(futures::poll!(&mut ending));
            drop(ending);
            app.shutdown().await
        }
        _ => {
            let dropped = std::thread::spawn(move || drop(app));
            while !dropped.is_finished() {
                tokio::task::yield_now().await;
            }
            return None;
        }
    };
    Some(stopped.left_behind)
}

fn runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(2).enable_all().build();
    runtime.expect("a runtime can be built")
}

/// One process: it works until its moment comes.
fn live(path: &Path, rng: &mut Rng, first: u64, started: &mut Vec<u64>, sent: &mut Vec<u64>) {
    let runtime = runtime();
    let moment = HAPPENED.load(Ordering::SeqCst) + rng.index(LIVELY);
    let moments_later = rng.below(20);
    let way = rng.below(5);
    runtime.block_on(async {
        let app = open(path).await;
        let client = app.clone();
        {
            let mut work = Box::pin(work(&client, first, started, sent));
            let moment = std::pin::pin!(comes(moment));
            let mut rest = match futures::future::select(&mut work, moment).await {
                Either::Left(((), _)) => 0,
                Either::Right(((), _)) => moments_later,
            };
            while rest > 0 && futures::poll!(&mut work).is_pending() {
                rest -= 1;
                tokio::task::yield_now().await;
            }
        }
        drop(client);
        let left_behind = end(app, way).await;
        assert_eq!(ATTEMPTS.load(Ordering::SeqCst), 0, "an attempt leaks");
        if let Some(left_behind) = left_behind {
            let threads = THREADS.load(Ordering::SeqCst);
            assert!(
                threads <= left_behind.len(),
                "of {threads} it says {left_behind:?}"
            );
        }
    });
    drop(runtime);
    deserted();
    assert_eq!(INSTANCES.load(Ordering::SeqCst), 0, "an instance leaks");
}

/// The last process of a file completes all.
fn complete(path: &Path, started: &[u64], sent: &[u64]) {
    runtime().block_on(async {
        let app = open(path).await;
        for n in started {
            let id = format!("run-{n}");
            let run = app.get(mixed, &id);
            if !sent.contains(n) {
                // The same request, whether or not it was durable.
                let again = run.send(GO, 10).request_id(&id).await;
                assert!(again.is_ok() || is_ended(&again), "{again:?}");
            }
            let result = run.result().await.expect("it ends");
            assert_eq!(result, n + 3 + 10 + 1, "run {n}");
        }
        let stopped = app.shutdown().await;
        assert!(stopped.left_behind.is_empty(), "{stopped:?}");
    });
    deserted();
}

fn is_ended(answer: &Result<(), CallError>) -> bool {
    matches!(answer, Err(CallError::Refused(refusal)) if refusal.code() == "OL-2002")
}

#[test]
#[expect(clippy::print_stdout, reason = "a failure must name its seed")]
fn a_restart_completes_all_after_an_end_at_any_moment() {
    let _alone = alone();
    let stops = std::env::var("OUTLAST_STOPS").ok();
    let stops = stops.and_then(|n| n.parse().ok()).unwrap_or(STOPS);
    for seed in 0..stops.div_ceil(CHAIN) {
        println!("seed {seed}");
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("runs.db");
        let mut rng = Rng::new(seed);
        let (mut started, mut sent) = (Vec::new(), Vec::new());
        for life in 0..CHAIN.min(stops) {
            live(&path, &mut rng, life * 4, &mut started, &mut sent);
        }
        println!(
            "{} runs were acknowledged, {} signals",
            started.len(),
            sent.len()
        );
        assert!(started.len().min(sent.len()) >= ACKNOWLEDGED || stops < CHAIN);
        complete(&path, &started, &sent);
    }
}
