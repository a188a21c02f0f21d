//! Steps: closures whose result is recorded.

use std::collections::BTreeMap;
use std::sync::Mutex;

use futures::future::try_join_all;
use outlast::Builder;
use outlast::prelude::*;

use super::bench::{Bench, outcome};

pub(crate) fn register(builder: Builder) -> Builder {
    builder
        .workflow(parse)
        .workflow(shaky)
        .workflow(many)
        .workflow(hurried)
}

#[workflow]
async fn parse(ctx: Ctx, text: String) -> Result<u64> {
    let step = ctx.step("parse", move || {
        let text = text.clone();
        async move { Ok(text.parse::<u64>()?) }
    });
    let quick = RetryPolicy {
        initial: 10.millis(),
        ..RetryPolicy::times(2)
    };
    let parsed = step.retry(quick).await?;
    ctx.sleep(10.millis()).await?;
    Ok(parsed + 1)
}

pub(crate) async fn a_step_is_recorded(bench: Bench) -> Vec<String> {
    let next = outcome!(bench, parse, "41").expect("it ends");
    vec![next.to_string()]
}

pub(crate) async fn a_step_gives_up(bench: Bench) -> Vec<String> {
    let error = outcome!(bench, parse, "many").expect_err("it fails");
    assert!(error.to_string().contains("invalid digit"), "{error}");
    vec!["invalid digit".into()]
}

static TRIES: Mutex<BTreeMap<String, u32>> = Mutex::new(BTreeMap::new());

#[workflow]
async fn shaky(ctx: Ctx) -> Result<u32> {
    let id = ctx.id().to_string();
    let step = ctx.step("shaky", move || {
        let id = id.clone();
        async move {
            let mut tries = TRIES.lock().expect("nobody panics with it");
            let this = tries.entry(id).or_default();
            *this += 1;
            if *this < 4 {
                return Err(format!("try {this}"))?;
            }
            Ok(*this)
        }
    });
    let quick = RetryPolicy {
        initial: 10.millis(),
        ..RetryPolicy::times(0)
    };
    Ok(step.retry(quick).await?)
}

pub(crate) async fn a_step_is_tried_again(bench: Bench) -> Vec<String> {
    let tries = outcome!(bench, shaky, ()).expect("it ends");
    vec![tries.to_string()]
}

#[workflow]
async fn many(ctx: Ctx) -> Result<u64> {
    let steps = (0..20_u64).map(|n| ctx.step(&format!("s{n}"), move || async move { Ok(n) }));
    let sum: u64 = try_join_all(steps).await?.into_iter().sum();
    ctx.sleep(10.millis()).await?;
    Ok(ctx.step("more", move || async move { Ok(sum + 1) }).await?)
}

pub(crate) async fn many_steps(bench: Bench) -> Vec<String> {
    let sum = outcome!(bench, many, ()).expect("it ends");
    vec![sum.to_string()]
}

#[workflow]
async fn hurried(ctx: Ctx) -> Result<String> {
    let endless = ctx.step("endless", || async {
        std::future::pending::<()>().await;
        Ok(())
    });
    let late = endless.timeout(50.millis()).await;
    let is_late = late.is_err_and(|error| error.is_timeout());
    Ok(if is_late { "late" } else { "in time" }.into())
}

pub(crate) async fn a_step_out_of_time(bench: Bench) -> Vec<String> {
    vec![outcome!(bench, hurried, ()).expect("it ends")]
}
