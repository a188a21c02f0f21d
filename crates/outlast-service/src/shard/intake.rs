//! Mail arrives: starts are decided, messages go to the mailbox of their run.

use outlast_engine::start::{self, Existing};
use outlast_engine::{Decision, Effect, Input, Run};
use outlast_model::event::{DeliveryFailedCause, UpdateRequest};
use outlast_model::id::{Epoch, Version, WorkflowId};
use outlast_model::start::{ReusePolicy, StartReply, StartRequest, UpdateReply, UpdateStage};
use outlast_model::task::{AttemptOutcome, AttemptToken, RunNo, StopReason};
use outlast_model::view::{Description, RunOutcome, RunRef};
use outlast_model::{Payload, Refusal, RequestId, Status, Timestamp};

use super::Shard;
use super::update::closed;
use super::visit::comes_once;
use crate::entry::{Entry, Letter, Question, Sender};
use crate::mail::{Ack, Mail, Reply, With};
use crate::points;
use crate::read;
use crate::store::{Attention, CommitNo, RowState, RunRow, Store};

impl Shard {
    /// Takes in one piece of mail.
    pub fn accept(&mut self, mail: Mail, now: Timestamp, store: &dyn Store) {
        let Some(mail) = self.while_away(mail) else {
            return;
        };
        match mail {
            Mail::Start {
                request,
                reply,
                wait,
                with,
            } => self.start(*request, Starter { reply, wait, with }, now, store),
            Mail::Update {
                run,
                request,
                stage,
                reply,
            } => self.update(&run, request, stage, reply, store),
            Mail::Query { run, query, reply } => {
                self.query(run, Question { query, reply }, store);
            }
            Mail::Post {
                no,
                post,
                generation,
            } => {
                // One of an earlier life was read again with the store.
                if generation == self.generation {
                    self.post(no, post, now, store);
                }
            }
            Mail::Message { run, input, reply } => self.message(&run, input, reply, now, store),
            Mail::Wait { run, reply } => self.wait(&run, reply, store),
            Mail::Describe { run, reply } => self.describe(&run, reply, store),
            Mail::Outcomes(outcomes) => {
                self.outcomes(outcomes);
                self.feed_slots(now);
            }
            Mail::Heartbeat(token, details) => self.heartbeat(token, details),
            Mail::Report { run, input, reply } => self.report(&run, input, reply, store),
            Mail::ForeignWake(run_id) => {
                if let Some(no) = self.by_run_id.get(&run_id).copied() {
                    self.deliver(no, Letter::own(Input::ForeignWake));
                }
            }
            Mail::MayGoOn(run_id) => {
                if let Some(no) = self.by_run_id.get(&run_id).copied() {
                    self.deliver(no, Letter::own(Input::Returned));
                }
            }
            Mail::Look => {}
        }
    }

    fn start(
        &mut self,
        request: StartRequest,
        starter: Starter,
        now: Timestamp,
        store: &dyn Store,
    ) {
        if let Err(refusal) = self.may_start(&request) {
            return starter.refuse(&refusal);
        }
        let existing = match self.existing(&request, store) {
            Ok(existing) => existing,
            Err(refusal) => return starter.refuse(&refusal),
        };
        match start::decide(&request, existing.as_ref().map(|(existing, _)| existing)) {
            start::Verdict::Refuse(refusal) => starter.refuse(&refusal),
            start::Verdict::Attach => {
                if let Some((existing, no)) = existing {
                    let workflow_id = request.workflow_id;
                    self.attach(no, workflow_id, &existing, starter, now, store);
                }
            }
            start::Verdict::TerminateThenStart => {
                if let Some((_, no)) = existing {
                    let reason = "replaced by a new start of the same id".into();
                    let letter = Letter::own(Input::Terminate { reason });
                    self.terminate(no, letter, now, store);
                }
                if self.open_ids.contains_key(&request.workflow_id) {
                    let reason = "the run to be replaced is still being written".into();
                    return starter.refuse(&Refusal::Unavailable { reason });
                }
                self.begin_for(request, starter, now);
            }
            start::Verdict::Start => self.begin_for(request, starter, now),
        }
    }

    fn may_start(&self, request: &StartRequest) -> Result<(), Refusal> {
        if self.has_no_code_for(request) {
            let name = request.workflow_type.as_str().to_owned();
            return Err(Refusal::NotRegistered {
                kind: "workflow",
                name,
            });
        }
        Ok(())
    }

