//! What reading the code found, as short stories: each failed before its cause was mended.

use std::time::Duration;

use outlast_engine::Input;
use outlast_model::event::Parent;
use outlast_model::post::{ChildRequest, Post, PostBody, PostNo};
use outlast_model::start::ReusePolicy;
use outlast_model::view::{RunOutcome, RunRef};
use outlast_model::{EventId, EventKind, Headers, Payload, Refusal, RunId, Seq};
use outlast_service::faulty::FaultyStore;
use outlast_service::mail::Mail;
use outlast_service::memory::MemoryStore;
use outlast_service::store::Store as _;

use crate::found::{SHAPE, Story, request};
use crate::found_between::{Heard, ear, heard};
use crate::sim::plan::{Node, Plan};
use crate::sim::process::{FLOW, QUEUE, Shape};
use crate::sim::program::encoded;

fn is_told<T>(ear: &Heard<T>) -> bool {
    ear.lock().expect("one thread").is_some()
}

fn run_of(id: &str, run_id: Option<RunId>) -> RunRef {
    RunRef {
        workflow_id: id.into(),
        run_id,
    }
}

fn post(to: RunRef, body: PostBody) -> Mail {
    let from = run_of("other", Some(RunId(5)));
    Mail::Post {
        no: PostNo(77),
        post: Box::new(Post { from, to, body }),
        generation: 0,
    }
}

/// Each visit found new mail, and questions waited for a visit without.
#[test]
fn a_question_is_answered_although_messages_keep_coming() {
    let mut story = Story::new(SHAPE);
    story.start("w", vec![Node::Recv(true)]);
    story.settle();
    story.signal("w", "log", 0);
    let answer = story.query();
    for value in 1..6 {
        let task = story.next().expect("a slice");
        story.signal("w", "log", value);
        story.answer(&task);
        story.commit();
    }
    assert!(heard(&answer).is_ok());
}

/// One question about an ended run after the other was asked, and open runs waited for the last.
#[test]
fn questions_about_ended_runs_do_not_keep_open_ones_waiting() {
    let mut story = Story::new(SHAPE);
    story.start("w", vec![Node::Draw]);
    story.start("busy", vec![Node::Recv(true)]);
    story.settle();
    for _ in 0..9 {
        story.query();
    }
    story.signal("busy", "log", 1);
    let mut slices = Vec::new();
    for _ in 0..2 {
        let task = story.next().expect("a slice");
        slices.push(task.workflow_id.as_str().to_owned());
        story.answer(&task);
    }
    assert!(slices.iter().any(|id| id == "busy"), "{slices:?}");
}

/// The code that had killed the process so often ran once more, to answer.
#[test]
fn code_that_kills_the_process_is_not_asked() {
    let mut story = Story::new(SHAPE);
    story.start("w", vec![Node::Recv(true)]);
    story.settle();
    for value in 0..5 {
        story.crash();
        story.signal("w", "log", value);
        assert!(story.next().is_none(), "announced first");
        story.commit();
    }
    story.crash();
    let first = story.query();
    story.settle();
    let second = story.query();
    story.settle();
    for answer in [first, second] {
        assert!(matches!(heard(&answer), Err(Refusal::NotReady { .. })));
    }
}

/// A reason of any size was written as it was.
#[test]
fn a_long_reason_is_cut_and_stops_the_run_all_the_same() {
    let mut story = Story::new(SHAPE);
    story.start("w", vec![Node::Recv(true)]);
    story.settle();
    let reason = "why ".repeat(30 << 20);
    story.message(Input::Cancel {
        reason: reason.clone(),
        request_id: None,
    });
    story.settle();
    story.message(Input::Terminate { reason });
    story.settle();
    assert!(story.is_closed("w"));
    let kinds = story.kinds("w");
    let reasons: Vec<&String> = kinds
        .iter()
        .filter_map(|kind| {
            let (EventKind::CancelRequested { reason, .. } | EventKind::Terminated { reason }) =
                kind
            else {
                return None;
            };
            Some(reason)
        })
        .collect();
    assert!(!reasons.is_empty());
    assert!(
        reasons
            .iter()
            .all(|r| r.len() <= 4 << 10 && r.ends_with(" [cut]"))
    );
}

