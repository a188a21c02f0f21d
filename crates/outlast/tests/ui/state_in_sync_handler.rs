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
    #[signal]
    fn add(&mut self, ctx: Ctx, n: u64) {
        ctx.with(|_c| ());
        self.n += n
    }
}
fn main() {}
