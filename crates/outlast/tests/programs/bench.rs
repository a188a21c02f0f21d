//! One execution of a program: the real shard, the real instances and the store in memory, in
//! one thread.
//!
//! Every piece of news is met by a run at rest, so that the cut of the history into tasks does
//! not depend on the path; only in a storm news comes while the code runs. What the world chooses
//! depends on the program and on what is open, never on how it is written.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};

use outlast_model::id::Incarnation;
use outlast_model::start::{ConflictPolicy, ReusePolicy, StartRequest};
use outlast_model::task::{RunNo, TaskAnswer, WorkflowTask};
use outlast_model::view::{ListFilter, RunRef};
use outlast_model::{Command, Event, Headers, Record, RunId, Timestamp, WorkflowType, record};
use outlast_runtime::Unwatched;
use outlast_service::mail::{Mail, Reply};
use outlast_service::memory::MemoryStore;
use outlast_service::outlet::{Capabilities, Served};
use outlast_service::shard::{Driver, Numbers, Parts, Shard, Turn};
use outlast_service::store::Store;
use outlast_worker::queue::Queues;
use outlast_worker::registry::Registry;
use outlast_worker::settings::Settings;
use outlast_worker::slices::Slices;

use super::ast::{News, Program};
use super::code::{Interpreter, encoded};
use super::desk;
use super::rng::Rng;
use super::world::{Ramp, World};

/// How slices reach the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// With their stimulus, instances kept.
    Fast,
    /// Behind their stimulus, instances dropped after any slice.
    Slow,
    /// With news while the code runs.
    Storm,
}

/// What became of one run.
#[derive(Debug)]
pub struct RunStory {
    pub run_id: RunId,
    pub history: Vec<Event>,
    pub log: Vec<String>,
    pub commands: Vec<Command>,
    pub notes: Vec<String>,
}

/// What became of a program.
#[derive(Debug)]
pub struct Story {
    pub runs: Vec<RunStory>,
    /// What clients were told, round by round.
    pub told: Vec<Vec<String>>,
    /// Where runs stood when at rest: run, events, length of the log.
    pub rests: Vec<(RunId, u64, usize)>,
}

const ID: &str = "w";
const FLOW: &str = "flow";
const QUEUE: &str = "default";
/// Rounds after which an open run does not end.
const ROUNDS: usize = 300;

pub struct Bench {
    path: Path,
    /// Decides what must not matter.
    whim: Rng,
    evicts: u64,
    store: MemoryStore,
    shard: Shard,
    slices: Slices,
    ramp: Arc<Ramp>,
    pub world: World,
    pub now: Timestamp,
    news: VecDeque<News>,
    commands: BTreeMap<RunNo, (Vec<Command>, Vec<String>)>,
    rests: Vec<(RunId, u64, usize)>,
    told: Vec<Vec<String>>,
    answers: Arc<Mutex<Vec<String>>>,
    /// The first thing that went wrong.
    wrong: Arc<Mutex<Option<String>>>,
}

impl Bench {
    pub fn new(program: &Program, path: Path) -> Self {
        let mut whim = Rng::new(program.seed ^ (path as u64 + 1) << 32);
        let evicts = match path {
            Path::Fast => 0,
            Path::Slow | Path::Storm => whim.pick(&[100, 50, 20]),
        };
        let store = MemoryStore::new();
        let boot = store.boot().expect("memory boots");
        let (ramp, wrong) = (Arc::new(Ramp::default()), Arc::default());
        let parts = Parts {
            index: 0,
            incarnation: Incarnation(1),
            capabilities: Arc::new(capabilities()),
            outlet: ramp.clone(),
            numbers: Arc::new(Numbers::after(&boot)),
            snapshot_every: 7,
            gather_from: 1,
            window: outlast_engine::request::Window::default(),
        };
        Self {
            path,
            whim,
            evicts,
            shard: Shard::new(parts, Vec::new(), &boot),
            slices: slices(&wrong),
            store,
            world: World::new(ramp.clone()),
            ramp,
            now: Timestamp(1_700_000_000_000_000),
            news: program.news.iter().copied().collect(),
            commands: BTreeMap::new(),
            rests: Vec::new(),
            told: Vec::new(),
            answers: Arc::default(),
            wrong,
        }
    }

