use outlast::prelude::*;

struct Conn;

#[activity]
async fn save() -> Result<Conn> {
    Ok(Conn)
}

fn main() {}
