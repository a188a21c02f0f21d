//! The interpreter of programs: the one workflow of these tests, against the runtime's own API
//! and the locks and channels of the facade.
//!
//! It writes down what it sees, in the order in which it sees it. Two executions are the same if
//! these logs are: winners of races, outcomes, times, random numbers, all of it.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures::StreamExt;
use futures::future::{Either, join_all, select, select_all};
use futures::stream::FuturesUnordered;
use outlast::combine;
use outlast::sync::{Mutex, Receiver, Semaphore, Sender, WriteOnce, unbounded};
use outlast_model::command::ContinueAsNew;
use outlast_model::event::Started;
use outlast_model::task::AttemptResult;
use outlast_model::view::RunRef;
use outlast_model::{
    ActivityOptions, ChildOptions, Failure, Headers, PatchId, Payload, Resolution, RetryPolicy,
    StepOptions,
};
use outlast_runtime::{
    Context, MainFuture, MainOutcome, Operation, Program as Workflow, StepCode, Supervision, Waited,
};

use super::ast::{Call, Care, Kid, Moment, Name, Node, Wish};
use super::desk::{self, Log};

/// Counters of the workflow's state.
pub type Counters = [u64; 3];

/// The one workflow.
#[derive(Clone, Copy, Debug)]
pub struct Interpreter;

impl Workflow for Interpreter {
    fn start(&self, ctx: Context, started: &Started) -> Result<MainFuture, Failure> {
        let part: usize = started
            .input
            .decode()
            .map_err(|error| Failure::application("Input", error.to_string()))?;
        let code = Code::new(ctx);
        code.answer_queries();
        Ok(Box::pin(async move {
            let ended = code.seq(desk::part(part)).await;
            code.log.note(format!("end {}", ended.is_ok()));
            code.outcome(part, ended)
        }))
    }
}

pub type Walk = Pin<Box<dyn Future<Output = Result<(), Failure>>>>;

/// Code that runs, in main, a branch or a handler.
#[derive(Clone)]
pub struct Code {
    pub ctx: Context,
    pub log: Log,
    tools: Rc<Tools>,
}

/// What branches of the run share.
struct Tools {
    lock: Mutex<u64>,
    permits: Semaphore,
    words: Sender<u64>,
    taken: Mutex<Receiver<u64>>,
    cell: WriteOnce<u64>,
}

impl Code {
    fn new(ctx: Context) -> Self {
        ctx.set_state(Box::new(Counters::default()));
        let (words, taken) = unbounded();
        let tools = Tools {
            lock: Mutex::new(0),
            permits: Semaphore::new(2),
            words,
            taken: Mutex::new(taken),
            cell: WriteOnce::new(),
        };
        Self {
            ctx,
            log: Log::new(ctx.run_id()),
            tools: Rc::new(tools),
        }
    }

    /// Main has ended like this.
    fn outcome(&self, part: usize, ended: Result<(), Failure>) -> MainOutcome {
        match ended {
            Ok(()) if part + 1 < desk::parts() => {
                MainOutcome::ContinueAsNew(Box::new(ContinueAsNew {
                    workflow_type: None,
                    queue: None,
                    input: encoded(&(part + 1)),
                    run_timeout: None,
                    signals: Vec::new(),
                    headers: Headers::new(),
                }))
            }
            Ok(()) => MainOutcome::Completed(self.log.digest()),
            Err(failure) if failure.is_canceled() && self.ctx.is_cancelled() => {
                MainOutcome::Canceled
            }
            Err(failure) => MainOutcome::Failed(failure),
        }
    }

    /// One after another.
    pub fn seq(&self, nodes: Vec<Node>) -> Walk {
        let code = self.clone();
        Box::pin(async move {
            for node in nodes {
                code.walk(node).await?;
            }
            Ok(())
        })
    }

    fn walks(&self, nodes: Vec<Node>) -> impl Iterator<Item = Walk> {
        nodes.into_iter().map(|node| self.walk(node))
    }

