//! The judge is judged: a clean story passes, and each way of going wrong is named.

use std::time::Duration;

use outlast_model::event::{ActivityScheduled, Site, Started, StepRecorded};
use outlast_model::{
    Attempt, EventId, EventKind, Headers, Payload, Resolution, Seq, Shared, Timestamp,
};

mod chains;

use super::*;
use crate::chaos::record::{Answer, Call, ChildNo, Effect, LedgerSeq, Record, ReqNo, Request};
use crate::chaos::trip::{Digest, Mark};

const TRIP: &str = "trip-1";
const RUN: &str = "run-1";
const TOKEN: u64 = 99;

/// A ledger under construction.
#[derive(Default)]
struct Story {
    lines: Vec<Line>,
    last_req: u64,
}

impl Story {
    fn write(&mut self, record: Record) -> LedgerSeq {
        let seq = LedgerSeq(self.lines.len() as u64 + 1);
        self.lines.push(Line { seq, us: 0, record });
        seq
    }

    fn asked(&mut self, call: Call, answer: Answer) {
        self.last_req += 1;
        let (req, trip) = (ReqNo(self.last_req), TRIP.to_owned());
        self.write(Record::Req(Request { req, trip, call }));
        self.write(Record::Ack(req, answer));
    }

    fn begin(&mut self, name: &str, attempt: u32, child: u64) -> LedgerSeq {
        self.write(Record::Begin(Effect {
            trip: TRIP.into(),
            run: RUN.into(),
            name: name.into(),
            attempt,
            child: ChildNo(child),
            token: TOKEN,
        }))
    }

    fn attempt(&mut self, name: &str, attempt: u32, child: u64) -> Mark {
        let begin = self.begin(name, attempt, child);
        self.write(Record::Effect(begin));
        self.write(Record::End(begin));
        Mark {
            begin: begin.0,
            token: TOKEN,
        }
    }

    fn killed(&mut self, child: u64) {
        self.write(Record::Kill(ChildNo(child), "anywhere".into()));
        self.write(Record::Exit(ChildNo(child)));
    }
}

/// A history under construction, sound in itself.
#[derive(Default)]
struct History(Vec<Event>);

impl History {
    fn push(&mut self, kind: EventKind) {
        let id = EventId(self.0.len() as u64 + 1);
        let time = Timestamp(id.0);
        self.0.push(Event { id, time, kind });
    }

    /// Something happened, the code saw it and asked for something.
    fn turn(&mut self, seen: Vec<EventKind>, asked: Vec<EventKind>) {
        seen.into_iter().for_each(|kind| self.push(kind));
        self.push(EventKind::TaskScheduled {
            attempt: Attempt(1),
        });
        self.push(EventKind::TaskStarted);
        self.push(EventKind::TaskCompleted);
        asked.into_iter().for_each(|kind| self.push(kind));
    }
}

fn encode(value: &impl serde::Serialize) -> Payload {
    Payload::encode(value).expect("encodes")
}

fn started() -> EventKind {
    EventKind::Started(Shared::new(Started {
        workflow_id: TRIP.into(),
        run_id: Default::default(),
        workflow_type: "Trip".into(),
        queue: "default".into(),
        input: Payload::null(),
        request_id: None,
        run_timeout: None,
        parent: None,
        first_run_id: None,
        continued_from: None,
        headers: Headers::new(),
        priority: None,
        edition: None,
    }))
}

fn scheduled(seq: u32, name: &str, input: Payload) -> EventKind {
    EventKind::ActivityScheduled(Shared::new(ActivityScheduled {
        seq: Seq(seq),
        activity_type: name.into(),
        queue: "default".into(),
        input,
        options: Default::default(),
        site: Site::default(),
        headers: Headers::new(),
    }))
}

fn completed(seq: u32, attempt: u32, mark: &Mark) -> Vec<EventKind> {
    let started = EventKind::ActivityStarted {
        seq: Seq(seq),
        attempt: Attempt(attempt),
        last_failure: None,
    };
    let completed = EventKind::ActivityCompleted {
        seq: Seq(seq),
        result: encode(mark),
    };
    vec![started, completed]
}

