//! Pollers that are killed and connections that are replaced while runs are under way: nothing is
//! lost or recorded twice. What was on its way over a connection that closes comes again by its
//! time limit.

use outlast::prelude::*;
use outlast::{Outlast, Settings};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use crate::journey::{journey, register};
use crate::kills::{PATIENCE, one_run, spread};
use crate::support::{cluster, drive};

/// Runs, and repairs among them.
const RUNS: usize = 24;
const REPAIRS: usize = 8;

#[test]
#[expect(clippy::print_stdout, reason = "measured, and told")]
fn killed_pollers_and_replaced_connections_lose_and_double_nothing() {
    let Some(address) = cluster::server() else {
        return;
    };
    let queue = format!("recycled-{}", std::process::id());
    let url = format!("temporal://{address}/default?queue={queue}");
    drive(async {
        let settings = Settings {
            sticky_timeout: 1.secs(),
            ..Settings::default()
        };
        let builder = register(Outlast::connect(&url).settings(settings));
        let app = builder.start().await.expect("the server is there");
        let mut runs = JoinSet::new();
        for run in 0..RUNS {
            let (app, id) = (app.clone(), format!("{queue}/{run}"));
            runs.spawn(async move { timeout(PATIENCE, one_run(&app, &id)).await });
        }
        let (mut histories, mut pauses) = (Vec::new(), Vec::new());
        for _ in 0..REPAIRS {
            assert!(app.recycle(&queue), "it is served here");
            let begun = Instant::now();
            let ended = runs.join_next().await.expect("some are under way");
            pauses.push(begun.elapsed());
            histories.push(ended.expect("it is as it should be").expect("it ends"));
        }
        for ended in runs.join_all().await {
            histories.push(ended.expect("it ends"));
        }
        assert_eq!(histories.len(), RUNS);
        println!(
            "{RUNS} runs, {REPAIRS} repairs; from each to the next run that completed: {}",
            spread(&pauses)
        );
        assert!(!app.recycle("nobody"), "nobody serves it");
        app.shutdown().await.into_result().expect("nothing is left");
    });
}

#[test]
fn there_is_nothing_to_recycle_in_one_process() {
    drive(async {
        let env = outlast::testing::TestEnv::new().workflow(journey);
        assert!(!env.start().await.recycle("default"));
    });
}
