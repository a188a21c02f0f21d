//! What travels with a call arrives wherever the call leads.

use outlast::intercept::{Propagate, TRACER_DATA, traceparent, traces};
use outlast::model::event::{ChildEvent, ExternalEvent};
use outlast::model::{Event, EventKind, limits};
use outlast::prelude::*;
use outlast::{Headers, Refusal};
use outlast_service::memory::MemoryStore;

use crate::support::{cached, drive, on, sound};

const TENANT: &str = "tenant";
const DONE: Signal<String> = signal("done");

fn tenant(headers: &Headers) -> String {
    let name: Option<String> = headers.read(TENANT).expect("a text");
    name.unwrap_or_else(|| "nobody".into())
}

fn of(name: &str) -> Headers {
    let mut headers = Headers::new();
    headers.write(TENANT, name).expect("text serialises");
    headers
}

#[activity]
async fn who(ctx: ActivityCtx) -> Result<String> {
    Ok(tenant(&ctx.headers()))
}

#[workflow]
async fn leaf(ctx: Ctx) -> Result<String> {
    let name = ctx.run(who, ()).await?;
    ctx.external("root").send(DONE, name.clone()).await?;
    Ok(format!("{} {name}", tenant(&ctx.headers())))
}

/// Round 0 continues as round 1, which has a child with an activity.
#[workflow]
async fn root(ctx: Ctx, round: u64) -> Result<String> {
    if round == 0 {
        return ctx.continue_as_new(1_u64);
    }
    let below = ctx.child(leaf, ()).id("leaf").await?;
    let told = ctx.recv(DONE).await?;
    Ok(format!("{} {below} {told}", tenant(&ctx.headers())))
}

fn env(store: &MemoryStore) -> TestEnv {
    let env = on(store).activity(who).workflow(root).workflow(leaf);
    env.interceptor(Propagate::new(TENANT))
}

/// What is recorded of the tenant, by event.
fn recorded(history: &[Event]) -> Vec<String> {
    let headers = |kind: &EventKind| {
        if let EventKind::Started(started) = kind {
            return Some(started.headers.clone());
        }
        if let EventKind::ActivityScheduled(activity) = kind {
            return Some(activity.headers.clone());
        }
        if let EventKind::Signaled { headers, .. } = kind {
            return Some(headers.clone());
        }
        if let EventKind::ContinuedAsNew(next) = kind {
            return Some(next.headers.clone());
        }
        if let EventKind::Child(ChildEvent::Initiated(child)) = kind {
            return Some(child.headers.clone());
        }
        if let EventKind::External(ExternalEvent::SignalInitiated(signal)) = kind {
            return Some(signal.headers.clone());
        }
        None
    };
    let found = history.iter().filter_map(|event| {
        let headers = headers(&event.kind)?;
        Some(format!("{} {}", event.kind.name(), tenant(&headers)))
    });
    found.collect()
}

#[test]
fn a_value_follows_from_client_to_successor_child_activity_and_back() {
    drive(async {
        for runs in [1_000, 0] {
            let app = env(&MemoryStore::default())
                .settings(cached(runs))
                .start()
                .await;
            let run = app.start(root, 0).id("root").headers(of("acme"));
            let run = run.await.expect("it starts");
            let result = run.result().await.expect("it ends");
            assert_eq!(result, "acme acme acme acme");
            let first = sound(&run, root).await;
            assert_eq!(
                recorded(&first),
                [
                    "WorkflowExecutionStarted acme",
                    "WorkflowExecutionContinuedAsNew acme"
                ]
            );
            let last = sound(&app.get(root, "root"), root).await;
            assert_eq!(
                recorded(&last),
                [
                    "WorkflowExecutionStarted acme",
                    "StartChildWorkflowExecutionInitiated acme",
                    "WorkflowExecutionSignaled acme",
                ]
            );
            let leaf = sound(&app.get(leaf, "leaf"), leaf).await;
            assert_eq!(
                recorded(&leaf),
                [
                    "WorkflowExecutionStarted acme",
                    "ActivityTaskScheduled acme",
                    "SignalExternalWorkflowExecutionInitiated acme",
                ]
            );
        }
    });
}

