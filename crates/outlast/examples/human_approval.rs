//! A person decides: the workflow waits for a promise, for days if need be, and whoever has its
//! token settles it. The first answer counts.

#![allow(clippy::print_stdout, reason = "an example talks to its reader")]

use outlast::prelude::*;
use tokio::sync::mpsc;

/// Where the mails go; a real one would be a mail server.
type Mails = mpsc::UnboundedSender<String>;

#[activity]
async fn ask_the_boss(State(mails): State<Mails>, token: String) -> Result<()> {
    // The token fits into a URL: `https://example.com/approve?token=..`.
    Ok(mails.send(token)?)
}

#[workflow]
async fn expense(ctx: Ctx, cents: u64) -> Result<String> {
    let decision = ctx.promise::<bool>();
    ctx.run(ask_the_boss, decision.token()).await?;
    match decision.timeout(3.days()).await {
        Ok(true) => Ok(format!("{cents} cents are paid")),
        Ok(false) => Ok("declined".into()),
        // `reject` makes the wait an error.
        Err(CallError::Failed(why, _)) => Ok(format!("the boss cannot say: {why}")),
        Err(late) if late.is_timeout() => Ok("nobody answered in three days".into()),
        Err(other) => Err(other.into()),
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let (mails, mut inbox) = mpsc::unbounded_channel();
    let builder = Outlast::sqlite("human_approval.db").state(mails);
    let builder = builder.activity(ask_the_boss).workflow(expense);
    let app = builder.start().await?;

    let run = app.start(expense, 900).await?;
    let token = inbox.recv().await.ok_or("no mail")?;
    app.resolve_token(&token, true).await?;
    println!("{}", run.result().await?);

    let run = app.start(expense, 1_000_000).await?;
    let token = inbox.recv().await.ok_or("no mail")?;
    app.reject_token(&token, "ask again next year").await?;
    println!("{}", run.result().await?);
    app.shutdown().await.into_result()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[outlast::test]
    async fn nobody_answers(env: TestEnv) -> Result<()> {
        let env = env.workflow(expense).mock(ask_the_boss, |_| Ok(()));
        let text = env.start().await.run(expense, 1).await?;
        assert_eq!(text, "nobody answered in three days");
        Ok(())
    }

    #[outlast::test]
    async fn the_first_answer_counts(env: TestEnv) -> Result<()> {
        let (mails, mut inbox) = mpsc::unbounded_channel();
        let env = env.state(mails).activity(ask_the_boss).workflow(expense);
        let app = env.start().await;
        let run = app.start(expense, 5).await?;
        let token = inbox.recv().await.ok_or("no mail")?;
        app.resolve_token(&token, false).await?;
        assert!(app.resolve_token(&token, true).await.is_err());
        assert_eq!(run.result().await?, "declined");
        Ok(())
    }
}
