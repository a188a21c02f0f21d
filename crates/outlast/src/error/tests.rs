//! What is kept of an error on its way: its type, its chain, its line.

use std::time::Duration;

use outlast_model::failure::RetryState;
use outlast_model::failure::type_name;
use outlast_model::{ActivityType, FailureKind, Refusal, Seq, TimeoutKind};
use serde::{Deserialize, Serialize};

use super::*;
use crate::{CallError, Failure, FailureTrace, IntoFailure, Retry};

#[derive(Clone, Debug, PartialEq, thiserror::Error, Serialize, Deserialize, Failure)]
enum ChargeError {
    #[error("card declined: {0}")]
    #[failure(terminal)]
    Declined(String),
    #[error("payment gateway is busy")]
    Busy,
    #[error("gateway asks for patience")]
    #[failure(retry_after = "5s")]
    Later { code: u16 },
}

#[derive(Debug, thiserror::Error, Serialize, Deserialize, Failure)]
#[error("no {0} in the cart")]
#[failure(terminal, name = "cart.NotInCart")]
struct NotInCart(String);

fn declined() -> ChargeError {
    ChargeError::Declined("stolen".into())
}

/// What a workflow sees when its activity has failed.
fn activity_failed(cause: FailureTrace) -> Trace {
    let kind = FailureKind::Activity {
        activity_type: ActivityType::new("charge"),
        seq: Seq(1),
        retry_state: RetryState::NonRetryableFailure,
    };
    let failure = FailureTrace::new(kind, "activity charge failed").at("src/flow.rs:59");
    Trace::new(failure.caused_by(cause))
}

fn seen<E: IntoFailure>(cause: FailureTrace) -> CallError<E::Seen> {
    CallError::observe::<E>(activity_failed(cause))
}

#[test]
fn the_derive_reads_the_retry_rule_of_each_variant() {
    assert_eq!(declined().retry(), Retry::Never);
    assert_eq!(ChargeError::Busy.retry(), Retry::ByPolicy);
    let later = ChargeError::Later { code: 429 };
    assert_eq!(later.retry(), Retry::After(Duration::from_secs(5)));
    assert_eq!(NotInCart("tea".into()).retry(), Retry::Never);
    assert_eq!(
        (ChargeError::TYPE, NotInCart::TYPE),
        ("ChargeError", "cart.NotInCart")
    );
}

#[test]
fn the_retry_rule_reaches_the_stored_failure() {
    let rule = |failure: FailureTrace| {
        let FailureKind::Application {
            non_retryable,
            next_retry_delay,
            ..
        } = failure.kind
        else {
            panic!("an application raises application failures");
        };
        (non_retryable, next_retry_delay)
    };
    assert_eq!(rule(declined().into_failure()), (true, None));
    assert_eq!(rule(ChargeError::Busy.into_failure()), (false, None));
    let later = ChargeError::Later { code: 429 }.into_failure();
    assert_eq!(rule(later), (false, Some(Duration::from_secs(5))));
}

#[test]
fn a_typed_error_comes_back_as_itself() {
    let error = seen::<ChargeError>(declined().into_failure());
    assert!(matches!(error, CallError::Failed(ChargeError::Declined(why), _) if why == "stolen"));
}

fn name(error: &CallError) -> &'static str {
    match error {
        CallError::Failed(..) => "failed",
        CallError::Cancelled(_) => "cancelled",
        CallError::TimedOut(_) => "timed out",
        CallError::Panicked(_) => "panicked",
        CallError::NotRegistered(_) => "not registered",
        CallError::Terminated(_) => "terminated",
        CallError::Rejected(_) => "rejected",
        CallError::RunFinished(_) => "run finished",
        CallError::AlreadyExists(_) => "already exists",
        CallError::NotFound(_) => "not found",
        CallError::Refused(_) => "refused",
        CallError::Other(_) => "other",
    }
}

#[test]
fn failures_are_sorted_by_what_the_caller_can_do() {
    let timeout = FailureTrace::timeout(TimeoutKind::Heartbeat, None);
    let terminated = FailureTrace::new(FailureKind::Terminated, "enough");
    let ours = |name: &str| FailureTrace::application(name, "");
    for (failure, expected) in [
        (Error::msg("no").into_failure(), "failed"),
        (FailureTrace::canceled("stop"), "cancelled"),
        (timeout, "timed out"),
        (FailureTrace::panic("oh"), "panicked"),
        (terminated, "terminated"),
        (ours(type_name::NOT_REGISTERED), "not registered"),
        (ours(type_name::RUN_FINISHED), "run finished"),
        (ours(type_name::ALREADY_EXISTS), "already exists"),
        (ours(type_name::NOT_FOUND), "not found"),
        (ours(type_name::TOO_LARGE), "other"),
    ] {
        assert_eq!(name(&seen::<Error>(failure)), expected);
    }
    assert_eq!(name(&Refusal::StoreFull.into()), "refused");
}

