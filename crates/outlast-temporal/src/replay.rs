//! One exported history through the SDK core's own replayer: the core cuts it into activations
//! and holds the answers against it, as it does for every official SDK.
//!
//! What is replayed is the text, not our events: so an export of Outlast is judged by code that
//! knows nothing of Outlast.

use std::time::Duration;

use outlast_model::{Event, QueueName, RunId, WorkflowId};
use outlast_worker::handle::{BoxFuture, Completion, PolledActivation};
use temporalio_common::worker::WorkerTaskTypes;
use temporalio_sdk_core::replay::{HistoryFeeder, HistoryForReplay, ReplayWorkerInput};
use temporalio_sdk_core::{
    PollError, Worker, WorkerConfig, WorkerVersioningStrategy, init_replay_worker,
};

use crate::convert::command::{self, Home};
use crate::convert::json::{self, NotHistory};
use crate::convert::{Unsupported, activation, history};
use crate::proto::core::workflow_activation::WorkflowActivation;
use crate::proto::core::workflow_activation::remove_from_cache::EvictionReason;
use crate::proto::core::workflow_activation::workflow_activation_job::Variant;
use crate::proto::history as wire;

/// The core reads all of it from memory; if it says nothing for so long, it waits for something
/// that a replay does not have.
const SILENCE: Duration = Duration::from_secs(20);
/// Only the core's own messages name it.
const NAMESPACE: &str = "replay";

/// Why a history did not replay.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// The text cannot be read.
    #[error(transparent)]
    NotHistory(#[from] NotHistory),
    /// It tells of something that Outlast does not have.
    #[error("OL-4013: {0}")]
    Unsupported(#[from] Unsupported),
    /// The core found a difference, or the code failed.
    #[error("OL-4014: the SDK core refuses this history ({reason}): {why}")]
    Refused {
        /// The core's name for the reason.
        reason: String,
        /// What it found.
        why: String,
    },
    /// The core cannot be used, or does not come to an end.
    #[error("OL-4015: the SDK core cannot replay: {0}")]
    Core(String),
}

/// The events of an exported history, for Outlast's own replayer.
///
/// # Errors
/// The text is not a history, or tells of something that Outlast does not have.
pub fn events(json: &str) -> Result<Vec<Event>, ReplayError> {
    let wire = json::history(json)?;
    Ok(history::from_wire(wire, &WorkflowId::new(""))?)
}

/// A history on its way through the core.
#[expect(
    missing_debug_implementations,
    reason = "the core's worker has nothing to print"
)]
pub struct Replay {
    worker: Worker,
    queue: QueueName,
}

impl Replay {
    /// Of this text. Must be called inside a Tokio runtime: the core's tasks run there.
    ///
    /// # Errors
    /// The text is not a history, or the core cannot start.
    pub fn of(json: &str) -> BoxFuture<'_, Result<Self, ReplayError>> {
        Box::pin(Self::fed(json))
    }

    async fn fed(json: &str) -> Result<Self, ReplayError> {
        let history = json::history(json)?;
        let (workflow_id, queue) = place(&history)?;
        let refused = |why: String| ReplayError::Core(why);
        let config = config(&queue).map_err(refused)?;
        let (feeder, histories) = HistoryFeeder::new(1);
        let fed = feeder.feed(HistoryForReplay::new(history, workflow_id));
        fed.await.map_err(|error| refused(error.to_string()))?;
        let worker = init_replay_worker(ReplayWorkerInput::new(config, histories));
        Ok(Self {
            worker: worker.map_err(|error| refused(error.to_string()))?,
            queue,
        })
    }

    /// What the code is told next; `None` when all of it was replayed.
    ///
    /// # Errors
    /// The core found a difference, or does not go on.
    pub fn next(&self) -> BoxFuture<'_, Result<Option<PolledActivation>, ReplayError>> {
        Box::pin(self.told())
    }

    async fn told(&self) -> Result<Option<PolledActivation>, ReplayError> {
        let told = tokio::time::timeout(SILENCE, self.worker.poll_workflow_activation()).await;
        let wire = match told {
            Ok(Ok(wire)) => wire,
            Ok(Err(PollError::ShutDown)) => return Ok(None),
            Ok(Err(PollError::TonicError(status))) => {
                return Err(ReplayError::Core(status.message().to_owned()));
            }
            Err(_) => return Err(ReplayError::Core("it does not come to an end".into())),
        };
        if let Some(refused) = refusal(&wire) {
            return Err(refused);
        }
        Ok(Some(activation::polled(wire, &self.queue)?))
    }

    /// The code's answer.
    ///
    /// # Errors
    /// The core does not take it.
    pub fn answer(
        &self,
        run_id: RunId,
        completion: Completion,
    ) -> BoxFuture<'_, Result<(), ReplayError>> {
        Box::pin(self.taken(run_id, completion))
    }

    async fn taken(&self, run_id: RunId, completion: Completion) -> Result<(), ReplayError> {
        let home = Home {
            namespace: NAMESPACE,
            queue: &self.queue,
        };
        let wire = command::completion(run_id.to_string(), completion, &home);
        let taken = self.worker.complete_workflow_activation(wire).await;
        taken.map_err(|error| ReplayError::Core(error.to_string()))
    }

    /// Lets the core end its tasks.
    pub fn end(self) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            self.worker.initiate_shutdown();
            self.worker.finalize_shutdown().await;
        })
    }
}

/// Which run it was, and on which queue. The core takes a history without these for a mistake of
/// its own and panics.
fn place(history: &wire::History) -> Result<(String, QueueName), NotHistory> {
    use wire::history_event::Attributes::WorkflowExecutionStartedEventAttributes as Started;
    let first = history.events.first().and_then(|e| e.attributes.as_ref());
    let Some(Started(started)) = first else {
        return Err(NotHistory(
            "it does not begin with the start of a run".into(),
        ));
    };
    let missing = |field: &str| NotHistory(format!("event 1 has no {field}"));
    if started.original_execution_run_id.is_empty() {
        return Err(missing("originalExecutionRunId"));
    }
    if started.workflow_type.is_none() {
        return Err(missing("workflowType"));
    }
    let queue = started
        .task_queue
        .as_ref()
        .ok_or_else(|| missing("taskQueue"))?;
    Ok((
        started.workflow_id.clone(),
        QueueName::new(queue.name.as_str()),
    ))
}

fn config(queue: &QueueName) -> Result<WorkerConfig, String> {
    WorkerConfig::builder()
        .namespace(NAMESPACE.to_owned())
        .task_queue(queue.as_str().to_owned())
        .task_types(WorkerTaskTypes::workflow_only())
        .versioning_strategy(WorkerVersioningStrategy::None {
            build_id: String::new(),
        })
        .build()
}

/// The core forgets a run when all is replayed, and also when it cannot go on.
fn refusal(wire: &WorkflowActivation) -> Option<ReplayError> {
    let evicted = wire.jobs.iter().find_map(|job| match &job.variant {
        Some(Variant::RemoveFromCache(evicted)) => Some(evicted),
        _ => None,
    })?;
    match evicted.reason() {
        EvictionReason::LangRequested | EvictionReason::WorkflowExecutionEnding => None,
        reason => Some(ReplayError::Refused {
            reason: format!("{reason:?}"),
            why: evicted.message.clone(),
        }),
    }
}
