//! The scheduler: one thing after another, chosen by the seed; first with faults, then without,
//! until everything has ended.

use std::sync::Arc;
use std::time::Duration;

use outlast_model::Timestamp;
use outlast_model::task::{AttemptKind, AttemptOutcome, AttemptResult, StopReason};
use outlast_model::{Failure, FailureKind};
use outlast_service::mail::Mail;
use outlast_service::shard::Turn;

use super::client::Clients;
use super::disk::Disk;
use super::due::Asked;
use super::ledger::Desk;
use super::process::{Process, Shape};
use super::program::{encoded, set_panics};
use super::rng::{Rng, hash};
use super::world::{Running, World};

/// Which faults this seed has: each kind is on in about half of the seeds, so that some have
/// few and go deep.
#[derive(Clone, Copy, Debug)]
pub struct Faults {
    pub crashes: bool,
    pub store: bool,
    pub clock: bool,
    pub threads: bool,
    pub panics: bool,
    pub zombies: bool,
    pub types: bool,
    pub workflows: usize,
    pub steps: u64,
}

impl Faults {
    fn random(rng: &mut Rng) -> Self {
        Self {
            crashes: rng.chance(60),
            store: rng.chance(40),
            clock: rng.chance(40),
            threads: rng.chance(50),
            panics: rng.chance(30),
            zombies: rng.chance(50),
            types: rng.chance(25),
            workflows: rng.range(1, 3) as usize,
            steps: rng.range(30, 300),
        }
    }
}

/// One simulated world.
#[derive(Debug)]
pub struct Simulation {
    pub seed: u64,
    pub rng: Rng,
    pub disk: Arc<Disk>,
    pub desk: Desk,
    pub world: World,
    pub process: Process,
    pub clients: Clients,
    pub faults: Faults,
    pub now: Timestamp,
    pub lives: u32,
    pub asked: Asked,
    pub hash: u64,
    is_told: bool,
}

/// What a seed came to.
#[derive(Clone, Debug)]
pub struct Report {
    /// Of everything that happened.
    pub hash: u64,
    pub markers: super::marker::Markers,
}

/// The first second of every simulation.
const BEGIN: Timestamp = Timestamp(1_700_000_000_000_000);
/// Rounds of the second phase after which a run counts as stuck.
const PATIENCE: u32 = 400;

impl Simulation {
    pub fn new(seed: u64, is_told: bool) -> Self {
        let mut rng = Rng::new(seed);
        let faults = Faults::random(&mut rng);
        let disk = Arc::new(Disk::new());
        let desk = Desk::new(disk.clone());
        let world = World::new(disk.clone(), desk.clone());
        let shape = Shape::random(&mut rng);
        let process = Process::boot(0, shape, &disk, &world);
        let mut simulation = Self {
            seed,
            rng,
            disk,
            desk,
            world,
            process,
            clients: Clients::default(),
            faults,
            now: BEGIN,
            lives: 0,
            asked: Asked::default(),
            hash: seed,
            is_told,
        };
        let (faults, shape) = (simulation.faults, simulation.process.shape);
        simulation.trace(&format!("{faults:?} {shape:?}"));
        simulation
    }

    /// Runs the seed to its end.
    ///
    /// # Errors
    /// The first thing that was wrong.
    pub fn run(mut self) -> Result<Report, String> {
        let panics = if self.faults.panics { 3 } else { 0 };
        set_panics(self.seed, panics);
        self.desk.lock().is_troubled = self.faults.panics || self.faults.threads;
        for _ in 0..self.faults.steps {
            self.act();
            self.judge()?;
        }
        set_panics(self.seed, 0);
        self.settle()?;
        self.check_all()?;
        self.hash_disk();
        let markers = self.desk.lock().markers.clone();
        Ok(Report {
            hash: self.hash,
            markers,
        })
    }

    /// Writes down what happens: part of the hash, and printed on demand.
    #[expect(clippy::print_stderr, reason = "a seed is told to a person")]
    pub fn trace(&mut self, line: &str) {
        self.hash = hash(self.hash, line.as_bytes());
        if self.is_told {
            eprintln!("[{}] {line}", self.now);
        }
    }

    fn judge(&self) -> Result<(), String> {
        match self.desk.lock().violations.first() {
            Some(violation) => Err(violation.clone()),
            None => Ok(()),
        }
    }