    /// Whether its queue is served here, and nobody here has its type.
    pub(super) fn has_no_code_for(&self, request: &StartRequest) -> bool {
        let capabilities = &self.parts.capabilities;
        capabilities.serves(&request.queue)
            && !capabilities.has_workflow(&request.queue, &request.workflow_type)
    }

    /// The newest run of the id. Ended ones are looked up only if the answer could depend on it.
    pub(super) fn existing(
        &self,
        request: &StartRequest,
        store: &dyn Store,
    ) -> Result<Option<(Existing, RunNo)>, Refusal> {
        let open = self.open_ids.get(&request.workflow_id).copied();
        if let Some(entry) = open.and_then(|no| self.runs.get(&no)) {
            return Ok(Some(standing(request, entry, Status::Running, store)?));
        }
        if request.request_id.is_none() && request.reuse == ReusePolicy::AllowDuplicate {
            return Ok(None);
        }
        self.ended(request, store)
    }

    fn ended(
        &self,
        request: &StartRequest,
        store: &dyn Store,
    ) -> Result<Option<(Existing, RunNo)>, Refusal> {
        // Ended, but not durable yet: the store does not know.
        let closing = self.closing.iter().filter_map(|(_, no)| self.runs.get(no));
        let unwritten = closing
            .filter(|e| e.row.workflow_id == request.workflow_id)
            .max_by_key(|e| e.row.no);
        if let Some(entry) = unwritten {
            let status = entry.row.state.status;
            return Ok(Some(standing(request, entry, status, store)?));
        }
        let rows = store
            .find(&request.workflow_id, 1)
            .map_err(|e| read::unavailable(&e))?;
        let Some(row) = rows.into_iter().next() else {
            return Ok(None);
        };
        let is_same_request = is_same(request, || read::start_request_id(store, row.no))?;
        Ok(Some((
            existing(&row, row.state.status, is_same_request),
            row.no,
        )))
    }

    fn attach(
        &mut self,
        no: RunNo,
        workflow_id: WorkflowId,
        existing: &Existing,
        starter: Starter,
        now: Timestamp,
        store: &dyn Store,
    ) {
        let answer = StartReply {
            run_id: existing.run_id,
            started: false,
        };
        let Starter { reply, wait, with } = starter;
        if let Some(wait) = wait {
            self.wait_for(no, wait, store);
        }
        let run = RunRef::newest(workflow_id);
        let reply = match with {
            None => reply,
            // The start is answered with the message that goes with it; one that had its effect
            // before the run ended is still fine.
            Some(With::Signal(input)) => {
                let reply: Reply<()> = Box::new(move |done| reply(done.map(|()| answer)));
                return self.message(&run, input, reply, now, store);
            }
            Some(With::Update(request, stage, update)) => {
                self.update(&run, request, stage, update, store);
                reply
            }
        };
        let ack = Ack::Start(reply, answer);
        match self.runs.get_mut(&no) {
            // Its start may be in no batch yet: the answer goes with it.
            Some(entry) if !entry.decision.records.is_empty() => entry.acks.push(ack),
            Some(_) | None => self.batch.acks.push((no, ack)),
        }
    }

    /// A new run, decided and not yet among the others.
    pub(super) fn begin(
        &mut self,
        request: StartRequest,
        now: Timestamp,
    ) -> Result<Box<Entry>, Refusal> {
        let run_id = request.run_id;
        let mut decision = Decision {
            records: self.room(),
            ..Decision::default()
        };
        let mut run: Run = match start::begin(request, now, &mut decision) {
            Ok(run) => run,
            Err(corrupt) => {
                let reason = corrupt.to_string();
                return Err(Refusal::Quarantined { run_id, reason });
            }
        };
        let no = self.parts.numbers.next_run();
        run.placed(self.parts.index, no, 0);
        run.remembers(self.parts.window);
        points::pass("start.decided");
        let mut entry = Box::new(Entry::new(first_row(no, &run)));
        entry.run = Some(run);
        entry.decision = decision;
        entry.is_recovered = true;
        Ok(entry)
    }

    /// A new run takes its place among the others.
    pub(super) fn settle_new(&mut self, mut entry: Box<Entry>) {
        let no = entry.row.no;
        self.open_ids.insert(entry.row.workflow_id.clone(), no);
        self.by_run_id.insert(entry.row.run_id, no);
        self.enqueue(&mut entry);
        self.runs.insert(no, entry);
    }

