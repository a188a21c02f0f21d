//! A backend that is polled, such as a Temporal cluster: what it must offer for one task queue.
//!
//! A [`Connector`] opens a [`Handle`] for a queue; that takes a while and may fail. The owner of
//! the handles makes every call on them; nobody else holds one. An activation is one round: the
//! backend matches commands with its history, sends what follows from them as further
//! activations, and replays by sending old activations again. So the runtime only answers, and
//! an implementation of these traits only converts.
//!
//! Every call may take long; none blocks. A poll is never dropped before it has answered, and
//! there is one poll of each kind at a time. Completions run side by side.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use outlast_model::event::TaskFailedCause;
use outlast_model::task::{ActivityTask, AttemptResult, Query, StepTask, StopReason};
use outlast_model::{Activation, AnswerToken, Command, Failure, Payload, QueueName, RunId};

/// A future of a call on a backend.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Opens handles. One for all queues of an application.
pub trait Connector: Send + Sync {
    /// Opens a handle for a queue. Also called to open it anew with the same options.
    fn open<'a>(
        &'a self,
        options: &'a QueueOptions,
    ) -> BoxFuture<'a, Result<Arc<dyn Handle>, OpenError>>;
}

/// What a backend needs to know to serve one queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueOptions {
    /// The queue.
    pub queue: QueueName,
    /// Instances that may be kept in memory.
    pub cached_runs: usize,
    /// Activations under way at a time.
    pub slice_slots: usize,
    /// Attempts of activities under way at a time.
    pub activity_slots: usize,
    /// Steps under way at a time.
    pub step_slots: usize,
    /// Requests for workflow tasks that wait at the backend at a time.
    pub workflow_pollers: usize,
    /// Requests for activities that wait at the backend at a time.
    pub activity_pollers: usize,
    /// How long a workflow task waits for the worker that has its run in memory.
    pub sticky_timeout: Duration,
    /// The longest interval between two heartbeats that are sent on.
    pub longest_heartbeat: Duration,
    /// The interval for activities without a heartbeat timeout.
    pub default_heartbeat: Duration,
    /// Completions leave one after the other for the whole queue, not only for each run.
    pub one_completion_at_a_time: bool,
}

impl QueueOptions {
    /// The defaults, for this queue.
    pub fn new(queue: QueueName) -> Self {
        Self {
            queue,
            cached_runs: 1_000,
            slice_slots: 200,
            activity_slots: 200,
            step_slots: 200,
            workflow_pollers: 5,
            activity_pollers: 5,
            sticky_timeout: Duration::from_secs(5),
            longest_heartbeat: Duration::from_secs(60),
            default_heartbeat: Duration::from_secs(30),
            one_completion_at_a_time: false,
        }
    }
}

/// Why a handle could not be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// It may work later.
    #[error("OL-4301: the backend cannot be reached: {0}; it will be tried again")]
    Transient(String),
    /// It will not work without a change: wrong namespace, wrong key, too old a server.
    #[error("OL-4302: the backend refuses this worker: {0}")]
    Refused(String),
}

/// Why a poll gave nothing. The contract by which pollers end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PollError {
    /// The handle is shut down: there will be no more.
    #[error("OL-4303: the handle is shut down")]
    Shutdown,
    /// It may work later, on this handle.
    #[error("OL-4304: the backend did not answer: {0}; it will be asked again")]
    Transient(String),
    /// It will not work on this handle.
    #[error("OL-4305: the handle is broken: {0}; it will be opened anew")]
    Fatal(String),
}

/// Why an answer was not taken. Whatever it is: the backend hands the work out again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompleteError {
    /// The handle is shut down, or does not know the activation or attempt.
    #[error("OL-4306: the backend no longer waits for this answer: {0}")]
    Gone(String),
    /// The answer breaks a rule of the backend.
    #[error("OL-4307: the backend refuses this answer: {0}")]
    Refused(String),
}

/// One queue at a polled backend.
pub trait Handle: Send + Sync {
    /// Waits for news for a run. One call at a time; never dropped before it answers.
    fn poll_activation(&self) -> BoxFuture<'_, Result<PolledActivation, PollError>>;

