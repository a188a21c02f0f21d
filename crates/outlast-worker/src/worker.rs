//! A worker: engine threads for the shards of a backend, the watchdog beside them, and the
//! dispatcher of attempts.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use outlast_model::QueueName;
use outlast_model::task::{Permit, SlotKind, TaskAnswer, WorkflowTask};
use outlast_runtime::ForeignWake;

use crate::bus::Bus;
use crate::clock;
use crate::dispatch::{Dispatch, Dispatcher};
use crate::engine::Engine;
use crate::event::{RunIn, WorkerEvent};
use crate::host::{Tether, hear_panics};
use crate::port::{Lane, WorkerPort};
use crate::queue::Queues;
use crate::settings::Settings;
use crate::shutdown::Ending;
use crate::slices::Slices;
use crate::spares::Spares;
use crate::state::ThreadState;
use crate::steps::Steps;
use crate::stranded::{self, Refused, Seen, Wants};
use crate::watch::{Bell, Pulse, Rescue, keep_watch};

/// Runs user code for one backend.
pub struct Worker {
    queues: Arc<Queues>,
    pub(crate) settings: Settings,
    steps: Arc<Steps>,
    pub(crate) dispatcher: Arc<Dispatcher>,
    port: OnceLock<Arc<dyn WorkerPort>>,
    pulses: Mutex<Vec<Arc<Pulse>>>,
    /// Engine threads, also those that were replaced or given up.
    engines: Mutex<Vec<JoinHandle<()>>>,
    watchdog: Mutex<Option<JoinHandle<()>>>,
    tether: Mutex<Option<Tether>>,
    bell: Arc<Bell>,
    pub(crate) ending: Ending,
    is_stopped: AtomicBool,
    spares: Mutex<Spares>,
    /// Whether there are more engine threads than shards: some may not have come back.
    has_more_threads: AtomicBool,
    refused: Mutex<Refused>,
    when_unfit: OnceLock<Box<dyn Fn() + Send + Sync>>,
    bus: Bus,
}

impl std::fmt::Debug for Worker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Worker")
            .field("queues", &self.queues)
            .finish_non_exhaustive()
    }
}

impl Worker {
    /// A worker that has not started: it can already lend its slots.
    pub fn new(
        queues: Queues,
        settings: Settings,
        runtime: tokio::runtime::Handle,
        bus: Bus,
    ) -> Arc<Self> {
        let queues = Arc::new(queues);
        let steps = Arc::new(Steps::default());
        let dispatcher = Arc::new(Dispatcher::new(
            queues.clone(),
            steps.clone(),
            runtime,
            settings.clone(),
            bus.clone(),
        ));
        Arc::new(Self {
            queues,
            settings,
            steps,
            dispatcher,
            port: OnceLock::new(),
            pulses: Mutex::new(Vec::new()),
            engines: Mutex::new(Vec::new()),
            watchdog: Mutex::new(None),
            tether: Mutex::new(None),
            bell: Arc::new(Bell::default()),
            ending: Ending::default(),
            is_stopped: AtomicBool::new(false),
            spares: Mutex::default(),
            has_more_threads: AtomicBool::new(false),
            refused: Mutex::default(),
            when_unfit: OnceLock::new(),
            bus,
        })
    }

    /// What it serves.
    pub fn queues(&self) -> &Queues {
        &self.queues
    }

    /// Starts one engine thread for each shard of the backend, and the watchdog.
    pub fn start(self: &Arc<Self>, port: Arc<dyn WorkerPort>) {
        hear_panics();
        let port = self.port.get_or_init(|| port).clone();
        self.bus.emit(WorkerEvent::Starting);
        for shard in 0..port.shards() {
            self.spawn_engine(shard);
        }
        let me = self.clone();
        *lock(&self.watchdog) = self.spawn("outlast-watch", move || {
            keep_watch(&me, &*port, &me.settings, &me.bell);
        });
        *lock(&self.tether) = Some(Tether::fasten(self));
        let shards = lock(&self.engines).len();
        self.bus.emit(WorkerEvent::Started { shards });
    }

    /// Takes a slot of a queue, if one is free. A worker that goes down begins nothing new.
    pub fn take_slot(&self, queue: &QueueName, kind: SlotKind) -> Permit {
        if kind != SlotKind::Workflow && self.dispatcher.is_draining() {
            return Permit::Full;
        }
        self.queues.take_slot(queue, kind)
    }

    /// Gives a slot back: of an attempt that will not start, or of a slice that is over.
    pub fn return_slot(&self, queue: &QueueName, kind: SlotKind) {
        self.queues.return_slot(queue, kind);
    }

    /// What became durable is started.
    pub fn dispatch(&self, work: Vec<Dispatch>) {
        if let Some(port) = self.port.get() {
            self.dispatcher.dispatch(work, port);
            self.bell.ring();
        }
    }

    /// What is to be done when the worker is unfit to go on: too many attempts ignore that they
    /// should stop, or the runtime they run on has ended. It takes no more work then; whoever owns it should stop it in order.
    pub fn when_unfit(&self, act: impl Fn() + Send + Sync + 'static) {
        // The first owner counts.
        drop(self.when_unfit.set(Box::new(act)));
    }

