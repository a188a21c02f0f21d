use outlast::prelude::*;
#[activity]
async fn save(n: u64) -> Result<u64, std::io::Error> {
    Ok(n)
}
fn main() {}
