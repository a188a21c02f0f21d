//! What is handed out and told to stop in one go hears it, however many there are.

use std::sync::atomic::AtomicUsize;
use std::sync::mpsc::{Receiver, Sender, channel};

use outlast_model::task::{AttemptKind, RunNo, TaskAnswer, TaskToken};
use outlast_model::{AnswerToken, Incarnation, Payload, QueueName, RunId, Seq, StepName};

use super::*;
use crate::event::RunIn;
use crate::port::{Lane, Next};

/// Threads of the runtime.
const THREADS: usize = 2;
/// Longer than any attempt here may take to end.
const PATIENCE: Duration = Duration::from_secs(20);

/// A backend that only hears of ends.
struct Ear {
    sender: Sender<AttemptOutcome>,
    dispatcher: Arc<Dispatcher>,
}

impl WorkerPort for Ear {
    fn complete_attempts(&self, outcomes: Vec<AttemptOutcome>) {
        // Whoever goes down now must wait for what is being said here.
        assert!(!self.dispatcher.is_silent());
        for outcome in outcomes {
            drop(self.sender.send(outcome));
        }
    }

    fn shards(&self) -> usize {
        0
    }

    fn drive(&self, shard: usize) -> Lane {
        Lane { shard, driver: 0 }
    }

    fn next_task(&self, _: Lane) -> Next {
        Next::Shutdown
    }

    fn complete_task(&self, _: Lane, _: TaskToken, _: TaskAnswer) {}
    fn go_slow(&self, _: Lane, _: TaskToken) {}
    fn give_up(&self, _: Lane, _: TaskToken, _: Failure) {}
    fn evicted(&self, _: Lane, _: RunId) {}
    fn foreign_wake(&self, _: RunId) {}
    fn heartbeat(&self, _: AttemptToken, _: Payload) {}

    fn answer_token(&self, _: &ActivityTask) -> AnswerToken {
        unreachable!("no attempt here waits for an answer from outside")
    }

    fn drain(&self) {}
    fn shutdown(&self) {}
}

/// A dispatcher whose steps never end by themselves, and count how many of them began.
struct Desk {
    dispatcher: Arc<Dispatcher>,
    port: Arc<dyn WorkerPort>,
    ended: Receiver<AttemptOutcome>,
    begun: Arc<AtomicUsize>,
    runtime: tokio::runtime::Runtime,
}

impl Desk {
    fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(THREADS)
            .enable_all()
            .build()
            .expect("a runtime");
        let dispatcher = Arc::new(Dispatcher::new(
            Arc::default(),
            Arc::default(),
            runtime.handle().clone(),
            Settings::default(),
            Bus::default(),
        ));
        let (sender, ended) = channel();
        let ear = Ear {
            sender,
            dispatcher: dispatcher.clone(),
        };
        Self {
            dispatcher,
            port: Arc::new(ear),
            ended,
            begun: Arc::default(),
            runtime,
        }
    }

    /// A step that waits for ever.
    fn start(&self, seq: u32) -> Dispatch {
        let begun = self.begun.clone();
        let code = move || -> Pin<Box<dyn Future<Output = _> + Send>> {
            begun.fetch_add(1, Ordering::SeqCst);
            Box::pin(std::future::pending())
        };
        let run = RunIn {
            run_id: RUN,
            workflow_id: "w".into(),
            workflow_type: "t".into(),
        };
        self.dispatcher.steps.keep(run, Seq(seq), Arc::new(code));
        Dispatch::Step(StepTask {
            token: token(seq),
            run_id: RUN,
            name: StepName::new("waits"),
            queue: QueueName::new("default"),
        })
    }

    /// Hands out `count` steps, and behind each what makes it stop.
    fn start_and_stop(&self, count: u32) -> Vec<AttemptOutcome> {
        let stop = |seq| Dispatch::Stop(token(seq), StopReason::Cancelled);
        let work = (1..=count).flat_map(|seq| [self.start(seq), stop(seq)]);
        self.dispatcher.dispatch(work.collect(), &self.port);
        let ends = (0..count).map(|_| self.ended.recv_timeout(PATIENCE));
        let ends = ends.map(|end| end.expect("each ends")).collect();
        while !self.dispatcher.is_silent() {
            std::thread::yield_now();
        }
        ends
    }
}

