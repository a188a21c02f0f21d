//! Code that cannot go on: the run waits, says why, and goes on when it can.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use outlast::model::Timestamp;
use outlast::prelude::*;
use outlast::{Description, Handle, Status, WorkflowDef};
use outlast_service::memory::MemoryStore;

use super::support::{code, drive, on, sound, until};

fn trouble(found: Description) -> String {
    found
        .trouble
        .expect("the run is in trouble")
        .failure
        .to_string()
}

#[activity]
async fn one() -> Result<u64> {
    Ok(1)
}

#[activity]
async fn two() -> Result<u64> {
    Ok(2)
}

#[workflow]
async fn plain(ctx: Ctx) -> Result<u64> {
    Ok(ctx.run(one, ()).await?)
}

mod broken {
    use super::*;

    #[workflow(name = "plain")]
    pub(super) async fn plain(ctx: Ctx) -> Result<u64> {
        let n = ctx.run(one, ()).await?;
        assert_eq!(n, 17, "this build cannot count");
        Ok(n)
    }
}

#[test]
fn a_panic_in_a_workflow_waits_for_a_fixed_build() {
    drive(async {
        let store = MemoryStore::new();
        let app = on(&store)
            .activity(one)
            .workflow(broken::plain)
            .start()
            .await;
        let run = app
            .start(broken::plain, ())
            .id("a")
            .await
            .expect("it starts");
        let found = until(&run, |d| d.trouble.is_some()).await;
        let text = trouble(found);
        assert!(text.contains("this build cannot count"), "{text}");
        let next = found_next(&run).await;
        app.shutdown().await;
        drop(app);
        let fixed = on(&store).activity(one).workflow(plain);
        let clock = fixed.clock();
        let app = fixed.start().await;
        let run = app.get(plain, "a");
        // Nobody waits for the result yet, which would let time pass: it is not needed.
        until(&run, |d| d.summary.status == Status::Completed).await;
        assert!(clock.now() < next, "before the pause was over");
        assert_eq!(run.result().await.expect("it ends"), 1);
        sound(&run, plain).await;
    });
}

/// When code that could not go on is tried again.
async fn found_next(run: &Handle<u64>) -> Timestamp {
    let found = run.describe().await.expect("the run is there");
    let next = found.trouble.and_then(|trouble| trouble.next_try);
    next.expect("it is tried again")
}

#[test]
fn an_unregistered_workflow_is_refused_before_anything_is_written() {
    drive(async {
        let app = TestEnv::new().activity(one).start().await;
        let refused = app.start(plain, ()).id("a").await;
        assert_eq!(code(refused), "OL-1003");
        let text = super::support::failure(app.run(plain, ()).id("a").await);
        assert!(text.contains(".workflow(plain)"), "{text}");
        assert!(
            app.list(outlast::ListFilter::default())
                .await
                .expect("a list")
                .is_empty()
        );
        assert_eq!(app.written(), (0, 0));
    });
}

#[test]
fn a_run_on_a_queue_served_elsewhere_is_accepted() {
    drive(async {
        const ELSEWHERE: WorkflowDef<(), u64> = WorkflowDef::new("elsewhere");
        let app = TestEnv::new().start().await;
        let run = app
            .start(ELSEWHERE, ())
            .queue("gpu")
            .await
            .expect("it is kept");
        let found = until(&run, |d| d.trouble.is_some()).await;
        let trouble = found.trouble.expect("it waits").failure.to_string();
        assert!(
            trouble.contains("no worker here serves task queue gpu"),
            "{trouble}"
        );
        assert!(
            trouble.contains(".queue(\"gpu\", |q| q.workflow(elsewhere))"),
            "{trouble}"
        );
    });
}

#[test]
fn an_unregistered_activity_waits_until_it_is_registered() {
    drive(async {
        let store = MemoryStore::new();
        let app = on(&store).workflow(plain).start().await;
        let run = app.start(plain, ()).id("a").await.expect("it starts");
        let found = until(&run, |d| !d.waiting.is_empty()).await;
        let text = format!("{found:?}");
        assert!(text.contains(".activity(one)"), "{text}");
        app.shutdown().await;
        drop(app);
        let app = on(&store).activity(one).workflow(plain).start().await;
        let run = app.get(plain, "a");
        assert_eq!(run.result().await.expect("it ends"), 1);
        sound(&run, plain).await;
    });
}

#[test]
fn an_open_run_of_a_missing_workflow_says_so_and_goes_on_when_it_is_back() {
    drive(async {
        let store = MemoryStore::new();
        let app = on(&store).workflow(waiting).start().await;
        app.start(waiting, ()).id("a").await.expect("it starts");
        app.shutdown().await;
        drop(app);
        let app = on(&store).start().await;
        let run = app.get(waiting, "a");
        run.send(GO, 5).await.expect("it is kept");
        let text = format!("{:?}", until(&run, |d| d.trouble.is_some()).await);
        assert!(text.contains(".workflow(waiting)"), "{text}");
        app.shutdown().await;
        drop(app);
        let app = on(&store).workflow(waiting).start().await;
        let run = app.get(waiting, "a");
        assert_eq!(run.result().await.expect("it ends"), 5);
        sound(&run, waiting).await;
    });
}

