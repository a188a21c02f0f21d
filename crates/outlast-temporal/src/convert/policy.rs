//! Retries and policies: what to do again, and what if an id is taken or a parent ends.

use outlast_model::options::{CancelMode, ChildCancel, ParentClose, Priority, RetryPolicy};
use outlast_model::start::{ConflictPolicy, ReusePolicy};

use super::time;
use crate::proto::core::child_workflow::{
    ChildWorkflowCancellationType, ParentClosePolicy as CoreParentClose,
};
use crate::proto::core::workflow_commands::ActivityCancellationType;
use crate::proto::{common, enums};

pub(crate) fn retry(policy: &RetryPolicy) -> common::RetryPolicy {
    common::RetryPolicy {
        initial_interval: Some(time::duration(policy.initial)),
        backoff_coefficient: policy.factor(),
        maximum_interval: Some(time::duration(policy.max_interval)),
        maximum_attempts: i32::try_from(policy.max_attempts).unwrap_or(i32::MAX),
        non_retryable_error_types: policy.non_retryable.clone(),
    }
}

/// What is not given is Temporal's default, which is ours.
pub(crate) fn retry_of(policy: Option<common::RetryPolicy>) -> RetryPolicy {
    let Some(policy) = policy else {
        return RetryPolicy::default();
    };
    let mut out = RetryPolicy::default();
    if let Some(initial) = time::given(policy.initial_interval) {
        out = out.initial(initial);
    }
    if let Some(longest) = time::given(policy.maximum_interval) {
        out = out.max_interval(longest);
    }
    if policy.backoff_coefficient >= 1.0 {
        out = out.coefficient(policy.backoff_coefficient);
    }
    out.max_attempts = u32::try_from(policy.maximum_attempts).unwrap_or(0);
    out.non_retryable = policy.non_retryable_error_types;
    out
}

pub(crate) fn priority(priority: Priority) -> common::Priority {
    common::Priority {
        priority_key: i32::from(priority.key()),
        ..common::Priority::default()
    }
}

/// Zero is what nobody has said.
pub(crate) fn priority_of(priority: Option<&common::Priority>) -> Option<Priority> {
    let key = priority.map_or(0, |priority| priority.priority_key);
    let key = u8::try_from(key).ok().filter(|key| *key > 0)?;
    Some(Priority::new(key))
}

pub(crate) fn activity_cancel(mode: CancelMode) -> ActivityCancellationType {
    match mode {
        CancelMode::Try => ActivityCancellationType::TryCancel,
        CancelMode::Wait => ActivityCancellationType::WaitCancellationCompleted,
        CancelMode::Abandon => ActivityCancellationType::Abandon,
    }
}

pub(crate) fn child_cancel(mode: ChildCancel) -> ChildWorkflowCancellationType {
    match mode {
        ChildCancel::Abandon => ChildWorkflowCancellationType::Abandon,
        ChildCancel::Try => ChildWorkflowCancellationType::TryCancel,
        ChildCancel::Wait => ChildWorkflowCancellationType::WaitCancellationCompleted,
        ChildCancel::RequestOnly => ChildWorkflowCancellationType::WaitCancellationRequested,
    }
}

pub(crate) fn parent_close(policy: ParentClose) -> CoreParentClose {
    match policy {
        ParentClose::Terminate => CoreParentClose::Terminate,
        ParentClose::Abandon => CoreParentClose::Abandon,
        ParentClose::RequestCancel => CoreParentClose::RequestCancel,
    }
}

/// As an event of a history says it; none given is Temporal's default.
pub(crate) fn parent_close_of(policy: enums::ParentClosePolicy) -> ParentClose {
    match policy {
        enums::ParentClosePolicy::Unspecified | enums::ParentClosePolicy::Terminate => {
            ParentClose::Terminate
        }
        enums::ParentClosePolicy::Abandon => ParentClose::Abandon,
        enums::ParentClosePolicy::RequestCancel => ParentClose::RequestCancel,
    }
}

/// Temporal has no policy that answers with an ended run: it refuses, and names that run.
pub(crate) fn reuse(policy: ReusePolicy) -> enums::WorkflowIdReusePolicy {
    match policy {
        ReusePolicy::AllowDuplicate => enums::WorkflowIdReusePolicy::AllowDuplicate,
        ReusePolicy::AllowDuplicateFailedOnly => {
            enums::WorkflowIdReusePolicy::AllowDuplicateFailedOnly
        }
        ReusePolicy::RejectDuplicate | ReusePolicy::UseExisting => {
            enums::WorkflowIdReusePolicy::RejectDuplicate
        }
    }
}

/// As an event of a history says it.
#[expect(deprecated, reason = "histories of old SDKs have it")]
pub(crate) fn reuse_of(policy: enums::WorkflowIdReusePolicy) -> ReusePolicy {
    match policy {
        enums::WorkflowIdReusePolicy::Unspecified
        | enums::WorkflowIdReusePolicy::AllowDuplicate
        | enums::WorkflowIdReusePolicy::TerminateIfRunning => ReusePolicy::AllowDuplicate,
        enums::WorkflowIdReusePolicy::AllowDuplicateFailedOnly => {
            ReusePolicy::AllowDuplicateFailedOnly
        }
        enums::WorkflowIdReusePolicy::RejectDuplicate => ReusePolicy::RejectDuplicate,
    }
}

pub(crate) fn conflict(policy: ConflictPolicy) -> enums::WorkflowIdConflictPolicy {
    match policy {
        ConflictPolicy::Fail => enums::WorkflowIdConflictPolicy::Fail,
        ConflictPolicy::UseExisting => enums::WorkflowIdConflictPolicy::UseExisting,
        ConflictPolicy::TerminateExisting => enums::WorkflowIdConflictPolicy::TerminateExisting,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_retry_policy_survives() {
        let mut policy = RetryPolicy::times(7)
            .initial(Duration::from_millis(20))
            .coefficient(1.5)
            .max_interval(Duration::from_secs(3));
        policy.non_retryable.push("NoFunds".into());
        assert_eq!(retry_of(Some(retry(&policy))), policy);
        assert_eq!(
            retry_of(Some(retry(&RetryPolicy::default()))),
            RetryPolicy::default()
        );
    }

    #[test]
    fn a_cluster_is_sent_no_factor_that_it_would_refuse() {
        for factor in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, 0.0, 0.5] {
            let sent = retry(&RetryPolicy::default().coefficient(factor)).backoff_coefficient;
            assert!(sent.is_finite() && sent >= 1.0, "{factor}: {sent}");
        }
    }

    #[test]
    fn what_a_retry_policy_leaves_out_is_the_default() {
        assert_eq!(retry_of(None), RetryPolicy::default());
        assert_eq!(
            retry_of(Some(common::RetryPolicy::default())),
            RetryPolicy::default()
        );
    }

    #[test]
    fn policies_survive() {
        for policy in [
            ReusePolicy::AllowDuplicate,
            ReusePolicy::AllowDuplicateFailedOnly,
            ReusePolicy::RejectDuplicate,
        ] {
            assert_eq!(reuse_of(reuse(policy)), policy);
        }
        for policy in [
            ParentClose::Terminate,
            ParentClose::Abandon,
            ParentClose::RequestCancel,
        ] {
            let wire = enums::ParentClosePolicy::try_from(parent_close(policy) as i32);
            assert_eq!(parent_close_of(wire.expect("the same numbers")), policy);
        }
    }
}
