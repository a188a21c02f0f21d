//! The embedded backend: service and worker in one process, wired to each other.
//!
//! This is the only place where the two meet; neither learns of the other.

use std::future::ready;
use std::sync::{Arc, OnceLock, mpsc};
use std::time::Duration;

use outlast_model::event::UpdateRequest;
use outlast_model::start::{SignalRequest, StartReply, StartRequest, UpdateReply, UpdateStage};
use outlast_model::task::{
    ActivityTask, AttemptOutcome, AttemptResult, AttemptToken, Query, StopReason, TaskAnswer,
    TaskToken,
};
use outlast_model::view::{Description, ListFilter, RunOutcome, RunRef, Summary};
use outlast_model::{
    AnswerToken, Event, Failure, Payload, QueueName, Refusal, RequestId, RunId, WorkflowId,
};
use outlast_service::mail::Reply;
use outlast_service::service::{self, Service};
use outlast_service::shard::Turn;
use outlast_worker::port::{Answer, ClientPort, Lane, Next, WorkerPort};
use outlast_worker::state::WorkerState;
use outlast_worker::{Pace, Phase, Worker};

use crate::answer::token;
use crate::readers::Readers;
use crate::run_reply;

/// Service and worker of one process.
pub(crate) struct Embedded {
    service: Arc<Service>,
    readers: Readers,
}

impl Embedded {
    pub(crate) fn new(service: Arc<Service>) -> Arc<Self> {
        let readers = Readers::default();
        Arc::new(Self { service, readers })
    }
}

/// Says whether the queue is served here.
pub(crate) type Repair = Box<dyn Fn(&QueueName) -> bool + Send + Sync>;

/// Lives as long as the application; stops it in order when dropped.
pub(crate) struct Running {
    /// The store's side; `None` where runs live elsewhere.
    pub(crate) service: Option<Arc<Service>>,
    pub(crate) worker: Arc<Worker>,
    /// On a cluster every further queue has a worker of its own.
    others: Vec<Arc<Worker>>,
    /// Opens a queue's way to its backend anew, where there is one.
    repair: Option<Repair>,
    /// What was left behind, when it has stopped.
    left: OnceLock<Vec<String>>,
}

impl Running {
    pub(crate) fn new(service: Option<Arc<Service>>, worker: Arc<Worker>) -> Self {
        let left = OnceLock::new();
        Self {
            service,
            worker,
            others: Vec::new(),
            repair: None,
            left,
        }
    }

    /// Of several workers, which stop together.
    #[cfg(feature = "temporal")]
    pub(crate) fn with_others(mut self, others: Vec<Arc<Worker>>, repair: Repair) -> Self {
        self.others = others;
        self.repair = Some(repair);
        self
    }

    /// See [`App::recycle`](crate::App::recycle).
    pub(crate) fn recycle(&self, queue: &QueueName) -> bool {
        self.repair.as_ref().is_some_and(|repair| repair(queue))
    }

    /// Goes down in order when one of its workers has too many attempts that do not stop.
    pub(crate) fn stop_when_unfit(self: &Arc<Self>) {
        for worker in self.workers() {
            let me = Arc::downgrade(self);
            worker.when_unfit(move || {
                if let Some(me) = me.upgrade() {
                    me.stop(Pace::Orderly);
                }
            });
        }
    }

    fn workers(&self) -> impl Iterator<Item = &Arc<Worker>> {
        std::iter::once(&self.worker).chain(&self.others)
    }

    /// How its workers stand, together.
    pub(crate) fn state(&self) -> WorkerState {
        let others = self.others.iter().map(|other| other.state());
        others.fold(self.worker.state(), WorkerState::beside)
    }

    /// From now on, nobody waits longer than this allows.
    pub(crate) fn hurry(&self, pace: Pace) {
        self.workers().for_each(|worker| worker.hurry(pace));
    }

    /// Stops the worker in phases, makes durable what is decided, closes the store. The first
    /// caller does it, all wait for it. Returns what was left behind.
    pub(crate) fn stop(&self, pace: Pace) -> &[String] {
        self.hurry(pace);
        self.left.get_or_init(|| {
            let left = self.stop_workers();
            if let Some(service) = &self.service {
                // The mark of a clean stop is a convenience; nothing is lost without it.
                drop(service.close());
            }
            left
        })
    }
}

/// How long the store may take to close behind a worker that needed all of its time.
const CLOSING: Duration = Duration::from_secs(1);