    fn act(&mut self) {
        match self.rng.below(136) {
            0..=7 => self.start(),
            8..=15 => self.signal(),
            16..=17 => self.cancel(),
            18 => self.terminate(),
            19 => self.retry(),
            20..=21 => self.wait(),
            22 => self.describe(),
            23 => self.foreign_wake(),
            24..=38 => self.deliver(),
            39..=41 => self.heartbeat(),
            42..=69 => self.turn(),
            70..=75 => self.take_batch(),
            76..=87 => self.commit(),
            88..=93 => self.advance(),
            94 => self.jump(),
            95 => self.crash_some(),
            96 => self.thread_returns(),
            97 => self.zombie_commit(),
            98 => self.audit(),
            99 => self.stop_in_order(),
            100..=113 => {
                self.deliver_post();
            }
            114..=121 => self.update(),
            122..=125 => self.query(),
            126..=127 => self.settle_promise(),
            128..=129 => self.room_again(1),
            130..=133 => self.answer_outside(),
            134..=135 => self.report_outside(),
            _ => self.drain_turns(),
        }
    }

    /// Everything that can be done at once is done.
    pub fn drain_turns(&mut self) {
        for _ in 0..60 {
            let has_turned = self.one_turn() | self.deliver_post();
            let has_written = self.process.take_batch() || !self.process.parcels.is_empty();
            if has_written {
                self.commit_well();
            }
            if !has_turned && !has_written {
                return;
            }
        }
    }

    fn turn(&mut self) {
        self.one_turn();
    }

    /// One turn of the engine thread; false if there is nothing to do.
    pub fn one_turn(&mut self) -> bool {
        let now = self.now;
        match self.process.shard.next(now, &self.process.store) {
            None => false,
            Some(Turn::Evict(run_id)) => {
                self.trace(&format!("evict {run_id}"));
                self.process.slices.evict(run_id);
                true
            }
            Some(Turn::Task(task)) => {
                self.slice(*task);
                true
            }
        }
    }

    /// An attempt ends, sometimes twice, sometimes in a process that is dead.
    pub fn deliver(&mut self) {
        let running = self.world.running();
        if running.is_empty() {
            return;
        }
        let chosen = running[self.rng.index(running.len())];
        if self.leaves(&chosen) {
            return self.leave(chosen);
        }
        let result = self.result(&chosen);
        self.end_attempt(chosen, result);
    }

    pub fn end_attempt(&mut self, attempt: Running, result: AttemptResult) {
        self.world.remove(attempt.token);
        if attempt.life == self.process.life {
            self.process.ramp.ended(attempt.token.kind);
        } else {
            self.desk.hit("attempt.reported-by-the-dead");
        }
        let token = attempt.token;
        self.trace(&format!("outcome {token:?} {}", name_of(&result)));
        let outcome = AttemptOutcome { token, result };
        let mut outcomes = vec![outcome.clone()];
        if self.rng.chance(8) {
            self.desk.hit("attempt.reported-twice");
            outcomes.push(outcome);
        }
        let now = self.now;
        self.process
            .shard
            .accept(Mail::Outcomes(outcomes), now, &self.process.store);
    }

    /// How an attempt ends; its result names it, so that a mix-up shows.
    pub fn result(&mut self, running: &Running) -> AttemptResult {
        if running.stop == Some(StopReason::Cancelled) && self.rng.chance(80) {
            return AttemptResult::Canceled(None);
        }
        match self.rng.below(10) {
            0..=5 => AttemptResult::Completed(encoded(&identity(running))),
            6..=7 => AttemptResult::Failed(Failure::application("sim.Flaky", "it failed")),
            8 => AttemptResult::Failed(hopeless()),
            _ => AttemptResult::Canceled(None),
        }
    }

    fn heartbeat(&mut self) {
        let running = self.world.running();
        if running.is_empty() {
            return;
        }
        let chosen = running[self.rng.index(running.len())];
        let details = self.next_report();
        self.trace(&format!("heartbeat {:?}", chosen.token));
        let now = self.now;
        let mail = Mail::Heartbeat(chosen.token, details);
        self.process.shard.accept(mail, now, &self.process.store);
    }

    fn advance(&mut self) {
        let due = self.process.due();
        self.now = match due {
            Some(due) if self.rng.chance(50) && due > self.now => due,
            Some(_) | None => self
                .now
                .after(Duration::from_millis(self.rng.range(1, 20_000))),
        };
        self.trace("time goes on");
    }

