//! What the simulator found, as short stories: each failed before its cause was mended.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use outlast_engine::Input;
use outlast_model::id::WorkflowId;
use outlast_model::start::{ConflictPolicy, ReusePolicy, StartReply, StartRequest};
use outlast_model::task::{AttemptKind, AttemptOutcome, AttemptResult, WorkflowTask};
use outlast_model::view::RunRef;
use outlast_model::{
    EventKind, Fact, Headers, Payload, Record, Refusal, RequestId, RunId, Seq, Timestamp,
};
use outlast_runtime::Unwatched;
use outlast_service::mail::Mail;
use outlast_service::shard::{Driver, Turn};
use outlast_service::store::Store;

use crate::sim::disk::Disk;
use crate::sim::ledger::{Call, Desk, Said};
use crate::sim::plan::{self, Node, Plan};
use crate::sim::process::{FLOW, Process, QUEUE, Shape};
use crate::sim::program::encoded;
use crate::sim::world::World;

pub(crate) const SHAPE: Shape = Shape {
    cached_runs: 10,
    activity_slots: 4,
    step_slots: 4,
    snapshot_every: 256,
    gather_from: 8,
    has_flow: true,
    has_rare: true,
};

pub(crate) const CALL: plan::Call = plan::Call {
    attempts: 0,
    schedule_to_close: 0,
    schedule_to_start: 0,
    start_to_close: 0,
    heartbeat: 0,
    cancel: 0,
    is_rare: false,
    is_undone: false,
};

/// A process under a script.
pub(crate) struct Story {
    pub(crate) disk: Arc<Disk>,
    desk: Desk,
    pub(crate) world: World,
    pub(crate) process: Process,
    pub(crate) now: Timestamp,
    lives: u32,
}

impl Story {
    pub(crate) fn new(shape: Shape) -> Self {
        let disk = Arc::new(Disk::new());
        let desk = Desk::new(disk.clone());
        let world = World::new(disk.clone(), desk.clone());
        let process = Process::boot(0, shape, &disk, &world);
        Self {
            disk,
            desk,
            world,
            process,
            now: Timestamp(1_700_000_000_000_000),
            lives: 0,
        }
    }

    pub(crate) fn accept(&mut self, mail: Mail) {
        let now = self.now;
        self.process.shard.accept(mail, now, &self.process.store);
    }

    /// Nobody knows what of it was written; the store is opened again.
    pub(crate) fn store_fails(&mut self) {
        self.process.take_batch();
        let void = self.process.parcels.drain(..).collect();
        let refusal = Refusal::Indeterminate { reason: "x".into() };
        self.process.shard.cut_off(void, &refusal);
        let boot = self.process.store.reopen().expect("memory reopens");
        self.process.shard.start_over(boot, &self.process.store);
    }

    /// There is no room for what was decided.
    pub(crate) fn no_room(&mut self) {
        self.process.take_batch();
        let void = self.process.parcels.drain(..).collect();
        let shard = &mut self.process.shard;
        let left = shard.roll_back(void, Vec::new(), &Refusal::StoreFull, &self.process.store);
        self.process.parcels = left.expect("memory can be read").into();
    }

    /// Starts a run of its own id, by a request of the same name.
    pub(crate) fn start(&mut self, id: &str, body: Vec<Node>) {
        let reply = self.desk.ask(
            &id.into(),
            Call::Start(Some(id.into()), None),
            Said::Started,
        );
        self.start_with(request(id, body), reply);
    }

    pub(crate) fn start_with(
        &mut self,
        request: StartRequest,
        reply: outlast_service::mail::Reply<StartReply>,
    ) {
        self.accept(Mail::Start {
            request: Box::new(request),
            reply,
            wait: None,
            with: None,
        });
    }

    pub(crate) fn signal(&mut self, id: &str, name: &str, value: u64) {
        let workflow_id = WorkflowId::from(id);
        let reply = self
            .desk
            .ask(&workflow_id, Call::Signal(value), |()| Said::Done);
        let input = Input::Signal {
            name: name.into(),
            input: encoded(&value),
            request_id: None,
            headers: Headers::new(),
        };
        let run = RunRef::newest(workflow_id);
        self.accept(Mail::Message { run, input, reply });
    }

    pub(crate) fn cancel(&mut self, id: &str, request: &str) {
        let input = Input::Cancel {
            reason: "enough".into(),
            request_id: Some(RequestId::from(request)),
        };
        let run = RunRef::newest(id.into());
        let reply = Box::new(|_| {});
        self.accept(Mail::Message { run, input, reply });
    }

