//! What was acknowledged must be there.

use std::collections::BTreeMap;

use outlast_model::event::UpdateEvent;
use outlast_model::{EventKind, Status};

use super::books::Books;
use super::chains::Trip;
use super::runs::{digest, values};
use super::{Findings, RunFacts, Wrong};
use crate::chaos::record::{Answer, Call, ReqNo, Request};
use crate::chaos::trip::{Digest, FINISH};

pub(super) fn check(books: &Books, trips: &[Trip], findings: &mut Findings) {
    let wholes = trips.iter().map(|trip| &trip.whole);
    let by_trip: BTreeMap<&str, &RunFacts> = wholes.map(|r| (r.trip.as_str(), r)).collect();
    for (req, answer) in &books.answers {
        let Some(request) = books.requests.get(req) else {
            findings.note(
                Wrong::Phantom,
                format!("request {} was answered, not asked", req.0),
            );
            continue;
        };
        let run = by_trip.get(request.trip.as_str()).copied();
        let kept = match answer {
            Answer::Done => is_kept(request, run),
            Answer::Told(told) => run.is_some_and(|run| has_all(run, told)),
            Answer::Ended(text) => run.is_some_and(|run| is_the_end(run, text)),
            Answer::Refused(_) | Answer::Unknown(_) => continue,
        };
        findings.acked += 1;
        if !kept {
            findings.note(Wrong::Lost, told(request, answer));
        } else if request.call == Call::Start && run.is_some_and(|r| r.status.is_open()) {
            let refused = books.refused(&request.trip);
            let text = format!("{} has not ended; refused: {refused:?}", request.trip);
            findings.note(Wrong::Stuck, text);
        }
    }
}

fn told(request: &Request, answer: &Answer) -> String {
    format!(
        "{} of {} was answered {answer:?} and is not so",
        name(&request.call),
        request.trip
    )
}

fn name(call: &Call) -> String {
    format!("{call:?}").to_lowercase()
}

/// Whether the run shows what was acknowledged.
fn is_kept(request: &Request, run: Option<&RunFacts>) -> bool {
    // What it did shows in the run that it let go on, which may be a child.
    if request.call == Call::Retry {
        return true;
    }
    let Some(run) = run else {
        return false;
    };
    match &request.call {
        Call::Start | Call::Result | Call::Retry | Call::Ask => true,
        Call::Add(value) => is_seen(run, *value),
        Call::Enter(value) => is_seen(run, *value) && is_done(run, request.req),
        Call::Finish => has(
            run,
            |kind| matches!(kind, EventKind::Signaled { name, .. } if name.as_str() == FINISH.name()),
        ),
        Call::Cancel => has(run, |kind| {
            matches!(kind, EventKind::CancelRequested { .. })
        }),
        Call::Terminate => run.status == Status::Terminated,
    }
}

/// The value is in the history, and the code saw it if it came to its end.
fn is_seen(run: &RunFacts, value: u64) -> bool {
    let is_seen = digest(run).is_none_or(|digest| digest.values.contains(&value));
    values(run).contains(&value) && is_seen
}

/// The update with the number of this request has its outcome, once in all runs of the trip.
fn is_done(run: &RunFacts, req: ReqNo) -> bool {
    let update = format!("r{}", req.0);
    let outcomes = run.events.iter().filter(|event| {
        matches!(&event.kind, EventKind::Update(UpdateEvent::Completed { id, .. })
            if id.as_str() == update)
    });
    outcomes.count() == 1
}

/// What a question showed is there: its answer waited for the disk.
fn has_all(run: &RunFacts, told: &[u64]) -> bool {
    let there = values(run);
    told.iter().all(|value| there.contains(value))
}

fn has(run: &RunFacts, is_it: impl Fn(&EventKind) -> bool) -> bool {
    run.events.iter().any(|event| is_it(&event.kind))
}

/// Whether the run ended as its client was told.
fn is_the_end(run: &RunFacts, told: &str) -> bool {
    match told {
        "cancelled" => run.status == Status::Canceled,
        "terminated" => run.status == Status::Terminated,
        text => {
            let told: Option<Digest> = serde_json::from_str(text).ok();
            told.is_some() && told == digest(run)
        }
    }
}
