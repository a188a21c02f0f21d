//! Hello, durable world.

#![allow(clippy::print_stdout, reason = "an example talks to its reader")]

use outlast::prelude::*;

#[activity]
async fn greet(name: String) -> Result<String> {
    Ok(format!("Hello, {name}!"))
}

#[workflow]
async fn hello(ctx: Ctx, name: String) -> Result<String> {
    Ok(ctx.run(greet, name).await?)
}

#[tokio::main]
async fn main() -> Result<()> {
    let app = Outlast::sqlite("hello.db")
        .activity(greet)
        .workflow(hello)
        .start()
        .await?;
    println!("{}", app.run(hello, "Rust").await?);
    app.shutdown().await.into_result()
}
