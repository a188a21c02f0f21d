//! The phases of an orderly end, one by one.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use outlast::event::StopPhase;
use outlast::model::RetryPolicy;
use outlast::prelude::*;
use outlast::testing::block_on;
use outlast::{App, Outlast, Settings, Severity, ShutdownSignal, WorkerEvent};
use tokio::sync::{Notify, Semaphore};

use crate::support::drive;
use crate::{alone, deserted};

/// An attempt's number, and what an earlier one reported.
type Seen = (u32, Option<u32>);

/// What the activities of a test share.
#[derive(Clone, Default)]
struct Desk {
    began: Arc<Notify>,
    go: Arc<Notify>,
    calls: Arc<AtomicUsize>,
    attempts: Arc<Mutex<Vec<Seen>>>,
}

/// Ends when it is let go, or with the cancel error when it is told to stop.
#[activity]
async fn held(ctx: ActivityCtx, State(desk): State<Desk>) -> Result<u64> {
    desk.calls.fetch_add(1, Ordering::SeqCst);
    let note = (ctx.attempt(), ctx.last_heartbeat::<u32>());
    desk.attempts.lock().expect("nobody panics").push(note);
    for beat in 1..=3_u32 {
        ctx.heartbeat(beat)?;
    }
    desk.began.notify_one();
    tokio::select! {
        () = desk.go.notified() => Ok(7),
        cancelled = ctx.cancelled() => Err(cancelled.into()),
    }
}

#[workflow]
async fn once(ctx: Ctx) -> Result<u64> {
    Ok(ctx.run(held, ()).retry(RetryPolicy::times(1)).await?)
}

/// Fails in its own way when it is told to stop.
#[activity]
async fn proud(ctx: ActivityCtx, State(desk): State<Desk>) -> Result<u64> {
    desk.began.notify_one();
    ctx.cancelled().await;
    Err(outlast::Error::msg("not like this"))
}

#[workflow]
async fn pride(ctx: Ctx) -> Result<u64> {
    Ok(ctx.run(proud, ()).retry(RetryPolicy::times(1)).await?)
}

struct Place {
    directory: tempfile::TempDir,
    desk: Desk,
}

impl Place {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let desk = Desk::default();
        Self { directory, desk }
    }

    async fn open(&self) -> App {
        self.open_with(Settings::default()).await
    }

    async fn open_with(&self, settings: Settings) -> App {
        let builder = Outlast::sqlite(self.directory.path().join("runs.db"));
        let builder = builder.state(self.desk.clone()).settings(settings);
        let builder = builder.activity(held).activity(proud);
        let builder = builder.workflow(once).workflow(pride);
        builder.report(|_| ()).start().await.expect("it starts")
    }
}

/// Waits until the application has come so far.
async fn reached(events: &mut outlast::Events, wanted: StopPhase) {
    while let Some(event) = events.next().await {
        if matches!(*event, WorkerEvent::Stopping { phase, .. } if phase == wanted) {
            return;
        }
    }
    panic!("it never came to {wanted:?}");
}

#[test]
fn an_attempt_may_finish_and_its_outcome_is_recorded() {
    drive(async {
        let place = Place::new();
        let app = place.open().await;
        app.start(once, ()).id("a").await.expect("it starts");
        place.desk.began.notified().await;
        let mut events = app.events(Severity::Info);
        let ending = tokio::spawn({
            let app = app.clone();
            async move { app.shutdown().await }
        });
        reached(&mut events, StopPhase::Finishing).await;
        place.desk.go.notify_one();
        assert!(ending.await.expect("no panic").left_behind.is_empty());
        drop(app);
        let app = place.open().await;
        let run = app.get(once, "a");
        assert_eq!(run.result().await.expect("it ends"), 7);
        assert_eq!(place.desk.calls.load(Ordering::SeqCst), 1);
        app.shutdown().await;
    });
}

#[test]
fn an_attempt_that_is_told_to_stop_is_handed_back_with_its_details_and_not_counted() {
    drive(async {
        let place = Place::new();
        for _ in 0..3 {
            let app = place.open().await;
            let run = app.start(once, ()).id("a");
            let run = run.conflict(outlast::ConflictPolicy::UseExisting);
            run.await.expect("it starts");
            place.desk.began.notified().await;
            assert!(app.shutdown_now().await.left_behind.is_empty());
        }
        let app = place.open().await;
        place.desk.began.notified().await;
        place.desk.go.notify_one();
        let run = app.get(once, "a");
        assert_eq!(run.result().await.expect("it ends"), 7);
        let attempts = place.desk.attempts.lock().expect("nobody panics").clone();
        assert_eq!(
            attempts,
            [(1, None), (1, Some(3)), (1, Some(3)), (1, Some(3))]
        );
        app.shutdown().await;
    });
}

