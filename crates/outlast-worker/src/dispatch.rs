//! Attempts are started here, in chunks, on the async runtime; blocking ones on threads of their
//! own. Every attempt ends with exactly one outcome, whatever its code does.
//!
//! A chunk is one task of the runtime, or, if it is small, one of the [opener](crate::opener):
//! each attempt in it is polled once, and gets a task of its own only if it did not end at once. A
//! chunk that takes long gives the rest away, so that one attempt that burns its first poll does
//! not hold up the others.

use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use outlast_model::failure::type_name;
use outlast_model::task::{
    ActivityTask, AttemptKind, AttemptOutcome, AttemptResult, AttemptToken, StepTask, StopReason,
};
use outlast_model::{Failure, QueueName};
use tokio::task::{JoinError, JoinHandle};

use crate::attempt::{AttemptCtx, Link};
use crate::bus::Bus;
use crate::clock;
use crate::heartbeat::Heartbeats;
use crate::opener::{FEW, Job, Opener};
use crate::port::WorkerPort;
use crate::queue::{Queue, Queues};
use crate::registry::Body;
use crate::steps::Steps;
use crate::stop::Stop;
use crate::trace;

/// Attempts polled by one task of the runtime.
const CHUNK: usize = 128;
/// A chunk that took longer gives the rest to another task.
const CHUNK_TIME: Duration = Duration::from_micros(100);

/// What the backend wants done, once it is durable.
#[derive(Debug)]
pub enum Dispatch {
    /// Run an attempt of an activity.
    Activity(Box<ActivityTask>),
    /// Run an attempt of a step.
    Step(StepTask),
    /// Tell a running attempt to stop.
    Stop(AttemptToken, StopReason),
}

/// An attempt that is about to begin, and how it is told to stop.
enum Start {
    Activity(Box<ActivityTask>, Arc<Stop>),
    Step(StepTask, Arc<Stop>),
}

impl Start {
    fn token(&self) -> AttemptToken {
        match self {
            Self::Activity(task, _) => task.token,
            Self::Step(task, _) => task.token,
        }
    }

    fn handed_back(&self) -> AttemptOutcome {
        let (token, result) = (self.token(), AttemptResult::HandedBack);
        AttemptOutcome { token, result }
    }
}

type Outcome = Pin<Box<dyn Future<Output = AttemptOutcome> + Send>>;

/// Starts and stops attempts.
pub(crate) struct Dispatcher {
    pub(crate) queues: Arc<Queues>,
    pub(crate) steps: Arc<Steps>,
    pub(crate) runtime: tokio::runtime::Handle,
    pub(crate) abort_after: Duration,
    bus: Bus,
    opener: Opener,
    running: Mutex<BTreeMap<AttemptToken, Running>>,
    /// The worker goes down: what has not begun is handed back.
    is_draining: AtomicBool,
}

/// An attempt that runs: how it is told to stop, and whose slot it holds.
struct Running {
    stop: Arc<Stop>,
    queue: Option<Arc<Queue>>,
}

impl Dispatcher {
    pub(crate) fn new(
        queues: Arc<Queues>,
        steps: Arc<Steps>,
        runtime: tokio::runtime::Handle,
        abort_after: Duration,
        bus: Bus,
    ) -> Self {
        let running = Mutex::new(BTreeMap::new());
        let opener = Opener::start(&runtime);
        Self {
            queues,
            steps,
            runtime,
            abort_after,
            bus,
            opener,
            running,
            is_draining: AtomicBool::new(false),
        }
    }

    /// From here on nothing begins.
    pub(crate) fn drain(&self) {
        self.is_draining.store(true, Ordering::Release);
    }

    /// What runs, for people.
    pub(crate) fn names(&self) -> Vec<String> {
        let name = |token: &AttemptToken| {
            let kind = match token.kind {
                AttemptKind::Activity => "activity",
                AttemptKind::Step => "step",
            };
            format!("attempt {} of {kind} {}", token.attempt, token.seq)
        };
        self.running().keys().map(name).collect()
    }

    /// Takes what became durable.
    pub(crate) fn dispatch(self: &Arc<Self>, work: Vec<Dispatch>, port: &Arc<dyn WorkerPort>) {
        let mut stops = Vec::new();
        let mut starts = self.announce(work, &mut stops);
        for (token, reason) in stops {
            self.stop(token, reason);
        }
        if self.is_draining.load(Ordering::Acquire) && !starts.is_empty() {
            // At once, on this thread: whoever waits for the last commit hears of it.
            let unbegun: Vec<AttemptOutcome> = starts.iter().map(Start::handed_back).collect();
            self.ended(&unbegun);
            return port.complete_attempts(unbegun);
        }
        while !starts.is_empty() {
            let rest = starts.split_off(starts.len().min(CHUNK));
            self.spawn_chunk(std::mem::replace(&mut starts, rest), port);
        }
    }

