//! Around what reaches workflow code.
//!
//! Each stage is a plain function that returns what the code returns: a future where that is
//! one. `next` gives the inner future, which an interceptor may wrap. The stage of main is over
//! before main's first poll: handlers must stand before the first message comes.

use std::fmt;
use std::rc::Rc;

use outlast_model::event::{Started, UpdateRequest};
use outlast_model::job::SignalMessage;
use outlast_model::task::Query;
use outlast_model::{Headers, Payload, WorkflowType};
use outlast_runtime::{
    Context, HandlerFuture, MainFuture, MainOutcome, Program, QueryHandler, SignalHandler,
    UpdateCode, UpdateFuture, UpdateValidator,
};

use super::instance::Chain;
use crate::ctx::Ctx;
use crate::failure::FailureTrace;

/// Code around what reaches workflow code. The defaults pass on.
pub trait WorkflowInbound: 'static {
    /// The run begins, or is built again.
    ///
    /// # Errors
    /// The input cannot be read: the workflow task fails, not the run.
    fn execute(
        &self,
        _ctx: Ctx,
        call: Execute,
        next: ExecuteNext<'_>,
    ) -> Result<MainFuture, FailureTrace> {
        next.run(call)
    }

    /// A signal reaches its handler. Called in the handler's own task.
    fn signal(&self, _ctx: Ctx, signal: SignalMessage, next: SignalNext) -> HandlerFuture {
        next.run(signal)
    }

    /// A signal is taken by `recv`.
    fn received(&self, _ctx: Ctx, _signal: &mut SignalMessage) {}

    /// A question reaches its handler. It only reads.
    ///
    /// # Errors
    /// What the answer is instead.
    fn query(&self, _ctx: Ctx, query: Query, next: QueryNext<'_>) -> Result<Payload, FailureTrace> {
        next.run(query)
    }

    /// An update is judged, whether or not it has a validator. It only reads, and is not asked on
    /// replay. Whoever changes the content here changes it in [`update`](Self::update) as well.
    ///
    /// # Errors
    /// Why the update is turned away.
    fn validate(
        &self,
        _ctx: Ctx,
        update: UpdateRequest,
        next: ValidateNext<'_>,
    ) -> Result<(), FailureTrace> {
        next.run(update)
    }

    /// An accepted update reaches its handler.
    fn update(&self, _ctx: Ctx, update: UpdateRequest, next: UpdateNext) -> UpdateFuture {
        next.run(update)
    }
}

/// The beginning of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Execute {
    workflow_type: WorkflowType,
    /// Its input.
    pub input: Payload,
    /// What came with it, for those further in; `ctx.headers()` is what is recorded.
    pub headers: Headers,
}

impl Execute {
    /// The registered name.
    pub fn workflow_type(&self) -> &WorkflowType {
        &self.workflow_type
    }
}

/// The next interceptor, and in the end main.
pub struct ExecuteNext<'a> {
    chain: Rc<Chain>,
    at: usize,
    ctx: Context,
    program: &'a dyn Program,
    started: &'a Started,
}

impl<'a> ExecuteNext<'a> {
    pub(super) fn begin(
        chain: Rc<Chain>,
        ctx: Context,
        program: &'a dyn Program,
        started: &'a Started,
    ) -> Result<MainFuture, FailureTrace> {
        let call = Execute {
            workflow_type: started.workflow_type.clone(),
            input: started.input.clone(),
            headers: started.headers.clone(),
        };
        let next = Self {
            chain,
            at: 0,
            ctx,
            program,
            started,
        };
        next.run(call)
    }

    /// Creates main, not yet polled.
    ///
    /// # Errors
    /// The input cannot be read.
    pub fn run(mut self, call: Execute) -> Result<MainFuture, FailureTrace> {
        if let Some(link) = self.chain.link(self.at) {
            self.at += 1;
            return link.execute(Ctx::new(self.ctx), call, self);
        }
        let started = Started {
            input: call.input,
            headers: call.headers,
            ..self.started.clone()
        };
        let main = self.program.start(self.ctx, &started)?;
        let (chain, ctx) = (self.chain, self.ctx);
        Ok(Box::pin(async move {
            let mut outcome = main.await;
            if let MainOutcome::ContinueAsNew(next) = &mut outcome {
                chain.continue_as_new(Ctx::new(ctx), next);
            }
            outcome
        }))
    }
}

