//! A storm of signals to one run: none is lost, none comes twice, all are in order, and memory
//! stays within bounds, however many there are and however slow the disk is.
//!
//! A binary of its own, because the allocator is.

#[path = "../support/mod.rs"]
mod support;

mod gate;

use std::alloc::System;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Waker};

use futures::future::{JoinAll, MaybeDone, join_all, maybe_done};
use gate::Gate;
use outlast::model::{Event, EventKind, limits};
use outlast::prelude::*;
use outlast::testing::{block_on, replay};
use outlast::{App, Handle, Sent, Settings};
use outlast_service::memory::MemoryStore;
use outlast_service::sqlite::SqliteStore;
use outlast_service::store::Store;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Signals of the storm.
const SIGNALS: u64 = 100_000;
/// Signals that are on their way at a time.
const WAVE: u64 = 500;
/// What a signal may cost in memory while its run is open: its request id is kept, so that it
/// can be told from the next.
const BYTES_A_SIGNAL: usize = 250;
/// What a storm may cost whatever its length: a wave of senders, caches, buffers.
const BYTES_IN_ALL: usize = 16 << 20;

/// One storm at a time: they share the allocator that is looked at.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Counts signals that come in order, and all others.
#[derive(Default)]
struct Meter {
    next: u64,
    strays: u64,
}

#[workflow]
impl Meter {
    async fn run(ctx: Ctx<Self>, total: u64) -> Result<(u64, u64)> {
        ctx.wait_until(move |meter| meter.next + meter.strays >= total)
            .await?;
        Ok(ctx.read(|meter| (meter.next, meter.strays)))
    }

    #[signal]
    fn tick(&mut self, n: u64) {
        if n == self.next {
            self.next += 1;
        } else {
            self.strays += 1;
        }
    }

    #[query]
    fn count(&self) -> (u64, u64) {
        (self.next, self.strays)
    }
}

const TICK: Signal<u64> = signal("tick");

type Run = Handle<(u64, u64)>;
type Sending = Pin<Box<MaybeDone<JoinAll<<Sent as IntoFuture>::IntoFuture>>>>;

/// Signals that are on their way, in the order of their numbers.
fn sent(run: &Run, numbers: std::ops::Range<u64>) -> Sending {
    let all = numbers.map(|n| {
        let sent = run.send(TICK, n).request_id(format!("tick-{n}"));
        sent.into_future()
    });
    let mut all = Box::pin(maybe_done(join_all(all)));
    // Nothing is sent before it is polled.
    let polled = all.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(polled.is_pending() || all.as_mut().output_mut().is_some());
    all
}

async fn acknowledged(mut all: Sending) {
    // All at once, whatever tokio thinks of that.
    tokio::task::unconstrained(all.as_mut()).await;
    for answer in all.as_mut().take_output().expect("it was awaited once") {
        answer.expect("the run is open");
    }
}

async fn open(store: Arc<dyn Store>, settings: Settings) -> App {
    let env = TestEnv::on(store).workflow(Meter::run).settings(settings);
    env.real_time().start().await
}

fn meter(app: &App, id: &str) -> Run {
    let contract = outlast::WorkflowDef::<u64, (u64, u64)>::new("Meter");
    app.get(contract, id)
}

async fn begun(app: &App, total: u64, id: &str) -> Run {
    let start = app.start(Meter::run, total).id(id);
    start.await.expect("it starts");
    meter(app, id)
}

/// Bytes that are in use.
fn in_use() -> usize {
    let stats = ALLOCATOR.stats();
    stats
        .bytes_allocated
        .saturating_sub(stats.bytes_deallocated)
}

fn numbers(history: &[Event]) -> Vec<u64> {
    let mut all = Vec::new();
    for event in history {
        if let EventKind::Signaled { input, .. } = &event.kind {
            all.push(input.decode().expect("a number"));
        }
    }
    all
}

#[test]
#[expect(clippy::print_stdout, reason = "the figure is worth reading")]
fn a_storm_to_one_run_arrives_whole_and_in_order_in_bounded_memory() {
    let _alone = alone();
    let total = SIGNALS;
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("runs.db");
    block_on(async {
        let store = Arc::new(SqliteStore::open(&path).expect("it opens"));
        let app = open(store, Settings::default()).await;
        let run = begun(&app, total, "m").await;
        acknowledged(sent(&run, 0..1)).await;
        let idle = in_use();
        let mut peak = idle;
        let mut next = 1;
        while next < total {
            let wave = sent(&run, next..total.min(next + WAVE));
            next = total.min(next + WAVE);
            peak = peak.max(in_use());
            acknowledged(wave).await;
            peak = peak.max(in_use());
        }
        assert_eq!(run.result().await.expect("it ends"), (total, 0));
        let (bytes, most) = (peak - idle, BYTES_IN_ALL + BYTES_A_SIGNAL * total as usize);
        println!(
            "{total} signals: {} KiB above idle, {} bytes each",
            bytes >> 10,
            bytes as u64 / total
        );
        assert!(bytes < most, "{bytes} bytes, not {most}");
        let history = run.history().await.expect("it has one");
        assert_eq!(numbers(&history), (0..total).collect::<Vec<_>>());
        replay(Meter::run, &history).expect("it replays");
        app.shutdown().await;
    });
}

#[test]
fn a_sender_waits_while_too_many_stimuli_of_the_run_are_not_on_disk() {
    let _alone = alone();
    let total = 2 * limits::UNCOMMITTED_STIMULI as u64 + 5_000;
    block_on(async {
        let store = Arc::new(Gate::new(MemoryStore::default()));
        let app = open(store.clone(), Settings::default()).await;
        let run = begun(&app, total, "m").await;
        store.shut();
        let first = sent(&run, 0..1);
        store.somebody_waits();
        let rest = sent(&run, 1..total);
        store.open();
        acknowledged(first).await;
        acknowledged(rest).await;
        assert_eq!(run.result().await.expect("it ends"), (total, 0));
        assert_eq!(store.most(), limits::UNCOMMITTED_STIMULI);
        app.shutdown().await;
    });
}

#[test]
fn whoever_sends_too_much_does_not_hold_up_the_others() {
    let _alone = alone();
    let total = 2 * limits::UNCOMMITTED_STIMULI as u64;
    block_on(async {
        let store = Arc::new(Gate::new(MemoryStore::default()));
        let app = open(store.clone(), Settings::default()).await;
        let others: Vec<String> = (0..100).map(|n| format!("other-{n}")).collect();
        for id in others.iter().map(String::as_str).chain(["m"]) {
            let total = if id == "m" { total } else { 1 };
            begun(&app, total, id).await;
        }
        let run = meter(&app, "m");
        store.shut();
        let mut all = vec![sent(&run, 0..1)];
        store.somebody_waits();
        all.push(sent(&run, 1..total));
        all.extend(others.iter().map(|id| sent(&meter(&app, id), 0..1)));
        store.open();
        for sending in all {
            acknowledged(sending).await;
        }
        for id in &others {
            assert_eq!(meter(&app, id).result().await.expect("it ends"), (1, 0));
        }
        assert_eq!(run.result().await.expect("it ends"), (total, 0));
        assert!(
            store.most() <= limits::UNCOMMITTED_STIMULI,
            "{}",
            store.most()
        );
        app.shutdown().await;
    });
}
