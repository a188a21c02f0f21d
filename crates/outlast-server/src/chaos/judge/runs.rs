//! What the runs say must have been asked for, must have happened, and must hang together.

use std::collections::{BTreeMap, BTreeSet};

use outlast_model::{Event, EventKind, Payload, Resolution, Seq, Status, grammar};

use super::books::Books;
use super::{Findings, RunFacts, Wrong};
use crate::chaos::record::{Call, LedgerSeq};
use crate::chaos::trip::{Digest, Mark, NAP};

pub(super) fn check(books: &Books, runs: &[RunFacts], findings: &mut Findings) {
    let mut seen = BTreeSet::new();
    for run in runs {
        if !books.was_asked(&run.trip, &Call::Start) {
            findings.note(Wrong::Phantom, format!("{} was never started", run.trip));
        }
        if !seen.insert(run.trip.as_str()) {
            findings.note(Wrong::Duplicated, format!("{} has two runs", run.trip));
        }
        if let Err(violation) = grammar::check(&run.events) {
            findings.note(
                Wrong::Phantom,
                format!("history of {}: {violation}", run.trip),
            );
        }
        messages(books, run, findings);
        let successes = successes(run);
        for success in &successes {
            happened(books, run, success, findings);
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
}

/// The values of all messages in the history, in order.
pub(super) fn values(run: &RunFacts) -> Vec<u64> {
    let value = |event: &Event| match &event.kind {
        EventKind::Signaled { name, input, .. } if name.as_str() == "add" => input.decode().ok(),
        _ => None,
    };
    run.events.iter().filter_map(value).collect()
}

/// What a completed run returned.
pub(super) fn digest(run: &RunFacts) -> Option<Digest> {
    match &run.events.last()?.kind {
        EventKind::Completed { result } => result.decode().ok(),
        _ => None,
    }
}

/// Every message was sent by somebody, and is there once.
fn messages(books: &Books, run: &RunFacts, findings: &mut Findings) {
    let mut seen = BTreeSet::new();
    for value in values(run) {
        if !books.was_asked(&run.trip, &Call::Add(value)) {
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
        match &event.kind {
            EventKind::ActivityScheduled(a) => {
                scheduled.insert(a.seq, (a.activity_type.to_string(), a.input.clone()));
            }
            EventKind::ActivityCompleted { seq, result } => {
                let Some((name, input)) = scheduled.remove(seq) else {
                    continue;
                };
                let (seq, mark) = (*seq, result.decode().ok());
                found.push(Success {
                    name,
                    seq,
                    input: Some(input),
                    mark,
                });
            }
            EventKind::StepRecorded(step) => {
                if let Resolution::Completed(result) = &step.outcome {
                    let (name, seq) = (step.name.to_string(), step.seq);
                    found.push(Success {
                        name,
                        seq,
                        input: None,
                        mark: result.decode().ok(),
                    });
                }
            }
            _ => {}
        }
    }
    found
}

/// A recorded success has its effect behind it, and nothing began after it.
fn happened(books: &Books, run: &RunFacts, success: &Success, findings: &mut Findings) {
    let what = format!("{} of {}", success.name, run.trip);
    let begin = success.mark.as_ref().map(|mark| LedgerSeq(mark.begin));
    let known = begin.and_then(|begin| Some((begin, books.begins.get(&begin)?)));
    let Some((begin, effect)) = known.filter(|(_, e)| e.run == run.run && e.name == success.name)
    else {
        return findings.note(
            Wrong::Phantom,
            format!("{what} has a result that nobody made"),
        );
    };
    let fate = books.fate(begin);
    if !fate.has_effect || fate.ended.is_none() {
        findings.note(Wrong::Lost, format!("{what} succeeded without its effect"));
    }
    let later = books.begins.range(LedgerSeq(begin.0 + 1)..);
    if later
        .clone()
        .any(|(_, e)| e.run == effect.run && e.name == effect.name)
    {
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
