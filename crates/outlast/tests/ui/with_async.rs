use outlast::prelude::*;
#[activity]
async fn double(n: u64) -> Result<u64> {
    Ok(n * 2)
}
#[derive(Default)]
struct Cart {
    n: u64,
}
#[workflow]
impl Cart {
    async fn run(ctx: Ctx<Self>) -> Result<u64> {
        ctx.with(|c| {
            c.n = ctx.run(double, 1).await?;
        });
        Ok(1)
    }
}
fn main() {}
