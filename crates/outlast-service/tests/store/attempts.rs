//! A real shard on a real store: what attempts leave behind.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use outlast_engine::Effect;
use outlast_engine::request::Window;
use outlast_model::command::ScheduleActivity;
use outlast_model::event::Site;
use outlast_model::id::Incarnation;
use outlast_model::start::{ConflictPolicy, ReusePolicy, StartRequest};
use outlast_model::task::{
    AttemptOutcome, AttemptResult, AttemptToken, Notes, Permit, RunNo, SlotKind, TaskAnswer,
};
use outlast_model::{
    ActivityOptions, Command, Failure, FailureKind, Headers, Payload, QueueName, RetryPolicy,
    RunId, Seq, Status, Timestamp,
};
use outlast_service::mail::Mail;
use outlast_service::memory::MemoryStore;
use outlast_service::outlet::{Capabilities, Outlet, Served};
use outlast_service::shard::{Driver, Numbers, Parts, Shard, Turn};
use outlast_service::sqlite::SqliteStore;
use outlast_service::store::{RowState, Store};

const RUN: RunNo = RunNo(1);
const QUEUE: &str = "default";
/// What the author of an error did not think of.
const LONG: usize = 40 << 10;

/// Attempts that are out.
#[derive(Default)]
struct Ramp(Mutex<Vec<AttemptToken>>);

impl Outlet for Ramp {
    fn take_slot(&self, _: &QueueName, _: SlotKind) -> Permit {
        Permit::Taken
    }

    fn return_slot(&self, _: &QueueName, _: SlotKind) {}

    fn release(&self, effects: Vec<Effect>) {
        let mut out = self.0.lock().expect("one thread");
        for effect in effects {
            if let Effect::StartActivity(order) = effect {
                out.push(order.token);
            }
        }
    }
}

/// One run with one activity that is tried until it succeeds.
struct Bench<'s> {
    store: &'s dyn Store,
    shard: Shard,
    ramp: Arc<Ramp>,
    now: Timestamp,
    /// How the activity is tried again, until it has been asked for.
    asks: Option<RetryPolicy>,
}

impl<'s> Bench<'s> {
    /// A process on this store. What an earlier one left goes on.
    fn new(store: &'s dyn Store, life: u128, retry: RetryPolicy) -> Self {
        let boot = store.boot().expect("the store boots");
        let ramp = Arc::new(Ramp::default());
        let served = Served {
            workflows: BTreeSet::from(["flow".into()]),
            activities: BTreeSet::from(["task".into()]),
            ..Served::default()
        };
        let parts = Parts {
            index: 0,
            incarnation: Incarnation(life),
            capabilities: Arc::new(Capabilities {
                queues: BTreeMap::from([(QUEUE.into(), served)]),
            }),
            outlet: ramp.clone(),
            numbers: Arc::new(Numbers::after(&boot)),
            snapshot_every: 256,
            gather_from: usize::MAX,
            window: Window::default(),
        };
        let mut bench = Self {
            store,
            shard: Shard::new(parts, boot.open.clone(), &boot),
            ramp,
            now: Timestamp(1_700_000_000_000_000 + u64::try_from(life).expect("few") * 1_000_000),
            asks: None,
        };
        if boot.open.is_empty() {
            bench.asks = Some(retry);
            bench.start();
        }
        bench.settle();
        bench
    }

