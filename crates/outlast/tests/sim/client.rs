//! Clients: they start, signal, cancel, terminate, wait, and repeat themselves when they are not
//! sure.

use std::time::Duration;

use outlast_engine::Input;
use outlast_model::event::UpdateRequest;
use outlast_model::id::{RequestId, RunId, WorkflowId};
use outlast_model::promise::Settlement;
use outlast_model::start::{ConflictPolicy, ReusePolicy, StartRequest, UpdateReply, UpdateStage};
use outlast_model::task::{PROMISE_SIGNAL, Query, promise_request};
use outlast_model::view::{Description, RunRef};
use outlast_model::{Headers, Payload};
use outlast_service::mail::{Mail, Reply, With};

use super::answer::update_id;
use super::driver::Simulation;
use super::ledger::{Call, Said};
use super::plan::{Plan, Variety};
use super::process::{FLOW, QUEUE};
use super::program::{SIGNALS, encoded, external_name, promise_id};
use super::world::Running;

/// What clients remember.
#[derive(Debug, Default)]
pub struct Clients {
    /// The newest start of each workflow id.
    starts: Vec<(WorkflowId, StartRequest, Option<Sent>)>,
    /// The newest signals: to whom, name, value and whether it was sent again.
    signals: Vec<Sent>,
    /// Updates: to whom, under which name, with which value.
    updates: Vec<(WorkflowId, &'static str, u64)>,
    /// Attempts whose tokens are out.
    pub outside: Vec<Running>,
    /// Reports of attempts so far.
    pub reports: u64,
    counter: u64,
}

/// A signal that was sent.
#[derive(Clone, Debug)]
pub struct Sent {
    pub workflow_id: WorkflowId,
    pub name: &'static str,
    pub value: u64,
    pub is_repeated: bool,
}

impl Clients {
    fn next(&mut self) -> u64 {
        self.counter += 1;
        self.counter
    }

    /// Whether the order of this signal says anything: one that was sent again may come late.
    pub fn is_in_order(&self, value: u64) -> bool {
        let sent = self.signals.iter().find(|sent| sent.value == value);
        sent.is_some_and(|sent| !sent.is_repeated)
    }

    /// Whether a run does not end before this update has.
    pub fn is_waited_for(&self, value: u64) -> bool {
        let mut updates = self.updates.iter();
        updates.any(|(_, name, other)| *other == value && *name == "sure")
    }

    /// The name a signal was sent under.
    pub fn name_of(&self, value: u64) -> Option<&'static str> {
        let sent = self.signals.iter().find(|sent| sent.value == value);
        sent.map(|sent| sent.name).or_else(|| external_name(value))
    }
}

impl Simulation {
    fn workflow(&mut self) -> WorkflowId {
        let ids = ["w0", "w1", "w2"];
        let count = self.faults.workflows;
        match self.rng.below(20) {
            0 => WorkflowId::from(self.rng.pick(&["c0", "c1"])),
            1 => {
                let rows = self.disk.rows();
                let chosen = self.rng.index(rows.len());
                rows.get(chosen)
                    .map_or_else(|| ids[0].into(), |row| row.workflow_id.clone())
            }
            _ => WorkflowId::from(ids[self.rng.index(count)]),
        }
    }

    pub fn accept(&mut self, mail: Mail) {
        let now = self.now;
        self.process.shard.accept(mail, now, &self.process.store);
    }

    pub fn start(&mut self) {
        let workflow_id = self.workflow();
        let known = self
            .clients
            .starts
            .iter()
            .rposition(|(id, ..)| *id == workflow_id);
        let (request, with) = match known {
            Some(index) if self.rng.chance(35) => self.repeat_start(index),
            Some(_) | None => self.new_start(workflow_id.clone()),
        };
        self.send_start(request, with);
    }

    fn new_start(&mut self, workflow_id: WorkflowId) -> (StartRequest, Option<Sent>) {
        let number = self.clients.next();
        let rng = &mut self.rng;
        let plan = Plan::random(rng, Variety::Full);
        let request = StartRequest {
            workflow_id: workflow_id.clone(),
            run_id: RunId::v7(number, u128::from(rng.next())),
            workflow_type: FLOW.into(),
            queue: QUEUE.into(),
            input: encoded(&plan),
            request_id: rng
                .chance(85)
                .then(|| RequestId::from(&*format!("r{number}"))),
            conflict: rng.pick(&[
                ConflictPolicy::Fail,
                ConflictPolicy::Fail,
                ConflictPolicy::UseExisting,
                ConflictPolicy::TerminateExisting,
            ]),
            reuse: rng.pick(&[
                ReusePolicy::AllowDuplicate,
                ReusePolicy::AllowDuplicate,
                ReusePolicy::AllowDuplicateFailedOnly,
                ReusePolicy::RejectDuplicate,
                ReusePolicy::UseExisting,
            ]),
            parent: None,
            run_timeout: rng
                .chance(15)
                .then(|| Duration::from_secs(rng.range(10, 4_000))),
            task_timeout: None,
            priority: None,
            headers: Headers::new(),
        };
        self.trace(&format!("start {workflow_id}: {plan:?}"));
        let with = self.rng.chance(15).then(|| {
            self.desk.hit("start.with-signal");
            let name = self.rng.pick(&SIGNALS);
            self.note_signal(workflow_id.clone(), name)
        });
        let start = (workflow_id, request.clone(), with.clone());
        self.clients.starts.push(start);
        (request, with)
    }

