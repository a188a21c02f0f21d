//! The worker half: one task queue of a cluster, served by the SDK core's worker.
//!
//! The core polls, caches, replays and retries; this converts what it says and what it is told.
//! Three of its rules are kept here. Every activation is answered, also one we cannot read. An
//! attempt that stopped on its own, or because this process goes down, is not *cancelled* unless
//! the cluster asked for it. And the outcome of a step that is handed back is held until the run
//! is forgotten here, so that it is not recorded: the step runs again wherever the run goes next.

mod requests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use outlast_model::task::AttemptResult;
use outlast_model::{Payload, QueueName, RunId};
use outlast_worker::handle::{
    BackendToken, BoxFuture, CompleteError, Completion, Connector, Handle, OpenError, PollError,
    PolledActivation, PolledActivity, PolledAttempt, QueueOptions,
};
use temporalio_common::worker::WorkerTaskTypes;
use temporalio_sdk_core::{
    CoreRuntime, PollError as CorePollError, PollerBehavior, RuntimeOptions, Worker, WorkerConfig,
    WorkerValidationError, WorkerVersioningStrategy, init_worker,
};

use crate::connect::Cluster;
use crate::convert::attempt::{self, Asked};
use crate::convert::command::{self, Home};
use crate::convert::edition::Beginnings;
use crate::convert::{Unsupported, activation, failure, payload};
use crate::proto::core::activity_result::ActivityExecutionResult;
use crate::proto::core::workflow_activation::WorkflowActivation;
use crate::proto::core::workflow_completion::WorkflowActivationCompletion;
use crate::proto::core::{ActivityHeartbeat, ActivityTaskCompletion};
use crate::proto::enums;
use crate::queue::requests::Requests;

/// How long a closing handle waits for its last calls.
const LAST_CALLS: Duration = Duration::from_secs(5);
/// How often it looks.
const LOOK: Duration = Duration::from_millis(5);
/// What the cluster shows as the build of this worker.
const BUILD: &str = concat!("outlast-", env!("CARGO_PKG_VERSION"));

/// Opens queues of a cluster.
pub struct Queues {
    cluster: Cluster,
    runtime: CoreRuntime,
}

impl std::fmt::Debug for Queues {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queues")
            .field("cluster", &self.cluster)
            .finish_non_exhaustive()
    }
}

impl Queues {
    /// For this cluster. Must be called inside a Tokio runtime: the core's tasks run there.
    ///
    /// # Errors
    /// [`OpenError::Refused`] when the core cannot start.
    pub fn new(cluster: Cluster) -> Result<Self, OpenError> {
        let refused = |why: String| OpenError::Refused(format!("the SDK core: {why}"));
        // The cluster's own heartbeats of workers say nothing that our health does not.
        let options = RuntimeOptions::builder().heartbeat_interval(None).build();
        let options = options.map_err(refused)?;
        let runtime = CoreRuntime::new_assume_tokio(options);
        let runtime = runtime.map_err(|error| refused(error.to_string()))?;
        Ok(Self { cluster, runtime })
    }

    fn config(&self, options: &QueueOptions) -> Result<WorkerConfig, OpenError> {
        let pollers = PollerBehavior::SimpleMaximum;
        let requests = Requests::of(options);
        let config = WorkerConfig::builder()
            .namespace(self.cluster.namespace.to_string())
            .task_queue(options.queue.as_str().to_owned())
            .task_types(WorkerTaskTypes::all())
            .versioning_strategy(WorkerVersioningStrategy::None {
                build_id: BUILD.to_owned(),
            })
            .max_cached_workflows(options.cached_runs)
            .max_outstanding_workflow_tasks(options.slice_slots)
            .max_outstanding_activities(options.activity_slots)
            .max_outstanding_local_activities(options.step_slots)
            .workflow_task_poller_behavior(pollers(requests.workflow))
            .nonsticky_to_sticky_poll_ratio(requests::SHARED)
            .activity_task_poller_behavior(pollers(requests.activity))
            .sticky_queue_schedule_to_start_timeout(options.sticky_timeout)
            .max_heartbeat_throttle_interval(options.longest_heartbeat)
            .default_heartbeat_throttle_interval(options.default_heartbeat)
            // The engine threads drop their instances by themselves.
            .ignore_evicts_on_shutdown(true)
            // A queue that is opened anew may meet its predecessor's registration.
            .skip_client_worker_set_check(true)
            .build();
        config.map_err(OpenError::Refused)
    }
}

