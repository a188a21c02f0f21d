//! A worker: engine threads for the shards of a backend, the watchdog beside them, and the
//! dispatcher of attempts.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use outlast_model::task::{AttemptKind, StopReason};
use outlast_runtime::ForeignWake;

use crate::bus::Bus;
use crate::dispatch::{Dispatch, Dispatcher};
use crate::engine;
use crate::event::{StopPhase, WorkerEvent};
use crate::port::{Lane, WorkerPort};
use crate::registry::Registry;
use crate::settings::Settings;
use crate::slices::Slices;
use crate::slots::Slots;
use crate::steps::Steps;
use crate::watch::{Bell, Pulse, Rescue, keep_watch};

/// Runs user code for one backend.
pub struct Worker {
    registry: Arc<Registry>,
    settings: Settings,
    slots: Arc<Slots>,
    steps: Arc<Steps>,
    dispatcher: Arc<Dispatcher>,
    port: OnceLock<Arc<dyn WorkerPort>>,
    pulses: Mutex<Vec<Arc<Pulse>>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    bell: Arc<Bell>,
    is_stopped: AtomicBool,
    rescues: AtomicUsize,
    bus: Bus,
}

impl std::fmt::Debug for Worker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Worker")
            .field("registry", &self.registry)
            .finish_non_exhaustive()
    }
}

impl Worker {
    /// A worker that has not started: it can already lend its slots.
    pub fn new(
        registry: Registry,
        settings: Settings,
        runtime: tokio::runtime::Handle,
        bus: Bus,
    ) -> Arc<Self> {
        let registry = Arc::new(registry);
        let slots = Arc::new(Slots::new(settings.activity_slots, settings.step_slots));
        let steps = Arc::new(Steps::default());
        let dispatcher = Arc::new(Dispatcher::new(
            registry.clone(),
            slots.clone(),
            steps.clone(),
            runtime,
            settings.abort_after,
        ));
        Arc::new(Self {
            registry,
            settings,
            slots,
            steps,
            dispatcher,
            port: OnceLock::new(),
            pulses: Mutex::new(Vec::new()),
            threads: Mutex::new(Vec::new()),
            bell: Arc::new(Bell::default()),
            is_stopped: AtomicBool::new(false),
            rescues: AtomicUsize::new(0),
            bus,
        })
    }

    /// What it can run.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Starts one engine thread for each shard of the backend, and the watchdog.
    pub fn start(self: &Arc<Self>, port: Arc<dyn WorkerPort>) {
        let port = self.port.get_or_init(|| port).clone();
        self.bus.emit(WorkerEvent::Starting);
        for shard in 0..port.shards() {
            self.spawn_engine(shard);
        }
        let me = self.clone();
        self.spawn("outlast-watch", move || {
            keep_watch(&me, &*port, &me.settings, &me.bell);
        });
        let shards = self.threads().len() - 1;
        self.bus.emit(WorkerEvent::Started { shards });
    }

    /// Takes a slot for an attempt, if one is free.
    pub fn take_slot(&self, kind: AttemptKind) -> bool {
        self.slots.take(kind)
    }

    /// Gives a slot back whose attempt will not start.
    pub fn return_slot(&self, kind: AttemptKind) {
        self.slots.give(kind);
    }

    /// What became durable is started.
    pub fn dispatch(&self, work: Vec<Dispatch>) {
        if let Some(port) = self.port.get() {
            self.dispatcher.dispatch(work, port);
        }
    }

    /// Stops: attempts are told, engine threads leave. Waits for the threads that come back; one
    /// that is stuck in user code is left behind.
    pub fn shutdown(&self, grace: Duration) {
        if self.is_stopped.swap(true, Ordering::SeqCst) {
            return;
        }
        self.bus.emit(WorkerEvent::Stopping {
            phase: StopPhase::Cancelling,
            attempts: self.attempts(),
        });
        self.dispatcher.stop_all(StopReason::Shutdown);
        if let Some(port) = self.port.get() {
            port.shutdown();
        }
        self.bell.ring();
        let threads: Vec<JoinHandle<()>> = std::mem::take(&mut *self.threads());
        let end = crate::clock::now() + grace;
        let mut left_behind = 0;
        for thread in threads {
            while !thread.is_finished() && crate::clock::now() < end {
                self.bell.ring();
                std::thread::sleep(Duration::from_millis(1));
            }
            if thread.is_finished() {
                // A thread that panicked has already said so.
                drop(thread.join());
            } else {
                left_behind += 1;
            }
        }
        self.bus.emit(WorkerEvent::Stopped { left_behind });
    }

    /// Where it says what somebody should know.
    pub fn bus(&self) -> &Bus {
        &self.bus
    }

    /// Attempts that run now.
    pub fn attempts(&self) -> usize {
        self.dispatcher.count()
    }

    fn spawn_engine(self: &Arc<Self>, shard: usize) {
        let Some(port) = self.port.get().cloned() else {
            return;
        };
        let me = self.clone();
        self.spawn(&format!("outlast-engine-{shard}"), move || {
            let lane = port.drive(shard);
            let pulse = Arc::new(Pulse::new(
                lane,
                port.clone(),
                &me.settings,
                me.bell.clone(),
            ));
            me.pulses_mut().push(pulse.clone());
            engine::drive(&port, &pulse, me.slices(&port));
            me.pulses_mut().retain(|p| !Arc::ptr_eq(p, &pulse));
        });
    }

    fn slices(&self, port: &Arc<dyn WorkerPort>) -> Slices {
        let port = port.clone();
        let foreign: ForeignWake = Arc::new(move |run_id| port.foreign_wake(run_id));
        let (registry, bus) = (self.registry.clone(), self.bus.clone());
        Slices::with_steps(registry, &self.settings, foreign, bus, self.steps.clone())
    }

    fn spawn(&self, name: &str, body: impl FnOnce() + Send + 'static) {
        match std::thread::Builder::new().name(name.into()).spawn(body) {
            Ok(thread) => self.threads().push(thread),
            Err(error) => self.bus.emit(WorkerEvent::ThreadFailed {
                thread: name.to_owned(),
                error: error.to_string(),
            }),
        }
    }

    fn threads(&self) -> MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pulses_mut(&self) -> MutexGuard<'_, Vec<Arc<Pulse>>> {
        self.pulses.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The watchdog's view of a worker, with the `Arc` that a new thread needs.
impl Rescue for Arc<Worker> {
    fn take_over(&self, lane: Lane) -> bool {
        let pulses = self.pulses();
        let mine = || pulses.iter().filter(|p| p.lane.shard == lane.shard);
        if mine().any(|p| p.lane.driver > lane.driver) {
            // A newer thread drives this shard already.
            return true;
        }
        let busy = mine().filter(|p| !p.is_given_up()).count();
        if busy > self.settings.spare_threads {
            return false;
        }
        self.rescues.fetch_add(1, Ordering::Relaxed);
        self.spawn_engine(lane.shard);
        let shard = lane.shard;
        self.bus.emit(WorkerEvent::ShardTakenOver { shard });
        true
    }

    fn bus(&self) -> &Bus {
        &self.bus
    }

    fn pulses(&self) -> Vec<Arc<Pulse>> {
        self.pulses_mut().clone()
    }

    fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::SeqCst)
    }
}
