//! Changes of workflow code under open runs.

use outlast::Builder;
use outlast::prelude::*;

use super::bench::{Bench, outcome};

pub(crate) fn register(builder: Builder) -> Builder {
    builder
        .activity(old_way)
        .activity(new_way)
        .workflow(patched)
        .workflow(looping)
        .workflow(deprecated)
}

#[activity]
async fn old_way() -> Result<String> {
    Ok("old".into())
}

#[activity]
async fn new_way() -> Result<String> {
    Ok("new".into())
}

#[workflow]
async fn patched(ctx: Ctx) -> Result<String> {
    ctx.sleep(10.millis()).await?;
    Ok(if ctx.patched("a new way") {
        ctx.run(new_way, ()).await?
    } else {
        ctx.run(old_way, ()).await?
    })
}

pub(crate) async fn a_new_run_takes_the_new_side(bench: Bench) -> Vec<String> {
    vec![outcome!(bench, patched, ()).expect("it ends")]
}

#[workflow]
async fn looping(ctx: Ctx) -> Result<String> {
    let mut all = Vec::new();
    for _ in 0..3 {
        all.push(if ctx.patched("in a loop") {
            ctx.run(new_way, ()).await?
        } else {
            ctx.run(old_way, ()).await?
        });
        ctx.sleep(10.millis()).await?;
    }
    Ok(all.join(" "))
}

pub(crate) async fn a_patch_in_a_loop(bench: Bench) -> Vec<String> {
    vec![outcome!(bench, looping, ()).expect("it ends")]
}

#[workflow]
async fn deprecated(ctx: Ctx) -> Result<String> {
    ctx.sleep(10.millis()).await?;
    ctx.deprecate_patch("a new way");
    Ok(ctx.run(new_way, ()).await?)
}

pub(crate) async fn a_patch_no_longer_asked_for(bench: Bench) -> Vec<String> {
    vec![outcome!(bench, deprecated, ()).expect("it ends")]
}