fn signal(name: &str, input: Payload) -> EventKind {
    EventKind::Signaled {
        name: name.into(),
        input,
        request_id: None,
        headers: Headers::new(),
    }
}

fn noted(mark: &Mark) -> EventKind {
    EventKind::StepRecorded(Box::new(StepRecorded {
        seq: Seq(1),
        name: "note".into(),
        attempt: Attempt(1),
        outcome: Resolution::Completed(encode(mark)),
        activation: 0,
        site: Site::default(),
    }))
}

/// What one trip leaves behind when all goes well; parts of it can be told otherwise.
struct Clean {
    story: Story,
    values: Vec<u64>,
    digest: Digest,
}

impl Clean {
    fn new() -> Self {
        let mut story = Story::default();
        story.asked(Call::Start, Answer::Done);
        let marks: Vec<Mark> = ["take", "pay", "look", "note"]
            .map(|name| story.attempt(name, 1, 1))
            .into();
        story.asked(Call::Add(7), Answer::Done);
        story.asked(Call::Finish, Answer::Done);
        let digest = Digest {
            key: TRIP.into(),
            token: TOKEN,
            marks,
            slept_ms: 8,
            values: vec![7],
            leg: None,
        };
        Self {
            story,
            values: vec![7],
            digest,
        }
    }

    fn run(&self) -> RunFacts {
        let mut history = History::default();
        let [take, pay, look, note] = &self.digest.marks[..] else {
            panic!("a digest has four marks");
        };
        let asked = vec![
            scheduled(1, "take", Payload::null()),
            scheduled(2, "pay", Payload::null()),
        ];
        history.turn(vec![started()], asked);
        let both = [completed(1, 1, take), completed(2, 1, pay)].concat();
        let timer = EventKind::TimerStarted {
            seq: Seq(1),
            delay: Duration::from_millis(8),
            site: Site::default(),
        };
        history.turn(both, vec![noted(note), timer]);
        let fired = EventKind::TimerFired { seq: Seq(1) };
        history.turn(vec![fired], vec![scheduled(3, "look", Payload::null())]);
        let mut seen = completed(3, 1, look);
        seen.extend(self.values.iter().map(|value| signal("add", encode(value))));
        seen.push(signal("finish", Payload::null()));
        let result = encode(&self.digest);
        history.turn(seen, vec![EventKind::Completed { result }]);
        RunFacts {
            trip: TRIP.into(),
            run: RUN.into(),
            status: Status::Completed,
            events: history.0,
        }
    }

    fn judged(&self) -> Findings {
        judge(&self.story.lines, &[self.run()])
    }
}

/// Findings without the texts.
fn kinds(findings: &Findings) -> Vec<Wrong> {
    findings.wrongs.iter().map(|(kind, _)| *kind).collect()
}

#[test]
fn a_clean_story_is_clean() {
    let mut clean = Clean::new();
    let told = serde_json::to_string(&clean.digest).expect("encodes");
    clean.story.asked(Call::Result, Answer::Ended(told));
    let findings = clean.judged();
    assert_eq!(findings.wrongs, []);
    assert_eq!((findings.acked, findings.retries), (4, 0));
}

#[test]
fn an_acknowledged_start_without_a_run_is_lost() {
    let mut story = Story::default();
    story.asked(Call::Start, Answer::Done);
    assert_eq!(kinds(&judge(&story.lines, &[])), [Wrong::Lost]);
}

#[test]
fn an_acknowledged_run_that_never_ends_is_stuck() {
    let clean = Clean::new();
    let mut run = clean.run();
    run.status = Status::Running;
    run.events.truncate(6);
    let mut story = Story::default();
    story.asked(Call::Start, Answer::Done);
    assert_eq!(kinds(&judge(&story.lines, &[run])), [Wrong::Stuck]);
}

