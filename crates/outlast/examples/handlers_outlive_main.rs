//! What becomes of a handler that still waits when `run` returns?
//!
//! Handlers are siblings of `run`, not its children. Those that can go on do, and every accepted
//! update is answered before the run closes. A handler that waits is left behind with a warning,
//! unless it says otherwise: `unfinished = "finish"` makes the close wait for it.

#![allow(clippy::print_stdout, reason = "an example talks to its reader")]

use outlast::prelude::*;

#[derive(Default)]
struct Desk {
    is_closing: bool,
}

#[activity]
async fn print(page: String) -> Result<String> {
    Ok(format!("printed {page}"))
}

#[workflow]
impl Desk {
    async fn run(ctx: Ctx<Self>) -> Result<()> {
        ctx.wait_until(|desk| desk.is_closing).await?;
        Ok(())
    }

    #[signal]
    fn close(&mut self) {
        self.is_closing = true;
    }

    // Started is finished, even when the desk closes meanwhile.
    #[update(unfinished = "finish")]
    async fn copy(ctx: Ctx<Self>, page: String) -> Result<String> {
        ctx.sleep(100.millis()).await?;
        Ok(ctx.run(print, page).await?)
    }

    // The default: left behind, with a warning that names it.
    #[update]
    async fn repair(ctx: Ctx<Self>) -> Result<()> {
        ctx.sleep(30.days()).await?;
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let builder = Outlast::sqlite("handlers_outlive_main.db").activity(print);
    // Warnings go to the standard error stream unless the program wants them.
    let app = builder.report(|_| ()).workflow(Desk::run).start().await?;
    let desk = app.start(Desk::run, ()).await?;

    let copy = desk.copy("page 1").accepted().await?;
    let repair = desk.repair().accepted().await?;
    desk.close().await?;
    desk.result().await?;
    println!("the desk is closed");
    println!("copy: {}", copy.result().await?);

    // An accepted update always has an answer, if only this one.
    let left = repair.result().await;
    println!(
        "repair, the run finished first: {}",
        matches!(left, Err(CallError::RunFinished(_)))
    );
    for note in desk.describe().await?.notes {
        println!("note: {note}");
    }
    app.shutdown().await.into_result()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[outlast::test]
    async fn the_close_waits_for_the_copy(env: TestEnv) -> Result<()> {
        let app = env.workflow(Desk::run).activity(print).start().await;
        let desk = app.start(Desk::run, ()).await?;
        let copy = desk.copy("page 2").accepted().await?;
        desk.close().await?;
        desk.result().await?;
        assert_eq!(copy.result().await?, "printed page 2");
        Ok(())
    }
}
