//! What an activity knows about the attempt it runs in.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use outlast_model::task::{ActivityTask, StopReason};
use outlast_model::{AnswerToken, Headers, Payload, RunId, WorkflowId, limits};
use outlast_worker::Child;
use outlast_worker::attempt::AttemptCtx;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::answer::Later;
use crate::call_error::CallError;
use crate::error::Error;
use crate::state::States;
use crate::trace::Trace;

/// The context of a running attempt. Cheap to clone.
#[derive(Clone)]
pub struct ActivityCtx {
    attempt: Source,
    states: States,
}

/// Where the attempt comes from.
#[derive(Clone)]
enum Source {
    Worker(AttemptCtx),
    /// A unit test called the function: nobody listens, nobody stops it.
    Test,
}

impl ActivityCtx {
    pub(crate) fn new(attempt: AttemptCtx, states: States) -> Self {
        Self {
            attempt: Source::Worker(attempt),
            states,
        }
    }

    /// A context for unit tests that call an activity directly: attempt 1, never cancelled.
    pub fn test() -> Self {
        Self {
            attempt: Source::Test,
            states: States::default(),
        }
    }

    pub(crate) fn states(&self) -> &States {
        &self.states
    }

    fn task(&self) -> Option<&ActivityTask> {
        match &self.attempt {
            Source::Worker(attempt) => Some(attempt.info()),
            Source::Test => None,
        }
    }

    /// The number of this attempt, from 1.
    pub fn attempt(&self) -> u32 {
        self.task().map_or(1, |task| task.token.attempt.0)
    }

    /// The id of the workflow that asked for it.
    pub fn workflow_id(&self) -> WorkflowId {
        self.task()
            .map_or_else(|| WorkflowId::new("test"), |task| task.workflow_id.clone())
    }

    /// The run that asked for it.
    pub fn run_id(&self) -> RunId {
        self.task().map_or_else(RunId::default, |task| task.run_id)
    }

    /// What came with the call.
    pub fn headers(&self) -> Headers {
        self.task()
            .map(|task| task.headers.clone())
            .unwrap_or_default()
    }

    /// The same text in every attempt of this activity and in no other: give it to a service
    /// that refuses to do the same thing twice.
    pub fn idempotency_key(&self) -> String {
        let seq = self.task().map_or(0, |task| task.token.seq.0);
        format!("{}/{seq}", self.run_id())
    }

    /// Reports progress; the next attempt can read it back.
    ///
    /// # Errors
    /// [`CallError::Cancelled`] when the attempt should stop: `?` ends it the right way.
    pub fn heartbeat(&self, details: impl Serialize) -> Result<(), CallError> {
        if let Source::Worker(attempt) = &self.attempt {
            // Details that cannot be kept still prove that the attempt is alive.
            let details = Payload::encode(&details).ok();
            let kept = details.filter(|details| details.size() <= limits::PAYLOAD_BYTES);
            let mut details = kept.unwrap_or_else(Payload::null);
            if let Some(interceptors) = self.states.interceptors() {
                interceptors.heartbeat(self, &mut details);
            }
            attempt.heartbeat(details);
        }
        self.check_cancelled()
    }

    /// Lets somebody outside answer instead of this code: hand out the
    /// [`token`](Later::token), then return the [`Later`] as the error. The slot is free
    /// meanwhile; the timeouts of the activity go on.
    pub fn complete_later(&self) -> Later {
        let token = match &self.attempt {
            Source::Worker(attempt) => attempt.answer_token(),
            Source::Test => None,
        };
        Later::new(token.unwrap_or_else(|| AnswerToken::new("test")))
    }

    /// What an earlier attempt reported last, if anything, and if it has this type.
    pub fn last_heartbeat<T: DeserializeOwned>(&self) -> Option<T> {
        self.task()?.heartbeat_details.as_ref()?.decode().ok()
    }

