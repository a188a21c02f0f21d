//! Several queues of one application on a cluster: each has a worker of its own, and they are seen,
//! counted and stopped together.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use outlast::intercept::{ClientInterceptor, Interceptor};
use outlast::model::EventKind;
use outlast::prelude::*;
use outlast::{
    Ask, Events, Headers, HealthReason, Outlast, Permit, Priority, Settings, Severity, SlotKind,
    SlotSupplier, WorkerEvent,
};

use crate::support::{cluster, drive};

#[activity]
async fn add(n: u64) -> Result<u64> {
    Ok(n + 1)
}

#[workflow]
async fn first(ctx: Ctx, n: u64) -> Result<u64> {
    Ok(ctx.run(add, n).await?)
}

#[workflow]
async fn second(ctx: Ctx, n: u64) -> Result<u64> {
    Ok(ctx.run(add, n).await? * 10)
}

/// Counts what leaves with headers.
#[derive(Clone, Default)]
struct Counted(Arc<AtomicUsize>);

impl Interceptor for Counted {
    fn client(&self) -> Option<Arc<dyn ClientInterceptor>> {
        Some(Arc::new(self.clone()))
    }
}

impl ClientInterceptor for Counted {
    fn headers(&self, _: &mut Headers) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn queues_of_one_application_are_seen_and_stopped_together() {
    let Some(server) = cluster::server() else {
        return;
    };
    let [one, other] = ["one", "other"].map(|name| format!("{name}-{}", std::process::id()));
    let url = format!("temporal://{server}/default?queue={one}");
    let counted = Counted::default();
    drive(async {
        let builder = Outlast::connect(&url).interceptor(counted.clone());
        let builder = builder.workflow(first).activity(add);
        let builder = builder.queue(&other, |queue| {
            queue.workflow(second).activity(add).slots(7)
        });
        let app = builder.start().await.expect("the server is there");
        let run = app.run(first, 1_u64);
        assert_eq!(run.await.expect("it completes"), 2);
        let run = app.run(second, 1_u64).queue(&other);
        assert_eq!(run.await.expect("it completes"), 20);
        assert_eq!(counted.0.load(Ordering::Relaxed), 2, "both starts are seen");

        let state = app.worker_state().expect("there is a worker");
        let served: Vec<&str> = state
            .standing
            .queues
            .iter()
            .map(|name| name.as_str())
            .collect();
        assert_eq!(served, [&*one, &*other]);
        let slots = |name: &str| {
            state
                .slots
                .iter()
                .filter(|s| s.queue.as_str() == name)
                .count()
        };
        assert_eq!((slots(&one), slots(&other)), (3, 3), "{state:?}");
        assert_eq!(state.threads.len(), state.shards, "{state:?}");
        assert!(app.health().ready, "{:?}", app.health());
        let metrics = app.metrics();
        let slots = |name: &str| metrics.number("outlast_slots", &[name, "activity"]);
        assert_eq!((slots(&one), slots(&other)), (Some(200), Some(7)));

        let stopped = app.shutdown().await;
        assert_eq!(stopped.left_behind, Vec::<String>::new());
        assert_eq!(app.health().reasons, [HealthReason::Stopping]);
    });
}

#[test]
fn a_start_says_how_urgent_a_run_is() {
    let Some(server) = cluster::server() else {
        return;
    };
    let url = format!(
        "temporal://{server}/default?queue=urgent-{}",
        std::process::id()
    );
    drive(async {
        let builder = Outlast::connect(&url).workflow(first).activity(add);
        let app = builder.start().await.expect("the server is there");
        let run = app.start(first, 1_u64).priority(2).await;
        let run = run.expect("it starts");
        run.result().await.expect("it completes");
        let history = run.history().await.expect("it has a history");
        let EventKind::Started(started) = &history[0].kind else {
            panic!("a history begins with a start: {history:?}");
        };
        assert_eq!(started.priority(), Some(Priority::new(2)));
        app.shutdown_now().await;
    });
}

struct Never;

impl SlotSupplier for Never {
    fn take(&self, _: &Ask<'_>) -> Permit {
        Permit::Full
    }

    fn give(&self, _: &Ask<'_>) {}
}

#[test]
fn a_supplier_of_workflow_slots_is_refused_by_name() {
    let url = format!("temporal://127.0.0.1:{}/default", cluster::free_port());
    let builder = Outlast::connect(&url).queue("gpu", |queue| {
        let queue = queue.workflow(first).activity(add);
        queue.slot_supplier(SlotKind::Workflow, Never)
    });
    let started = drive(builder.report(|_| ()).start());
    let why = started.expect_err("it does not start").to_string();
    assert!(
        why.starts_with("OL-4004") && why.contains("queue gpu"),
        "{why}"
    );
}

static MAY_END: AtomicBool = AtomicBool::new(false);

/// Reports, so that it hears of a cancel, and does not listen.
#[activity]
fn deaf(ctx: ActivityCtx) -> Result<()> {
    while !MAY_END.load(Ordering::Relaxed) {
        // What it is told then is what it does not listen to.
        drop(ctx.heartbeat(()));
        std::thread::park_timeout(Duration::from_millis(20));
    }
    Ok(())
}

#[workflow]
async fn stubborn(ctx: Ctx) -> Result<()> {
    Ok(ctx.run(deaf, ()).heartbeat(1.secs()).await?)
}

async fn event(events: &mut Events, is_it: impl Fn(&WorkerEvent) -> bool) -> Arc<WorkerEvent> {
    loop {
        let event = events.next().await.expect("the worker is there");
        if is_it(&event) {
            return event;
        }
    }
}

#[test]
fn past_the_limit_of_zombies_all_queues_stop_in_order() {
    let Some(server) = cluster::server() else {
        return;
    };
    let name = format!("zombies-{}", std::process::id());
    let url = format!("temporal://{server}/default?queue={name}");
    let settings = Settings {
        zombie_limit: 1,
        abort_after: Duration::from_millis(20),
        zombie_grace: Duration::from_millis(40),
        zombie_retry_max: Duration::from_millis(40),
        shutdown_grace: Duration::ZERO,
        shutdown_evictions: Duration::ZERO,
        ..Settings::default()
    };
    drive(async {
        let builder = Outlast::connect(&url).settings(settings).report(|_| ());
        let builder = builder.workflow(stubborn).activity(deaf);
        let builder = builder.queue(&format!("{name}-2"), |queue| queue.activity(add));
        let app = builder.start().await.expect("the server is there");
        let mut events = app.events(Severity::Info);
        let mut runs = Vec::new();
        for _ in 0..2 {
            let run = app.start(stubborn, ()).await.expect("it starts");
            let is_at_work = || app.worker_state().is_some_and(|state| state.attempts > 0);
            while !is_at_work() {
                tokio::task::yield_now().await;
            }
            run.cancel().await.expect("it is durable");
            let is_zombie = |event: &WorkerEvent| matches!(event, WorkerEvent::Zombie { .. });
            event(&mut events, is_zombie).await;
            runs.push(run);
        }
        let mut left = Vec::new();
        while left.len() < 2 {
            let is_end = |event: &WorkerEvent| matches!(event, WorkerEvent::Stopped { .. });
            left.push(event(&mut events, is_end).await.to_string());
        }
        assert!(left.concat().contains("deaf"), "{left:?}");
        MAY_END.store(true, Ordering::Relaxed);
        for run in runs {
            // Whoever shares the server finds none of them; one may have ended by itself.
            drop(run.terminate("the test is over").await);
        }
    });
}
