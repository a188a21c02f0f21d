//! A panic in an interceptor is a panic in the code it is around.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use outlast::intercept::*;
use outlast::prelude::*;
use outlast::{FailureTrace, Payload};
use tokio::sync::watch;

use crate::support::{drive, until};

/// Panics in one stage, until it is mended.
#[derive(Clone)]
struct Broken {
    stage: &'static str,
    is_broken: Arc<AtomicBool>,
    panicked: watch::Sender<bool>,
}

impl Broken {
    fn at(stage: &'static str) -> Self {
        let is_broken = Arc::new(AtomicBool::new(true));
        let panicked = watch::Sender::new(false);
        Self {
            stage,
            is_broken,
            panicked,
        }
    }

    fn pass(&self, stage: &'static str) {
        let is_here = self.stage == stage && self.is_broken.load(Ordering::SeqCst);
        self.panicked.send_if_modified(|it| {
            *it |= is_here;
            is_here
        });
        assert!(!is_here, "the interceptor is broken at {stage}");
    }

    /// Waits until it has.
    async fn panicked(&self) {
        let mut seen = self.panicked.subscribe();
        let is_so = seen.wait_for(|has_panicked| *has_panicked).await;
        assert!(*is_so.expect("the sender is here"));
    }

    fn mend(&self) {
        self.is_broken.store(false, Ordering::SeqCst);
    }
}

impl Interceptor for Broken {
    fn workflow(&self) -> Option<Rc<dyn WorkflowInterceptor>> {
        self.pass("new instance");
        Some(Rc::new(self.clone()))
    }

    fn activity(&self) -> Option<Arc<dyn ActivityInterceptor>> {
        Some(Arc::new(self.clone()))
    }
}

impl WorkflowInbound for Broken {
    fn execute(
        &self,
        _: Ctx,
        call: Execute,
        next: ExecuteNext<'_>,
    ) -> Result<MainFuture, FailureTrace> {
        // The child is not what is watched here.
        if call.workflow_type().as_str() == "nobody" {
            return next.run(call);
        }
        self.pass("execute");
        let (me, main) = (self.clone(), next.run(call)?);
        Ok(Box::pin(async move {
            me.pass("main");
            let outcome = main.await;
            me.pass("end of main");
            outcome
        }))
    }

    fn signal(&self, _: Ctx, signal: SignalMessage, next: SignalNext) -> HandlerFuture {
        self.pass("signal");
        next.run(signal)
    }

    fn received(&self, _: Ctx, _: &mut SignalMessage) {
        self.pass("received");
    }

    fn query(
        &self,
        _: Ctx,
        query: QueryRequest,
        next: QueryNext<'_>,
    ) -> Result<Payload, FailureTrace> {
        self.pass("query");
        next.run(query)
    }

    fn validate(
        &self,
        _: Ctx,
        update: UpdateRequest,
        next: ValidateNext<'_>,
    ) -> Result<(), FailureTrace> {
        self.pass("validate");
        next.run(update)
    }

    fn update(&self, _: Ctx, update: UpdateRequest, next: UpdateNext) -> UpdateFuture {
        self.pass("update");
        next.run(update)
    }
}

impl WorkflowOutbound for Broken {
    fn activity(&self, _: Ctx, _: &mut ActivityCall) {
        self.pass("activity");
    }

    fn step(&self, _: Ctx, _: &mut StepCall) {
        self.pass("step");
    }

    fn child(&self, _: Ctx, _: &mut ChildCall) {
        self.pass("child");
    }

    fn signal_external(&self, _: Ctx, _: &mut SignalCall) {
        self.pass("signal external");
    }

    fn cancel_external(&self, _: Ctx, _: &mut CancelCall) {
        self.pass("cancel external");
    }

    fn timer(&self, _: Ctx, _: &mut Duration) {
        self.pass("timer");
    }

    fn continue_as_new(&self, _: Ctx, _: &mut ContinueAsNew) {
        self.pass("continue as new");
    }
}

impl ActivityInterceptor for Broken {
    fn execute(&self, attempt: Attempt, next: AttemptNext) -> AttemptFuture {
        match attempt.kind() {
            AttemptKind::Activity => self.pass("attempt"),
            AttemptKind::Step => self.pass("attempt of step"),
        }
        next.run(attempt)
    }

    fn heartbeat(&self, _: &ActivityCtx, _: &mut Payload) {
        self.pass("heartbeat");
    }
}

const READY: Signal<()> = signal("ready");

#[activity]
async fn beat(ctx: ActivityCtx, n: u64) -> Result<u64> {
    ctx.heartbeat(n)?;
    Ok(n)
}

#[activity]
fn slow(n: u64) -> Result<u64> {
    Ok(n)
}

#[workflow]
async fn nobody(_ctx: Ctx) -> Result<()> {
    Ok(())
}

#[derive(Default)]
struct All {
    is_told: bool,
    updates: u64,
}