const RUN: RunId = RunId(7);

fn token(seq: u32) -> AttemptToken {
    AttemptToken {
        shard: 0,
        run: RunNo(1),
        kind: AttemptKind::Step,
        seq: Seq(seq),
        attempt: AttemptNo::FIRST,
        incarnation: Incarnation::default(),
    }
}

#[test]
fn what_is_told_to_stop_in_the_same_breath_never_begins() {
    let sizes = [1, 2, FEW, FEW + 1, CHUNK / 2, 3 * CHUNK];
    for count in sizes.map(|size| u32::try_from(size).unwrap_or(u32::MAX)) {
        let desk = Desk::new();
        let ends = desk.start_and_stop(count);
        let is_cancelled = |end: &AttemptOutcome| matches!(end.result, AttemptResult::Canceled(_));
        assert!(ends.iter().all(is_cancelled), "{count}: {ends:?}");
        assert_eq!(desk.begun.load(Ordering::SeqCst), 0, "of {count}");
        assert_eq!(desk.dispatcher.count(), 0, "of {count}");
        desk.runtime.shutdown_background();
    }
}

#[test]
fn what_is_told_to_stop_while_the_worker_goes_down_is_handed_back() {
    let desk = Desk::new();
    desk.dispatcher.drain();
    let ends = desk.start_and_stop(40);
    let is_back = |end: &AttemptOutcome| matches!(end.result, AttemptResult::HandedBack);
    assert!(ends.iter().all(is_back), "{ends:?}");
    assert_eq!(desk.begun.load(Ordering::SeqCst), 0);
    assert_eq!(desk.dispatcher.count(), 0);
    desk.runtime.shutdown_background();
}

/// What makes every thread that begins attempts busy until it is dropped.
fn hold_up(desk: &Desk) -> Vec<Sender<()>> {
    let (begun, has_begun) = channel();
    let hold = |_| {
        let (end, may_end) = channel::<()>();
        let begun = begun.clone();
        let wait = move || {
            begun.send(()).expect("listens");
            assert!(may_end.recv().is_err(), "dropped");
        };
        (end, wait)
    };
    let mut ends = Vec::new();
    for (end, wait) in (0..THREADS).map(hold) {
        drop(desk.runtime.spawn(async move { wait() }));
        ends.push(end);
    }
    let (end, wait) = hold(0);
    let mut job: Job = Box::new(move |_| wait());
    while let Err(back) = desk.dispatcher.opener.offer(job) {
        job = back;
        std::thread::yield_now();
    }
    ends.push(end);
    assert_eq!(has_begun.iter().take(THREADS + 1).count(), THREADS + 1);
    ends
}

#[test]
fn what_is_told_to_stop_while_no_thread_is_free_to_begin_it_is_no_zombie() {
    for count in [1, 3, CHUNK] {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        let desk = Desk::new();
        let busy = hold_up(&desk);
        let work = (1..=count).map(|seq| desk.start(seq)).collect();
        desk.dispatcher.dispatch(work, &desk.port);
        let stops = (1..=count).map(|seq| Dispatch::Stop(token(seq), StopReason::Cancelled));
        desk.dispatcher.dispatch(stops.collect(), &desk.port);
        while desk.dispatcher.count() > 0 {
            desk.dispatcher.look_after(&desk.port);
            std::thread::yield_now();
        }
        let ends: Vec<AttemptOutcome> = desk.ended.try_iter().collect();
        assert_eq!(ends.len(), count as usize);
        let is_cancelled = |end: &AttemptOutcome| matches!(end.result, AttemptResult::Canceled(_));
        assert!(ends.iter().all(is_cancelled), "{ends:?}");
        assert_eq!(desk.dispatcher.undead(), 0, "nothing of them is left");
        drop(busy);
        desk.runtime.shutdown_timeout(PATIENCE);
        assert_eq!(desk.begun.load(Ordering::SeqCst), 0, "of {count}");
        assert_eq!(desk.ended.try_iter().count(), 0, "each ends once");
    }
}