const GO: Signal<u64> = signal("go");

#[workflow]
async fn waiting(ctx: Ctx) -> Result<u64> {
    Ok(ctx.recv(GO).await?)
}

#[workflow(name = "changed")]
async fn before(ctx: Ctx) -> Result<u64> {
    let n = ctx.run(one, ()).await?;
    Ok(n + ctx.recv(GO).await?)
}

#[workflow(name = "changed")]
async fn after(ctx: Ctx) -> Result<u64> {
    let n = ctx.run(two, ()).await?;
    Ok(n + ctx.recv(GO).await?)
}

#[test]
fn changed_code_is_found_named_on_both_sides_and_goes_on_when_it_is_right_again() {
    drive(async {
        let store = MemoryStore::new();
        let app = on(&store).activity(one).workflow(before).start().await;
        let run = app.start(before, ()).id("a").await.expect("it starts");
        until(&run, |d| format!("{:?}", d.waiting).contains("Message")).await;
        app.shutdown().await;
        drop(app);
        let app = on(&store)
            .activity(one)
            .activity(two)
            .workflow(after)
            .start()
            .await;
        let run = app.get(after, "a");
        run.send(GO, 5)
            .await
            .expect("a blocked run keeps its messages");
        let found = until(&run, |d| d.trouble.is_some()).await;
        assert!(found.summary.is_blocked);
        let text = trouble(found);
        for part in ["one", "two", "trouble.rs:"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        app.shutdown().await;
        drop(app);
        let app = on(&store).activity(one).workflow(before).start().await;
        let run = app.get(before, "a");
        assert_eq!(run.result().await.expect("it ends"), 6);
        sound(&run, before).await;
    });
}

/// The line of the first misuse in [`foreign`]; the others follow, each in one line.
const MISUSES: u32 = line!() + 7;

/// Uses something of tokio, which no workflow code can.
#[workflow]
async fn foreign(ctx: Ctx, how: u32) -> Result<()> {
    ctx.run(one, ()).await?;
    match how {
        0 => tokio::time::sleep(Duration::ZERO).await,
        1 => drop(tokio::spawn(async {})),
        2 => drop(tokio::task::spawn_blocking(|| ())),
        3 => drop(tokio::time::timeout(Duration::ZERO, async {})),
        4 => drop(tokio::runtime::Handle::current()),
        _ => drop(tokio::net::TcpListener::bind("127.0.0.1:0").await),
    }
    Ok(())
}

#[test]
fn a_use_of_tokio_names_its_line_and_what_to_use_instead() {
    drive(async {
        let env = TestEnv::new().activity(one).workflow(foreign);
        let app = env.start().await;
        for how in 0..6 {
            let run = app.start(foreign, how).await.expect("it starts");
            let text = trouble(until(&run, |d| d.trouble.is_some()).await);
            assert!(text.contains("no reactor running"), "{text}");
            // A socket is made deep inside of tokio: its line is none of ours.
            let line = format!("trouble.rs:{}: ", MISUSES + how);
            assert_eq!(text.contains(&line), how < 5, "{text}");
            assert!(text.contains("use ctx.sleep"), "{text}");
            assert!(text.contains("a step or an activity"), "{text}");
            let place = "in main, last durable call at ";
            let at = text.split_once(place).map(|(_, at)| at);
            assert!(at.is_some_and(|at| at.contains("trouble.rs:")), "{text}");
        }
    });
}

#[workflow]
async fn listens(ctx: Ctx) -> Result<u64> {
    let (sender, receiver) = tokio::sync::oneshot::channel::<u64>();
    SENDER
        .lock()
        .expect("nobody panics with it")
        .replace(sender);
    let n = ctx.run(one, ()).await?;
    Ok(n + receiver.await.unwrap_or(0))
}

static SENDER: Mutex<Option<tokio::sync::oneshot::Sender<u64>>> = Mutex::new(None);

#[test]
fn a_wake_from_outside_fails_the_task() {
    drive(async {
        let app = TestEnv::new().activity(one).workflow(listens).start().await;
        let run = app.start(listens, ()).await.expect("it starts");
        until(&run, |d| !format!("{:?}", d.waiting).contains("Activity")).await;
        let sender = SENDER.lock().expect("nobody panics with it").take();
        if let Some(sender) = sender {
            // Nobody may be left to hear it: the net may have named it before.
            sender.send(4).ok();
        }
        let text = trouble(until(&run, |d| d.trouble.is_some()).await);
        assert!(text.contains("trouble.rs:"), "{text}");
    });
}

#[workflow]
async fn idle(ctx: Ctx) -> Result<()> {
    ctx.run(one, ()).await?;
    std::future::pending::<()>().await;
    Ok(())
}

#[test]
fn waiting_for_nothing_is_named() {
    drive(async {
        let app = TestEnv::new().activity(one).workflow(idle).start().await;
        let run = app.start(idle, ()).await.expect("it starts");
        let text = trouble(until(&run, |d| d.trouble.is_some()).await);
        assert!(
            text.contains("nothing") && text.contains("trouble.rs:"),
            "{text}"
        );
    });
}

#[workflow]
async fn direct(_ctx: Ctx) -> Result<u64> {
    one().await
}

#[test]
fn a_direct_call_of_an_activity_is_named_with_its_place() {
    drive(async {
        let app = TestEnv::new().activity(one).workflow(direct).start().await;
        let run = app.start(direct, ()).await.expect("it starts");
        let text = trouble(until(&run, |d| d.trouble.is_some()).await);
        assert!(text.contains("write ctx.run(one, ..)"), "{text}");
        assert!(text.contains("trouble.rs:"), "{text}");
    });
}

#[workflow]
async fn flaky(ctx: Ctx) -> Result<u64> {
    let tries = TRIES.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
    assert!(tries >= 2, "not yet");
    Ok(ctx.run(one, ()).await?)
}

static TRIES: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);

