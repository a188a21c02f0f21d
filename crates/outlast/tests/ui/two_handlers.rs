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
    #[signal(name = "add")]
    fn add_more(&mut self, n: u64) {
        self.n += n
    }
}
fn main() {}
