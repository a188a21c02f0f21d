//! Attempts that ignore that they should stop: they lose their slot and their say, are counted
//! and named, and when there are too many the application goes down in order.

use std::sync::Arc;
use std::time::Duration;

use outlast::prelude::*;
use outlast::{App, CancelMode, Events, Settings, Severity, WorkerEvent};

use crate::gate::Gate;
use crate::support::{drive, sound};

/// Everything that takes seconds by default.
fn quick() -> Settings {
    Settings {
        activity_slots: 1,
        step_slots: 1,
        abort_after: Duration::from_millis(20),
        zombie_grace: Duration::from_millis(40),
        zombie_retry_max: Duration::from_millis(40),
        shutdown_grace: Duration::ZERO,
        shutdown_evictions: Duration::ZERO,
        ..Settings::default()
    }
}

#[activity]
async fn add(n: u64) -> Result<u64> {
    Ok(n + 1)
}

/// Sent when the code of the attempt is inside.
const STOP: Signal<()> = signal("stop");

/// The next event of this kind.
async fn event(events: &mut Events, is_it: impl Fn(&WorkerEvent) -> bool) -> Arc<WorkerEvent> {
    loop {
        let event = events.next().await.expect("the worker is there");
        if is_it(&event) {
            return event;
        }
    }
}

fn is_zombie(event: &WorkerEvent) -> bool {
    matches!(event, WorkerEvent::Zombie { .. })
}

/// It is found, named and counted; then its thread comes back.
async fn lives_and_ends(app: &App, mut events: Events, gate: &Gate, name: &str) {
    let found = event(&mut events, is_zombie).await;
    assert!(found.to_string().contains(name), "{found}");
    let state = app.worker_state().expect("there is a worker");
    assert_eq!(state.attempts, 0, "it holds no slot");
    assert_eq!(state.standing.zombies().len(), 1);
    gate.open();
    let is_end = |event: &WorkerEvent| matches!(event, WorkerEvent::ZombieEnded { .. });
    event(&mut events, is_end).await;
    let state = app.worker_state().expect("there is a worker");
    assert_eq!(state.standing.zombies().len(), 0);
    assert!(state.slots.iter().all(|slots| slots.used == 0), "{state:?}");
}

mod blocking {
    use super::*;

    static GATE: Gate = Gate::new();

    #[activity]
    fn deaf(_: ()) -> Result<()> {
        GATE.pass();
        Ok(())
    }

    #[workflow]
    async fn asks(ctx: Ctx) -> Result<u64> {
        let call = ctx.run(deaf, ());
        ctx.recv(STOP).await?;
        call.cancel();
        assert!(call.await.is_err(), "it is cancelled");
        Ok(ctx.run(add, 1).await?)
    }

    #[test]
    fn a_blocking_attempt_that_ignores_its_token_loses_slot_and_say() {
        drive(async {
            let env = TestEnv::new()
                .expect_stuck_code()
                .settings(quick())
                .real_time();
            let app = env
                .activity(deaf)
                .activity(add)
                .workflow(asks)
                .start()
                .await;
            let events = app.events(Severity::Info);
            let run = app.start(asks, ()).await.expect("it starts");
            GATE.crowd(1).await;
            run.send(STOP, ()).await.expect("it is durable");
            assert_eq!(run.result().await.expect("it ends"), 2);
            lives_and_ends(&app, events, &GATE, "deaf").await;
            sound(&run, asks).await;
        });
    }
}

mod silenced {
    use super::*;

    static GATE: Gate = Gate::new();

    #[activity]
    fn deaf(ctx: ActivityCtx) -> Result<u64> {
        GATE.pass();
        drop(ctx.heartbeat("still here"));
        Ok(7)
    }

    #[workflow]
    async fn asks(ctx: Ctx) -> Result<u64> {
        let call = ctx.run(deaf, ());
        ctx.recv(STOP).await?;
        call.cancel();
        assert!(call.await.is_err(), "it is cancelled");
        Ok(ctx.recv(signal::<u64>("end")).await?)
    }

    #[workflow]
    async fn adds(ctx: Ctx) -> Result<u64> {
        Ok(ctx.run(add, 1).await?)
    }

    #[test]
    fn a_zombie_frees_the_only_slot_and_what_it_says_later_is_thrown_away() {
        drive(async {
            let env = TestEnv::new().expect_stuck_code().settings(quick());
            let env = env.real_time().activity(deaf).activity(add);
            let app = env.workflow(asks).workflow(adds).start().await;
            let mut events = app.events(Severity::Info);
            let run = app.start(asks, ()).await.expect("it starts");
            GATE.crowd(1).await;
            let state = app.worker_state().expect("there is a worker");
            let of_default = |s: &&outlast::SlotState| s.kind == "activity";
            let slots = state.slots.iter().find(of_default).expect("its slots");
            assert_eq!(
                (slots.used, slots.slots),
                (1, Some(1)),
                "it has the only one"
            );
            run.send(STOP, ()).await.expect("it is durable");
            event(&mut events, is_zombie).await;
            for _ in 0..5 {
                assert_eq!(app.run(adds, ()).await.expect("it ends"), 2);
            }
            let before = run.history().await.expect("it has one");
            GATE.open();
            let is_end = |event: &WorkerEvent| matches!(event, WorkerEvent::ZombieEnded { .. });
            event(&mut events, is_end).await;
            assert_eq!(run.history().await.expect("it has one"), before);
            run.send(signal("end"), 1).await.expect("it is durable");
            assert_eq!(run.result().await.expect("it ends"), 1);
            let history = sound(&run, asks).await;
            let said = crate::support::names(&history);
            assert!(!said.contains(&"ActivityTaskCompleted"), "{said:?}");
        });
    }
}

