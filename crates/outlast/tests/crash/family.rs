//! Scenarios of runs that talk to each other: children and their ends, signals and requests to
//! stop from run to run.

use outlast::intercept::Propagate;
use outlast::model::Event;
use outlast::prelude::*;
use outlast::testing::replay;
use outlast::{ChildCancel, Headers, ParentClose, WorkflowDef};

use crate::client::Starting;
use crate::script::{
    Env, PAID, Scenario, cleans_up, collect, endless_timer, scenario, script, work,
};

const PONG: Signal<u64> = signal("pong");
const TENANT: &str = "tenant";

pub(crate) const SCENARIOS: &[Scenario] = &[
    scenario(
        "child",
        script!(|client| {
            client.start("parent", "a").await;
            client.result("a").await;
        }),
    ),
    scenario(
        "child, failed",
        script!(|client| {
            client.start("parent_of_failing", "a").await;
            client.result("a").await;
        }),
    ),
    scenario(
        "child, cancelled",
        script!(|client| {
            client.start("changes_its_mind", "a").await;
            client.result("a").await;
            client.result("a/wait").await;
            client.result("a/try").await;
        }),
    ),
    scenario(
        "child, parent cancelled",
        script!(|client| {
            client.start("patient_parent", "a").await;
            client.until("a/child", |_| true).await;
            client.cancel("a").await;
            client.result("a").await;
            client.result("a/child").await;
        }),
    ),
    scenario(
        "child, parent ends",
        script!(|client| {
            client.start("leaves", "a").await;
            client.result("a").await;
            client.result("a/terminated").await;
            client.result("a/cancelled").await;
            client.result("a/abandoned").await;
        }),
    ),
    scenario(
        "child, parent terminated",
        script!(|client| {
            client.start("patient_parent", "a").await;
            client.until("a/child", |_| true).await;
            client.terminate("a").await;
            client.result("a").await;
            client.result("a/child").await;
        }),
    ),
    scenario(
        "child, id taken",
        script!(|client| {
            client.start("collect", "a/child").await;
            client.start("jealous", "a").await;
            client.result("a").await;
            client.signal("a/child", PAID, 6).await;
            client.result("a/child").await;
        }),
    ),
    scenario(
        "grandchild",
        script!(|client| {
            client.start("grandparent", "a").await;
            client.result("a").await;
        }),
    ),
    scenario(
        "child in new runs",
        script!(|client| {
            client.start("parent_of_many", "a").await;
            client.result("a").await;
        }),
    ),
    scenario(
        "signals between runs",
        script!(|client| {
            client.start("collect", "b").await;
            client.start("sends", "a").await;
            client.result("a").await;
            client.result("b").await;
        }),
    ),
    scenario(
        "signals to nobody",
        script!(|client| {
            client.start("one", "b").await;
            client.result("b").await;
            client.start("sends", "a").await;
            client.result("a").await;
        }),
    ),
    scenario(
        "cancel between runs",
        script!(|client| {
            client.start("cleans_up", "b").await;
            client.start("stops", "a").await;
            client.result("a").await;
            client.result("b").await;
            client.start("stops", "c").await;
            client.result("c").await;
        }),
    ),
    scenario(
        "headers",
        script!(|client| {
            let acme = |start: Starting| start.headers(tenant("acme"));
            client.start_with("bearer", "a", "a", acme).await;
            client.result("a").await;
        }),
    ),
    scenario(
        "two that play",
        script!(|client| {
            client.start("plays", "a").await;
            client.start("plays", "b").await;
            client.signal("a", PONG, 1).await;
            client.result("a").await;
            client.result("b").await;
        }),
    ),
];

pub(crate) fn register(env: Env) -> Env {
    let env = env
        .workflow(parent)
        .workflow(fails)
        .workflow(parent_of_failing);
    let env = env.workflow(changes_its_mind).workflow(patient_parent);
    let env = env.workflow(leaves).workflow(jealous).workflow(grandparent);
    let env = env.workflow(steps_down).workflow(parent_of_many);
    let env = env.workflow(bearer).workflow(porter);
    let env = env.interceptor(Propagate::new(TENANT));
    env.workflow(sends).workflow(stops).workflow(plays)
}

/// Replays a history of one of these types; `None` if it is of another.
pub(crate) fn replay_as(kind: &str, history: &[Event]) -> Option<Result<()>> {
    Some(match kind {
        "parent" => replay(parent, history),
        "fails" => replay(fails, history),
        "parent_of_failing" => replay(parent_of_failing, history),
        "changes_its_mind" => replay(changes_its_mind, history),
        "patient_parent" => replay(patient_parent, history),
        "leaves" => replay(leaves, history),
        "jealous" => replay(jealous, history),
        "grandparent" => replay(grandparent, history),
        "steps_down" => replay(steps_down, history),
        "parent_of_many" => replay(parent_of_many, history),
        "bearer" => replay(bearer, history),
        "porter" => replay(porter, history),
        "sends" => replay(sends, history),
        "stops" => replay(stops, history),
        "plays" => replay(plays, history),
        _ => return None,
    })
}

/// Workflows of the other file, by their name: children need not be known here.
const ONE: WorkflowDef<String, String> = WorkflowDef::new("one");

#[workflow]
async fn parent(ctx: Ctx, case: String) -> Result<String> {
    let child = ctx.child(ONE, &case);
    let id = child.started().await?.id().to_owned();
    let text = child.await?;
    let n = ctx.run(work, 1).await?;
    Ok(format!("{text} {n} {}", id.starts_with(&case)))
}