/// Its sender was told before the disk knew that the run had ended.
#[test]
fn a_message_is_refused_when_the_end_of_its_run_is_durable() {
    let mut story = Story::new(SHAPE);
    story.start("w", vec![Node::Recv(true)]);
    story.settle();
    let answer = story.message(Input::Signal {
        name: "log".into(),
        input: encoded(&1),
        request_id: None,
        headers: Headers::new(),
    });
    story.terminate();
    assert!(story.next().is_none());
    assert!(!is_told(&answer));
    story.settle();
    assert!(matches!(heard(&answer), Err(Refusal::RunClosed { .. })));
}

/// The outcome was thrown away: the parent would have waited for ever, also when read again.
#[test]
fn what_is_said_to_a_run_that_cannot_be_read_stays_in_the_store() {
    let mut story = Story::new(SHAPE);
    story.start("w", vec![Node::Recv(true)]);
    story.settle();
    let run_id = story.disk.runs_of(&"w".into()).remove(0).run_id;
    story.crash();
    let outcome = RunOutcome::Completed(Payload::null());
    let body = PostBody::ChildEnded {
        seq: Seq(1),
        outcome,
    };
    story.accept(post(run_of("w", Some(run_id)), body));
    let (now, unreadable) = (story.now, MemoryStore::new());
    assert!(story.process.shard.next(now, &unreadable).is_none());
    let batch = story.process.shard.take_batch().unwrap_or_default();
    assert!(batch.forgotten.is_empty() && batch.commits.is_empty());
}

/// Whoever came after the damage was found waited for ever.
#[test]
fn the_end_of_a_run_that_cannot_be_read_is_not_waited_for() {
    let mut story = Story::new(SHAPE);
    story.start("w", vec![Node::Timer(5)]);
    story.settle();
    story.crash();
    story.signal("w", "log", 1);
    let (now, unreadable) = (story.now, MemoryStore::new());
    assert!(story.process.shard.next(now, &unreadable).is_none());
    let (answer, reply) = ear();
    let run = run_of("w", None);
    story.accept(Mail::Wait { run, reply });
    assert!(matches!(heard(&answer), Err(Refusal::Quarantined { .. })));
}

fn start_child(id: &str, reuse: ReusePolicy) -> Mail {
    let child = ChildRequest {
        workflow_id: id.into(),
        run_id: RunId(9),
        workflow_type: FLOW.into(),
        queue: QUEUE.into(),
        input: encoded(&Plan::of(vec![Node::Recv(true)])),
        run_timeout: None,
        reuse,
        parent: Parent {
            workflow_id: "other".into(),
            run_id: RunId(5),
            seq: Seq(1),
            initiated: EventId(5),
            priority: None,
        },
        headers: Headers::new(),
    };
    post(run_of(id, None), PostBody::StartChild(Box::new(child)))
}

/// A store that could not be read for a moment looked like an id that is taken.
#[test]
fn a_child_starts_when_the_store_can_be_read_again() {
    let mut story = Story::new(SHAPE);
    let dead = FaultyStore::memory(MemoryStore::new());
    dead.kill();
    let now = story.now;
    let mail = start_child("c", ReusePolicy::RejectDuplicate);
    story.process.shard.accept(mail, now, &dead);
    let mut later = post(
        run_of("c", None),
        PostBody::Terminate { reason: "x".into() },
    );
    if let Mail::Post { no, .. } = &mut later {
        *no = PostNo(78);
    }
    story.accept(later);
    story.settle();
    assert!(story.disk.runs_of(&"c".into()).is_empty());
    story.now = story.now.after(Duration::from_secs(2));
    story.settle();
    assert!(story.is_closed("c"), "started, then ended, in this order");
    assert_eq!(story.disk.runs_of(&"c".into()).len(), 1);
}