#[test]
fn a_failing_task_is_tried_again_by_itself() {
    drive(async {
        let app = TestEnv::new().activity(one).workflow(flaky).start().await;
        let run = app.start(flaky, ()).await.expect("it starts");
        assert_eq!(run.result().await.expect("it ends"), 1);
        let history = sound(&run, flaky).await;
        let failed = |name: &&&str| **name == "WorkflowTaskFailed";
        // Only the first failure of a streak is an event.
        assert_eq!(
            super::support::names(&history)
                .iter()
                .filter(failed)
                .count(),
            1
        );
    });
}

#[test]
fn two_registrations_of_one_name_do_not_start() {
    drive(async {
        let place = tempfile::tempdir().expect("a directory");
        let builder = outlast::Outlast::sqlite(place.path().join("x.db"));
        let refused = builder.workflow(before).workflow(after).start().await;
        let text = refused.expect_err("two of one name").to_string();
        assert!(
            text.contains("changed") && text.matches("trouble.rs:").count() == 2,
            "{text}"
        );
    });
}

#[test]
fn warnings_reach_whoever_listens() {
    drive(async {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let heard = lines.clone();
        let env = TestEnv::new().activity(one).workflow(broken::plain);
        let env = env.report(move |line| {
            heard
                .lock()
                .expect("nobody panics with it")
                .push(line.to_owned());
        });
        let app = env.start().await;
        let run = app
            .start(broken::plain, ())
            .id("a")
            .await
            .expect("it starts");
        until(&run, |d| d.trouble.is_some()).await;
        let lines = lines.lock().expect("nobody panics with it").join("\n");
        assert!(lines.contains("this build cannot count"), "{lines}");
    });
}

#[test]
fn what_happens_can_be_subscribed_to() {
    drive(async {
        let env = TestEnv::new().activity(one).workflow(broken::plain);
        let app = env.report(|_| ()).start().await;
        let mut events = app.events(outlast::Severity::Info);
        let run = app
            .start(broken::plain, ())
            .id("a")
            .await
            .expect("it starts");
        let event = events.next().await.expect("the worker is there");
        let about = run.describe().await.expect("it is known").summary.run_id;
        assert_eq!(event.run_id(), Some(about), "{event}");
        assert_eq!(event.severity(), outlast::Severity::Warning, "{event}");
        app.shutdown().await;
        let mut codes = Vec::new();
        while let Some(event) = events.take() {
            codes.push(event.code());
        }
        assert!(codes.ends_with(&["OL-5007", "OL-5008"]), "{codes:?}");
    });
}

#[test]
fn an_application_is_ready_until_it_stops() {
    drive(async {
        let app = TestEnv::new().start().await;
        let mut watch = app.watch_state();
        assert!(app.health().ready, "{:?}", app.health());
        let state = app.worker_state().expect("it has a worker");
        assert_eq!(state.standing.life, outlast::Life::Running);
        assert_eq!((state.attempts, state.cached()), (0, 0));
        app.shutdown().await;
        let standing = watch.next().await.expect("it is there");
        assert_eq!(standing.life, outlast::Life::Stopped);
        let reasons = app.health().reasons;
        assert_eq!(reasons, [outlast::HealthReason::Stopping]);
    });
}

#[test]
fn a_run_says_why_it_does_not_move() {
    drive(async {
        let env = TestEnv::new().activity(one).workflow(broken::plain);
        let app = env.report(|_| ()).start().await;
        let run = app
            .start(broken::plain, ())
            .id("a")
            .await
            .expect("it starts");
        until(&run, |d| d.trouble.is_some()).await;
        let answers = run.why().await.expect("it is known");
        assert_eq!(answers[0].reason, outlast::why::Reason::Failing);
        assert!(!answers[0].next.is_empty(), "{answers:?}");
    });
}
