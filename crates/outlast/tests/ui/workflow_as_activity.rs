use outlast::prelude::*;
#[workflow]
async fn inner(_ctx: Ctx, n: u64) -> Result<u64> {
    Ok(n)
}
#[workflow]
async fn wf(ctx: Ctx) -> Result<u64> {
    Ok(ctx.run(inner, 1).await?)
}
fn main() {}
