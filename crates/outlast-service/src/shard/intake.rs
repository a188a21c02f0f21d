//! Mail arrives: starts are decided, messages go to the mailbox of their run.

use outlast_engine::start::{self, Existing};
use outlast_engine::{Decision, Input, Run};
use outlast_model::id::{Epoch, Version};
use outlast_model::start::{ReusePolicy, StartReply, StartRequest};
use outlast_model::task::{AttemptKind, AttemptOutcome, RunNo};
use outlast_model::view::{Description, RunOutcome, RunRef};
use outlast_model::{Refusal, RequestId, Status, Timestamp};

use super::Shard;
use crate::entry::{Entry, Letter};
use crate::mail::{Ack, Mail, Reply};
use crate::points;
use crate::read;
use crate::store::{Attention, CommitNo, RowState, RunRow, Store};

impl Shard {
    /// Takes in one piece of mail.
    pub fn accept(&mut self, mail: Mail, now: Timestamp, store: &dyn Store) {
        match mail {
            Mail::Start {
                request,
                reply,
                wait,
            } => self.start(*request, reply, wait, now, store),
            Mail::Message { run, input, reply } => self.message(&run, input, reply, now, store),
            Mail::Wait { run, reply } => self.wait(&run, reply, store),
            Mail::Describe { run, reply } => self.describe(&run, reply, store),
            Mail::Outcomes(outcomes) => {
                for outcome in outcomes {
                    self.outcome(outcome);
                }
                self.feed_slots(now);
            }
            Mail::Heartbeat(token, details) => {
                self.deliver(
                    token.run,
                    Letter {
                        input: Input::Heartbeat { token, details },
                        reply: None,
                    },
                );
            }
            Mail::ForeignWake(run_id) => {
                if let Some(no) = self.by_run_id.get(&run_id).copied() {
                    self.deliver(
                        no,
                        Letter {
                            input: Input::ForeignWake,
                            reply: None,
                        },
                    );
                }
            }
            Mail::Look => {}
        }
    }

    fn start(
        &mut self,
        request: StartRequest,
        reply: Reply<StartReply>,
        wait: Option<Reply<RunOutcome>>,
        now: Timestamp,
        store: &dyn Store,
    ) {
        if let Err(refusal) = self.may_start(&request, now) {
            return reply(Err(refusal));
        }
        let existing = match self.existing(&request, store) {
            Ok(existing) => existing,
            Err(refusal) => return reply(Err(refusal)),
        };
        match start::decide(&request, existing.as_ref().map(|(existing, _)| existing)) {
            start::Verdict::Refuse(refusal) => reply(Err(refusal)),
            start::Verdict::Attach => {
                if let Some((existing, no)) = existing {
                    self.attach(no, &existing, reply, wait, store);
                }
            }
            start::Verdict::TerminateThenStart => {
                if let Some((_, no)) = existing {
                    let reason = "replaced by a new start of the same id".into();
                    self.terminate(no, reason, None, now, store);
                }
                if self.open_ids.contains_key(&request.workflow_id) {
                    let reason = "the run to be replaced is still being written".into();
                    return reply(Err(Refusal::Unavailable { reason }));
                }
                self.begin(request, reply, wait, now);
            }
            start::Verdict::Start => self.begin(request, reply, wait, now),
        }
    }

    fn may_start(&self, request: &StartRequest, now: Timestamp) -> Result<(), Refusal> {
        if self.pause_until.is_some_and(|until| now < until) {
            return Err(Refusal::StoreFull);
        }
        let capabilities = &self.parts.capabilities;
        let is_served = capabilities.queues.contains(&request.queue);
        if is_served && !capabilities.workflows.contains(&request.workflow_type) {
            let name = request.workflow_type.as_str().to_owned();
            return Err(Refusal::NotRegistered {
                kind: "workflow",
                name,
            });
        }
        Ok(())
    }

    /// The newest run of the id. Ended ones are looked up only if the answer could depend on it.
    fn existing(
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
        let existing = Existing {
            run_id: row.run_id,
            status: row.state.status,
            is_same_request: is_same(request, || read::start_request_id(store, row.no))?,
        };
        Ok(Some((existing, row.no)))
    }

    fn attach(
        &mut self,
        no: RunNo,
        existing: &Existing,
        reply: Reply<StartReply>,
        wait: Option<Reply<RunOutcome>>,
        store: &dyn Store,
    ) {
        let answer = StartReply {
            run_id: existing.run_id,
            started: false,
        };
        let ack = Ack::Start(reply, answer);
        match self.runs.get_mut(&no) {
            // Its start may be in no batch yet: the answer goes with it.
            Some(entry) if !entry.decision.records.is_empty() => entry.acks.push(ack),
            Some(_) | None => self.batch.acks.push((no, ack)),
        }
        if let Some(wait) = wait {
            self.wait_for(no, wait, store);
        }
    }