    /// Answers an activation. Calls for different runs may overlap.
    fn complete_activation(
        &self,
        run_id: RunId,
        completion: Completion,
    ) -> BoxFuture<'_, Result<(), CompleteError>>;

    /// Waits for an attempt to run, or one to stop. One call at a time; never dropped before it
    /// answers.
    fn poll_activity(&self) -> BoxFuture<'_, Result<PolledActivity, PollError>>;

    /// Says how an attempt ended.
    fn complete_activity(
        &self,
        token: BackendToken,
        result: AttemptResult,
    ) -> BoxFuture<'_, Result<(), CompleteError>>;

    /// A running attempt reports. Must not block.
    fn heartbeat(&self, token: &BackendToken, details: Payload);

    /// Asks the backend to send [`PolledWork::Evict`] for this run.
    fn request_eviction(&self, run_id: RunId);

    /// Begins to stop: no new work; polls go on until they answer [`PollError::Shutdown`].
    fn initiate_shutdown(&self);

    /// Ends it. Called once, after both polls have answered [`PollError::Shutdown`].
    fn finalize(&self) -> BoxFuture<'_, ()>;
}

/// Something for a run. Must be answered, or the run waits.
#[derive(Clone, Debug, PartialEq)]
pub struct PolledActivation {
    /// The run.
    pub run_id: RunId,
    /// What for.
    pub work: PolledWork,
}

/// What the backend wants of a run's instance.
#[derive(Clone, Debug, PartialEq)]
pub enum PolledWork {
    /// News, live or replayed; the first for an instance begins with `Job::Initialize`, which
    /// names the workflow. Answered by [`Completion::Commands`] or [`Completion::Failed`].
    Activate(Activation),
    /// Questions, which come alone. Answered by [`Completion::Queried`], in the same order.
    Ask(Vec<PolledQuery>),
    /// The instance is to be forgotten. Answered by [`Completion::Evicted`].
    Evict {
        /// Why, for people.
        reason: String,
    },
}

/// A question, and the backend's name for it.
#[derive(Clone, Debug, PartialEq)]
pub struct PolledQuery {
    /// The backend's name for it.
    pub id: String,
    /// The question.
    pub query: Query,
}

/// The answer to an activation.
#[derive(Clone, Debug, PartialEq)]
pub enum Completion {
    /// What the code asked for, in its order.
    Commands(Vec<Command>),
    /// The answers to questions, each with the backend's name for the question.
    Queried(Vec<(String, Result<Payload, Failure>)>),
    /// The code could not go on.
    Failed {
        /// Why, for a program.
        cause: TaskFailedCause,
        /// Why, for a person.
        failure: Failure,
    },
    /// The instance is forgotten.
    Evicted,
}

/// The backend's own name for an attempt.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BackendToken(pub Vec<u8>);

/// Something about an attempt.
#[derive(Clone, Debug, PartialEq)]
pub enum PolledActivity {
    /// Run it.
    Start(BackendToken, PolledAttempt),
    /// It should stop.
    Cancel(BackendToken, StopReason),
}

impl BackendToken {
    /// As what answers an attempt from outside: `h1.` and its bytes as hexadecimal digits.
    pub fn answer(&self) -> AnswerToken {
        let digits = self.0.iter().map(|byte| format!("{byte:02x}"));
        AnswerToken::new(format!("h1.{}", digits.collect::<String>()))
    }

    /// The bytes in what [`answer`](Self::answer) made; `None` for any other text.
    pub fn read(token: &AnswerToken) -> Option<Self> {
        let digits = token.as_str().strip_prefix("h1.")?.as_bytes();
        let pairs = digits.chunks(2).map(|pair| {
            let text = std::str::from_utf8(pair)
                .ok()
                .filter(|text| text.len() == 2)?;
            u8::from_str_radix(text, 16).ok()
        });
        pairs.collect::<Option<Vec<u8>>>().map(Self)
    }
}

/// An attempt to run. Of its model token only kind, number and attempt are the backend's: the
/// rest, and the task queue, are filled in by whoever runs it.
#[derive(Clone, Debug, PartialEq)]
pub enum PolledAttempt {
    /// Of an activity.
    Activity(Box<ActivityTask>),
    /// Of a step, whose code is with the instance.
    Step(StepTask),
}