#[test]
fn an_acknowledged_message_that_is_not_in_the_history_is_lost() {
    let mut clean = Clean::new();
    clean.story.asked(Call::Add(8), Answer::Done);
    assert_eq!(kinds(&clean.judged()), [Wrong::Lost]);
}

#[test]
fn an_acknowledged_message_that_the_code_did_not_see_is_lost() {
    let mut clean = Clean::new();
    clean.story.asked(Call::Add(8), Answer::Done);
    clean.values.push(8);
    assert_eq!(kinds(&clean.judged()), [Wrong::Lost]);
}

#[test]
fn a_message_without_an_answer_may_be_there_or_not() {
    for is_there in [true, false] {
        let mut clean = Clean::new();
        let (req, trip) = (ReqNo(50), TRIP.to_owned());
        let call = Call::Add(8);
        clean.story.write(Record::Req(Request { req, trip, call }));
        if is_there {
            clean.values.push(8);
            clean.digest.values.push(8);
        }
        assert_eq!(clean.judged().wrongs, []);
    }
}

#[test]
fn a_message_that_nobody_sent_or_that_came_twice_is_a_phantom() {
    for value in [7, 8] {
        let mut clean = Clean::new();
        clean.values.push(value);
        clean.digest.values.push(value);
        assert_eq!(kinds(&clean.judged()), [Wrong::Phantom]);
    }
}

#[test]
fn an_acknowledged_end_that_is_not_the_end_is_lost() {
    for call in [Call::Cancel, Call::Terminate] {
        let mut clean = Clean::new();
        clean.story.asked(call, Answer::Done);
        assert_eq!(kinds(&clean.judged()), [Wrong::Lost]);
    }
    let mut clean = Clean::new();
    clean
        .story
        .asked(Call::Result, Answer::Ended("cancelled".into()));
    assert_eq!(kinds(&clean.judged()), [Wrong::Lost]);
}

#[test]
fn a_run_that_nobody_started_is_a_phantom() {
    let clean = Clean::new();
    let mut other = clean.run();
    (other.trip, other.run) = ("trip-2".into(), "run-2".into());
    let findings = judge(&clean.story.lines, &[clean.run(), other]);
    assert!(kinds(&findings).iter().all(|kind| *kind == Wrong::Phantom));
    assert!(findings.wrongs[0].1.contains("trip-2"));
}

#[test]
fn two_runs_of_one_request_are_a_duplicate() {
    let clean = Clean::new();
    let findings = judge(&clean.story.lines, &[clean.run(), clean.run()]);
    assert_eq!(kinds(&findings), [Wrong::Duplicated]);
}

#[test]
fn a_success_without_its_effect_is_lost() {
    let mut clean = Clean::new();
    let begin = LedgerSeq(clean.digest.marks[0].begin);
    let is_effect = |line: &Line| line.record == Record::Effect(begin);
    clean.story.lines.retain(|line| !is_effect(line));
    assert_eq!(kinds(&clean.judged()), [Wrong::Lost]);
}

#[test]
fn an_effect_of_a_run_that_is_not_there_is_a_phantom() {
    let mut story = Story::default();
    story.begin("take", 1, 1);
    assert_eq!(kinds(&judge(&story.lines, &[])), [Wrong::Phantom]);
}

#[test]
fn beginning_again_after_the_recorded_success_is_a_duplicate_even_after_a_kill() {
    let mut clean = Clean::new();
    clean.story.killed(1);
    clean.story.begin("take", 2, 2);
    assert_eq!(kinds(&clean.judged()), [Wrong::Duplicated]);
}