    fn begin_for(&mut self, request: StartRequest, starter: Starter, now: Timestamp) {
        let run_id = request.run_id;
        let mut entry = match self.begin(request, now) {
            Ok(entry) => entry,
            Err(refusal) => return starter.refuse(&refusal),
        };
        let Starter { reply, wait, with } = starter;
        entry.acks.push(Ack::Start(
            reply,
            StartReply {
                run_id,
                started: true,
            },
        ));
        if let Some(wait) = wait {
            entry.waiters.push(wait);
            self.waiters += 1;
        }
        match with {
            // At once: the answer to the start speaks of it, whatever happens to the run first.
            Some(With::Signal(input)) => self.apply_input(&mut entry, input, now),
            Some(With::Update(request, stage, reply)) => {
                entry
                    .mailbox
                    .push_back(update_letter(request, stage, reply));
            }
            None => {}
        }
        self.settle_new(entry);
    }

    fn message(
        &mut self,
        run: &RunRef,
        input: Input,
        reply: Reply<()>,
        now: Timestamp,
        store: &dyn Store,
    ) {
        let Some(no) = self.open(run) else {
            return self.too_late_for(run, &input, reply, store);
        };
        if let Input::Terminate { reason } = input {
            // Never queues: a stuck or busy run can always be ended.
            let input = Input::Terminate { reason };
            let from = Sender::Caller(reply);
            return self.terminate(no, Letter::new(input, from), now, store);
        }
        self.deliver(no, Letter::new(input, Sender::Caller(reply)));
    }

    /// From memory, unless that is ahead of the disk: what is told must not be taken back by a
    /// crash, and nobody who asks waits for code that is stuck.
    fn describe(&mut self, run: &RunRef, reply: Reply<Description>, store: &dyn Store) {
        let entry = self.open(run).and_then(|no| self.runs.get(&no));
        let settled = entry.filter(|entry| {
            self.is_durable(entry.row.state.head) && entry.decision.records.is_empty()
        });
        let loaded = settled.and_then(|entry| Some((entry, entry.run.as_ref()?)));
        reply(match loaded {
            Some((entry, run)) => {
                let outcome = entry.outcome.clone();
                Ok(read::description(
                    &entry.row,
                    run,
                    outcome,
                    self.missing(run),
                ))
            }
            None => read::describe(store, run, |run| self.missing(run)),
        });
    }

    /// A running attempt reports; one whose run is gone runs for nobody.
    fn heartbeat(&mut self, token: AttemptToken, details: Payload) {
        if !self.runs.contains_key(&token.run) {
            let stop = Effect::Stop(token, StopReason::NotFound);
            return self.parts.outlet.release(vec![stop]);
        }
        let input = Input::Heartbeat { token, details };
        self.deliver(token.run, Letter::own(input));
    }

    /// Somebody outside reports for an attempt.
    fn report(
        &mut self,
        run: &RunRef,
        input: Input,
        reply: Reply<Option<StopReason>>,
        store: &dyn Store,
    ) {
        let Some(no) = self.open(run) else {
            let reply: Reply<()> = Box::new(move |answer| reply(answer.map(|()| None)));
            return self.too_late_for(run, &input, reply, store);
        };
        let from = Sender::Report(reply);
        self.deliver(no, Letter::new(input, from));
    }

    /// Attempts that came back together are mostly of one run: it is looked for once.
    fn outcomes(&mut self, outcomes: Vec<AttemptOutcome>) {
        for outcome in &outcomes {
            if outcome.token.incarnation == self.parts.incarnation {
                self.out.remove(outcome.token);
            }
        }
        let mut rest = outcomes.into_iter();
        while let Some(no) = rest.as_slice().first().map(|first| first.token.run) {
            let is_same = |outcome: &&AttemptOutcome| outcome.token.run == no;
            let count = rest.as_slice().iter().take_while(is_same).count();
            let letters = rest
                .by_ref()
                .take(count)
                .map(Input::Outcome)
                .map(Letter::own);
            match self.runs.get_mut(&no) {
                Some(entry) => entry.mailbox.extend(letters),
                // Nobody waits for an answer.
                None => letters.for_each(drop),
            }
            self.enqueue_no(no);
        }
    }

    pub(super) fn open(&self, run: &RunRef) -> Option<RunNo> {
        let no = self.open_ids.get(&run.workflow_id).copied()?;
        self.runs.get(&no).filter(|entry| entry.is(run)).map(|_| no)
    }

