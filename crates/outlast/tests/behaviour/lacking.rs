//! Code that nobody registered: whoever looks at the process is told, once for each name.

use std::sync::{Arc, Mutex};

use outlast::prelude::*;
use outlast::{ActivityDef, Severity, WorkerEvent, WorkflowDef};

use super::support::drive;

/// A slip of the pen.
const CHRAGE: ActivityDef<(), ()> = ActivityDef::new("chrage");
const ELSEWHERE: WorkflowDef<(), ()> = WorkflowDef::new("elsewhere");

#[activity]
async fn charge() -> Result<()> {
    Ok(())
}

#[workflow]
async fn order(ctx: Ctx) -> Result<()> {
    Ok(ctx.run(CHRAGE, ()).await?)
}

#[workflow]
async fn asks_elsewhere(ctx: Ctx) -> Result<()> {
    Ok(ctx.child(ELSEWHERE, ()).queue("far").await?)
}

/// What is printed while this code runs nobody's activity, up to `count` warnings of it.
async fn told(count: usize, env: TestEnv, start: impl AsyncFn(&outlast::App)) -> Vec<String> {
    let told = Arc::new(Mutex::new(Vec::new()));
    let notes = told.clone();
    let env = env.report(move |text| notes.lock().expect("nobody panics").push(text.to_owned()));
    let app = env.start().await;
    let mut events = app.events(Severity::Warning);
    start(&app).await;
    for _ in 0..count {
        let event = events.next().await.expect("the worker is there");
        assert!(
            matches!(&*event, WorkerEvent::NotRegistered { .. }),
            "{event}"
        );
    }
    app.shutdown().await;
    std::mem::take(&mut *told.lock().expect("nobody panics"))
}

#[test]
fn an_activity_that_nobody_has_is_told_once_with_the_name_that_was_meant() {
    drive(async {
        let env = TestEnv::new().activity(charge).workflow(order);
        let told = told(1, env, async |app| {
            for id in ["a", "b"] {
                app.start(order, ()).id(id).await.expect("it starts");
            }
        });
        let text = "no worker has activity chrage; add .activity(chrage) to the builder; did you \
                    mean charge? [OL-5305]";
        assert_eq!(told.await, [text]);
    });
}

#[test]
fn a_child_on_a_queue_that_nobody_serves_is_told() {
    drive(async {
        let env = TestEnv::new().workflow(asks_elsewhere);
        let told = told(1, env, async |app| {
            app.start(asks_elsewhere, ()).await.expect("it starts");
        });
        let told = told.await;
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(
            told[0].contains("no worker here serves task queue far"),
            "{told:?}"
        );
    });
}
