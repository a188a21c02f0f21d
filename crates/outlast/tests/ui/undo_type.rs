use outlast::prelude::*;
#[activity]
async fn charge(n: u64) -> Result<String> {
    Ok(n.to_string())
}
#[activity]
async fn refund(n: u64) -> Result<()> {
    let _ = n;
    Ok(())
}
#[workflow]
async fn wf(ctx: Ctx) -> Result<String> {
    Ok(ctx.run(charge, 1).undo(refund).await?)
}
fn main() {}
