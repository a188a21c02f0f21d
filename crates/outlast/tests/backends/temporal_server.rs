//! The scenarios on a real Temporal server: one application for all of them, since a worker that
//! leaves takes the instances of its runs along.

use std::future::Future;
use std::sync::OnceLock;
use std::time::Duration;

use outlast::App;
use outlast::prelude::*;
use tokio::runtime::Runtime;

use super::bench::{Bench, everything};
use super::support::cluster;

/// A scenario that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(60);

struct Shared {
    runtime: Runtime,
    app: App,
}

/// What a scenario says on the server that the environment names; nothing without one.
pub(crate) fn run<F>(scenario: &str, run: impl FnOnce(Bench) -> F) -> Option<Vec<String>>
where
    F: Future<Output = Vec<String>>,
{
    let shared = shared(&cluster::server()?);
    let bench = Bench::new(shared.app.clone(), scenario, false);
    let said = async { tokio::time::timeout(PATIENCE, run(bench)).await };
    let said = shared.runtime.block_on(said);
    Some(said.expect("the scenario comes to an end"))
}

fn shared(address: &str) -> &'static Shared {
    static SHARED: OnceLock<Shared> = OnceLock::new();
    SHARED.get_or_init(|| {
        let runtime = Runtime::new().expect("a runtime can be built");
        // A queue of our own: what others left on the server does not meet us.
        let queue = format!("backends-{}", std::process::id());
        let url = format!("temporal://{address}/default?queue={queue}");
        let app = runtime.block_on(everything(Outlast::connect(&url)).start());
        let app = app.expect("the server is there");
        Shared { runtime, app }
    })
}
