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
    #[update]
    fn remove(&mut self, n: u64) {
        self.n -= n
    }
    #[validator(remove)]
    fn can_remove(&self, n: &String) -> Result<()> {
        drop(n);
        Ok(())
    }
}
fn main() {}