    /// From here on these attempts can be told to stop, also while they wait for the runtime.
    fn announce(
        &self,
        work: Vec<Dispatch>,
        stops: &mut Vec<(AttemptToken, StopReason)>,
    ) -> Vec<Start> {
        let mut starts = Vec::with_capacity(work.len());
        let mut running = self.running();
        let mut known = |token, queue: &QueueName| {
            let stop = Arc::<Stop>::default();
            let queue = self.queues.get(queue).cloned();
            running.insert(
                token,
                Running {
                    stop: stop.clone(),
                    queue,
                },
            );
            stop
        };
        for item in work {
            match item {
                Dispatch::Activity(task) => {
                    let stop = known(task.token, &task.queue);
                    starts.push(Start::Activity(task, stop));
                }
                Dispatch::Step(task) => {
                    let stop = known(task.token, &task.queue);
                    starts.push(Start::Step(task, stop));
                }
                Dispatch::Stop(token, reason) => stops.push((token, reason)),
            }
        }
        starts
    }

    /// Tells every running attempt to stop.
    pub(crate) fn stop_all(&self, reason: StopReason) {
        for running in self.running().values() {
            running.stop.fire(reason);
        }
    }

    /// How many attempts run.
    pub(crate) fn count(&self) -> usize {
        self.running().len()
    }

    fn stop(&self, token: AttemptToken, reason: StopReason) {
        if let Some(running) = self.running().get(&token) {
            running.stop.fire(reason);
        }
    }

    fn spawn_chunk(self: &Arc<Self>, chunk: Vec<Start>, port: &Arc<dyn WorkerPort>) {
        let (me, port) = (self.clone(), port.clone());
        let is_small = chunk.len() <= FEW;
        let mut job: Job = Box::new(move |cx| me.run_chunk(chunk, &port, cx));
        if is_small {
            match self.opener.offer(job) {
                Ok(()) => return,
                Err(back) => job = back,
            }
        }
        let mut job = Some(job);
        drop(self.runtime.spawn(poll_fn(move |cx| {
            if let Some(job) = job.take() {
                job(cx);
            }
            Poll::Ready(())
        })));
    }

    fn run_chunk(
        self: Arc<Self>,
        chunk: Vec<Start>,
        port: &Arc<dyn WorkerPort>,
        cx: &mut Context<'_>,
    ) {
        let begun = clock::now();
        let mut done = Vec::with_capacity(chunk.len());
        let mut rest = chunk.into_iter();
        while let Some(start) = rest.next() {
            let mut outcome = self.begin(start, port);
            match outcome.as_mut().poll(cx) {
                Poll::Ready(outcome) => done.push(outcome),
                Poll::Pending => self.spawn_one(outcome, port.clone()),
            }
            if rest.len() > 0 && clock::now().duration_since(begun) > CHUNK_TIME {
                self.spawn_chunk(rest.collect(), port);
                break;
            }
        }
        if !done.is_empty() {
            self.ended(&done);
            port.complete_attempts(done);
        }
    }

    fn spawn_one(self: &Arc<Self>, outcome: Outcome, port: Arc<dyn WorkerPort>) {
        let me = self.clone();
        drop(self.runtime.spawn(async move {
            let done = vec![outcome.await];
            me.ended(&done);
            port.complete_attempts(done);
        }));
    }

    /// These attempts are over: their slots are free before anybody hears of it.
    fn ended(&self, outcomes: &[AttemptOutcome]) {
        self.bus.meter().attempts(outcomes);
        let mut running = self.running();
        for outcome in outcomes {
            let ended = running.remove(&outcome.token);
            if let Some(queue) = ended.and_then(|ended| ended.queue) {
                queue.slots.give(outcome.token.kind.into());
            }
        }
    }

    fn begin(self: &Arc<Self>, start: Start, port: &Arc<dyn WorkerPort>) -> Outcome {
        let (token, stop) = match &start {
            Start::Activity(task, stop) => (task.token, stop),
            Start::Step(task, stop) => (task.token, stop),
        };
        if self.is_draining.load(Ordering::Acquire) {
            return Box::pin(std::future::ready(start.handed_back()));
        }
        if stop.reason().is_some() {
            // It was told to before it began.
            let result = as_asked(AttemptResult::Canceled(None), stop);
            return Box::pin(std::future::ready(AttemptOutcome { token, result }));
        }
        match start {
            Start::Activity(task, stop) => {
                trace::inside(trace::activity(&task), self.activity(*task, stop, port))
            }
            Start::Step(task, stop) => trace::inside(trace::step(&task), self.step(&task, stop)),
        }
    }

