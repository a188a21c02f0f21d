//! Children and messages to other runs, from one history to another.

use outlast::prelude::*;
use outlast::{ChildCancel, ParentClose, Status};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::support::{drive, failure, sound, until};

#[derive(Debug, thiserror::Error, Serialize, Deserialize, Failure)]
#[error("{0} is odd")]
struct Odd(u64);

#[workflow]
async fn half(ctx: Ctx, n: u64) -> Result<u64, Odd> {
    if n % 2 == 1 {
        return Err(Odd(n));
    }
    // A child has a history and timers of its own.
    ctx.sleep(1.hours()).await.map_err(|_| Odd(n))?;
    Ok(n / 2)
}

#[workflow]
async fn halves(ctx: Ctx, numbers: Vec<u64>) -> Result<Vec<String>> {
    let calls: Vec<_> = numbers.iter().map(|n| ctx.child(half, n)).collect();
    let mut all = Vec::new();
    for call in calls {
        all.push(match call.await {
            Ok(n) => n.to_string(),
            Err(CallError::Failed(Odd(n), _)) => format!("{n} is odd"),
            Err(error) => return Err(error.into()),
        });
    }
    Ok(all)
}

#[test]
fn children_run_side_by_side_and_fail_with_their_own_type() {
    drive(async {
        let env = TestEnv::new().workflow(half).workflow(halves);
        let app = env.start().await;
        let run = app.start(halves, vec![8, 3, 4]).await.expect("it starts");
        let result = run.result().await.expect("it ends");
        assert_eq!(result, ["4", "3 is odd", "2"]);
        sound(&run, halves).await;
    });
}

#[test]
fn a_child_is_mocked_by_a_closure_of_its_type() {
    drive(async {
        let env = TestEnv::new().workflow(halves);
        let env = env.mock_workflow(half, |n| if n == 3 { Err(Odd(n)) } else { Ok(n + 100) });
        let run = env.start().await.run(halves, vec![1, 3]).await;
        assert_eq!(run.expect("it ends"), ["101", "3 is odd"]);
    });
}

#[workflow]
async fn waits_forever(ctx: Ctx) -> Result<()> {
    ctx.sleep(9_000.days()).await?;
    Ok(())
}

#[workflow]
async fn starts_taken(ctx: Ctx) -> Result<bool> {
    let child = ctx.child(waits_forever, ()).id("taken").await;
    Ok(matches!(child, Err(CallError::AlreadyExists(_))))
}

#[test]
fn a_child_whose_id_is_taken_says_so() {
    drive(async {
        let env = TestEnv::new()
            .workflow(waits_forever)
            .workflow(starts_taken);
        let app = env.start().await;
        let other = app.start(waits_forever, ()).id("taken");
        other.await.expect("it starts");
        assert!(app.run(starts_taken, ()).await.expect("it ends"));
    });
}

#[workflow]
async fn starts_unknown(ctx: Ctx) -> Result<Value> {
    Ok(ctx.child_raw("unheard-of", &json!(null)).await?)
}

#[workflow]
async fn leaves_children(ctx: Ctx) -> Result<()> {
    let policies = [
        ("left", ParentClose::Abandon),
        ("ended", ParentClose::Terminate),
        ("asked", ParentClose::RequestCancel),
    ];
    for (id, policy) in policies {
        let child = ctx.child(waits_forever, ()).id(id).parent_close(policy);
        child.started().await?;
        child.detach();
    }
    Ok(())
}

#[test]
fn what_becomes_of_a_child_when_its_parent_ends_is_its_policy() {
    drive(async {
        let env = TestEnv::new()
            .workflow(waits_forever)
            .workflow(leaves_children);
        let app = env.start().await;
        app.run(leaves_children, ()).await.expect("it ends");
        let end = async |id: &str, status: Status| {
            let child = app.get(waits_forever, id);
            until(&child, |found| found.summary.status == status).await;
        };
        end("ended", Status::Terminated).await;
        end("asked", Status::Canceled).await;
        end("left", Status::Running).await;
    });
}

#[workflow]
async fn cleans_up(ctx: Ctx) -> Result<()> {
    let slept = ctx.sleep(9_000.days()).await;
    ctx.shield(async || ctx.sleep(1.hours()).await).await?;
    Ok(slept?)
}

#[workflow]
async fn stops_its_child(ctx: Ctx, mode: String) -> Result<String> {
    let mode = match mode.as_str() {
        "wait" => ChildCancel::Wait,
        "try" => ChildCancel::Try,
        "request only" => ChildCancel::RequestOnly,
        _ => ChildCancel::Abandon,
    };
    let child = ctx.child(cleans_up, ()).id("child").cancel_mode(mode);
    child.started().await?;
    let before = ctx.now();
    child.cancel();
    let ended = child.await;
    let took = ctx.now().duration_since(before)?;
    let is_cancelled = ended.is_err_and(|error| error.is_cancelled());
    Ok(format!("{is_cancelled} after {}h", took.as_secs() / 3_600))
}

