//! Every way in which a value may fail to cross.

use std::collections::BTreeMap;

use super::*;
use crate::{CallError, Error};

fn failure(result: AttemptResult) -> FailureTrace {
    if let AttemptResult::Failed(failure) = result {
        return failure;
    }
    panic!("{result:?}")
}

fn save() -> Subject {
    Subject::Activity("save".into())
}

fn double() -> Subject {
    Subject::Activity("double".into())
}

fn is_terminal(failure: &FailureTrace) -> bool {
    matches!(
        failure.kind,
        FailureKind::Application {
            non_retryable: true,
            ..
        }
    )
}

#[test]
fn a_result_over_the_limit_fails_the_activity_for_good() {
    let text = Ok::<_, Error>("x".repeat(limits::PAYLOAD_BYTES));
    let failure = failure(attempt_result(&save(), text, None));
    assert_eq!(failure.type_name(), Some(type_name::TOO_LARGE));
    assert!(is_terminal(&failure));
    assert!(
        failure
            .message
            .starts_with("the result of activity save has 2097154 bytes")
    );
}

#[test]
fn a_result_that_does_not_serialise_fails_the_activity_for_good() {
    let map = Ok::<_, Error>(BTreeMap::from([(vec![1_u8], 1)]));
    let failure = failure(attempt_result(&save(), map, None));
    assert_eq!(failure.type_name(), Some(ENCODE));
    assert!(is_terminal(&failure));
}

#[test]
fn a_cancellation_counts_only_if_somebody_asked_for_it() {
    let stopped = || Err::<(), Error>(CallError::<()>::cancelled("stop").into());
    let asked = attempt_result(&save(), stopped(), Some(StopReason::Cancelled));
    assert_eq!(asked, AttemptResult::Canceled(None));
    let failure = failure(attempt_result(&save(), stopped(), None));
    assert!(matches!(failure.kind, FailureKind::Application { .. }));
    assert!(failure.is_canceled());
}

#[test]
fn an_input_of_another_type_says_which() {
    let text = Payload::encode("two").expect("encodes");
    let failure = read_input::<u64>(&double(), &text).expect_err("not a number");
    assert!(
        failure
            .message
            .starts_with("the input of activity double is not a `u64`")
    );
    assert_eq!(failure.type_name(), Some(type_name::DECODE));
}

#[test]
#[should_panic(expected = "the result of activity double is not a `u64`")]
fn a_result_of_another_type_fails_the_task() {
    let text = Payload::encode("two").expect("encodes");
    read_or_panic::<u64>(&double(), &text);
}

#[test]
#[should_panic(expected = "the input of activity save has 2097154 bytes, the limit is 2097152")]
fn an_input_over_the_limit_fails_the_task() {
    let payload = Payload::encode(&"x".repeat(limits::PAYLOAD_BYTES));
    store_or_panic(&save(), payload);
}