    fn walk(&self, node: Node) -> Walk {
        desk::hit(node.kind());
        let code = self.clone();
        if node.inner().is_none() {
            return Box::pin(async move { code.leaf(node).await });
        }
        Box::pin(async move {
            match node {
                Node::Seq(nodes) => code.seq(nodes).await,
                Node::Join(nodes) => join_all(code.walks(nodes)).await.into_iter().collect(),
                Node::Unordered(nodes) => code.unordered(nodes).await,
                Node::Select(nodes) => code.select(nodes).await,
                Node::Timeout(seconds, nodes) => code.timeout(seconds, nodes).await,
                Node::Spawn(care, nodes) => {
                    let branch = code.ctx.spawn(code.seq(nodes));
                    if care == Care::Supervised {
                        drop(branch.supervised());
                    }
                    Ok(())
                }
                Node::SpawnThenCancel(moment, nodes) => {
                    let branch = code.ctx.spawn(code.seq(nodes)).supervised();
                    code.wait(moment).await;
                    branch.cancel();
                    branch.cancel();
                    Ok(())
                }
                Node::Scope(care, nodes) => code.scope(care, None, nodes).await,
                Node::ScopeThenCancel(moment, nodes) => {
                    code.scope(Care::Together, Some(moment), nodes).await
                }
                Node::Shield(nodes) => {
                    if code.ctx.is_cancelled() {
                        desk::hit("shield.in-a-cancelled-scope");
                    }
                    let inner = code.clone();
                    code.ctx.shield(move || inner.seq(nodes)).await
                }
                Node::Locked(nodes) => code.locked(nodes).await,
                Node::Permitted(nodes) => code.permitted(nodes).await,
                many @ (Node::FirstOk(_) | Node::FirstN(..) | Node::Limited(..)) => {
                    code.combined(many).await
                }
                handler => {
                    code.handle(handler);
                    Ok(())
                }
            }
        })
    }

    /// The combinators of the facade.
    async fn combined(&self, node: Node) -> Result<(), Failure> {
        match node {
            Node::FirstOk(nodes) => {
                let first = combine::first_ok(self.walks(nodes)).await;
                self.log.note(format!("first {}", first.is_ok()));
                Ok(())
            }
            Node::FirstN(count, nodes) => {
                let first = combine::first_n(count, self.walks(nodes)).await;
                let places: Vec<usize> = first.iter().map(|(place, _)| *place).collect();
                self.log.note(format!("first {places:?}"));
                first.into_iter().try_for_each(|(_, ended)| ended)
            }
            Node::Limited(limit, nodes) => {
                let work = |node| self.walk(node);
                let ended = combine::try_map_concurrent(nodes, limit, work).await;
                ended.map(drop)
            }
            _ => Ok(()),
        }
    }

    async fn permitted(&self, nodes: Vec<Node>) -> Result<(), Failure> {
        let Ok(permit) = self.tools.permits.acquire().await else {
            self.log.note("no permit");
            return self.stop();
        };
        let ended = self.seq(nodes).await;
        drop(permit);
        self.log
            .note(format!("{} free", self.tools.permits.available()));
        ended
    }

    async fn unordered(&self, nodes: Vec<Node>) -> Result<(), Failure> {
        let numbered = self.walks(nodes).enumerate();
        let mut all: FuturesUnordered<_> = numbered
            .map(|(number, walk)| async move { (number, walk.await) })
            .collect();
        let mut ended = Ok(());
        while let Some((number, result)) = all.next().await {
            self.log.note(format!("arrived {number}"));
            ended = ended.and(result);
        }
        ended
    }

    async fn select(&self, mut nodes: Vec<Node>) -> Result<(), Failure> {
        let turned = desk::turn_by(nodes.len());
        nodes.rotate_left(turned);
        let (ended, winner, rest) = select_all(self.walks(nodes)).await;
        drop(rest);
        self.log.note(format!("winner {}", winner + turned));
        ended
    }

    async fn timeout(&self, seconds: u64, nodes: Vec<Node>) -> Result<(), Failure> {
        let timer = self.ctx.timer(Duration::from_secs(seconds));
        match select(self.seq(nodes), timer).await {
            Either::Left((ended, _)) => {
                desk::hit("timeout.in-time");
                ended
            }
            Either::Right((late, _)) => {
                desk::hit("timeout.too-late");
                self.log.note("late");
                self.seen(&late)
            }
        }
    }

    async fn scope(
        &self,
        care: Care,
        cancelled: Option<Moment>,
        nodes: Vec<Node>,
    ) -> Result<(), Failure> {
        let supervision = match care {
            Care::Together => Supervision::FailTogether,
            Care::Supervised => Supervision::FailAlone,
        };
        let code = self.clone();
        let ended = self.ctx.scope(supervision, |scope| async move {
            for node in nodes {
                let _branch = scope.spawn(code.walk(node));
            }
            if let Some(moment) = cancelled {
                code.wait(moment).await;
                scope.cancel();
            }
            Ok(())
        });
        let ended = ended.await;
        self.log.note(format!("scope {}", ended.is_ok()));
        if ended.is_err() {
            desk::hit("scope.failed");
        }
        ended
    }

    async fn locked(&self, nodes: Vec<Node>) -> Result<(), Failure> {
        let Ok(mut held) = self.tools.lock.lock().await else {
            self.log.note("no lock");
            return self.stop();
        };
        *held += 1;
        let turn = *held;
        let ended = self.seq(nodes).await;
        self.log.note(format!("unlocked {turn}"));
        ended
    }
}