    /// The same request, under a new run id, as a client that heard nothing sends it.
    fn repeat_start(&mut self, index: usize) -> (StartRequest, Option<Sent>) {
        let number = self.clients.next();
        let (_, mut request, with) = self.clients.starts[index].clone();
        request.run_id = RunId::v7(number, u128::from(self.rng.next()));
        if request.request_id.is_some() {
            self.desk.hit("start.repeated");
        }
        self.trace(&format!("start {} again", request.workflow_id));
        if let Some(with) = &with {
            let sent = &mut self.clients.signals;
            let repeated = sent.iter_mut().find(|sent| sent.value == with.value);
            repeated
                .into_iter()
                .for_each(|sent| sent.is_repeated = true);
        }
        (request, with)
    }

    fn send_start(&mut self, request: StartRequest, with: Option<Sent>) {
        let id = request.workflow_id.clone();
        if request.conflict == ConflictPolicy::TerminateExisting {
            self.desk.hit("start.replaced-another");
        }
        let value = with.as_ref().map(|sent| sent.value);
        let call = Call::Start(request.request_id.clone(), value);
        let reply = self.desk.ask(&id, call, Said::Started);
        let with = match with {
            Some(sent) => Some(With::Signal(signal_input(&sent))),
            None if self.rng.chance(10) => {
                self.desk.hit("start.with-update");
                Some(self.update_with(&id))
            }
            None => None,
        };
        let wait = (with.is_none() && self.rng.chance(40)).then(|| {
            let wait = self.desk.ask(&id, Call::Wait, Said::Closed);
            self.desk.link();
            wait
        });
        self.accept(Mail::Start {
            request: Box::new(request),
            reply,
            wait,
            with,
        });
    }

    fn update_with(&mut self, id: &WorkflowId) -> With {
        let (_, name, value) = self.new_update(id.clone());
        let (request, stage, reply) = self.update_parts(id, name, value);
        With::Update(request, stage, reply)
    }

    fn new_update(&mut self, id: WorkflowId) -> (WorkflowId, &'static str, u64) {
        let name = self.rng.pick(&["set", "set", "slow", "sure", "none"]);
        let update = (id, name, self.clients.next());
        self.clients.updates.push(update.clone());
        update
    }

    fn update_parts(
        &mut self,
        id: &WorkflowId,
        name: &'static str,
        value: u64,
    ) -> (UpdateRequest, UpdateStage, Reply<UpdateReply>) {
        let stage = self
            .rng
            .pick(&[UpdateStage::Accepted, UpdateStage::Completed]);
        self.trace(&format!("update {id} {name} {value} {stage:?}"));
        let call = Call::Update(value, name != "none");
        let reply = self.desk.ask(id, call, Said::Updated);
        let request = UpdateRequest {
            id: update_id(value),
            name: name.into(),
            input: encoded(&value),
            headers: Headers::new(),
        };
        (request, stage, reply)
    }

    /// An update, sometimes one that was sent before.
    pub fn update(&mut self) {
        let repeated = self.rng.chance(25) && !self.clients.updates.is_empty();
        let (id, name, value) = if repeated {
            self.desk.hit("update.repeated");
            let index = self.rng.index(self.clients.updates.len());
            self.clients.updates[index].clone()
        } else {
            let id = self.workflow();
            self.new_update(id)
        };
        let (request, stage, reply) = self.update_parts(&id, name, value);
        let run = RunRef::newest(id);
        self.accept(Mail::Update {
            run,
            request,
            stage,
            reply,
        });
    }

    pub fn query(&mut self) {
        let id = self.workflow();
        let is_known = self.rng.chance(90);
        self.trace(&format!("query {id} {is_known}"));
        let reply = self.desk.ask(&id, Call::Query(is_known), Said::Answered);
        let query = Query {
            name: if is_known { "diary" } else { "none" }.into(),
            input: Payload::null(),
            headers: Headers::new(),
        };
        let run = RunRef::newest(id);
        self.accept(Mail::Query { run, query, reply });
    }

    /// Somebody settles a promise, maybe again, maybe before anybody waits for it.
    pub fn settle_promise(&mut self) {
        let id = self.workflow();
        let number = u8::try_from(self.rng.below(2)).unwrap_or(0);
        self.settle_one(&id, number);
    }

