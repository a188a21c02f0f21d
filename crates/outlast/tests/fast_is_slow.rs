//! The fast path and the slow path are one: whatever the program and whatever happens to it, the
//! history is the same, be it written with one commit a stimulus, with the slice behind it, or
//! with code that is rebuilt for every slice.

mod sim;

use std::sync::Arc;
use std::time::Duration;

use outlast_engine::Input;
use outlast_model::start::{ConflictPolicy, ReusePolicy, StartRequest};
use outlast_model::task::{AttemptOutcome, AttemptResult};
use outlast_model::view::RunRef;
use outlast_model::{Event, Failure, RunId, Timestamp};
use outlast_runtime::Unwatched;
use outlast_service::mail::Mail;
use outlast_service::outlet::Outlet;
use outlast_service::shard::{Driver, Turn};
use outlast_service::store::Store;

use sim::disk::Disk;
use sim::ledger::Desk;
use sim::plan::{Plan, Variety};
use sim::process::{FLOW, Process, QUEUE, Shape};
use sim::program::encoded;
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
    signals: u64,
    commits: u64,
}

impl Bench {
    fn new(seed: u64, path: Path) -> Self {
        let mut rng = Rng::new(seed);
        let disk = Arc::new(Disk::new());
        let world = World::new(disk.clone(), Desk::new(disk.clone()));
        let shape = Shape {
            cached_runs: if path == Path::Uncached { 0 } else { 10 },
            ..Shape::random(&mut rng)
        };
        let process = Process::boot(0, shape, &disk, &world);
        Self {
            rng,
            path,
            disk,
            world,
            process,
            now: Timestamp(1_700_000_000_000_000),
            signals: 0,
            commits: 0,
        }
    }

    /// The history of the run, from its start to its end.
    fn history(mut self) -> (Vec<Event>, u64) {
        let plan = Plan::random(&mut self.rng, Variety::Full);
        self.start(&plan);
        for _ in 0..ROUNDS {
            self.settle();
            let row = self.disk.rows().pop().expect("the run is there");
            if !row.state.status.is_open() {
                return (self.disk.history(row.no), self.commits);
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
            parent: None,
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

    /// Everything that can happen without the outside happens, and is durable.
    fn settle(&mut self) {
        loop {
            let has_turned = self.turn();
            let is_written = !self.process.take_batch();
            self.commit();
            if !has_turned && is_written {
                return;
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
            batch.release(&*self.process.ramp);
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
            5..=7 => self.signal(),
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
        self.process.ramp.return_slot(token.kind);
        self.accept(Mail::Outcomes(vec![AttemptOutcome { token, result }]));
    }

    fn signal(&mut self) {
        self.signals += 1;
        let input = Input::Signal {
            name: self.rng.pick(&["a", "b", "log", "work"]).into(),
            input: encoded(&self.signals),
            request_id: None,
        };
        self.message(input);
    }

    fn cancel(&mut self) {
        self.message(Input::Cancel {
            reason: "enough".into(),
            request_id: None,
        });
    }

    fn message(&mut self, input: Input) {
        self.accept(Mail::Message {
            run: RunRef::newest(ID.into()),
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
    for seed in 0..seeds {
        let (fast, fewer) = Bench::new(seed, Path::Fast).history();
        for path in [Path::Slow, Path::Uncached] {
            let (other, more) = Bench::new(seed, path).history();
            assert!(fewer <= more, "seed {seed}: {path:?} needs fewer commits");
            let place = fast.iter().zip(&other).position(|(a, b)| a != b);
            let (a, b) = (place.map(|i| &fast[i]), place.map(|i| &other[i]));
            assert!(
                fast == other,
                "seed {seed}: {path:?} differs at {a:?} and {b:?}\nfast {fast:#?}\nother {other:#?}"
            );
        }
    }
}
