//! Interceptors that do more than look: they change what passes, and ask for things of their own.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use outlast::intercept::*;
use outlast::model::EventKind;
use outlast::prelude::*;
use outlast::testing::replay;
use outlast::{FailureTrace, Payload};

use crate::support::{cached, drive, names};

#[activity]
async fn audit(what: String) -> Result<()> {
    drop(what);
    Ok(())
}

#[activity]
async fn add(n: u64) -> Result<u64> {
    Ok(n + 1)
}

#[workflow]
async fn sums(ctx: Ctx, n: u64) -> Result<u64> {
    let both = (ctx.run(add, n), ctx.run(add, n + 10));
    Ok(both.0.await? + both.1.await?)
}

/// Has every activity written down by an activity, ahead of it, and counts them in the run.
#[derive(Default)]
struct Audit {
    calls: Cell<u64>,
}

struct Audits;

impl Interceptor for Audits {
    fn workflow(&self) -> Option<Rc<dyn WorkflowInterceptor>> {
        Some(Rc::new(Audit::default()))
    }
}

impl WorkflowInbound for Audit {}

impl WorkflowOutbound for Audit {
    fn activity(&self, ctx: Ctx, call: &mut ActivityCall) {
        self.calls.set(self.calls.get() + 1);
        let text = format!("{} of {}", self.calls.get(), call.activity_type);
        ctx.run(audit, text).detach();
    }
}

#[test]
fn its_own_calls_are_commands_ahead_of_the_call_and_replay_the_same() {
    drive(async {
        for runs in [1_000, 0] {
            let env = TestEnv::new().activity(add).activity(audit).workflow(sums);
            let env = env.interceptor(Audits).settings(cached(runs));
            let app = env.start().await;
            let run = app.start(sums, 1).await.expect("it starts");
            assert_eq!(run.result().await.expect("it ends"), 14);
            let history = run.history().await.expect("it has a history");
            let asked: Vec<String> = history
                .iter()
                .filter_map(|event| {
                    let EventKind::ActivityScheduled(activity) = &event.kind else {
                        return None;
                    };
                    Some(format!("{} {}", activity.seq, activity.activity_type))
                })
                .collect();
            assert_eq!(asked, ["1 audit", "2 add", "3 audit", "4 add"]);
            let failed = names(&history)
                .iter()
                .filter(|name| name.contains("Failed"))
                .count();
            assert_eq!(failed, 0);
            let told = replay(sums, &history).expect_err("nobody asks for the audit");
            assert!(told.to_string().contains("audit"), "{told}");
            let again = TestEnv::new().interceptor(Audits).replay(sums, &history);
            again.expect("the same code, with the same around it");
        }
    });
}

/// Adds a hundred to whatever goes in, on its side.
#[derive(Clone)]
struct Hundred;

impl Hundred {
    fn more(input: &Payload) -> Payload {
        let n: u64 = input.decode().expect("a number");
        Payload::encode(&(n + 100)).expect("a number")
    }
}

impl Interceptor for Hundred {
    fn client(&self) -> Option<Arc<dyn ClientInterceptor>> {
        Some(Arc::new(Self))
    }

    fn workflow(&self) -> Option<Rc<dyn WorkflowInterceptor>> {
        Some(Rc::new(Self))
    }

    fn activity(&self) -> Option<Arc<dyn ActivityInterceptor>> {
        Some(Arc::new(Self))
    }
}

impl ClientInterceptor for Hundred {
    fn start(&self, mut start: StartRequest, next: Next) -> Answer<StartReply> {
        start.input = Self::more(&start.input);
        next.start(start)
    }
}

impl WorkflowInbound for Hundred {
    fn execute(
        &self,
        _: Ctx,
        mut call: Execute,
        next: ExecuteNext<'_>,
    ) -> Result<MainFuture, FailureTrace> {
        call.input = Self::more(&call.input);
        let main = next.run(call)?;
        Ok(Box::pin(async move {
            let outcome = main.await;
            if let MainOutcome::Completed(result) = &outcome {
                return MainOutcome::Completed(Self::more(result));
            }
            outcome
        }))
    }
}

impl WorkflowOutbound for Hundred {
    fn activity(&self, _: Ctx, call: &mut ActivityCall) {
        call.input = Self::more(&call.input);
    }
}

impl ActivityInterceptor for Hundred {
    fn execute(&self, mut attempt: Attempt, next: AttemptNext) -> AttemptFuture {
        attempt.input = Self::more(&attempt.input);
        let attempt = next.run(attempt);
        Box::pin(async move {
            let outcome = attempt.await;
            if let AttemptResult::Completed(result) = &outcome {
                return AttemptResult::Completed(Self::more(result));
            }
            outcome
        })
    }
}

#[workflow]
async fn passes(ctx: Ctx, n: u64) -> Result<u64> {
    Ok(ctx.run(add, n).await?)
}

#[test]
fn inputs_and_results_may_be_changed_on_every_side() {
    drive(async {
        let env = TestEnv::new().activity(add).workflow(passes);
        let app = env.interceptor(Hundred).start().await;
        // Start, execute, activity, attempt, its result, the run's result; and the one of `add`.
        assert_eq!(app.run(passes, 0).await.expect("it ends"), 601);
    });
}

/// Turns away whoever brings no ticket.
#[derive(Clone)]
struct Doorman;

impl Interceptor for Doorman {
    fn workflow(&self) -> Option<Rc<dyn WorkflowInterceptor>> {
        Some(Rc::new(Self))
    }
}

impl WorkflowInbound for Doorman {
    fn validate(
        &self,
        _: Ctx,
        update: UpdateRequest,
        next: ValidateNext<'_>,
    ) -> Result<(), FailureTrace> {
        match update.headers.get("ticket") {
            Some(_) => next.run(update),
            None => Err(FailureTrace::application(
                "NoTicket",
                "where is your ticket?",
            )),
        }
    }
}

impl WorkflowOutbound for Doorman {}

#[derive(Default)]
struct Door {
    guests: u64,
}

#[workflow]
impl Door {
    async fn run(ctx: Ctx<Self>) -> Result<u64> {
        ctx.wait_until(|door| door.guests > 0).await?;
        Ok(ctx.read(|door| door.guests))
    }

    #[update]
    fn enter(&mut self) -> u64 {
        self.guests += 1;
        self.guests
    }
}

#[test]
fn an_update_without_a_validator_can_be_turned_away() {
    drive(async {
        let env = TestEnv::new().workflow(Door::run).interceptor(Doorman);
        let app = env.start().await;
        let door = app.start(Door::run, ()).await.expect("it starts");
        let error = door.enter().await.expect_err("it is turned away");
        assert!(
            error.to_string().contains("where is your ticket?"),
            "{error}"
        );
        let mut headers = outlast::Headers::new();
        headers.write("ticket", "7").expect("text serialises");
        let entered = door.enter().headers(headers).await;
        assert_eq!(entered.expect("it is accepted"), 1);
        assert_eq!(door.result().await.expect("it ends"), 1);
    });
}