/// The next interceptor, and in the end the handler of a signal.
pub struct SignalNext {
    chain: Rc<Chain>,
    at: usize,
    ctx: Context,
    handler: SignalHandler,
}

impl SignalNext {
    pub(super) fn new(chain: Rc<Chain>, ctx: Context, handler: SignalHandler) -> Self {
        let at = 0;
        Self {
            chain,
            at,
            ctx,
            handler,
        }
    }

    /// Calls the handler.
    pub fn run(mut self, signal: SignalMessage) -> HandlerFuture {
        match self.chain.link(self.at) {
            Some(link) => {
                self.at += 1;
                link.signal(Ctx::new(self.ctx), signal, self)
            }
            None => (self.handler)(self.ctx, signal.input),
        }
    }
}

/// The next interceptor, and in the end the handler of an update.
pub struct UpdateNext {
    chain: Rc<Chain>,
    at: usize,
    ctx: Context,
    code: UpdateCode,
}

impl UpdateNext {
    pub(super) fn new(chain: Rc<Chain>, ctx: Context, code: UpdateCode) -> Self {
        let at = 0;
        Self {
            chain,
            at,
            ctx,
            code,
        }
    }

    /// Calls the handler.
    pub fn run(mut self, update: UpdateRequest) -> UpdateFuture {
        match self.chain.link(self.at) {
            Some(link) => {
                self.at += 1;
                link.update(Ctx::new(self.ctx), update, self)
            }
            None => (self.code)(self.ctx, update),
        }
    }
}

/// The next interceptor, and in the end the handler of a question.
pub struct QueryNext<'a> {
    chain: &'a Chain,
    at: usize,
    ctx: Context,
    handler: &'a QueryHandler,
}

impl<'a> QueryNext<'a> {
    pub(super) fn new(chain: &'a Chain, ctx: Context, handler: &'a QueryHandler) -> Self {
        let at = 0;
        Self {
            chain,
            at,
            ctx,
            handler,
        }
    }

    /// Calls the handler.
    ///
    /// # Errors
    /// What it says.
    pub fn run(mut self, query: Query) -> Result<Payload, FailureTrace> {
        match self.chain.link(self.at) {
            Some(link) => {
                self.at += 1;
                link.query(Ctx::new(self.ctx), query, self)
            }
            None => (self.handler)(self.ctx, &query),
        }
    }
}

/// The next interceptor, and in the end the validator of an update.
pub struct ValidateNext<'a> {
    chain: &'a Chain,
    at: usize,
    ctx: Context,
    validator: Option<&'a UpdateValidator>,
}

impl<'a> ValidateNext<'a> {
    pub(super) fn new(
        chain: &'a Chain,
        ctx: Context,
        validator: Option<&'a UpdateValidator>,
    ) -> Self {
        let at = 0;
        Self {
            chain,
            at,
            ctx,
            validator,
        }
    }

    /// Calls the validator; without one, every update may run.
    ///
    /// # Errors
    /// Why it may not.
    pub fn run(mut self, update: UpdateRequest) -> Result<(), FailureTrace> {
        match (self.chain.link(self.at), self.validator) {
            (Some(link), _) => {
                self.at += 1;
                link.validate(Ctx::new(self.ctx), update, self)
            }
            (None, Some(validator)) => validator(self.ctx, &update),
            (None, None) => Ok(()),
        }
    }
}

macro_rules! opaque {
    ($($name:literal $next:ty),*) => {$(
        impl fmt::Debug for $next {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str($name)
            }
        }
    )*};
}

opaque!(
    "ExecuteNext" ExecuteNext<'_>,
    "SignalNext" SignalNext,
    "UpdateNext" UpdateNext,
    "QueryNext" QueryNext<'_>,
    "ValidateNext" ValidateNext<'_>
);
