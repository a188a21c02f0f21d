//! Any input in any state: `apply` never panics, what it decides folds to the same state when it
//! is loaded, and every history it writes obeys the grammar.

use std::collections::BTreeMap;
use std::time::Duration;

use outlast_engine::{Decision, Error, Input, Run, apply, passing, start};
use outlast_model::command::{
    CancelExternal, ContinueAsNew, ScheduleActivity, SignalExternal, StartChild,
};
use outlast_model::event::{
    CancelOf, ChildEvent, DeliveryFailedCause, Site, StartFailedCause, TaskFailedCause,
    UpdateEvent, UpdateOutcome, UpdateRequest,
};
use outlast_model::id::{Attempt, Incarnation, RunId, Seq, UpdateId};
use outlast_model::job::Job;
use outlast_model::job::SignalMessage;
use outlast_model::post::{Post, PostBody};
use outlast_model::start::StartRequest;
use outlast_model::task::{
    AttemptKind, AttemptOutcome, AttemptResult, AttemptToken, OpenAttempt, RunNo, TaskAnswer,
};
use outlast_model::view::{RunOutcome, RunRef};
use outlast_model::{
    ActivityOptions, ChildOptions, Command, Event, EventId, EventKind, Failure, Headers,
    ParentClose, Payload, Record, RetryPolicy, StepOptions, Timestamp, grammar, record,
};
use proptest::prelude::*;

fn payload() -> impl Strategy<Value = Payload> {
    prop_oneof![Just(Payload::null()), Just(Payload::raw_json(&b"1"[..]))]
}

fn seq() -> impl Strategy<Value = Seq> {
    (1u32..5).prop_map(Seq)
}

fn token(kind: AttemptKind) -> impl Strategy<Value = AttemptToken> {
    (seq(), 1u32..3, 1u128..3).prop_map(move |(seq, attempt, incarnation)| AttemptToken {
        shard: 0,
        run: RunNo(0),
        kind,
        seq,
        attempt: Attempt(attempt),
        incarnation: Incarnation(incarnation),
    })
}

fn outside(token: AttemptToken) -> OpenAttempt {
    OpenAttempt {
        run_id: RunId(7),
        seq: token.seq,
        attempt: token.attempt,
        incarnation: token.incarnation,
    }
}

fn result() -> impl Strategy<Value = AttemptResult> {
    prop_oneof![
        payload().prop_map(AttemptResult::Completed),
        Just(AttemptResult::Failed(Failure::panic("boom"))),
        Just(AttemptResult::Canceled(None)),
        Just(AttemptResult::HandedBack),
        Just(AttemptResult::Later),
    ]
}

fn command() -> impl Strategy<Value = Command> {
    let options = ActivityOptions {
        retry: RetryPolicy::times(2).initial(Duration::from_micros(5)),
        start_to_close: Some(Duration::from_micros(40)),
        heartbeat: Some(Duration::from_micros(20)),
        ..ActivityOptions::default()
    };
    let site = Site::default;
    prop_oneof![
        (seq(), payload()).prop_map(move |(seq, input)| {
            let (activity_type, options) = ("a".into(), options.clone());
            let site = Site::default();
            let c = ScheduleActivity {
                seq,
                activity_type,
                input,
                options: options.into(),
                site,
                headers: Headers::new(),
            };
            Command::ScheduleActivity(Box::new(c))
        }),
        seq().prop_map(|seq| Command::RequestCancelActivity { seq }),
        (seq(), 0u64..30).prop_map(move |(seq, delay)| {
            let delay = Duration::from_micros(delay);
            Command::StartTimer {
                seq,
                delay,
                site: site(),
            }
        }),
        seq().prop_map(|seq| Command::CancelTimer { seq }),
        seq().prop_map(move |seq| Command::ScheduleStep {
            seq,
            name: "s".into(),
            options: Box::new(StepOptions {
                retry: RetryPolicy::times(2)
            }),
            site: site(),
        }),
        seq().prop_map(|seq| Command::CancelStep { seq }),
        other_command(),
        other_command(),
    ]
}

