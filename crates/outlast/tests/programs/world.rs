//! The world around a run: attempts that end somehow, other runs that answer, people who send.
//!
//! Children and targets of messages are not run: the world answers for them, in any order that
//! the real ones could answer in.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use outlast_engine::{Effect, Input};
use outlast_model::event::{
    CancelOf, DeliveryFailedCause, StartFailedCause, UpdateOutcome, UpdateRequest,
};
use outlast_model::post::{Post, PostBody, PostNo};
use outlast_model::promise::Settlement;
use outlast_model::start::{UpdateReply, UpdateStage};
use outlast_model::task::{
    AttemptOutcome, AttemptResult, AttemptToken, PROMISE_SIGNAL, Permit, Query, SlotKind,
    builtin_query, promise_request,
};
use outlast_model::view::{RunOutcome, RunRef};
use outlast_model::{Failure, Headers, Payload, PromiseId, QueueName, Seq, UpdateId};
use outlast_service::mail::Mail;
use outlast_service::outlet::Outlet;

use super::ast::{Name, News, What};
use super::bench::{Bench, target};
use super::desk;
use super::handler::{BAD, content};

/// Attempts that run.
#[derive(Debug, Default)]
pub struct Ramp {
    running: Mutex<Vec<AttemptToken>>,
}

impl Outlet for Ramp {
    fn take_slot(&self, _: &QueueName, _: SlotKind) -> Permit {
        Permit::Taken
    }

    fn return_slot(&self, _: &QueueName, _: SlotKind) {}

    fn release(&self, effects: Vec<Effect>) {
        let mut running = self.running.lock().expect("one thread");
        for effect in effects {
            match effect {
                Effect::StartActivity(task) => running.push(task.token),
                Effect::StartStep(task) => running.push(task.token),
                Effect::Stop(..) => desk::hit("attempt.told-to-stop"),
                Effect::Closed(_) | Effect::Update(..) => {}
            }
        }
    }
}

/// Something another run has yet to say to ours.
#[derive(Clone, Debug)]
struct Open {
    /// To whom.
    run: RunRef,
    from: RunRef,
    what: Matter,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Matter {
    ChildStart(Seq),
    ChildEnd(Seq),
    Signal(Seq),
    Cancel(CancelOf),
}

#[derive(Debug)]
pub struct World {
    ramp: Arc<Ramp>,
    open: Vec<Open>,
    /// Numbers for posts, far from those the shard gives.
    posts: u64,
    messages: u64,
    last_update: Option<UpdateRequest>,
    /// What was done to bring an idle run to its end.
    pushes: usize,
}

impl World {
    pub fn new(ramp: Arc<Ramp>) -> Self {
        Self {
            ramp,
            open: Vec::new(),
            posts: 1 << 40,
            messages: 0,
            last_update: None,
            pushes: 0,
        }
    }

    /// A run says something to another.
    pub fn hear(&mut self, post: Post) {
        let Post { from, to, body } = post;
        let what = match body {
            PostBody::StartChild(request) => Matter::ChildStart(request.parent.seq),
            PostBody::Signal { seq, .. } => Matter::Signal(seq),
            PostBody::Cancel { of: Some(of), .. } => Matter::Cancel(of),
            PostBody::Cancel { of: None, .. } => return desk::hit("child.asked-at-parent-close"),
            PostBody::Terminate { .. } => {
                desk::hit("child.ended-at-parent-close");
                return self.open.retain(|open| open.from != to);
            }
            PostBody::ChildStarted { .. }
            | PostBody::ChildEnded { .. }
            | PostBody::SignalDelivered { .. }
            | PostBody::CancelDelivered { .. } => return,
        };
        self.open.push(Open {
            run: from,
            from: to,
            what,
        });
    }

    /// What can be answered now: a request to a child arrives behind its start.
    fn answerable(&self) -> Vec<usize> {
        let is_ripe = |open: &Open| match open.what {
            Matter::Cancel(CancelOf::Child(seq)) => !self
                .open
                .iter()
                .any(|other| other.run == open.run && other.what == Matter::ChildStart(seq)),
            Matter::Cancel(CancelOf::External(_))
            | Matter::ChildStart(_)
            | Matter::ChildEnd(_)
            | Matter::Signal(_) => true,
        };
        let all = self.open.iter().enumerate();
        all.filter(|(_, open)| is_ripe(open))
            .map(|(index, _)| index)
            .collect()
    }

