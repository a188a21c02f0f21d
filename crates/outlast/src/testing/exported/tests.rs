//! Exports of runs, replayed by the core with the code that made them and with other code.

use outlast_model::temporal_json;

use super::*;
use crate::prelude::*;
use crate::testing::{TestEnv, block_on};

#[activity]
async fn look(place: String) -> Result<String> {
    Ok(format!("nothing in {place}"))
}

#[activity]
async fn listen(place: String) -> Result<String> {
    Ok(format!("silence in {place}"))
}

#[workflow(name = "watch")]
async fn watch(ctx: Ctx) -> Result<String> {
    ctx.sleep(1.hours()).await?;
    let length = ctx.step("measure", || async { Ok::<_, Error>(3) }).await?;
    Ok(format!("{} {length}", ctx.run(look, "the attic").await?))
}

/// Another activity in the same place: only its type differs.
#[workflow(name = "watch")]
async fn hears(ctx: Ctx) -> Result<String> {
    ctx.sleep(1.hours()).await?;
    let length = ctx.step("measure", || async { Ok::<_, Error>(3) }).await?;
    Ok(format!("{} {length}", ctx.run(listen, "the attic").await?))
}

/// No timer first.
#[workflow(name = "watch")]
async fn hurries(ctx: Ctx) -> Result<String> {
    Ok(ctx.run(look, "the attic").await?)
}

fn exported() -> String {
    block_on(async {
        let env = TestEnv::new().activity(look).workflow(watch);
        let app = env.start().await;
        let run = app.start(watch, ()).await.expect("it starts");
        run.result().await.expect("it ends");
        let history = run.history().await.expect("it has one");
        app.shutdown().await;
        temporal_json::export(&history)
    })
}

/// What the core alone says: Outlast's own replayer would speak first.
fn core_says<W: WorkflowFn<K>, K>(_workflow: W, json: &str) -> Result<(), ReplayError> {
    block_on(through_core(&*workflow_program::<W::Meta>(), json))
}

fn reason(refused: Result<(), ReplayError>) -> String {
    match refused {
        Err(ReplayError::Refused { reason, .. }) => reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_export_replays_with_the_code_that_made_it() {
    let json = exported();
    replay_json(watch, &json).expect("it is the same code");
    // As `outlast show` prints it, among other things about the run.
    let shown = format!("{{\"id\": \"w\", \"history\": {json}}}");
    replay_json(watch, &shown).expect("it is the same history");
}

#[test]
fn the_core_refuses_other_code() {
    let json = exported();
    assert_eq!(reason(core_says(hurries, &json)), "Nondeterminism");
    assert_eq!(reason(core_says(hears, &json)), "Nondeterminism");
    let error = replay_json(hurries, &json).expect_err("it is other code");
    assert!(error.to_string().contains("TimerStarted"), "{error}");
}

#[test]
fn what_is_no_history_is_refused_by_name() {
    for (text, why) in [
        ("", "OL-4012"),
        ("{}", "it has no events"),
        (
            "{\"events\": [{\"eventId\": \"1\"}]}",
            "event 1: it has no attributes",
        ),
        (
            "{\"events\": [{\"timerFiredEventAttributes\": {\"startedEventId\": \"x\"}}]}",
            "event 1: startedEventId: \"x\" is not a number",
        ),
    ] {
        let error = replay_json(watch, text).expect_err("it is none");
        assert!(error.to_string().contains(why), "{error}");
    }
    let late = "{\"events\": [{\"timerFiredEventAttributes\": {}}]}";
    let error = core_says(watch, late).expect_err("it is none");
    assert!(error.to_string().contains("the start of a run"), "{error}");
}