    pub(crate) fn next(&mut self) -> Option<WorkflowTask> {
        let now = self.now;
        loop {
            match self.process.shard.next(now, &self.process.store)? {
                Turn::Evict(run_id) => self.process.slices.evict(run_id),
                Turn::Task(task) => return Some(*task),
            }
        }
    }

    pub(crate) fn answer(&mut self, task: &WorkflowTask) {
        let done = self.process.slices.run(task, &Unwatched);
        let now = self.now;
        let shard = &mut self.process.shard;
        shard.complete(task.token, done.answer, Driver::Current, now);
        for run_id in done.evicted {
            self.process.shard.evicted(run_id);
        }
    }

    pub(crate) fn commit(&mut self) {
        self.process.take_batch();
        while let Some(batch) = self.process.parcels.pop_front() {
            self.process.store.commit(&batch.commits).expect("memory");
            if let Some(last) = batch.last() {
                let durable = self.process.shard.durable();
                durable.fetch_max(last.0, Ordering::AcqRel);
            }
            self.process.release(batch);
        }
    }

    /// Everything that can happen by itself happens, and is durable.
    pub(crate) fn settle(&mut self) {
        loop {
            let task = self.next();
            if let Some(task) = &task {
                self.answer(task);
            }
            let has_batch = self.process.take_batch();
            self.commit();
            let post = self.process.ways.next(0);
            let is_post = post.is_some();
            post.into_iter()
                .for_each(|post| self.accept(post.into_mail()));
            if task.is_none() && !has_batch && !is_post {
                return;
            }
        }
    }

    pub(crate) fn crash(&mut self) {
        self.lives += 1;
        self.desk.hang_up();
        self.world.retain(|_| false);
        let shape = self.process.shape;
        self.process = Process::boot(self.lives, shape, &self.disk, &self.world);
    }

    fn complete_all(&mut self) {
        for running in self.world.running() {
            let token = running.token;
            self.world.remove(token);
            self.process.ramp.ended(token.kind);
            let result = AttemptResult::Completed(Payload::null());
            self.accept(Mail::Outcomes(vec![AttemptOutcome { token, result }]));
        }
    }

    pub(crate) fn kinds(&self, id: &str) -> Vec<EventKind> {
        let row = self.disk.runs_of(&id.into()).remove(0);
        let history = self.disk.history(row.no);
        history.into_iter().map(|event| event.kind).collect()
    }

    pub(crate) fn is_closed(&self, id: &str) -> bool {
        let rows = self.disk.runs_of(&id.into());
        rows.iter().all(|row| !row.state.status.is_open())
    }

    fn assert_no_violation(&self) {
        let violations = self.desk.lock().violations.clone();
        assert!(violations.is_empty(), "{violations:?}");
    }
}

pub(crate) fn request(id: &str, body: Vec<Node>) -> StartRequest {
    StartRequest {
        workflow_id: id.into(),
        run_id: RunId::v7(1, u128::from(crate::sim::rng::hash(7, id.as_bytes()))),
        workflow_type: FLOW.into(),
        queue: QUEUE.into(),
        input: encoded(&Plan::of(body)),
        request_id: Some(id.into()),
        conflict: ConflictPolicy::Fail,
        reuse: ReusePolicy::AllowDuplicate,
        run_timeout: None,
        task_timeout: None,
        priority: None,
        parent: None,
        headers: Headers::new(),
    }
}

/// The answer to the repetition left with the next batch, which did not have the start.
#[test]
fn a_repeated_start_is_answered_with_the_start_itself() {
    let mut story = Story::new(SHAPE);
    story.start("w", vec![Node::Timer(5)]);
    story.start("w", vec![Node::Timer(5)]);
    story.commit();
    story.assert_no_violation();
    story.settle();
    assert!(story.desk.unanswered().is_empty());
    story.assert_no_violation();
}

/// The run was gone from memory and not yet on disk, so nobody knew who had started it.
#[test]
fn a_start_is_recognised_while_its_run_is_on_its_way_to_the_disk() {
    let mut story = Story::new(Shape {
        cached_runs: 0,
        ..SHAPE
    });
    story.start("w", vec![Node::Timer(5)]);
    let task = story.next().expect("a first slice");
    story.answer(&task);
    let again: Arc<Mutex<Option<StartReply>>> = Arc::default();
    let heard = again.clone();
    let reply = Box::new(move |answer: Result<StartReply, Refusal>| {
        *heard.lock().expect("one thread") = answer.ok();
    });
    story.start_with(request("w", vec![Node::Timer(5)]), reply);
    story.settle();
    let answer = again.lock().expect("one thread").expect("it is no refusal");
    assert!(!answer.started);
}

