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
    fn total(&self) -> u64 {
        self.n
    }
}
#[workflow]
async fn other(ctx: Ctx) -> Result<u64> {
    let cart = ctx.get(Cart::run, "cart-7");
    Ok(cart.total().await?)
}
fn main() {}