#[test]
fn an_attempt_that_fails_in_its_own_way_has_failed() {
    drive(async {
        let place = Place::new();
        let app = place.open().await;
        app.start(pride, ()).id("a").await.expect("it starts");
        place.desk.began.notified().await;
        app.shutdown_now().await;
        drop(app);
        let app = place.open().await;
        let failed = app.get(pride, "a").result().await;
        let text = failed.expect_err("it failed").to_string();
        assert!(text.contains("not like this"), "{text}");
        app.shutdown().await;
    });
}

mod steps {
    use super::*;

    static BEGAN: Semaphore = Semaphore::const_new(0);
    static GO: Semaphore = Semaphore::const_new(0);

    #[workflow]
    async fn steps(ctx: Ctx) -> Result<u64> {
        let step = ctx.step("wait", || async {
            BEGAN.add_permits(1);
            GO.acquire().await.expect("it is open").forget();
            outlast::Ok(5_u64)
        });
        Ok(step.retry(RetryPolicy::times(1)).await?)
    }

    #[test]
    fn a_step_that_is_dropped_is_handed_back() {
        drive(async {
            let directory = tempfile::tempdir().expect("a directory");
            let open = async || {
                let settings = Settings {
                    abort_after: Duration::ZERO,
                    ..Settings::default()
                };
                let builder = Outlast::sqlite(directory.path().join("runs.db")).workflow(steps);
                builder.settings(settings).start().await.expect("it starts")
            };
            let app = open().await;
            app.start(steps, ()).id("a").await.expect("it starts");
            BEGAN.acquire().await.expect("it is open").forget();
            assert!(app.shutdown_now().await.left_behind.is_empty());
            let app = open().await;
            BEGAN.acquire().await.expect("it is open").forget();
            GO.add_permits(1);
            assert_eq!(app.get(steps, "a").result().await.expect("it ends"), 5);
            app.shutdown().await;
        });
    }
}

mod obstinate {
    use super::*;
    use std::sync::{Condvar, PoisonError};

    /// Blocks whoever comes until it is opened.
    #[derive(Default)]
    struct Gate(Mutex<bool>, Condvar);

    impl Gate {
        fn pass(&self) {
            let mut is_open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            while !*is_open {
                is_open = self.1.wait(is_open).unwrap_or_else(PoisonError::into_inner);
            }
        }

        fn open(&self) {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
            self.1.notify_all();
        }
    }

    #[derive(Clone, Default)]
    struct Block {
        gate: Arc<Gate>,
        began: Arc<Notify>,
    }

    #[activity]
    fn deaf(State(block): State<Block>) -> Result<()> {
        block.began.notify_one();
        block.gate.pass();
        Ok(())
    }

    #[workflow]
    async fn waits(ctx: Ctx) -> Result<()> {
        Ok(ctx.run(deaf, ()).await?)
    }

    async fn open(block: &Block, settings: Settings) -> (App, tempfile::TempDir) {
        let directory = tempfile::tempdir().expect("a directory");
        let builder = Outlast::sqlite(directory.path().join("runs.db"));
        let builder = builder.state(block.clone()).activity(deaf).workflow(waits);
        let builder = builder.settings(settings).report(|_| ());
        (builder.start().await.expect("it starts"), directory)
    }

    #[test]
    fn a_second_signal_hurries_and_a_third_returns_at_once() {
        drive(async {
            let block = Block::default();
            let (app, _directory) = open(&block, Settings::default()).await;
            app.start(waits, ()).await.expect("it starts");
            block.began.notified().await;
            let mut events = app.events(Severity::Info);
            let (trigger, mut signal) = ShutdownSignal::manual();
            trigger.fire();
            signal.recv().await;
            let ending = tokio::spawn({
                let app = app.clone();
                async move { app.shutdown_with(&mut signal).await }
            });
            reached(&mut events, StopPhase::Finishing).await;
            trigger.fire();
            reached(&mut events, StopPhase::Cancelling).await;
            trigger.fire();
            let stopped = ending.await.expect("no panic");
            assert!(stopped.is_forced);
            assert!(stopped.into_result().is_err());
            block.gate.open();
            app.shutdown().await;
        });
    }

