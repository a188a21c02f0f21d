//! Other languages on one Temporal server: a workflow of Outlast calls an activity of the official
//! Python SDK, and a workflow in Python calls an activity of Outlast.
//!
//! Needs a server (`OUTLAST_TEST_TEMPORAL`) and a Python with the package `temporalio`
//! (`OUTLAST_TEST_PYTHON`); `cargo xtask test --full` sees to both. Without them it says so.
#![cfg(feature = "temporal")]

#[path = "../support/mod.rs"]
mod support;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use outlast::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::json;

use support::drive;

#[derive(Debug, Serialize, Deserialize)]
struct Order {
    item: String,
    cents: u64,
}

#[derive(Debug, Serialize, Deserialize)]
struct Receipt {
    text: String,
    cents: u64,
}

#[derive(Debug, thiserror::Error, Serialize, Deserialize, Failure)]
#[error("too heavy")]
#[failure(terminal)]
struct TooHeavy;

#[activity]
async fn charge_in_rust(order: Order) -> Result<Receipt, TooHeavy> {
    if order.item == "piano" {
        return Err(TooHeavy);
    }
    let text = format!("{}, charged in Rust", order.item);
    let cents = order.cents;
    Ok(Receipt { text, cents })
}

#[workflow]
async fn calls_python(ctx: Ctx, queue: String) -> Result<Vec<String>> {
    let mut said = Vec::new();
    for item in ["tea", "piano"] {
        let order = json!({ "item": item, "cents": 250 });
        let call = ctx.run_raw("charge_in_python", &order).queue(&queue);
        said.push(match call.start_to_close(10.secs()).await {
            Ok(receipt) => format!("{}: {}", receipt["text"], receipt["cents"]),
            Err(error) => format!("failed: {error}"),
        });
    }
    Ok(said)
}

struct Peer(Child);

impl Drop for Peer {
    fn drop(&mut self) {
        // It may have ended by itself.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// The server and the Python to use, or the reason why there is nothing to test.
#[expect(clippy::print_stdout, reason = "a test that does not run says so")]
fn there() -> Option<(String, String)> {
    let server = std::env::var("OUTLAST_TEST_TEMPORAL");
    let python = std::env::var("OUTLAST_TEST_PYTHON");
    match (server, python) {
        (Ok(server), Ok(python)) => Some((server, python)),
        _ => {
            println!("skipped: no OUTLAST_TEST_TEMPORAL or no OUTLAST_TEST_PYTHON");
            None
        }
    }
}

fn peer((server, python): &(String, String), args: &[&str]) -> Command {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../peers/python/peer.py");
    let mut command = Command::new(python);
    command.arg(script).arg(server).args(args);
    command.stdout(Stdio::piped());
    command
}

async fn app(server: &str) -> outlast::App {
    let url = format!("temporal://{server}/default");
    let builder = Outlast::connect(&url).activity(charge_in_rust);
    let app = builder.workflow(calls_python).start().await;
    app.expect("the application starts")
}

#[test]
fn a_workflow_in_rust_calls_an_activity_in_python() {
    let Some(there) = there() else { return };
    let queue = format!("python-{}", std::process::id());
    let mut child = peer(&there, &["serve", &queue])
        .spawn()
        .expect("Python starts");
    let mut ready = String::new();
    let output = child.stdout.take().expect("it is piped");
    let child = Peer(child);
    BufReader::new(output)
        .read_line(&mut ready)
        .expect("it says something");
    assert_eq!(ready.trim(), "ready");
    let said = drive(async {
        let app = app(&there.0).await;
        let said = app.run(calls_python, &queue).await;
        app.shutdown().await;
        said.expect("it ends")
    });
    drop(child);
    assert_eq!(said[0], "\"tea, charged in Python\": 250");
    assert!(said[1].contains("too heavy"), "{}", said[1]);
}

#[test]
fn a_workflow_in_python_calls_an_activity_in_rust() {
    let Some(there) = there() else { return };
    let said = drive(async {
        let app = app(&there.0).await;
        let queue = format!("python-calls-{}", std::process::id());
        let calling = tokio::task::spawn_blocking(move || {
            let call = peer(&there, &["call", &queue, "default"]);
            let output = { call }.output().expect("Python runs");
            assert!(output.status.success(), "{output:?}");
            String::from_utf8(output.stdout).expect("it is text")
        });
        let said = calling.await.expect("nobody panics");
        app.shutdown().await;
        said
    });
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines[0], "tea, charged in Rust: 250");
    assert!(
        lines[1].ends_with(": too heavy, retry False"),
        "{}",
        lines[1]
    );
}