    /// From the start of the first run to the end of the last.
    pub fn play(mut self, seed: u64) -> Result<Story, String> {
        self.start(seed);
        for round in 0.. {
            self.settle()?;
            if self.shard.open_runs() == 0 {
                break;
            }
            if round > ROUNDS {
                return Err(format!("{:?}: the run does not end", self.path));
            }
            if !self.next_news() {
                self.finish();
            }
        }
        if seed.is_multiple_of(4) {
            self.ask_log();
            self.settle()?;
            desk::hit("query.of-a-closed-run");
        }
        Ok(self.story())
    }

    fn start(&mut self, seed: u64) {
        let request = StartRequest {
            workflow_id: ID.into(),
            run_id: RunId(u128::from(seed) + 1),
            workflow_type: FLOW.into(),
            queue: QUEUE.into(),
            input: encoded(&0),
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

    pub fn accept(&mut self, mail: Mail) {
        self.shard.accept(mail, self.now, &self.store);
    }

    /// Somebody to answer: their answers are told with the round.
    pub fn listener<T: 'static>(&self, name: String, say: fn(&T) -> String) -> Reply<T> {
        let answers = self.answers.clone();
        Box::new(move |answer| {
            let line = match answer {
                Ok(answer) => format!("{name}: {}", say(&answer)),
                Err(refusal) => format!("{name}: refused, {refusal}"),
            };
            answers.lock().expect("one thread").push(line);
        })
    }

    /// Whether a client was told something that begins like this.
    pub fn was_told(&self, beginning: &str) -> bool {
        let mut told = self.told.iter().flatten();
        told.any(|line| line.starts_with(beginning))
    }

    /// The next news, with its company. False: there is none left.
    fn next_news(&mut self) -> bool {
        let is_any = !self.news.is_empty();
        while let Some(news) = self.news.pop_front() {
            self.tell(news);
            if !news.has_company {
                break;
            }
        }
        is_any
    }

    /// When the clock next matters.
    pub fn due(&self) -> Option<Timestamp> {
        self.shard.lull().due
    }
}

/// What happens without the outside.
impl Bench {
    /// Everything happens that can, and is durable.
    fn settle(&mut self) -> Result<(), String> {
        loop {
            let has_turned = self.turn();
            let is_written = !self.commit();
            if let Some(wrong) = self.wrong.lock().expect("one thread").take() {
                return Err(format!("{:?}: {wrong}", self.path));
            }
            if !has_turned && is_written {
                break;
            }
        }
        // Within a round the order of answers depends on the path.
        let mut answers = std::mem::take(&mut *self.answers.lock().expect("one thread"));
        answers.sort();
        self.told.push(answers);
        for no in self.shard.numbers() {
            if let Some(audit) = self.shard.audit(no) {
                let (run_id, events) = (audit.row.run_id, audit.row.state.events);
                self.rests.push((run_id, events, desk::log_len(run_id)));
            }
        }
        Ok(())
    }

    fn turn(&mut self) -> bool {
        match self.shard.next(self.now, &self.store) {
            None => false,
            Some(Turn::Evict(run_id)) => {
                self.slices.evict(run_id);
                true
            }
            Some(Turn::Task(task)) => {
                self.task(&task);
                true
            }
        }
    }

    fn task(&mut self, task: &WorkflowTask) {
        if task.queries.is_empty() {
            self.meanwhile(task);
        }
        if task.history.is_some() {
            desk::hit("slice.rebuilt");
        }
        let done = self.slices.run(task, &Unwatched);
        self.listen(task, &done.answer);
        self.shard
            .complete(task.token, done.answer, Driver::Current, self.now);
        for run_id in done.evicted {
            self.shard.evicted(run_id);
        }
        if self.evicts > 0 && self.whim.chance(self.evicts) {
            self.slices.evict(task.run_id);
            self.shard.evicted(task.run_id);
            desk::hit("instance.evicted");
        }
    }