    /// Does what its owner wants done when it is unfit.
    pub(crate) fn act_unfit(&self) {
        if let Some(act) = self.when_unfit.get() {
            act();
        }
    }

    /// Attempts that count as zombies, now and ever.
    pub fn zombies(&self) -> (usize, u64) {
        self.dispatcher.zombies()
    }

    /// Where it says what somebody should know.
    pub fn bus(&self) -> &Bus {
        &self.bus
    }

    /// Attempts that run now.
    pub fn attempts(&self) -> usize {
        self.dispatcher.count()
    }

    /// How it behaves.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    pub(crate) fn shards(&self) -> usize {
        self.port.get().map_or(0, |port| port.shards())
    }

    pub(crate) fn stacks(&self) -> usize {
        lock(&self.engines).len()
    }

    /// Joins threads that have ended: only then their stacks are given back.
    fn join_ended(&self) {
        let mut engines = lock(&self.engines);
        let ended: Vec<JoinHandle<()>> = engines.extract_if(.., |e| e.is_finished()).collect();
        drop(engines);
        for engine in ended {
            // A thread that panicked has already said so.
            drop(engine.join());
        }
    }

    pub(crate) fn threads_now(&self) -> Vec<ThreadState> {
        self.pulses_mut().iter().map(|pulse| pulse.now()).collect()
    }

    /// Says whether there is one more.
    fn spawn_engine(self: &Arc<Self>, shard: usize) -> bool {
        let Some(port) = self.port.get().cloned() else {
            return false;
        };
        self.join_ended();
        let me = self.clone();
        let engine = self.spawn(&format!("outlast-engine-{shard}"), move || {
            let lane = port.drive(shard);
            let pulse = Arc::new(Pulse::new(
                lane,
                port.clone(),
                &me.settings,
                me.bell.clone(),
            ));
            me.change_pulses(|pulses| pulses.push(pulse.clone()));
            let engine = Engine {
                port: &port,
                pulse: &pulse,
                slices: me.slices(&port),
                bus: &me.bus,
                worker: &me,
            };
            engine.drive();
            me.change_pulses(|pulses| pulses.retain(|p| !Arc::ptr_eq(p, &pulse)));
        });
        let is_there = engine.is_some();
        lock(&self.engines).extend(engine);
        is_there
    }

    fn slices(&self, port: &Arc<dyn WorkerPort>) -> Slices {
        // Weak: a waker or a call that user code keeps, or forgets, must not keep the backend with it.
        let (port, threads) = (Arc::downgrade(port), port.shards());
        let foreign: ForeignWake = Arc::new(move |run_id| {
            if let Some(port) = port.upgrade() {
                port.foreign_wake(run_id);
            }
        });
        let (queues, bus) = (self.queues.clone(), self.bus.clone());
        Slices::with_steps(queues, threads, foreign, bus, self.steps.clone())
    }

    pub(crate) fn spawn(
        &self,
        name: &str,
        body: impl FnOnce() + Send + 'static,
    ) -> Option<JoinHandle<()>> {
        let spawned = std::thread::Builder::new().name(name.into()).spawn(body);
        spawned
            .inspect_err(|error| {
                self.bus.emit(WorkerEvent::ThreadFailed {
                    thread: name.to_owned(),
                    error: error.to_string(),
                });
            })
            .ok()
    }

    /// Why this task gets no thread now, if it does not. Asked when it is known what it is.
    pub(crate) fn refuses(&self, me: &Pulse, task: &WorkflowTask) -> Option<TaskAnswer> {
        if !self.has_more_threads.load(Ordering::SeqCst) {
            return None;
        }
        let own = me.seen()?;
        let pulses = self.pulses_mut();
        let others = pulses.iter().filter(|p| !std::ptr::eq(&***p, me));
        let others: Vec<Seen> = others.filter_map(|p| p.seen()).collect();
        drop(pulses);
        let wants = Wants {
            run: &own.run,
            is_question: !task.queries.is_empty(),
            is_limited: !self.patience_with(&own.run).is_zero(),
            since: own.since,
        };
        let why = stranded::refusal(&wants, &others)?;
        let (answer, event) = lock(&self.refused).add(&wants, why);
        if let Some(event) = event {
            self.bus.emit(event);
        }
        self.bell.ring();
        Some(answer)
    }

    fn patience_with(&self, run: &RunIn) -> Duration {
        let mut queues = self.queues.iter();
        let own = queues.find_map(|queue| queue.registry.patience.get(&run.workflow_type));
        own.copied().unwrap_or(self.settings.deadlock_timeout)
    }

    fn change_pulses(&self, change: impl FnOnce(&mut Vec<Arc<Pulse>>)) {
        let mut pulses = self.pulses_mut();
        change(&mut pulses);
        let has_more = pulses.len() > self.shards();
        self.has_more_threads.store(has_more, Ordering::SeqCst);
    }

    fn pulses_mut(&self) -> MutexGuard<'_, Vec<Arc<Pulse>>> {
        lock(&self.pulses)
    }
}

