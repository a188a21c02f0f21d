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
    #[signal(dynamic)]
    fn other(&mut self, content: outlast::Payload) {
        self.n += content.size() as u64
    }
}
fn main() {}
