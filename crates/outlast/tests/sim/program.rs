//! The interpreter of plans: the only workflow of the simulation. Its result says what it saw,
//! so that a signal that is lost, doubled or out of order shows in the result of the run.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{Either, join_all, select, select_all};
use outlast_model::command::ContinueAsNew;
use outlast_model::event::{Started, UpdateRequest};
use outlast_model::task::{AttemptResult, Query};
use outlast_model::view::RunRef;
use outlast_model::{Failure, Headers, Payload, PromiseId, Resolution, RetryPolicy, StepOptions};
use outlast_runtime::{
    Context, HandlerEnd, MainFuture, MainOutcome, Operation, Program, StepCode, UpdateHandler,
};
use serde::{Deserialize, Serialize};

use super::plan::{Call, ChildCall, Manner, Node, OTHERS, Plan};
use super::process::FLOW;
use super::rng::{Rng, hash};

/// What a run saw, as its result says.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Diary {
    /// A digest of every outcome, number and time.
    pub seen: u64,
    /// Messages to the handler, in the order in which it was called.
    pub logged: Vec<u64>,
    /// Messages that were received, by name.
    pub received: [Vec<u64>; 2],
    /// Updates whose handler began, in the order in which it did.
    pub updated: Vec<u64>,
    /// What promises were settled with.
    pub kept: Vec<(u8, u64)>,
}

/// Names of signals: two that are received, two that have handlers.
pub const SIGNALS: [&str; 4] = ["a", "b", "log", "work"];

/// What a run tells another: never what a client says, and it names its signal.
fn external_value(random: u64, name: usize) -> u64 {
    (random | 1 << 63) & !3 | name as u64
}

/// The signal that a value was sent by, if a run sent it.
pub fn external_name(value: u64) -> Option<&'static str> {
    let index = usize::try_from(value & 3).unwrap_or(0);
    (value >> 63 == 1).then(|| SIGNALS[index])
}

fn other_run(other: u8) -> RunRef {
    RunRef::newest(OTHERS[usize::from(other) % OTHERS.len()].into())
}

pub fn promise_id(number: u8) -> PromiseId {
    PromiseId::new(format!("promise{number}"))
}

/// Whether an update with this value is turned away.
pub fn is_turned_away(value: u64) -> bool {
    value.is_multiple_of(4)
}

fn validate(request: &UpdateRequest) -> Result<(), Failure> {
    match request.input.decode::<u64>() {
        Ok(value) if !is_turned_away(value) => Ok(()),
        _ => Err(Failure::application("sim.Rejected", "not this one")),
    }
}

/// The name under which results that are errors are kept.
pub const FAILED: &str = "sim.Failed";
/// What an injected panic says.
pub const PANIC: &str = "sim: injected panic";

thread_local! {
    /// Chances in a hundred that workflow code panics before a durable call.
    static PANICS: RefCell<(Rng, u64)> = RefCell::new((Rng::new(0), 0));
}

/// From now on workflow code of this thread panics so often.
pub fn set_panics(seed: u64, percent: u64) {
    PANICS.with_borrow_mut(|panics| *panics = (Rng::new(seed), percent));
}

fn maybe_panic() {
    let is_due = PANICS.with_borrow_mut(|(rng, percent)| *percent > 0 && rng.chance(*percent));
    if is_due {
        std::panic::panic_any(PANIC.to_owned());
    }
}

/// The interpreter.
#[derive(Clone, Copy, Debug)]
pub struct Interpreter;

