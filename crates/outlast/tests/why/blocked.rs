//! Runs whose code is in trouble, and one whose attempt is.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use outlast::model::view::Waiting;
use outlast::prelude::*;
use outlast::{ActivityDef, Handle, Settings, Severity, WorkerEvent, why};
use outlast_service::faulty::FaultyStore;
use outlast_service::memory::MemoryStore;

use crate::Case;
use crate::gate::Gate;
use crate::support::{on, until};

static GATE: Gate = Gate::new();
const GO: Signal<u64> = signal("go");
const NOBODY_HAS_IT: ActivityDef<(), ()> = ActivityDef::new("nobody_has_it");

#[activity]
async fn add(n: u64) -> Result<u64> {
    Ok(n + 1)
}

/// Ignores that it should stop.
#[activity]
fn deaf(_: ()) -> Result<()> {
    GATE.pass();
    Ok(())
}

#[workflow]
async fn broken(ctx: Ctx, how: String) -> Result<()> {
    ctx.run(add, 1).await?;
    match how.as_str() {
        "panics" => panic!("no such shelf"),
        "hangs" => GATE.pass(),
        "asks for too much" => {
            let timers = (0..20_001).map(|_| ctx.sleep(1.secs()));
            drop(futures::future::join_all(timers).await);
        }
        "is deadly" => die(),
        "lets go" => {
            let call = ctx.run(deaf, ());
            ctx.recv(GO).await?;
            call.cancel();
            ctx.recv(GO).await?;
        }
        other => Err(format!("unknown: {other}"))?,
    }
    Ok(())
}

#[workflow]
async fn lonely(ctx: Ctx) -> Result<()> {
    ctx.run(NOBODY_HAS_IT, ()).await?;
    Ok(())
}

#[workflow(name = "changed")]
async fn before(ctx: Ctx) -> Result<u64> {
    ctx.run(add, 1).await?;
    Ok(ctx.recv(GO).await?)
}

#[workflow(name = "changed")]
async fn after(ctx: Ctx) -> Result<u64> {
    ctx.sleep(1.secs()).await?;
    Ok(ctx.recv(GO).await?)
}

async fn troubled<T, E>(what: &'static str, run: &Handle<T, E>) -> Case {
    until(run, |d| d.trouble.is_some()).await;
    Case::of(what, run).await
}

pub(crate) async fn cases() -> Vec<Case> {
    let env = TestEnv::new().expect_stuck_code().report(|_| ());
    let env = env.activity(add).workflow(broken).workflow(lonely);
    let app = env.settings(strict()).start().await;
    let hangs = app.start(broken, "hangs").id("hangs").await;
    let hangs = hangs.expect("it starts");
    let lost = app.start(lonely, ()).id("lost").await.expect("it starts");
    let stuck = troubled("its code does not come back", &hangs);
    let cases = vec![
        busy().await,
        stuck.await.in_real_time(),
        troubled("nobody has its activity", &lost).await,
        badly("panics", "its code panics").await,
        badly("asks for too much", "its code asks for too much").await,
        changed().await,
        deadly().await,
        undead().await,
        Case::new(
            "its records contradict themselves",
            vec![why::damaged(
                "event 7 stands where event 8 should",
                "--db x.db",
            )],
        ),
    ];
    GATE.open();
    app.shutdown().await;
    cases
}

/// Code that takes its time and may.
async fn busy() -> Case {
    let patient = Settings {
        deadlock_timeout: Duration::ZERO,
        ..Settings::default()
    };
    let env = TestEnv::new().expect_stuck_code().report(|_| ());
    let env = env.settings(patient).activity(add);
    let app = env.workflow(broken).start().await;
    let run = app.start(broken, "hangs").id("busy").await;
    let run = run.expect("it starts");
    until(&run, |d| d.waiting.contains(&Waiting::Task)).await;
    let case = Case::of("its code runs", &run).await;
    // It ends when its code comes back.
    tokio::spawn(async move { app.shutdown().await });
    case
}

/// Code that blocks is given up at once.
fn strict() -> Settings {
    Settings {
        deadlock_timeout: Duration::from_millis(100),
        ..Settings::default()
    }
}

async fn badly(how: &str, what: &'static str) -> Case {
    let env = TestEnv::new().report(|_| ()).activity(add);
    let app = env.workflow(broken).start().await;
    let run = app.start(broken, how).id("bad").await;
    troubled(what, &run.expect("it starts")).await
}

async fn changed() -> Case {
    let store = MemoryStore::new();
    let app = on(&store).activity(add).workflow(before).start().await;
    let run = app.start(before, ()).id("a").await.expect("it starts");
    until(&run, |d| format!("{:?}", d.waiting).contains("Message")).await;
    app.shutdown().await;
    drop((app, run));
    let env = on(&store).report(|_| ());
    let app = env.workflow(after).start().await;
    let run = app.get(after, "a");
    run.send(GO, 1).await.expect("it is kept");
    troubled("its code has changed", &run).await
}

/// What ends the process that runs deadly code.
static DISK: Mutex<Option<Arc<FaultyStore<MemoryStore>>>> = Mutex::new(None);

fn die() {
    if let Some(disk) = &*DISK.lock().expect("nobody panics with it") {
        disk.kill();
    }
}

/// Processes die in its code until it is left alone.
async fn deadly() -> Case {
    let store = MemoryStore::new();
    for _ in 0..10 {
        let disk = Arc::new(FaultyStore::new(store.clone()));
        *DISK.lock().expect("nobody panics with it") = Some(disk.clone());
        let env = TestEnv::on(disk.clone()).report(|_| ());
        let app = env.activity(add).workflow(broken).start().await;
        let run = app.get(broken, "a");
        let start = app.start(broken, "is deadly").id("a").request_id("a");
        // Somebody waits for its end: time goes on.
        let ended = run.clone();
        let waits = async move { drop((start.await, ended.result().await)) };
        let waits = tokio::spawn(waits);
        let found = left_alone(&run, &disk).await;
        waits.abort();
        if let Some(case) = found {
            return case;
        }
        // Its threads do not know that they are dead.
        std::thread::spawn(move || drop((app, run)));
    }
    panic!("it is never left alone");
}

/// What the run says when it is left alone; nothing if the process dies first.
async fn left_alone(run: &Handle<()>, disk: &FaultyStore<MemoryStore>) -> Option<Case> {
    while !disk.is_dead() {
        let found = run.describe().await;
        if found.is_ok_and(|found| found.trouble.is_some()) {
            let case = Case::of("its code is deadly", run).await;
            return Some(case.in_real_time());
        }
        tokio::task::yield_now().await;
    }
    None
}

async fn undead() -> Case {
    let settings = Settings {
        abort_after: Duration::from_millis(20),
        zombie_grace: Duration::from_millis(40),
        shutdown_evictions: Duration::ZERO,
        ..Settings::default()
    };
    let env = TestEnv::new().expect_stuck_code().settings(settings);
    let env = env.real_time().activity(add).activity(deaf).report(|_| ());
    let app = env.workflow(broken).start().await;
    let mut events = app.events(Severity::Info);
    let before = GATE.waiting();
    let run = app
        .start(broken, "lets go")
        .id("lets-go")
        .await
        .expect("it starts");
    GATE.crowd(before + 1).await;
    run.send(GO, 1).await.expect("it is durable");
    loop {
        let event = events.next().await.expect("the worker is there");
        if let WorkerEvent::Zombie { .. } = &*event {
            break;
        }
    }
    Case::of("an attempt of it does not end", &run)
        .await
        .in_real_time()
}
