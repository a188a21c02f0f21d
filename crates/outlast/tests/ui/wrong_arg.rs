use outlast::prelude::*;
#[activity]
async fn double(n: u64) -> Result<u64> {
    Ok(n * 2)
}
#[workflow]
async fn wf(ctx: Ctx) -> Result<u64> {
    Ok(ctx.run(double, "two").await?)
}
fn main() {}
