//! What the runs say must have been asked for, must have happened, and must hang together.

use std::collections::{BTreeMap, BTreeSet};

use outlast_model::event::{UpdateEvent, UpdateRequest};
use outlast_model::{EventKind, Payload, Resolution, Seq, Status, grammar};

use super::books::Books;
use super::chains::{self, Trip};
use super::{Findings, RunFacts, Wrong};
use crate::chaos::record::{Call, Effect, LedgerSeq};
use crate::chaos::trip::{Digest, Mark, NAP};

pub(super) fn check(books: &Books, runs: &[RunFacts], trips: &[Trip], findings: &mut Findings) {
    for run in runs {
        if let Err(violation) = grammar::check(&run.events) {
            findings.note(
                Wrong::Phantom,
                format!("history of {}: {violation}", run.trip),
            );
        }
    }
    for trip in trips {
        check_trip(books, trip, findings);
        chains::check_leg(trip, findings);
        if let Some(leg) = chains::leg(trip) {
            for success in successes(leg) {
                let runs = std::slice::from_ref(&leg.run);
                happened(books, (leg, runs), &success, findings);
            }
        }
    }
}

fn check_trip(books: &Books, trip: &Trip, findings: &mut Findings) {
    let run = &trip.whole;
    if !books.was_asked(&run.trip, &Call::Start) {
        findings.note(Wrong::Phantom, format!("{} was never started", run.trip));
    }
    messages(books, run, findings);
    let successes = successes(run);
    for success in &successes {
        happened(books, (run, &trip.runs), success, findings);
    }
    undone(run, &successes, findings);
    if let Some(digest) = digest(run) {
        hangs_together(run, &digest, &successes, findings);
    }
    if run.status == Status::Failed {
        findings.note(
            Wrong::Lost,
            format!("{} failed, and nothing made it", run.trip),
        );
    }
}

/// The values of all messages and updates in the history, in order.
pub(super) fn values(run: &RunFacts) -> Vec<u64> {
    let mut values = Vec::new();
    for event in &run.events {
        if let EventKind::Signaled { name, input, .. } = &event.kind
            && name.as_str() == "add"
        {
            values.extend(input.decode::<u64>().ok());
        } else if let EventKind::Update(update) = &event.kind
            && let Some(request) = request_of(update)
        {
            values.extend(request.input.decode::<u64>().ok());
        }
    }
    values
}

/// The request of an update stands in the first of its events, and only there.
fn request_of(update: &UpdateEvent) -> Option<&UpdateRequest> {
    match update {
        UpdateEvent::Admitted(request) => Some(request),
        UpdateEvent::Accepted(accepted) => accepted.request.as_ref(),
        UpdateEvent::Completed { .. } => None,
    }
}

/// What a completed run returned.
pub(super) fn digest(run: &RunFacts) -> Option<Digest> {
    if let EventKind::Completed { result } = &run.events.last()?.kind {
        return result.decode().ok();
    }
    None
}

/// Every message was sent by somebody, and is there once.
fn messages(books: &Books, run: &RunFacts, findings: &mut Findings) {
    let mut seen = BTreeSet::new();
    for value in values(run) {
        let asked = [Call::Add(value), Call::Enter(value)];
        if !asked.iter().any(|call| books.was_asked(&run.trip, call)) {
            findings.note(
                Wrong::Phantom,
                format!("{} has message {value}, nobody sent it", run.trip),
            );
        }
        if !seen.insert(value) {
            findings.note(
                Wrong::Phantom,
                format!("{} has message {value} twice", run.trip),
            );
        }
    }
}

/// A success that is recorded in a history.
struct Success {
    name: String,
    seq: Seq,
    input: Option<Payload>,
    mark: Option<Mark>,
}

