//! What an activity knows about the attempt it runs in.

use std::fmt;

use outlast_model::task::{ActivityTask, StopReason};
use outlast_model::{AnswerToken, Headers, Payload, RunId, WorkflowId, limits};
use outlast_worker::attempt::AttemptCtx;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::answer::Later;
use crate::call_error::CallError;
use crate::state::States;

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
        match self.stop_reason() {
            Some(reason) => Err(CallError::cancelled(why(reason))),
            None => Ok(()),
        }
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