/// Commands that concern other runs, updates and the code itself.
fn other_command() -> impl Strategy<Value = Command> {
    let target = || RunRef::newest("other".into());
    let site = Site::default;
    prop_oneof![
        (seq(), 0u8..3).prop_map(move |(seq, policy)| {
            let parent_close = match policy {
                0 => ParentClose::Terminate,
                1 => ParentClose::RequestCancel,
                _ => ParentClose::Abandon,
            };
            Command::StartChild(Box::new(StartChild {
                seq,
                workflow_id: "child".into(),
                workflow_type: "t".into(),
                input: Payload::null(),
                options: ChildOptions {
                    parent_close,
                    ..ChildOptions::default()
                },
                site: site(),
                headers: Headers::new(),
            }))
        }),
        seq().prop_map(move |seq| Command::CancelChild {
            seq,
            reason: "r".into(),
            site: site()
        }),
        seq().prop_map(move |seq| Command::SignalExternal(Box::new(SignalExternal {
            seq,
            target: target(),
            name: "n".into(),
            input: Payload::null(),
            site: site(),
            headers: Headers::new()
        }))),
        seq().prop_map(move |seq| Command::CancelExternal(Box::new(CancelExternal {
            seq,
            target: target(),
            reason: "r".into(),
            site: site(),
        }))),
        update_id().prop_map(|id| Command::CompleteUpdate {
            id,
            outcome: UpdateOutcome::Completed(Payload::null()),
        }),
    ]
}

fn update_id() -> impl Strategy<Value = UpdateId> {
    (0u8..4).prop_map(|n| format!("u{n}").as_str().into())
}

/// What other runs say: answers to what this one asked, and messages.
fn post() -> impl Strategy<Value = Box<Post>> {
    let outcome = prop_oneof![
        Just(RunOutcome::Completed(Payload::null())),
        Just(RunOutcome::Canceled),
        Just(RunOutcome::TimedOut),
        Just(RunOutcome::ContinuedAsNew(RunId(9))),
    ];
    let body = prop_oneof![
        1 => (seq(), payload()).prop_map(|(seq, input)| PostBody::Signal {
            seq,
            name: "n".into(),
            input, headers: Headers::new() }),
        1 => seq().prop_map(|seq| PostBody::Cancel {
            of: Some(CancelOf::External(seq)),
            reason: "r".into()
        }),
        4 => (seq(), any::<bool>()).prop_map(|(seq, is_started)| PostBody::ChildStarted {
            seq,
            failed: (!is_started).then_some(StartFailedCause::AlreadyExists),
        }),
        4 => (seq(), outcome).prop_map(|(seq, outcome)| PostBody::ChildEnded { seq, outcome }),
        2 => (seq(), any::<bool>()).prop_map(|(seq, is_there)| PostBody::SignalDelivered {
            seq,
            failed: (!is_there).then_some(DeliveryFailedCause::NotFound),
        }),
        2 => (seq(), any::<bool>()).prop_map(|(seq, is_child)| PostBody::CancelDelivered {
            of: if is_child { CancelOf::Child(seq) } else { CancelOf::External(seq) },
            failed: None,
        }),
    ];
    body.prop_map(|body| {
        Box::new(Post {
            from: RunRef {
                workflow_id: "other".into(),
                run_id: Some(RunId(3)),
            },
            to: RunRef::newest("w".into()),
            body,
        })
    })
}

/// Commands with distinct fresh numbers, as a runtime guarantees, and sometimes an end.
fn answer() -> impl Strategy<Value = TaskAnswer> {
    let commands = (prop::collection::vec(command(), 0..6), 0u8..12).prop_map(|(mut all, end)| {
        let mut seen = std::collections::BTreeSet::new();
        all.retain(|c| seen.insert(format!("{} {}", c.name(), number(c))));
        match end {
            0 => all.push(Command::CompleteWorkflow {
                result: Payload::null(),
            }),
            1 => all.push(Command::FailWorkflow {
                failure: Failure::panic("end"),
            }),
            2 => all.push(Command::CancelWorkflow),
            3 => all.push(Command::ContinueAsNew(Box::new(ContinueAsNew {
                workflow_type: None,
                queue: None,
                input: Payload::null(),
                run_timeout: None,
                signals: vec![SignalMessage {
                    name: "n".into(),
                    input: Payload::null(),
                    headers: Headers::new(),
                }],
                headers: Headers::new(),
            }))),
            _ => {}
        }
        TaskAnswer::Completed {
            commands: all,
            notes: Default::default(),
        }
    });
    let failed = prop_oneof![
        Just(TaskFailedCause::WorkerUnhandledFailure),
        Just(TaskFailedCause::NonDeterminism),
    ]
    .prop_map(|cause| TaskAnswer::Failed {
        cause,
        failure: Failure::panic("task"),
    });
    prop_oneof![4 => commands, 1 => failed]
}

