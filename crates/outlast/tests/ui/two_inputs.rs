use outlast::prelude::*;
#[activity]
async fn move_money(from: String, to: String) -> Result<()> {
    let _ = (from, to);
    Ok(())
}
fn main() {}
