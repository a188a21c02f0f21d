//! The planted bug of the runtime can be seen, so that a search for it can succeed. A test
//! binary of its own: a planted bug is on for the whole process.

use outlast_model::event::Started;
use outlast_model::planted::{Bug, plant};
use outlast_model::{
    Activation, Command, Edition, Failure, Headers, Job, Payload, RunId, Shared, SignalName,
    Timestamp,
};
use outlast_runtime::{Context, Instance, MainFuture, MainOutcome, Program, Unwatched};
use std::sync::Arc;
use std::time::Duration;

struct Waiting;

impl Program for Waiting {
    fn start(&self, ctx: Context, _: &Started) -> Result<MainFuture, Failure> {
        Ok(Box::pin(async move {
            ctx.timer(Duration::from_secs(1)).await;
            MainOutcome::Canceled
        }))
    }
}

fn activation(jobs: Vec<Job>) -> Activation {
    Activation {
        now: Timestamp(1),
        is_replaying: false,
        history_events: 3,
        suggest_continue_as_new: false,
        jobs,
    }
}

fn start() -> Instance {
    let started = Started {
        workflow_id: "w".into(),
        run_id: RunId(7),
        workflow_type: "t".into(),
        queue: "q".into(),
        input: Payload::null(),
        request_id: None,
        run_timeout: None,
        parent: None,
        first_run_id: None,
        continued_from: None,
        headers: Headers::new(),
        priority: None,
        edition: Some(Edition::NEWEST),
    };
    let mut first = activation(vec![Job::Initialize(Shared::new(started))]);
    first.is_replaying = true;
    let foreign: outlast_runtime::ForeignWake = Arc::new(|_| ());
    let (instance, commands) =
        Instance::start(&Waiting, &first, &foreign, &Unwatched).expect("starts");
    assert_eq!(commands.len(), 1);
    instance
}

fn next(mut instance: Instance) -> Vec<Command> {
    let name = SignalName::from("hello");
    let signal = Job::Signal {
        name,
        input: Payload::null(),
        headers: Headers::new(),
    };
    instance
        .activate(&activation(vec![signal]), &Unwatched)
        .expect("runs")
}

#[test]
fn an_eviction_that_emits_commands_is_seen_in_the_next_slice() {
    start().evict();
    assert!(next(start()).is_empty());
    plant(Some(Bug::EvictionEmitsCommands));
    start().evict();
    let commands = next(start());
    plant(None);
    assert!(
        matches!(commands[..], [Command::CancelTimer { .. }]),
        "{commands:?}"
    );
}