/// All histories of the chain were read, each deeper in the stack than the one before.
#[test]
fn the_end_of_a_long_chain_is_found_without_reading_all_of_it() {
    let mut story = Story::new(SHAPE);
    let mut plan = Plan::of(vec![Node::Draw]);
    for _ in 0..40 {
        plan = Plan {
            next: Some(Box::new(plan)),
            ..Plan::of(vec![Node::Draw])
        };
    }
    let mut start = request("w", Vec::new());
    (start.input, start.request_id) = (encoded(&plan), None);
    let first = start.run_id;
    story.start_with(start, Box::new(|_| {}));
    story.settle();
    assert!(story.is_closed("w"));
    let before = story.process.store.calls();
    let (answer, reply) = ear();
    let run = run_of("w", Some(first));
    story.accept(Mail::Wait { run, reply });
    assert!(matches!(heard(&answer), Ok(RunOutcome::Completed(_))));
    let calls = story.process.store.calls() - before;
    assert!(calls < 12, "{calls} calls");
}

/// The last run of a chain need not be the newest of its id.
#[test]
fn the_end_of_a_chain_is_found_behind_a_newer_run_of_its_id() {
    let mut story = Story::new(SHAPE);
    let started = story.start_chain(vec![Node::Draw], vec![Node::Draw]);
    story.settle();
    let mut newer = request("w", vec![Node::Fail]);
    (newer.request_id, newer.run_id) = (None, RunId(77));
    story.start_with(newer, Box::new(|_| {}));
    story.settle();
    let (answer, reply) = ear();
    let run = run_of("w", Some(heard(&started).expect("started").run_id));
    story.accept(Mail::Wait { run, reply });
    assert!(matches!(heard(&answer), Ok(RunOutcome::Completed(_))));
}

/// All that a run remembers was written again with every snapshot.
#[test]
fn snapshots_of_a_run_that_remembers_much_stay_within_what_it_writes() {
    let mut story = Story::new(Shape {
        snapshot_every: 1,
        gather_from: 8,
        ..SHAPE
    });
    story.start("w", vec![Node::Recv(true)]);
    story.settle();
    let (mut snapshots, mut blobs) = (0, 0);
    for value in 0..400_u64 {
        story.message(Input::Signal {
            name: "log".into(),
            input: encoded(&value),
            request_id: Some(
                format!("a request that is remembered, number {value}")
                    .as_str()
                    .into(),
            ),
            headers: Headers::new(),
        });
        let task = story.next().expect("a slice");
        story.answer(&task);
        story.process.take_batch();
        let commits = story.process.parcels.iter().flat_map(|b| &b.commits);
        for commit in commits {
            blobs += commit.blob.len();
            snapshots += commit.snapshot.as_ref().map_or(0, Vec::len);
        }
        story.commit();
    }
    assert!(
        snapshots > 0 && snapshots < 6 * blobs,
        "{snapshots} {blobs}"
    );
}

/// A run remembered every request it was ever sent.
#[test]
fn snapshots_of_a_run_do_not_grow_with_the_requests_it_was_sent() {
    let mut story = Story::new(Shape {
        snapshot_every: 100,
        ..SHAPE
    });
    story.start("w", vec![Node::Recv(true)]);
    story.settle();
    let no = story.disk.rows().remove(0).no;
    let mut sizes = Vec::new();
    for value in 0..6_000_u64 {
        let request = format!("a request that is remembered for a while, number {value:08}");
        story.message(Input::Signal {
            name: "log".into(),
            input: encoded(&0),
            request_id: Some(request.as_str().into()),
            headers: Headers::new(),
        });
        let task = story.next().expect("a slice");
        story.answer(&task);
        story.commit();
        if value % 2_000 == 1_999 {
            let loaded = story.disk.store.load(no).expect("it is there");
            sizes.push(loaded.snapshot.map_or(0, |(_, bytes)| bytes.len()));
        }
    }
    assert!(sizes[0] > 0 && sizes[2] <= sizes[1], "{sizes:?}");
}
