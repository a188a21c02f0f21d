//! An interceptor that writes down what passes, on all three sides.

use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use outlast::intercept::*;
use outlast::{ActivityCtx, Ctx, Description, Headers, Payload};

/// Who passed what, in order.
#[derive(Clone, Default)]
pub(crate) struct Diary {
    name: &'static str,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Diary {
    /// Another one that writes into the same book.
    pub(crate) fn named(&self, name: &'static str) -> Self {
        let lines = self.lines.clone();
        Self { name, lines }
    }

    pub(crate) fn note(&self, what: &str) {
        let line = format!("{} {what}", self.name);
        self.lines.lock().expect("nobody panics here").push(line);
    }

    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.lines.lock().expect("nobody panics here"))
    }

    pub(crate) fn has(&self, line: &str) -> bool {
        let lines = self.lines.lock().expect("nobody panics here");
        lines.iter().any(|other| other == line)
    }

    /// Everyone who has passed is named, in order.
    fn sign(&self, headers: &mut Headers) {
        let mut names: Vec<String> = headers.read("passed").ok().flatten().unwrap_or_default();
        names.push(self.name.into());
        headers.write("passed", &names).expect("names serialise");
    }
}

impl Interceptor for Diary {
    fn client(&self) -> Option<Arc<dyn ClientInterceptor>> {
        Some(Arc::new(self.clone()))
    }

    fn workflow(&self) -> Option<Rc<dyn WorkflowInterceptor>> {
        Some(Rc::new(self.clone()))
    }

    fn activity(&self) -> Option<Arc<dyn ActivityInterceptor>> {
        Some(Arc::new(self.clone()))
    }
}

impl ClientInterceptor for Diary {
    fn headers(&self, headers: &mut Headers) {
        self.sign(headers);
    }

    fn start(&self, mut start: StartRequest, next: Next) -> Answer<StartReply> {
        self.note("start");
        ClientInterceptor::headers(self, &mut start.headers);
        next.start(start)
    }

    fn signal_with_start(
        &self,
        start: StartRequest,
        signal: SignalRequest,
        next: Next,
    ) -> Answer<StartReply> {
        self.note("signal with start");
        next.signal_with_start(start, signal)
    }

    fn update_with_start(
        &self,
        start: StartRequest,
        update: UpdateRequest,
        stage: UpdateStage,
        next: Next,
    ) -> Answer<(StartReply, UpdateReply)> {
        self.note("update with start");
        next.update_with_start(start, update, stage)
    }

    fn signal(&self, run: RunRef, mut signal: SignalRequest, next: Next) -> Answer<()> {
        self.note("signal");
        self.sign(&mut signal.headers);
        next.signal(run, signal)
    }

    fn update(
        &self,
        run: RunRef,
        mut update: UpdateRequest,
        stage: UpdateStage,
        next: Next,
    ) -> Answer<UpdateReply> {
        self.note("update");
        self.sign(&mut update.headers);
        next.update(run, update, stage)
    }

    fn query(&self, run: RunRef, mut query: QueryRequest, next: Next) -> Answer<Payload> {
        self.note("query");
        self.sign(&mut query.headers);
        next.query(run, query)
    }

    fn cancel(
        &self,
        run: RunRef,
        reason: String,
        request_id: Option<outlast::model::RequestId>,
        next: Next,
    ) -> Answer<()> {
        self.note("cancel");
        next.cancel(run, reason, request_id)
    }

    fn terminate(&self, run: RunRef, reason: String, next: Next) -> Answer<()> {
        self.note("terminate");
        next.terminate(run, format!("{reason}, says {}", self.name))
    }

    fn describe(&self, run: RunRef, next: Next) -> Answer<Description> {
        self.note("describe");
        next.describe(run)
    }

    fn result(&self, run: RunRef, next: Next) -> Answer<RunOutcome> {
        self.note("result");
        let me = self.clone();
        Box::pin(async move {
            let outcome = next.result(run).await;
            me.note("has the result");
            outcome
        })
    }
}