    fn activity(
        self: &Arc<Self>,
        task: ActivityTask,
        stop: Arc<Stop>,
        port: &Arc<dyn WorkerPort>,
    ) -> Outcome {
        let token = task.token;
        let queue = self.queues.get(&task.queue);
        let code = queue.and_then(|queue| queue.registry.activities.get(&task.activity_type));
        let Some(code) = code else {
            let name = task.activity_type.clone();
            let text =
                format!("no worker has activity {name}; add .activity({name}) to the builder");
            return failed(token, Failure::application(type_name::NOT_REGISTERED, text));
        };
        let link = Link {
            heartbeats: Heartbeats::new(token, task.heartbeat, port.clone()),
            runtime: self.runtime.clone(),
        };
        let input = task.input.clone();
        let ctx = AttemptCtx::new(task, stop, Some(link));
        let mut attempt = match catch_unwind(AssertUnwindSafe(|| code(ctx.clone(), input))) {
            Err(panic) => return failed(token, panicked(&*panic)),
            Ok(body) => self.attempt(body),
        };
        let grace = self.abort_after;
        Box::pin(async move {
            let result = until_stopped(&mut attempt, ctx.stop(), grace).await;
            if !matches!(result, AttemptResult::Completed(_)) {
                ctx.flush();
            }
            let result = as_asked(result, ctx.stop());
            AttemptOutcome { token, result }
        })
    }

    fn step(self: &Arc<Self>, task: &StepTask, stop: Arc<Stop>) -> Outcome {
        let token = task.token;
        let Some(code) = self.steps.get(task.run_id, token.seq) else {
            let text = format!("the code of step {} is not in memory", task.name);
            return failed(token, Failure::application(type_name::WORKER_LOST, text));
        };
        let grace = self.abort_after;
        let mut attempt = match catch_unwind(AssertUnwindSafe(|| code())) {
            Ok(future) => Attempt::Async(future),
            Err(panic) => return failed(token, panicked(&*panic)),
        };
        Box::pin(async move {
            let result = until_stopped(&mut attempt, &stop, grace).await;
            let result = as_asked(result, &stop);
            AttemptOutcome { token, result }
        })
    }

    fn attempt(&self, body: Body) -> Attempt {
        match body {
            Body::Async(future) => Attempt::Async(future),
            Body::Blocking(run) => Attempt::Blocking(self.runtime.spawn_blocking(run)),
        }
    }

    fn running(&self) -> MutexGuard<'_, BTreeMap<AttemptToken, Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn failed(token: AttemptToken, failure: Failure) -> Outcome {
    Box::pin(std::future::ready(AttemptOutcome {
        token,
        result: AttemptResult::Failed(failure),
    }))
}

/// Runs the attempt to its end; once told to stop it has the grace to do so, then it is dropped
/// at its next await.
async fn until_stopped(attempt: &mut Attempt, stop: &Arc<Stop>, grace: Duration) -> AttemptResult {
    // Made when the attempt first waits: most are done before.
    let mut expired: Option<Pin<Box<dyn Future<Output = ()> + Send>>> = None;
    poll_fn(move |cx| {
        if let Poll::Ready(result) = attempt.poll(cx) {
            return Poll::Ready(result);
        }
        let expired = expired.get_or_insert_with(|| Box::pin(grace_is_over(stop.clone(), grace)));
        let expired = expired.as_mut().poll(cx);
        expired.map(|()| AttemptResult::Canceled(None))
    })
    .await
}

/// An attempt that stopped because its worker goes down, or because an operator holds the activity
/// up, is not cancelled: it is tried again, under its number, by whoever comes next. One that
/// ended in its own way has ended.
fn as_asked(result: AttemptResult, stop: &Stop) -> AttemptResult {
    use StopReason::{Paused, Reset, Shutdown};
    match (result, stop.reason()) {
        (AttemptResult::Canceled(_), Some(Shutdown | Paused | Reset)) => AttemptResult::HandedBack,
        (result, Some(_) | None) => result,
    }
}

async fn grace_is_over(stop: Arc<Stop>, grace: Duration) {
    stop.wait().await;
    tokio::time::sleep(grace).await;
}

/// The code of an attempt; its panic is a failure like any other.
enum Attempt {
    Async(Pin<Box<dyn Future<Output = AttemptResult> + Send>>),
    Blocking(JoinHandle<AttemptResult>),
}

impl Attempt {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<AttemptResult> {
        match self {
            Self::Async(future) => catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx)))
                .unwrap_or_else(|panic| Poll::Ready(AttemptResult::Failed(panicked(&*panic)))),
            Self::Blocking(thread) => Pin::new(thread)
                .poll(cx)
                .map(|ended| ended.unwrap_or_else(|error| AttemptResult::Failed(lost(error)))),
        }
    }
}

/// Why a thread gave no result.
fn lost(error: JoinError) -> Failure {
    match error.try_into_panic() {
        Ok(panic) => panicked(&*panic),
        Err(error) => Failure::panic(error.to_string()),
    }
}

/// A panic's message, as a failure.
pub(crate) fn panicked(panic: &(dyn std::any::Any + Send)) -> Failure {
    Failure::panic(panic_text(panic))
}

/// What a panic said.
pub(crate) fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    panic
        .downcast_ref::<&str>()
        .map(|s| (*s).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "panic without a message".into())
}
