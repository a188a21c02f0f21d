//! The world around a run: attempts that take effect and end somehow, a clock, and processes that
//! die. The real shard, the real instances and the store in memory, in one thread.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use outlast_engine::{Effect, Input};
use outlast_model::id::Incarnation;
use outlast_model::post::{Post, PostNo};
use outlast_model::start::{ConflictPolicy, ReusePolicy, StartRequest};
use outlast_model::task::{
    AttemptOutcome, AttemptResult, AttemptToken, Permit, RunNo, SlotKind, StopReason, TaskAnswer,
};
use outlast_model::view::RunRef;
use outlast_model::{
    Event, EventKind, Failure, Headers, Payload, QueueName, Record, RunId, Timestamp, WorkflowType,
    record,
};
use outlast_runtime::Unwatched;
use outlast_service::mail::Mail;
use outlast_service::memory::MemoryStore;
use outlast_service::outlet::{Capabilities, Outlet, Served};
use outlast_service::shard::{Driver, Numbers, Parts, Shard, Turn};
use outlast_service::store::Store;
use outlast_worker::queue::Queues;
use outlast_worker::registry::Registry;
use outlast_worker::settings::Settings;
use outlast_worker::slices::Slices;

use super::program::{Childhood, DO, EffectKey, GO, Interpreter, KID, UNDO, key_of, payload};
use super::rng::Rng;

const ID: &str = "w";
const FLOW: &str = "flow";
const QUEUE: &str = "default";
/// Things that happen after which an open run does not end.
const PATIENCE: usize = 600;

/// An attempt that runs.
#[derive(Clone, Copy, Debug)]
struct Running {
    token: AttemptToken,
    key: EffectKey,
    is_undo: bool,
    is_told: bool,
}

/// Attempts of one process.
#[derive(Debug, Default)]
struct Ramp(Mutex<Vec<Running>>);

impl Outlet for Ramp {
    fn take_slot(&self, _: &QueueName, _: SlotKind) -> Permit {
        Permit::Taken
    }

    fn return_slot(&self, _: &QueueName, _: SlotKind) {}

    fn release(&self, effects: Vec<Effect>) {
        let mut running = self.0.lock().expect("one thread");
        for effect in effects {
            match effect {
                Effect::StartActivity(order) => running.push(Running {
                    token: order.token,
                    key: key_of(&order.activity.input),
                    is_undo: order.activity.activity_type.as_str() == UNDO,
                    is_told: false,
                }),
                Effect::StartStep(step) => running.push(Running {
                    token: step.token,
                    key: step.name.as_str().parse().expect("a number"),
                    is_undo: false,
                    is_told: false,
                }),
                Effect::Stop(token, StopReason::Cancelled) => {
                    let told = running.iter_mut().filter(|it| it.token == token);
                    told.for_each(|it| it.is_told = true);
                }
                // It is not asked any more: it has stopped, behind its effect or before it.
                Effect::Stop(token, _) => running.retain(|it| it.token != token),
                Effect::Closed(_) | Effect::Update(..) => {}
            }
        }
    }
}

/// What became of a run.
pub struct Story {
    pub history: Vec<Event>,
    /// Of its children.
    pub children: Vec<Vec<Event>>,
    /// What took effect.
    pub effects: BTreeSet<EffectKey>,
    pub crashes: u64,
}

pub struct World {
    rng: Rng,
    store: MemoryStore,
    shard: Shard,
    slices: Slices,
    ramp: Arc<Ramp>,
    /// What runs say to each other, on its way.
    posts: VecDeque<(PostNo, Box<Post>)>,
    lives: u32,
    now: Timestamp,
    effects: BTreeSet<EffectKey>,
    /// What was looked for to be undone, found or not.
    undone: BTreeSet<EffectKey>,
    is_cancelled: bool,
    failure: Option<String>,
}

impl World {
    pub fn new(seed: u64) -> Self {
        let store = MemoryStore::new();
        let ramp = Arc::new(Ramp::default());
        Self {
            rng: Rng::new(seed ^ 0x1ed6),
            shard: boot(&store, &ramp, 0),
            slices: slices(),
            store,
            ramp,
            posts: VecDeque::new(),
            lives: 0,
            now: Timestamp(1_700_000_000_000_000),
            effects: BTreeSet::new(),
            undone: BTreeSet::new(),
            is_cancelled: false,
            failure: None,
        }
    }

