//! Around attempts of activities and steps, and around what they report.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use outlast_model::task::{AttemptKind, AttemptResult};
use outlast_model::{Headers, Payload};
use outlast_runtime::StepCode;
use outlast_runtime::intercept::StepCall;
use outlast_worker::attempt::AttemptCtx;
use outlast_worker::registry::{ActivityCode, Body};

use crate::activity::ActivityCtx;
use crate::state::States;

/// What an attempt comes to.
pub type AttemptFuture = Pin<Box<dyn Future<Output = AttemptResult> + Send>>;

/// Code around attempts of activities and steps. The defaults pass on. It runs where the attempt
/// does: around a blocking activity, on the thread of that.
pub trait ActivityInterceptor: Send + Sync + 'static {
    /// An attempt begins.
    fn execute(&self, attempt: Attempt, next: AttemptNext) -> AttemptFuture {
        next.run(attempt)
    }

    /// An activity reports: it may be changed before it is kept.
    fn heartbeat(&self, _ctx: &ActivityCtx, _details: &mut Payload) {}
}

/// One attempt, before its code runs.
#[derive(Clone, Debug)]
pub struct Attempt {
    kind: AttemptKind,
    name: Arc<str>,
    ctx: Option<ActivityCtx>,
    /// Its input; that of a step is its closure.
    pub input: Payload,
    /// What came with the call, for those further in; `ctx.headers()` is what is recorded.
    pub headers: Headers,
}

impl Attempt {
    /// Activity or step.
    pub fn kind(&self) -> AttemptKind {
        self.kind
    }

    /// Its registered name, or that of the step.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The context of an activity; a step has none.
    pub fn ctx(&self) -> Option<&ActivityCtx> {
        self.ctx.as_ref()
    }
}

/// The next interceptor, and in the end the code.
pub struct AttemptNext {
    chain: Attempts,
    at: usize,
    code: Box<dyn FnOnce(Payload) -> AttemptFuture + Send>,
}

impl AttemptNext {
    /// Runs the code.
    pub fn run(mut self, attempt: Attempt) -> AttemptFuture {
        match self.chain.0.get(self.at).cloned() {
            Some(link) => {
                self.at += 1;
                link.execute(attempt, self)
            }
            None => (self.code)(attempt.input),
        }
    }
}

impl fmt::Debug for AttemptNext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AttemptNext")
    }
}

/// The interceptors of attempts, outermost first. There is at least one.
#[derive(Clone)]
pub(crate) struct Attempts(Arc<[Arc<dyn ActivityInterceptor>]>);

impl Attempts {
    pub(super) fn new(all: impl Iterator<Item = Arc<dyn ActivityInterceptor>>) -> Option<Self> {
        let all: Arc<[_]> = all.collect();
        (!all.is_empty()).then_some(Self(all))
    }

    pub(crate) fn heartbeat(&self, ctx: &ActivityCtx, details: &mut Payload) {
        for link in &*self.0 {
            link.heartbeat(ctx, details);
        }
    }

    fn run(
        &self,
        attempt: Attempt,
        code: impl FnOnce(Payload) -> AttemptFuture + Send + 'static,
    ) -> AttemptFuture {
        let next = AttemptNext {
            chain: self.clone(),
            at: 0,
            code: Box::new(code),
        };
        next.run(attempt)
    }

    /// The same activity, with these around each attempt. An attempt of blocking code blocks as
    /// a whole, on its thread.
    pub(super) fn around(&self, name: &str, code: ActivityCode, states: &States) -> ActivityCode {
        let (all, name, states) = (self.clone(), Arc::from(name), states.clone());
        Arc::new(move |ctx: AttemptCtx, input: Payload| {
            let attempt = Attempt {
                kind: AttemptKind::Activity,
                name: Arc::clone(&name),
                ctx: Some(ActivityCtx::new(ctx.clone(), states.clone())),
                input: input.clone(),
                headers: ctx.info().headers.clone(),
            };
            let made = code(ctx.clone(), input.clone());
            let is_blocking = matches!(made, Body::Blocking(_));
            let again = code.clone();
            // Code is made once more only if its input was changed.
            let inner = move |given: Payload| {
                let is_same = given == input;
                polled(if is_same { made } else { again(ctx, given) })
            };
            if !is_blocking {
                return Body::Async(all.run(attempt, inner));
            }
            let (all, runtime) = (all.clone(), tokio::runtime::Handle::current());
            Body::Blocking(Box::new(move || runtime.block_on(all.run(attempt, inner))))
        })
    }

    /// The same step, with these around each attempt.
    pub(super) fn around_step(&self, call: &mut StepCall) {
        let (all, code) = (self.clone(), call.code.clone());
        let attempt = Attempt {
            kind: AttemptKind::Step,
            name: call.name.as_str().into(),
            ctx: None,
            input: Payload::null(),
            headers: call.headers.clone(),
        };
        let wrapped: StepCode = Arc::new(move || {
            let code = code.clone();
            all.run(attempt.clone(), move |_| code())
        });
        call.code = wrapped;
    }
}

/// A body as a future: blocking code is polled on its own thread only.
fn polled(body: Body) -> AttemptFuture {
    match body {
        Body::Async(future) => future,
        Body::Blocking(work) => Box::pin(async move { work() }),
    }
}
