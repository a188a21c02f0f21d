//! The fast path and the slow path are one: whatever the program and whatever happens to it, the
//! history is the same, be it written with one commit a stimulus, with the slice behind it, or
//! with code that is rebuilt for every slice. So are those of its children and successors.
//!
//! Two differences are meant: the slow path writes an update before its code has judged it, and
//! the task of a slice that only turned updates away.

mod sim;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use outlast_engine::Input;
use outlast_model::event::{ChildEvent, UpdateRequest};
use outlast_model::promise::Settlement;
use outlast_model::start::{ConflictPolicy, ReusePolicy, StartRequest, UpdateStage};
use outlast_model::task::{AttemptOutcome, AttemptResult, PROMISE_SIGNAL, promise_request};
use outlast_model::view::RunRef;
use outlast_model::{EventKind, Failure, Headers, RunId, Timestamp, WorkflowId};
use outlast_runtime::Unwatched;
use outlast_service::mail::Mail;
use outlast_service::shard::{Driver, Turn};
use outlast_service::store::Store;

use sim::answer::update_id;
use sim::disk::Disk;
use sim::ledger::Desk;
use sim::normal::{Entry, normal};
use sim::plan::{Plan, Variety};
use sim::process::{FLOW, Process, QUEUE, Shape};
use sim::program::{encoded, promise_id};
use sim::rng::Rng;
use sim::world::{Running, World};

/// How slices reach the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Path {
    /// With their stimulus.
    Fast,
    /// Behind it.
    Slow,
    /// Behind it, rebuilt by replay.
    Uncached,
}

/// What each run says, by workflow and run.
type Histories = BTreeMap<(WorkflowId, RunId), Vec<Entry>>;

const ID: &str = "w";
const ROUNDS: u32 = 300;

/// One run, driven by the seed alone: every decision depends on what has happened, never on how
/// it was written.
struct Bench {
    rng: Rng,
    path: Path,
    disk: Arc<Disk>,
    world: World,
    process: Process,
    now: Timestamp,
    plan: Plan,
    signals: u64,
    commits: u64,
}

impl Bench {
    fn new(seed: u64, path: Path) -> Self {
        let mut rng = Rng::new(seed);
        let disk = Arc::new(Disk::new());
        let world = World::new(disk.clone(), Desk::new(disk.clone()));
        let plan = Plan::random(&mut rng, Variety::Family);
        let random = Shape::random(&mut rng);
        // Runs that compete for slots get them as they come.
        let slots = if seed.is_multiple_of(2) {
            random.activity_slots
        } else {
            100
        };
        let is_alone = seed.is_multiple_of(2);
        let shape = Shape {
            cached_runs: if path == Path::Uncached { 0 } else { 100 },
            activity_slots: slots,
            step_slots: slots,
            ..random
        };
        let plan = if is_alone { plan.alone() } else { plan };
        let process = Process::boot(0, shape, &disk, &world);
        Self {
            rng,
            path,
            disk,
            world,
            process,
            now: Timestamp(1_700_000_000_000_000),
            plan,
            signals: 0,
            commits: 0,
        }
    }

    /// The histories of all runs, from the start of the first to the end of the last.
    fn histories(mut self) -> (Histories, u64) {
        let plan = self.plan.clone();
        self.start(&plan);
        for _ in 0..ROUNDS {
            self.settle();
            let rows = self.disk.rows();
            if rows.iter().all(|row| !row.state.status.is_open()) {
                let all = rows.iter().map(|row| {
                    let history = normal(self.disk.history(row.no));
                    ((row.workflow_id.clone(), row.run_id), history)
                });
                return (all.collect(), self.commits);
            }
            for _ in 0..self.rng.range(1, 3) {
                self.stimulus();
            }
        }
        panic!("{:?} does not end: {plan:?}", self.path);
    }

    fn start(&mut self, plan: &Plan) {
        let request = StartRequest {
            workflow_id: ID.into(),
            run_id: RunId(7),
            workflow_type: FLOW.into(),
            queue: QUEUE.into(),
            input: encoded(plan),
            request_id: None,
            conflict: ConflictPolicy::Fail,
            reuse: ReusePolicy::AllowDuplicate,
            run_timeout: None,
            task_timeout: None,
            priority: None,
            parent: None,
            headers: Headers::new(),
        };
        self.accept(Mail::Start {
            request: Box::new(request),
            reply: Box::new(|_| {}),
            wait: None,
            with: None,
        });
    }

    fn accept(&mut self, mail: Mail) {
        let now = self.now;
        self.process.shard.accept(mail, now, &self.process.store);
    }

    /// Everything that can happen without the outside happens, and is durable. What runs say to
    /// each other waits until all are at rest, so that none overtakes another by its path.
    fn settle(&mut self) {
        loop {
            let has_turned = self.turn();
            let is_written = !self.process.take_batch();
            self.commit();
            if has_turned || !is_written {
                continue;
            }
            let ways = std::mem::take(&mut self.process.ways);
            if ways.is_empty() {
                return;
            }
            for letter in ways.into_letters() {
                self.accept(letter.into_mail());
            }
        }
    }

    fn turn(&mut self) -> bool {
        let now = self.now;
        match self.process.shard.next(now, &self.process.store) {
            None => false,
            Some(Turn::Evict(run_id)) => {
                self.process.slices.evict(run_id);
                true
            }
            Some(Turn::Task(task)) => {
                if self.path != Path::Fast {
                    self.process.shard.go_slow(task.token, now);
                    self.process.take_batch();
                    self.commit();
                }
                let done = self.process.slices.run(&task, &Unwatched);
                let shard = &mut self.process.shard;
                shard.complete(task.token, done.answer, Driver::Current, now);
                for run_id in done.evicted {
                    self.process.shard.evicted(run_id);
                }
                true
            }
        }
    }

