//! What clients asked for and what they were told. Every answer is judged at the moment it is
//! given, against what is durable at that very moment: later is too late.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use outlast_model::id::{RequestId, WorkflowId};
use outlast_model::start::{StartReply, UpdateReply};
use outlast_model::task::{OpenAttempt, StopReason};
use outlast_model::view::RunOutcome;
use outlast_model::{Event, EventKind, Fact, Payload, Record, Refusal, RunId};
use outlast_service::mail::Reply;
use outlast_service::store::{RunRow, Store};

use super::answer::{has_never_run, may_be_deadly, settlement_of};
use super::disk::Disk;
use super::marker::Markers;
use super::outside::Word;

/// What a client asked for.
#[derive(Clone, Debug)]
pub enum Call {
    /// By this request, with this signal.
    Start(Option<RequestId>, Option<u64>),
    Signal(u64),
    /// With this value, under a name somebody handles or not.
    Update(u64, bool),
    /// Of the diary, or of something nobody knows.
    Query(bool),
    Settle(u8, u64),
    /// For an attempt, by its token.
    Outside(OpenAttempt, Word),
    Cancel,
    Terminate,
    Retry,
    Wait,
    Describe,
}

/// What it was told.
pub enum Said {
    Started(StartReply),
    Done,
    Closed(RunOutcome),
    /// So many events of this run.
    Described(RunId, u64),
    Updated(UpdateReply),
    Answered(Payload),
    Reported(Option<StopReason>),
}

/// One request under way.
#[derive(Clone, Debug)]
pub struct Open {
    pub workflow_id: WorkflowId,
    pub call: Call,
}

/// What clients asked for and what they were told.
#[derive(Debug, Default)]
pub struct Ledger {
    pub violations: Vec<String>,
    pub markers: Markers,
    open: BTreeMap<u64, Open>,
    calls: u64,
    /// Waits that came with a start: they are dropped if it is refused.
    waits: BTreeMap<u64, u64>,
    /// Starts that were acknowledged.
    pub started: BTreeSet<(WorkflowId, RunId)>,
    /// The run that an acknowledged request started.
    by_request: BTreeMap<RequestId, RunId>,
    /// Signals that were acknowledged.
    pub signaled: BTreeSet<(WorkflowId, u64)>,
    /// Updates that were acknowledged as accepted.
    pub accepted: BTreeSet<(WorkflowId, u64)>,
    /// Promises that were acknowledged as settled.
    pub settled: BTreeSet<(WorkflowId, u8, u64)>,
    /// Attempts whose answer from outside was acknowledged.
    pub answered: Vec<OpenAttempt>,
    /// Outcomes that were told.
    pub told: Vec<(WorkflowId, RunOutcome)>,
    /// Whether the store failed in the life of this process.
    pub is_store_failing: bool,
    /// Whether a refusal for want of room is no surprise.
    pub is_store_full: bool,
    /// Whether some types are not registered now.
    pub is_type_missing: bool,
    /// Whether code may be unable to answer.
    pub is_troubled: bool,
}

/// A ledger that answers can reach.
#[derive(Clone, Debug)]
pub struct Desk {
    ledger: Arc<Mutex<Ledger>>,
    disk: Arc<Disk>,
}

impl Desk {
    pub fn new(disk: Arc<Disk>) -> Self {
        Self {
            ledger: Arc::default(),
            disk,
        }
    }

    pub fn lock(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().expect("one thread")
    }

    pub fn hit(&self, name: &'static str) {
        self.lock().markers.hit(name);
    }

    pub fn violation(&self, text: impl Into<String>) {
        self.lock().violations.push(text.into());
    }

    /// Writes a request down and makes the place its answer goes to.
    pub fn ask<T>(
        &self,
        workflow_id: &WorkflowId,
        call: Call,
        say: impl FnOnce(T) -> Said + Send + 'static,
    ) -> Reply<T> {
        let mut ledger = self.lock();
        ledger.calls += 1;
        let id = ledger.calls;
        let workflow_id = workflow_id.clone();
        ledger.open.insert(id, Open { workflow_id, call });
        let desk = self.clone();
        Box::new(move |answer| desk.answered(id, answer.map(say)))
    }

    /// The two newest requests are a start and the wait that came with it.
    pub fn link(&self) {
        let mut ledger = self.lock();
        let wait = ledger.calls;
        ledger.waits.insert(wait - 1, wait);
    }

    /// The process died: whoever waited will never hear.
    pub fn hang_up(&self) {
        self.lock().open.clear();
    }

