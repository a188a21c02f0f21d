//! Updates: messages with an answer. A validator may turn one away before anything is recorded;
//! one that was accepted gets its answer, whatever crashes in between.

#![allow(clippy::print_stdout, reason = "an example talks to its reader")]

use outlast::prelude::*;
use serde::{Deserialize, Serialize};

#[derive(Default)]
struct Account {
    cents: u64,
    is_closed: bool,
}

/// Why a withdrawal is turned away. `Failure` keeps the type on its way through the record.
#[derive(Debug, thiserror::Error, Serialize, Deserialize, Failure)]
#[error("{asked} cents are more than the {cents} there are")]
struct TooMuch {
    asked: u64,
    cents: u64,
}

#[activity]
async fn pay_out(cents: u64) -> Result<String> {
    Ok(format!("transfer of {cents} cents"))
}

#[workflow]
impl Account {
    // The state before the first message; without `#[init]` it is `Default`.
    #[init]
    fn open(cents: &u64) -> Self {
        Self {
            cents: *cents,
            is_closed: false,
        }
    }

    async fn run(ctx: Ctx<Self>, _opened_with: u64) -> Result<u64> {
        ctx.wait_until(|account| account.is_closed).await?;
        Ok(ctx.read(|account| account.cents))
    }

    // Runs before the update it is named after, and only looks.
    #[validator(withdraw)]
    fn can_withdraw(&self, asked: &u64) -> Result<(), TooMuch> {
        let (asked, cents) = (*asked, self.cents);
        if asked > cents {
            return Err(TooMuch { asked, cents });
        }
        Ok(())
    }

    // It waits, so it takes the context instead of `self`.
    #[update]
    async fn withdraw(ctx: Ctx<Self>, asked: u64) -> Result<String> {
        ctx.with(|account| account.cents -= asked);
        Ok(ctx.run(pay_out, asked).await?)
    }

    // It does not wait: a plain method.
    #[update]
    fn close(&mut self) -> u64 {
        self.is_closed = true;
        self.cents
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let builder = Outlast::sqlite("updates_with_validation.db");
    let builder = builder.activity(pay_out).workflow(Account::run);
    let app = builder.start().await?;
    let account = app.start(Account::run, 500).await?;

    println!("{}", account.withdraw(300).await?);

    // Turned away: `find` gives the typed reason back.
    if let Err(refused) = account.withdraw(300).await {
        let reason = refused.find::<TooMuch>();
        println!("refused: {}", reason.ok_or("no reason")?);
    }

    // The same id is the same update: done once, answered twice.
    for _ in 0..2 {
        println!("{}", account.withdraw(50).id("rent").await?);
    }
    println!("left: {} cents", account.close().await?);
    app.shutdown().await.into_result()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[outlast::test]
    async fn no_more_is_withdrawn_than_there_is(env: TestEnv) -> Result<()> {
        let env = env.mock(pay_out, |cents| Ok(format!("{cents} paid")));
        let app = env.workflow(Account::run).start().await;
        let account = app.start(Account::run, 100).await?;
        assert_eq!(account.withdraw(60).await?, "60 paid");
        let refused = account.withdraw(60).await;
        assert!(matches!(refused, Err(CallError::Rejected(_))));
        assert_eq!(account.close().await?, 40);
        assert_eq!(account.result().await?, 40);
        Ok(())
    }
}
