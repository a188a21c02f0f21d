//! Waiting for whatever comes first. `outlast::select!` goes in the order of declaration, so a
//! replay picks the same winner; what was not waited for is dropped, and dropping cancels.

#![allow(clippy::print_stdout, reason = "an example talks to its reader")]

use outlast::prelude::*;

const ANSWER: Signal<String> = signal("answer");

#[activity]
async fn remind(attempt: u32) -> Result<()> {
    println!("reminder {attempt}");
    Ok(())
}

/// Asks three times, then gives up. `patience` is in milliseconds, to be quick here; a real one
/// may be days, across any number of restarts.
#[workflow]
async fn ask(ctx: Ctx, patience: u64) -> Result<String> {
    for attempt in 1..=3 {
        ctx.run(remind, attempt).await?;
        outlast::select! {
            answer = ctx.recv(ANSWER) => return Ok(format!("answer: {}", answer?)),
            slept = ctx.sleep(patience.millis()) => slept?,
        }
    }
    Ok("no answer".into())
}

/// The short form: any call, and any block, takes a time limit.
#[workflow]
async fn ask_once(ctx: Ctx, patience: u64) -> Result<String> {
    match ctx.recv(ANSWER).timeout(patience.millis()).await {
        Ok(answer) => Ok(format!("answer: {answer}")),
        Err(late) if late.is_timeout() => Ok("too late".into()),
        Err(other) => Err(other.into()),
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let builder = Outlast::sqlite("select_with_timeout.db").activity(remind);
    let app = builder.workflow(ask).workflow(ask_once).start().await?;

    println!("{}", app.run(ask, 50).await?);
    println!("{}", app.run(ask_once, 50).await?);

    let patient = app.start(ask_once, 60_000).await?;
    patient.send(ANSWER, "yes").await?;
    println!("{}", patient.result().await?);
    app.shutdown().await.into_result()
}

#[cfg(test)]
mod tests {
    use super::*;

    const WEEK: u64 = 7 * 24 * 3_600_000;

    #[outlast::test]
    async fn three_weeks_without_an_answer_take_no_time_here(env: TestEnv) -> Result<()> {
        let app = env.workflow(ask).mock(remind, |_| Ok(())).start().await;
        assert_eq!(app.run(ask, WEEK).await?, "no answer");
        Ok(())
    }

    #[outlast::test]
    async fn an_answer_ends_the_waiting(env: TestEnv) -> Result<()> {
        let app = env.workflow(ask).mock(remind, |_| Ok(())).start().await;
        let run = app.start(ask, WEEK).await?;
        run.send(ANSWER, "no").await?;
        assert_eq!(run.result().await?, "answer: no");
        Ok(())
    }
}
