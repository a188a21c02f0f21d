//! Slices meet takeover, commits meet those who wait for them, the end meets everybody.
//!
//! The whole service under the scheduler, with a store in memory and code that waits for a
//! signal `end`. Whoever drives the shard may be replaced at any moment, with a slice in hand.

use std::sync::Arc;

use outlast_engine::Effect;
use outlast_model::job::Job;
use outlast_model::start::{ConflictPolicy, ReusePolicy, SignalRequest, StartRequest};
use outlast_model::task::{Notes, Permit, SlotKind, TaskAnswer, WorkflowTask};
use outlast_model::view::{RunOutcome, RunRef};
use outlast_model::{
    Command, EventKind, Headers, Payload, QueueName, Record, Refusal, RunId, SignalName, Timestamp,
    record,
};
use shuttle::sync::mpsc::{Receiver, channel};
use shuttle::thread::{self, JoinHandle};

use super::explore;
use crate::clock::VirtualClock;
use crate::mail::Reply;
use crate::memory::MemoryStore;
use crate::outlet::{Capabilities, Outlet, Served};
use crate::service::{Next, Service, Setup};
use crate::shard::Turn;
use crate::store::Store;

struct NoAttempts;

impl Outlet for NoAttempts {
    fn take_slot(&self, _: &QueueName, _: SlotKind) -> Permit {
        Permit::Full
    }
    fn return_slot(&self, _: &QueueName, _: SlotKind) {}
    fn release(&self, _: Vec<Effect>) {}
}

fn service(store: &MemoryStore) -> Arc<Service> {
    let mut served = Served::default();
    served.workflows.insert("flow".into());
    let mut capabilities = Capabilities::default();
    capabilities.queues.insert("q".into(), served);
    Service::open(Setup {
        store: Arc::new(store.clone()),
        clock: Arc::new(VirtualClock::new(Timestamp(1))),
        outlet: Arc::new(NoAttempts),
        capabilities,
        shards: 1,
        window: outlast_engine::request::Window::default(),
    })
    .expect("memory opens")
}

/// Whether somebody watches the slices of an engine thread, and finds them slow.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Watch {
    No,
    Slow,
}

/// An engine thread that takes the shard over.
fn engine(service: &Arc<Service>, watch: Watch) -> JoinHandle<()> {
    let service = service.clone();
    let driver = service.drive(0);
    thread::spawn(move || {
        loop {
            match service.next(0, driver) {
                Next::Turn(Turn::Task(task)) => {
                    let watchdog = (watch == Watch::Slow).then(|| {
                        let (service, token) = (service.clone(), task.token);
                        thread::spawn(move || service.go_slow(0, token))
                    });
                    service.complete(0, driver, task.token, answer(&task));
                    if let Some(watchdog) = watchdog {
                        watchdog.join().expect("watches");
                    }
                }
                Next::Turn(Turn::Evict(_)) => {}
                Next::Replaced | Next::Shutdown => return,
            }
        }
    })
}

/// The code: it ends when it has seen the signal, be it now or before.
fn answer(task: &WorkflowTask) -> TaskAnswer {
    let mut jobs = task.activation.jobs.iter();
    let is_told = jobs.any(|job| matches!(job, Job::Signal { name, .. } if is_end(name)));
    let mut events = task.history.iter().flatten();
    let was_told =
        events.any(|event| matches!(&event.kind, EventKind::Signaled { name, .. } if is_end(name)));
    let commands = if is_told || was_told {
        let result = Payload::null();
        vec![Command::CompleteWorkflow { result }]
    } else {
        Vec::new()
    };
    TaskAnswer::Completed {
        commands,
        notes: Notes::default(),
    }
}

fn is_end(name: &SignalName) -> bool {
    name.as_str() == "end"
}

type Answer<T> = Receiver<Result<T, Refusal>>;

fn reply<T: Send + 'static>() -> (Reply<T>, Answer<T>) {
    let (sender, receiver) = channel();
    (Box::new(move |answer| drop(sender.send(answer))), receiver)
}

