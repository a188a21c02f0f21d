use outlast::prelude::*;
#[activity]
async fn save(n: u64) -> u64 {
    n
}
fn main() {}
