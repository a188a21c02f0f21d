//! Attempts that somebody outside answers for, by token, around every crash: an answer counts
//! once, what was reported reaches the next attempt, and whoever is too late hears it.

use std::time::Duration;

use outlast::model::view::Waiting;
use outlast::model::{Event, Refusal};
use outlast::prelude::*;
use outlast::testing::replay;
use outlast::{CallError, Description, OpenActivity};

use crate::client::{Ack, Client};
use crate::script::{Env, PAID, Scenario, scenario, script};
use crate::world::World;

pub(crate) const SCENARIOS: &[Scenario] = &[
    scenario(
        "answer by token",
        script!(|client| {
            client.start("answered", "a").await;
            client.until("a", is_outside).await;
            client.report(5).await;
            client.complete("a", 7).await;
            // The second answer, whoever gives it, is too late.
            client.answer_late(8).await;
            client.signal("a", PAID, 1).await;
            client.result("a").await;
        }),
    ),
    scenario(
        "failure by token",
        script!(|client| {
            client.start("reported", "a").await;
            client.until("a", is_outside).await;
            client.report(5).await;
            client.fail().await;
            client.result("a").await;
        }),
    ),
    scenario(
        "report by token, and time out",
        script!(|client| {
            client.start("reported", "a").await;
            client.until("a", is_outside).await;
            client.report(5).await;
            // Nobody answers: time passes while somebody waits for the end.
            client.result("a").await;
        }),
    ),
    scenario(
        "answer by token, too late",
        script!(|client| {
            client.start("hasty", "a").await;
            client.until("a", is_outside).await;
            client.clock.advance(&client.app, 9.days());
            client.signal("a", PAID, 1).await;
            client.result("a").await;
            client.answer_late(8).await;
        }),
    ),
];

fn is_outside(run: &Description) -> bool {
    let is_it = |waiting: &Waiting| matches!(waiting, Waiting::ActivityOutside { .. });
    run.waiting.iter().any(is_it)
}

impl Client {
    /// The attempt whose token was handed out last.
    fn open_activity(&self) -> OpenActivity {
        let token = self.world().token();
        self.app.activity(token.expect("it was handed out"))
    }

    /// Answers; again after a crash, since nobody may have heard of it.
    async fn complete(&self, name: &str, value: u64) {
        self.ask(async || {
            unless_over(self.open_activity().complete(value).await)?;
            let id = self.id(name);
            Ok(Ack::Completed { id, value })
        })
        .await;
    }

    /// Answers an attempt that has ended: what it hears is the answer.
    async fn answer_late(&self, value: u64) {
        self.ask(async || {
            self.open_activity().complete(value).await?;
            Ok(Ack::CountedLate)
        })
        .await;
    }

    async fn fail(&self) {
        self.ask(async || {
            unless_over(self.open_activity().fail("try again").await)?;
            Ok(Ack::Seen)
        })
        .await;
    }

    /// Reports, to the attempt that is open by then: the one that was seen may have been lost
    /// before it was durable that its code had returned. Once it is heard, that is.
    async fn report(&self, details: u64) {
        self.ask(async || {
            loop {
                match self.open_activity().heartbeat(details).await {
                    Err(CallError::Refused(Refusal::AttemptEnded { .. })) => {
                        // Nobody waits for the end of the run: time must be told to pass.
                        self.clock.advance(&self.app, Duration::from_millis(100));
                        tokio::task::yield_now().await;
                    }
                    // The one after it had the report, and ended.
                    Err(CallError::Refused(Refusal::RunClosed { .. })) => return Ok(Ack::Seen),
                    reported => return reported.map(|()| Ack::Seen),
                }
            }
        })
        .await;
    }
}

/// The answer to a repeated answer is that it is over.
fn unless_over(outcome: Result<(), CallError>) -> Result<(), CallError> {
    match outcome {
        Err(CallError::Refused(Refusal::AttemptEnded { .. } | Refusal::RunClosed { .. })) => Ok(()),
        outcome => outcome,
    }
}

pub(crate) fn register(env: Env) -> Env {
    let env = env.activity(approve).activity(goes_on);
    env.workflow(answered).workflow(reported).workflow(hasty)
}

pub(crate) fn replay_as(kind: &str, history: &[Event]) -> Option<Result<()>> {
    Some(match kind {
        "answered" => replay(answered, history),
        "reported" => replay(reported, history),
        "hasty" => replay(hasty, history),
        _ => return None,
    })
}

/// Leaves the answer to somebody else.
#[activity(start_to_close = "9d")]
async fn approve(State(world): State<World>, ctx: ActivityCtx) -> Result<u64> {
    world.act(&ctx);
    let later = ctx.complete_later();
    world.hand_out(later.token().as_str().to_owned());
    Err(later.into())
}

/// The same, unless somebody has reported how far it was.
#[activity(start_to_close = "9d", heartbeat = "2h")]
async fn goes_on(State(world): State<World>, ctx: ActivityCtx) -> Result<u64> {
    world.act(&ctx);
    if let Some(known) = ctx.last_heartbeat() {
        return Ok(known);
    }
    let later = ctx.complete_later();
    world.hand_out(later.token().as_str().to_owned());
    Err(later.into())
}

#[workflow]
async fn answered(ctx: Ctx, _case: String) -> Result<String> {
    let n = ctx.run(approve, ()).await?;
    ctx.recv(PAID).await?;
    Ok(n.to_string())
}

#[workflow]
async fn reported(ctx: Ctx, _case: String) -> Result<String> {
    Ok(ctx.run(goes_on, ()).await?.to_string())
}

/// Does not wait for ever.
#[workflow]
async fn hasty(ctx: Ctx, _case: String) -> Result<String> {
    let call = ctx.run(approve, ()).schedule_to_close(8.days());
    let outcome = call.await;
    ctx.recv(PAID).await?;
    Ok(outcome.is_err_and(|error| error.is_timeout()).to_string())
}