fn number(command: &Command) -> u32 {
    match command {
        Command::ScheduleActivity(c) => c.seq.0,
        Command::RequestCancelActivity { seq }
        | Command::StartTimer { seq, .. }
        | Command::CancelTimer { seq }
        | Command::ScheduleStep { seq, .. }
        | Command::CancelStep { seq }
        | Command::CancelChild { seq, .. } => seq.0,
        Command::StartChild(c) => c.seq.0,
        Command::SignalExternal(c) => c.seq.0,
        Command::CancelExternal(c) => c.seq.0,
        Command::SetPatch { .. }
        | Command::AcceptUpdate { .. }
        | Command::RejectUpdate { .. }
        | Command::CompleteUpdate { .. }
        | Command::ContinueAsNew(_)
        | Command::CompleteWorkflow { .. }
        | Command::FailWorkflow { .. }
        | Command::CancelWorkflow => 0,
    }
}

#[derive(Clone, Debug)]
enum Act {
    Apply(Box<Input>),
    /// Hands the task out, if there is one.
    Begin,
    /// The slice ended without an answer: evicted, crashed.
    Abandon,
    /// A new process loads the run.
    Reload,
}

fn act() -> impl Strategy<Value = Act> {
    let input = prop_oneof![
        3 => payload().prop_map(|input| Input::Signal {
            name: "n".into(),
            input,
            request_id: None, headers: Headers::new() }),
        1 => (0u8..3).prop_map(|n| Input::Signal {
            name: "n".into(),
            input: Payload::null(),
            request_id: Some(format!("r{n}").as_str().into()), headers: Headers::new() }),
        4 => (update_id(), any::<bool>()).prop_map(|(id, is_fast)| Input::Update {
            request: UpdateRequest { id, name: "u".into(), input: Payload::null(), headers: Headers::new() },
            is_fast,
        }),
        1 => Just(Input::Admit),
        4 => post().prop_map(Input::Post),
        1 => Just(Input::Cancel { reason: "why".into(), request_id: None }),
        1 => Just(Input::Terminate { reason: "why".into() }),
        4 => (token(AttemptKind::Activity), result())
            .prop_map(|(token, result)| Input::Outcome(AttemptOutcome { token, result })),
        4 => (token(AttemptKind::Step), result())
            .prop_map(|(token, result)| Input::Outcome(AttemptOutcome { token, result })),
        1 => (token(AttemptKind::Activity), payload())
            .prop_map(|(token, details)| Input::Heartbeat { token, details }),
        2 => (token(AttemptKind::Activity), result())
            .prop_map(|(token, result)| Input::Answer { attempt: outside(token), result }),
        1 => (token(AttemptKind::Activity), payload())
            .prop_map(|(token, details)| Input::Report { attempt: outside(token), details }),
        4 => Just(Input::Due),
        4 => (seq(), 1u128..3).prop_map(|(seq, i)| Input::HandOut {
            kind: AttemptKind::Activity,
            seq,
            incarnation: Incarnation(i)
        }),
        4 => (seq(), 1u128..3).prop_map(|(seq, i)| Input::HandOut {
            kind: AttemptKind::Step,
            seq,
            incarnation: Incarnation(i)
        }),
        1 => (1u128..3).prop_map(|i| Input::Recover { incarnation: Incarnation(i) }),
        1 => Just(Input::Retry),
        1 => Just(Input::Returned),
        1 => Just(Input::ForeignWake),
        1 => Just(Input::ArmSlice),
        8 => (0u64..200, answer())
            .prop_map(|(t, answer)| Input::Task { started: Timestamp(t), answer }),
    ];
    prop_oneof![
        12 => input.prop_map(|input| Act::Apply(Box::new(input))),
        6 => Just(Act::Begin),
        1 => Just(Act::Abandon),
        1 => Just(Act::Reload),
    ]
}

