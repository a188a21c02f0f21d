//! Whether a failed attempt is followed by another, and when: Temporal's formula.

use core::time::Duration;

use outlast_model::failure::{Failure, FailureKind, RetryState, TimeoutKind};
use outlast_model::id::Attempt;
use outlast_model::{RetryPolicy, Timestamp, limits};

/// What the policy says about a failed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Try again at this time.
    Again(Timestamp),
    /// It stays failed.
    Stop(RetryState),
}

/// What the decision depends on besides policy and failure.
#[derive(Clone, Copy, Debug)]
pub struct Circumstances {
    /// The attempt that failed.
    pub attempt: Attempt,
    /// Somebody asked to stop.
    pub is_cancel_requested: bool,
    /// All attempts must be over by then.
    pub expires: Option<Timestamp>,
    /// The time.
    pub now: Timestamp,
}

/// Decides about a failed attempt. The order of the reasons is part of the contract.
pub fn decide(policy: &RetryPolicy, failure: &Failure, c: Circumstances) -> Verdict {
    if c.is_cancel_requested {
        return Verdict::Stop(RetryState::CancelRequested);
    }
    if let Some(state) = refused_by(policy, failure) {
        return Verdict::Stop(state);
    }
    if policy.is_bounded() && c.attempt.0 >= policy.max_attempts {
        return Verdict::Stop(RetryState::MaximumAttemptsReached);
    }
    let due = c.now.after(pause(policy, failure, c.attempt));
    if c.expires.is_some_and(|expires| due > expires) {
        return Verdict::Stop(RetryState::Timeout);
    }
    Verdict::Again(due)
}

fn refused_by(policy: &RetryPolicy, failure: &Failure) -> Option<RetryState> {
    match &failure.kind {
        FailureKind::Timeout {
            kind: TimeoutKind::ScheduleToStart | TimeoutKind::ScheduleToClose,
            ..
        } => Some(RetryState::Timeout),
        FailureKind::Timeout {
            kind: TimeoutKind::StartToClose | TimeoutKind::Heartbeat,
            ..
        } => None,
        FailureKind::Application {
            non_retryable: true,
            ..
        }
        | FailureKind::Server {
            non_retryable: true,
        }
        | FailureKind::Canceled { .. }
        | FailureKind::Terminated => Some(RetryState::NonRetryableFailure),
        FailureKind::Application { type_name, .. } => policy
            .non_retryable
            .contains(type_name)
            .then_some(RetryState::NonRetryableFailure),
        FailureKind::Server {
            non_retryable: false,
        }
        | FailureKind::Activity { .. }
        | FailureKind::Child { .. } => None,
    }
}

/// The pause after the given attempt: what the failure asks for, else the policy's formula.
pub fn pause(policy: &RetryPolicy, failure: &Failure, attempt: Attempt) -> Duration {
    let asked = match &failure.kind {
        FailureKind::Application {
            next_retry_delay, ..
        } => *next_retry_delay,
        FailureKind::Timeout { .. }
        | FailureKind::Canceled { .. }
        | FailureKind::Terminated
        | FailureKind::Server { .. }
        | FailureKind::Activity { .. }
        | FailureKind::Child { .. } => None,
    };
    asked
        .unwrap_or_else(|| backoff(policy, attempt))
        .min(limits::DELAY)
}

/// `initial * coefficient^(attempt - 1)`, at most the longest interval: saturates, whatever the
/// policy says. A longest interval of zero is none given.
pub fn backoff(policy: &RetryPolicy, attempt: Attempt) -> Duration {
    let longest = if policy.max_interval.is_zero() {
        limits::DELAY
    } else {
        policy.max_interval
    };
    let factor = power(policy.factor(), attempt.0.saturating_sub(1));
    times(policy.initial, factor).min(longest)
}

/// No length of time grows by no factor: zero times infinity is zero here, not "no number". What
/// is longer than a duration can say is the longest there is.
fn times(length: Duration, factor: f64) -> Duration {
    if length.is_zero() {
        return Duration::ZERO;
    }
    Duration::try_from_secs_f64(length.as_secs_f64() * factor).unwrap_or(Duration::MAX)
}

fn power(mut base: f64, mut exponent: u32) -> f64 {
    let mut result = 1.0;
    while exponent > 0 {
        if exponent & 1 == 1 {
            result *= base;
        }
        base *= base;
        exponent >>= 1;
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_default_doubles_up_to_a_hundred_seconds() {
        let policy = RetryPolicy::default();
        let pauses: std::vec::Vec<u64> = (1..=9)
            .map(|n| backoff(&policy, Attempt(n)).as_secs())
            .collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 100, 100]);
    }

    #[test]
    fn no_first_pause_is_no_pause_after_any_number_of_attempts() {
        let policy = RetryPolicy::default().initial(Duration::ZERO);
        for attempt in [1, 2, 1_024, 1_025, 1_026, u32::MAX] {
            assert_eq!(backoff(&policy, Attempt(attempt)), Duration::ZERO);
        }
    }

    /// Whatever a program can build or a record can say.
    fn any_coefficient() -> impl Strategy<Value = f64> {
        prop_oneof![
            0.0..100.0f64,
            any::<f64>(),
            proptest::num::f64::ANY,
            proptest::num::f64::SUBNORMAL,
            Just(1.0),
            Just(1.0 + f64::EPSILON),
            Just(f64::MAX),
            Just(f64::INFINITY),
            Just(f64::NEG_INFINITY),
            Just(f64::NAN),
        ]
    }

    fn any_duration() -> impl Strategy<Value = Duration> {
        prop_oneof![
            Just(Duration::ZERO),
            Just(Duration::MAX),
            Just(Duration::from_nanos(1)),
            (0..u64::MAX / 2_000_000).prop_map(Duration::from_micros),
            (any::<u64>(), 0..1_000_000_000u32).prop_map(|(s, n)| Duration::new(s, n)),
        ]
    }

    fn any_attempt() -> impl Strategy<Value = u32> {
        prop_oneof![0..3_000u32, any::<u32>(), Just(1_025), Just(u32::MAX)]
    }

    proptest! {
        /// Pauses never shrink, never pass the longest, and are never longer than any delay.
        #[test]
        fn pauses_grow_and_are_bounded_whatever_the_policy_says(
            initial in any_duration(),
            coefficient in any_coefficient(),
            longest in any_duration(),
            attempt in any_attempt(),
        ) {
            let policy = RetryPolicy {
                initial,
                coefficient,
                max_interval: longest,
                ..RetryPolicy::default()
            };
            let this = backoff(&policy, Attempt(attempt));
            let next = backoff(&policy, Attempt(attempt.saturating_add(1)));
            prop_assert!(this <= next);
            if !longest.is_zero() {
                prop_assert!(next <= longest);
            }
            let failure = Failure::application("Busy", "busy");
            prop_assert!(pause(&policy, &failure, Attempt(attempt)) <= limits::DELAY);
            prop_assert_eq!(this.is_zero(), initial.is_zero());
        }
    }
}
