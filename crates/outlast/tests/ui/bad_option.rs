use outlast::prelude::*;

#[activity(start_to_close = "half an hour")]
async fn save(n: u64) -> Result<u64> {
    Ok(n)
}

#[activity(retries = "5")]
async fn load(n: u64) -> Result<u64> {
    Ok(n)
}

fn main() {}
