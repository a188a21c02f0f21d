//! Trips of several runs, their children, and messages that are answered.

use outlast_model::RunId;
use outlast_model::event::{
    ChildEvent, ChildInitiated, ContinuedAsNew, UpdateAccepted, UpdateEvent, UpdateOutcome,
    UpdateRequest,
};

use super::*;
use crate::chaos::trip::leg_of;

/// The clean story as two runs, the second of which continues the first.
fn chained(clean: &Clean) -> (Vec<Line>, RunFacts, RunFacts) {
    let (one, two) = (RunId(1).to_string(), RunId(2).to_string());
    let mut lines = clean.story.lines.clone();
    for line in &mut lines {
        if let Record::Begin(effect) = &mut line.record {
            effect.run.clone_from(&one);
        }
    }
    let mut first = clean.run();
    let end = first.events.last_mut().expect("it has ended");
    let kind = EventKind::ContinuedAsNew(Box::new(ContinuedAsNew {
        new_run_id: RunId(2),
        workflow_type: "Trip".into(),
        queue: "default".into(),
        input: Payload::null(),
        run_timeout: None,
        headers: Default::default(),
    }));
    let completed = std::mem::replace(&mut end.kind, kind);
    (first.run, first.status) = (one, Status::ContinuedAsNew);
    let mut begin = started();
    if let EventKind::Started(started) = &mut begin {
        started.continued_from = Some(RunId(1));
        started.first_run_id = Some(RunId(1));
    }
    let mut history = History::default();
    history.turn(vec![begin], vec![completed]);
    let second = RunFacts {
        trip: TRIP.into(),
        run: two,
        status: Status::Completed,
        events: history.0,
    };
    (lines, first, second)
}

#[test]
fn runs_that_continue_each_other_are_one_trip() {
    let (lines, first, second) = chained(&Clean::new());
    assert_eq!(judge(&lines, &[second, first]).wrongs, []);
}

#[test]
fn a_chain_that_breaks_off_is_lost_and_one_that_forks_is_a_duplicate() {
    let (lines, first, second) = chained(&Clean::new());
    let broken = judge(&lines, std::slice::from_ref(&first));
    assert!(kinds(&broken).contains(&Wrong::Lost), "{broken:?}");
    let headless = judge(&lines, std::slice::from_ref(&second));
    assert!(kinds(&headless).contains(&Wrong::Lost), "{headless:?}");
    let mut fork = second.clone();
    fork.run = RunId(3).to_string();
    let forked = judge(&lines, &[first, second, fork]);
    assert!(kinds(&forked).contains(&Wrong::Duplicated), "{forked:?}");
}

/// The clean story with an update among its messages, of which the history knows so much.
fn updated(outcomes: usize) -> Findings {
    let mut clean = Clean::new();
    clean.story.asked(Call::Enter(8), Answer::Done);
    let id = format!("r{}", clean.story.last_req);
    clean.digest.values.push(8);
    let mut run = clean.run();
    let end = run.events.pop().expect("it has ended");
    let mut history = History(run.events);
    let accepted = UpdateAccepted {
        id: id.as_str().into(),
        request: Some(UpdateRequest {
            id: id.as_str().into(),
            name: "enter".into(),
            input: encode(&8),
            headers: Default::default(),
        }),
        behind: EventId(1),
    };
    let outcome = UpdateOutcome::Completed(Payload::null());
    let id = id.as_str().into();
    let completed = EventKind::Update(UpdateEvent::Completed { id, outcome });
    history.push(EventKind::Update(UpdateEvent::Accepted(Box::new(accepted))));
    (0..outcomes).for_each(|_| history.push(completed.clone()));
    history.push(end.kind);
    run.events = history.0;
    let mut findings = judge(&clean.story.lines, &[run]);
    // How often an update may end is also a rule of the grammar; here the judge's own counts.
    findings
        .wrongs
        .retain(|(_, text)| !text.contains("history of"));
    findings
}

#[test]
fn an_acknowledged_update_is_done_once() {
    assert_eq!(updated(1).wrongs, []);
    for outcomes in [0, 2] {
        assert_eq!(kinds(&updated(outcomes)), [Wrong::Lost], "{outcomes}");
    }
}