impl Connector for Queues {
    fn open<'a>(
        &'a self,
        options: &'a QueueOptions,
    ) -> BoxFuture<'a, Result<Arc<dyn Handle>, OpenError>> {
        Box::pin(async move {
            let config = self.config(options)?;
            let connection = self.cluster.connection.clone();
            let worker = init_worker(&self.runtime, config, connection);
            let worker = worker.map_err(|error| OpenError::Refused(error.to_string()))?;
            worker.validate().await.map_err(|error| not_valid(&error))?;
            let queue: Arc<dyn Handle> = Arc::new(Queue {
                worker: Mutex::new(Some(Arc::new(worker))),
                namespace: self.cluster.namespace.clone(),
                queue: options.queue.clone(),
                attempts: Mutex::default(),
                beginnings: Beginnings::default(),
            });
            Ok(queue)
        })
    }
}

fn not_valid(error: &WorkerValidationError) -> OpenError {
    match error {
        WorkerValidationError::NamespaceDescribeError { source, namespace } => {
            let refusal = crate::refusal::general(source, namespace);
            let text = format!("{}: {refusal}", refusal.code());
            match refusal.code() {
                "OL-4001" | "OL-4002" | "OL-4003" => OpenError::Refused(text),
                _ => OpenError::Transient(text),
            }
        }
    }
}

/// One queue.
struct Queue {
    /// `None` once it is finalized.
    worker: Mutex<Option<Arc<Worker>>>,
    namespace: Arc<str>,
    queue: QueueName,
    attempts: Mutex<Attempts>,
    beginnings: Beginnings,
}

/// What must be remembered of attempts under way.
#[derive(Default)]
struct Attempts {
    /// The cluster wants these to stop.
    asked: BTreeSet<BackendToken>,
    /// Steps, with their runs.
    steps: BTreeMap<BackendToken, RunId>,
    /// Steps that are handed back as soon as their run is forgotten.
    handed_back: BTreeMap<RunId, Vec<BackendToken>>,
}

impl Queue {
    fn worker(&self) -> Option<Arc<Worker>> {
        self.worker
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn attempts(&self) -> MutexGuard<'_, Attempts> {
        self.attempts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn home(&self) -> Home<'_> {
        Home {
            namespace: &self.namespace,
            queue: &self.queue,
        }
    }

    async fn next_activation(&self) -> Result<PolledActivation, PollError> {
        let worker = self.worker().ok_or(PollError::Shutdown)?;
        loop {
            let wire = worker
                .poll_workflow_activation()
                .await
                .map_err(poll_error)?;
            let run = wire.run_id.clone();
            match polled(wire, &self.queue) {
                Ok(polled) => {
                    self.beginnings.hear(&polled);
                    return Ok(polled);
                }
                Err(error) => {
                    // A refusal of the core changes nothing: the run is unreadable either way.
                    drop(
                        worker
                            .complete_workflow_activation(unreadable(run, &error))
                            .await,
                    );
                }
            }
        }
    }

    async fn next_activity(&self) -> Result<PolledActivity, PollError> {
        let worker = self.worker().ok_or(PollError::Shutdown)?;
        loop {
            let wire = worker.poll_activity_task().await.map_err(poll_error)?;
            let token = wire.task_token.clone();
            match attempt::polled(wire, &self.queue) {
                Ok(polled) => {
                    self.remember(&polled);
                    return Ok(polled);
                }
                Err(error) => {
                    let result = AttemptResult::Failed(outlast_model::Failure::application(
                        "outlast.Unsupported",
                        error.to_string(),
                    ));
                    let result = attempt::result(result, Asked::Not);
                    drop(worker.complete_activity_task(ended(token, result)).await);
                }
            }
        }
    }

    fn remember(&self, polled: &PolledActivity) {
        let mut attempts = self.attempts();
        match polled {
            PolledActivity::Start(token, PolledAttempt::Step(step)) => {
                attempts.steps.insert(token.clone(), step.run_id);
            }
            PolledActivity::Start(_, PolledAttempt::Activity(_)) => {}
            PolledActivity::Cancel(token, _) => {
                attempts.asked.insert(token.clone());
            }
        }
    }

    async fn complete(&self, run_id: RunId, completion: Completion) -> Result<(), CompleteError> {
        let gone = || CompleteError::Gone("the queue is closed".into());
        let worker = self.worker().ok_or_else(gone)?;
        let is_eviction = matches!(completion, Completion::Evicted);
        let mut wire = command::completion(run_id.to_string(), completion, &self.home());
        self.beginnings.tell(run_id, &mut wire);
        let completed = worker.complete_workflow_activation(wire).await;
        if is_eviction {
            self.release(&worker, run_id).await;
        }
        completed.map_err(|error| CompleteError::Refused(error.to_string()))
    }

