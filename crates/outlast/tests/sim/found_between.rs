//! What the simulator found where runs, callers and successors meet, as short stories: each
//! failed before its cause was mended.

use std::sync::{Arc, Mutex};

use outlast_engine::Input;
use outlast_model::event::UpdateRequest;
use outlast_model::promise::Settlement;
use outlast_model::start::{ConflictPolicy, StartReply, UpdateReply, UpdateStage};
use outlast_model::task::{PROMISE_SIGNAL, Query, promise_request};
use outlast_model::view::{RunOutcome, RunRef};
use outlast_model::{EventKind, Headers, Payload, Refusal};
use outlast_service::mail::{Mail, Reply, With};

use crate::found::{CALL, SHAPE, Story, request};
use crate::sim::answer::update_id;
use crate::sim::plan::{Node, Plan};
use crate::sim::program::{Diary, encoded, promise_id};

/// What a caller was told, once it was.
pub(crate) type Heard<T> = Arc<Mutex<Option<Result<T, Refusal>>>>;

pub(crate) fn ear<T: Send + 'static>() -> (Heard<T>, Reply<T>) {
    let heard: Heard<T> = Arc::default();
    let told = heard.clone();
    let reply = Box::new(move |answer| {
        let before = told.lock().expect("one thread").replace(answer);
        assert!(before.is_none(), "told twice");
    });
    (heard, reply)
}

pub(crate) fn heard<T: Clone>(ear: &Heard<T>) -> Result<T, Refusal> {
    let heard = ear.lock().expect("one thread").clone();
    heard.expect("somebody was told")
}

/// A chain of two runs.
fn chain(first: Vec<Node>, second: Vec<Node>) -> Payload {
    encoded(&Plan {
        next: Some(Box::new(Plan::of(second))),
        ..Plan::of(first)
    })
}

impl Story {
    pub(crate) fn start_chain(&mut self, first: Vec<Node>, second: Vec<Node>) -> Heard<StartReply> {
        let (heard, reply) = ear();
        let mut start = request("w", Vec::new());
        start.input = chain(first, second);
        self.start_with(start, reply);
        heard
    }

    fn update(&mut self, value: u64, name: &str) -> Heard<UpdateReply> {
        let (heard, reply) = ear();
        self.accept(Mail::Update {
            run: RunRef::newest("w".into()),
            request: update(value, name),
            stage: UpdateStage::Completed,
            reply,
        });
        heard
    }

    pub(crate) fn query(&mut self) -> Heard<Payload> {
        let (heard, reply) = ear();
        let query = Query {
            name: "diary".into(),
            input: Payload::null(),
            headers: Headers::new(),
        };
        let run = RunRef::newest("w".into());
        self.accept(Mail::Query { run, query, reply });
        heard
    }

    pub(crate) fn message(&mut self, input: Input) -> Heard<()> {
        let (heard, reply) = ear();
        let run = RunRef::newest("w".into());
        self.accept(Mail::Message { run, input, reply });
        heard
    }

    fn settle_promise(&mut self, value: u64) -> Heard<()> {
        let settlement = Settlement {
            id: promise_id(0),
            outcome: Ok(encoded(&value)),
        };
        self.message(Input::Signal {
            name: PROMISE_SIGNAL.into(),
            input: settlement.encode().expect("plain data encodes"),
            request_id: Some(promise_request(&promise_id(0))),
            headers: Headers::new(),
        })
    }

    pub(crate) fn terminate(&mut self) -> Heard<()> {
        let reason = "enough".into();
        self.message(Input::Terminate { reason })
    }

    fn wait(&mut self) -> Heard<RunOutcome> {
        let (heard, reply) = ear();
        let run = RunRef::newest("w".into());
        self.accept(Mail::Wait { run, reply });
        heard
    }
}

fn update(value: u64, name: &str) -> UpdateRequest {
    UpdateRequest {
        id: update_id(value),
        name: name.into(),
        input: encoded(&value),
        headers: Headers::new(),
    }
}

/// Its caller went on waiting with the next run, which had never heard of the update.
#[test]
fn an_update_is_answered_by_the_slice_that_continues_as_new() {
    let mut story = Story::new(SHAPE);
    story.start_chain(vec![Node::Recv(false)], vec![Node::Recv(true)]);
    story.settle();
    let answer = story.update(1, "set");
    story.signal("w", "a", 2);
    story.settle();
    assert!(matches!(heard(&answer), Ok(UpdateReply::Done(_))));
}

/// The question was handed out and the run terminated: nobody was left to answer.
#[test]
fn a_run_that_is_terminated_while_it_is_asked_answers_after_its_end() {
    let mut story = Story::new(SHAPE);
    story.start("w", vec![Node::Recv(true)]);
    story.settle();
    let answer = story.query();
    let task = story.next().expect("the question");
    story.terminate();
    story.answer(&task);
    story.settle();
    assert!(heard(&answer).is_ok());
}

/// The question waited behind a slice that ended the run.
#[test]
fn a_question_to_a_run_that_ends_first_is_answered_by_replay() {
    let mut story = Story::new(SHAPE);
    story.start("w", vec![Node::Recv(true)]);
    story.settle();
    story.signal("w", "b", 1);
    let task = story.next().expect("the last slice");
    let answer = story.query();
    story.answer(&task);
    story.settle();
    let diary: Diary = heard(&answer)
        .expect("an answer")
        .decode()
        .expect("a diary");
    assert_eq!(diary.received[1], [1]);
}