fn message() -> impl Strategy<Value = Act> {
    let (name, input, request_id) = ("n".into(), Payload::null(), None);
    let signal = Input::Signal {
        name,
        input,
        request_id,
        headers: Headers::new(),
    };
    let update = (update_id(), any::<bool>()).prop_map(|(id, is_fast)| Input::Update {
        request: UpdateRequest {
            id,
            name: "u".into(),
            input: Payload::null(),
            headers: Headers::new(),
        },
        is_fast,
    });
    let answer = Input::Task {
        started: Timestamp(0),
        answer: TaskAnswer::Completed {
            commands: Vec::new(),
            notes: Default::default(),
        },
    };
    let input = prop_oneof![
        2 => update,
        1 => Just(signal),
        1 => Just(Input::Admit),
        2 => Just(answer),
    ];
    prop_oneof![
        8 => input.prop_map(|input| Act::Apply(Box::new(input))),
        2 => Just(Act::Begin),
        1 => Just(Act::Abandon),
    ]
}

/// Numbers as a runtime gives them: new operations count up, everything else names a recent one.
#[derive(Default)]
struct Numbers {
    activity: u32,
    timer: u32,
    step: u32,
    child: u32,
    signal: u32,
    cancel: u32,
}

impl Numbers {
    fn give(&mut self, input: &mut Input) {
        match input {
            Input::Outcome(AttemptOutcome { token, .. }) | Input::Heartbeat { token, .. } => {
                let highest = match token.kind {
                    AttemptKind::Activity => self.activity,
                    AttemptKind::Step => self.step,
                };
                token.seq = recent(highest, token.seq);
            }
            Input::Answer { attempt, .. } | Input::Report { attempt, .. } => {
                attempt.seq = recent(self.activity, attempt.seq);
            }
            Input::HandOut { kind, seq, .. } => {
                let highest = match kind {
                    AttemptKind::Activity => self.activity,
                    AttemptKind::Step => self.step,
                };
                *seq = recent(highest, *seq);
            }
            Input::Post(post) => match &mut post.body {
                PostBody::ChildStarted { seq, .. } | PostBody::ChildEnded { seq, .. } => {
                    *seq = recent(self.child, *seq);
                }
                PostBody::SignalDelivered { seq, .. } => *seq = recent(self.signal, *seq),
                PostBody::CancelDelivered { of, .. } => match of {
                    CancelOf::Child(seq) => *seq = recent(self.child, *seq),
                    CancelOf::External(seq) => *seq = recent(self.cancel, *seq),
                },
                PostBody::StartChild(_)
                | PostBody::Signal { .. }
                | PostBody::Cancel { .. }
                | PostBody::Terminate { .. } => {}
            },
            Input::Task {
                answer: TaskAnswer::Completed { commands, .. },
                ..
            } => {
                commands.iter_mut().for_each(|command| self.number(command));
            }
            Input::Signal { .. }
            | Input::Cancel { .. }
            | Input::Update { .. }
            | Input::Admit
            | Input::Terminate { .. }
            | Input::Due
            | Input::Recover { .. }
            | Input::Retry
            | Input::Returned
            | Input::ForeignWake
            | Input::ArmSlice
            | Input::DisarmSlice
            | Input::Task { .. } => {}
        }
    }

    fn number(&mut self, command: &mut Command) {
        match command {
            Command::ScheduleActivity(c) => c.seq = next(&mut self.activity),
            Command::StartTimer { seq, .. } => *seq = next(&mut self.timer),
            Command::ScheduleStep { seq, .. } => *seq = next(&mut self.step),
            Command::RequestCancelActivity { seq } => *seq = recent(self.activity, *seq),
            Command::CancelTimer { seq } => *seq = recent(self.timer, *seq),
            Command::CancelStep { seq } => *seq = recent(self.step, *seq),
            Command::StartChild(c) => c.seq = next(&mut self.child),
            Command::CancelChild { seq, .. } => *seq = recent(self.child, *seq),
            Command::SignalExternal(c) => c.seq = next(&mut self.signal),
            Command::CancelExternal(c) => c.seq = next(&mut self.cancel),
            Command::SetPatch { .. }
            | Command::AcceptUpdate { .. }
            | Command::RejectUpdate { .. }
            | Command::CompleteUpdate { .. }
            | Command::ContinueAsNew(_)
            | Command::CompleteWorkflow { .. }
            | Command::FailWorkflow { .. }
            | Command::CancelWorkflow => {}
        }
    }
}

fn next(highest: &mut u32) -> Seq {
    *highest += 1;
    Seq(*highest)
}