    #[test]
    fn what_does_not_end_is_named_and_left_behind() {
        drive(async {
            let block = Block::default();
            let moment = Duration::from_millis(1);
            let settings = Settings {
                shutdown_grace: moment,
                shutdown_cancel: moment,
                ..Settings::default()
            };
            let (app, _directory) = open(&block, settings).await;
            app.start(waits, ()).await.expect("it starts");
            block.began.notified().await;
            let stopped = app.shutdown().await;
            assert_eq!(stopped.left_behind.len(), 1, "{stopped:?}");
            block.gate.open();
        });
    }

    /// The last phase may take all the time there is; it begins a little late.
    fn brief() -> Settings {
        let moment = Duration::from_millis(20);
        Settings {
            abort_after: Duration::ZERO,
            zombie_grace: Duration::ZERO,
            shutdown_grace: Duration::ZERO,
            shutdown_cancel: Duration::ZERO,
            shutdown_evictions: moment,
            shutdown_hard_stop: moment,
            ..Settings::default()
        }
    }

    #[test]
    fn the_hard_stop_names_what_is_left_and_the_host_goes_on() {
        drive(async {
            let block = Block::default();
            let (app, directory) = open(&block, brief()).await;
            let mut events = app.events(Severity::Info);
            let run = app.start(waits, ()).await.expect("it starts");
            block.began.notified().await;
            run.cancel().await.expect("it is durable");
            while !matches!(
                events.next().await.as_deref(),
                Some(WorkerEvent::Zombie { .. })
            ) {}
            let stopped = app.shutdown().await;
            reached(&mut events, StopPhase::HardStop).await;
            let [left] = stopped.left_behind.as_slice() else {
                panic!("{stopped:?}");
            };
            assert!(left.contains("deaf"), "{left}");
            assert!(app.start(waits, ()).await.is_err(), "it has stopped");
            drop(app);

            block.gate.open();
            let builder = Outlast::sqlite(directory.path().join("runs.db"));
            let builder = builder.state(block.clone()).activity(deaf).workflow(waits);
            let app = builder.start().await.expect("the file is free");
            app.run(waits, ()).await.expect("it ends");
            app.shutdown().await;
        });
    }

    #[test]
    fn a_listener_that_never_returns_holds_up_no_shutdown() {
        drive(async {
            let (block, stuck) = (Block::default(), Block::default());
            let directory = tempfile::tempdir().expect("a directory");
            let builder = Outlast::sqlite(directory.path().join("runs.db"));
            let builder = builder.state(block.clone()).activity(deaf).workflow(waits);
            let listener = stuck.gate.clone();
            let builder = builder.on_event(Severity::Info, move |event| {
                if matches!(event, WorkerEvent::Stopping { .. }) {
                    listener.pass();
                }
            });
            let builder = builder.settings(brief()).report(|_| ());
            let app = builder.start().await.expect("it starts");
            app.start(waits, ()).await.expect("it starts");
            block.began.notified().await;
            let stopped = app.shutdown().await;
            let [attempt, itself] = stopped.left_behind.as_slice() else {
                panic!("{stopped:?}");
            };
            assert!(attempt.contains("deaf"), "{attempt}");
            for part in ["in its phase Finishing", "a listener of events"] {
                assert!(itself.contains(part), "{itself}");
            }
            block.gate.open();
            stuck.gate.open();
        });
    }

    #[workflow]
    async fn stuck(ctx: Ctx) -> Result<()> {
        ctx.sleep(1.millis()).await?;
        BLOCK.pass();
        Ok(())
    }

    static BLOCK: Gate = Gate(Mutex::new(false), Condvar::new());

    #[test]
    fn a_thread_that_is_stuck_in_workflow_code_is_named_with_its_run_and_place() {
        drive(async {
            let settings = Settings {
                deadlock_timeout: Duration::from_millis(60),
                shutdown_evictions: Duration::from_millis(1),
                ..Settings::default()
            };
            let env = TestEnv::new().real_time().workflow(stuck).report(|_| ());
            let env = env.expect_stuck_code();
            let app = env.settings(settings).start().await;
            let run = app.start(stuck, ()).await.expect("it starts");
            crate::support::until(&run, |d| d.trouble.is_some()).await;
            let stopped = app.shutdown().await;
            let [left] = stopped.left_behind.as_slice() else {
                panic!("{stopped:?}");
            };
            assert!(left.contains("phases.rs:"), "{left}");
            BLOCK.open();
        });
    }
}

mod instances {
    use super::*;

    static ALIVE: AtomicUsize = AtomicUsize::new(0);

    struct Guard;

    impl Guard {
        fn new() -> Self {
            ALIVE.fetch_add(1, Ordering::SeqCst);
            Self
        }
    }

    impl Drop for Guard {
        fn drop(&mut self) {
            ALIVE.fetch_sub(1, Ordering::SeqCst);
        }
    }