impl Program for Interpreter {
    fn start(&self, ctx: Context, started: &Started) -> Result<MainFuture, Failure> {
        let plan: Plan = started
            .input
            .decode()
            .map_err(|e| Failure::application("sim.Plan", e.to_string()))?;
        let Plan { body, next, diary } = plan;
        let code = Code {
            ctx,
            diary: Rc::new(RefCell::new(diary)),
        };
        code.handle_signals();
        code.handle_updates();
        code.handle_queries();
        Ok(Box::pin(async move {
            let ended = code.seq(body).await;
            let diary = code.diary.borrow().clone();
            match (ended, next) {
                (Ok(()), Some(next)) => MainOutcome::ContinueAsNew(Box::new(ContinueAsNew {
                    workflow_type: None,
                    queue: None,
                    input: encoded(&Plan { diary, ..*next }),
                    run_timeout: None,
                    signals: Vec::new(),
                    headers: Headers::new(),
                })),
                (Ok(()), None) => MainOutcome::Completed(encoded(&diary)),
                (Err(Stop::Failed), _) => {
                    let text = serde_json::to_string(&diary).unwrap_or_default();
                    MainOutcome::Failed(Failure::application(FAILED, text))
                }
                (Err(Stop::Canceled), _) => MainOutcome::Canceled,
            }
        }))
    }
}

pub fn encoded<T: Serialize>(value: &T) -> Payload {
    Payload::encode(value).expect("plain data encodes")
}

/// Why a program ends early.
enum Stop {
    Failed,
    Canceled,
}

type Walk = Pin<Box<dyn Future<Output = Result<(), Stop>>>>;

#[derive(Clone)]
struct Code {
    ctx: Context,
    diary: Rc<RefCell<Diary>>,
}

impl Code {
    /// `log` is written down at once; `work` does something durable first.
    fn handle_signals(&self) {
        let code = self.clone();
        self.ctx.on_signal(
            "log".into(),
            Rc::new(move |_, input| {
                let value = input.decode::<u64>().unwrap_or(0);
                code.diary.borrow_mut().logged.push(value);
                code.ctx.written();
                Box::pin(async { Ok(()) })
            }),
        );
        let code = self.clone();
        self.ctx.on_signal(
            "work".into(),
            Rc::new(move |ctx, input| {
                let value = input.decode::<u64>().unwrap_or(0);
                let code = code.clone();
                Box::pin(async move {
                    let timer = ctx.timer(Duration::from_secs(value % 7)).await;
                    code.note(&timer);
                    Ok(())
                })
            }),
        );
    }

    /// `set` is done at once; `slow` takes a while and is left behind by a run that ends; `sure`
    /// takes a while and is waited for. One in four is turned away.
    fn handle_updates(&self) {
        for (name, end) in [
            ("set", HandlerEnd::Warn),
            ("slow", HandlerEnd::Abandon),
            ("sure", HandlerEnd::Finish),
        ] {
            let code = self.clone();
            let is_slow = name != "set";
            let handler = UpdateHandler {
                validator: Some(Rc::new(|_, request| validate(request))),
                code: Rc::new(move |ctx, request| {
                    let code = code.clone();
                    Box::pin(async move { code.update(ctx, &request, is_slow).await })
                }),
                end,
            };
            self.ctx.on_update(name.into(), handler);
        }
    }

    async fn update(
        &self,
        ctx: Context,
        request: &UpdateRequest,
        is_slow: bool,
    ) -> Result<Payload, Failure> {
        let value = request.input.decode::<u64>().unwrap_or(0);
        self.diary.borrow_mut().updated.push(value);
        ctx.written();
        if is_slow {
            let timer = ctx.timer(Duration::from_secs(value % 5)).await;
            self.note(&timer);
        }
        match value % 7 {
            0 => Err(Failure::application("sim.Update", "it failed")),
            _ => Ok(encoded(&value)),
        }
    }

    fn handle_queries(&self) {
        let code = self.clone();
        let answer = move |_, _: &Query| Ok(encoded(&*code.diary.borrow()));
        self.ctx.on_query("diary".into(), Rc::new(answer));
    }

    fn seq(&self, nodes: Vec<Node>) -> Walk {
        let code = self.clone();
        Box::pin(async move {
            for node in nodes {
                code.walk(node).await?;
            }
            Ok(())
        })
    }