fn start(service: &Service) -> Answer<RunOutcome> {
    let request = StartRequest {
        workflow_id: "w".into(),
        run_id: RunId(7),
        workflow_type: "flow".into(),
        queue: "q".into(),
        input: Payload::null(),
        request_id: None,
        conflict: ConflictPolicy::Fail,
        reuse: ReusePolicy::AllowDuplicate,
        run_timeout: None,
        task_timeout: None,
        priority: None,
        parent: None,
        headers: Headers::new(),
    };
    let ((started, is_started), (ended, outcome)) = (reply(), reply());
    service.start(request, started, Some(ended));
    let answer = is_started.recv().expect("the start is answered");
    assert!(answer.expect("it starts").started);
    outcome
}

fn signal(service: &Service, name: &str) -> Result<(), Refusal> {
    let (sent, answer) = reply();
    let run = RunRef::newest("w".into());
    let signal = SignalRequest {
        name: name.into(),
        input: Payload::null(),
        request_id: None,
        headers: Headers::new(),
    };
    service.signal(run, signal, sent);
    answer.recv().expect("the signal is answered")
}

fn stop(service: &Arc<Service>, engines: Vec<JoinHandle<()>>) {
    service.shutdown();
    for engine in engines {
        engine.join().expect("the engine thread leaves");
    }
    service.close().expect("memory closes");
}

/// Signals in the history, by name.
fn signals(store: &MemoryStore) -> Vec<String> {
    let rows = store.find(&"w".into(), 1).expect("memory finds");
    let blobs = store.history(rows[0].no).expect("memory reads");
    let records = blobs
        .iter()
        .flat_map(|blob| record::decode(blob).expect("what was written decodes"));
    let names = records.filter_map(|record| {
        if let Record::Event(event) = record
            && let EventKind::Signaled { name, .. } = event.kind
        {
            return Some(name.as_str().to_owned());
        }
        None
    });
    names.collect()
}

#[test]
fn a_run_goes_on_whoever_drives_its_shard() {
    explore(|| {
        let store = MemoryStore::new();
        let service = service(&store);
        let first = engine(&service, Watch::No);
        let taker = {
            let service = service.clone();
            thread::spawn(move || engine(&service, Watch::No))
        };
        let outcome = start(&service);
        signal(&service, "a").expect("delivered");
        signal(&service, "end").expect("delivered");
        let outcome = outcome.recv().expect("the end is told");
        assert!(
            matches!(outcome, Ok(RunOutcome::Completed(_))),
            "{outcome:?}"
        );
        let second = taker.join().expect("takes over");
        stop(&service, vec![first, second]);
        assert_eq!(signals(&store), ["a", "end"]);
    });
}

#[test]
fn two_senders_and_slow_slices_lose_nothing() {
    explore(|| {
        let store = MemoryStore::new();
        let service = service(&store);
        let engine = engine(&service, Watch::Slow);
        let outcome = start(&service);
        let senders: Vec<_> = ["a", "b"]
            .into_iter()
            .map(|name| {
                let service = service.clone();
                thread::spawn(move || signal(&service, name).expect("delivered"))
            })
            .collect();
        for sender in senders {
            sender.join().expect("sends");
        }
        signal(&service, "end").expect("delivered");
        let outcome = outcome.recv().expect("the end is told");
        assert!(
            matches!(outcome, Ok(RunOutcome::Completed(_))),
            "{outcome:?}"
        );
        stop(&service, vec![engine]);
        let mut names = signals(&store);
        names[..2].sort();
        assert_eq!(names, ["a", "b", "end"]);
    });
}

/// Shutdown reaches every engine thread, also one that was replaced and does not know it yet.
#[test]
fn the_end_reaches_everybody() {
    explore(|| {
        let service = service(&MemoryStore::new());
        let first = engine(&service, Watch::No);
        let second = engine(&service, Watch::No);
        stop(&service, vec![first, second]);
    });
}
