use outlast::prelude::*;
#[activity]
async fn double(n: u64) -> Result<u64> {
    Ok(n * 2)
}
#[workflow]
async fn wf(ctx: Ctx) -> Result<()> {
    tokio::spawn(async move { ctx.run(double, 1).await });
    Ok(())
}
fn main() {}
