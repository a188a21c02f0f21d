use outlast::prelude::*;
#[derive(Debug, thiserror::Error, serde::Serialize, serde::Deserialize, Failure)]
#[error("late")]
struct Late;
#[workflow]
async fn again(ctx: Ctx, n: u64) -> Result<u64, Late> {
    ctx.continue_as_new(n + 1)
}
fn main() {}