mod spinning {
    use super::*;

    static GATE: Gate = Gate::new();

    #[activity]
    async fn hog(_: ()) -> Result<()> {
        GATE.pass();
        Ok(())
    }

    /// The neighbours are begun by the same task of the runtime.
    #[workflow]
    async fn asks(ctx: Ctx) -> Result<u64> {
        let before = ctx.run(add, 1);
        let call = ctx.run(hog, ());
        let behind = ctx.run(add, 2);
        let (n, m) = futures::join!(before, behind);
        ctx.recv(STOP).await?;
        call.cancel();
        assert!(call.await.is_err(), "it is cancelled");
        Ok(n? + m?)
    }

    #[test]
    fn an_attempt_that_does_not_yield_holds_up_nobody() {
        drive(async {
            let settings = Settings {
                activity_slots: 3,
                ..quick()
            };
            let env = TestEnv::new()
                .expect_stuck_code()
                .settings(settings)
                .real_time();
            let app = env.activity(hog).activity(add).workflow(asks).start().await;
            let events = app.events(Severity::Info);
            let run = app.start(asks, ()).await.expect("it starts");
            GATE.crowd(1).await;
            run.send(STOP, ()).await.expect("it is durable");
            assert_eq!(run.result().await.expect("it ends"), 5);
            lives_and_ends(&app, events, &GATE, "hog").await;
            sound(&run, asks).await;
        });
    }
}

mod step {
    use super::*;

    static GATE: Gate = Gate::new();

    #[workflow]
    async fn asks(ctx: Ctx) -> Result<u64> {
        let step = ctx.step("deaf", || async {
            GATE.pass();
            Ok(())
        });
        ctx.recv(STOP).await?;
        step.cancel();
        assert!(step.await.is_err(), "it is cancelled");
        Ok(ctx.step("more", || async { Ok(2) }).await?)
    }

    #[test]
    fn a_step_that_blocks_its_thread_loses_slot_and_say() {
        drive(async {
            let env = TestEnv::new()
                .expect_stuck_code()
                .settings(quick())
                .real_time();
            let app = env.workflow(asks).start().await;
            let events = app.events(Severity::Info);
            let run = app.start(asks, ()).await.expect("it starts");
            GATE.crowd(1).await;
            run.send(STOP, ()).await.expect("it is durable");
            assert_eq!(run.result().await.expect("it ends"), 2);
            lives_and_ends(&app, events, &GATE, "deaf").await;
            sound(&run, asks).await;
        });
    }
}

mod dropped {
    use super::*;
    use std::sync::Mutex;

    static LOG: Mutex<Vec<&str>> = Mutex::new(Vec::new());
    static INSIDE: Gate = Gate::new();

    fn note(what: &'static str) {
        LOG.lock().expect("nobody panics").push(what);
    }

    struct Guard;

    impl Drop for Guard {
        fn drop(&mut self) {
            note("dropped");
        }
    }

    /// It is told to stop and goes on, but yields.
    #[activity]
    async fn idles(ctx: ActivityCtx) -> Result<()> {
        let _guard = Guard;
        INSIDE.open();
        ctx.cancelled().await;
        note("told");
        std::future::pending().await
    }

    #[workflow]
    async fn asks(ctx: Ctx) -> Result<()> {
        let call = ctx.run(idles, ()).cancel_mode(CancelMode::Wait);
        ctx.recv(STOP).await?;
        call.cancel();
        let error = call.await.expect_err("it is cancelled");
        assert!(error.is_cancelled(), "{error}");
        Ok(())
    }

    #[test]
    fn an_attempt_that_yields_is_dropped_and_never_a_zombie() {
        drive(async {
            // Not told that code is stuck here: a zombie would fail the test.
            let env = TestEnv::new().settings(quick()).real_time();
            let app = env.activity(idles).workflow(asks).start().await;
            let run = app.start(asks, ()).await.expect("it starts");
            tokio::task::spawn_blocking(|| INSIDE.pass())
                .await
                .expect("no panic");
            run.send(STOP, ()).await.expect("it is durable");
            run.result().await.expect("it ends");
            let log = LOG.lock().expect("nobody panics").clone();
            assert_eq!(log, ["told", "dropped"], "before its outcome counts");
            let state = app.worker_state().expect("there is a worker");
            assert_eq!((state.attempts, state.standing.zombies().len()), (0, 0));
            app.shutdown().await;
        });
    }
}

mod family {
    use super::*;

