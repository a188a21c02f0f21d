//! Activities as a worker runs them, and as a test calls them.

use outlast_model::id::{Attempt, Incarnation};
use outlast_model::task::{ActivityTask, AttemptKind, AttemptToken, RunNo};
use outlast_model::{ActivityType, Headers, RunId, Seq, Timestamp, WorkflowId};
use serde::Serialize;

use super::*;
use crate::activity::{ActivityFn, ByFn};
use crate::ctx::play::block_on;
use crate::prelude::*;
use crate::{Activity, ActivityDef};

#[derive(Clone)]
struct Rate(u64);

#[activity]
async fn convert(State(rate): State<Rate>, ctx: ActivityCtx, cents: u64) -> Result<u64> {
    ctx.heartbeat(cents)?;
    Ok(cents * rate.0)
}

#[activity(name = "math.crunch")]
fn crunch(State(rate): State<Rate>, n: u64) -> Result<u64> {
    if n == 0 {
        Err("nothing to crunch").terminal()?;
    }
    Ok(n + rate.0)
}

#[activity]
async fn no_input(ctx: ActivityCtx) -> Result<String> {
    Ok(format!(
        "{} {} {}",
        ctx.workflow_id(),
        ctx.attempt(),
        ctx.idempotency_key()
    ))
}

fn attempt(input: impl Serialize) -> (AttemptCtx, Payload) {
    let token = AttemptToken {
        shard: 0,
        run: RunNo(1),
        kind: AttemptKind::Activity,
        seq: Seq(4),
        attempt: Attempt(2),
        incarnation: Incarnation(1),
    };
    let input = Payload::encode(&input).expect("encodes");
    let task = ActivityTask {
        token,
        run_id: RunId(7),
        workflow_id: WorkflowId::new("order-42"),
        activity_type: ActivityType::new("any"),
        queue: "default".into(),
        input: input.clone(),
        heartbeat_details: None,
        scheduled: Timestamp(0),
        start_to_close: None,
        heartbeat: None,
        headers: Headers::new(),
    };
    (AttemptCtx::unlinked(task), input)
}

fn run(code: &ActivityCode, input: impl Serialize) -> AttemptResult {
    let (ctx, input) = attempt(input);
    match code(ctx, input) {
        Body::Async(work) => block_on(work),
        Body::Blocking(work) => work(),
    }
}

fn code<A: ActivityFn<ByFn<K>>, K>(_: A) -> ActivityCode {
    let mut states = States::default();
    states.insert(Rate(3));
    activity_code::<A::Meta>(states)
}

fn completed(value: impl Serialize) -> AttemptResult {
    AttemptResult::Completed(Payload::encode(&value).expect("encodes"))
}

#[test]
fn an_activity_gets_its_states_its_context_and_its_input() {
    assert_eq!(run(&code(convert), 5), completed(15));
    assert_eq!(run(&code(crunch), 5), completed(8));
    let key = "order-42 2 00000000-0000-0000-0000-000000000007/4";
    assert_eq!(run(&code(no_input), ()), completed(key));
    assert_eq!((convert.name(), crunch.name()), ("convert", "math.crunch"));
}

#[test]
fn an_error_of_an_activity_is_a_failed_attempt() {
    let AttemptResult::Failed(failure) = run(&code(crunch), 0) else {
        panic!("it fails")
    };
    assert_eq!(failure.message, "nothing to crunch");
}

#[test]
fn an_input_that_does_not_decode_is_a_failed_attempt() {
    let AttemptResult::Failed(failure) = run(&code(convert), "much") else {
        panic!("it fails")
    };
    assert!(
        failure
            .message
            .starts_with("the input of activity convert is not a `u64`")
    );
}

#[test]
fn a_definition_runs_the_closure_bound_to_it() {
    const MAIL: ActivityDef<String, usize> = ActivityDef::new("mail");
    let send = |ctx: ActivityCtx, to: String| async move {
        Ok::<_, Error>(to.len() + ctx.attempt() as usize)
    };
    let code = closure_code(MAIL.name(), States::default(), send);
    assert_eq!(run(&code, "kari"), completed(6));
}

#[test]
fn functions_stay_functions() {
    let converted = convert(State(Rate(2)), ActivityCtx::test(), 4);
    assert_eq!(block_on(converted.into_future()).expect("converts"), 8);
    assert_eq!(crunch(State(Rate(2)), 4).wait().expect("crunches"), 6);
}