    /// From the start of the run to its end.
    pub fn play(mut self, seed: u64) -> Result<Story, String> {
        self.start(seed);
        let busy = usize::try_from(self.rng.range(5, 60)).unwrap_or(5);
        for happened in 0.. {
            self.settle();
            if let Some(failure) = self.failure.take() {
                return Err(failure);
            }
            if self.shard.open_runs() == 0 {
                break;
            }
            if happened > PATIENCE {
                return Err("the run does not end".into());
            }
            if happened < busy {
                self.something_happens();
            } else {
                self.everything_ends();
            }
        }
        Ok(self.told())
    }

    fn told(mut self) -> Story {
        let all = outlast_model::view::ListFilter::default();
        let rows = self.store.list(&all).expect("memory lists");
        let (mut history, mut children) = (Vec::new(), Vec::new());
        for row in rows {
            let told = self.history(row.no);
            if row.workflow_id.as_str() == ID {
                history = told;
            } else {
                children.push(told);
            }
        }
        for end in children.iter().filter_map(|child| child.last()) {
            if let EventKind::Completed { result } = &end.kind {
                self.effects.insert(key_of(result));
            }
        }
        Story {
            history,
            children,
            effects: self.effects,
            crashes: u64::from(self.lives),
        }
    }

    fn start(&mut self, seed: u64) {
        let request = StartRequest {
            workflow_id: ID.into(),
            run_id: RunId(u128::from(seed) + 1),
            workflow_type: FLOW.into(),
            queue: QUEUE.into(),
            input: payload(seed),
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
        self.shard.accept(mail, self.now, &self.store);
    }

    fn something_happens(&mut self) {
        match self.rng.below(20) {
            0..=2 => self.takes_effect(),
            3..=7 => self.ends(),
            8..=12 => self.time_passes(),
            13 | 14 => self.crash(),
            15 => self.cancel(),
            16 => self.signal(),
            _ => self.evict(),
        }
    }

    /// Nobody interferes any more.
    fn everything_ends(&mut self) {
        let is_any = !self.ramp.0.lock().expect("one thread").is_empty();
        if is_any {
            self.ends();
        } else if self.shard.lull().due.is_some() {
            self.time_passes();
        } else {
            self.cancel();
        }
    }

    fn settle(&mut self) {
        loop {
            let has_turned = self.turn();
            let has_written = self.commit(true);
            let has_said = self.rng.chance(80) && self.deliver();
            if !has_turned && !has_written && !has_said {
                return;
            }
        }
    }

    fn turn(&mut self) -> bool {
        match self.shard.next(self.now, &self.store) {
            None => return false,
            Some(Turn::Evict(run_id)) => self.slices.evict(run_id),
            Some(Turn::Task(task)) => {
                let done = self.slices.run(&task, &Unwatched);
                if let TaskAnswer::Failed { failure, .. } = &done.answer {
                    self.failure = Some(failure.to_string());
                }
                self.shard
                    .complete(task.token, done.answer, Driver::Current, self.now);
                for run_id in done.evicted {
                    self.shard.evicted(run_id);
                }
            }
        }
        true
    }

    /// The oldest of what runs say to each other arrives.
    fn deliver(&mut self) -> bool {
        let Some((no, post)) = self.posts.pop_front() else {
            return false;
        };
        let generation = self.shard.generation();
        self.accept(Mail::Post {
            no,
            post,
            generation,
        });
        true
    }

    /// Makes durable what was decided, and lets go what follows from it, if the process lives.
    fn commit(&mut self, lives: bool) -> bool {
        let Some(mut batch) = self.shard.take_batch() else {
            return false;
        };
        if !batch.commits.is_empty() {
            self.store.commit(&batch.commits).expect("memory");
        }
        if let Some(last) = batch.last() {
            let durable = self.shard.durable();
            durable.fetch_max(last.0, Ordering::AcqRel);
        }
        if lives {
            let posts = batch.posts.drain(..);
            self.posts.extend(posts.map(|(_, no, post)| (no, post)));
            batch.release(&*self.ramp);
        }
        true
    }

    fn history(&self, no: RunNo) -> Vec<Event> {
        let blobs = self.store.history(no).expect("memory reads");
        let records = blobs
            .iter()
            .flat_map(|blob| record::decode(blob).expect("what was written decodes"));
        let event = |record| match record {
            Record::Event(event) => Some(event),
            Record::Fact(_) => None,
        };
        records.filter_map(event).collect()
    }
}

/// What happens.
impl World {
    fn pick(&mut self) -> Option<Running> {
        let mut running = self.ramp.0.lock().expect("one thread");
        running.sort_by_key(|it| it.token);
        let index = self.rng.index(running.len());
        running.get(index).copied()
    }