    /// Requests nobody answered, without those that wait for the end of a run.
    pub fn unanswered(&self) -> Vec<String> {
        let ledger = self.lock();
        let open = ledger.open.values();
        open.map(|open| format!("{:?} of {}", open.call, open.workflow_id))
            .collect()
    }

    fn answered(&self, id: u64, answer: Result<Said, Refusal>) {
        let mut ledger = self.lock();
        let Some(open) = ledger.open.remove(&id) else {
            // Whoever waits for a run whose start failed may hear of it or not.
            if !ledger.waits.values().any(|wait| *wait == id) {
                ledger
                    .violations
                    .push(format!("call {id} was answered twice"));
            }
            return;
        };
        match answer {
            Ok(said) => ledger.said(&open, said, &self.disk),
            Err(refusal) => {
                if let Some(wait) = ledger.waits.get(&id).copied() {
                    ledger.open.remove(&wait);
                }
                ledger.refused(&open, &refusal, &self.disk);
            }
        }
    }
}

impl Ledger {
    fn said(&mut self, open: &Open, said: Said, disk: &Disk) {
        let id = &open.workflow_id;
        let is_durable = match (&open.call, said) {
            (Call::Start(request, with), Said::Started(reply)) => {
                if let Some(request) = request {
                    self.judge_start(id, request, reply, disk);
                }
                self.started.insert((id.clone(), reply.run_id));
                self.signaled.extend(with.map(|value| (id.clone(), value)));
                let has = |value| is_in_some_run(disk, id, |r| signal_of(r) == Some(value));
                is_run_durable(disk, reply.run_id) && with.is_none_or(has)
            }
            (Call::Update(value, is_known), Said::Updated(reply)) => {
                let is_rejected = matches!(reply, UpdateReply::Rejected(_));
                if is_rejected != Self::may_be_turned_away(*value, *is_known) {
                    let text = format!("update {value} of {id} was told {reply:?}");
                    self.violations.push(text);
                }
                self.updated(id, *value, &reply, disk)
            }
            (Call::Query(_), Said::Answered(answer)) => self.asked(id, &answer, disk),
            (Call::Settle(number, value), Said::Done) => {
                self.settled.insert((id.clone(), *number, *value));
                is_in_some_run(disk, id, |r| settlement_of(r) == Some((*number, *value)))
            }
            (Call::Signal(value), Said::Done) => {
                self.signaled.insert((id.clone(), *value));
                is_in_some_run(disk, id, |record| signal_of(record) == Some(*value))
            }
            (Call::Outside(of, word @ Word::Answer(_)), Said::Done) => {
                self.heard_outside(*of, word, disk)
            }
            (Call::Outside(of, word @ Word::Report(_)), Said::Reported(stop)) => {
                self.judge_stop(*of, stop, disk);
                self.heard_outside(*of, word, disk)
            }
            (Call::Cancel, Said::Done) => is_in_some_run(disk, id, is_cancel),
            (Call::Terminate, Said::Done) => {
                is_in_some_run(disk, id, |record| closing_kind(record).is_some())
            }
            (Call::Wait, Said::Closed(outcome)) => {
                self.markers.hit("wait.answered");
                let is_there = has_outcome(disk, id, &outcome);
                self.told.push((id.clone(), outcome));
                is_there
            }
            (Call::Describe, Said::Described(run_id, events)) => {
                self.markers.hit("describe.answered");
                let mut rows = disk.rows().into_iter();
                rows.any(|row| row.run_id == run_id && row.state.events >= events)
            }
            (Call::Retry, Said::Done) => true,
            (call, _) => {
                self.violations
                    .push(format!("{call:?} got another's answer"));
                true
            }
        };
        if !is_durable {
            let call = &open.call;
            self.violations.push(format!(
                "{call:?} of {id} was acknowledged before it was durable"
            ));
        }
    }

    fn judge_start(
        &mut self,
        id: &WorkflowId,
        request: &RequestId,
        reply: StartReply,
        disk: &Disk,
    ) {
        if !reply.started {
            self.markers.hit("start.attached");
        }
        let known = self.by_request.get(request).copied();
        match known {
            Some(run_id) if run_id != reply.run_id && !is_overtaken(disk, id, run_id) => {
                self.violations.push(format!(
                    "request {request} started run {run_id} and run {}",
                    reply.run_id
                ));
            }
            Some(_) => {}
            None if reply.started => {
                self.by_request.insert(request.clone(), reply.run_id);
            }
            None => {}
        }
    }