    fn begin(
        &mut self,
        request: StartRequest,
        reply: Reply<StartReply>,
        wait: Option<Reply<RunOutcome>>,
        now: Timestamp,
    ) {
        let no = self.parts.numbers.next_run();
        let row = new_row(no, &request, now);
        let (run_id, workflow_id) = (request.run_id, request.workflow_id.clone());
        let (mut run, decision): (Run, Decision) = match start::begin(request, now) {
            Ok(begun) => begun,
            Err(corrupt) => {
                let reason = corrupt.to_string();
                return reply(Err(Refusal::Quarantined { run_id, reason }));
            }
        };
        run.placed(self.parts.index, no, 0);
        points::pass("start.decided");
        let mut entry = Box::new(Entry::new(row));
        entry.run = Some(run);
        entry.decision = decision;
        entry.is_recovered = true;
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
        self.open_ids.insert(workflow_id, no);
        self.by_run_id.insert(run_id, no);
        self.enqueue(&mut entry);
        self.runs.insert(no, entry);
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
            return self.terminate(no, reason, Some(reply), now, store);
        }
        self.deliver(
            no,
            Letter {
                input,
                reply: Some(reply),
            },
        );
    }

    fn wait(&mut self, run: &RunRef, reply: Reply<RunOutcome>, store: &dyn Store) {
        if let Some(no) = self.open(run) {
            return self.wait_for(no, reply, store);
        }
        match read::row_of(store, run) {
            Ok(row) => self.wait_for(row.no, reply, store),
            Err(refusal) => reply(Err(refusal)),
        }
    }

    fn wait_for(&mut self, no: RunNo, reply: Reply<RunOutcome>, store: &dyn Store) {
        match self.runs.get_mut(&no) {
            Some(entry) => match &entry.outcome {
                // Ended, maybe not durable: the answer goes behind what is being written.
                Some(outcome) => {
                    let ack = Ack::Closed(reply, outcome.clone());
                    self.batch.acks.push((no, ack));
                }
                None => {
                    entry.waiters.push(reply);
                    self.waiters += 1;
                }
            },
            None => reply(read::outcome(store, no)),
        }
    }

    fn describe(&mut self, run: &RunRef, reply: Reply<Description>, store: &dyn Store) {
        let entry = self.open(run).and_then(|no| self.runs.get(&no));
        let loaded = entry.and_then(|entry| Some((entry, entry.run.as_ref()?)));
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

    fn outcome(&mut self, outcome: AttemptOutcome) {
        if outcome.token.incarnation == self.parts.incarnation {
            self.attempts_out = self.attempts_out.saturating_sub(1);
        }
        let no = outcome.token.run;
        self.deliver(
            no,
            Letter {
                input: Input::Outcome(outcome),
                reply: None,
            },
        );
    }

    pub(super) fn open(&self, run: &RunRef) -> Option<RunNo> {
        let no = self.open_ids.get(&run.workflow_id).copied()?;
        self.runs.get(&no).filter(|entry| entry.is(run)).map(|_| no)
    }

    pub(super) fn deliver(&mut self, no: RunNo, letter: Letter) {
        let Some(entry) = self.runs.get_mut(&no) else {
            if let Some(reply) = letter.reply {
                reply(Err(Refusal::NotFound {
                    what: no.0.to_string(),
                }));
            }
            return;
        };
        entry.mailbox.push_back(letter);
        self.enqueue_no(no);
    }

    /// Everybody who still waits for a run that is gone from memory hears that it has ended.
    pub(super) fn refuse_mail(&mut self, entry: Entry) {
        let refusal = Refusal::RunClosed {
            workflow_id: entry.row.workflow_id,
            run_id: entry.row.run_id,
            status: entry.row.state.status,
        };
        for letter in entry.mailbox {
            if let Some(reply) = letter.reply {
                reply(Err(refusal.clone()));
            }
        }
    }

    /// Whether an attempt of this kind may be handed out here at all.
    pub(super) fn can_run(&self, run: &Run, kind: AttemptKind, seq: outlast_model::Seq) -> bool {
        match kind {
            AttemptKind::Step => true,
            AttemptKind::Activity => run.activity(seq).is_some_and(|activity| {
                let capabilities = &self.parts.capabilities;
                capabilities.queues.contains(&activity.scheduled.queue)
                    && capabilities
                        .activities
                        .contains(&activity.scheduled.activity_type)
            }),
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
    let run_id = entry.row.run_id;
    let existing = Existing {
        run_id,
        status,
        is_same_request,
    };
    Ok((existing, no))
}

/// Whether this very request started the run. Nothing is read for a request without an id.
fn is_same(
    request: &StartRequest,
    started_by: impl FnOnce() -> Result<Option<RequestId>, Refusal>,
) -> Result<bool, Refusal> {
    Ok(request.request_id.is_some() && request.request_id == started_by()?)
}

fn new_row(no: RunNo, request: &StartRequest, now: Timestamp) -> RunRow {
    RunRow {
        no,
        workflow_id: request.workflow_id.clone(),
        run_id: request.run_id,
        workflow_type: request.workflow_type.clone(),
        queue: request.queue.clone(),
        started: now,
        first_run: None,
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