    fn walk(&self, node: Node) -> Walk {
        let code = self.clone();
        Box::pin(async move {
            maybe_panic();
            match node {
                Node::Seq(nodes) => code.seq(nodes).await,
                Node::Join(nodes) => {
                    let ended = join_all(nodes.into_iter().map(|node| code.walk(node))).await;
                    ended.into_iter().collect()
                }
                Node::Select(nodes) => {
                    let walks = nodes.into_iter().map(|node| code.walk(node));
                    let (ended, index, rest) = select_all(walks).await;
                    drop(rest);
                    code.digest(&[u8::try_from(index).unwrap_or(0)]);
                    ended
                }
                Node::Shield(node) => {
                    let inner = code.clone();
                    code.ctx.shield(move || inner.walk(*node)).await
                }
                Node::Spawn(node) => {
                    let branch = code.walk(*node);
                    let _branch = code.ctx.spawn(Box::pin(async move {
                        drop(branch.await);
                    }));
                    Ok(())
                }
                Node::Fail => Err(Stop::Failed),
                leaf @ (Node::Activity(_)
                | Node::Fan(..)
                | Node::Timer(_)
                | Node::Step(_)
                | Node::Recv(_)
                | Node::Regret(_)
                | Node::Detach(_)
                | Node::Draw) => code.leaf(leaf).await,
                social @ (Node::Child(_)
                | Node::Tell(..)
                | Node::Stop(_)
                | Node::Promise(_)
                | Node::Until(_)
                | Node::Patch(_)) => code.social(social).await,
            }
        })
    }

    async fn leaf(&self, node: Node) -> Result<(), Stop> {
        let ctx = self.ctx;
        match node {
            Node::Activity(call) => self.outcome(&self.activity(call).await),
            Node::Fan(count, call) => {
                let all = join_all((0..count).map(|_| self.activity(call))).await;
                all.iter()
                    .try_for_each(|resolution| self.outcome(resolution))
            }
            Node::Timer(millis) => self.outcome(&ctx.timer(Duration::from_millis(millis)).await),
            Node::Step(attempts) => {
                let options = StepOptions {
                    retry: RetryPolicy::times(attempts),
                };
                self.outcome(&ctx.step("step".into(), options, step_code()).await)
            }
            Node::Recv(second) => self.receive(second).await,
            Node::Regret(call) => {
                let operation = self.activity(call);
                let pause = ctx.timer(Duration::from_millis(700)).await;
                self.note(&pause);
                operation.cancel();
                self.outcome(&operation.await)
            }
            Node::Detach(call) => {
                self.activity(call).detach();
                Ok(())
            }
            // The others are no leaves: `walk` has taken them.
            Node::Draw
            | Node::Fail
            | Node::Seq(_)
            | Node::Join(_)
            | Node::Select(_)
            | Node::Shield(_)
            | Node::Spawn(_)
            | Node::Child(_)
            | Node::Tell(..)
            | Node::Stop(_)
            | Node::Promise(_)
            | Node::Until(_)
            | Node::Patch(_) => {
                self.digest(&ctx.random().to_le_bytes());
                self.digest(&ctx.now().0.to_le_bytes());
                Ok(())
            }
        }
    }

    /// What has to do with others.
    async fn social(&self, node: Node) -> Result<(), Stop> {
        let ctx = self.ctx;
        match node {
            Node::Child(call) => self.child(*call).await,
            Node::Tell(other, name) => {
                let name = usize::from(name) % SIGNALS.len();
                let value = external_value(ctx.random(), name);
                let signal =
                    ctx.signal_external(other_run(other), SIGNALS[name].into(), encoded(&value));
                self.outcome(&signal.await)
            }
            Node::Stop(other) => self.outcome(&ctx.cancel_external(other_run(other), "sim").await),
            Node::Promise(number) => {
                let kept = ctx.promise(promise_id(number)).await;
                if let Resolution::Completed(value) = &kept {
                    let value = value.decode::<u64>().unwrap_or(0);
                    self.diary.borrow_mut().kept.push((number, value));
                }
                self.outcome(&kept)
            }
            Node::Until(count) => self.until(usize::from(count)).await,
            other => {
                let Node::Patch(number) = other else {
                    return Ok(());
                };
                let is_patched = ctx.patched((&*format!("patch{number}")).into());
                self.digest(&[u8::from(is_patched)]);
                Ok(())
            }
        }
    }