fn successes(run: &RunFacts) -> Vec<Success> {
    let mut scheduled = BTreeMap::new();
    let mut found = Vec::new();
    for event in &run.events {
        if let EventKind::ActivityScheduled(a) = &event.kind {
            scheduled.insert(a.seq, (a.activity_type.to_string(), a.input.clone()));
        } else if let EventKind::ActivityCompleted { seq, result } = &event.kind
            && let Some((name, input)) = scheduled.remove(seq)
        {
            let (seq, mark) = (*seq, result.decode().ok());
            let input = Some(input);
            found.push(Success {
                name,
                seq,
                input,
                mark,
            });
        } else if let EventKind::StepRecorded(step) = &event.kind
            && let Resolution::Completed(result) = &step.outcome
        {
            let (name, seq) = (step.name.to_string(), step.seq);
            let (input, mark) = (None, result.decode().ok());
            found.push(Success {
                name,
                seq,
                input,
                mark,
            });
        }
    }
    found
}

/// A recorded success has its effect behind it, and nothing began after it.
fn happened(
    books: &Books,
    (run, runs): (&RunFacts, &[String]),
    success: &Success,
    findings: &mut Findings,
) {
    let what = format!("{} of {}", success.name, run.trip);
    let begin = success.mark.as_ref().map(|mark| LedgerSeq(mark.begin));
    let known = begin.and_then(|begin| Some((begin, books.begins.get(&begin)?)));
    let is_its_own = |effect: &Effect| runs.contains(&effect.run) && effect.name == success.name;
    let Some((begin, effect)) = known.filter(|(_, effect)| is_its_own(effect)) else {
        return findings.note(
            Wrong::Phantom,
            format!("{what} has a result that nobody made"),
        );
    };
    let fate = books.fate(begin);
    if !fate.has_effect || fate.ended.is_none() {
        findings.note(Wrong::Lost, format!("{what} succeeded without its effect"));
    }
    if books.has_later(begin, effect) {
        findings.note(
            Wrong::Duplicated,
            format!("{what} began again after its success"),
        );
    }
}

/// What was done is undone if the run was cancelled, and only then.
fn undone(run: &RunFacts, successes: &[Success], findings: &mut Findings) {
    let of = |name: &str| successes.iter().find(|s| s.name == name);
    let has_undo = run.events.iter().any(|event| {
        matches!(&event.kind, EventKind::ActivityScheduled(a) if a.activity_type.as_str() == "give_back")
    });
    if run.status == Status::Completed && has_undo {
        findings.note(
            Wrong::Phantom,
            format!("{} completed and was undone", run.trip),
        );
    }
    let Some(taken) = of("take").filter(|_| run.status == Status::Canceled) else {
        return;
    };
    let was_given_up = run.events.iter().any(|event| {
        matches!(&event.kind, EventKind::ActivityCancelRequested { seq } if *seq == taken.seq)
    });
    let undo = of("give_back").and_then(|s| s.input.as_ref()?.decode::<Mark>().ok());
    if undo != taken.mark && !was_given_up {
        findings.note(
            Wrong::Lost,
            format!("{} was cancelled, take was not undone", run.trip),
        );
    }
}

/// What the code saw is what the history says, after however many replays.
fn hangs_together(run: &RunFacts, digest: &Digest, successes: &[Success], findings: &mut Findings) {
    let mark = |name: &str| {
        successes
            .iter()
            .find(|s| s.name == name)
            .and_then(|s| s.mark.clone())
    };
    let recorded: Vec<Option<Mark>> = ["take", "pay", "look", "note"].map(mark).into();
    let seen: Vec<Option<Mark>> = digest.marks.iter().cloned().map(Some).collect();
    let tokens = digest.marks.iter().all(|mark| mark.token == digest.token);
    if recorded != seen || !tokens || digest.key != run.trip {
        let text = format!("{} saw other values than its history has", run.trip);
        findings.note(Wrong::Phantom, text);
    }
    if u128::from(digest.slept_ms) < NAP.as_millis() {
        findings.note(
            Wrong::Lost,
            format!("the timer of {} fired too early", run.trip),
        );
    }
}
