//! Clients: they start, signal, cancel, terminate, wait, and repeat themselves when they are not
//! sure.

use std::time::Duration;

use outlast_engine::Input;
use outlast_model::id::{RequestId, RunId, WorkflowId};
use outlast_model::start::{ConflictPolicy, ReusePolicy, StartRequest};
use outlast_model::view::RunRef;
use outlast_service::mail::Mail;

use super::driver::Simulation;
use super::ledger::{Call, Said};
use super::plan::{Plan, Variety};
use super::process::{FLOW, QUEUE};
use super::program::encoded;

/// Names of signals: two that are received, two that have handlers.
const SIGNALS: [&str; 4] = ["a", "b", "log", "work"];

/// What clients remember.
#[derive(Debug, Default)]
pub struct Clients {
    /// The newest start of each workflow id.
    starts: Vec<(WorkflowId, StartRequest)>,
    /// The newest signals: to whom, name, value and whether it was sent again.
    signals: Vec<Sent>,
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

    /// The name a signal was sent under.
    pub fn name_of(&self, value: u64) -> Option<&'static str> {
        let sent = self.signals.iter().find(|sent| sent.value == value);
        sent.map(|sent| sent.name)
    }
}

impl Simulation {
    fn workflow(&mut self) -> WorkflowId {
        let ids = ["w0", "w1", "w2"];
        let count = self.faults.workflows;
        WorkflowId::from(ids[self.rng.index(count)])
    }

    fn accept(&mut self, mail: Mail) {
        let now = self.now;
        self.process.shard.accept(mail, now, &self.process.store);
    }

    pub fn start(&mut self) {
        let workflow_id = self.workflow();
        let known = self
            .clients
            .starts
            .iter()
            .rposition(|(id, _)| *id == workflow_id);
        let request = match known {
            Some(index) if self.rng.chance(35) => self.repeat_start(index),
            Some(_) | None => self.new_start(workflow_id.clone()),
        };
        self.send_start(request);
    }

    fn new_start(&mut self, workflow_id: WorkflowId) -> StartRequest {
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
        };
        self.trace(&format!("start {workflow_id}: {plan:?}"));
        self.clients.starts.push((workflow_id, request.clone()));
        request
    }

    /// The same request, under a new run id, as a client that heard nothing sends it.
    fn repeat_start(&mut self, index: usize) -> StartRequest {
        let number = self.clients.next();
        let mut request = self.clients.starts[index].1.clone();
        request.run_id = RunId::v7(number, u128::from(self.rng.next()));
        if request.request_id.is_some() {
            self.desk.hit("start.repeated");
        }
        self.trace(&format!("start {} again", request.workflow_id));
        request
    }

    fn send_start(&mut self, request: StartRequest) {
        let id = request.workflow_id.clone();
        if request.conflict == ConflictPolicy::TerminateExisting {
            self.desk.hit("start.replaced-another");
        }
        let call = match &request.request_id {
            Some(request_id) => Call::Start(request_id.clone()),
            None => Call::StartAnonymous,
        };
        let reply = self.desk.ask(&id, call, Said::Started);
        let wait = self
            .rng
            .chance(40)
            .then(|| self.desk.ask(&id, Call::Wait, Said::Closed));
        if wait.is_some() {
            self.desk.link();
        }
        self.accept(Mail::Start {
            request: Box::new(request),
            reply,
            wait,
            with: None,
        });
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
        let input = Input::Signal {
            name: (*name).into(),
            input: encoded(value),
            request_id: Some(RequestId::from(&*format!("s{value}"))),
        };
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
            .ask(&workflow_id, Call::Describe, |_| Said::Described);
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
