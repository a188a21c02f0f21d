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
    fn add(&mut self, n: u64) {
        self.n += n
    }
}
async fn f(app: outlast::App) -> Result<()> {
    let c = app.start(Cart::run, ()).await?;
    c.ad(1).await?;
    c.add("x").await?;
    Ok(())
}
fn main() {}
