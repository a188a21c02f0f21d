use outlast::prelude::*;
#[derive(Clone)]
struct Db;
#[activity]
async fn save(State(_d): State<Db>, n: u64) -> Result<u64> {
    Ok(n)
}
#[workflow]
async fn wf(ctx: Ctx) -> Result<u64> {
    let _ = ctx;
    save(1).await
}
fn main() {}