    fn jump(&mut self) {
        if !self.faults.clock {
            return;
        }
        let by = Duration::from_secs(self.rng.range(1, 3_600));
        if self.rng.chance(50) {
            self.desk.hit("clock.back");
            let back = u64::try_from(by.as_micros()).unwrap_or(0);
            self.now = Timestamp(self.now.0.saturating_sub(back));
        } else {
            self.desk.hit("clock.forward");
            self.now = self.now.after(by);
        }
        self.trace("the clock jumps");
    }

    /// No more faults: time passes, attempts end well, messages come, and everything ends.
    fn settle(&mut self) -> Result<(), String> {
        self.trace("no more faults");
        self.faults.threads = false;
        self.all_threads_return();
        self.register_everything();
        let mut idle = 0;
        for _ in 0..PATIENCE {
            self.room_again(usize::MAX);
            self.drain_turns();
            self.judge()?;
            if self.is_all_over() {
                return Ok(());
            }
            self.judge_told();
            if self.all_attempts_end() | self.all_outside_answer() {
                continue;
            }
            match self.process.due() {
                Some(due) if idle < 3 => {
                    self.now = self.now.max(due);
                    idle += 1;
                }
                Some(_) | None => {
                    idle = 0;
                    self.signal_everybody();
                }
            }
        }
        Err(self.stuck())
    }

    /// Whoever runs for nobody, or was asked to stop, has been told when all is written.
    fn judge_told(&self) {
        if !self.process.is_written() {
            return;
        }
        for running in self.world.running() {
            let token = running.token;
            let is_mine = running.life == self.process.life && running.stop.is_none();
            let Ok((run, _)) = self.disk.load_both(token.run) else {
                continue;
            };
            let activity = run.activity(token.seq);
            let is_unwanted = match token.kind {
                AttemptKind::Activity => activity.is_none_or(|a| a.is_cancel_requested),
                AttemptKind::Step => run.step(token.seq).is_none(),
            };
            if is_mine && is_unwanted {
                let text = format!("{token:?} runs for nobody and was not told");
                self.desk.violation(text);
            }
        }
    }

    fn all_attempts_end(&mut self) -> bool {
        let running = self.world.running();
        for attempt in &running {
            let result = match attempt.stop {
                Some(StopReason::Cancelled) => AttemptResult::Canceled(None),
                Some(_) | None => AttemptResult::Completed(encoded(&identity(attempt))),
            };
            self.end_attempt(*attempt, result);
        }
        !running.is_empty()
    }

    fn is_all_over(&self) -> bool {
        self.process.due().is_none()
            && !self.process.shard.is_short()
            && self.process.is_written()
            && self.process.ways.is_empty()
            && self.process.shard.open_runs() == 0
            && self.world.running().is_empty()
            && self.desk.unanswered().is_empty()
            && self
                .disk
                .rows()
                .iter()
                .all(|row| !row.state.status.is_open())
    }

    fn stuck(&self) -> String {
        let rows = self.disk.rows();
        let open: Vec<String> = rows
            .iter()
            .filter(|row| row.state.status.is_open())
            .map(|row| {
                let state = self.disk.load_both(row.no).map(|(run, _)| run);
                let text = format!("{row:?}\n  {state:?}");
                text.chars().take(2_500).collect()
            })
            .collect();
        let (due, rest) = (self.process.due(), self.process.shard.open_runs());
        let unanswered = self.desk.unanswered();
        format!(
            "stuck: due {due:?}, {rest} open in memory, unanswered {unanswered:?}, open on disk:\n{}",
            open.join("\n")
        )
    }
}

fn hopeless() -> Failure {
    let kind = FailureKind::Application {
        type_name: "sim.Hopeless".into(),
        non_retryable: true,
        details: None,
        next_retry_delay: None,
    };
    Failure::new(kind, "it will never work")
}

/// What the result of an attempt says about itself.
pub fn identity(running: &Running) -> String {
    let token = running.token;
    format!("{} {} {}", token.seq, token.attempt, token.incarnation)
}

fn name_of(result: &AttemptResult) -> &'static str {
    match result {
        AttemptResult::Completed(_) => "completed",
        AttemptResult::Failed(_) => "failed",
        AttemptResult::Canceled(_) => "canceled",
        AttemptResult::HandedBack => "handed back",
        AttemptResult::Later => "later",
    }
}