    /// The run is forgotten: nothing its steps say is recorded any more.
    async fn release(&self, worker: &Worker, run_id: RunId) {
        let tokens = self.attempts().handed_back.remove(&run_id);
        for token in tokens.unwrap_or_default() {
            let result = attempt::result(AttemptResult::Canceled(None), Asked::ByCluster);
            drop(worker.complete_activity_task(ended(token.0, result)).await);
        }
    }

    async fn end(&self, token: BackendToken, result: AttemptResult) -> Result<(), CompleteError> {
        let gone = || CompleteError::Gone("the queue is closed".into());
        let worker = self.worker().ok_or_else(gone)?;
        let (asked, step) = {
            let mut attempts = self.attempts();
            let asked = attempts.asked.remove(&token);
            (asked, attempts.steps.remove(&token))
        };
        let asked = if asked { Asked::ByCluster } else { Asked::Not };
        if let (Some(run_id), true) = (step, attempt::is_handed_back(&result, asked)) {
            self.hand_back(&worker, run_id, token);
            return Ok(());
        }
        let result = attempt::result(result, asked);
        let completed = worker.complete_activity_task(ended(token.0, result)).await;
        completed.map_err(|error| CompleteError::Refused(error.to_string()))
    }

    fn hand_back(&self, worker: &Worker, run_id: RunId, token: BackendToken) {
        let mut attempts = self.attempts();
        attempts.handed_back.entry(run_id).or_default().push(token);
        drop(attempts);
        worker.request_workflow_eviction(&run_id.to_string());
    }

    /// The core wants to be the last one who holds its worker.
    async fn close(&self) {
        let taken = self
            .worker
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let Some(mut worker) = taken else {
            return;
        };
        let runs: Vec<RunId> = self.attempts().handed_back.keys().copied().collect();
        for run_id in runs {
            self.release(&worker, run_id).await;
        }
        let begun = tokio::time::Instant::now();
        while begun.elapsed() < LAST_CALLS {
            match Arc::try_unwrap(worker) {
                Ok(worker) => {
                    worker.finalize_shutdown().await;
                    return;
                }
                Err(shared) => worker = shared,
            }
            tokio::time::sleep(LOOK).await;
        }
        worker.shutdown().await;
    }
}

impl Handle for Queue {
    fn poll_activation(&self) -> BoxFuture<'_, Result<PolledActivation, PollError>> {
        Box::pin(self.next_activation())
    }

    fn complete_activation(
        &self,
        run_id: RunId,
        completion: Completion,
    ) -> BoxFuture<'_, Result<(), CompleteError>> {
        Box::pin(self.complete(run_id, completion))
    }

    fn poll_activity(&self) -> BoxFuture<'_, Result<PolledActivity, PollError>> {
        Box::pin(self.next_activity())
    }

    fn complete_activity(
        &self,
        token: BackendToken,
        result: AttemptResult,
    ) -> BoxFuture<'_, Result<(), CompleteError>> {
        Box::pin(self.end(token, result))
    }

    fn heartbeat(&self, token: &BackendToken, details: Payload) {
        if let Some(worker) = self.worker() {
            worker.record_activity_heartbeat(ActivityHeartbeat {
                task_token: token.0.clone(),
                details: vec![payload::to_wire(&details)],
            });
        }
    }

    fn request_eviction(&self, run_id: RunId) {
        if let Some(worker) = self.worker() {
            worker.request_workflow_eviction(&run_id.to_string());
        }
    }

    fn initiate_shutdown(&self) {
        if let Some(worker) = self.worker() {
            worker.initiate_shutdown();
        }
    }

    fn finalize(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.close())
    }
}

fn polled(wire: WorkflowActivation, queue: &QueueName) -> Result<PolledActivation, Unsupported> {
    activation::polled(wire, queue)
}

/// The core retries what may heal by itself; what it tells us does not.
fn poll_error(error: CorePollError) -> PollError {
    match error {
        CorePollError::ShutDown => PollError::Shutdown,
        CorePollError::TonicError(status) => {
            PollError::Fatal(format!("{:?}: {}", status.code(), status.message()))
        }
    }
}

/// The answer to an activation that has no meaning here.
fn unreadable(run_id: String, error: &Unsupported) -> WorkflowActivationCompletion {
    let why = outlast_model::Failure::application("outlast.Unsupported", error.to_string());
    WorkflowActivationCompletion::fail(
        run_id,
        failure::to_wire(&why),
        Some(enums::WorkflowTaskFailedCause::WorkflowWorkerUnhandledFailure),
    )
}

fn ended(task_token: Vec<u8>, result: ActivityExecutionResult) -> ActivityTaskCompletion {
    ActivityTaskCompletion {
        task_token,
        result: Some(result),
    }
}
