//! Several task queues in one application: each with code, slots and settings of its own.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use outlast::event::EvictCause;
use outlast::prelude::*;
use outlast::{
    Ask, Config, Outlast, Permit, Settings, Severity, SlotKind, SlotSupplier, WorkerEvent,
};
use outlast_service::memory::MemoryStore;

use super::support::{code, drive, failure, on, sound, until};

#[activity]
async fn add(n: u64) -> Result<u64> {
    Ok(n + 1)
}

#[activity]
async fn render(n: u64) -> Result<u64> {
    Ok(n * 10)
}

/// Runs until it is told to stop.
#[activity]
async fn hog(ctx: ActivityCtx) -> Result<()> {
    Err(ctx.cancelled().await.into())
}

#[workflow]
async fn film(ctx: Ctx, n: u64) -> Result<u64> {
    Ok(ctx.run(render, n).await?)
}

#[workflow]
async fn order(ctx: Ctx, n: u64) -> Result<u64> {
    let n = ctx.run(add, n).await?;
    let n = ctx.run(render, n).queue("gpu").await?;
    let film = ctx.child(film, n).queue("gpu").await?;
    Ok(film)
}

#[test]
fn calls_and_children_go_to_the_queue_they_name_and_stay_there() {
    drive(async {
        let env = TestEnv::new()
            .activity(add)
            .workflow(order)
            .queue("gpu", |q| q.activity(render).workflow(film));
        let app = env.start().await;
        let run = app.start(order, 1).await.expect("it starts");
        assert_eq!(run.result().await.expect("it ends"), 200);
        sound(&run, order).await;
        let film = app.start(film, 3).queue("gpu").await.expect("it starts");
        assert_eq!(film.result().await.expect("it ends"), 30);
    });
}

#[test]
fn code_of_one_queue_is_not_served_on_another() {
    drive(async {
        let env = TestEnv::new()
            .workflow(film)
            .queue("gpu", |q| q.activity(render));
        let app = env.start().await;
        // The activity goes to the queue of its workflow, where nobody has it.
        let run = app.start(film, 1).await.expect("it starts");
        let found = until(&run, |d| d.trouble.is_some()).await;
        let text = found.trouble.expect("it waits").failure.to_string();
        assert!(
            text.contains("add .activity(render) to the builder"),
            "{text}"
        );
        // The workflow is not known there.
        let refused = app.start(film, 1).queue("gpu").await;
        assert_eq!(code(refused.map(|_| ())), "OL-1003");
    });
}

#[test]
fn work_of_a_queue_that_nobody_serves_waits_until_somebody_does() {
    drive(async {
        let store = MemoryStore::new();
        let app = on(&store).activity(add).workflow(order).start().await;
        let run = app.start(order, 1).id("a").await.expect("it starts");
        let found = until(&run, |d| d.trouble.is_some()).await;
        let text = found.trouble.expect("it waits").failure.to_string();
        assert!(
            text.contains("no worker here serves task queue gpu"),
            "{text}"
        );
        assert!(
            text.contains(".queue(\"gpu\", |q| q.activity(render))"),
            "{text}"
        );
        app.shutdown().await;
        drop(app);
        let env = on(&store).activity(add).workflow(order);
        let app = env
            .queue("gpu", |q| q.activity(render).workflow(film))
            .start()
            .await;
        let run = app.get(order, "a");
        assert_eq!(run.result().await.expect("it ends"), 200);
    });
}

#[workflow]
async fn busy(ctx: Ctx) -> Result<u64> {
    let hogs: Vec<_> = (0..3).map(|_| ctx.run(hog, ()).queue("gpu")).collect();
    let late = ctx.run(render, 1).queue("gpu");
    let mut all = 0;
    for n in 0..20 {
        all += ctx.run(add, n).await?;
    }
    drop(hogs);
    Ok(all + late.await?)
}

#[test]
fn a_queue_that_is_full_never_holds_up_another() {
    drive(async {
        let env = TestEnv::new().activity(add).workflow(busy);
        let env = env.queue("gpu", |q| q.activity(hog).activity(render).slots(2));
        let app = env.start().await;
        let run = app.start(busy, ()).await.expect("it starts");
        // Two hogs run, the third and what comes behind it wait; the rest goes on meanwhile.
        assert_eq!(run.result().await.expect("it ends"), 220);
    });
}

/// Writes down who ran.
#[activity]
async fn note(State(order): State<Arc<Mutex<Vec<String>>>>, name: String) -> Result<()> {
    order.lock().expect("nobody panics with it").push(name);
    Ok(())
}

