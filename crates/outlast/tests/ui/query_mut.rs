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
    #[query]
    fn total(&mut self) -> u64 {
        self.n += 1;
        self.n
    }
}
fn main() {}
