//! One life of a process: a shard, the instances of its engine thread, and the batches on their
//! way to the disk. A crash is to drop it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use outlast_model::id::Incarnation;
use outlast_model::task::WorkflowTask;
use outlast_model::{Timestamp, WorkflowType};
use outlast_service::batch::Batch;
use outlast_service::faulty::FaultyStore;
use outlast_service::memory::MemoryStore;
use outlast_service::outlet::{Capabilities, Served};
use outlast_service::shard::{Numbers, Parts, Shard};
use outlast_service::store::Store;
use outlast_worker::queue::Queues;
use outlast_worker::registry::Registry;
use outlast_worker::settings::Settings;
use outlast_worker::slices::Slices;

use super::disk::Disk;
use super::post::Ways;
use super::program::Interpreter;
use super::rng::Rng;
use super::world::{Ramp, World};

/// The workflow of every run.
pub const FLOW: &str = "flow";
/// The one task queue.
pub const QUEUE: &str = "default";

/// How a process is set up.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub cached_runs: usize,
    pub activity_slots: u64,
    pub step_slots: u64,
    pub snapshot_every: u64,
    pub gather_from: usize,
    /// Whether the workflow, and the rare activity, are registered.
    pub has_flow: bool,
    pub has_rare: bool,
}

impl Shape {
    /// Everything is registered; caches and slots are scarce.
    pub fn random(rng: &mut Rng) -> Self {
        Self {
            cached_runs: rng.index(4),
            activity_slots: rng.range(1, 4),
            step_slots: rng.range(1, 4),
            snapshot_every: rng.pick(&[1, 2, 3, 5, 256]),
            gather_from: rng.pick(&[0, 1, 2, 8]),
            has_flow: true,
            has_rare: true,
        }
    }

    fn capabilities(&self) -> Capabilities {
        let mut served = Served::default();
        served.activities.insert("usual".into());
        if self.has_rare {
            served.activities.insert("rare".into());
        }
        if self.has_flow {
            served.workflows.insert(FLOW.into());
        }
        Capabilities {
            queues: BTreeMap::from([(QUEUE.into(), served)]),
        }
    }
}

/// A slice whose thread was replaced.
#[derive(Debug)]
pub struct Stuck {
    pub task: WorkflowTask,
    pub slices: Slices,
    pub is_given_up: bool,
}

/// One life of a process.
#[derive(Debug)]
pub struct Process {
    pub shard: Shard,
    pub slices: Slices,
    pub store: FaultyStore<MemoryStore>,
    pub parcels: VecDeque<Batch>,
    /// What runs say to each other, on its way.
    pub ways: Ways,
    pub stuck: Vec<Stuck>,
    pub ramp: Arc<Ramp>,
    pub shape: Shape,
    pub life: u32,
    /// Its name.
    pub incarnation: Incarnation,
}

impl Process {
    /// Starts on what is durable.
    pub fn boot(life: u32, shape: Shape, disk: &Disk, world: &World) -> Self {
        let store = FaultyStore::memory(disk.store.clone());
        let boot = store.boot().expect("memory boots");
        let ramp = Arc::new(Ramp::new(
            world.clone(),
            life,
            shape.activity_slots,
            shape.step_slots,
        ));
        let incarnation = incarnation(life);
        let parts = Parts {
            index: 0,
            incarnation,
            capabilities: Arc::new(shape.capabilities()),
            outlet: ramp.clone(),
            numbers: Arc::new(Numbers::after(&boot)),
            snapshot_every: shape.snapshot_every,
            gather_from: shape.gather_from,
            window: outlast_engine::request::Window::default(),
        };
        let mut ways = Ways::default();
        ways.read_back(&boot.posts, 0);
        Self {
            shard: Shard::new(parts, boot.open.clone(), &boot),
            slices: slices(shape.cached_runs),
            store,
            parcels: VecDeque::new(),
            ways,
            stuck: Vec::new(),
            ramp,
            shape,
            life,
            incarnation,
        }
    }

    /// What was decided leaves the shard.
    pub fn take_batch(&mut self) -> bool {
        let batch = self.shard.take_batch();
        let is_some = batch.is_some();
        self.parcels.extend(batch);
        is_some
    }

    /// A batch is durable: what it says goes on its way.
    pub fn release(&mut self, mut batch: Batch) {
        self.ways.take_in(&mut batch);
        // Forgetting is a courtesy: what comes back is forgotten again.
        drop(self.store.forget(&std::mem::take(&mut batch.forgotten)));
        batch.release(&*self.ramp);
    }

    /// Whether nothing waits to be written.
    pub fn is_written(&self) -> bool {
        self.parcels.is_empty() && self.shard.batched() == 0
    }

    /// When the clock next matters.
    pub fn due(&self) -> Option<Timestamp> {
        self.shard.lull().due
    }
}

/// The name of a process.
fn incarnation(life: u32) -> Incarnation {
    Incarnation((u128::from(life) + 1) << 64)
}

fn slices(cached_runs: usize) -> Slices {
    let mut registry = Registry::default();
    registry
        .workflows
        .insert(WorkflowType::from(FLOW), Arc::new(Interpreter));
    let settings = Settings {
        cached_runs,
        strict_replay: true,
        ..Settings::default()
    };
    Slices::new(
        Arc::new(Queues::single(QUEUE.into(), registry, settings)),
        Arc::new(|_| {}),
        outlast_worker::Bus::default(),
    )
}