    /// What happens between the moment a slice is handed out and the moment it answers.
    fn meanwhile(&mut self, task: &WorkflowTask) {
        let is_slow = match self.path {
            Path::Fast => false,
            Path::Slow => true,
            Path::Storm => self.whim.chance(60),
        };
        if is_slow {
            self.shard.go_slow(task.token, self.now);
            self.commit();
        }
        if self.path != Path::Storm || !self.whim.chance(40) || !self.next_news() {
            return;
        }
        desk::hit("news.while-code-runs");
        // What has arrived is looked at now, or when the code has answered.
        if self.whim.chance(70) {
            self.turn();
            self.commit();
        }
    }

    fn listen(&mut self, task: &WorkflowTask, answer: &TaskAnswer) {
        match answer {
            TaskAnswer::Completed { commands, notes } => {
                let (all, said) = self.commands.entry(task.token.run).or_default();
                all.extend(commands.iter().cloned());
                said.extend(notes.texts.iter().cloned());
            }
            TaskAnswer::Queried(_) => {}
            TaskAnswer::Failed { cause, failure } => {
                let text = format!("the task failed, {}: {failure}", cause.name());
                let mut wrong = self.wrong.lock().expect("one thread");
                wrong.get_or_insert(text);
            }
        }
    }

    /// Makes durable what was decided. False: nothing was.
    fn commit(&mut self) -> bool {
        let Some(mut batch) = self.shard.take_batch() else {
            return false;
        };
        if !batch.commits.is_empty() {
            self.store.commit(&batch.commits).expect("memory");
        }
        if let Some(last) = batch.last() {
            let durable = self.shard.durable();
            durable.fetch_max(last.0, std::sync::atomic::Ordering::AcqRel);
        }
        for (_, _, post) in batch.posts.drain(..) {
            self.world.hear(*post);
        }
        batch.release(&*self.ramp);
        true
    }
}

/// The end.
impl Bench {
    fn story(mut self) -> Story {
        let all = ListFilter {
            limit: usize::MAX,
            ..ListFilter::default()
        };
        let mut rows = self.store.list(&all).expect("memory lists");
        rows.sort_by_key(|row| row.no);
        let runs = rows.into_iter().map(|row| {
            let (commands, notes) = self.commands.remove(&row.no).unwrap_or_default();
            RunStory {
                run_id: row.run_id,
                history: history(&self.store, row.no),
                log: desk::log(row.run_id),
                commands,
                notes,
            }
        });
        Story {
            runs: runs.collect(),
            told: self.told,
            rests: self.rests,
        }
    }
}

fn history(store: &MemoryStore, no: RunNo) -> Vec<Event> {
    let blobs = store.history(no).expect("memory reads");
    let records = blobs
        .iter()
        .flat_map(|blob| record::decode(blob).expect("what was written decodes"));
    let events = records.filter_map(|record| match record {
        Record::Event(event) => Some(event),
        Record::Fact(_) => None,
    });
    events.collect()
}

fn capabilities() -> Capabilities {
    let served = Served {
        workflows: BTreeSet::from([WorkflowType::from(FLOW)]),
        activities: BTreeSet::from(["usual".into(), "undo".into()]),
        ..Served::default()
    };
    Capabilities {
        queues: BTreeMap::from([(QUEUE.into(), served)]),
    }
}

/// Instances that replay strictly: a difference in options fails the task, too.
fn slices(wrong: &Arc<Mutex<Option<String>>>) -> Slices {
    let mut registry = Registry::default();
    registry
        .workflows
        .insert(WorkflowType::from(FLOW), Arc::new(Interpreter));
    let settings = Settings {
        strict_replay: true,
        ..Settings::default()
    };
    let woken = wrong.clone();
    Slices::new(
        Arc::new(Queues::single(QUEUE.into(), registry, settings)),
        Arc::new(move |run| {
            let text = format!("a foreign wake of {run}");
            woken.lock().expect("one thread").get_or_insert(text);
        }),
        outlast_worker::Bus::default(),
    )
}

/// The run that news is for.
pub fn target() -> RunRef {
    RunRef::newest(ID.into())
}