/// Asked for at a time the clock has not reached again, it lost its place and its alarm.
#[test]
fn an_activity_starts_although_the_clock_went_back() {
    let mut story = Story::new(SHAPE);
    story.start(
        "w",
        vec![Node::Recv(false), Node::Activity(CALL), Node::Step(0)],
    );
    story.settle();
    story.now = Timestamp(story.now.0 - 3_600_000_000);
    story.signal("w", "a", 1);
    story.settle();
    story.complete_all();
    story.settle();
    story.complete_all();
    story.settle();
    assert!(story.is_closed("w"));
}

/// Steps were handed out only by a rebuild without a task.
#[test]
fn a_step_runs_when_its_code_comes_back_with_a_task() {
    let mut story = Story::new(Shape {
        step_slots: 1,
        ..SHAPE
    });
    story.start("w", vec![Node::Join(vec![Node::Step(0), Node::Step(0)])]);
    story.settle();
    story.signal("w", "log", 1);
    let task = story.next().expect("a task");
    let now = story.now;
    story.process.shard.go_slow(task.token, now);
    story.commit();
    story.crash();
    for _ in 0..4 {
        story.settle();
        story.now = story.now.after(Duration::from_secs(60));
        story.complete_all();
    }
    story.settle();
    assert!(story.is_closed("w"));
}

/// Messages that came after the crash overtook those that were buffered before it.
#[test]
fn messages_keep_their_order_across_a_crash_in_a_slice() {
    let mut story = Story::new(SHAPE);
    story.start("w", vec![Node::Recv(true)]);
    story.settle();
    story.signal("w", "log", 1);
    let task = story.next().expect("a task");
    let now = story.now;
    story.process.shard.go_slow(task.token, now);
    story.signal("w", "log", 2);
    assert!(story.next().is_none(), "the slice is out");
    story.commit();
    story.crash();
    story.signal("w", "log", 3);
    story.settle();
    let logged: Vec<u64> = story.kinds("w").iter().filter_map(signal_value).collect();
    assert_eq!(logged, [1, 2, 3]);
}

fn signal_value(kind: &EventKind) -> Option<u64> {
    let EventKind::Signaled { input, .. } = kind else {
        return None;
    };
    input.decode().ok()
}

/// Only a cancel that was already an event counted as one.
#[test]
fn two_cancels_during_one_slice_are_one() {
    let mut story = Story::new(SHAPE);
    story.start("w", vec![Node::Shield(Box::new(Node::Recv(true)))]);
    story.settle();
    story.signal("w", "log", 1);
    let task = story.next().expect("a task");
    let now = story.now;
    story.process.shard.go_slow(task.token, now);
    story.cancel("w", "first");
    story.cancel("w", "second");
    assert!(story.next().is_none(), "the slice is out");
    story.answer(&task);
    story.settle();
    let kinds = story.kinds("w");
    let cancels = kinds
        .iter()
        .filter(|kind| matches!(kind, EventKind::CancelRequested { .. }));
    assert_eq!(cancels.count(), 1);
}

/// Each message moved the disk out of reach of the code that waited to be rebuilt from it.
#[test]
fn code_that_waits_for_the_disk_runs_although_messages_keep_coming() {
    let mut story = Story::new(Shape {
        cached_runs: 0,
        ..SHAPE
    });
    story.start("w", vec![Node::Recv(true)]);
    story.settle();
    let mut slices = 0;
    for value in 1..10 {
        story.signal("w", "log", value);
        if let Some(task) = story.next() {
            story.answer(&task);
            slices += 1;
        }
        story.commit();
    }
    assert!(slices > 1, "{slices} slices");
}

/// Runs `a`, `b` and `c`, of which one may have ended the process three times.
fn suspects() -> Story {
    let mut story = Story::new(SHAPE);
    for id in ["a", "b", "c"] {
        story.start(id, vec![Node::Recv(true)]);
    }
    story.settle();
    for value in 1..4 {
        // All are announced on disk, and the process dies in a slice.
        story.crash();
        for id in ["a", "b", "c"] {
            story.signal(id, "b", value);
        }
        assert!(story.next().is_none());
        story.commit();
    }
    story
}

/// The first suspect ended without a slice and nobody took its place.
#[test]
fn suspects_go_on_when_the_one_that_is_tried_is_terminated() {
    let mut story = suspects();
    let input = Input::Terminate { reason: "x".into() };
    let (run, reply) = (RunRef::newest("a".into()), Box::new(|_| {}));
    story.accept(Mail::Message { run, input, reply });
    story.settle();
    assert!(["a", "b", "c"].iter().all(|id| story.is_closed(id)));
}