/// The attempts of one activity before it succeeds in process 3.
fn with_attempts(name: &str, tell: impl FnOnce(&mut Story)) -> Findings {
    let mut clean = Clean::new();
    let index = ["take", "pay", "look", "note"]
        .iter()
        .position(|n| *n == name);
    let index = index.expect("a known name");
    let first = clean.digest.marks[index].begin;
    let is_first = |line: &Line| match &line.record {
        Record::Begin(_) => line.seq.0 == first,
        Record::Effect(begin) | Record::End(begin) => begin.0 == first,
        Record::Req(_)
        | Record::Ack(..)
        | Record::Fail(_)
        | Record::Start(_)
        | Record::Kill(..)
        | Record::Exit(_) => false,
    };
    let mut lines: Vec<Line> = std::mem::take(&mut clean.story.lines);
    lines
        .iter_mut()
        .filter(|line| is_first(line))
        .for_each(|line| line.record = Record::Start(ChildNo(0)));
    clean.story.lines = lines;
    tell(&mut clean.story);
    clean.digest.marks[index] = clean.story.attempt(name, 9, 3);
    clean.judged()
}

#[test]
fn a_retry_after_an_injected_error_is_explained() {
    let findings = with_attempts("take", |story| {
        let begin = story.begin("take", 8, 3);
        story.write(Record::Fail(begin));
    });
    assert_eq!(findings.wrongs, []);
    assert_eq!((findings.retries, findings.bound), (1, 1));
}

#[test]
fn a_retry_after_a_kill_is_explained_and_a_lost_end_is_counted() {
    let findings = with_attempts("take", |story| {
        story.attempt("take", 9, 2);
        story.killed(2);
    });
    assert_eq!(findings.wrongs, []);
    assert_eq!((findings.retries, findings.bound), (1, 1));
    assert_eq!(findings.ambiguous, 1);
}

#[test]
fn a_bounded_attempt_is_used_up_by_a_kill() {
    let findings = with_attempts("pay", |story| {
        story.begin("pay", 9, 2);
        story.killed(2);
    });
    assert_eq!(kinds(&findings), [Wrong::Duplicated]);
}

#[test]
fn a_retry_that_nothing_explains_is_a_duplicate() {
    let after_its_end = with_attempts("take", |story| {
        story.attempt("take", 8, 3);
    });
    assert!(after_its_end.wrongs[0].1.contains("after it ended"));
    let while_it_ran = with_attempts("take", |story| {
        story.begin("take", 8, 3);
    });
    assert!(while_it_ran.wrongs[0].1.contains("while it ran"));
    let twice = with_attempts("take", |story| {
        story.begin("take", 9, 3);
    });
    assert!(twice.wrongs[0].1.contains("twice in one process"));
    let elsewhere = with_attempts("take", |story| {
        story.begin("take", 8, 2);
    });
    assert!(elsewhere.wrongs[0].1.contains("another process"));
    for findings in [after_its_end, while_it_ran, twice, elsewhere] {
        assert_eq!(findings.count(Wrong::Duplicated), 2, "{findings:?}");
    }
}

#[test]
fn other_values_than_the_history_has_are_a_phantom() {
    let mut clean = Clean::new();
    let run = clean.run();
    clean.digest.token += 1;
    let mut told = clean.run();
    told.events.truncate(run.events.len() - 1);
    let (id, time) = (EventId(run.events.len() as u64), Timestamp(99));
    let result = encode(&clean.digest);
    let kind = EventKind::Completed { result };
    told.events.push(Event { id, time, kind });
    let findings = judge(&clean.story.lines, &[told]);
    assert_eq!(kinds(&findings), [Wrong::Phantom]);
}

#[test]
fn a_cancelled_run_must_undo_what_it_did_and_a_completed_one_must_not() {
    let mut clean = Clean::new();
    clean.story.asked(Call::Cancel, Answer::Done);
    let mut run = clean.run();
    let end = run.events.len();
    run.status = Status::Canceled;
    run.events[end - 1].kind = EventKind::Canceled;
    run.events[end - 4].kind = EventKind::CancelRequested {
        reason: String::new(),
        request_id: None,
    };
    let lost: Vec<String> = judge(&clean.story.lines, &[run])
        .wrongs
        .into_iter()
        .map(|(_, text)| text)
        .filter(|text| text.contains("not undone"))
        .collect();
    assert_eq!(lost, ["trip-1 was cancelled, take was not undone"]);
}