    fn refused(&mut self, open: &Open, refusal: &Refusal, disk: &Disk) {
        let id = &open.workflow_id;
        let is_allowed = match refusal {
            Refusal::RunClosed { run_id, .. } => {
                if let Call::Signal(_) = open.call {
                    self.markers.hit("signal.refused-closed");
                }
                self.may_be_closed(open, *run_id, disk)
            }
            Refusal::AttemptEnded { .. } => self.may_be_over(&open.call, disk),
            Refusal::AlreadyResolved { .. } => {
                self.markers.hit("promise.settled-before");
                self.was_settled_before(open, disk)
            }
            Refusal::QueryFailed { .. } => {
                self.markers.hit("query.unknown");
                matches!(open.call, Call::Query(false))
            }
            Refusal::NotReady { .. } => {
                self.markers.hit("query.not-ready");
                let is_query = matches!(open.call, Call::Query(_));
                let is_sick = self.is_troubled || self.is_type_missing;
                is_query && (is_sick || has_never_run(disk, id) || may_be_deadly(disk, id))
            }
            Refusal::NotFound { .. } => !self.started.iter().any(|(started, _)| started == id),
            Refusal::AlreadyStarted { run_id, .. } => {
                self.markers.hit("start.refused");
                !self.is_own_run(&open.call, *run_id, disk)
            }
            Refusal::NotRegistered { .. } => self.is_type_missing,
            Refusal::StoreFull => self.is_store_full,
            Refusal::Indeterminate { .. } | Refusal::Unavailable { .. } => self.is_store_failing,
            _ => false,
        };
        if !is_allowed {
            let call = &open.call;
            self.violations
                .push(format!("{call:?} of {id} was refused: {refusal}"));
        }
    }

    /// The same request again must be answered with its run, not refused because of it.
    fn is_own_run(&self, call: &Call, run_id: RunId, disk: &Disk) -> bool {
        let Call::Start(Some(request), _) = call else {
            return false;
        };
        let row = disk.store.find_run(run_id).ok().flatten();
        self.by_request.get(request) == Some(&run_id)
            || row.is_some_and(|row| {
                disk.has(row.no, |record| start_request(record) == Some(request))
            })
    }
}

/// Whether another run has taken the id since: only the newest chain knows who started it.
pub fn is_overtaken(disk: &Disk, id: &WorkflowId, run_id: RunId) -> bool {
    let rows = disk.runs_of(id);
    let newer = rows.iter().take_while(|row| row.run_id != run_id);
    let request = |row: &RunRow| {
        disk.with_records(row.no, |all| all.first().and_then(start_request).cloned())
    };
    let mine = rows
        .iter()
        .find(|row| row.run_id == run_id)
        .and_then(request);
    newer.into_iter().any(|row| request(row) != mine)
}

fn is_run_durable(disk: &Disk, run_id: RunId) -> bool {
    matches!(disk.store.find_run(run_id), Ok(Some(_)))
}

pub fn is_in_some_run(disk: &Disk, id: &WorkflowId, is_like: impl Fn(&Record) -> bool) -> bool {
    let rows = disk.runs_of(id);
    rows.iter().any(|row| disk.has(row.no, &is_like))
}

fn has_outcome(disk: &Disk, id: &WorkflowId, outcome: &RunOutcome) -> bool {
    let rows = disk.runs_of(id);
    rows.iter()
        .any(|row| disk.outcome(row.no).as_ref() == Some(outcome))
}

/// The kind of an event, also of one that waits in the buffer.
pub fn kind_of(record: &Record) -> Option<&EventKind> {
    match record {
        Record::Event(Event { kind, .. }) => Some(kind),
        Record::Fact(Fact::Buffered { kind }) => Some(kind),
        Record::Fact(_) => None,
    }
}

/// The value of a signal.
pub fn signal_of(record: &Record) -> Option<u64> {
    match kind_of(record)? {
        EventKind::Signaled { input, .. } => input.decode().ok(),
        _ => None,
    }
}

fn is_cancel(record: &Record) -> bool {
    matches!(kind_of(record), Some(EventKind::CancelRequested { .. }))
}

fn closing_kind(record: &Record) -> Option<RunOutcome> {
    match record {
        Record::Event(event) => outlast_engine::close::outcome(&event.kind),
        Record::Fact(_) => None,
    }
}

/// The request that a run was started by.
pub fn start_request(record: &Record) -> Option<&RequestId> {
    match kind_of(record)? {
        EventKind::Started(started) => started.request_id.as_ref(),
        _ => None,
    }
}