/// Durable calls and small things.
impl Code {
    async fn leaf(&self, node: Node) -> Result<(), Failure> {
        let ctx = self.ctx;
        match node {
            Node::Child(kid) if kid.is_start_awaited => self.started_child(kid).await,
            Node::Activity(call) => {
                let ended = self.activity(call).await;
                self.judged(call, &ended)
            }
            Node::Regret(node, moment) => self.regret(*node, moment).await,
            Node::Detach(call) => {
                self.activity(call).detach();
                Ok(())
            }
            Node::Patched(name) => {
                self.log
                    .note(format!("patched {}", ctx.patched(name.text().into())));
                Ok(())
            }
            Node::Deprecated(name) => {
                ctx.deprecate_patch(PatchId::new(format!("old {}", name.text())));
                Ok(())
            }
            Node::Draw => {
                let (random, uuid, now) = (ctx.random(), ctx.uuid(), ctx.now());
                let is_cancelled = ctx.is_cancelled();
                self.log
                    .note(format!("{random} {uuid} {now} {is_cancelled}"));
                Ok(())
            }
            Node::Yield => {
                yielded().await;
                Ok(())
            }
            Node::Fail => Err(Failure::application("Fail", "as asked")),
            Node::Write(name) => {
                self.add(name);
                Ok(())
            }
            Node::Until(name, count) => self.until(name, count, None).await,
            Node::UntilOrLate(name, count, late) => self.until(name, count, Some(late)).await,
            Node::UntilPanic => self.until_panic().await,
            Node::OnAnySignal | Node::OnAnyUpdate => {
                self.handle(node);
                Ok(())
            }
            Node::Send | Node::Take | Node::Put | Node::AwaitPut => self.between(&node).await,
            call => match self.operation(&call) {
                Some(operation) => {
                    let ended = operation.await;
                    self.seen(&ended)
                }
                None => Ok(()),
            },
        }
    }

    /// The operation of a node that is nothing else.
    fn operation(&self, node: &Node) -> Option<Operation> {
        let ctx = self.ctx;
        Some(match node {
            Node::Activity(call) => self.activity(*call),
            Node::Timer(seconds) => ctx.timer(Duration::from_secs(*seconds)),
            Node::Step(attempts) => {
                let retry = RetryPolicy::times(*attempts);
                ctx.step("step".into(), StepOptions { retry }, step_code())
            }
            Node::Receive(name) => ctx.recv(name.text().into()),
            Node::Child(kid) => self.child(*kid),
            Node::SignalOther => {
                let input = self.log.digest();
                ctx.signal_external(other(), "word".into(), input)
            }
            Node::CancelOther => ctx.cancel_external(other(), "enough"),
            Node::Promise(Wish::Named(name)) => ctx.promise(name.text().into()),
            Node::Promise(Wish::Unnamed) => ctx.promise(ctx.next_promise_id()),
            _ => return None,
        })
    }

    fn activity(&self, call: Call) -> Operation {
        let options = ActivityOptions {
            retry: RetryPolicy::times(call.attempts),
            cancel: call.cancel,
            ..ActivityOptions::default()
        };
        let operation = self
            .ctx
            .activity("usual".into(), self.log.digest(), options.clone());
        if call.is_undone {
            return operation.undo("undo".into(), options);
        }
        operation
    }

    fn child(&self, kid: Kid) -> Operation {
        let options = ChildOptions {
            cancel: kid.cancel,
            parent_close: kid.close,
            ..ChildOptions::default()
        };
        self.ctx
            .child("kid".into(), None, self.log.digest(), options)
    }

    async fn started_child(&self, kid: Kid) -> Result<(), Failure> {
        let child = self.child(kid);
        let started = child.started().await;
        self.log.note(format!("child started {}", started.is_ok()));
        let ended = child.await;
        self.seen(&ended)
    }

    async fn regret(&self, node: Node, moment: Moment) -> Result<(), Failure> {
        let Some(operation) = self.operation(&node) else {
            return Ok(());
        };
        self.wait(moment).await;
        operation.cancel();
        let (kind, seq) = operation.kind_and_seq();
        let is_cancelled = operation.is_cancelled();
        self.log
            .note(format!("regret {kind:?} {seq} {is_cancelled}"));
        desk::hit(match (is_cancelled, moment) {
            (false, _) => "cancel.of-a-finished-call",
            (true, Moment::Now) => "cancel.in-the-same-slice",
            (true, _) => "cancel.of-a-running-call",
        });
        operation.cancel();
        let ended = operation.await;
        if is_cancelled && matches!(ended, Resolution::Completed(_)) {
            desk::hit("cancel.lost-against-the-outcome");
        }
        self.seen(&ended)
    }