    /// Starts a task beside the activity. It ends with the attempt at latest: before the outcome
    /// counts, it is dropped and waited for. Awaiting it gives what it returned; its panic is an
    /// error there, and is reported.
    ///
    /// # Panics
    /// In a unit test, outside of a tokio runtime.
    pub fn spawn<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> ActivityTaskHandle<T> {
        let child = match &self.attempt {
            Source::Worker(attempt) => attempt.spawn(work),
            Source::Test => Child::alone(work),
        };
        ActivityTaskHandle { child }
    }

    /// For loops and before long work: says so if the attempt should stop.
    ///
    /// # Errors
    /// [`CallError::Cancelled`] when it should: `?` ends the attempt the right way.
    pub fn check_cancelled(&self) -> Result<(), CallError> {
        match self.stop_reason() {
            Some(reason) => Err(CallError::cancelled(why(reason))),
            None => Ok(()),
        }
    }

    /// Sleeps, in real time, unless the attempt should stop.
    ///
    /// # Errors
    /// [`CallError::Cancelled`] as soon as it should.
    pub async fn sleep(&self, time: Duration) -> Result<(), CallError> {
        tokio::select! {
            biased;
            error = self.cancelled() => Err(error),
            () = tokio::time::sleep(time) => Ok(()),
        }
    }

    /// As [`sleep`](Self::sleep), for blocking activities: it blocks the thread.
    ///
    /// # Errors
    /// [`CallError::Cancelled`] as soon as the attempt should stop.
    pub fn sleep_blocking(&self, time: Duration) -> Result<(), CallError> {
        let reason = match &self.attempt {
            Source::Worker(attempt) => attempt.wait_blocking(time),
            Source::Test => {
                std::thread::sleep(time);
                None
            }
        };
        reason.map_or(Ok(()), |reason| Err(CallError::cancelled(why(reason))))
    }

    /// Whether the attempt should stop.
    pub fn is_cancelled(&self) -> bool {
        match &self.attempt {
            Source::Worker(attempt) => attempt.is_cancelled(),
            Source::Test => false,
        }
    }

    /// Why the attempt should stop, if it should.
    pub fn stop_reason(&self) -> Option<StopReason> {
        match &self.attempt {
            Source::Worker(attempt) => attempt.stop_reason(),
            Source::Test => None,
        }
    }

    /// Waits until the attempt should stop; then gives the error to return.
    pub async fn cancelled(&self) -> CallError {
        let reason = match &self.attempt {
            Source::Worker(attempt) => attempt.cancelled().await,
            Source::Test => std::future::pending().await,
        };
        CallError::cancelled(why(reason))
    }
}

/// A task beside an activity, started by [`ActivityCtx::spawn`]. Dropping this does not stop it.
#[derive(Debug)]
pub struct ActivityTaskHandle<T> {
    child: Child<T>,
}

impl<T> ActivityTaskHandle<T> {
    /// Drops it at its next await.
    pub fn abort(&self) {
        self.child.abort();
    }

    /// Whether it has ended.
    pub fn is_finished(&self) -> bool {
        self.child.is_finished()
    }
}

impl<T> Future for ActivityTaskHandle<T> {
    /// What it returned; [`CallError::Panicked`], or [`CallError::Cancelled`] if it was dropped.
    type Output = Result<T, CallError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let ended = Pin::new(&mut self.child).poll(cx);
        ended.map_err(|failure| CallError::observe::<Error>(Trace::new(failure)))
    }
}

pub(crate) fn why(reason: StopReason) -> &'static str {
    match reason {
        StopReason::Cancelled => "the activity was cancelled",
        StopReason::TimedOut => "the attempt ran out of time",
        StopReason::NotFound => "the run has ended",
        StopReason::Shutdown => "the worker is shutting down",
        StopReason::Paused => "the activity was paused",
        StopReason::Reset => "the activity was reset",
    }
}

impl fmt::Debug for ActivityCtx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ActivityCtx")
            .field("workflow_id", &self.workflow_id())
            .field("attempt", &self.attempt())
            .finish_non_exhaustive()
    }
}