impl Running {
    /// As [`stop`](Self::stop), but nobody waits longer than a shutdown may take: neither a
    /// listener of events nor a store that does not come back holds up the host's end. Names what
    /// is left behind, that among it.
    pub(crate) fn stop_in_time(self: Arc<Self>, pace: Pace) -> Vec<String> {
        let limit = self.worker.settings().shutdown_hard_stop + CLOSING;
        let (sender, ended) = mpsc::channel();
        let me = self.clone();
        let stop = move || {
            let left = me.stop(pace).to_vec();
            drop(me);
            // It may be too late.
            drop(sender.send(left));
        };
        let thread = std::thread::Builder::new().name("outlast-end".into());
        if thread.spawn(stop).is_err() {
            // No room for a thread: here, then.
            return self.stop(pace).to_vec();
        }
        ended
            .recv_timeout(limit)
            .unwrap_or_else(|_| self.what_holds_it_up())
    }

    fn what_holds_it_up(&self) -> Vec<String> {
        let mut left: Vec<String> = self.workers().flat_map(|w| w.unfinished()).collect();
        let phases = self.workers().map(|worker| worker.phase());
        left.push(match phases.min_by_key(|phase| *phase) {
            Some(Phase::Stopped) | None => "the store, which does not close".into(),
            Some(phase) => format!(
                "the shutdown itself, in its phase {phase:?}: a listener of events or the backend \
                 does not come back"
            ),
        });
        left
    }

    /// All of them at once: each may take as long as a shutdown may take.
    fn stop_workers(&self) -> Vec<String> {
        std::thread::scope(|scope| {
            let others = self.others.iter().map(|other| {
                let thread = std::thread::Builder::new().name("outlast-stop".into());
                thread.spawn_scoped(scope, || other.stop())
            });
            let others: Vec<_> = others.collect();
            let mut left = self.worker.stop();
            for (other, stopping) in self.others.iter().zip(others) {
                // Without room for a thread, or if it panicked: here, then.
                let stopped = stopping.ok().and_then(|thread| thread.join().ok());
                left.extend(stopped.unwrap_or_else(|| other.stop()));
            }
            left
        })
    }
}

impl Drop for Running {
    /// Nobody waits here for attempts to finish; on a thread of an async runtime they could not
    /// even be told, since that is where they run.
    fn drop(&mut self) {
        let is_inside = tokio::runtime::Handle::try_current().is_ok();
        self.stop(if is_inside {
            Pace::Abrupt
        } else {
            Pace::Hurried
        });
    }
}

impl WorkerPort for Embedded {
    fn shards(&self) -> usize {
        self.service.shards()
    }

    fn drive(&self, shard: usize) -> Lane {
        Lane {
            shard,
            driver: self.service.drive(shard),
        }
    }

    fn next_task(&self, lane: Lane) -> Next {
        match self.service.next(lane.shard, lane.driver) {
            service::Next::Turn(Turn::Task(task)) => Next::Task(task),
            service::Next::Turn(Turn::Evict(run_id)) => Next::Evict(run_id),
            service::Next::Replaced => Next::Replaced,
            service::Next::Shutdown => Next::Shutdown,
        }
    }

    fn complete_task(&self, lane: Lane, token: TaskToken, answer: TaskAnswer) {
        self.service
            .complete(lane.shard, lane.driver, token, answer);
    }

    fn go_slow(&self, lane: Lane, token: TaskToken) {
        self.service.go_slow(lane.shard, token);
    }

    fn give_up(&self, lane: Lane, token: TaskToken, failure: Failure) {
        self.service.give_up(lane.shard, token, failure);
    }

    fn evicted(&self, lane: Lane, run_id: RunId) {
        self.service.evicted(lane.shard, run_id);
    }

    fn foreign_wake(&self, run_id: RunId) {
        self.service.foreign_wake(run_id);
    }

    fn may_go_on(&self, run_id: RunId) {
        self.service.may_go_on(run_id);
    }

    fn complete_attempts(&self, outcomes: Vec<AttemptOutcome>) {
        self.service.complete_attempts(outcomes);
    }

    fn heartbeat(&self, token: AttemptToken, details: Payload) {
        self.service.heartbeat(token, details);
    }

    fn drain(&self) {
        self.service.drain();
    }

    fn answer_token(&self, task: &ActivityTask) -> AnswerToken {
        token::write(task)
    }

    fn shutdown(&self) {
        self.service.shutdown();
    }
}

impl ClientPort for Embedded {
    fn start(&self, request: StartRequest) -> Answer<StartReply> {
        self.ask(|service, reply| service.start(request, reply, None))
    }

    fn run(&self, request: StartRequest) -> Answer<(RunId, RunOutcome)> {
        let (started, ended, answer) = run_reply::channel(request.workflow_id.clone());
        self.service.start(request, started, Some(ended));
        Box::pin(async move { received(answer.await) })
    }

