//! The interceptors of one instance, as the runtime calls them.

use std::cell::Cell;
use std::rc::{Rc, Weak};
use std::sync::Arc;

use outlast_model::command::ContinueAsNew;
use outlast_model::event::{Started, UpdateRequest};
use outlast_model::job::SignalMessage;
use outlast_model::task::Query;
use outlast_model::{Failure, Payload};
use outlast_runtime::intercept::{Call, Intercept};
use outlast_runtime::{
    Context, HandlerFuture, MainFuture, Program, QueryHandler, SignalHandler, UpdateCode,
    UpdateFuture, UpdateValidator,
};

use super::inbound::{ExecuteNext, QueryNext, SignalNext, UpdateNext, ValidateNext};
use super::{Attempts, Interceptors, WorkflowInterceptor};
use crate::ctx::Ctx;
use crate::erase::AnyProgram;

/// The same workflow, with interceptors around each of its instances.
pub(super) fn around(
    program: AnyProgram,
    interceptors: Interceptors,
    attempts: Option<Attempts>,
) -> AnyProgram {
    Arc::new(Intercepted {
        program,
        interceptors,
        attempts,
    })
}

struct Intercepted {
    program: AnyProgram,
    interceptors: Interceptors,
    attempts: Option<Attempts>,
}

impl Program for Intercepted {
    fn start(&self, ctx: Context, started: &Started) -> Result<MainFuture, Failure> {
        let links = self.interceptors.of_run();
        if links.is_empty() && self.attempts.is_none() {
            return self.program.start(ctx, started);
        }
        let chain = Rc::new_cyclic(|me| Chain {
            me: me.clone(),
            links,
            attempts: self.attempts.clone(),
            from: Cell::new(0),
        });
        ctx.intercept_with(chain.clone());
        ExecuteNext::begin(chain, ctx, &*self.program, started)
    }
}

/// The interceptors of one instance, outermost first.
pub(super) struct Chain {
    me: Weak<Self>,
    links: Rc<[Rc<dyn WorkflowInterceptor>]>,
    attempts: Option<Attempts>,
    /// Where outgoing calls begin: behind whoever is looking at one.
    from: Cell<usize>,
}

impl Chain {
    pub(super) fn link(&self, at: usize) -> Option<Rc<dyn WorkflowInterceptor>> {
        self.links.get(at).cloned()
    }

    /// Shows something that leaves to all, in order.
    fn show(&self, mut look: impl FnMut(&dyn WorkflowInterceptor)) {
        let reset = Reset(&self.from, self.from.get());
        for (at, link) in self.links.iter().enumerate().skip(reset.1) {
            self.from.set(at + 1);
            look(&**link);
        }
    }

    pub(super) fn continue_as_new(&self, ctx: Ctx, next: &mut ContinueAsNew) {
        self.show(|link| link.continue_as_new(ctx, next));
    }

    fn shared(&self) -> Rc<Self> {
        // It is alive: this is a method of it.
        self.me
            .upgrade()
            .unwrap_or_else(|| unreachable!("called on a chain that is gone"))
    }
}

/// Puts the place back, also when an interceptor panics.
struct Reset<'a>(&'a Cell<usize>, usize);

impl Drop for Reset<'_> {
    fn drop(&mut self) {
        self.0.set(self.1);
    }
}

impl Intercept for Chain {
    fn signal(&self, ctx: Context, signal: SignalMessage, handler: SignalHandler) -> HandlerFuture {
        SignalNext::new(self.shared(), ctx, handler).run(signal)
    }

    fn received(&self, ctx: Context, signal: &mut SignalMessage) {
        for link in &*self.links {
            link.received(Ctx::new(ctx), signal);
        }
    }

    fn query(
        &self,
        ctx: Context,
        query: Query,
        handler: &QueryHandler,
    ) -> Result<Payload, Failure> {
        QueryNext::new(self, ctx, handler).run(query)
    }

    fn validate(
        &self,
        ctx: Context,
        request: UpdateRequest,
        validator: Option<&UpdateValidator>,
    ) -> Result<(), Failure> {
        ValidateNext::new(self, ctx, validator).run(request)
    }

    fn update(&self, ctx: Context, request: UpdateRequest, code: UpdateCode) -> UpdateFuture {
        UpdateNext::new(self.shared(), ctx, code).run(request)
    }

    fn call(&self, ctx: Context, call: Call<'_>) {
        let ctx = Ctx::new(ctx);
        match call {
            Call::Activity(call) => self.show(|link| link.activity(ctx, call)),
            Call::Timer(delay) => self.show(|link| link.timer(ctx, delay)),
            Call::Child(call) => self.show(|link| link.child(ctx, call)),
            Call::Signal(call) => self.show(|link| link.signal_external(ctx, call)),
            Call::Cancel(call) => self.show(|link| link.cancel_external(ctx, call)),
            Call::Step(call) => {
                self.show(|link| link.step(ctx, call));
                if let Some(attempts) = &self.attempts {
                    attempts.around_step(call);
                }
            }
        }
    }
}
