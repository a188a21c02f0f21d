use outlast::prelude::*;
struct Conn;
#[activity]
async fn save(c: Conn) -> Result<u64> {
    let _ = c;
    Ok(1)
}
fn main() {}
