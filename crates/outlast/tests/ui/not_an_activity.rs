use outlast::prelude::*;
async fn plain(n: u64) -> Result<u64> {
    Ok(n)
}
#[workflow]
async fn wf(ctx: Ctx) -> Result<u64> {
    Ok(ctx.run(plain, 1).await?)
}
fn main() {}