    fn settle_one(&mut self, id: &WorkflowId, number: u8) {
        let value = self.clients.next();
        self.trace(&format!("settle {id} {number} {value}"));
        let call = Call::Settle(number, value);
        let reply = self.desk.ask(id, call, |()| Said::Done);
        let promise = promise_id(number);
        let settlement = Settlement {
            id: promise.clone(),
            outcome: Ok(encoded(&value)),
        };
        let input = Input::Signal {
            name: PROMISE_SIGNAL.into(),
            input: settlement.encode().expect("plain data encodes"),
            request_id: Some(promise_request(&promise)),
            headers: Headers::new(),
        };
        let run = RunRef::newest(id.clone());
        self.accept(Mail::Message { run, input, reply });
    }

    pub fn signal(&mut self) {
        let repeated = self.rng.chance(15) && !self.clients.signals.is_empty();
        let sent = if repeated {
            let index = self.rng.index(self.clients.signals.len());
            self.desk.hit("signal.repeated");
            self.clients.signals[index].is_repeated = true;
            self.clients.signals[index].clone()
        } else {
            let (workflow_id, name) = (self.workflow(), self.rng.pick(&SIGNALS));
            self.note_signal(workflow_id, name)
        };
        self.send_signal(&sent);
    }

    /// What open runs may wait for, so that they can end.
    pub fn signal_everybody(&mut self) {
        for row in self.disk.rows() {
            if row.state.status.is_open() {
                for name in ["a", "b"] {
                    let sent = self.note_signal(row.workflow_id.clone(), name);
                    self.send_signal(&sent);
                }
                self.settle_one(&row.workflow_id, 0);
                self.settle_one(&row.workflow_id, 1);
                self.retry_one(&row.workflow_id);
            }
        }
    }

    fn note_signal(&mut self, workflow_id: WorkflowId, name: &'static str) -> Sent {
        let sent = Sent {
            workflow_id,
            name,
            value: self.clients.next(),
            is_repeated: false,
        };
        self.clients.signals.push(sent.clone());
        sent
    }

    fn send_signal(&mut self, sent: &Sent) {
        let Sent {
            workflow_id,
            name,
            value,
            ..
        } = sent;
        self.trace(&format!("signal {workflow_id} {name} {value}"));
        let reply = self
            .desk
            .ask(workflow_id, Call::Signal(*value), |()| Said::Done);
        let input = signal_input(sent);
        let run = RunRef::newest(workflow_id.clone());
        self.accept(Mail::Message { run, input, reply });
    }

    pub fn cancel(&mut self) {
        let workflow_id = self.workflow();
        self.trace(&format!("cancel {workflow_id}"));
        let reply = self.desk.ask(&workflow_id, Call::Cancel, |()| Said::Done);
        let number = self.clients.next();
        let input = Input::Cancel {
            reason: "enough".into(),
            request_id: Some(RequestId::from(&*format!("c{number}"))),
        };
        let run = RunRef::newest(workflow_id);
        self.accept(Mail::Message { run, input, reply });
    }

    pub fn terminate(&mut self) {
        let workflow_id = self.workflow();
        self.trace(&format!("terminate {workflow_id}"));
        let reply = self
            .desk
            .ask(&workflow_id, Call::Terminate, |()| Said::Done);
        let input = Input::Terminate {
            reason: "at once".into(),
        };
        let run = RunRef::newest(workflow_id);
        self.accept(Mail::Message { run, input, reply });
    }

    pub fn retry(&mut self) {
        let workflow_id = self.workflow();
        self.retry_one(&workflow_id);
    }

    fn retry_one(&mut self, workflow_id: &WorkflowId) {
        self.trace(&format!("retry {workflow_id}"));
        let reply = self.desk.ask(workflow_id, Call::Retry, |()| Said::Done);
        let run = RunRef::newest(workflow_id.clone());
        let input = Input::Retry;
        self.accept(Mail::Message { run, input, reply });
    }

    pub fn wait(&mut self) {
        let workflow_id = self.workflow();
        self.trace(&format!("wait {workflow_id}"));
        let reply = self.desk.ask(&workflow_id, Call::Wait, Said::Closed);
        let run = RunRef::newest(workflow_id);
        self.accept(Mail::Wait { run, reply });
    }

    pub fn describe(&mut self) {
        let workflow_id = self.workflow();
        let reply = self
            .desk
            .ask(&workflow_id, Call::Describe, |told: Description| {
                Said::Described(told.summary.run_id, told.summary.events)
            });
        let run = RunRef::newest(workflow_id);
        self.accept(Mail::Describe { run, reply });
    }

    /// Something that is not durable rings at a run's door.
    pub fn foreign_wake(&mut self) {
        let rows = self.disk.rows();
        if rows.is_empty() {
            return;
        }
        self.desk.hit("foreign-wake");
        let run_id = rows[self.rng.index(rows.len())].run_id;
        self.accept(Mail::ForeignWake(run_id));
    }
}

fn signal_input(sent: &Sent) -> Input {
    Input::Signal {
        name: sent.name.into(),
        input: encoded(&sent.value),
        request_id: Some(RequestId::from(&*format!("s{}", sent.value))),
        headers: Headers::new(),
    }
}