/// What its end needs, in the order of [`Phase`](crate::shutdown::Phase).
impl Worker {
    /// Nothing new: first the backend, so that nothing is claimed that would be handed back.
    pub(crate) fn stop_polling(&self) {
        if let Some(port) = self.port.get() {
            port.drain();
        }
        self.dispatcher.drain();
    }

    /// Whether no workflow code runs, but for what was given up.
    pub(crate) fn is_at_rest(&self) -> bool {
        let pulses = self.pulses_mut();
        pulses.iter().all(|p| !p.is_running() || p.is_given_up())
    }

    /// Engine threads keep what was said to them and leave.
    pub(crate) fn leave(&self) {
        if let Some(port) = self.port.get() {
            port.shutdown();
        }
    }

    /// Whether all engine threads have left, with their instances, but for those that were given
    /// up if nobody waits for them. One does not wait for itself.
    pub(crate) fn is_deserted(&self, waits_for_given_up: bool) -> bool {
        let mut but = vec![std::thread::current().id()];
        if !waits_for_given_up {
            but.extend(self.pulses_mut().iter().filter_map(|p| p.given_up_thread()));
        }
        let engines = lock(&self.engines);
        let mut all = engines.iter();
        all.all(|e| e.is_finished() || but.contains(&e.thread().id()))
    }

    /// What is still in user code, by name.
    pub fn unfinished(&self) -> Vec<String> {
        let mut left = self.dispatcher.names();
        left.extend(self.stuck());
        left
    }

    fn stuck(&self) -> Vec<String> {
        let pulses = self.pulses_mut();
        let stuck = pulses.iter().filter_map(|p| p.stuck());
        stuck.map(|stuck| stuck.to_string()).collect()
    }

    /// Nobody is watched any more. Names what is still in user code.
    pub(crate) fn dismiss(&self) -> Vec<String> {
        let mut left = self.dispatcher.names();
        let stuck = self.stuck();
        left.extend(stuck.iter().cloned());
        for engine in std::mem::take(&mut *lock(&self.engines)) {
            if engine.is_finished() {
                // A thread that panicked has already said so.
                drop(engine.join());
            } else if stuck.is_empty() {
                let name = engine.thread().name().unwrap_or_default();
                left.push(format!("thread {name}, which drops instances"));
            }
        }
        lock(&self.tether).take();
        self.is_stopped.store(true, Ordering::SeqCst);
        self.bell.ring_always();
        if let Some(watchdog) = lock(&self.watchdog).take() {
            drop(watchdog.join());
        }
        left
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The watchdog's view of a worker, with the `Arc` that a new thread needs.
impl Rescue for Arc<Worker> {
    fn take_over(&self, lane: Lane, now: Instant) -> bool {
        let pulses = self.pulses();
        let mine = || pulses.iter().filter(|p| p.lane.shard == lane.shard);
        if mine().any(|p| p.lane.driver > lane.driver) {
            // A newer thread drives this shard already.
            return true;
        }
        let busy = pulses.iter().filter(|p| !p.is_given_up()).count();
        let shards = self.port.get().map_or(0, |port| port.shards());
        let most = shards + self.settings.spare_threads;
        if !lock(&self.spares).take(lane.shard, now, busy, most) {
            return false;
        }
        let shard = lane.shard;
        let is_taken = self.spawn_engine(shard);
        if is_taken {
            self.bus.emit(WorkerEvent::ShardTakenOver { shard });
        }
        is_taken
    }

    fn bus(&self) -> &Bus {
        &self.bus
    }

    fn patience(&self, run: &RunIn) -> Duration {
        self.patience_with(run)
    }

    fn has_refused(&self) -> bool {
        !lock(&self.refused).is_empty()
    }

    fn release(&self) {
        let all: Vec<Seen> = self.pulses().iter().filter_map(|p| p.seen()).collect();
        let is_limited = |run: &RunIn| !self.patience_with(run).is_zero();
        let (runs, types) = lock(&self.refused).release(clock::now(), &all, is_limited);
        for workflow_type in types {
            self.bus.emit(WorkerEvent::TypeReleased { workflow_type });
        }
        if let Some(port) = self.port.get() {
            runs.into_iter().for_each(|run_id| port.may_go_on(run_id));
        }
    }

    fn pulses(&self) -> Vec<Arc<Pulse>> {
        self.pulses_mut().clone()
    }

    fn has_attempts(&self) -> bool {
        !self.dispatcher.is_idle()
    }

    fn look_after_attempts(&self) {
        let Some(port) = self.port.get() else {
            return;
        };
        if !self.dispatcher.look_after(port) {
            return;
        }
        self.dispatcher.drain();
        let me = self.clone();
        // Whoever stops the worker waits for this very thread.
        drop(self.spawn("outlast-unfit", move || me.act_unfit()));
    }

    fn join_ended(&self) {
        Worker::join_ended(self);
    }

    fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::SeqCst)
    }
}
