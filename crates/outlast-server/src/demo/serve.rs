//! Keeps the shop busy: carries on with what an earlier process left open, then takes new
//! orders, until it has enough or is asked to stop.

use std::time::Duration;

use outlast::{
    App, CallError, Config, ListFilter, Severity, ShutdownSignal, Status, Summary, WorkerEvent,
};
use outlast_model::Refusal;
use tokio::task::JoinSet;

use super::order::{Order, charge, order, put_back, refund, reserve, ship};
use super::progress::{Ended, Progress};
use super::shop::Shop;
use super::{Args, Store};
use crate::listen::listen;
use crate::lot::mix;
use crate::out;
use crate::stop::Stop;

/// Orders under way at a time.
const IN_FLIGHT: usize = 100;
/// Without `--runs` orders come at a pace that an eye can follow.
const PAUSE: Duration = Duration::from_millis(50);
/// When an order that the store does not take is placed again.
const AGAIN: Duration = Duration::from_millis(250);
/// How often the progress is told.
const TELL: Duration = Duration::from_millis(100);

const ITEMS: [&str; 6] = ["lamp", "chair", "kettle", "atlas", "globe", "quilt"];

type Orders = JoinSet<Result<Ended, CallError>>;

/// Runs the demo to its end.
pub(super) async fn serve(store: &Store, args: &Args) -> Result<(), Stop> {
    let (runs, shop) = (args.runs, Shop::new(args.fail));
    let app = open(store, &shop).await?;
    let _listening = match args.metrics {
        Some(address) => Some(listen(address, app.clone()).await?),
        None => None,
    };
    let mut progress = Progress::new(shop);
    let mut orders = Orders::new();
    let next = carry_on(&app, store, &mut progress, &mut orders).await?;
    if runs.is_none() {
        out::line("taking orders; Ctrl-C stops in order, kill -9 does not: try both");
    }
    let mut signal = ShutdownSignal::listen()?;
    let mut work = (&mut progress, &mut orders);
    let served = take_orders(&app, next, runs, &mut work, &mut signal).await;
    let stopped = app.shutdown_with(&mut signal).await;
    progress.sum_up();
    Stop::if_left(stopped)?;
    out::line(&format!("look further: {}", store.look_further()));
    served
}

async fn open(store: &Store, shop: &Shop) -> Result<App, Stop> {
    let builder = store
        .open()
        .config(Config::load().map_err(|error| Stop::Usage(error.to_string()))?);
    let builder = builder.state(shop.clone()).workflow(order);
    let builder = builder
        .activity(reserve)
        .activity(put_back)
        .activity(charge);
    Ok(builder
        .activity(refund)
        .activity(ship)
        .report(quiet)
        .on_event(Severity::Info, tell_backend)
        .start()
        .await?)
}

/// The demo fails attempts on purpose; its own lines tell how many.
fn quiet(_: &str) {}

/// Whether there is anybody who keeps the orders is worth a line.
fn tell_backend(event: &WorkerEvent) {
    if let WorkerEvent::BackendUnavailable { .. }
    | WorkerEvent::BackendBack { .. }
    | WorkerEvent::StoreAway { .. }
    | WorkerEvent::StoreBack { .. } = event
    {
        out::line(&event.to_string());
    }
}

/// Says what is there already and waits for what is open. Returns the next free number.
async fn carry_on(
    app: &App,
    store: &Store,
    progress: &mut Progress,
    orders: &mut Orders,
) -> Result<u64, Stop> {
    let newest = app
        .list(ListFilter {
            limit: IN_FLIGHT * 4,
            ..ListFilter::default()
        })
        .await?;
    let next = newest
        .iter()
        .filter_map(number)
        .max()
        .map_or(1, |last| last + 1);
    let filter = ListFilter {
        status: Some(Status::Running),
        limit: 100_000,
        ..Default::default()
    };
    let mut open = app.list(filter).await?;
    // A cluster has runs of others as well.
    open.retain(|run| number(run).is_some());
    if !open.is_empty() {
        let count = open.len();
        out::line(&format!(
            "{store} has {count} open orders of an earlier process: carrying on"
        ));
    }
    for run in open {
        progress.carried_on += 1;
        let handle = app.get(order, run.workflow_id.as_str());
        orders.spawn(async move { ended(handle.result().await) });
    }
    Ok(next)
}

