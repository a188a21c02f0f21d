//! A cluster that is not there, not yet, not for us, or goes away for a while: errors that say
//! what to do, tries that can be seen, and nothing lost.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::join_all;
use outlast::prelude::*;
use outlast::{App, Builder, Health, Outlast, Settings, Severity, WorkerEvent};

use crate::fake::{self, Says};
use crate::journey::{LEGS, LETTER, expected, journey, register};
use crate::support::{cluster, code, drive};

/// Runs that are under way when the server dies.
const RUNS: usize = 10;

#[workflow]
async fn nothing(_: Ctx) -> Result<()> {
    Ok(())
}

/// Tries to start it, and says why it does not.
async fn refusal(builder: Builder) -> String {
    let started = builder.report(|_| ()).start().await;
    started.expect_err("it does not start").to_string()
}

/// What is said of a backend, as it is said.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<WorkerEvent>>>);

impl Told {
    fn hear(&self, builder: Builder) -> Builder {
        let told = self.0.clone();
        builder.on_event(Severity::Info, move |event| {
            told.lock().expect("nobody panics").push(event.clone());
        })
    }

    /// How often it was away, and whether it came back.
    fn away_and_back(&self) -> (usize, usize) {
        let told = self.0.lock().expect("nobody panics");
        let count = |is_it: fn(&WorkerEvent) -> bool| told.iter().filter(|e| is_it(e)).count();
        (
            count(|event| matches!(event, WorkerEvent::BackendUnavailable { .. })),
            count(|event| matches!(event, WorkerEvent::BackendBack { .. })),
        )
    }
}

fn patient_for(limit: Duration) -> Settings {
    Settings {
        connect_timeout: limit,
        ..Settings::default()
    }
}

#[test]
fn a_cluster_that_is_down_is_tried_again_until_the_limit_and_every_try_is_told() {
    let port = cluster::free_port();
    let url = format!("temporal://127.0.0.1:{port}/default");
    let told = Told::default();
    let builder = Outlast::connect(&url).settings(patient_for(1.secs()));
    let why = drive(refusal(told.hear(builder)));
    assert!(
        why.starts_with("OL-2003: no cluster answers at 127.0.0.1"),
        "{why}"
    );
    assert!(
        why.contains("refused") && why.contains("is it running?"),
        "{why}"
    );
    let (away, back) = told.away_and_back();
    assert!(
        away >= 2 && back == 0,
        "{away} tries were told, {back} returns"
    );
}

#[test]
fn a_key_that_nobody_knows_is_refused_at_once() {
    let server = fake::start(Says::Status(16, "Request unauthorized."));
    let url = format!("temporal://{server}/default?api_key=wrong&tls=false");
    let told = Told::default();
    let why = drive(refusal(told.hear(Outlast::connect(&url))));
    assert!(
        why.starts_with("OL-4001") && why.contains("Request unauthorized"),
        "{why}"
    );
    assert_eq!(told.away_and_back(), (0, 0), "it is not tried again");
}

#[test]
fn a_server_that_is_too_old_is_refused_by_its_version() {
    let server = fake::start(Says::Text("1.20.4"));
    let why = drive(refusal(Outlast::connect(&format!(
        "temporal://{server}/default"
    ))));
    assert!(why.starts_with("OL-4003"), "{why}");
    assert!(why.contains("1.20.4") && why.contains("1.25.0"), "{why}");
}

#[test]
fn a_server_from_before_versions_could_be_asked_for_is_too_old() {
    let server = fake::start(Says::Status(12, "unknown method GetSystemInfo"));
    let why = drive(refusal(Outlast::connect(&format!(
        "temporal://{server}/default"
    ))));
    assert!(
        why.starts_with("OL-4003") && why.contains("1.25.0"),
        "{why}"
    );
}

#[test]
fn a_namespace_that_is_not_there_is_refused_by_name() {
    let Some(server) = cluster::server() else {
        return;
    };
    let why = drive(refusal(Outlast::connect(&format!(
        "temporal://{server}/nowhere"
    ))));
    assert!(
        why.starts_with("OL-4002") && why.contains("nowhere"),
        "{why}"
    );
}

#[test]
fn a_queue_that_is_served_twice_is_refused_by_name() {
    let Some(server) = cluster::server() else {
        return;
    };
    let name = format!("twice-{}", std::process::id());
    let url = format!("temporal://{server}/default?queue={name}");
    let builder = Outlast::connect(&url).workflow(nothing);
    let builder = builder.queue(&name, |queue| queue.workflow(journey));
    let why = drive(refusal(builder));
    assert!(why.contains(&name) && why.contains("registered"), "{why}");
}

#[test]
fn a_server_that_comes_late_goes_away_and_comes_back_loses_nothing() {
    let Some(tool) = cluster::tool() else {
        return;
    };
    let dir = tempfile::tempdir().expect("a folder can be made");
    let (port, file) = (cluster::free_port(), dir.path().join("server.db"));
    let url = format!("temporal://127.0.0.1:{port}/default?queue=absence");
    let told = Told::default();
    drive(async {
        let builder = told.hear(register(Outlast::connect(&url)));
        let starting = tokio::spawn(builder.start());
        let server = cluster::Server::start(&tool, port, &file);
        let app = starting.await.expect("nobody panics");
        let app = app.expect("the server came in time");
        let (away, back) = told.away_and_back();
        assert!(
            away >= 1 && back == 1,
            "{away} tries were told, {back} returns"
        );
        let runs = start_all(&app).await;
        let last = runs.last().cloned().expect("there are some");
        let found = last.describe().await.expect("it is there");
        assert!(
            found.summary.status.is_open(),
            "the server dies too late to matter"
        );
        let results = join_all(
            runs.into_iter()
                .map(|run| async move { run.result().await }),
        );
        let results = tokio::spawn(results);
        drop(server);
        // Whoever does not only wait is told so, and by then the server was away for long.
        assert_eq!(code(last.describe().await), "OL-2003");
        let server = cluster::Server::start(&tool, port, &file);
        for result in results.await.expect("nobody panics") {
            assert_eq!(result.expect("it completes"), expected());
        }
        assert_eq!(
            app.health(),
            Health {
                live: true,
                ready: true,
                reasons: Vec::new()
            }
        );
        app.shutdown_now().await;
        drop(server);
    });
}

/// Runs with all their letters, of which one has ended and others have not.
async fn start_all(app: &App) -> Vec<outlast::Handle<Vec<u64>, outlast::Error>> {
    let mut runs = Vec::new();
    for n in 0..RUNS {
        let id = format!("absence/{n}");
        let start = app.start(journey, &id).id(&id).task_timeout(1.secs());
        let run = start.await.expect("it starts");
        for letter in 1..=LEGS {
            run.send(LETTER, letter).await.expect("it is durable");
        }
        runs.push(run);
    }
    runs
}
