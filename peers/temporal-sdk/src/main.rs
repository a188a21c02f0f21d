//! One workflow, one activity, with the official SDK: the counterpart of `outlast bench` on a
//! cluster. Prints one JSON line.
//!
//! `peer-temporal-sdk HOST:PORT CONCURRENCY SECONDS`

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde::{Deserialize, Serialize};
use temporalio_client::{
    Client, ClientOptions, Connection, ConnectionOptions, WorkflowGetResultOptions,
    WorkflowStartOptions,
};
use temporalio_macros::{activities, workflow, workflow_methods};
use temporalio_sdk::activities::{ActivityContext, ActivityError};
use temporalio_sdk::{
    ActivityOptions, Runtime, Worker, WorkerOptions, WorkflowContext, WorkflowContextView,
    WorkflowResult,
};

#[derive(Clone, Serialize, Deserialize)]
pub struct Order {
    id: u64,
    item: String,
    cents: u64,
}

pub struct Bank;

#[activities]
impl Bank {
    #[activity]
    pub async fn charge(_ctx: ActivityContext, order: Order) -> Result<u64, ActivityError> {
        Ok(order.cents)
    }
}

#[workflow]
pub struct Checkout {
    order: Order,
}

#[workflow_methods]
impl Checkout {
    #[init]
    fn new(_ctx: &WorkflowContextView, order: Order) -> Self {
        Self { order }
    }

    #[run]
    pub async fn run(ctx: &mut WorkflowContext<Self>) -> WorkflowResult<u64> {
        let order = ctx.state(|state| state.order.clone());
        let options = ActivityOptions::start_to_close_timeout(Duration::from_secs(60));
        Ok(ctx.execute_activity(Bank::charge, order, options).await?)
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().collect();
    let [_, address, concurrency, seconds] = &args[..] else {
        return Err("usage: peer-temporal-sdk HOST:PORT CONCURRENCY SECONDS".into());
    };
    let (concurrency, seconds): (usize, f64) = (concurrency.parse()?, seconds.parse()?);
    let url: url::Url = format!("http://{address}").parse()?;
    let connection = Connection::connect(ConnectionOptions::new(url).build()).await?;
    let client = Client::new(connection, ClientOptions::new("default").build())?;
    let queue = "peer".to_owned();
    let runtime = Runtime::from_current_tokio(Default::default())?;
    let options = WorkerOptions::new(queue.as_str())
        .register_activities(Bank)
        .register_workflow::<Checkout>()?
        .build();
    let mut worker = Worker::new(&runtime, client.clone(), options)?;
    let stop = worker.shutdown_handle();
    let load = tokio::spawn(async move {
        let line = load(client, queue, concurrency, seconds).await;
        stop();
        line
    });
    worker.run().await?;
    println!("{}", load.await??);
    Ok(())
}

/// Not yet in the window.
const BEFORE: u8 = 0;
/// What ends now counts.
const WITHIN: u8 = 1;
/// What ends now is the client's last.
const AFTER: u8 = 2;

/// A closed loop of so many clients. What ends within a window counts, with all clients under way
/// before and after it; half of its length goes before it. As `outlast bench` does it.
async fn load(
    client: Client,
    queue: String,
    concurrency: usize,
    seconds: f64,
) -> anyhow::Result<String> {
    let stage = Arc::new(AtomicU8::new(BEFORE));
    let clients = (0..concurrency).map(|place| {
        let (client, queue, stage) = (client.clone(), queue.clone(), stage.clone());
        tokio::spawn(async move { caller(&client, &queue, place, &stage).await })
    });
    let clients: Vec<_> = clients.collect();
    tokio::time::sleep(Duration::from_secs_f64(seconds / 2.0)).await;
    let begin = Instant::now();
    stage.store(WITHIN, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
    stage.store(AFTER, Ordering::Relaxed);
    let all = begin.elapsed().as_secs_f64();
    let mut took = Vec::new();
    for client in join_all(clients).await {
        took.extend(client??);
    }
    took.sort();
    let p50 = took.get(took.len() / 2).map_or(0, Duration::as_micros);
    Ok(serde_json::json!({
        "concurrency": concurrency,
        "per_second": took.len() as f64 / all,
        "p50_us": p50 as u64,
        "workflows": took.len(),
    })
    .to_string())
}

async fn caller(
    client: &Client,
    queue: &str,
    place: usize,
    stage: &AtomicU8,
) -> anyhow::Result<Vec<Duration>> {
    let mut took = Vec::new();
    for number in 0.. {
        let begin = Instant::now();
        let id = format!("{queue}-{}-{place}-{number}", std::process::id());
        one(client, queue, id).await?;
        match stage.load(Ordering::Relaxed) {
            BEFORE => {}
            WITHIN => took.push(begin.elapsed()),
            _ => break,
        }
    }
    Ok(took)
}

async fn one(client: &Client, queue: &str, id: String) -> anyhow::Result<u64> {
    let order = Order {
        id: 1,
        item: "tea, green, 200 g".into(),
        cents: 1_250,
    };
    let options = WorkflowStartOptions::new(queue, id).build();
    let handle = client.start_workflow(Checkout::run, order, options).await?;
    Ok(handle
        .get_result(WorkflowGetResultOptions::default())
        .await?)
}
