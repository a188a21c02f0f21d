use outlast::prelude::*;
#[derive(Default)]
struct Cart {
    n: u64,
}
#[workflow]
impl Cart {
    async fn run(ctx: Ctx<Self>, n: u64) -> Result<u64> {
        ctx.with(|c| c.n += n);
        ctx.continue_as_new("three")
    }
}
fn main() {}