#[test]
fn a_cancelled_child_is_waited_for_or_not_as_its_mode_says() {
    for (mode, expected, child) in [
        ("wait", "true after 1h", Status::Canceled),
        ("try", "true after 0h", Status::Terminated),
        ("request only", "true after 0h", Status::Terminated),
        ("abandon", "true after 0h", Status::Terminated),
    ] {
        drive(async {
            let env = TestEnv::new().workflow(cleans_up).workflow(stops_its_child);
            let app = env.start().await;
            let run = app.start(stops_its_child, mode).await.expect("it starts");
            assert_eq!(run.result().await.expect("it ends"), expected, "{mode}");
            sound(&run, stops_its_child).await;
            // Whoever did not wait ended first, and took the child with it.
            let status = |found: &outlast::Description| found.summary.status == child;
            until(&app.get(cleans_up, "child"), status).await;
        });
    }
}

#[test]
fn a_cancelled_workflow_cancels_its_children() {
    drive(async {
        let env = TestEnv::new()
            .workflow(waits_forever)
            .workflow(asks_for_child);
        let app = env.start().await;
        let run = app.start(asks_for_child, ()).await.expect("it starts");
        let child = app.get(waits_forever, "only-child");
        until(&run, |found| found.waiting.len() == 1 && child_runs(found)).await;
        run.cancel().await.expect("it is told");
        assert!(run.result().await.expect_err("it stops").is_cancelled());
        let ended = child.result().await.expect_err("it stops too");
        assert!(ended.is_cancelled(), "{ended}");
    });
}

#[workflow]
async fn asks_for_child(ctx: Ctx) -> Result<()> {
    Ok(ctx.child(waits_forever, ()).id("only-child").await?)
}

fn child_runs(found: &outlast::Description) -> bool {
    use outlast::model::view::Waiting;
    matches!(
        found.waiting[..],
        [Waiting::Child {
            is_started: true,
            ..
        }]
    )
}

#[derive(Default)]
struct Inbox {
    letters: Vec<String>,
}

#[workflow]
impl Inbox {
    async fn run(ctx: Ctx<Self>, letters: usize) -> Result<Vec<String>> {
        ctx.wait_until(move |inbox| inbox.letters.len() == letters)
            .await?;
        Ok(ctx.read(|inbox| inbox.letters.clone()))
    }

    #[signal]
    fn post(&mut self, letter: String) {
        self.letters.push(letter);
    }
}

#[workflow]
async fn writes(ctx: Ctx, letters: Vec<String>) -> Result<String> {
    let inbox = ctx.get(Inbox::run, "inbox");
    for letter in &letters {
        inbox.post(letter).await?;
    }
    let nobody = ctx.get(Inbox::run, "nobody").post("lost").await;
    let error = nobody.err().ok_or("it was delivered")?;
    assert!(matches!(error, CallError::NotFound(_)), "{error}");
    Ok(error.to_string())
}

#[test]
fn a_workflow_writes_to_another_in_order_and_learns_that_there_is_none() {
    drive(async {
        let env = TestEnv::new().workflow(Inbox::run).workflow(writes);
        let app = env.start().await;
        let inbox = app.start(Inbox::run, 3).id("inbox").await.expect("starts");
        let letters = ["one", "two", "three"].map(String::from).to_vec();
        let run = app.start(writes, &letters).await.expect("it starts");
        assert_eq!(inbox.result().await.expect("it ends"), letters);
        let missing = run.result().await.expect("it ends");
        assert!(missing.contains("nobody"), "{missing}");
        sound(&run, writes).await;
        sound(&inbox, Inbox::run).await;
    });
}

#[workflow]
async fn stops_another(ctx: Ctx) -> Result<()> {
    Ok(ctx.external("other").cancel().await?)
}

#[test]
fn a_workflow_asks_another_to_stop() {
    drive(async {
        let env = TestEnv::new()
            .workflow(waits_forever)
            .workflow(stops_another);
        let app = env.start().await;
        let other = app.start(waits_forever, ()).id("other").await;
        app.run(stops_another, ()).await.expect("it is told");
        let other = other.expect("it starts");
        assert!(other.result().await.expect_err("it stops").is_cancelled());
    });
}

#[test]
fn a_child_that_nobody_has_fails_its_parent_with_the_line_to_paste() {
    drive(async {
        let app = TestEnv::new().workflow(starts_unknown).start().await;
        let text = failure(app.run(starts_unknown, ()).await);
        assert!(text.contains("unheard-of"), "{text}");
    });
}