#[test]
fn nothing_follows_by_itself() {
    drive(async {
        let env = TestEnv::new().activity(who).workflow(root).workflow(leaf);
        let app = env.start().await;
        let run = app.start(root, 1).id("root").headers(of("acme"));
        let run = run.await.expect("it starts");
        let result = run.result().await.expect("it ends");
        assert_eq!(result, "acme nobody nobody nobody");
    });
}

#[test]
fn a_client_sets_what_it_has_unless_the_call_has_its_own() {
    drive(async {
        let env = TestEnv::new().activity(who).workflow(root).workflow(leaf);
        let env = env.interceptor(Propagate::new(TENANT).from(|| Some("house")));
        let app = env.start().await;
        let run = app.run(root, 1).id("root").await.expect("it ends");
        assert_eq!(run, "house house house house");
        let guest = app.run(root, 1).id("root").again().headers(of("guest"));
        // The completed run is the answer: what came with it stays.
        assert_eq!(guest.await.expect("it is there"), run);
        let other = app.start(leaf, ()).headers(of("guest")).await;
        let other = other.expect("it starts").history().await;
        let other = recorded(&other.expect("it has a history"));
        assert_eq!(other[0], "WorkflowExecutionStarted guest");
    });
}

#[test]
fn headers_survive_the_process() {
    drive(async {
        let store = MemoryStore::default();
        let app = env(&store).start().await;
        let start = app.start(root, 1).id("root").headers(of("acme"));
        let run = start.await.expect("it starts");
        app.shutdown().await;
        drop((run, app));
        let app = env(&store).start().await;
        let result = app.get(root, "root").result().await.expect("it ends");
        assert_eq!(result, "acme acme acme acme");
    });
}

#[activity]
async fn span(ctx: ActivityCtx) -> Result<Option<String>> {
    Ok(traceparent(&ctx.headers()))
}

#[workflow]
async fn traced(ctx: Ctx) -> Result<Vec<Option<String>>> {
    Ok(vec![traceparent(&ctx.headers()), ctx.run(span, ()).await?])
}

#[test]
fn a_trace_is_where_the_official_sdks_keep_it() {
    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    drive(async {
        let env = TestEnv::new().activity(span).workflow(traced);
        let app = env
            .interceptor(traces(|| Some(PARENT.into())))
            .start()
            .await;
        let run = app.start(traced, ()).await.expect("it starts");
        let seen = run.result().await.expect("it ends");
        assert_eq!(seen, [Some(PARENT.to_owned()), Some(PARENT.to_owned())]);
        let history = sound(&run, traced).await;
        let EventKind::Started(started) = &history[0].kind else {
            panic!("a history begins with the start");
        };
        let data = started.headers.get(TRACER_DATA).expect("it is there");
        let expected = format!("{{\"traceparent\":\"{PARENT}\"}}");
        assert_eq!(&data.data[..], expected.as_bytes());
    });
}

#[test]
fn headers_that_are_too_large_or_have_no_name_are_refused() {
    drive(async {
        let app = env(&MemoryStore::default()).start().await;
        let large = of(&"x".repeat(limits::HEADERS_BYTES));
        let refused = app.start(root, 1).headers(large).await;
        let refused = refused.expect_err("it is too large");
        assert!(
            matches!(refused.refusal(), Some(Refusal::TooLarge { .. })),
            "{refused}"
        );
        let mut nameless = Headers::new();
        nameless.write("", "value").expect("text serialises");
        let refused = app.start(root, 1).headers(nameless).await;
        let refused = refused.expect_err("it has no name");
        assert!(
            matches!(refused.refusal(), Some(Refusal::InvalidId { .. })),
            "{refused}"
        );
    });
}