#[test]
fn an_error_of_another_version_is_other_and_keeps_its_trace() {
    let error = seen::<ChargeError>(NotInCart("tea".into()).into_failure());
    assert!(matches!(error, CallError::Other(_)));
    assert_eq!(error.find::<NotInCart>().expect("kept").0, "tea");
}

#[test]
fn the_tree_shows_every_link_with_its_kind_and_place() {
    let trace = activity_failed(declined().into_failure().at("src/pay.rs:12"));
    let client = Trace::of(
        "workflow checkout (order-42) failed",
        trace.failure().clone(),
    );
    assert_eq!(
        client.tree(),
        "workflow checkout (order-42) failed\n\
         \x20 activity charge failed [not worth a retry] at src/flow.rs:59\n\
         \x20   card declined: stolen [ChargeError, terminal] at src/pay.rs:12\n"
    );
    assert_eq!(
        client.summary(),
        "workflow checkout (order-42) failed: activity charge failed: card declined: stolen"
    );
}

#[test]
fn a_typed_failure_is_found_across_workflows() {
    let in_workflow = Error::from(seen::<ChargeError>(declined().into_failure()));
    let at_client = CallError::observe::<Error>(Trace::of(
        "workflow a (1) failed",
        in_workflow.into_failure(),
    ));
    let in_another_activity = Error::from(at_client);
    assert_eq!(in_another_activity.find::<ChargeError>(), Some(declined()));
    assert_eq!(in_another_activity.find::<NotInCart>().map(|e| e.0), None);
}

#[test]
fn anyhow_goes_in_and_out_without_losing_the_chain() {
    use anyhow::Context;
    let outside = || -> anyhow::Result<()> {
        Err(seen::<ChargeError>(declined().into_failure())).context("order 42")
    };
    let anyhow = outside().expect_err("fails");
    assert!(format!("{anyhow:#}").starts_with("order 42: activity charge failed: card declined"));
    let back = Error::from(anyhow);
    assert_eq!(back.find::<ChargeError>(), Some(declined()));
    assert_eq!(
        back.to_string(),
        "order 42: activity charge failed: card declined: stolen"
    );
}

#[test]
fn any_error_passes_the_question_mark_and_keeps_its_causes_and_its_line() {
    fn number(text: &str) -> Result<u64> {
        Ok(text.parse::<u64>()?)
    }
    let error = number("x").expect_err("not a number");
    assert!(error.downcast_ref::<std::num::ParseIntError>().is_some());
    let at = error
        .trace()
        .failure()
        .trace
        .as_deref()
        .expect("has a place");
    assert!(at.contains("tests.rs:"), "{at}");
    let text: Error = "no address".into();
    assert_eq!(
        (text.to_string(), text.trace().failure().type_name()),
        ("no address".into(), Some(""))
    );
}

#[test]
fn terminal_marks_any_error_and_keeps_what_it_was() {
    fn parse() -> Result<u64> {
        "x".parse::<u64>().terminal()
    }
    let tree = parse().expect_err("not a number").trace().tree();
    assert!(
        tree.contains("[core::num::error::ParseIntError, terminal]"),
        "{tree}"
    );
    let cancelled = Error::from(seen::<Error>(FailureTrace::canceled("stop"))).terminal();
    assert!(cancelled.is_cancelled());
    assert!(
        cancelled
            .trace()
            .tree()
            .starts_with("activity charge failed [terminal]\n")
    );
}

#[test]
fn an_untyped_error_can_carry_a_typed_one() {
    let error = Error::typed(declined());
    assert_eq!(error.find::<ChargeError>(), Some(declined()));
    assert_eq!(error.downcast_ref::<ChargeError>(), Some(&declined()));
}

#[test]
fn whatever_reaches_main_says_its_code() {
    let refused = CallError::<Opaque>::Refused(outlast_model::Refusal::StoreFull);
    let failed = CallError::<Opaque>::cancelled("asked to");
    let path = "a.db".into();
    let open = outlast_service::sqlite::OpenError::Foreign { path };
    let boxed: [(Box<dyn std::error::Error>, &str); 3] = [
        (Box::new(refused), "OL-2001: the store has no room"),
        (Box::new(failed), "OL-4202: asked to"),
        (Box::new(open.clone()), "OL-4103: a.db is not an Outlast"),
    ];
    for (error, beginning) in boxed {
        let text = format!("{error:?}");
        assert!(text.starts_with(beginning), "{text}");
    }
    let ours = format!("{:?}", Error::from(open));
    assert!(
        ours.starts_with("OL-4103: a.db is not an Outlast"),
        "{ours}"
    );
}