    pub(super) fn deliver(&mut self, no: RunNo, letter: Letter) {
        let Some(entry) = self.runs.get_mut(&no) else {
            let what = no.0.to_string();
            return letter.from.refuse(&Refusal::NotFound { what });
        };
        entry.mailbox.push_back(letter);
        self.enqueue_no(no);
    }

    /// Everybody who still waits for a run that is gone from memory hears that it has ended.
    pub(super) fn refuse_mail(&mut self, mut entry: Entry) {
        let refusal = closed(&entry);
        let letters = std::mem::take(&mut entry.mailbox);
        for letter in self.answer_repeated(&entry, letters) {
            self.refuse_letter(entry.row.no, letter, &refusal);
        }
        for question in entry.queries {
            (question.reply)(Err(refusal.clone()));
        }
    }

    /// A letter that its run did not take, since it has ended. That may not be durable yet: the
    /// answer goes behind what is being written.
    pub(super) fn refuse_letter(&mut self, no: RunNo, letter: Letter, refusal: &Refusal) {
        let refusal = refusal.clone();
        match (letter.from, letter.input) {
            (Sender::Post(post_no), Input::Post(post)) => {
                self.undelivered(post_no, &post, DeliveryFailedCause::NotFound);
            }
            (Sender::Caller(reply), _) => {
                let ack = Ack::Message(reply, Err(refusal));
                self.batch.acks.push((no, ack));
            }
            (Sender::Report(reply), _) => {
                let ack = Ack::Report(reply, Err(refusal));
                self.batch.acks.push((no, ack));
            }
            (Sender::Update(_, reply), _) => {
                let ack = Ack::Update(reply, Err(refusal));
                self.batch.acks.push((no, ack));
            }
            (Sender::Nobody, input) => {
                // The run goes on if its end is not written after all.
                if comes_once(&input) {
                    self.batch.causes.push((no, Letter::own(input)));
                }
            }
            (Sender::Post(_), _) => {}
        }
    }
}

/// How the run of an entry stands in the way of a start.
fn standing(
    request: &StartRequest,
    entry: &Entry,
    status: Status,
    store: &dyn Store,
) -> Result<(Existing, RunNo), Refusal> {
    let no = entry.row.no;
    let is_same_request = is_same(request, || match &entry.run {
        Some(run) => Ok(run.started().request_id.clone()),
        None => read::start_request_id(store, no),
    })?;
    Ok((existing(&entry.row, status, is_same_request), no))
}

/// A request that started a chain is answered with the run that it started.
fn existing(row: &RunRow, status: Status, is_same_request: bool) -> Existing {
    let first = row.first_run.filter(|_| is_same_request);
    Existing {
        run_id: first.unwrap_or(row.run_id),
        status,
        is_same_request,
    }
}

/// Whether this very request started the run. Nothing is read for a request without an id.
fn is_same(
    request: &StartRequest,
    started_by: impl FnOnce() -> Result<Option<RequestId>, Refusal>,
) -> Result<bool, Refusal> {
    Ok(request.request_id.is_some() && request.request_id == started_by()?)
}

fn update_letter(request: UpdateRequest, stage: UpdateStage, reply: Reply<UpdateReply>) -> Letter {
    let input = Input::Update {
        request,
        is_fast: true,
    };
    Letter::new(input, Sender::Update(stage, reply))
}

/// The row of a run that has just begun.
pub(super) fn first_row(no: RunNo, run: &Run) -> RunRow {
    let started = run.started();
    RunRow {
        no,
        workflow_id: started.workflow_id.clone(),
        run_id: started.run_id,
        workflow_type: started.workflow_type.clone(),
        queue: started.queue.clone(),
        started: run.start_time(),
        first_run: started.first_run_id,
        state: RowState {
            status: Status::Running,
            version: Version(0),
            epoch: Epoch(0),
            head: CommitNo(0),
            events: 0,
            bytes: 0,
            closed: None,
            wake: None,
            attention: Attention::default(),
        },
    }
}

/// Who asks for a start, and what goes with it.
pub(super) struct Starter {
    pub(super) reply: Reply<StartReply>,
    pub(super) wait: Option<Reply<RunOutcome>>,
    pub(super) with: Option<With>,
}

impl Starter {
    pub(super) fn refuse(self, refusal: &Refusal) {
        if let Some(With::Update(_, _, reply)) = self.with {
            reply(Err(refusal.clone()));
        }
        (self.reply)(Err(refusal.clone()));
    }
}
