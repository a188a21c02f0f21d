//! Looking at runs: describe, history, list.

use outlast::model::view::Waiting;
use outlast::prelude::*;
use outlast::{ListFilter, Status};

use super::support::{code, drive, until};

#[activity]
async fn hang(ctx: ActivityCtx) -> Result<()> {
    Err(ctx.cancelled().await.into())
}

const GO: Signal<()> = signal("go");

#[workflow]
async fn many_waits(ctx: Ctx, n: u64) -> Result<u64> {
    let call = ctx.run(hang, ());
    let timer = ctx.sleep(5.days());
    let step = ctx.step("late", || async {
        std::future::pending::<()>().await;
        Ok(())
    });
    ctx.recv(GO).await?;
    drop((call, timer, step));
    Ok(n)
}

#[test]
fn describe_says_what_a_run_waits_for() {
    drive(async {
        let app = TestEnv::new()
            .activity(hang)
            .workflow(many_waits)
            .start()
            .await;
        let run = app.start(many_waits, 3).id("a").await.expect("it starts");
        let found = run.describe().await.expect("it is there");
        assert_eq!(found.summary.status, Status::Running);
        assert_eq!(found.input.decode::<u64>().expect("a number"), 3);
        assert!(found.outcome.is_none() && found.trouble.is_none());
        let kinds = |w: &Waiting| match w {
            Waiting::ActivityRunning {
                activity_type,
                site,
                ..
            } => {
                assert!(site.file.ends_with("view.rs"));
                format!("activity {activity_type}")
            }
            Waiting::Timer { .. } => "timer".into(),
            Waiting::Step { name, .. } => format!("step {name}"),
            Waiting::ActivityPending { .. }
            | Waiting::ActivityOutside { .. }
            | Waiting::Child { .. }
            | Waiting::SignalExternal { .. }
            | Waiting::CancelExternal { .. }
            | Waiting::Update { .. }
            | Waiting::Task
            | Waiting::Message { .. } => {
                format!("unexpected {w:?}")
            }
        };
        let all: Vec<String> = found.waiting.iter().map(kinds).collect();
        assert_eq!(all, ["activity hang", "timer", "step late"]);
        run.send(GO, ()).await.expect("it is durable");
        assert_eq!(run.result().await.expect("it ends"), 3);
        let found = run.describe().await.expect("it is there");
        assert_eq!(found.summary.status, Status::Completed);
        assert!(found.waiting.is_empty() && found.outcome.is_some());
        assert!(found.summary.closed.is_some());
        super::support::sound(&run, many_waits).await;
    });
}

#[workflow]
async fn quick(_ctx: Ctx, is_good: bool) -> Result<()> {
    if !is_good {
        Err("told to")?;
    }
    Ok(())
}

#[test]
fn list_gives_the_newest_first_and_filters() {
    drive(async {
        let env = TestEnv::new()
            .activity(hang)
            .workflow(quick)
            .workflow(many_waits);
        let app = env.start().await;
        for (n, is_good) in [(1, true), (2, false), (3, true)] {
            drop(app.run(quick, is_good).id(format!("q{n}")).await);
        }
        app.start(many_waits, 1)
            .id("open")
            .await
            .expect("it starts");
        let ids = async |filter: ListFilter| {
            let all = app.list(filter).await.expect("a list");
            all.iter()
                .map(|s| s.workflow_id.as_str().to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(ids(ListFilter::default()).await, ["open", "q3", "q2", "q1"]);
        let of = |status| ListFilter {
            status: Some(status),
            ..ListFilter::default()
        };
        assert_eq!(ids(of(Status::Completed)).await, ["q3", "q1"]);
        assert_eq!(ids(of(Status::Failed)).await, ["q2"]);
        assert_eq!(ids(of(Status::Running)).await, ["open"]);
        let typed = ListFilter {
            workflow_type: Some("many_waits".into()),
            ..Default::default()
        };
        assert_eq!(ids(typed).await, ["open"]);
        let two = ListFilter {
            limit: 2,
            ..Default::default()
        };
        let page = app.list(two.clone()).await.expect("a list");
        let next = ListFilter {
            before: page.last().map(|s| s.run_id),
            ..two
        };
        assert_eq!(ids(next).await, ["q2", "q1"]);
    });
}

#[test]
fn an_unknown_run_is_not_found() {
    drive(async {
        let app = TestEnv::new().workflow(quick).start().await;
        let nobody = app.get(quick, "nobody");
        assert_eq!(code(nobody.describe().await), "OL-1005");
        assert_eq!(code(nobody.history().await), "OL-1005");
        assert_eq!(code(nobody.result().await), "OL-1005");
        assert_eq!(code(nobody.cancel().await), "OL-1005");
        assert_eq!(code(nobody.terminate("x").await), "OL-1005");
        assert_eq!(code(nobody.retry().await), "OL-1005");
    });
}

#[test]
fn an_operator_can_look_at_the_workflow_beside_it() {
    drive(async {
        let app = TestEnv::new()
            .activity(hang)
            .workflow(many_waits)
            .start()
            .await;
        let run = app.start(many_waits, 3).id("a").await.expect("it starts");
        until(&run, |d| d.summary.events > 4).await;
        let history = run.history().await.expect("a history");
        assert_eq!(
            history.len() as u64,
            run.describe().await.expect("it").summary.events
        );
        let json = outlast::model::temporal_json::export(&history);
        assert!(json.contains("ACTIVITY_TASK_SCHEDULED"), "{json}");
    });
}
