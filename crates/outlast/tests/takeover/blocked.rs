//! Workflow code that blocks its thread.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use outlast::model::event::TaskFailedCause;
use outlast::prelude::*;
use outlast::{Outlast, Settings};

use crate::gate::Gate;
use crate::support::{drive, names, sound, until};

#[activity]
pub(crate) async fn add(n: u64) -> Result<u64> {
    Ok(n + 1)
}

/// A neighbour: needs its turns, an activity and a timer.
#[workflow]
pub(crate) async fn quick(ctx: Ctx) -> Result<u64> {
    let n = ctx.run(add, 1).await?;
    ctx.sleep(1.secs()).await?;
    Ok(ctx.run(add, n).await?)
}

const GO: Signal<u64> = signal("go");

/// Code that blocks is never given up.
pub(crate) fn patient() -> Settings {
    Settings {
        deadlock_timeout: Duration::ZERO,
        deadlock_warning: Duration::from_secs(3_600),
        ..Settings::default()
    }
}

/// Code that blocks is given up at once.
pub(crate) fn strict() -> Settings {
    Settings {
        deadlock_timeout: Duration::from_millis(100),
        ..Settings::default()
    }
}

mod noise {
    use super::*;
    use std::process::Command;

    static GATE: Gate = Gate::new();

    #[workflow]
    async fn hangs(ctx: Ctx) -> Result<u64> {
        let n = ctx.run(add, 1).await?;
        GATE.pass();
        Ok(n)
    }

    /// An application as it is made by default, whose code hangs.
    fn hang() {
        drive(async {
            let place = tempfile::tempdir().expect("a directory");
            let builder = Outlast::sqlite(place.path().join("runs.db"));
            let builder = builder.activity(add).workflow(hangs).settings(strict());
            let app = builder.start().await.expect("it opens");
            let run = app.start(hangs, ()).id("noisy").await.expect("it starts");
            until(&run, |d| d.trouble.is_some()).await;
            GATE.open();
            assert_eq!(run.result().await.expect("it ends"), 2);
            app.shutdown().await;
        });
    }

    /// In a process of its own: what it prints is looked at.
    #[test]
    fn stuck_code_is_told_on_the_standard_error_stream_unless_somebody_listens() {
        const CHILD: &str = "OUTLAST_NOISY_CHILD";
        if std::env::var_os(CHILD).is_some() {
            return hang();
        }
        let name = "blocked::noise::\
                    stuck_code_is_told_on_the_standard_error_stream_unless_somebody_listens";
        let mut child = Command::new(std::env::current_exe().expect("this program"));
        child.args(["--exact", name, "--nocapture"]).env(CHILD, "1");
        let child = child.output().expect("it runs");
        let told = String::from_utf8_lossy(&child.stderr);
        assert!(child.status.success(), "{told}");
        let line = told.lines().find(|line| line.contains("[OL-5104]"));
        let line = line.unwrap_or_else(|| panic!("nothing was said: {told}"));
        assert!(line.starts_with("outlast: "), "{line}");
        for part in ["noisy", "blocked.rs:", "the run is blocked"] {
            assert!(line.contains(part), "{part}: {line}");
        }
    }
}

mod slow {
    use super::*;

    static GATE: Gate = Gate::new();

    #[workflow]
    async fn blocks(ctx: Ctx) -> Result<u64> {
        let n = ctx.run(add, 1).await?;
        GATE.pass();
        Ok(ctx.run(add, n).await?)
    }

    #[test]
    fn neighbours_finish_while_a_workflow_blocks_its_thread() {
        drive(async {
            let env = TestEnv::new()
                .expect_stuck_code()
                .activity(add)
                .workflow(blocks);
            let app = env.workflow(quick).settings(patient()).start().await;
            let blocked = app.start(blocks, ()).await.expect("it starts");
            GATE.crowd(1).await;
            for _ in 0..10 {
                assert_eq!(app.run(quick, ()).await.expect("it ends"), 3);
            }
            let found = blocked.describe().await.expect("it is there");
            assert!(found.trouble.is_none(), "{:?}", found.trouble);
            GATE.open();
            assert_eq!(blocked.result().await.expect("it ends"), 3);
            sound(&blocked, blocks).await;
        });
    }
}

mod stuck {
    use super::*;

    static GATE: Gate = Gate::new();

    #[workflow]
    async fn hangs(ctx: Ctx) -> Result<u64> {
        let n = ctx.run(add, 1).await?;
        GATE.pass();
        Ok(ctx.run(add, n).await?)
    }