#[workflow]
async fn noting(ctx: Ctx, name: String) -> Result<()> {
    ctx.run(note, name).await?;
    Ok(())
}

#[workflow]
async fn crowd(ctx: Ctx) -> Result<()> {
    let hog = ctx.run(hog, ()).priority(1);
    let call = |name: &str, key| ctx.run(note, name.to_owned()).priority(key);
    let calls = [
        call("late", 5),
        call("four", 4),
        call("soon", 1),
        call("three", 3),
        call("also soon", 1),
    ];
    let usual = ctx.run(note, "usual".to_owned());
    let also = call("three again", 3);
    let child = ctx.child(noting, "child".to_owned());
    let child = child.id("urgent").priority(2);
    ctx.sleep(1.mins()).await?;
    drop(hog);
    futures::future::try_join_all(calls).await?;
    futures::try_join!(usual, also)?;
    Ok(child.await?)
}

#[test]
fn the_urgent_get_the_slot_first_and_children_hand_it_down() {
    drive(async {
        let order = Arc::new(Mutex::new(Vec::<String>::new()));
        let env = TestEnv::new().state(order.clone());
        let env = env.activity(note).activity(hog).workflow(crowd);
        let env = env.workflow(noting).queue("default", |q| q.slots(1));
        let clock = env.clock();
        let app = env.start().await;
        let run = app.start(crowd, ()).await.expect("it starts");
        let child = app.get(noting, "urgent");
        while child.describe().await.is_err() {
            tokio::task::yield_now().await;
        }
        until(&child, |d| !d.waiting.is_empty()).await;
        clock.advance(&app, 1.mins());
        run.result().await.expect("it ends");
        let order = order.lock().expect("nobody panics with it").clone();
        let urgent = ["soon", "also soon", "child"];
        assert_eq!(order[..3], urgent);
        assert_eq!(order[3..6], ["three", "usual", "three again"], "3 without");
        assert_eq!(order[6..], ["four", "late"]);
        let events = child.history().await.expect("it is there");
        let recorded = events.into_iter().find_map(|event| {
            let outlast::model::EventKind::ActivityScheduled(scheduled) = event.kind else {
                return None;
            };
            scheduled.options.priority
        });
        assert_eq!(recorded, Some(outlast::Priority::new(2)));
        sound(&run, crowd).await;
    });
}

#[workflow]
async fn hogging(ctx: Ctx) -> Result<()> {
    let hog = ctx.run(hog, ());
    ctx.sleep(1.mins()).await?;
    drop(hog);
    Ok(())
}

#[test]
fn a_start_says_how_urgent_a_run_is_and_what_it_calls() {
    drive(async {
        let order = Arc::new(Mutex::new(Vec::<String>::new()));
        let env = TestEnv::new().state(order.clone());
        let env = env.activity(note).activity(hog).workflow(hogging);
        let env = env.workflow(noting).queue("default", |q| q.slots(1));
        let clock = env.clock();
        let app = env.start().await;
        let hog = app.start(hogging, ()).await.expect("it starts");
        while app.worker_state().is_none_or(|state| state.attempts == 0) {
            tokio::task::yield_now().await;
        }
        let mut runs = Vec::new();
        for (name, key) in [("late", 5), ("usual", 3), ("soon", 1)] {
            let start = app.start(noting, name.to_owned()).priority(key);
            let run = start.await.expect("it starts");
            until(&run, |d| !d.waiting.is_empty()).await;
            runs.push(run);
        }
        clock.advance(&app, 1.mins());
        hog.result().await.expect("it ends");
        for run in &runs {
            run.result().await.expect("it ends");
            sound(run, noting).await;
        }
        let order = order.lock().expect("nobody panics with it").clone();
        assert_eq!(order, ["soon", "usual", "late"]);
    });
}

async fn refusal(builder: outlast::Builder) -> String {
    let started = builder.start().await.map(|_| ());
    started.expect_err("it does not start").to_string()
}

fn builder() -> outlast::Builder {
    Outlast::sqlite(":memory:")
}

#[test]
fn one_name_twice_on_one_queue_is_an_error_and_on_two_it_is_not() {
    drive(async {
        let twice = builder().queue("gpu", |q| q.activity(render).activity(render));
        let text = refusal(twice).await;
        assert!(
            text.contains("two activity registrations of queue gpu"),
            "{text}"
        );
        assert!(text.contains("queues.rs:"), "{text}");
        let env = TestEnv::new().activity(render).workflow(film);
        let env = env.queue("gpu", |q| q.activity(render));
        let app = env.queue("gpu", |q| q.workflow(film)).start().await;
        for queue in ["default", "gpu"] {
            let run = app.start(film, 2).queue(queue).await.expect("it starts");
            assert_eq!(run.result().await.expect("it ends"), 20, "{queue}");
        }
    });
}

