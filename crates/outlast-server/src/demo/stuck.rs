//! `outlast demo --stuck`: a workflow that blocks its thread, three that never come to rest, one whose
//! destructors block and an activity that does not stop, among orders that go on as if nothing were.
//! What the worker finds is told as it is found.

use std::collections::BTreeSet;

use std::path::Path;
use std::time::Duration;

use outlast::{App, CallError, Events, Outlast, Settings, Severity, WorkerEvent};
use tokio::task::JoinSet;

use super::order::{Order, charge, order, put_back, refund, reserve, ship};
use super::shop::Shop;
use crate::culprit::{Leash, Manner, Way, blocked, clings, deaf, endless, waits_for_deaf};
use crate::out;
use crate::stop::Stop;

/// Orders beside the culprits.
const ORDERS: u64 = 200;
/// Runs that never come to rest, by id.
const ENDLESS: [(&str, Way); 3] = [
    ("yields", Way::Yields),
    ("wakes", Way::Wakes),
    ("spawns", Way::Spawns),
];
/// Events of a run whose code has come to rest once: the start, its first task, a timer.
const BEGUN: u64 = 5;
/// A run whose destructors block.
const CLINGS: &str = "clings";
/// What was not found by then will not be.
const PATIENCE: Duration = Duration::from_secs(30);
/// A demo is shorter than a day: what takes ten seconds elsewhere takes one here.
const ZOMBIE_GRACE: Duration = Duration::from_secs(1);

/// Runs the demo to its end.
pub(super) async fn show(path: &Path) -> Result<(), Stop> {
    let leash = Leash::new();
    let app = open(path).await?;
    let mut events = app.events(Severity::Info);
    out::line("one workflow blocks its thread, one activity does not stop when it should,");
    out::line("three workflows never come to rest, one clings to its thread when it is ended");
    let stuck = app.start(blocked, Manner::Sleeps).id("blocked").await?;
    let deserted = app.start(waits_for_deaf, Manner::Sleeps);
    let deserted = deserted.id("deserted").await?;
    let mut others = Vec::new();
    for (id, way) in ENDLESS {
        others.push(app.start(endless, way).id(id).await?);
    }
    let ended = app.start(clings, ()).id(CLINGS).await?;
    // Its code must have begun, to have something to cling to.
    while ended.describe().await?.summary.events < BEGUN {
        tokio::task::yield_now().await;
    }
    ended.terminate("the demo ends it").await?;
    let mut orders = place(&app);
    let found = tokio::time::timeout(PATIENCE, all_found(&mut events)).await;
    found.map_err(|_| Stop::Failure("what is stuck was not found".into()))?;
    while let Some(done) = orders.join_next().await {
        done.map_err(|error| Stop::Failure(error.to_string()))??;
    }
    out::line(&format!("{ORDERS} orders beside them have ended"));
    let trouble = stuck.describe().await?.trouble;
    let why = trouble.map_or("nothing".into(), |t| t.failure.to_string());
    out::line(&format!("run blocked waits, isolated: {why}"));
    deserted.result().await?;
    out::line("run deserted went on without its activity");
    drop(leash);
    stuck.result().await?;
    out::line("both are let go: run blocked has tried again and completed");
    for other in others {
        other.result().await?;
    }
    out::line("and so have those that never came to rest");
    Stop::if_left(app.shutdown().await)
}

async fn open(path: &Path) -> Result<App, Stop> {
    let settings = Settings {
        zombie_grace: ZOMBIE_GRACE,
        ..Settings::default()
    };
    let builder = Outlast::sqlite(path).state(Shop::new(0)).settings(settings);
    let builder = builder.workflow(order).activity(reserve).activity(put_back);
    let builder = builder.activity(charge).activity(refund).activity(ship);
    let builder = builder.workflow(blocked).workflow(waits_for_deaf);
    let builder = builder.workflow(endless).workflow(clings);
    Ok(builder.activity(deaf).report(|_| ()).start().await?)
}

fn place(app: &App) -> JoinSet<Result<(), CallError>> {
    let mut orders = JoinSet::new();
    for number in 1..=ORDERS {
        let item = "lamp".to_owned();
        let cents = 500 + number;
        let wanted = Order {
            number,
            item,
            cents,
        };
        let run = app.run(order, &wanted).id(format!("order-{number}"));
        orders.spawn(async move {
            match run.await {
                Err(refused @ CallError::Refused(_)) => Err(refused),
                // A declined card is an end like any other.
                Ok(_) | Err(_) => Ok(()),
            }
        });
    }
    orders
}

/// Tells what is found until all culprits are.
async fn all_found(events: &mut Events) {
    let mut hidden: BTreeSet<&str> = ENDLESS.iter().map(|(id, _)| *id).collect();
    hidden.extend(["blocked", CLINGS]);
    let mut is_zombie = false;
    while !(hidden.is_empty() && is_zombie) {
        let Some(event) = events.next().await else {
            return;
        };
        if let WorkerEvent::StuckGivenUp(stuck) = &*event {
            hidden.remove(stuck.run.workflow_id.as_str());
        }
        is_zombie |= matches!(*event, WorkerEvent::Zombie { .. });
        if event.severity() >= Severity::Warning {
            out::line(&format!("found: {event} [{}]", event.code()));
        }
    }
}