fn recent(highest: u32, seq: Seq) -> Seq {
    Seq(highest.saturating_sub(seq.0 - 1).max(1))
}

fn request() -> StartRequest {
    StartRequest {
        workflow_id: "w".into(),
        run_id: RunId(7),
        workflow_type: "t".into(),
        queue: "default".into(),
        input: Payload::null(),
        request_id: Some("start".into()),
        conflict: Default::default(),
        reuse: Default::default(),
        run_timeout: Some(Duration::from_micros(900)),
        task_timeout: None,
        priority: None,
        parent: None,
        headers: Headers::new(),
    }
}

fn events(blobs: &[Vec<u8>]) -> Vec<Event> {
    let records = blobs
        .iter()
        .flat_map(|b| record::decode(b).expect("own blobs decode"));
    records.filter_map(|r| event(&r).cloned()).collect()
}

/// Every update that the code was given is accepted or turned away, as a runtime guarantees; and
/// only one that runs is completed.
fn answer_updates(run: &Run, input: &mut Input) {
    let Input::Task {
        answer: TaskAnswer::Completed { commands, .. },
        ..
    } = input
    else {
        return;
    };
    commands.retain(|command| {
        let Command::CompleteUpdate { id, .. } = command else {
            return true;
        };
        run.update(id)
            .is_some_and(|update| update.state == outlast_engine::update::State::Accepted)
    });
    let mut number = 0;
    for job in run.unseen() {
        if let Job::Update(update) = job {
            number += 1;
            let id = update.request.id.clone();
            let answer = if number % 3 == 0 {
                let failure = Failure::panic("no");
                Command::RejectUpdate { id, failure }
            } else {
                Command::AcceptUpdate { id }
            };
            commands.insert(0, answer);
        }
    }
}

/// A child is told which event of its parent asked for it.
fn children_know_who_asked_for_them(decision: &Decision) -> Result<(), TestCaseError> {
    for post in &decision.posts {
        let PostBody::StartChild(child) = &post.body else {
            continue;
        };
        let mut events = decision.records.iter().filter_map(event);
        let asked = events.find(|event| event.id == child.parent.initiated);
        let run_id = match asked.map(|event| &event.kind) {
            Some(EventKind::Child(ChildEvent::Initiated(asked))) => Some(asked.run_id),
            Some(_) | None => None,
        };
        prop_assert_eq!(run_id, Some(child.run_id));
    }
    Ok(())
}

/// Replay must give an update to the code at the same place among the signals.
fn updates_stand_where_they_were_given(
    decision: &Decision,
    given: &BTreeMap<UpdateId, usize>,
    blobs: &[Vec<u8>],
) -> Result<(), TestCaseError> {
    for event in decision.records.iter().filter_map(event) {
        if let EventKind::Update(UpdateEvent::Accepted(accepted)) = &event.kind {
            let signals = signals_before(&events(blobs), accepted.behind, event.id);
            prop_assert_eq!(Some(&signals), given.get(&accepted.id));
        }
    }
    Ok(())
}

/// The updates that code is given now, and how many signals before each.
fn updates_among_signals(unseen: &[Job]) -> BTreeMap<UpdateId, usize> {
    let mut signals = 0;
    let mut given = BTreeMap::new();
    for job in unseen {
        if let Job::Update(update) = job {
            given.insert(update.request.id.clone(), signals);
        }
        signals += usize::from(matches!(job, Job::Signal { .. }));
    }
    given
}

/// The signals up to the event `behind` that no completed task before that of `command` has seen.
fn signals_before(history: &[Event], behind: EventId, command: EventId) -> usize {
    let mut completed = (EventId(0), EventId(0));
    let mut started = EventId(0);
    for event in history.iter().take_while(|event| event.id < command) {
        if matches!(event.kind, EventKind::TaskStarted) {
            started = event.id;
        }
        if matches!(event.kind, EventKind::TaskCompleted) {
            completed = (completed.1, started);
        }
    }
    let unseen = history
        .iter()
        .filter(|e| e.id > completed.0 && e.id <= behind);
    unseen
        .filter(|e| matches!(e.kind, EventKind::Signaled { .. }))
        .count()
}

fn event(record: &Record) -> Option<&Event> {
    match record {
        Record::Event(event) => Some(event),
        Record::Fact(_) => None,
    }
}