#[test]
fn what_a_question_showed_must_be_there() {
    for (told, wrongs) in [(7, vec![]), (8, vec![Wrong::Lost])] {
        let mut clean = Clean::new();
        clean.story.asked(Call::Ask, Answer::Told(vec![told]));
        assert_eq!(kinds(&clean.judged()), wrongs);
    }
}

/// The clean story with a child, told by the parent and by the child itself.
fn with_leg(is_told: bool) -> (Vec<Line>, RunFacts, RunFacts) {
    let mut clean = Clean::new();
    let begin = clean.story.write(Record::Begin(Effect {
        trip: leg_of(TRIP),
        run: "leg-1".into(),
        name: "fetch".into(),
        attempt: 1,
        child: ChildNo(1),
        token: TOKEN,
    }));
    clean.story.write(Record::Effect(begin));
    clean.story.write(Record::End(begin));
    let mark = Mark {
        begin: begin.0,
        token: TOKEN,
    };
    clean.digest.leg = Some(mark.clone());
    let mut parent = clean.run();
    let seq = Seq(1);
    let initiated = ChildEvent::Initiated(Box::new(ChildInitiated {
        seq,
        workflow_id: leg_of(TRIP).as_str().into(),
        run_id: RunId(9),
        workflow_type: "leg".into(),
        queue: "default".into(),
        input: Payload::null(),
        options: Default::default(),
        site: Site::default(),
        headers: Default::default(),
    }));
    let told = if is_told {
        mark.clone()
    } else {
        Mark { begin: 0, token: 0 }
    };
    let result = encode(&told);
    let ended = ChildEvent::Completed { seq, result };
    let end = parent.events.pop().expect("it has ended");
    let mut history = History(parent.events);
    history.push(EventKind::Child(initiated));
    history.push(EventKind::Child(ended));
    history.push(end.kind);
    parent.events = history.0;
    let mut history = History::default();
    history.turn(
        vec![started()],
        vec![scheduled(1, "fetch", Payload::null())],
    );
    let result = encode(&mark);
    history.turn(
        completed(1, 1, &mark),
        vec![EventKind::Completed { result }],
    );
    let leg = RunFacts {
        trip: leg_of(TRIP),
        run: "leg-1".into(),
        status: Status::Completed,
        events: history.0,
    };
    (clean.story.lines, parent, leg)
}

/// What is wrong, without the grammar: the histories here are not told in turns.
fn told(lines: &[Line], runs: &[RunFacts]) -> Vec<Wrong> {
    let mut findings = judge(lines, runs);
    findings
        .wrongs
        .retain(|(_, text)| !text.contains("history of"));
    kinds(&findings)
}

#[test]
fn a_child_runs_once_and_its_parent_hears_what_it_returned() {
    let (lines, parent, leg) = with_leg(true);
    assert_eq!(told(&lines, &[parent.clone(), leg.clone()]), []);
    let twice = told(&lines, &[parent.clone(), leg.clone(), leg.clone()]);
    assert_eq!(twice, [Wrong::Duplicated]);
    assert!(told(&lines, std::slice::from_ref(&leg)).contains(&Wrong::Phantom));
    assert!(told(&lines, std::slice::from_ref(&parent)).contains(&Wrong::Lost));
    let (lines, parent, leg) = with_leg(false);
    assert!(told(&lines, &[parent, leg]).contains(&Wrong::Lost));
}

#[test]
fn a_child_may_be_told_to_try_again() {
    let clean = Clean::new();
    let mut lines = clean.story.lines.clone();
    let seq = LedgerSeq(lines.len() as u64 + 1);
    let (req, trip) = (ReqNo(900), leg_of(TRIP));
    let call = Call::Retry;
    let told = [
        Record::Req(Request { req, trip, call }),
        Record::Ack(req, Answer::Done),
    ];
    lines.extend(told.map(|record| Line { seq, us: 0, record }));
    assert_eq!(judge(&lines, &[clean.run()]).wrongs, []);
}
