//! Ten thousand panics, at every place where Outlast calls code of others: the process goes on, every
//! run ends with the right result, and no slot, task, thread or instance is left behind.
//!
//! A binary of its own, because the hook for panics is.

mod around;
mod code;
mod fuse;
#[path = "../support/mod.rs"]
mod support;

use std::future::IntoFuture;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::FutureExt;
use futures::future::join_all;
use outlast::prelude::*;
use outlast::{App, Settings, Severity, SlotKind};

use around::{Broken, Slots};
use code::{ALIVE, Gauntlet, READY, blocks, goes_on, hangs, healthy, lets_go, works};
use fuse::blow;
use support::drive;

/// Runs that go through everything at a time.
const RUNS: usize = 60;
/// Panics of a place that is come to again after each.
const MANY: u32 = 190;
/// Panics of a place that a run comes to once.
const FEW: u32 = 50;

/// Whatever panics, by kind.
const MANY_TIMES: [&str; 52] = [
    "main",
    "main, later",
    "main, with a payload that panics",
    "branch",
    "shield",
    "condition",
    "condition, with a payload that panics",
    "signal handler",
    "update handler",
    "validator",
    "validator, with a payload that panics",
    "query",
    "query, with a payload that panics",
    "attempt",
    "attempt, later",
    "attempt, with a payload that panics",
    "blocking attempt",
    "blocking attempt, with a payload that panics",
    "closure of a step",
    "step",
    "step, later",
    "step, with a payload that panics",
    "destructor in main",
    "destructor in a branch",
    "destructor in an attempt",
    "destructor in a blocking attempt",
    "destructor in a step",
    "destructor of an interceptor",
    "destructor of what a panic carries",
    "around: new instance",
    "around: execute",
    "around: main",
    "around: end of main",
    "around: signal",
    "around: received",
    "around: query",
    "around: validate",
    "around: update",
    "around: activity",
    "around: step",
    "around: child",
    "around: signal to another",
    "around: cancel of another",
    "around: timer",
    "around: continue as new",
    "around: attempt",
    "around: attempt of a step",
    "around: heartbeat",
    "slots: take",
    "slots: give",
    "listener of events",
    "report of warnings",
];
const FEW_TIMES: [&str; 9] = [
    "signal handler, later",
    "task beside an attempt",
    "destructor in a handler",
    "destructor of the closure of a step",
    "client: start",
    "client: signal",
    "client: update",
    "client: query",
    "client: result",
];
const AT_LAST: (&str, u32) = ("destructor of a dropped attempt", FEW);

/// Few instances stay in memory, so that many are dropped and built again; who does not stop is
/// dropped at once.
fn settings() -> Settings {
    Settings {
        cached_runs: RUNS / 2,
        abort_after: Duration::from_millis(1),
        ..Settings::default()
    }
}

async fn start(slots: &Slots) -> App {
    let env = TestEnv::new().settings(settings()).interceptor(Broken);
    let env = env.activity(works).activity(blocks).activity(hangs);
    let env = env.workflow(Gauntlet::run).workflow(healthy);
    let env = env.workflow(goes_on).workflow(lets_go);
    let slots = slots.clone();
    let env = env.queue("other", move |queue| {
        let queue = queue.activity(works).activity(blocks).workflow(healthy);
        let queue = queue.slot_supplier(SlotKind::Activity, slots.clone());
        queue.slot_supplier(SlotKind::Step, slots)
    });
    let env = env.on_event(Severity::Debug, |_| blow("listener of events"));
    env.report(|_| blow("report of warnings")).start().await
}

/// Asks until there is an answer: whoever is around the client panics where it asks.
async fn insist<T, E, A: IntoFuture<Output = Result<T, E>>>(ask: impl Fn() -> A) -> T {
    loop {
        let asked = async { ask().into_future().await };
        if let Ok(Ok(answer)) = AssertUnwindSafe(asked).catch_unwind().await {
            return answer;
        }
        tokio::task::yield_now().await;
    }
}

/// One run through everything.
async fn pass(app: &App, n: usize) {
    let id = format!("gauntlet-{n}");
    let run = insist(|| app.start(Gauntlet::run, ()).id(&id).request_id(&id)).await;
    let ended = run.clone();
    // Somebody waits for the end: time goes on.
    let ended = tokio::spawn(async move { insist(|| ended.result()).await });
    let told = insist(|| run.tell().request_id("tell"));
    let later = insist(|| run.tell_later().request_id("later"));
    let ready = insist(|| run.send(READY, ()).request_id("ready"));
    let counted = insist(|| run.count(1));
    tokio::join!(told, later, ready, counted);
    assert_eq!(insist(|| run.told()).await, 1);
    assert_eq!(ended.await.expect("no panic"), 7);
}

async fn is_well(app: &App) {
    for queue in ["default", "other"] {
        let run = app.start(healthy, ()).queue(queue).await;
        let result = run.expect("it starts").result().await;
        assert_eq!(result.expect("it ends"), 5, "{queue}");
    }
}

/// What there is of an application that has nothing to do.
#[derive(Debug, PartialEq, Eq)]
struct Still {
    alive: usize,
    attempts: usize,
    slots: usize,
    threads: usize,
    tasks: usize,
    zombies: usize,
    is_well: bool,
}

impl Still {
    fn of(app: &App, slots: &Slots) -> Self {
        let state = app.worker_state().expect("there is a worker");
        let used: usize = state.slots.iter().map(|slots| slots.used).sum();
        let health = app.health();
        Self {
            alive: ALIVE.load(Ordering::SeqCst),
            attempts: state.attempts,
            slots: used + slots.out(),
            threads: state.threads.len() + support::threads().len(),
            tasks: tokio::runtime::Handle::current()
                .metrics()
                .num_alive_tasks(),
            zombies: state.standing.zombies().len(),
            is_well: health.live && health.ready,
        }
    }
}

#[expect(clippy::print_stdout, reason = "what was done belongs to the result")]
fn tell(made: &[(&str, u32)]) -> u32 {
    for (place, count) in made {
        println!("{count:>5} {place}");
    }
    let all = made.iter().map(|(_, count)| count).sum();
    println!("{all:>5} panics in all");
    all
}

#[test]
fn ten_thousand_panics_leave_nothing_behind() {
    fuse::listen();
    drive(async {
        let slots = Slots::default();
        let app = start(&slots).await;
        is_well(&app).await;
        let before = Still::of(&app, &slots);
        fuse::charge(&MANY_TIMES.map(|place| (place, MANY)));
        fuse::charge(&FEW_TIMES.map(|place| (place, FEW)));
        join_all((0..RUNS).map(|n| pass(&app, n))).await;
        fuse::charge(&[AT_LAST]);
        for _ in 0..FEW {
            app.run(lets_go, ()).await.expect("it ends");
        }
        is_well(&app).await;
        assert_eq!(fuse::unspent(), [], "every place did its worst");
        assert!(tell(&fuse::made()) >= 10_000);
        settles(&before, &app, &slots).await;
        app.shutdown().await;
    });
}

/// Returns when everything is as it was: what has just ended may be on its way out.
async fn settles(before: &Still, app: &App, slots: &Slots) {
    let again = async {
        while Still::of(app, slots) != *before {
            tokio::task::yield_now().await;
        }
    };
    let patience = tokio::time::timeout(Duration::from_secs(10), again);
    if patience.await.is_err() {
        assert_eq!(Still::of(app, slots), *before, "something is left behind");
    }
}