fn play(acts: Vec<(Act, u64)>) -> Result<(), TestCaseError> {
    let mut now = Timestamp(0);
    let mut numbers = Numbers::default();
    let mut first = Decision::default();
    let mut run = start::begin(request(), now, &mut first).expect("a run begins");
    let mut blobs = vec![record::encode(&first.records)];
    let mut decision = Decision::default();
    let mut given = BTreeMap::new();
    for (act, step) in acts {
        now.0 += step;
        let before = decision.records.len();
        match act {
            Act::Apply(mut input) => {
                numbers.give(&mut input);
                answer_updates(&run, &mut input);
                let was_open = run.status().is_open();
                match apply(&mut run, *input, now, &mut decision) {
                    Ok(()) => {}
                    Err(Error::Refused(_)) => prop_assert_eq!(decision.records.len(), before),
                    Err(Error::Unexpected(_)) => prop_assert!(was_open),
                    Err(Error::Corrupt(c)) => prop_assert!(false, "{c}"),
                }
            }
            Act::Begin if run.status().is_open() && run.task().is_pending() => {
                given = updates_among_signals(run.unseen());
                run.slice_begins(now);
            }
            Act::Abandon => run.slice_ended(),
            Act::Reload => {
                decision = Decision::default();
                run = Run::load(None, &blobs).expect("own blobs load");
            }
            Act::Begin => {}
        }
        if run.has_unwritten() {
            // Not written before the code has judged it: the decision stays open.
            continue;
        }
        let mut decision = std::mem::take(&mut decision);
        if let Some(next) = decision.successor.take() {
            let first = record::encode(&next.decision.records);
            let loaded = Run::load(None, &[first]).expect("own blobs load");
            prop_assert_eq!(loaded.snapshot(), next.run.snapshot());
        }
        if !decision.records.is_empty() {
            blobs.push(record::encode(&decision.records));
        }
        children_know_who_asked_for_them(&decision)?;
        updates_stand_where_they_were_given(&decision, &given, &blobs)?;
        let loaded = Run::load(None, &blobs).expect("own blobs load");
        prop_assert_eq!(loaded.snapshot(), run.snapshot());
    }
    if run.has_unwritten() {
        apply(&mut run, Input::Admit, now, &mut decision).expect("it can be written");
        blobs.push(record::encode(&decision.records));
    }
    let (head, tail) = blobs.split_at(blobs.len() / 2 + 1);
    let half = Run::load(None, head).expect("own blobs load").snapshot();
    let from_half = Run::load(Some(&half), tail).expect("own snapshot loads");
    prop_assert_eq!(from_half.snapshot(), run.snapshot());
    let from_zero = Run::load(None, &blobs).expect("own blobs load");
    prop_assert_eq!(from_half.wake(), from_zero.wake());
    let short = Run::load(None, &without_what_passed(&blobs)).expect("what is left loads");
    prop_assert_eq!(short.snapshot(), from_zero.snapshot());
    prop_assert_eq!(short.wake(), from_zero.wake());
    let verdict = grammar::check(&events(&blobs));
    prop_assert!(verdict.is_ok(), "{:?}\n{:#?}", verdict, events(&blobs));
    Ok(())
}

/// The same commits, those of passing facts alone in the place of those like them before them.
fn without_what_passed(blobs: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut commits: Vec<Vec<Record>> = Vec::new();
    for blob in blobs {
        let records = record::decode(blob).expect("own blobs decode");
        let pass = |records: &[Record]| records.iter().all(passing::is_passing);
        if pass(&records)
            && let Some(before) = commits.pop_if(|before| pass(before))
        {
            let both = before.into_iter().chain(records).collect::<Vec<_>>();
            let needed = passing::needed(both.iter());
            let kept = both.into_iter().zip(needed).filter(|(_, kept)| *kept);
            commits.push(kept.map(|(record, _)| record).collect());
        } else {
            commits.push(records);
        }
    }
    commits
        .iter()
        .map(|records| record::encode(records))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn any_input_in_any_state(acts in prop::collection::vec((act(), 0u64..25), 1..60)) {
        play(acts)?;
    }

    /// Little else happens, so that every order is met of what comes, what is written and when
    /// the code is given it.
    #[test]
    fn messages_in_any_order(acts in prop::collection::vec((message(), 0u64..2), 1..16)) {
        play(acts)?;
    }
}