    fn take_attempt(&self, pick: usize) -> Option<AttemptToken> {
        let mut running = self.ramp.running.lock().expect("one thread");
        if running.is_empty() {
            return None;
        }
        running.sort_unstable();
        let index = pick % running.len();
        Some(running.remove(index))
    }

    fn next_message(&mut self) -> u64 {
        self.messages += 1;
        self.messages
    }
}

/// News.
impl Bench {
    /// Something happens.
    pub fn tell(&mut self, news: News) {
        let pick = usize::from(news.pick);
        match news.what {
            What::AttemptCompletes => {
                let result = Payload::bytes(format!("r{pick}"));
                self.attempt_ends(pick, AttemptResult::Completed(result));
            }
            What::AttemptFails => {
                let failure = Failure::application("Flaky", "it failed");
                self.attempt_ends(pick, AttemptResult::Failed(failure));
            }
            What::AttemptCancels => self.attempt_ends(pick, AttemptResult::Canceled(None)),
            What::TimePasses => self.time_passes(),
            What::Signal(name) => self.signal(if pick.is_multiple_of(4) {
                "write"
            } else {
                name.text()
            }),
            What::Update(name) => self.update(name, pick),
            What::UpdateAgain => self.update_again(),
            What::Query => self.query(pick),
            What::Settle(name) => self.promise(name, pick, Ok(Payload::raw_json("1"))),
            What::Reject(name) => {
                let failure = Failure::application("No", "rejected");
                self.promise(name, pick, Err(failure));
            }
            What::OthersSucceed => self.other_answers(pick, Luck::Good),
            What::OthersFail => self.other_answers(pick, Luck::Bad),
            What::Cancel => self.message(Input::Cancel {
                reason: "enough".into(),
                request_id: None,
            }),
        }
    }

    /// Nobody sends anything any more: what is open ends, then the run is asked to.
    pub fn finish(&mut self) {
        if let Some(token) = self.world.take_attempt(0) {
            let result = AttemptResult::Completed(Payload::bytes("last"));
            return self.accept(Mail::Outcomes(vec![AttemptOutcome { token, result }]));
        }
        if !self.world.answerable().is_empty() {
            return self.other_answers(0, Luck::Good);
        }
        if self.due().is_some() {
            return self.time_passes();
        }
        self.world.pushes += 1;
        match self.world.pushes {
            1 => self.signal("write"),
            2 => Name::ALL
                .into_iter()
                .for_each(|name| self.signal(name.text())),
            3 => self.tell(News {
                what: What::Cancel,
                pick: 0,
                has_company: false,
            }),
            4 => {
                for (pick, name) in Name::ALL.into_iter().enumerate() {
                    self.promise(name, pick, Ok(Payload::raw_json("2")));
                }
            }
            _ => {
                desk::hit("run.terminated");
                self.message(Input::Terminate {
                    reason: "it waits".into(),
                });
            }
        }
    }

    fn attempt_ends(&mut self, pick: usize, result: AttemptResult) {
        if let Some(token) = self.world.take_attempt(pick) {
            self.accept(Mail::Outcomes(vec![AttemptOutcome { token, result }]));
        }
    }

    fn time_passes(&mut self) {
        self.now = match self.due() {
            Some(due) if due > self.now => due,
            Some(_) | None => self.now.after(Duration::from_secs(1)),
        };
    }

    fn signal(&mut self, name: &str) {
        let input = Payload::bytes(format!("m{}", self.world.next_message()));
        self.message(Input::Signal {
            name: name.into(),
            input,
            request_id: None,
            headers: Headers::new(),
        });
    }

    fn message(&mut self, input: Input) {
        let number = self.world.next_message();
        let reply = self.listener(format!("message {number}"), |()| "done".into());
        self.accept(Mail::Message {
            run: target(),
            input,
            reply,
        });
    }

    fn update(&mut self, name: Name, pick: usize) {
        let number = self.world.next_message();
        let is_bad = if pick.is_multiple_of(3) { BAD } else { "good" };
        let request = UpdateRequest {
            id: UpdateId::new(format!("u{number}")),
            name: name.text().into(),
            input: Payload::bytes(format!("{number} {is_bad}")),
            headers: Headers::new(),
        };
        self.world.last_update = Some(request.clone());
        let stage = if pick.is_multiple_of(2) {
            UpdateStage::Completed
        } else {
            UpdateStage::Accepted
        };
        self.send_update(request, stage);
    }

