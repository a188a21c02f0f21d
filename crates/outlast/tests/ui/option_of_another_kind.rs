use outlast::prelude::*;

#[workflow]
async fn wf(ctx: Ctx) -> Result<()> {
    ctx.sleep(1.days()).start_to_close(1.hours()).await?;
    Ok(())
}

fn main() {}