/// Code that had more to do when its run ended looked as if the question had changed it.
#[test]
fn a_run_whose_code_had_more_to_do_can_be_asked_after_its_end() {
    let mut story = Story::new(SHAPE);
    let spawned = Node::Spawn(Box::new(Node::Activity(CALL)));
    story.start("w", vec![spawned, Node::Recv(true)]);
    story.settle();
    story.cancel("w", "enough");
    story.settle();
    assert!(story.is_closed("w"));
    let answer = story.query();
    story.settle();
    assert!(heard(&answer).is_ok());
}

/// Only the first run of a chain knew which request had started it.
#[test]
fn a_repeated_start_is_answered_with_the_first_run_of_its_chain() {
    let mut story = Story::new(SHAPE);
    let first = story.start_chain(vec![Node::Draw], vec![Node::Recv(true)]);
    story.settle();
    let (again, reply) = ear();
    let mut start = request("w", Vec::new());
    start.conflict = ConflictPolicy::TerminateExisting;
    story.start_with(start, reply);
    story.settle();
    let run_id = heard(&first).expect("started").run_id;
    let again = heard(&again).expect("attached");
    assert_eq!((again.run_id, again.started), (run_id, false));
    assert!(!story.is_closed("w"), "the chain was replaced");
}

/// The signal waited in the mailbox of a run that ended before its first slice.
#[test]
fn a_signal_that_came_with_a_start_is_written_with_it() {
    let mut story = Story::new(SHAPE);
    let (started, reply) = ear();
    let signal = Input::Signal {
        name: "log".into(),
        input: encoded(&1),
        request_id: None,
        headers: Headers::new(),
    };
    story.accept(Mail::Start {
        request: Box::new(request("w", vec![Node::Recv(true)])),
        reply,
        wait: None,
        with: Some(With::Signal(signal)),
    });
    story.terminate();
    story.settle();
    assert!(heard(&started).is_ok());
    let is_signal = |kind: &EventKind| matches!(kind, EventKind::Signaled { .. });
    assert!(story.kinds("w").iter().any(is_signal));
}

/// The store knew neither of the next run nor of its end, and memory was not asked.
#[test]
fn whoever_waits_hears_of_a_chain_whose_end_is_on_its_way_to_the_disk() {
    let mut story = Story::new(SHAPE);
    story.start_chain(vec![Node::Recv(false)], vec![Node::Draw]);
    story.settle();
    story.signal("w", "a", 1);
    while let Some(task) = story.next() {
        story.answer(&task);
    }
    let outcome = story.wait();
    story.settle();
    assert!(matches!(heard(&outcome), Ok(RunOutcome::Completed(_))));
}

/// A run that had ended was not found, since its start was not durable either.
#[test]
fn a_message_to_a_run_that_is_not_durable_yet_hears_that_it_has_ended() {
    let mut story = Story::new(SHAPE);
    story.start("w", vec![Node::Recv(true)]);
    story.terminate();
    let answer = story.settle_promise(1);
    story.settle();
    assert!(matches!(heard(&answer), Err(Refusal::RunClosed { .. })));
}

/// Its letter was still in the mailbox when the run left memory.
#[test]
fn a_repeated_update_is_answered_although_the_run_has_ended_meanwhile() {
    let mut story = Story::new(SHAPE);
    story.start("w", vec![Node::Recv(true)]);
    story.settle();
    let first = story.update(1, "set");
    story.settle();
    let again = story.update(1, "set");
    story.terminate();
    story.commit();
    story.settle();
    assert!(matches!(heard(&again), Ok(UpdateReply::Done(_))));
    assert_eq!(heard(&first), heard(&again));
}

/// The second settlement was acknowledged as if it had been the first.
#[test]
fn a_promise_of_a_run_that_has_ended_is_not_settled_twice() {
    let mut story = Story::new(SHAPE);
    story.start("w", vec![Node::Promise(0)]);
    story.settle();
    let first = story.settle_promise(1);
    story.settle();
    assert!(story.is_closed("w"));
    let second = story.settle_promise(2);
    story.settle();
    assert_eq!(heard(&first), Ok(()));
    assert!(matches!(
        heard(&second),
        Err(Refusal::AlreadyResolved { .. })
    ));
}

/// The next run waited for what nobody could give it any more.
#[test]
fn a_promise_can_be_settled_once_in_each_run_of_a_chain() {
    let mut story = Story::new(SHAPE);
    story.start_chain(vec![Node::Promise(0)], vec![Node::Promise(0)]);
    story.settle();
    for value in [1, 2] {
        let settled = story.settle_promise(value);
        story.settle();
        assert_eq!(heard(&settled), Ok(()));
    }
    assert!(story.is_closed("w"));
}

/// The other half of the one above, which was right before: what nobody asked for goes on with the
/// chain, and stays the only one.
#[test]
fn a_promise_that_nobody_asked_for_yet_is_settled_for_the_next_run() {
    let mut story = Story::new(SHAPE);
    story.start_chain(
        vec![Node::Recv(false)],
        vec![Node::Recv(true), Node::Promise(0)],
    );
    story.settle();
    let first = story.settle_promise(1);
    story.signal("w", "a", 2);
    story.settle();
    let second = story.settle_promise(3);
    story.signal("w", "b", 4);
    story.settle();
    assert_eq!(heard(&first), Ok(()));
    assert!(matches!(
        heard(&second),
        Err(Refusal::AlreadyResolved { .. })
    ));
    assert!(story.is_closed("w"));
}
