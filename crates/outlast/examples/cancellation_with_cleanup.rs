//! A cancel arrives where the code waits, as an error; clean-up is ordinary code behind it.
//!
//! After the cancel every new call would be cancelled at once, so that code which does not care
//! ends quickly. What must still happen goes into a shield.

#![allow(clippy::print_stdout, reason = "an example talks to its reader")]

use outlast::prelude::*;

#[activity]
async fn reserve(room: u32) -> Result<String> {
    println!("room {room} is reserved");
    Ok(format!("key of room {room}"))
}

#[activity]
async fn give_back(key: String) -> Result<()> {
    println!("{key} is back");
    Ok(())
}

#[workflow]
async fn stay(ctx: Ctx, room: u32) -> Result<String> {
    // Half a reservation helps nobody: this call is out of reach of a cancel.
    let key = ctx.run(reserve, room).shielded().await?;
    match ctx.sleep(14.days()).await {
        Ok(()) => Ok(format!("room {room}: a fine stay")),
        Err(cancelled) => {
            // Durable work after the cancel; for a whole block there is `ctx.shield`.
            ctx.run(give_back, key).shielded().await?;
            // The error goes on, so the run ends as cancelled.
            Err(cancelled.into())
        }
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let builder = Outlast::sqlite("cancellation_with_cleanup.db");
    let builder = builder.activity(reserve).activity(give_back);
    let app = builder.workflow(stay).start().await?;

    let run = app.start(stay, 12).await?;
    run.cancel().await?;
    let ended = run.result().await;
    println!("cancelled: {}", ended.is_err_and(|e| e.is_cancelled()));
    app.shutdown().await.into_result()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[outlast::test]
    async fn nobody_asks_for_the_key_after_a_full_stay(env: TestEnv) -> Result<()> {
        let env = env.workflow(stay).mock(reserve, |_| Ok("key".into()));
        let env = env.mock(give_back, |_| panic!("no clean-up here"));
        let text = env.start().await.run(stay, 1).await?;
        assert_eq!(text, "room 1: a fine stay");
        Ok(())
    }

    #[outlast::test]
    async fn a_cancelled_stay_gives_the_key_back(env: TestEnv) -> Result<()> {
        let env = env.workflow(stay).activity(reserve).activity(give_back);
        let app = env.start().await;
        let run = app.start(stay, 1).await?;
        run.cancel().await?;
        assert!(run.result().await.is_err_and(|e| e.is_cancelled()));
        let history = run.history().await?;
        let done = |event: &&outlast::model::Event| event.kind.name() == "ActivityTaskCompleted";
        assert_eq!(history.iter().filter(done).count(), 2);
        Ok(())
    }
}