    async fn child(&self, call: ChildCall) -> Result<(), Stop> {
        let ctx = self.ctx;
        let id = call.id.map(|other| other_run(other).workflow_id);
        let child = ctx.child(FLOW.into(), id, encoded(&call.plan), call.options());
        match call.how {
            Manner::Await => {}
            Manner::Regret => {
                let pause = ctx.timer(Duration::from_millis(700)).await;
                self.note(&pause);
                child.cancel();
            }
            Manner::RegretAtOnce => child.cancel(),
            Manner::Started => {
                let started = child.started().await;
                self.digest(format!("{started:?}").as_bytes());
                child.detach();
                return Ok(());
            }
            Manner::Detach => {
                child.detach();
                return Ok(());
            }
        }
        self.outcome(&child.await)
    }

    async fn until(&self, count: usize) -> Result<(), Stop> {
        let diary = self.diary.clone();
        let is_enough = Box::new(move |_: &dyn std::any::Any| diary.borrow().logged.len() >= count);
        let wait = self.ctx.wait_until(is_enough);
        let timer = self.ctx.timer(Duration::from_secs(40));
        match select(wait, timer).await {
            Either::Left((waited, _)) => {
                self.digest(format!("{waited:?}").as_bytes());
                if self.ctx.is_cancelled() {
                    return Err(Stop::Canceled);
                }
                Ok(())
            }
            Either::Right((fired, _)) => self.outcome(&fired),
        }
    }

    fn activity(&self, call: Call) -> Operation {
        let input = encoded(&self.diary.borrow().seen);
        let operation = self
            .ctx
            .activity(call.activity_type().into(), input, call.options());
        if !call.is_undone {
            return operation;
        }
        let undo = outlast_model::ActivityOptions {
            retry: RetryPolicy::times(2),
            ..Default::default()
        };
        operation.undo("usual".into(), undo)
    }

    async fn receive(&self, second: bool) -> Result<(), Stop> {
        let name = if second { "b" } else { "a" };
        let received = self.ctx.recv(name.into()).await;
        if let Resolution::Completed(input) = &received {
            let value = input.decode::<u64>().unwrap_or(0);
            self.diary.borrow_mut().received[usize::from(second)].push(value);
        }
        self.outcome(&received)
    }

    /// A cancelled workflow ends at its next cancelled wait; other failures are only noted.
    fn outcome(&self, resolution: &Resolution) -> Result<(), Stop> {
        self.note(resolution);
        match resolution {
            Resolution::Canceled(_) if self.ctx.is_cancelled() => Err(Stop::Canceled),
            Resolution::Canceled(_) | Resolution::Completed(_) | Resolution::Failed(..) => Ok(()),
        }
    }

    fn note(&self, resolution: &Resolution) {
        match resolution {
            Resolution::Completed(payload) => self.digest(&payload.data),
            Resolution::Failed(failure, state) => {
                self.digest(failure.message.as_bytes());
                self.digest(format!("{state:?}").as_bytes());
            }
            Resolution::Canceled(_) => self.digest(b"canceled"),
        }
    }

    fn digest(&self, bytes: &[u8]) {
        let mut diary = self.diary.borrow_mut();
        diary.seen = hash(diary.seen.rotate_left(5), bytes);
    }
}

/// The world decides how steps end; their code only has to be there.
fn step_code() -> StepCode {
    Arc::new(|| Box::pin(async { AttemptResult::Completed(Payload::null()) }))
}