    fn commit(&mut self) {
        while let Some(batch) = self.process.parcels.pop_front() {
            if !batch.commits.is_empty() {
                self.process.store.commit(&batch.commits).expect("memory");
                self.commits += batch.commits.len() as u64;
            }
            if let Some(last) = batch.last() {
                let durable = self.process.shard.durable();
                durable.fetch_max(last.0, std::sync::atomic::Ordering::AcqRel);
            }
            self.process.release(batch);
        }
    }

    fn stimulus(&mut self) {
        let mut running = self.world.running();
        running.sort_by_key(|running| running.token);
        match self.rng.below(10) {
            0..=4 if !running.is_empty() => {
                let index = self.rng.index(running.len());
                self.attempt_ends(&running[index]);
            }
            5 | 6 => self.signal(),
            7 => self.update(),
            8 if self.rng.chance(10) => self.cancel(),
            _ => self.time_passes(),
        }
    }

    fn attempt_ends(&mut self, running: &Running) {
        let token = running.token;
        let result = match self.rng.below(8) {
            0..=4 => AttemptResult::Completed(encoded(&format!("{}/{}", token.seq, token.attempt))),
            5 | 6 => AttemptResult::Failed(Failure::application("sim.Flaky", "it failed")),
            _ => AttemptResult::Canceled(None),
        };
        self.world.remove(token);
        self.process.ramp.ended(token.kind);
        self.accept(Mail::Outcomes(vec![AttemptOutcome { token, result }]));
    }

    fn signal(&mut self) {
        self.signals += 1;
        let input = Input::Signal {
            name: self.rng.pick(&["a", "b", "log", "work"]).into(),
            input: encoded(&self.signals),
            request_id: None,
            headers: Headers::new(),
        };
        self.message(input);
        if self.rng.chance(20) {
            self.settle_promise();
        }
    }

    fn update(&mut self) {
        self.signals += 1;
        let value = self.signals;
        let name = self.rng.pick(&["set", "slow", "sure", "none"]);
        let run = self.somebody();
        self.accept(Mail::Update {
            run,
            request: UpdateRequest {
                id: update_id(value),
                name: name.into(),
                input: encoded(&value),
                headers: Headers::new(),
            },
            stage: UpdateStage::Completed,
            reply: Box::new(|_| {}),
        });
    }

    /// The first run, or one of its children.
    fn somebody(&mut self) -> RunRef {
        let mut ids: Vec<WorkflowId> = self
            .disk
            .rows()
            .into_iter()
            .map(|r| r.workflow_id)
            .collect();
        ids.sort();
        ids.dedup();
        let index = self.rng.index(ids.len());
        RunRef::newest(ids[index].clone())
    }

    fn cancel(&mut self) {
        self.message(Input::Cancel {
            reason: "enough".into(),
            request_id: None,
        });
    }

    fn settle_promise(&mut self) {
        let id = promise_id(u8::from(self.rng.chance(50)));
        let settlement = Settlement {
            id: id.clone(),
            outcome: Ok(encoded(&self.signals)),
        };
        self.message(Input::Signal {
            name: PROMISE_SIGNAL.into(),
            input: settlement.encode().expect("plain data encodes"),
            request_id: Some(promise_request(&id)),
            headers: Headers::new(),
        });
    }

    fn message(&mut self, input: Input) {
        let run = self.somebody();
        self.accept(Mail::Message {
            run,
            input,
            reply: Box::new(|_| {}),
        });
    }

    fn time_passes(&mut self) {
        self.now = match self.process.due() {
            Some(due) if due > self.now => due,
            Some(_) | None => self.now.after(Duration::from_secs(1)),
        };
    }
}

#[test]
fn the_fast_path_writes_what_the_slow_path_writes() {
    let seeds = std::env::var("OUTLAST_SIM_SEEDS")
        .ok()
        .and_then(|text| text.parse::<u64>().ok())
        .map_or(2_000, |seeds| seeds / 5);
    let mut seen = [0_u32; 3];
    for seed in 0..seeds {
        let (fast, fewer) = Bench::new(seed, Path::Fast).histories();
        for path in [Path::Slow, Path::Uncached] {
            let (other, more) = Bench::new(seed, path).histories();
            assert!(fewer <= more, "seed {seed}: {path:?} needs fewer commits");
            let (a, b): (Vec<_>, Vec<_>) = (fast.keys().collect(), other.keys().collect());
            assert_eq!(a, b, "seed {seed}: {path:?} has other runs");
            for (id, history) in &fast {
                let place = history.iter().zip(&other[id]).position(|(a, b)| a != b);
                let (a, b) = (place.map(|i| &history[i]), place.map(|i| &other[id][i]));
                assert!(
                    *history == other[id],
                    "seed {seed}: {path:?} differs in {id:?} at {a:?} and {b:?}\nfast {history:#?}\nother {:#?}",
                    other[id]
                );
            }
        }
        let all = fast.values().flatten();
        for (_, kind) in all {
            seen[0] += u32::from(matches!(
                kind,
                EventKind::Child(ChildEvent::Completed { .. })
            ));
            seen[1] += u32::from(matches!(kind, EventKind::Update(_)));
            seen[2] += u32::from(matches!(kind, EventKind::ContinuedAsNew(_)));
        }
    }
    let is_rich = seen.iter().all(|count| *count > 0);
    assert!(
        seeds < 100 || is_rich,
        "children, updates, chains: {seen:?}"
    );
}
