//! The beginning of a run: whether it may start at all, and its first records.

use outlast_model::event::Started;
use outlast_model::id::{Attempt, RequestId, RunId};
use outlast_model::planted::{Bug, is_planted};
use outlast_model::start::{ConflictPolicy, ReusePolicy, StartRequest};
use outlast_model::{Edition, Event, EventKind, Record, Refusal, Shared, Status, Timestamp};

use crate::decision::Decision;
use crate::run::{Corrupt, Run};

/// The newest run of the same workflow id.
#[derive(Clone, Debug, PartialEq)]
pub struct Existing {
    /// The run.
    pub run_id: RunId,
    /// Where it stands.
    pub status: Status,
    /// Whether the request that started it is this very request.
    pub is_same_request: bool,
}

/// What becomes of a start.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// Start a new run.
    Start,
    /// End the open run, then start a new one.
    TerminateThenStart,
    /// Answer with the run that is there.
    Attach,
    /// Refuse.
    Refuse(Refusal),
}

/// Temporal's id policies: the same request first, then open runs, then ended ones.
pub fn decide(request: &StartRequest, existing: Option<&Existing>) -> Verdict {
    let Some(existing) = existing else {
        return Verdict::Start;
    };
    if existing.is_same_request {
        return Verdict::Attach;
    }
    let refuse = || {
        Verdict::Refuse(Refusal::AlreadyStarted {
            workflow_id: request.workflow_id.clone(),
            run_id: existing.run_id,
            status: existing.status,
        })
    };
    if existing.status.is_open() {
        return match request.conflict {
            ConflictPolicy::Fail => refuse(),
            ConflictPolicy::UseExisting => Verdict::Attach,
            ConflictPolicy::TerminateExisting => Verdict::TerminateThenStart,
        };
    }
    match request.reuse {
        ReusePolicy::AllowDuplicate => Verdict::Start,
        ReusePolicy::AllowDuplicateFailedOnly if existing.status == Status::Completed => refuse(),
        ReusePolicy::AllowDuplicateFailedOnly => Verdict::Start,
        ReusePolicy::RejectDuplicate => refuse(),
        ReusePolicy::UseExisting => Verdict::Attach,
    }
}

/// Begins a run: its first two events, decided into what the caller has room for.
///
/// # Errors
/// Never for a fresh run; the type is shared with the fold.
pub fn begin(
    request: StartRequest,
    now: Timestamp,
    decision: &mut Decision,
) -> Result<Run, Corrupt> {
    let started = Started {
        workflow_id: request.workflow_id,
        run_id: request.run_id,
        workflow_type: request.workflow_type,
        queue: request.queue,
        input: request.input,
        request_id: kept(request.request_id),
        run_timeout: request.run_timeout,
        parent: request.parent,
        first_run_id: None,
        continued_from: None,
        headers: request.headers,
        priority: request.priority,
        edition: Some(Edition::NEWEST),
    };
    let first = Event {
        id: outlast_model::EventId(1),
        time: now,
        kind: EventKind::Started(Shared::new(started)),
    };
    let mut run = Run::from_first(&first)?;
    decision.keep(Record::Event(first));
    let attempt = Attempt::FIRST;
    decision.event(&mut run, EventKind::TaskScheduled { attempt }, now)?;
    Ok(run)
}

fn kept(request_id: Option<RequestId>) -> Option<RequestId> {
    if is_planted(Bug::RequestIdNotStored) {
        None
    } else {
        request_id
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use outlast_model::{Headers, Payload};
    use std::fmt::Write;
    use std::string::String;

    fn request(conflict: ConflictPolicy, reuse: ReusePolicy) -> StartRequest {
        StartRequest {
            workflow_id: "w".into(),
            run_id: RunId(2),
            workflow_type: "t".into(),
            queue: "default".into(),
            input: Payload::null(),
            request_id: Some("r".into()),
            conflict,
            reuse,
            run_timeout: None,
            task_timeout: None,
            priority: None,
            parent: None,
            headers: Headers::new(),
        }
    }

    /// Every policy against everything that may be there.
    #[test]
    fn policy_table() {
        let conflicts = [
            ConflictPolicy::Fail,
            ConflictPolicy::UseExisting,
            ConflictPolicy::TerminateExisting,
        ];
        let reuses = [
            ReusePolicy::AllowDuplicate,
            ReusePolicy::AllowDuplicateFailedOnly,
            ReusePolicy::RejectDuplicate,
            ReusePolicy::UseExisting,
        ];
        let mut table = String::new();
        for status in Status::ALL {
            for is_same_request in [false, true] {
                let existing = Existing {
                    run_id: RunId(1),
                    status,
                    is_same_request,
                };
                for conflict in conflicts {
                    for reuse in reuses {
                        let verdict = match decide(&request(conflict, reuse), Some(&existing)) {
                            Verdict::Refuse(_) => "refused".into(),
                            verdict @ (Verdict::Start
                            | Verdict::TerminateThenStart
                            | Verdict::Attach) => std::format!("{verdict:?}"),
                        };
                        writeln!(
                            table,
                            "{status} same={is_same_request} | {conflict:?} {reuse:?} => {verdict}"
                        )
                        .expect("writes to a string");
                    }
                }
            }
        }
        insta::assert_snapshot!(table);
    }
}