    fn takes_effect(&mut self) {
        if let Some(it) = self.pick() {
            self.effect(it);
        }
    }

    fn effect(&mut self, it: Running) {
        if it.is_undo {
            self.undone.insert(it.key);
        } else if self.undone.contains(&it.key) {
            let key = it.key;
            self.failure = Some(format!("effect {key}: it came behind its undo"));
        } else {
            self.effects.insert(it.key);
        }
    }

    /// An attempt ends. One that says that it failed has had no effect, nor had one before it.
    fn ends(&mut self) {
        let Some(it) = self.pick() else { return };
        let may_fail = it.is_undo || !self.effects.contains(&it.key);
        let result = if it.is_told && self.rng.chance(50) {
            AttemptResult::Canceled(None)
        } else if may_fail && self.rng.chance(25) {
            AttemptResult::Failed(Failure::application("Flaky", "declined"))
        } else {
            self.effect(it);
            AttemptResult::Completed(payload(it.key))
        };
        let mut running = self.ramp.0.lock().expect("one thread");
        running.retain(|other| other.token != it.token);
        drop(running);
        let token = it.token;
        self.accept(Mail::Outcomes(vec![AttemptOutcome { token, result }]));
    }

    fn time_passes(&mut self) {
        self.now = match self.shard.lull().due {
            Some(due) if due > self.now => due,
            Some(_) | None => self.now.after(Duration::from_secs(1)),
        };
    }

    /// The process dies: what runs may just have taken effect, what is decided may just be durable.
    fn crash(&mut self) {
        while let Some(it) = self.pick() {
            if self.rng.chance(50) {
                self.effect(it);
            }
            let mut running = self.ramp.0.lock().expect("one thread");
            running.retain(|other| other.token != it.token);
        }
        if self.rng.chance(50) {
            self.commit(false);
        }
        self.lives += 1;
        self.ramp = Arc::new(Ramp::default());
        self.shard = boot(&self.store, &self.ramp, self.lives);
        self.slices = slices();
        let kept = self.store.boot().expect("memory boots").posts;
        let read = |bytes: &[u8]| record::unframe::<Post>(bytes).expect("it was written");
        let kept = kept.iter().map(|(no, bytes)| (*no, Box::new(read(bytes))));
        self.posts = kept.collect();
    }

    fn cancel(&mut self) {
        if !std::mem::replace(&mut self.is_cancelled, true) {
            self.message(Input::Cancel {
                reason: "enough".into(),
                request_id: None,
            });
        }
    }

    fn signal(&mut self) {
        self.message(Input::Signal {
            name: GO.into(),
            input: Payload::null(),
            request_id: None,
            headers: Headers::new(),
        });
    }

    fn message(&mut self, input: Input) {
        self.accept(Mail::Message {
            run: RunRef::newest(ID.into()),
            input,
            reply: Box::new(|_| {}),
        });
    }

    fn evict(&mut self) {
        for no in self.shard.numbers() {
            if let Some(audit) = self.shard.audit(no) {
                let run_id = audit.row.run_id;
                self.slices.evict(run_id);
                self.shard.evicted(run_id);
            }
        }
    }
}

fn boot(store: &MemoryStore, ramp: &Arc<Ramp>, life: u32) -> Shard {
    let boot = store.boot().expect("memory boots");
    let served = Served {
        workflows: BTreeSet::from([WorkflowType::from(FLOW), WorkflowType::from(KID)]),
        activities: BTreeSet::from([DO.into(), UNDO.into()]),
        ..Served::default()
    };
    let parts = Parts {
        index: 0,
        incarnation: Incarnation(u128::from(life) + 1),
        capabilities: Arc::new(Capabilities {
            queues: BTreeMap::from([(QUEUE.into(), served)]),
        }),
        outlet: ramp.clone(),
        numbers: Arc::new(Numbers::after(&boot)),
        snapshot_every: 7,
        gather_from: 1,
        window: outlast_engine::request::Window::default(),
    };
    Shard::new(parts, boot.open.clone(), &boot)
}

fn slices() -> Slices {
    let mut registry = Registry::default();
    registry
        .workflows
        .insert(WorkflowType::from(FLOW), Arc::new(Interpreter));
    registry
        .workflows
        .insert(WorkflowType::from(KID), Arc::new(Childhood));
    let settings = Settings {
        strict_replay: true,
        ..Settings::default()
    };
    Slices::new(
        Arc::new(Queues::single(QUEUE.into(), registry, settings)),
        Arc::new(|run| panic!("a foreign wake of {run}")),
        outlast_worker::Bus::default(),
    )
}