    fn start(&mut self) {
        let request = StartRequest {
            workflow_id: "w".into(),
            run_id: RunId(1),
            workflow_type: "flow".into(),
            queue: QUEUE.into(),
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
        self.accept(Mail::Start {
            request: Box::new(request),
            reply: Box::new(|_| {}),
            wait: None,
            with: None,
        });
    }

    fn accept(&mut self, mail: Mail) {
        self.shard.accept(mail, self.now, self.store);
    }

    /// Everything happens that can, and is durable.
    fn settle(&mut self) {
        loop {
            let has_turned = match self.shard.next(self.now, self.store) {
                Some(Turn::Task(task)) => {
                    let answer = self.answer();
                    self.shard
                        .complete(task.token, answer, Driver::Current, self.now);
                    true
                }
                Some(Turn::Evict(_)) => true,
                None => false,
            };
            if !self.commit() && !has_turned {
                return;
            }
        }
    }

    /// First the activity, then the end.
    fn answer(&mut self) -> TaskAnswer {
        let command = match self.asks.take() {
            Some(retry) => Command::ScheduleActivity(Box::new(asked(retry))),
            None => Command::CompleteWorkflow {
                result: Payload::null(),
            },
        };
        TaskAnswer::Completed {
            commands: vec![command],
            notes: Notes::default(),
        }
    }

    fn commit(&mut self) -> bool {
        let Some(batch) = self.shard.take_batch() else {
            return false;
        };
        self.store.commit(&batch.commits).expect("it fits");
        if let Some(last) = batch.last() {
            let durable = self.shard.durable();
            durable.fetch_max(last.0, std::sync::atomic::Ordering::AcqRel);
        }
        batch.release(&*self.ramp);
        true
    }

    /// The attempt that is out; time passes until there is one.
    fn attempt(&mut self) -> AttemptToken {
        loop {
            if let Some(token) = self.ramp.0.lock().expect("one thread").pop() {
                return token;
            }
            self.now = self.shard.lull().due.expect("another attempt is due");
            self.settle();
        }
    }

    fn end(&mut self, token: AttemptToken, result: AttemptResult) {
        self.accept(Mail::Outcomes(vec![AttemptOutcome { token, result }]));
        self.settle();
    }

    /// So many attempts more fail.
    fn fail(&mut self, attempts: u32, error: &Failure) {
        for _ in 0..attempts {
            let token = self.attempt();
            self.end(token, AttemptResult::Failed(error.clone()));
        }
    }

    fn state(&self) -> RowState {
        self.store
            .load(RUN)
            .map_or_else(|_| panic!("the run is there"), |loaded| loaded.row.state)
    }

    /// Blobs and their bytes.
    fn room(&self) -> (usize, usize) {
        let blobs = self.store.history(RUN).expect("it is whole");
        (blobs.len(), blobs.iter().map(Vec::len).sum())
    }
}

fn asked(retry: RetryPolicy) -> ScheduleActivity {
    ScheduleActivity {
        seq: Seq(1),
        activity_type: "task".into(),
        input: Payload::null(),
        options: ActivityOptions {
            retry,
            ..ActivityOptions::default()
        }
        .into(),
        site: Site::default(),
        headers: Headers::new(),
    }
}

fn unbounded() -> RetryPolicy {
    RetryPolicy::default().initial(Duration::from_millis(1))
}

/// An error whose text is cut, and whose details are not.
fn long_error() -> Failure {
    let text = "x".repeat(LONG);
    let mut failure = Failure::application("Broken", &*text).at(&*text);
    if let FailureKind::Application { details, .. } = &mut failure.kind {
        *details = Some(Payload::raw_json(format!("\"{text}\"").into_bytes()));
    }
    failure
}

fn bounded() -> RetryPolicy {
    RetryPolicy {
        max_attempts: u32::MAX,
        ..unbounded()
    }
}

fn report(byte: u8) -> Payload {
    Payload::bytes(vec![byte; 1_000])
}

/// `OUTLAST_ATTEMPTS` says how many.
fn attempts() -> u32 {
    let told = std::env::var("OUTLAST_ATTEMPTS").ok();
    told.and_then(|told| told.parse().ok()).unwrap_or(5_000)
}

/// Whether each hand-out is a commit of its own or rides with the failure before it.
#[test]
fn any_number_of_failed_attempts_takes_the_room_of_one() {
    for (retry, attempts) in [(bounded(), attempts()), (unbounded(), attempts() / 10)] {
        let store = MemoryStore::new();
        let mut bench = Bench::new(&store, 1, retry);
        let history = bench.state().bytes;
        let error = long_error();
        bench.fail(10, &error);
        let (blobs, bytes) = bench.room();
        assert!(bytes < 2 * LONG, "{bytes}");
        for _ in 0..10 {
            bench.fail(attempts / 10, &error);
            let now = bench.room();
            assert!(
                now.0 <= blobs && now.1 <= bytes + 16,
                "{now:?} after {bytes}"
            );
        }
        assert_eq!(bench.state().bytes, history, "none of it is history");
        let token = bench.attempt();
        assert_eq!(token.attempt.0, 11 + attempts);
        bench.end(token, AttemptResult::Completed(Payload::null()));
        assert_eq!(bench.state().status, Status::Completed);
    }
}

#[test]
fn a_long_error_makes_room_for_the_short_one_after_it() {
    let store = MemoryStore::new();
    let mut bench = Bench::new(&store, 1, bounded());
    bench.fail(3, &long_error());
    bench.fail(1, &Failure::application("Broken", "short"));
    let (_, bytes) = bench.room();
    assert!(bytes < 2_000, "{bytes}");
}

#[test]
fn any_number_of_reports_takes_the_room_of_one() {
    let store = MemoryStore::new();
    let mut bench = Bench::new(&store, 1, bounded());
    let history = bench.state().bytes;
    let token = bench.attempt();
    bench.accept(Mail::Heartbeat(token, report(0)));
    bench.settle();
    let room = bench.room();
    for n in 0..2_000_u32 {
        bench.now.0 += 100_000;
        let [.., newest] = n.to_be_bytes();
        bench.accept(Mail::Heartbeat(token, report(newest)));
        bench.settle();
        assert_eq!(bench.room(), room);
    }
    assert_eq!(bench.state().bytes, history, "none of it is history");
    bench.accept(Mail::Heartbeat(token, report(7)));
    bench.end(token, AttemptResult::Failed(long_error()));
    let order = bench.attempt();
    let run = outlast_engine::Run::load(None, &store.history(RUN).expect("whole"));
    let run = run.expect("it loads");
    let activity = run.activity(order.seq).expect("it is open");
    assert_eq!(activity.heartbeat_details, Some(report(7)));
}

/// A process that takes over replaces what the one before it left, and a file does not grow.
#[test]
fn a_file_does_not_grow_by_attempts_whoever_makes_them() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("runs.db");
    let mut sizes = Vec::new();
    for life in 1..=6 {
        let store = SqliteStore::open(&path).expect("opens");
        let mut bench = Bench::new(&store, life, bounded());
        bench.fail(25, &long_error());
        assert!(bench.room().0 <= 4, "{:?}", bench.room());
        if life % 2 == 0 {
            let report = store.check().expect("reads");
            assert!(report.is_sound(), "{report:?}");
        }
        store.close().expect("closes");
        sizes.push(std::fs::metadata(&path).expect("a file").len());
    }
    assert_eq!(sizes[1], sizes[5], "{sizes:?}");
    let store = SqliteStore::open(&path).expect("opens");
    let mut bench = Bench::new(&store, 7, bounded());
    let token = bench.attempt();
    bench.end(token, AttemptResult::Completed(Payload::null()));
    assert_eq!(bench.state().status, Status::Completed);
    assert_eq!(bench.store.boot().expect("boots").open, []);
}
