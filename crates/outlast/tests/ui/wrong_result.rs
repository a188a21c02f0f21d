use outlast::prelude::*;
#[activity]
async fn double(n: u64) -> Result<u64> {
    Ok(n * 2)
}
#[workflow]
async fn wf(ctx: Ctx) -> Result<String> {
    Ok(ctx.run(double, 2).await?)
}
fn main() {}