fn passed(headers: &Headers) -> String {
    let names: Option<Vec<String>> = headers.read("passed").expect("names");
    names.unwrap_or_default().join(" ")
}

impl WorkflowInbound for Diary {
    fn execute(
        &self,
        ctx: Ctx,
        call: Execute,
        next: ExecuteNext<'_>,
    ) -> Result<MainFuture, outlast::FailureTrace> {
        let (name, by) = (call.workflow_type().clone(), passed(&ctx.headers()));
        self.note(&format!("begins {name} passed by {by}"));
        let main = next.run(call)?;
        let me = self.clone();
        Ok(Box::pin(async move {
            let outcome = main.await;
            me.note(&format!("ends {name}"));
            outcome
        }))
    }

    fn signal(&self, _: Ctx, signal: SignalMessage, next: SignalNext) -> HandlerFuture {
        self.note(&format!(
            "signal {} passed by {}",
            signal.name,
            passed(&signal.headers)
        ));
        next.run(signal)
    }

    fn received(&self, _: Ctx, signal: &mut SignalMessage) {
        self.note(&format!("received {}", signal.name));
    }

    fn query(
        &self,
        _: Ctx,
        query: QueryRequest,
        next: QueryNext<'_>,
    ) -> Result<Payload, outlast::FailureTrace> {
        self.note(&format!(
            "query {} passed by {}",
            query.name,
            passed(&query.headers)
        ));
        next.run(query)
    }

    fn validate(
        &self,
        _: Ctx,
        update: UpdateRequest,
        next: ValidateNext<'_>,
    ) -> Result<(), outlast::FailureTrace> {
        self.note(&format!("validate {}", update.name));
        next.run(update)
    }

    fn update(&self, _: Ctx, update: UpdateRequest, next: UpdateNext) -> UpdateFuture {
        self.note(&format!(
            "update {} passed by {}",
            update.name,
            passed(&update.headers)
        ));
        next.run(update)
    }
}

impl WorkflowOutbound for Diary {
    fn activity(&self, _: Ctx, call: &mut ActivityCall) {
        self.note(&format!("asks for {}", call.activity_type));
        self.sign(&mut call.headers);
    }

    fn step(&self, _: Ctx, call: &mut StepCall) {
        self.note(&format!("asks for step {}", call.name));
        self.sign(&mut call.headers);
    }

    fn child(&self, _: Ctx, call: &mut ChildCall) {
        self.note(&format!("asks for child {}", call.workflow_type));
        self.sign(&mut call.headers);
    }

    fn signal_external(&self, _: Ctx, call: &mut SignalCall) {
        self.note(&format!("sends {}", call.name));
        self.sign(&mut call.headers);
    }

    fn cancel_external(&self, _: Ctx, call: &mut CancelCall) {
        self.note(&format!("cancels {}", call.target.workflow_id));
    }

    fn timer(&self, _: Ctx, delay: &mut Duration) {
        self.note(&format!("waits {}s", delay.as_secs()));
    }

    fn continue_as_new(&self, _: Ctx, next: &mut ContinueAsNew) {
        self.note("goes on");
        self.sign(&mut next.headers);
    }
}

impl ActivityInterceptor for Diary {
    fn execute(&self, attempt: Attempt, next: AttemptNext) -> AttemptFuture {
        let name = attempt.name().to_owned();
        self.note(&format!(
            "{:?} {name} passed by {}",
            attempt.kind(),
            passed(&attempt.headers)
        ));
        let (me, attempt) = (self.clone(), next.run(attempt));
        Box::pin(async move {
            let result = attempt.await;
            me.note(&format!("{name} is done"));
            result
        })
    }

    fn heartbeat(&self, ctx: &ActivityCtx, _: &mut Payload) {
        self.note(&format!("heartbeat of attempt {}", ctx.attempt()));
    }
}