    const GO: Signal<()> = signal("go");

    #[workflow]
    async fn listens(ctx: Ctx) -> Result<()> {
        let _guard = Guard::new();
        ctx.recv(GO).await?;
        Ok(())
    }

    #[test]
    fn instances_are_dropped_before_it_has_stopped() {
        drive(async {
            let app = TestEnv::new().workflow(listens).start().await;
            for _ in 0..10 {
                app.start(listens, ()).await.expect("it starts");
            }
            assert_eq!(ALIVE.load(Ordering::SeqCst), 10);
            app.shutdown().await;
            assert_eq!(ALIVE.load(Ordering::SeqCst), 0);
        });
    }

    #[workflow]
    async fn hears(ctx: Ctx) -> Result<()> {
        ctx.recv(GO).await?;
        Ok(())
    }

    #[test]
    fn a_message_that_was_acknowledged_on_the_way_down_is_kept() {
        drive(async {
            let directory = tempfile::tempdir().expect("a directory");
            let open = async || {
                let builder = Outlast::sqlite(directory.path().join("runs.db"));
                builder.workflow(hears).start().await.expect("it starts")
            };
            for round in 0..20 {
                let app = open().await;
                let id = format!("run-{round}");
                let run = app.start(hears, ()).id(&id).await.expect("it starts");
                let (sent, _) = tokio::join!(run.send(GO, ()), app.shutdown());
                let app = open().await;
                let run = app.get(hears, &id);
                if sent.is_err() {
                    run.send(GO, ()).await.expect("it is durable");
                }
                run.result().await.expect("it ends");
                app.shutdown().await;
            }
        });
    }
}

#[test]
fn shutting_down_twice_and_at_the_same_time_is_one_end() {
    drive(async {
        let place = Place::new();
        let app = place.open().await;
        app.start(once, ()).await.expect("it starts");
        place.desk.began.notified().await;
        let (first, second, third) = tokio::join!(
            app.shutdown(),
            app.shutdown_now(),
            tokio::spawn({
                let app = app.clone();
                async move { app.shutdown_now().await }
            })
        );
        assert_eq!(first, second);
        assert_eq!(first, third.expect("no panic"));
        assert_eq!(app.shutdown().await, first);
    });
}

#[test]
fn it_ends_on_a_runtime_with_one_thread_and_without_any() {
    let _alone = alone();
    let place = Place::new();
    block_on(async {
        let app = place.open().await;
        app.start(once, ()).id("a").await.expect("it starts");
        place.desk.began.notified().await;
        assert!(app.shutdown_now().await.left_behind.is_empty());
    });
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let app = runtime.block_on(async {
        let app = place.open().await;
        place.desk.began.notified().await;
        app
    });
    let stopped = futures::executor::block_on(app.shutdown_now());
    assert!(stopped.left_behind.is_empty());
    drop(app);
    deserted();
    let attempts = place.desk.attempts.lock().expect("nobody panics").clone();
    assert_eq!(attempts, [(1, None), (1, Some(3))]);
}

#[test]
fn a_dropped_application_ends_on_whatever_thread_drops_it() {
    let _alone = alone();
    let place = Place::new();
    // On the only thread of a runtime: nobody can wait for the attempt there.
    block_on(async {
        let app = place.open().await;
        app.start(pride, ()).id("a").await.expect("it starts");
        place.desk.began.notified().await;
        drop(app);
    });
    // On a thread without one: it is told to stop, and waited for.
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let app = runtime.block_on(async {
        let app = place.open().await;
        app.start(once, ()).id("b").await.expect("it starts");
        place.desk.began.notified().await;
        app
    });
    drop(app);
    deserted();
    runtime.block_on(async {
        let app = place.open().await;
        place.desk.began.notified().await;
        place.desk.go.notify_one();
        assert_eq!(app.get(once, "b").result().await.expect("it ends"), 7);
        app.shutdown().await;
    });
}

#[test]
fn a_start_that_nobody_waits_for_leaves_nothing_behind() {
    let _alone = alone();
    let place = Place::new();
    let start = || Outlast::sqlite(place.directory.path().join("runs.db")).start();
    drive(async {
        for _ in 0..10 {
            // One of them may already hear that another holds the file.
            let mut start = Box::pin(start());
            let polled = futures::poll!(&mut start);
            drop((start, polled));
        }
        // The last of them may still hold the file.
        loop {
            match start().await {
                Ok(app) => break drop(app),
                Err(_) => tokio::task::yield_now().await,
            }
        }
    });
    deserted();
}