    #[test]
    fn code_that_does_not_come_back_is_given_up_named_and_goes_on_when_it_does() {
        drive(async {
            let lines = Arc::new(Mutex::new(String::new()));
            let heard = lines.clone();
            let env = TestEnv::new()
                .expect_stuck_code()
                .activity(add)
                .workflow(hangs)
                .workflow(quick);
            let env = env.report(move |line| {
                heard.lock().expect("nobody panics with it").push_str(line);
            });
            let app = env.settings(strict()).start().await;
            let run = app.start(hangs, ()).await.expect("it starts");
            let found = until(&run, |d| d.trouble.is_some()).await;
            assert!(found.summary.is_blocked);
            let trouble = found.trouble.expect("it is in trouble");
            assert_eq!(trouble.cause, TaskFailedCause::Stuck);
            let text = trouble.failure.to_string();
            assert!(text.contains("blocked.rs:"), "{text}");
            let reported = lines.lock().expect("nobody panics with it").clone();
            assert!(reported.contains(&text), "{reported}");
            assert_eq!(app.run(quick, ()).await.expect("it ends"), 3);
            // Nobody gives it another slice before its thread is back.
            run.describe().await.expect("it is there");
            GATE.crowd(1).await;
            GATE.open();
            assert_eq!(run.result().await.expect("it ends"), 3);
            sound(&run, hangs).await;
        });
    }
}

mod many {
    use super::*;

    static GATE: Gate = Gate::new();

    #[workflow]
    async fn hangs(ctx: Ctx) -> Result<u64> {
        GATE.pass();
        Ok(ctx.run(add, 1).await?)
    }

    #[test]
    fn more_stuck_runs_than_spare_threads_do_not_stop_the_others() {
        drive(async {
            let settings = Settings {
                spare_threads: 1,
                ..strict()
            };
            let env = TestEnv::new()
                .expect_stuck_code()
                .activity(add)
                .workflow(hangs)
                .workflow(quick);
            let app = env.report(|_| ()).settings(settings).start().await;
            let mut stuck = Vec::new();
            for _ in 0..4 {
                let run = app.start(hangs, ()).await.expect("it starts");
                until(&run, |d| d.trouble.is_some()).await;
                assert_eq!(app.run(quick, ()).await.expect("it ends"), 3);
                stuck.push(run);
            }
            GATE.crowd(4).await;
            GATE.open();
            for run in stuck {
                assert_eq!(run.result().await.expect("it ends"), 2);
                sound(&run, hangs).await;
            }
        });
    }
}

mod shards {
    use super::*;

    static GATE: Gate = Gate::new();

    #[workflow]
    async fn hangs(ctx: Ctx) -> Result<u64> {
        GATE.pass();
        Ok(ctx.run(add, 1).await?)
    }

    #[workflow]
    async fn nimble(ctx: Ctx) -> Result<u64> {
        Ok(ctx.run(add, 1).await?)
    }

    #[test]
    fn every_shard_gets_its_spare_thread() {
        drive(async {
            let place = tempfile::tempdir().expect("a directory");
            let builder = Outlast::sqlite(place.path().join("runs.db"));
            let builder = builder.activity(add).workflow(hangs).workflow(nimble);
            let settings = Settings {
                spare_threads: 4,
                ..patient()
            };
            let builder = builder.shards(2).settings(settings);
            let app = builder.report(|_| ()).start().await.expect("it starts");
            let mut blocked = Vec::new();
            // Enough for both shards to have one.
            for n in 0..4 {
                let id = format!("blocked-{n}");
                blocked.push(app.start(hangs, ()).id(id).await.expect("it starts"));
                GATE.crowd(n + 1).await;
                for m in 0..8 {
                    let id = format!("nimble-{n}-{m}");
                    assert_eq!(app.run(nimble, ()).id(id).await.expect("it ends"), 2);
                }
            }
            GATE.open();
            for run in blocked {
                assert_eq!(run.result().await.expect("it ends"), 2);
            }
            app.shutdown().await;
        });
    }
}

mod messages {
    use super::*;

    static GATE: Gate = Gate::new();

    #[workflow]
    async fn listens(ctx: Ctx) -> Result<Vec<u64>> {
        ctx.run(add, 1).await?;
        GATE.pass();
        let mut all = Vec::new();
        while all.len() < 3 {
            all.push(ctx.recv(GO).await?);
        }
        Ok(all)
    }

    #[test]
    fn a_blocked_workflow_still_takes_and_keeps_messages() {
        drive(async {
            let env = TestEnv::new()
                .expect_stuck_code()
                .activity(add)
                .workflow(listens);
            let app = env.settings(patient()).start().await;
            let run = app.start(listens, ()).await.expect("it starts");
            GATE.crowd(1).await;
            for n in [1, 2, 3] {
                let sent = run.send(GO, n).request_id(format!("r{n}"));
                sent.await.expect("it is durable");
            }
            run.send(GO, 2)
                .request_id("r2")
                .await
                .expect("it had its effect");
            GATE.open();
            assert_eq!(run.result().await.expect("it ends"), [1, 2, 3]);
            sound(&run, listens).await;
        });
    }
}

mod closing {
    use super::*;

    static GATE: Gate = Gate::new();

