use outlast::prelude::*;
#[derive(Default)]
struct Cart {
    n: u64,
}
#[workflow]
impl Cart {
    async fn run(&mut self, ctx: Ctx<Self>) -> Result<u64> {
        let _ = ctx;
        Ok(self.n)
    }
}
fn main() {}
