//! Attempts are started here, in chunks, on the async runtime; blocking ones on threads of their
//! own. Every attempt ends with exactly one outcome, whatever its code does.
//!
//! A chunk is one task of the runtime: each attempt in it is polled once, and gets a task of its
//! own only if it did not end at once. A chunk that takes long gives the rest away, so that one
//! attempt that burns its first poll does not hold up the others.

use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use outlast_model::Failure;
use outlast_model::failure::type_name;
use outlast_model::task::{
    ActivityTask, AttemptOutcome, AttemptResult, AttemptToken, StepTask, StopReason,
};

use crate::attempt::{AttemptCtx, Link};
use crate::clock;
use crate::heartbeat::Heartbeats;
use crate::port::WorkerPort;
use crate::registry::{Body, Registry};
use crate::slots::Slots;
use crate::steps::Steps;
use crate::stop::Stop;

/// Attempts polled by one task of the runtime.
const CHUNK: usize = 32;
/// A chunk that took longer gives the rest away.
const CHUNK_TIME: Duration = Duration::from_micros(50);

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

type Outcome = Pin<Box<dyn Future<Output = AttemptOutcome> + Send>>;

/// Starts and stops attempts.
pub(crate) struct Dispatcher {
    pub(crate) registry: Arc<Registry>,
    pub(crate) slots: Arc<Slots>,
    pub(crate) steps: Arc<Steps>,
    pub(crate) runtime: tokio::runtime::Handle,
    pub(crate) abort_after: Duration,
    running: Mutex<BTreeMap<AttemptToken, Arc<Stop>>>,
}

impl Dispatcher {
    pub(crate) fn new(
        registry: Arc<Registry>,
        slots: Arc<Slots>,
        steps: Arc<Steps>,
        runtime: tokio::runtime::Handle,
        abort_after: Duration,
    ) -> Self {
        let running = Mutex::new(BTreeMap::new());
        Self {
            registry,
            slots,
            steps,
            runtime,
            abort_after,
            running,
        }
    }

    /// Takes what became durable.
    pub(crate) fn dispatch(self: &Arc<Self>, work: Vec<Dispatch>, port: &Arc<dyn WorkerPort>) {
        let mut chunk: Vec<Dispatch> = Vec::new();
        self.announce(&work);
        for item in work {
            match item {
                Dispatch::Stop(token, reason) => self.stop(token, reason),
                item @ (Dispatch::Activity(_) | Dispatch::Step(_)) => {
                    chunk.push(item);
                    if chunk.len() >= CHUNK {
                        self.spawn_chunk(std::mem::take(&mut chunk), port);
                    }
                }
            }
        }
        if !chunk.is_empty() {
            self.spawn_chunk(chunk, port);
        }
    }

    /// From here on these attempts can be told to stop, also while they wait for the runtime.
    fn announce(&self, work: &[Dispatch]) {
        let mut running = self.running();
        for item in work {
            let token = match item {
                Dispatch::Activity(task) => task.token,
                Dispatch::Step(task) => task.token,
                Dispatch::Stop(..) => continue,
            };
            running.insert(token, Arc::default());
        }
    }

    /// Tells every running attempt to stop.
    pub(crate) fn stop_all(&self, reason: StopReason) {
        for stop in self.running().values() {
            stop.fire(reason);
        }
    }

    /// How many attempts run.
    pub(crate) fn count(&self) -> usize {
        self.running().len()
    }

    fn stop(&self, token: AttemptToken, reason: StopReason) {
        if let Some(stop) = self.running().get(&token) {
            stop.fire(reason);
        }
    }

    fn spawn_chunk(self: &Arc<Self>, chunk: Vec<Dispatch>, port: &Arc<dyn WorkerPort>) {
        let (me, port) = (self.clone(), port.clone());
        drop(
            self.runtime
                .spawn(async move { me.run_chunk(chunk, &port).await }),
        );
    }

    async fn run_chunk(self: Arc<Self>, chunk: Vec<Dispatch>, port: &Arc<dyn WorkerPort>) {
        let begun = clock::now();
        let mut done = Vec::with_capacity(chunk.len());
        for item in chunk {
            let Some(mut outcome) = self.begin(item, port) else {
                continue;
            };
            if clock::now().duration_since(begun) > CHUNK_TIME {
                self.spawn_one(outcome, port.clone());
                continue;
            }
            match poll_fn(|cx| Poll::Ready(outcome.as_mut().poll(cx))).await {
                Poll::Ready(outcome) => done.push(self.ended(outcome)),
                Poll::Pending => self.spawn_one(outcome, port.clone()),
            }
        }
        if !done.is_empty() {
            port.complete_attempts(done);
        }
    }

    fn spawn_one(self: &Arc<Self>, outcome: Outcome, port: Arc<dyn WorkerPort>) {
        let me = self.clone();
        drop(self.runtime.spawn(async move {
            let outcome = outcome.await;
            port.complete_attempts(vec![me.ended(outcome)]);
        }));
    }

    /// The attempt is over: its slot is free before anybody hears of it.
    fn ended(&self, outcome: AttemptOutcome) -> AttemptOutcome {
        self.running().remove(&outcome.token);
        self.slots.give(outcome.token.kind);
        outcome
    }

