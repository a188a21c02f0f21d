//! Promises on both sides, with the engine's part played by the test.

use outlast_model::RunId;

use super::*;
use crate::ctx::play::{Play, payload};
use crate::prelude::*;

#[workflow]
async fn approval(ctx: Ctx) -> Result<String> {
    let answer = ctx.promise_named::<String>("approval");
    match answer.timeout(3.days()).await {
        Err(error) if error.is_timeout() => Ok("nobody answered".into()),
        Err(CallError::Failed(why, _)) => Ok(format!("no: {why}")),
        answer => Ok(answer?),
    }
}

#[test]
fn a_promise_is_resolved_or_rejected_or_given_up() {
    let mut yes = Play::start(approval, ());
    yes.settle("approval", Ok(payload("yes")));
    assert_eq!(yes.asked(), ["complete \"yes\""]);
    let mut no = Play::start(approval, ());
    no.settle("approval", Err(Error::msg("too dear").into_failure()));
    assert_eq!(no.asked(), ["complete \"no: too dear\""]);
    let mut late = Play::start(approval, ());
    assert_eq!(late.fire(1).asked(), ["complete \"nobody answered\""]);
}

#[workflow]
async fn by_token(ctx: Ctx) -> Result<(String, String)> {
    let (first, second) = (ctx.promise::<u64>(), ctx.promise::<u64>());
    Ok((first.token(), second.token()))
}

#[test]
fn a_token_names_the_run_and_the_promise() {
    let play = Play::start(by_token, ());
    let [complete] = &play.asked()[..] else {
        panic!("{:?}", play.asked())
    };
    let tokens = complete.strip_prefix("complete ").expect("it completes");
    let (first, second): (String, String) = serde_json::from_str(tokens).expect("two tokens");
    let (run, id) = token::read(&first).expect("a token");
    assert_eq!(run.workflow_id.as_str(), "order-42");
    assert_eq!(run.run_id, Some(RunId(7)));
    let (_, other) = token::read(&second).expect("a token");
    assert_ne!(id, other);
}

#[test]
fn a_token_survives_any_id_and_fits_into_a_url() {
    let run = RunRef {
        workflow_id: WorkflowId::new("kunde/42 & s\u{f8}nn.x%"),
        run_id: Some(RunId(7)),
    };
    let id = PromiseId::new("#1.\u{2713}");
    let text = token::write(&run, &id);
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_~.%".contains(c);
    assert!(text.chars().all(is_plain), "{text}");
    assert_eq!(token::read(&text), Ok((run, id)));
}

#[test]
fn what_is_no_token_is_refused() {
    let good = token::write(
        &RunRef {
            workflow_id: WorkflowId::new("a"),
            run_id: Some(RunId(7)),
        },
        &PromiseId::new("p"),
    );
    let cut = &good[..good.len() - 2];
    for text in [
        "",
        "p1",
        "p1.7.a.b",
        cut,
        &format!("{good}.x"),
        &format!("{good}%"),
        "p2.x",
    ] {
        let refused = token::read(text).map_err(token::NotAToken::refusal);
        assert_eq!(
            refused.map_err(|refusal| refusal.code()),
            Err("OL-1001"),
            "{text}"
        );
    }
}