    fn result(&self, run: RunRef) -> Answer<RunOutcome> {
        self.ask(|service, reply| service.result(run, reply))
    }

    fn signal(&self, run: RunRef, signal: SignalRequest) -> Answer<()> {
        self.ask(|service, reply| service.signal(run, signal, reply))
    }

    fn signal_with_start(
        &self,
        request: StartRequest,
        signal: SignalRequest,
    ) -> Answer<StartReply> {
        self.ask(|service, reply| service.signal_with_start(request, signal, reply))
    }

    fn update(
        &self,
        run: RunRef,
        update: UpdateRequest,
        stage: UpdateStage,
    ) -> Answer<UpdateReply> {
        let unanswered = unanswered(&run.workflow_id, &update);
        let (reply, answer) = channel();
        self.service.update(run, update, stage, reply);
        Box::pin(async move { answer.await.unwrap_or(Err(unanswered)) })
    }

    fn update_with_start(
        &self,
        request: StartRequest,
        update: UpdateRequest,
        stage: UpdateStage,
    ) -> Answer<(StartReply, UpdateReply)> {
        let unanswered = unanswered(&request.workflow_id, &update);
        let (started, start) = channel();
        let (updated, answer) = channel();
        self.service
            .update_with_start(request, update, stage, started, updated);
        Box::pin(async move {
            let reply = received(start.await)?;
            Ok((reply, answer.await.unwrap_or(Err(unanswered))?))
        })
    }

    fn query(&self, run: RunRef, query: Query) -> Answer<Payload> {
        self.ask(|service, reply| service.query(run, query, reply))
    }

    fn cancel(&self, run: RunRef, reason: String, request_id: Option<RequestId>) -> Answer<()> {
        self.ask(|service, reply| service.cancel(run, reason, request_id, reply))
    }

    fn terminate(&self, run: RunRef, reason: String) -> Answer<()> {
        self.ask(|service, reply| service.terminate(run, reason, reply))
    }

    fn answer_attempt(&self, token: AnswerToken, result: AttemptResult) -> Answer<()> {
        match token::read(&token) {
            Ok((id, of)) => {
                self.ask(|service, reply| service.answer_attempt(id, of, result, reply))
            }
            Err(refusal) => Box::pin(ready(Err(refusal))),
        }
    }

    fn report_attempt(&self, token: AnswerToken, details: Payload) -> Answer<Option<StopReason>> {
        match token::read(&token) {
            Ok((id, of)) => {
                self.ask(|service, reply| service.report_attempt(id, of, details, reply))
            }
            Err(refusal) => Box::pin(ready(Err(refusal))),
        }
    }

    fn retry(&self, run: RunRef) -> Answer<()> {
        self.ask(|service, reply| service.retry(run, reply))
    }

    fn describe(&self, run: RunRef) -> Answer<Description> {
        self.ask(|service, reply| service.describe(run, reply))
    }

    fn history(&self, run: RunRef) -> Answer<Vec<Event>> {
        self.read(move |service| service.history(&run))
    }

    fn list(&self, filter: ListFilter) -> Answer<Vec<Summary>> {
        self.read(move |service| service.list(&filter))
    }
}

impl Embedded {
    fn ask<T: Send + 'static>(&self, put: impl FnOnce(&Service, Reply<T>)) -> Answer<T> {
        let (reply, answer) = channel();
        put(&self.service, reply);
        Box::pin(async move { received(answer.await) })
    }

    /// Reads from the store without holding up the caller's thread.
    fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Service) -> Result<T, Refusal> + Send + 'static,
    ) -> Answer<T> {
        let (reply, answer) = channel();
        let service = self.service.clone();
        self.readers.give(Box::new(move || reply(read(&service))));
        Box::pin(async move { received(answer.await) })
    }
}

type Receiver<T> = tokio::sync::oneshot::Receiver<Result<T, Refusal>>;

fn channel<T: Send + 'static>() -> (Reply<T>, Receiver<T>) {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    // A caller who no longer listens is no reason to complain.
    (Box::new(move |answer| drop(sender.send(answer))), receiver)
}

/// What a caller hears whose update was taken in, and whose reply was dropped: it may be on disk.
fn unanswered(workflow_id: &WorkflowId, update: &UpdateRequest) -> Refusal {
    Refusal::Unanswered {
        workflow_id: workflow_id.clone(),
        update: update.id.clone(),
    }
}

/// A reply that was dropped unanswered: the application went down first, and nothing was written.
fn received<T>(
    answer: Result<Result<T, Refusal>, tokio::sync::oneshot::error::RecvError>,
) -> Result<T, Refusal> {
    answer.unwrap_or(Err(Refusal::ShuttingDown))
}