#[test]
fn settings_that_cannot_work_are_refused_by_key_and_queue() {
    drive(async {
        let text = refusal(builder().queue("gpu", |q| q.slots(0))).await;
        assert!(text.contains("settings of queue gpu"), "{text}");
        assert!(text.contains("worker.activity_slots cannot be 0"), "{text}");
        let own = builder().queue("gpu", |q| {
            q.settings(|s| s.shutdown_grace = Duration::from_secs(1))
        });
        let text = refusal(own).await;
        let wrong = "queue gpu cannot have a shutdown.grace of its own";
        assert!(text.contains(wrong), "{text}");
        let long = Settings {
            shutdown_grace: Duration::from_secs(600),
            ..Settings::default()
        };
        let text = refusal(builder().settings(long)).await;
        assert!(text.contains("shutdown.hard_stop cannot be 1m"), "{text}");
    });
}

#[test]
fn file_environment_and_command_line_reach_the_queues_of_an_application() {
    drive(async {
        let variable = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let config = Config::new().env([
            variable("OUTLAST_WORKER_ACTIVITY_SLOTS", "5"),
            variable("OUTLAST_QUEUE_GPU__ACTIVITY_SLOTS", "2"),
        ]);
        let config = config.and_then(|config| config.set("queue.gpu.step_slots=3"));
        let file = "[worker]\nworkflow_slots = 9\nactivity_slots = 8\n";
        let from_file = Config::new().toml(Path::new("outlast.toml"), file);
        let builders = [
            (from_file.expect("it reads"), [(8, 200), (8, 200)]),
            (config.expect("it reads"), [(5, 200), (2, 3)]),
        ];
        for (config, expected) in builders {
            let place = tempfile::tempdir().expect("a directory");
            let builder = Outlast::sqlite(place.path().join("runs.db"));
            let builder = builder.config(config).activity(add);
            let builder = builder.queue("gpu", |q| q.activity(render));
            let app = builder.start().await.expect("it opens");
            let state = app.worker_state().expect("there is a worker");
            let slots = |queue: &str, kind: &str| {
                let mut all = state.slots.iter();
                let of = all.find(|slots| slots.queue.as_str() == queue && slots.kind == kind);
                of.and_then(|slots| slots.slots)
            };
            for (queue, (activities, steps)) in ["default", "gpu"].into_iter().zip(expected) {
                let found = (slots(queue, "activity"), slots(queue, "step"));
                assert_eq!(found, (Some(activities), Some(steps)), "{queue}");
            }
            app.shutdown().await;
        }
        let wrong = Config::new().env([variable("OUTLAST_SHUTDOWN_GRACE", "10m")]);
        let text = refusal(builder().config(wrong.expect("it reads"))).await;
        assert!(text.contains("shutdown.hard_stop cannot be 1m"), "{text}");
    });
}

/// Slices of [`slices`] at work now and the most at a time, by how many there may be.
static SLICES: [[AtomicU32; 2]; 2] = [const { [const { AtomicU32::new(0) }; 2] }; 2];

/// How often a slice looks for a second one beside it.
const LOOKS: u32 = 20_000;

#[workflow]
async fn slices(ctx: Ctx, slots: u64) -> Result<()> {
    let [now, most] = &SLICES[usize::try_from(slots - 1).unwrap_or(0)];
    for n in 0..3 {
        let inside = now.fetch_add(1, Ordering::SeqCst) + 1;
        most.fetch_max(inside, Ordering::SeqCst);
        for _ in 0..LOOKS {
            if most.load(Ordering::SeqCst) > 1 {
                break;
            }
            std::thread::yield_now();
        }
        now.fetch_sub(1, Ordering::SeqCst);
        ctx.run(add, n).await?;
    }
    Ok(())
}

#[test]
fn as_many_slices_run_as_a_queue_has_slots_and_no_more() {
    drive(async {
        let place = tempfile::tempdir().expect("a directory");
        let settings = Settings {
            // However busy the machine is, nobody takes a shard over.
            fast_slice: Duration::from_secs(3_600),
            deadlock_timeout: Duration::ZERO,
            ..Settings::default()
        };
        let builder = Outlast::sqlite(place.path().join("runs.db")).shards(3);
        let mut builder = builder.settings(settings);
        for slots in [1, 2] {
            builder = builder.queue(&format!("slots-{slots}"), |q| {
                let q = q.activity(add).workflow(slices);
                q.settings(move |s| s.workflow_slots = slots)
            });
        }
        let app = builder.start().await.expect("it opens");
        for slots in [1, 2] {
            let mut runs = Vec::new();
            for _ in 0..6 {
                let start = app.start(slices, slots).queue(format!("slots-{slots}"));
                runs.push(start.await.expect("it starts"));
            }
            for run in runs {
                run.result().await.expect("it ends");
            }
        }
        let most = SLICES
            .each_ref()
            .map(|[_, most]| most.load(Ordering::SeqCst));
        assert_eq!(most, [1, 2]);
        app.shutdown().await;
    });
}