    #[workflow]
    async fn deaf(ctx: Ctx) -> Result<u64> {
        let n = ctx.run(add, 1).await?;
        GATE.pass();
        Ok(n)
    }

    #[test]
    fn an_acknowledged_message_sends_a_closing_run_round_again() {
        drive(async {
            let env = TestEnv::new()
                .expect_stuck_code()
                .activity(add)
                .workflow(deaf);
            let app = env.settings(patient()).start().await;
            let run = app.start(deaf, ()).await.expect("it starts");
            GATE.crowd(1).await;
            run.send(GO, 40).await.expect("it is durable");
            GATE.open();
            assert_eq!(run.result().await.expect("it ends"), 2);
            let history = names(&sound(&run, deaf).await);
            let at = |name: &str| history.iter().position(|found| *found == name);
            assert!(at("WorkflowExecutionSignaled") < at("WorkflowExecutionCompleted"));
            assert!(at("WorkflowTaskFailed").is_some(), "{history:?}");
        });
    }

    #[test]
    fn terminate_does_not_wait_for_blocked_code() {
        drive(async {
            static CLOSED: Gate = Gate::new();
            #[workflow]
            async fn never(ctx: Ctx) -> Result<u64> {
                let n = ctx.run(add, 1).await?;
                CLOSED.pass();
                Ok(n)
            }
            let env = TestEnv::new()
                .expect_stuck_code()
                .activity(add)
                .workflow(never);
            let app = env.settings(patient()).start().await;
            let run = app.start(never, ()).await.expect("it starts");
            CLOSED.crowd(1).await;
            run.terminate("enough").await.expect("it is durable");
            assert!(matches!(run.result().await, Err(CallError::Terminated(_))));
            sound(&run, never).await;
            CLOSED.open();
            app.shutdown().await;
        });
    }
}

mod patience {
    use super::*;

    static GATE: Gate = Gate::new();

    #[workflow]
    async fn heavy(ctx: Ctx) -> Result<u64> {
        let n = ctx.run(add, 1).await?;
        GATE.pass();
        Ok(n)
    }

    #[workflow]
    async fn light(ctx: Ctx) -> Result<u64> {
        let n = ctx.run(add, 1).await?;
        GATE.pass();
        Ok(n)
    }

    #[test]
    fn a_workflow_type_has_a_patience_of_its_own() {
        drive(async {
            let place = tempfile::tempdir().expect("a directory");
            let builder = Outlast::sqlite(place.path().join("runs.db")).activity(add);
            let builder = builder.workflow(heavy).workflow(light).settings(strict());
            let builder = builder.patience(heavy, Duration::ZERO).report(|_| ());
            let app = builder.start().await.expect("it starts");
            let patient = app.start(heavy, ()).await.expect("it starts");
            GATE.crowd(1).await;
            // The one that came later is given up first.
            let strict = app.start(light, ()).await.expect("it starts");
            until(&strict, |d| d.trouble.is_some()).await;
            let found = patient.describe().await.expect("it is there");
            assert!(found.trouble.is_none(), "{:?}", found.trouble);
            GATE.open();
            assert_eq!(patient.result().await.expect("it ends"), 2);
            assert_eq!(strict.result().await.expect("it ends"), 2);
            app.shutdown().await;
        });
    }
}

mod again {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    static GATE: Gate = Gate::new();
    static IS_MENDED: AtomicBool = AtomicBool::new(false);

    #[workflow]
    async fn hangs(ctx: Ctx) -> Result<u64> {
        let n = ctx.run(add, 1).await?;
        if !IS_MENDED.load(Ordering::SeqCst) {
            GATE.pass();
        }
        Ok(n)
    }

    #[test]
    fn a_stuck_run_tries_again_when_it_is_asked_to_or_in_a_new_process() {
        drive(async {
            let place = tempfile::tempdir().expect("a directory");
            let open = async || {
                let settings = Settings {
                    shutdown_evictions: Duration::from_millis(1),
                    ..strict()
                };
                let builder = Outlast::sqlite(place.path().join("runs.db"));
                let builder = builder.activity(add).workflow(hangs);
                let builder = builder.settings(settings).report(|_| ());
                builder.start().await.expect("nobody has it")
            };
            let app = open().await;
            for id in ["a", "b"] {
                let run = app.start(hangs, ()).id(id).await.expect("it starts");
                until(&run, |d| d.trouble.is_some()).await;
            }
            GATE.crowd(2).await;
            IS_MENDED.store(true, Ordering::SeqCst);
            let asked = app.get(hangs, "a");
            asked.retry().await.expect("it is durable");
            assert_eq!(asked.result().await.expect("it ends"), 2);
            let stopped = app.shutdown().await;
            assert_eq!(stopped.left_behind.len(), 2, "{stopped:?}");
            drop((app, asked));
            let app = open().await;
            let run = app.get(hangs, "b");
            assert_eq!(run.result().await.expect("it ends"), 2);
            GATE.open();
            app.shutdown().await;
        });
    }
}
