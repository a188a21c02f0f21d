use outlast::prelude::*;
#[derive(Clone)]
struct Db;
#[activity]
async fn save(State(_db): State<Db>, n: u64) -> Result<u64> {
    Ok(n)
}
fn main() {
    let _ = Outlast::sqlite("x.db").state(7u32).activity(save);
}
