//! What the workers serve: a run of several legs, each with a letter, a step and an activity that
//! takes a while and says what it does.

use std::io::{self, Write};

use outlast::Builder;
use outlast::model::RetryPolicy;
use outlast::prelude::*;
use serde::{Deserialize, Serialize};

/// Letters that a run reads, and legs that it has.
pub(crate) const LEGS: u64 = 3;
/// Reports of one attempt, each with a pause behind it.
const BEATS: u64 = 5;

pub(crate) const LETTER: Signal<u64> = signal("letter");

/// One leg of one run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Leg {
    pub(crate) run: String,
    pub(crate) leg: u64,
}

/// What a worker says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Said {
    /// It serves its queue.
    Ready,
    /// It has an attempt in its hands.
    Began(Leg, u32),
}

/// What follows this is ours: the test harness says things as well, on the same line.
pub(crate) const MARK: &str = "said: ";

pub(crate) fn say(said: &Said) {
    let line = serde_json::to_string(said).expect("it has a text");
    let mut stdout = io::stdout().lock();
    // Whoever listened is gone, and closes our input as well.
    writeln!(stdout, "{MARK}{line}").ok();
}

/// Takes a while, and is heard of by the server meanwhile.
#[activity]
async fn walk(ctx: ActivityCtx, leg: Leg) -> Result<u64> {
    say(&Said::Began(leg.clone(), ctx.attempt()));
    for beat in 0..BEATS {
        ctx.heartbeat(beat)?;
        ctx.sleep(10.millis()).await?;
    }
    Ok(leg.leg * 100)
}

#[workflow]
pub(crate) async fn journey(ctx: Ctx, run: String) -> Result<Vec<u64>> {
    let soon = RetryPolicy {
        initial: 20.millis(),
        max_interval: 100.millis(),
        ..RetryPolicy::default()
    };
    let mut seen = Vec::new();
    for leg in 0..LEGS {
        let letter = ctx.recv(LETTER).await?;
        let doubled = ctx.step("double", move || async move { Ok(letter * 2) });
        seen.push(doubled.await?);
        let run = run.clone();
        let walk = ctx.run(walk, Leg { run, leg }).retry(soon.clone());
        // A worker that dies is missed by its reports, or by its time.
        seen.push(if leg.is_multiple_of(2) {
            walk.start_to_close(30.secs()).heartbeat(1.secs()).await?
        } else {
            walk.start_to_close(1.secs()).await?
        });
    }
    Ok(seen)
}

/// What a run whose letters are 1, 2, 3 must come back with.
pub(crate) fn expected() -> Vec<u64> {
    (0..LEGS)
        .flat_map(|leg| [(leg + 1) * 2, leg * 100])
        .collect()
}

pub(crate) fn register(builder: Builder) -> Builder {
    builder.workflow(journey).activity(walk).report(|_| ())
}