/// Panics as often as it says, and then grants.
struct Moody(AtomicU32);

impl SlotSupplier for Moody {
    fn take(&self, _: &Ask<'_>) -> Permit {
        let left = self.0.load(Ordering::SeqCst);
        if left == 0 {
            return Permit::Taken;
        }
        self.0.store(left - 1, Ordering::SeqCst);
        assert_eq!(left % 2, 0, "not in the mood");
        Permit::Later(Duration::from_millis(1))
    }

    fn give(&self, _: &Ask<'_>) {}
}

#[test]
fn a_supplier_that_panics_or_hesitates_is_asked_again_and_costs_nobody_else() {
    drive(async {
        let reports = Arc::new(Mutex::new(Vec::new()));
        let heard = reports.clone();
        let env = TestEnv::new().activity(add).workflow(order).real_time();
        let env =
            env.report(move |text| heard.lock().expect("one at a time").push(text.to_owned()));
        let env = env.queue("gpu", |q| {
            let q = q.activity(render).workflow(film);
            let q = q.slot_supplier(SlotKind::Activity, Moody(AtomicU32::new(3)));
            q.slot_supplier(SlotKind::Workflow, Moody(AtomicU32::new(2)))
        });
        let app = env.start().await;
        let run = app.start(order, 1).await.expect("it starts");
        assert_eq!(run.result().await.expect("it ends"), 200);
        let reports = reports.lock().expect("nobody panics with it").join("\n");
        assert!(reports.contains("slot supplier"), "{reports}");
        assert!(reports.contains("not in the mood"), "{reports}");
    });
}

#[workflow]
async fn nap(ctx: Ctx) -> Result<()> {
    ctx.sleep(1.hours()).await?;
    Ok(())
}

#[test]
fn a_supplier_that_hesitated_keeps_nobody_awake() {
    drive(async {
        let env = TestEnv::new().activity(render).workflow(nap);
        let env = env.queue("gpu", |q| {
            let q = q.activity(render).workflow(film);
            q.slot_supplier(SlotKind::Activity, Moody(AtomicU32::new(2)))
        });
        let app = env.report(|_| ()).start().await;
        let film = app.start(film, 3).queue("gpu").await.expect("it starts");
        assert_eq!(film.result().await.expect("it ends"), 30);
        // Time goes on only when there is nothing left to ask for.
        app.run(nap, ()).await.expect("it ends");
    });
}

#[test]
fn whoever_listens_hears_which_instance_leaves_memory_and_why() {
    drive(async {
        let env = TestEnv::new().workflow(nap);
        let env = env.queue("small", |q| q.workflow(nap).settings(|s| s.cached_runs = 1));
        let env = env.queue("light", |q| {
            q.workflow(nap).settings(|s| s.cached_bytes = 1)
        });
        let app = env.start().await;
        let mut events = app.events(Severity::Debug);
        let mut causes = Vec::new();
        for queue in ["default", "small", "small", "light"] {
            let run = app.start(nap, ()).queue(queue).await.expect("it starts");
            until(&run, |d| !d.waiting.is_empty()).await;
            if queue == "default" {
                run.result().await.expect("it ends");
            }
        }
        while causes.len() < 3 {
            if let WorkerEvent::Evicted { queue, cause, .. } = &*events.next().await.expect("more")
            {
                causes.push((queue.as_str().to_owned(), *cause));
            }
        }
        let expected = [
            ("default".to_owned(), EvictCause::Closed),
            ("small".to_owned(), EvictCause::Runs),
            ("light".to_owned(), EvictCause::Bytes),
        ];
        assert_eq!(causes, expected);
    });
}

#[test]
fn a_start_on_a_queue_without_its_code_names_what_is_missing() {
    drive(async {
        let app = TestEnv::new()
            .queue("gpu", |q| q.activity(render))
            .start()
            .await;
        let refused = app.start(film, 1).queue("gpu").await.map(|_| ());
        let text = failure(refused);
        assert!(text.contains("film"), "{text}");
    });
}