    fn begin(self: &Arc<Self>, item: Dispatch, port: &Arc<dyn WorkerPort>) -> Option<Outcome> {
        match item {
            Dispatch::Activity(task) => Some(self.activity(*task, port)),
            Dispatch::Step(task) => Some(self.step(&task)),
            Dispatch::Stop(token, reason) => {
                self.stop(token, reason);
                None
            }
        }
    }

    fn activity(self: &Arc<Self>, task: ActivityTask, port: &Arc<dyn WorkerPort>) -> Outcome {
        let token = task.token;
        let Some(code) = self.registry.activities.get(&task.activity_type).cloned() else {
            let name = task.activity_type.clone();
            let text =
                format!("no worker has activity {name}; add .activity({name}) to the builder");
            return failed(token, Failure::application(type_name::NOT_REGISTERED, text));
        };
        let Some(stop) = self.begins(token) else {
            return stopped(token);
        };
        let beats = Heartbeats::new(token, task.heartbeat, port.clone());
        let heartbeats = Arc::new(beats);
        let input = task.input.clone();
        let link = Link {
            heartbeats: heartbeats.clone(),
            runtime: self.runtime.clone(),
        };
        let ctx = AttemptCtx::new(Arc::new(task), stop.clone(), link);
        let body = catch_unwind(AssertUnwindSafe(|| code(ctx, input)));
        let attempt = match body {
            Err(panic) => return failed(token, panicked(&*panic)),
            Ok(body) => self.body(body),
        };
        let grace = self.abort_after;
        Box::pin(async move {
            let result = until_stopped(attempt, &stop, grace).await;
            if !matches!(result, AttemptResult::Completed(_)) {
                heartbeats.flush();
            }
            AttemptOutcome { token, result }
        })
    }

    fn step(self: &Arc<Self>, task: &StepTask) -> Outcome {
        let token = task.token;
        let Some(code) = self.steps.get(task.run_id, token.seq) else {
            let text = format!("the code of step {} is not in memory", task.name);
            return failed(token, Failure::application(type_name::WORKER_LOST, text));
        };
        let Some(stop) = self.begins(token) else {
            return stopped(token);
        };
        let grace = self.abort_after;
        let body = match catch_unwind(AssertUnwindSafe(|| code())) {
            Ok(future) => Guarded(future),
            Err(panic) => return failed(token, panicked(&*panic)),
        };
        Box::pin(async move {
            let result = until_stopped(Box::pin(body), &stop, grace).await;
            AttemptOutcome { token, result }
        })
    }

    fn body(&self, body: Body) -> Pin<Box<dyn Future<Output = AttemptResult> + Send>> {
        match body {
            Body::Async(future) => Box::pin(Guarded(future)),
            Body::Blocking(run) => {
                let joined = self.runtime.spawn_blocking(move || {
                    catch_unwind(AssertUnwindSafe(run))
                        .unwrap_or_else(|panic| AttemptResult::Failed(panicked(&*panic)))
                });
                Box::pin(async move {
                    joined
                        .await
                        .unwrap_or_else(|e| AttemptResult::Failed(Failure::panic(e.to_string())))
                })
            }
        }
    }

    /// The way to stop this attempt; `None`: it was told to before it began.
    fn begins(&self, token: AttemptToken) -> Option<Arc<Stop>> {
        let stop = self.running().get(&token).cloned()?;
        stop.reason().is_none().then_some(stop)
    }

    fn running(&self) -> MutexGuard<'_, BTreeMap<AttemptToken, Arc<Stop>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn stopped(token: AttemptToken) -> Outcome {
    let result = AttemptResult::Canceled(None);
    Box::pin(std::future::ready(AttemptOutcome { token, result }))
}

fn failed(token: AttemptToken, failure: Failure) -> Outcome {
    Box::pin(std::future::ready(AttemptOutcome {
        token,
        result: AttemptResult::Failed(failure),
    }))
}

/// Runs the attempt to its end; once told to stop it has the grace to do so, then it is dropped
/// at its next await.
async fn until_stopped(
    mut attempt: Pin<Box<dyn Future<Output = AttemptResult> + Send>>,
    stop: &Arc<Stop>,
    grace: Duration,
) -> AttemptResult {
    // Made when the attempt first waits: most are done before.
    let mut expired: Option<Pin<Box<dyn Future<Output = ()> + Send>>> = None;
    poll_fn(move |cx| {
        if let Poll::Ready(result) = attempt.as_mut().poll(cx) {
            return Poll::Ready(result);
        }
        let expired = expired.get_or_insert_with(|| Box::pin(grace_is_over(stop.clone(), grace)));
        expired
            .as_mut()
            .poll(cx)
            .map(|()| AttemptResult::Canceled(None))
    })
    .await
}

async fn grace_is_over(stop: Arc<Stop>, grace: Duration) {
    stop.wait().await;
    tokio::time::sleep(grace).await;
}

/// A future whose panic is a failure like any other.
struct Guarded(Pin<Box<dyn Future<Output = AttemptResult> + Send>>);

impl Future for Guarded {
    type Output = AttemptResult;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<AttemptResult> {
        let polled = catch_unwind(AssertUnwindSafe(|| self.0.as_mut().poll(cx)));
        polled.unwrap_or_else(|panic| Poll::Ready(AttemptResult::Failed(panicked(&*panic))))
    }
}

/// A panic's message, as a failure.
pub(crate) fn panicked(panic: &(dyn std::any::Any + Send)) -> Failure {
    let text = panic
        .downcast_ref::<&str>()
        .map(|s| (*s).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "panic without a message".into());
    Failure::panic(text)
}