fn number(run: &Summary) -> Option<u64> {
    run.workflow_id
        .as_str()
        .strip_prefix("order-")?
        .parse()
        .ok()
}

async fn take_orders(
    app: &App,
    first: u64,
    runs: Option<u64>,
    (progress, orders): &mut (&mut Progress, &mut Orders),
    signal: &mut ShutdownSignal,
) -> Result<(), Stop> {
    let mut tick = tokio::time::interval(TELL);
    let mut pace = tokio::time::interval(PAUSE);
    let mut next = first;
    loop {
        let left = runs.map(|runs| runs.saturating_sub(next - first));
        if left == Some(0) && orders.is_empty() {
            return Ok(());
        }
        let has_room = orders.len() < IN_FLIGHT && left != Some(0);
        if has_room && left.is_some() {
            place(app, next, orders);
            (next, progress.started) = (next + 1, progress.started + 1);
            continue;
        }
        tokio::select! {
            Some(done) = orders.join_next() => {
                progress.ended(done.map_err(|e| Stop::Failure(e.to_string()))??);
            }
            _ = pace.tick(), if has_room => {
                place(app, next, orders);
                (next, progress.started) = (next + 1, progress.started + 1);
            }
            _ = tick.tick() => progress.tell(),
            () = signal.recv() => return Ok(()),
        }
    }
}

fn place(app: &App, number: u64, orders: &mut Orders) {
    let lot = mix(number);
    let item = ITEMS[usize::try_from(lot % 6).unwrap_or(0)].to_owned();
    let wanted = Order {
        number,
        item,
        cents: 500 + lot % 9_500,
    };
    orders.spawn(place_one(app.clone(), wanted));
}

/// One order, to its end. A store that takes nothing now is asked again: the shop stays open.
async fn place_one(app: App, wanted: Order) -> Result<Ended, CallError> {
    let id = format!("order-{}", wanted.number);
    loop {
        let mut outcome = app.run(order, &wanted).id(&id).await;
        if let Err(CallError::Refused(Refusal::Indeterminate { .. })) = outcome {
            // It may be there.
            outcome = app.get(order, id.as_str()).result().await;
        }
        let Err(CallError::Refused(refusal)) = &outcome else {
            return ended(outcome);
        };
        if !is_passing(refusal) {
            return ended(outcome);
        }
        tokio::time::sleep(AGAIN).await;
    }
}

/// Whether the same order may be taken later: there is no room, the store cannot be used, or what
/// was unknown turned out not to be there.
fn is_passing(refusal: &Refusal) -> bool {
    matches!(
        refusal,
        Refusal::StoreFull
            | Refusal::Unavailable { .. }
            | Refusal::Indeterminate { .. }
            | Refusal::NotFound { .. }
    )
}

/// An order that failed is a result; a refusal is trouble.
fn ended<T>(outcome: Result<T, CallError>) -> Result<Ended, CallError> {
    match outcome {
        Ok(_) => Ok(Ended::Completed),
        Err(refused @ CallError::Refused(_)) => Err(refused),
        Err(_) => Ok(Ended::Failed),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use outlast::testing::TestEnv;
    use outlast_service::faulty::{Fault, FaultyStore};
    use outlast_service::memory::MemoryStore;

    use super::*;

    #[tokio::test]
    async fn an_order_that_there_is_no_room_for_is_placed_again() {
        let store = Arc::new(FaultyStore::new(MemoryStore::new()));
        store.fail_at(1, Fault::Full);
        let env = TestEnv::on(store.clone()).state(Shop::new(0));
        let env = env.activity(reserve).activity(put_back).activity(charge);
        let env = env.activity(refund).activity(ship).workflow(order);
        let app = env.real_time().report(|_| ()).start().await;
        let wanted = Order {
            number: 1,
            item: "lamp".into(),
            cents: 500,
        };
        let ended = place_one(app.clone(), wanted).await;
        assert!(matches!(ended, Ok(Ended::Completed)), "{ended:?}");
        assert!(store.calls() > 1, "the first was refused");
        app.shutdown().await;
    }
}
