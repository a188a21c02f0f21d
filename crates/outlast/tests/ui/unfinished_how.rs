use outlast::prelude::*;
#[derive(Default)]
struct Cart {
    n: u64,
}
#[workflow]
impl Cart {
    async fn run(ctx: Ctx<Self>) -> Result<u64> {
        Ok(ctx.with(|c| c.n))
    }
    #[update(unfinished = "wait")]
    async fn add(ctx: Ctx<Self>, n: u64) {
        ctx.with(|c| c.n += n)
    }
}
fn main() {}
