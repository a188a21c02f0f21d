//! Everything that may be put around user code, panicking: interceptors of all kinds, suppliers of
//! slots.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use outlast::intercept::*;
use outlast::prelude::*;
use outlast::{Ask, FailureTrace, Payload, Permit, SlotSupplier};

use crate::fuse::{Bomb, blow};

/// Panics in every stage.
pub(crate) struct Broken;

impl Interceptor for Broken {
    fn client(&self) -> Option<Arc<dyn ClientInterceptor>> {
        Some(Arc::new(Broken))
    }

    fn workflow(&self) -> Option<Rc<dyn WorkflowInterceptor>> {
        blow("around: new instance");
        Some(Rc::new(OfRun(Bomb("destructor of an interceptor"))))
    }

    fn activity(&self) -> Option<Arc<dyn ActivityInterceptor>> {
        Some(Arc::new(Broken))
    }
}

impl ClientInterceptor for Broken {
    fn start(&self, start: StartRequest, next: Next) -> Answer<StartReply> {
        blow("client: start");
        next.start(start)
    }

    fn signal(&self, run: RunRef, signal: SignalRequest, next: Next) -> Answer<()> {
        blow("client: signal");
        next.signal(run, signal)
    }

    fn update(
        &self,
        run: RunRef,
        update: UpdateRequest,
        stage: UpdateStage,
        next: Next,
    ) -> Answer<UpdateReply> {
        blow("client: update");
        next.update(run, update, stage)
    }

    fn query(&self, run: RunRef, query: QueryRequest, next: Next) -> Answer<Payload> {
        blow("client: query");
        next.query(run, query)
    }

    fn result(&self, run: RunRef, next: Next) -> Answer<RunOutcome> {
        Box::pin(async move {
            blow("client: result");
            next.result(run).await
        })
    }
}

/// Around one run.
struct OfRun(#[expect(dead_code, reason = "it is there to be dropped")] Bomb);

impl WorkflowInbound for OfRun {
    fn execute(
        &self,
        _: Ctx,
        call: Execute,
        next: ExecuteNext<'_>,
    ) -> Result<MainFuture, FailureTrace> {
        blow("around: execute");
        let main = next.run(call)?;
        Ok(Box::pin(async move {
            blow("around: main");
            let outcome = main.await;
            blow("around: end of main");
            outcome
        }))
    }

    fn signal(&self, _: Ctx, signal: SignalMessage, next: SignalNext) -> HandlerFuture {
        blow("around: signal");
        next.run(signal)
    }

    fn received(&self, _: Ctx, _: &mut SignalMessage) {
        blow("around: received");
    }

    fn query(
        &self,
        _: Ctx,
        query: QueryRequest,
        next: QueryNext<'_>,
    ) -> Result<Payload, FailureTrace> {
        blow("around: query");
        next.run(query)
    }

    fn validate(
        &self,
        _: Ctx,
        update: UpdateRequest,
        next: ValidateNext<'_>,
    ) -> Result<(), FailureTrace> {
        blow("around: validate");
        next.run(update)
    }

    fn update(&self, _: Ctx, update: UpdateRequest, next: UpdateNext) -> UpdateFuture {
        blow("around: update");
        next.run(update)
    }
}

impl WorkflowOutbound for OfRun {
    fn activity(&self, _: Ctx, _: &mut ActivityCall) {
        blow("around: activity");
    }

    fn step(&self, _: Ctx, _: &mut StepCall) {
        blow("around: step");
    }

    fn child(&self, _: Ctx, _: &mut ChildCall) {
        blow("around: child");
    }

    fn signal_external(&self, _: Ctx, _: &mut SignalCall) {
        blow("around: signal to another");
    }

    fn cancel_external(&self, _: Ctx, _: &mut CancelCall) {
        blow("around: cancel of another");
    }

    fn timer(&self, _: Ctx, _: &mut Duration) {
        blow("around: timer");
    }

    fn continue_as_new(&self, _: Ctx, _: &mut ContinueAsNew) {
        blow("around: continue as new");
    }
}

impl ActivityInterceptor for Broken {
    fn execute(&self, attempt: Attempt, next: AttemptNext) -> AttemptFuture {
        match attempt.kind() {
            AttemptKind::Activity => blow("around: attempt"),
            AttemptKind::Step => blow("around: attempt of a step"),
        }
        next.run(attempt)
    }

    fn heartbeat(&self, _: &ActivityCtx, _: &mut Payload) {
        blow("around: heartbeat");
    }
}

/// Grants everything, when it does not panic.
#[derive(Clone, Default)]
pub(crate) struct Slots(Arc<AtomicUsize>);

impl Slots {
    pub(crate) fn out(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl SlotSupplier for Slots {
    fn take(&self, _: &Ask<'_>) -> Permit {
        blow("slots: take");
        self.0.fetch_add(1, Ordering::SeqCst);
        Permit::Taken
    }

    fn give(&self, _: &Ask<'_>) {
        self.0.fetch_sub(1, Ordering::SeqCst);
        blow("slots: give");
    }
}