    async fn until(&self, name: Name, count: u64, late: Option<u64>) -> Result<(), Failure> {
        let wait = self.ctx.wait_until(Box::new(move |state| {
            let counters = state.downcast_ref::<Counters>();
            counters.is_some_and(|counters| counters[name as usize] >= count)
        }));
        let waited = match late {
            None => wait.await,
            Some(seconds) => {
                let timer = self.ctx.timer(Duration::from_secs(seconds));
                match select(wait, timer).await {
                    Either::Left((waited, _)) => waited,
                    Either::Right((late, _)) => {
                        desk::hit("condition.too-late");
                        self.log.note("condition late");
                        return self.seen(&late);
                    }
                }
            }
        };
        self.log.note(format!("condition {waited:?}"));
        match waited {
            Waited::Released => {
                desk::hit("condition.met");
                Ok(())
            }
            Waited::Canceled => {
                desk::hit("condition.cancelled");
                self.stop()
            }
            Waited::Panicked(failure) => Err(failure),
        }
    }

    /// A condition that is fine at first: its waiter alone hears of its panic.
    async fn until_panic(&self) -> Result<(), Failure> {
        let is_new = Cell::new(true);
        let waited = self.ctx.wait_until(Box::new(move |_| {
            assert!(is_new.replace(false), "{}", desk::PANIC);
            false
        }));
        match waited.await {
            Waited::Released => self.log.note("released"),
            Waited::Canceled => {
                self.log.note("condition cancelled");
                return self.stop();
            }
            Waited::Panicked(failure) => {
                desk::hit("condition.panicked");
                self.log.note(format!("condition {failure}"));
            }
        }
        Ok(())
    }

    /// What branches do to each other.
    async fn between(&self, node: &Node) -> Result<(), Failure> {
        let tools = &self.tools;
        if *node == Node::Send {
            let sent = tools.words.try_send(self.log.len());
            self.log.note(format!("sent {}", sent.is_ok()));
            return Ok(());
        }
        if *node == Node::Put {
            let counts = tools.cell.put(self.log.len());
            self.log.note(format!("put {counts}"));
            return Ok(());
        }
        let got = if *node == Node::Take {
            match tools.taken.lock().await {
                Ok(mut taken) => taken.recv().await.ok().flatten(),
                Err(_) => None,
            }
        } else {
            tools.cell.wait().await.ok()
        };
        self.log.note(format!("got {got:?}"));
        match got {
            Some(_) => Ok(()),
            None => self.stop(),
        }
    }

    pub fn add(&self, name: Name) {
        self.ctx.with_state(|state| {
            if let Some(counters) = state.downcast_mut::<Counters>() {
                counters[name as usize] += 1;
            }
        });
    }

    /// A change of mind takes so long.
    async fn wait(&self, moment: Moment) {
        match moment {
            Moment::Now => {}
            Moment::Yielded => yielded().await,
            Moment::Later => {
                let timer = self.ctx.timer(Duration::from_secs(2)).await;
                drop(self.seen(&timer));
            }
            Moment::AfterSignal => {
                let signal = self.ctx.recv(Name::Y.text().into()).await;
                drop(self.seen(&signal));
            }
        }
    }

    fn judged(&self, call: Call, ended: &Resolution) -> Result<(), Failure> {
        self.seen(ended)?;
        match ended {
            Resolution::Failed(failure, _) if call.is_vital => Err(failure.clone()),
            Resolution::Failed(..) | Resolution::Completed(_) | Resolution::Canceled(_) => Ok(()),
        }
    }

    /// Writes an outcome down. Cancelled code comes to its end; other failures are only noted.
    fn seen(&self, ended: &Resolution) -> Result<(), Failure> {
        match ended {
            Resolution::Completed(payload) => {
                let text = String::from_utf8_lossy(&payload.data);
                self.log.note(format!("ok {text}"));
                Ok(())
            }
            Resolution::Failed(failure, state) => {
                self.log.note(format!("failed {failure} {state:?}"));
                Ok(())
            }
            Resolution::Canceled(_) => {
                self.log.note("cancelled");
                self.stop()
            }
        }
    }

    /// Whether a wait that was cut off ends the code around it.
    fn stop(&self) -> Result<(), Failure> {
        if self.ctx.is_cancelled() {
            desk::hit("code.cancelled");
            return Err(Failure::canceled("stopped"));
        }
        Ok(())
    }
}

async fn yielded() {
    let mut has_yielded = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut has_yielded, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

fn other() -> RunRef {
    RunRef::newest("other".into())
}

pub fn encoded(value: &usize) -> Payload {
    Payload::encode(value).expect("a number encodes")
}

/// The world decides how steps end; their code only has to be there.
fn step_code() -> StepCode {
    Arc::new(|| Box::pin(async { AttemptResult::Completed(Payload::null()) }))
}