#[workflow]
impl All {
    async fn run(ctx: Ctx<Self>, round: u64) -> Result<u64> {
        if round == 0 {
            return ctx.continue_as_new(1_u64);
        }
        ctx.wait_until(|all| all.is_told && all.updates > 0).await?;
        ctx.recv(READY).await?;
        let n = ctx.run(beat, 1).await? + ctx.run(slow, 1).await?;
        let n = ctx.step("more", move || async move { Ok(n + 1) }).await?;
        // Asked for and taken back: time stands still until somebody waits for the result.
        drop(ctx.sleep(1.secs()));
        ctx.child(nobody, ()).await?;
        // There is nobody to hear: that is no failure of this run.
        drop(ctx.external("nobody").send(READY, ()).await);
        drop(ctx.external("nobody").cancel().await);
        Ok(n)
    }

    #[signal]
    fn tell(&mut self) {
        self.is_told = true;
    }

    #[query]
    fn is_told(&self) -> bool {
        self.is_told
    }

    #[update]
    fn count(&mut self) -> u64 {
        self.updates += 1;
        self.updates
    }
}

/// Where a panic fails the workflow task: the run waits until the code is mended.
const BLOCKING: [&str; 13] = [
    "new instance",
    "execute",
    "main",
    "end of main",
    "signal",
    "received",
    "update",
    "activity",
    "step",
    "child",
    "signal external",
    "cancel external",
    "timer",
];

async fn start(broken: &Broken) -> outlast::App {
    let env = TestEnv::new().activity(beat).activity(slow);
    let env = env.workflow(All::run).workflow(nobody);
    let env = env.interceptor(broken.clone()).report(|_| ());
    env.start().await
}

/// Says everything the workflow waits for, without waiting for an answer that cannot come.
async fn tell_all(run: &AllHandle) {
    run.tell().request_id("tell").await.expect("it is sent");
    let sent = run.send(READY, ()).request_id("ready").await;
    sent.expect("it is sent");
}

/// The run cannot go on because of the interceptor; then it is mended.
async fn blocked(run: &AllHandle, broken: &Broken) {
    let found = until(run, |d| d.trouble.is_some()).await;
    let (text, stage) = (format!("{:?}", found.trouble), broken.stage);
    assert!(text.contains(&format!("broken at {stage}")), "{text}");
    broken.mend();
    run.retry().await.expect("it is open");
}

#[test]
fn a_panic_around_workflow_code_fails_the_task_and_the_run_goes_on_when_it_is_mended() {
    for stage in BLOCKING {
        drive(async {
            let broken = Broken::at(stage);
            let app = start(&broken).await;
            let start = app.start(All::run, 1).id("all");
            let run = start.await.expect("it starts");
            tell_all(&run).await;
            let update = run.clone();
            let counted = tokio::spawn(async move { update.count().await });
            blocked(&run, &broken).await;
            assert_eq!(counted.await.expect("no panic").expect("it is accepted"), 1);
            assert_eq!(run.result().await.expect("it ends"), 3, "{stage}");
        });
    }
}

#[test]
fn a_panic_around_the_next_run_fails_the_task_of_this_one() {
    drive(async {
        let broken = Broken::at("continue as new");
        let app = start(&broken).await;
        let run = app.start(All::run, 0).id("all").await.expect("it starts");
        blocked(&run, &broken).await;
        let newest = app.get(All::run, "all");
        until(&newest, |d| d.summary.first_run.is_some()).await;
        tell_all(&newest).await;
        assert_eq!(newest.count().await.expect("it is accepted"), 1);
        assert_eq!(run.result().await.expect("it ends"), 3);
    });
}

#[test]
fn a_panic_around_an_attempt_is_its_failure_and_it_is_tried_again() {
    for stage in ["attempt", "attempt of step", "heartbeat"] {
        drive(async {
            let broken = Broken::at(stage);
            let app = start(&broken).await;
            let run = app.start(All::run, 1).await.expect("it starts");
            tell_all(&run).await;
            assert_eq!(run.count().await.expect("it is accepted"), 1);
            broken.panicked().await;
            broken.mend();
            assert_eq!(run.result().await.expect("it ends"), 3, "{stage}");
        });
    }
}

#[test]
fn a_panic_around_a_question_or_a_validator_is_its_answer() {
    drive(async {
        let broken = Broken::at("query");
        let run = start(&broken)
            .await
            .start(All::run, 1)
            .await
            .expect("it starts");
        let error = run.is_told().await.expect_err("the question fails");
        assert!(error.to_string().contains("broken at query"), "{error}");
        broken.mend();
        assert!(!run.is_told().await.expect("it is answered"));
    });
    drive(async {
        let broken = Broken::at("validate");
        let run = start(&broken)
            .await
            .start(All::run, 1)
            .await
            .expect("it starts");
        let error = run.count().await.expect_err("it is turned away");
        assert!(error.to_string().contains("broken at validate"), "{error}");
        broken.mend();
        assert_eq!(run.count().await.expect("it is accepted"), 1);
    });
}