fn tenant(name: &str) -> Headers {
    let mut headers = Headers::new();
    headers.write(TENANT, name).expect("text serialises");
    headers
}

/// What came with the start, after a crash as before it.
#[workflow]
async fn porter(ctx: Ctx, _case: String) -> Result<String> {
    ctx.run(work, 1).await?;
    let name: Option<String> = ctx.headers().read(TENANT).expect("a text");
    Ok(name.unwrap_or_default())
}

#[workflow]
async fn bearer(ctx: Ctx, case: String) -> Result<String> {
    if !case.ends_with('+') {
        return ctx.continue_as_new(format!("{case}+"));
    }
    let below = ctx.child(porter, &case).await?;
    let name: Option<String> = ctx.headers().read(TENANT).expect("a text");
    Ok(format!("{below} {}", name.unwrap_or_default()))
}

#[workflow]
async fn fails(ctx: Ctx, _case: String) -> Result<String> {
    ctx.run(work, 1).await?;
    Err("it went wrong").terminal()
}

#[workflow]
async fn parent_of_failing(ctx: Ctx, case: String) -> Result<String> {
    let failed = ctx.child(fails, &case).await;
    let is_told = failed.is_err_and(|error| error.to_string().contains("it went wrong"));
    Ok(is_told.to_string())
}

#[workflow]
async fn changes_its_mind(ctx: Ctx, case: String) -> Result<String> {
    let mut told = Vec::new();
    for (mode, name) in [(ChildCancel::Wait, "wait"), (ChildCancel::Try, "try")] {
        let child = ctx.child(cleans_up, &case).cancel_mode(mode);
        let child = child.parent_close(ParentClose::Abandon);
        let child = child.id(format!("{}/{name}", ctx.id()));
        child.started().await?;
        child.cancel();
        told.push(child.await.is_err_and(|error| error.is_cancelled()));
    }
    Ok(format!("{told:?}"))
}

#[workflow]
async fn patient_parent(ctx: Ctx, case: String) -> Result<String> {
    let child = ctx.child(cleans_up, &case);
    let child = child.id(format!("{}/child", ctx.id())).await;
    Ok(format!(
        "{}",
        child.is_err_and(|error| error.is_cancelled())
    ))
}

#[workflow]
async fn leaves(ctx: Ctx, case: String) -> Result<String> {
    let policies = [
        (ParentClose::Terminate, "terminated"),
        (ParentClose::RequestCancel, "cancelled"),
        (ParentClose::Abandon, "abandoned"),
    ];
    for (policy, name) in policies {
        let child = ctx.child(endless_timer, &case).parent_close(policy);
        let child = child.id(format!("{}/{name}", ctx.id()));
        child.started().await?;
        child.detach();
    }
    Ok("gone".into())
}

#[workflow]
async fn jealous(ctx: Ctx, case: String) -> Result<String> {
    let child = ctx.child(collect, &case);
    let child = child.id(format!("{}/child", ctx.id())).await;
    Ok(matches!(child, Err(CallError::AlreadyExists(_))).to_string())
}

#[workflow]
async fn grandparent(ctx: Ctx, case: String) -> Result<String> {
    let first = ctx.child(parent, &case);
    let second = ctx.child(parent, &case);
    Ok(format!("{} and {}", first.await?, second.await?))
}

/// Goes on as a new run twice, one activity each.
#[workflow]
async fn steps_down(ctx: Ctx, input: String) -> Result<String> {
    ctx.run(work, 1).await?;
    match input.strip_suffix('+') {
        Some(less) => ctx.continue_as_new(less.to_owned()),
        None => Ok("down".into()),
    }
}

#[workflow]
async fn parent_of_many(ctx: Ctx, case: String) -> Result<String> {
    Ok(ctx.child(steps_down, format!("{case}++")).await?)
}

#[workflow]
async fn sends(ctx: Ctx, case: String) -> Result<String> {
    let other = ctx.external(format!("{case}/b"));
    let mut told = Vec::new();
    let all: Vec<_> = (1..=3).map(|n| other.send(PAID, n)).collect();
    for sent in all {
        told.push(sent.await.is_ok());
    }
    let nobody = ctx.external(format!("{case}/nobody")).send(PAID, 1).await;
    told.push(matches!(nobody, Err(CallError::NotFound(_))));
    Ok(format!("{told:?}"))
}

#[workflow]
async fn stops(ctx: Ctx, case: String) -> Result<String> {
    let other = ctx.external(format!("{case}/b")).cancel().await;
    let nobody = ctx.external(format!("{case}/nobody")).cancel().await;
    let is_told = matches!(nobody, Err(CallError::NotFound(_)));
    Ok(format!("{} {is_told}", other.is_ok()))
}

/// Two runs send a number to and fro until it is seven.
#[workflow]
async fn plays(ctx: Ctx, case: String) -> Result<String> {
    let is_a = ctx.id().as_str().ends_with("/a");
    let other = ctx.external(format!("{case}/{}", if is_a { "b" } else { "a" }));
    let mut all = Vec::new();
    loop {
        let n = ctx.recv(PONG).await?;
        all.push(n);
        if n < 7 {
            other.send(PONG, n + 1).await?;
        }
        if n >= 6 {
            return Ok(format!("{all:?}"));
        }
    }
}