    static GATE: Gate = Gate::new();

    /// It stops when it should; its child does not.
    #[activity]
    async fn parent(ctx: ActivityCtx) -> Result<()> {
        drop(ctx.spawn(async { GATE.pass() }));
        Err(ctx.cancelled().await.into())
    }

    #[workflow]
    async fn asks(ctx: Ctx) -> Result<u64> {
        let call = ctx.run(parent, ());
        ctx.recv(STOP).await?;
        call.cancel();
        assert!(call.await.is_err(), "it is cancelled");
        Ok(ctx.run(add, 1).await?)
    }

    #[test]
    fn an_attempt_whose_child_does_not_stop_loses_slot_and_say() {
        drive(async {
            let env = TestEnv::new().expect_stuck_code().settings(quick());
            let env = env.real_time().activity(parent).activity(add);
            let app = env.workflow(asks).start().await;
            let events = app.events(Severity::Info);
            let run = app.start(asks, ()).await.expect("it starts");
            GATE.crowd(1).await;
            run.send(STOP, ()).await.expect("it is durable");
            assert_eq!(run.result().await.expect("it ends"), 2);
            lives_and_ends(&app, events, &GATE, "parent").await;
            sound(&run, asks).await;
        });
    }
}

mod served {
    use super::*;

    static GATE: Gate = Gate::new();

    #[activity(start_to_close = "20ms")]
    fn deaf() -> Result<()> {
        GATE.pass();
        Ok(())
    }

    #[workflow]
    async fn asks(ctx: Ctx) -> Result<()> {
        Ok(ctx.run(deaf, ()).retry(RetryPolicy::times(1)).await?)
    }

    #[test]
    fn past_the_limit_a_program_that_only_serves_returns_and_names_what_is_left() {
        drive(async {
            let place = tempfile::tempdir().expect("a directory");
            let builder = || Outlast::sqlite(place.path().join("runs.db")).workflow(asks);
            let client = builder().start().await.expect("it opens");
            for _ in 0..2 {
                client.start(asks, ()).await.expect("it starts");
            }
            client.shutdown_now().await;
            drop(client);
            let settings = Settings {
                zombie_limit: 1,
                activity_slots: 2,
                ..quick()
            };
            let worker = builder().activity(deaf).settings(settings);
            let served = worker.report(|_| ()).run().await;
            let text = served.expect_err("it did not end in order").to_string();
            assert!(text.contains("deaf"), "{text}");
            GATE.open();
        });
    }
}

mod limit {
    use super::*;

    static GATE: Gate = Gate::new();

    #[activity]
    fn deaf(_: u32) -> Result<()> {
        GATE.pass();
        Ok(())
    }

    #[workflow]
    async fn asks(ctx: Ctx, n: u32) -> Result<()> {
        let call = ctx.run(deaf, n);
        ctx.recv(STOP).await?;
        call.cancel();
        assert!(call.await.is_err(), "it is cancelled");
        Ok(())
    }

    #[test]
    fn past_the_limit_the_application_stops_in_order() {
        drive(async {
            let settings = Settings {
                zombie_limit: 1,
                ..quick()
            };
            let env = TestEnv::new()
                .expect_stuck_code()
                .settings(settings)
                .real_time();
            let app = env.activity(deaf).workflow(asks).start().await;
            let mut events = app.events(Severity::Info);
            for n in 0..2 {
                let run = app.start(asks, n).await.expect("it starts");
                GATE.crowd(n + 1).await;
                run.send(STOP, ()).await.expect("it is durable");
                run.result().await.expect("it ends");
            }
            let is_limit = |event: &WorkerEvent| matches!(event, WorkerEvent::ZombieLimit { .. });
            event(&mut events, is_limit).await;
            let is_end = |event: &WorkerEvent| matches!(event, WorkerEvent::Stopped { .. });
            let stopped = event(&mut events, is_end).await;
            assert!(stopped.to_string().contains("deaf"), "{stopped}");
            assert!(app.start(asks, 3).await.is_err(), "it has stopped");
            GATE.open();
        });
    }

    #[test]
    #[should_panic(expected = "deaf")]
    fn a_test_that_saw_a_zombie_fails() {
        static SHUT: Gate = Gate::new();

        #[activity]
        fn deaf(_: ()) -> Result<()> {
            SHUT.pass();
            Ok(())
        }

        #[workflow]
        async fn asks(ctx: Ctx) -> Result<()> {
            let call = ctx.run(deaf, ());
            ctx.recv(STOP).await?;
            call.cancel();
            assert!(call.await.is_err(), "it is cancelled");
            Ok(())
        }

        drive(async {
            let env = TestEnv::new().settings(quick()).real_time().report(|_| ());
            let app = env.activity(deaf).workflow(asks).start().await;
            let mut events = app.events(Severity::Info);
            let run = app.start(asks, ()).await.expect("it starts");
            SHUT.crowd(1).await;
            run.send(STOP, ()).await.expect("it is durable");
            run.result().await.expect("it ends");
            event(&mut events, is_zombie).await;
            SHUT.open();
            app.shutdown().await;
        });
    }
}
