//! What was acknowledged must be there.

use std::collections::BTreeMap;

use outlast_model::{EventKind, Status};

use super::books::Books;
use super::runs::{digest, values};
use super::{Findings, RunFacts, Wrong};
use crate::chaos::record::{Answer, Call, Request};
use crate::chaos::trip::{Digest, FINISH};

pub(super) fn check(books: &Books, runs: &[RunFacts], findings: &mut Findings) {
    let by_trip: BTreeMap<&str, &RunFacts> = runs.iter().map(|r| (r.trip.as_str(), r)).collect();
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
            Answer::Done => is_kept(&request.call, run),
            Answer::Ended(text) => run.is_some_and(|run| is_the_end(run, text)),
            Answer::Refused(_) | Answer::Unknown(_) => continue,
        };
        findings.acked += 1;
        if !kept {
            findings.note(Wrong::Lost, told(request, answer));
        } else if request.call == Call::Start && run.is_some_and(|r| r.status.is_open()) {
            findings.note(Wrong::Stuck, format!("{} has not ended", request.trip));
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
fn is_kept(call: &Call, run: Option<&RunFacts>) -> bool {
    let Some(run) = run else {
        return false;
    };
    match call {
        Call::Start | Call::Result | Call::Retry => true,
        Call::Add(value) => {
            let is_seen = digest(run).is_none_or(|digest| digest.values.contains(value));
            values(run).contains(value) && is_seen
        }
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