    fn update_again(&mut self) {
        // Whether a rejection is kept depends on the path, by design: it is not asked for again.
        let last = self.world.last_update.clone();
        if let Some(request) = last.filter(|request| !self.was_told(&rejected(request))) {
            desk::hit("update.sent-twice");
            self.send_update(request, UpdateStage::Completed);
        }
    }

    fn send_update(&mut self, request: UpdateRequest, stage: UpdateStage) {
        let reply = self.listener(format!("update {}", request.id), updated);
        self.accept(Mail::Update {
            run: target(),
            request,
            stage,
            reply,
        });
    }

    fn query(&mut self, pick: usize) {
        let names = [
            "log",
            "nobody knows",
            builtin_query::STACK,
            builtin_query::STATE,
            builtin_query::HANDLERS,
        ];
        self.ask(names[pick % names.len()]);
    }

    /// What has the code noted?
    pub fn ask_log(&mut self) {
        self.ask("log");
    }

    fn ask(&mut self, name: &str) {
        let reply = self.listener(format!("query {name}"), content);
        self.accept(Mail::Query {
            run: target(),
            query: Query {
                name: name.into(),
                input: Payload::null(),
                headers: Headers::new(),
            },
            reply,
        });
    }

    fn promise(&mut self, name: Name, pick: usize, outcome: Result<Payload, Failure>) {
        let id: PromiseId = match pick % 4 {
            0 => "#1".into(),
            _ => name.text().into(),
        };
        let request_id = Some(promise_request(&id));
        let settled = Settlement { id, outcome };
        self.message(Input::Signal {
            name: PROMISE_SIGNAL.into(),
            input: settled.encode().expect("it is JSON"),
            request_id,
            headers: Headers::new(),
        });
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Luck {
    Good,
    Bad,
}

/// Other runs.
impl Bench {
    fn other_answers(&mut self, pick: usize, luck: Luck) {
        let ripe = self.world.answerable();
        if ripe.is_empty() {
            return;
        }
        let open = self.world.open.remove(ripe[pick % ripe.len()]);
        let failed = (luck == Luck::Bad).then_some(DeliveryFailedCause::NotFound);
        let body = match open.what {
            Matter::ChildStart(seq) => {
                let failed = (luck == Luck::Bad).then_some(StartFailedCause::AlreadyExists);
                if luck == Luck::Good {
                    let what = Matter::ChildEnd(seq);
                    self.world.open.push(Open {
                        what,
                        ..open.clone()
                    });
                }
                PostBody::ChildStarted { seq, failed }
            }
            Matter::ChildEnd(seq) => PostBody::ChildEnded {
                seq,
                outcome: child_outcome(pick, luck),
            },
            Matter::Signal(seq) => PostBody::SignalDelivered { seq, failed },
            Matter::Cancel(of) => PostBody::CancelDelivered { of, failed },
        };
        self.world.posts += 1;
        let post = Post {
            from: open.from,
            to: open.run,
            body,
        };
        self.accept(Mail::Post {
            no: PostNo(self.world.posts),
            post: Box::new(post),
            generation: 0,
        });
    }
}

fn updated(reply: &UpdateReply) -> String {
    match reply {
        UpdateReply::Accepted => "Accepted".into(),
        UpdateReply::Done(UpdateOutcome::Completed(result)) => content(result),
        UpdateReply::Done(UpdateOutcome::Failed(failure)) => format!("Failed {failure:?}"),
        UpdateReply::Rejected(failure) => format!("Rejected {failure:?}"),
    }
}

fn rejected(request: &UpdateRequest) -> String {
    format!("update {}: Rejected", request.id)
}

fn child_outcome(pick: usize, luck: Luck) -> RunOutcome {
    match (luck, pick % 4) {
        (Luck::Good, _) => RunOutcome::Completed(Payload::bytes("child")),
        (Luck::Bad, 0) => RunOutcome::Failed(Failure::application("Kid", "it failed")),
        (Luck::Bad, 1) => RunOutcome::Canceled,
        (Luck::Bad, 2) => RunOutcome::TimedOut,
        (Luck::Bad, _) => RunOutcome::Terminated {
            reason: "enough".into(),
        },
    }
}
