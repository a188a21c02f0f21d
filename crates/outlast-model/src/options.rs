//! Options of durable calls: timeouts, retries, what a cancel means.

use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use minicbor::{Decode, Encode};

use crate::id::QueueName;
use crate::start::ReusePolicy;

/// When and how often a failed attempt is tried again. The default is Temporal's: one second,
/// doubling, at most a hundred times the first pause, without end.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct RetryPolicy {
    /// Pause after the first failed attempt.
    #[cbor(n(0), with = "crate::cbor::duration")]
    pub initial: Duration,
    /// Factor from one pause to the next, at least 1.
    #[n(1)]
    pub coefficient: f64,
    /// Longest pause.
    #[cbor(n(2), with = "crate::cbor::duration")]
    pub max_interval: Duration,
    /// Attempts in all; 0 means without end.
    #[n(3)]
    pub max_attempts: u32,
    /// Application failure types that are never retried.
    #[n(4)]
    pub non_retryable: Vec<String>,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            initial: Duration::from_secs(1),
            coefficient: 2.0,
            max_interval: Duration::from_secs(100),
            max_attempts: 0,
            non_retryable: Vec::new(),
        }
    }
}

impl RetryPolicy {
    /// At most `attempts` attempts, the first included.
    pub fn times(attempts: u32) -> Self {
        Self {
            max_attempts: attempts,
            ..Self::default()
        }
    }

    /// One attempt.
    pub fn never() -> Self {
        Self::times(1)
    }

    /// Sets the first pause, and the longest to a hundred times it.
    #[must_use]
    pub fn initial(mut self, pause: Duration) -> Self {
        self.initial = pause;
        self.max_interval = pause.saturating_mul(100);
        self
    }

    /// Sets the factor between pauses.
    #[must_use]
    pub fn coefficient(mut self, factor: f64) -> Self {
        self.coefficient = factor;
        self
    }

    /// Sets the longest pause.
    #[must_use]
    pub fn max_interval(mut self, pause: Duration) -> Self {
        self.max_interval = pause;
        self
    }

    /// The coefficient as pauses grow by it: finite, at least 1, and 1 if it is no number. Records
    /// and programs can say anything.
    pub fn factor(&self) -> f64 {
        if self.coefficient >= 1.0 {
            self.coefficient.min(f64::MAX)
        } else {
            1.0
        }
    }

    /// Whether the number of attempts is limited.
    pub fn is_bounded(&self) -> bool {
        self.max_attempts > 0
    }
}

/// What cancelling an operation does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum CancelMode {
    /// The request is sent, the future resolves cancelled.
    #[default]
    #[n(0)]
    Try,
    /// The request is sent, the future resolves when the attempt has ended.
    #[n(1)]
    Wait,
    /// Nobody is told, the future resolves cancelled.
    #[n(2)]
    Abandon,
}

/// How urgent something is among what waits in the same task queue: 1 comes first, 5 last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
#[cbor(transparent)]
pub struct Priority(#[n(0)] u8);

impl Priority {
    /// What comes first.
    pub const FIRST: Self = Self(1);
    /// What comes last.
    pub const LAST: Self = Self(5);

    /// From 1, the most urgent, to 5, the least; what lies outside is the nearer of the two.
    pub const fn new(key: u8) -> Self {
        match key {
            0 => Self::FIRST,
            1..=5 => Self(key),
            6.. => Self::LAST,
        }
    }

    /// From 1 to 5.
    pub const fn key(self) -> u8 {
        self.0
    }
}

impl Default for Priority {
    fn default() -> Self {
        Self(3)
    }
}

/// Options of one activity.
#[derive(Clone, Debug, Default, PartialEq, Encode, Decode)]
pub struct ActivityOptions {
    /// All attempts together.
    #[cbor(n(0), with = "crate::cbor::opt_duration", has_nil)]
    pub schedule_to_close: Option<Duration>,
    /// Until a worker takes it.
    #[cbor(n(1), with = "crate::cbor::opt_duration", has_nil)]
    pub schedule_to_start: Option<Duration>,
    /// One attempt.
    #[cbor(n(2), with = "crate::cbor::opt_duration", has_nil)]
    pub start_to_close: Option<Duration>,
    /// Between two heartbeats.
    #[cbor(n(3), with = "crate::cbor::opt_duration", has_nil)]
    pub heartbeat: Option<Duration>,
    /// Retries.
    #[n(4)]
    pub retry: RetryPolicy,
    /// What a cancel does.
    #[n(5)]
    pub cancel: CancelMode,
    /// The task queue, if not the workflow's own.
    #[n(6)]
    pub queue: Option<QueueName>,
    /// How urgent it is among what waits in its queue; in a record it is filled in.
    #[n(7)]
    pub priority: Option<Priority>,
}

/// Options of one step.
#[derive(Clone, Debug, Default, PartialEq, Encode, Decode)]
pub struct StepOptions {
    /// Retries.
    #[n(0)]
    pub retry: RetryPolicy,
}

/// What becomes of a child when its parent ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum ParentClose {
    /// It is ended at once.
    #[default]
    #[n(1)]
    Terminate,
    /// It goes on.
    #[n(2)]
    Abandon,
    /// It is asked to stop.
    #[n(3)]
    RequestCancel,
}

/// What cancelling a child does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum ChildCancel {
    /// Nobody is told, the future resolves cancelled.
    #[n(0)]
    Abandon,
    /// The request is sent, the future resolves cancelled.
    #[n(1)]
    Try,
    /// The request is sent, the future resolves when the child has ended.
    #[default]
    #[n(2)]
    Wait,
    /// The request is sent, the future resolves when the child has received it.
    #[n(3)]
    RequestOnly,
}

/// Options of one child workflow.
#[derive(Clone, Debug, Default, PartialEq, Encode, Decode)]
pub struct ChildOptions {
    /// Its task queue, if not the parent's own.
    #[n(0)]
    pub queue: Option<QueueName>,
    /// How long its run may take.
    #[cbor(n(1), with = "crate::cbor::opt_duration", has_nil)]
    pub run_timeout: Option<Duration>,
    /// What becomes of it when the parent ends.
    #[n(2)]
    pub parent_close: ParentClose,
    /// What a cancel does.
    #[n(3)]
    pub cancel: ChildCancel,
    /// What if a run with its id has ended.
    #[n(4)]
    pub reuse: ReusePolicy,
    /// How urgent it and what it calls are; in a record it is filled in.
    #[n(5)]
    pub priority: Option<Priority>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priorities_go_from_one_to_five_and_are_three_unless_told() {
        let keys = [0, 1, 2, 3, 4, 5, 6, 9, u8::MAX].map(|key| Priority::new(key).key());
        assert_eq!(keys, [1, 1, 2, 3, 4, 5, 5, 5, 5]);
        assert_eq!(Priority::default(), Priority::new(3));
        assert!(Priority::FIRST < Priority::default() && Priority::default() < Priority::LAST);
    }
}