/// The next suspect could not be read any more, and kept the place of all behind it.
#[test]
fn suspects_go_on_when_the_one_whose_turn_it_is_cannot_be_read() {
    let mut story = suspects();
    let broken = story.disk.runs_of(&"b".into()).remove(0);
    story.process.shard.evicted(broken.run_id);
    story.disk.store.damage(broken.no);
    story.settle();
    assert!(["a", "c"].iter().all(|id| story.is_closed(id)));
    let audit = story.process.shard.audit(broken.no).expect("it is there");
    assert!(audit.damage.is_some());
}

/// A process that lived for fewer commits than lie between two snapshots never wrote one.
#[test]
fn a_run_that_outlives_short_processes_gets_its_snapshots() {
    let mut story = Story::new(Shape {
        snapshot_every: 10,
        ..SHAPE
    });
    story.start("w", vec![Node::Recv(true)]);
    story.settle();
    let no = story.disk.rows().remove(0).no;
    let mut longest = 0;
    for value in 0..40 {
        story.crash();
        story.signal("w", "log", value);
        story.settle();
        let blobs = story.disk.store.load(no).expect("it is there").blobs.len();
        longest = longest.max(blobs);
    }
    assert!(longest < 20, "{longest} blobs to load");
}

/// Attempts that were handed out beside a slice kept their slots when the store failed.
#[test]
fn a_store_that_fails_gives_all_slots_back() {
    let mut story = Story::new(SHAPE);
    story.start(
        "w",
        vec![Node::Join(vec![Node::Activity(CALL), Node::Recv(true)])],
    );
    story.settle();
    let running = story.world.running().remove(0);
    story.world.remove(running.token);
    story.process.ramp.ended(running.token.kind);
    let result = AttemptResult::Failed(outlast_model::Failure::panic("no"));
    let token = running.token;
    story.accept(Mail::Outcomes(vec![AttemptOutcome { token, result }]));
    story.settle();
    story.now = story.now.after(Duration::from_secs(5));
    story.signal("w", "log", 1);
    let task = story.next();
    assert!(task.is_some(), "a slice is out, and an attempt beside it");
    story.store_fails();
    assert_eq!(story.process.ramp.free(), (4, 4));
}

/// Activities and steps are numbered apart, and a report of one was taken for the other's.
#[test]
fn a_report_of_a_step_is_no_report_of_the_activity_with_its_number() {
    let mut story = Story::new(SHAPE);
    story.start(
        "w",
        vec![Node::Join(vec![Node::Activity(CALL), Node::Step(0)])],
    );
    story.settle();
    let running = story.world.running();
    let step = running.iter().find(|r| r.token.kind == AttemptKind::Step);
    let token = step.expect("the step runs").token;
    story.accept(Mail::Heartbeat(token, encoded(&1)));
    story.settle();
    let no = story.disk.rows().remove(0).no;
    let is_beat = |record: &Record| matches!(record, Record::Fact(Fact::Heartbeat { .. }));
    assert!(!story.disk.has(no, is_beat));
}

/// The worker threw the code away when the run wanted to end, which it then did not.
#[test]
fn a_step_has_its_code_until_its_run_has_really_ended() {
    let mut story = Story::new(SHAPE);
    let step = Node::Spawn(Box::new(Node::Step(0)));
    story.start("w", vec![step, Node::Recv(true)]);
    story.settle();
    story.signal("w", "b", 1);
    let task = story.next().expect("the last slice, but for a message");
    story.signal("w", "log", 2);
    story.answer(&task);
    let has_code = |story: &Story| {
        story
            .process
            .slices
            .step_code(task.run_id, Seq(1))
            .is_some()
    };
    assert!(has_code(&story));
    story.settle();
    assert!(story.is_closed("w") && !has_code(&story));
}

/// The attempt had timed out in a commit that failed: nobody told it, and its retry began.
#[test]
fn an_attempt_that_timed_out_in_a_commit_that_failed_is_told_to_stop_before_its_retry() {
    let mut story = Story::new(SHAPE);
    let call = plan::Call {
        start_to_close: 5,
        ..CALL
    };
    story.start("w", vec![Node::Activity(call)]);
    story.settle();
    story.now = story.now.after(Duration::from_secs(6));
    assert!(story.next().is_none(), "only the attempt is timed out");
    story.store_fails();
    assert!(story.world.running()[0].stop.is_none(), "it has not ended");
    story.settle();
    assert!(story.world.running()[0].stop.is_some());
}
