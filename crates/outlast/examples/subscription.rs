//! A workflow that may live for years. Each month ends with `continue_as_new`: the run ends, and
//! a new one goes on under the same id, with a short history. Messages that nobody has taken yet
//! go along, and so does whoever waits for the result.

#![allow(clippy::print_stdout, reason = "an example talks to its reader")]

use std::time::Duration;

use outlast::prelude::*;
use serde::{Deserialize, Serialize};

/// What one run hands to the next: all it knows must be in here.
#[derive(Clone, Serialize, Deserialize)]
struct Month {
    number: u32,
    last: u32,
    cents: u64,
    length: Duration,
}

#[activity]
async fn charge(month: Month) -> Result<()> {
    println!("month {}: {} cents", month.number, month.cents);
    Ok(())
}

struct Subscription {
    cents: u64,
    is_stopped: bool,
}

#[workflow]
impl Subscription {
    #[init]
    fn new(month: &Month) -> Self {
        Self {
            cents: month.cents,
            is_stopped: false,
        }
    }

    async fn run(ctx: Ctx<Self>, mut month: Month) -> Result<u32> {
        month.cents = ctx.read(|subscription| subscription.cents);
        ctx.run(charge, &month).await?;

        let stopped = ctx.wait_until(|subscription| subscription.is_stopped);
        match stopped.timeout(month.length).await {
            Err(late) if late.is_timeout() && month.number < month.last => {
                month.number += 1;
                // Again: a signal may have changed it meanwhile.
                month.cents = ctx.read(|subscription| subscription.cents);
                ctx.continue_as_new(month)
            }
            Err(other) if !other.is_timeout() => Err(other.into()),
            _ => Ok(month.number),
        }
    }

    #[signal]
    fn set_price(&mut self, cents: u64) {
        self.cents = cents;
    }

    #[signal]
    fn stop(&mut self) {
        self.is_stopped = true;
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let builder = Outlast::sqlite("subscription.db").activity(charge);
    let app = builder.workflow(Subscription::run).start().await?;
    let first = Month {
        number: 1,
        last: 3,
        cents: 900,
        length: 50.millis(),
    };

    // Start and signal in one: the signal is there before any code runs.
    let start = app.start(Subscription::run, &first);
    let subscription = start.with_signal(|new| new.set_price(700)).await?;
    let months = subscription.result().await?;
    println!("over after {months} months");

    // Each month was a run of its own; this one went on as another.
    let status = subscription.describe().await?.summary.status;
    println!("the first run: {status:?}");
    app.shutdown().await.into_result()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first() -> Month {
        Month {
            number: 1,
            last: 36,
            cents: 900,
            length: 30.days(),
        }
    }

    #[outlast::test]
    async fn three_years_are_thirty_six_runs(env: TestEnv) -> Result<()> {
        let env = env.mock(charge, |_| Ok(())).workflow(Subscription::run);
        let app = env.start().await;
        assert_eq!(app.run(Subscription::run, first()).await?, 36);
        assert_eq!(app.list(outlast::ListFilter::default()).await?.len(), 36);
        Ok(())
    }

    #[outlast::test]
    async fn a_stop_reaches_whichever_month_it_is(env: TestEnv) -> Result<()> {
        let env = env.mock(charge, |_| Ok(())).workflow(Subscription::run);
        let clock = env.clock();
        let app = env.start().await;
        let run = app.start(Subscription::run, first()).id("kari").await?;
        clock.advance(&app, 15.days());
        app.get(Subscription::run, "kari").stop().await?;
        assert_eq!(run.result().await?, 1);
        Ok(())
    }
}
