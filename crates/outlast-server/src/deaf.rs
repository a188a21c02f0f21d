//! `outlast deaf-worker`, for tests of how this process ends: a worker whose activities do not stop
//! when they should, and whose listener, if asked to, does not come back either.
//!
//! It is a worker as any: it serves until it is asked to stop or has too many zombies, and then its
//! process ends, whatever is still in the code of others.

use std::path::PathBuf;

use outlast::prelude::*;
use outlast::{Builder, Config, Events, Severity, ShutdownSignal, WorkerEvent};

use crate::out;
use crate::stop::Stop;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[arg(long, value_name = "FILE")]
    db: PathBuf,
    /// How many activities do not stop
    #[arg(long, value_name = "N")]
    deaf: u64,
    /// Block the listener of events when the worker stops
    #[arg(long)]
    mute: bool,
}

/// Goes on although it was told to stop.
#[activity(start_to_close = "100ms")]
fn deaf(n: u64) -> Result<()> {
    out::line(&format!("deaf activity {n} has begun"));
    forever()
}

#[workflow]
async fn waits(ctx: Ctx, n: u64) -> Result<()> {
    Ok(ctx.run(deaf, n).retry(RetryPolicy::times(1)).await?)
}

fn forever() -> ! {
    loop {
        std::thread::park();
    }
}

pub(crate) fn run(args: &Args) -> Result<(), Stop> {
    let runtime = tokio::runtime::Runtime::new()?;
    let served = runtime.block_on(serve(args));
    // Whatever did not end in time must not hold up the process.
    runtime.shutdown_background();
    served
}

async fn serve(args: &Args) -> Result<(), Stop> {
    let app = worker(args)?.start().await?;
    let mut events = app.events(Severity::Error);
    let mut signal = ShutdownSignal::listen()?;
    for n in 0..args.deaf {
        app.start(waits, n).await?;
    }
    tokio::select! {
        () = signal.recv() => {}
        () = too_many(&mut events) => {}
    }
    Stop::if_left(app.shutdown_with(&mut signal).await)
}

/// Returns when there are too many zombies.
async fn too_many(events: &mut Events) {
    while let Some(event) = events.next().await {
        if matches!(*event, WorkerEvent::ZombieLimit { .. }) {
            return;
        }
    }
}

fn worker(args: &Args) -> Result<Builder, Stop> {
    let config = Config::load().map_err(|error| Stop::Usage(error.to_string()))?;
    let is_mute = args.mute;
    let listener = move |event: &WorkerEvent| {
        out::line(&format!("{event} [{}]", event.code()));
        if is_mute && matches!(event, WorkerEvent::Stopping { .. }) {
            forever();
        }
    };
    let builder = Outlast::sqlite(&args.db).config(config);
    let builder = builder.activity(deaf).workflow(waits);
    Ok(builder.report(|_| ()).on_event(Severity::Info, listener))
}
