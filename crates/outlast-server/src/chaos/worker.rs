//! The process that is killed: an application, requests from its standard input, answers to its
//! standard output. An answer is written only after the library's future resolved, unless a
//! planted fault says otherwise.

use std::io::{self, BufRead, Write};
use std::path::PathBuf;
use std::sync::OnceLock;

use outlast::{App, CallError, Outlast, Refusal, Settings};
use outlast_service::points;

use super::Planted;
use super::pen::Pen;
use super::record::{Answer, Call, ChildNo, Request, Said};
use super::trip::{
    Digest, FINISH, Ticket, Trick, Trip, World, fetch, give_back, leg, look, pay, prepare, take,
};
use crate::stop::Stop;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[arg(long)]
    db: PathBuf,
    #[arg(long)]
    socket: PathBuf,
    #[arg(long)]
    child: u64,
    #[arg(long)]
    seed: u64,
    #[arg(long)]
    fail: u64,
    /// Wait at this point to be killed
    #[arg(long, requires = "nth")]
    point: Option<String>,
    #[arg(long)]
    nth: Option<u64>,
    #[arg(long)]
    planted: Option<Planted>,
}

/// Where steps find the world: closures of workflow code carry no state of activities.
static WORLD: OnceLock<World> = OnceLock::new();

pub(super) fn world() -> outlast::Result<&'static World> {
    WORLD
        .get()
        .ok_or_else(|| outlast::Error::msg("no world yet"))
}

pub(crate) fn run(args: &Args) -> Result<(), Stop> {
    std::panic::set_hook(Box::new(|_| {}));
    if let (Some(point), Some(nth)) = (&args.point, args.nth) {
        prepare(trick_for(point));
        points::arm(point, nth, |name| {
            say(&Said::Point(name.into()));
            loop {
                std::thread::park();
            }
        });
    }
    let child = ChildNo(args.child);
    let pen = Pen::connect(&args.socket, Some(child))?;
    let (seed, fail, planted) = (args.seed, args.fail, args.planted);
    let world = WORLD.get_or_init(|| World {
        pen,
        child,
        seed,
        fail,
        planted,
    });
    tokio::runtime::Runtime::new()?.block_on(serve(args, world))
}

fn trick_for(point: &str) -> Trick {
    match point {
        "slice.slow" => Trick::Dawdle,
        name if name.starts_with("writer.") => Trick::Dawdle,
        "slice.failed" => Trick::Panic,
        _ => Trick::None,
    }
}

async fn serve(args: &Args, world: &World) -> Result<(), Stop> {
    // Few slots, so that attempts have to wait for one.
    let settings = Settings {
        activity_slots: 6,
        step_slots: 4,
        ..Settings::default()
    };
    let builder = Outlast::sqlite(&args.db)
        .state(world.clone())
        .settings(settings);
    let builder = builder
        .workflow(Trip::run)
        .workflow(leg)
        .activity(fetch)
        .activity(take)
        .activity(give_back);
    let builder = builder
        .activity(pay)
        .activity(look)
        .shards(2)
        .report(|_| {});
    let app = builder.start().await?;
    say(&Said::Ready);
    let mut requests = requests();
    while let Some(request) = requests.recv().await {
        let app = app.clone();
        let planted = args.planted;
        tokio::spawn(async move { serve_one(&app, request, planted).await });
    }
    app.shutdown().await;
    Ok(())
}

/// Requests from standard input, until it is closed.
fn requests() -> tokio::sync::mpsc::UnboundedReceiver<Request> {
    let (sender, receiver) = tokio::sync::mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in io::stdin().lock().lines().map_while(Result::ok) {
            let request = serde_json::from_str(&line);
            if request.is_ok_and(|request| sender.send(request).is_err()) {
                return;
            }
        }
    });
    receiver
}

async fn serve_one(app: &App, request: Request, planted: Option<Planted>) {
    let req = request.req;
    let is_told = matches!(request.call, Call::Result | Call::Ask);
    if planted == Some(Planted::EarlyAck) && !is_told {
        say(&Said::Answer(req, Answer::Done));
        call(app, request).await;
        return;
    }
    let answer = call(app, request).await;
    say(&Said::Answer(req, answer));
}

async fn call(app: &App, request: Request) -> Answer {
    let (trip, id) = (request.trip.as_str(), format!("r{}", request.req.0));
    let handle = app.get(Trip::run, trip);
    match request.call {
        Call::Start => {
            let start = app.start(Trip::run, Ticket::first(trip));
            let start = start.id(trip).request_id(id);
            done(start.await.map(drop))
        }
        Call::Add(value) => done(handle.add(value).request_id(id).await),
        Call::Enter(value) => done(handle.enter(value).id(id).await.map(drop)),
        Call::Ask => told(handle.values().await),
        Call::Finish => done(handle.send(FINISH, ()).request_id(id).await),
        Call::Cancel => done(handle.cancel().await),
        Call::Terminate => done(handle.terminate("by the chaos run").await),
        Call::Retry => done(handle.retry().await),
        Call::Result => ended(handle.result().await),
    }
}

fn done(outcome: Result<(), CallError>) -> Answer {
    match outcome {
        Ok(()) => Answer::Done,
        Err(error) => not_done(&error),
    }
}

fn told(values: Result<Vec<u64>, CallError>) -> Answer {
    match values {
        Ok(values) => Answer::Told(values),
        Err(error) => not_done(&error),
    }
}

fn ended(outcome: Result<Digest, CallError>) -> Answer {
    match outcome {
        Ok(digest) => Answer::Ended(serde_json::to_string(&digest).unwrap_or_default()),
        Err(error @ CallError::Refused(_)) => not_done(&error),
        Err(CallError::Cancelled(_)) => Answer::Ended("cancelled".into()),
        Err(CallError::Terminated(_)) => Answer::Ended("terminated".into()),
        Err(other) => Answer::Ended(format!("failed: {other}")),
    }
}

fn not_done(error: &CallError) -> Answer {
    match error.refusal() {
        Some(
            refusal @ (Refusal::Indeterminate { .. }
            | Refusal::Unavailable { .. }
            | Refusal::ShuttingDown
            | Refusal::NotAwaited { .. }
            | Refusal::Unanswered { .. }
            | Refusal::StoreFull),
        ) => Answer::Unknown(refusal.to_string()),
        Some(refusal) => Answer::Refused(format!("{}: {refusal}", refusal.code())),
        None => Answer::Unknown(error.to_string()),
    }
}

/// One line, at once. Also from a thread that will never run again.
fn say(said: &Said) {
    let Ok(mut line) = serde_json::to_vec(said) else {
        return;
    };
    line.push(b'\n');
    let mut stdout = io::stdout().lock();
    // A driver that is gone has closed our input as well.
    stdout.write_all(&line).and_then(|()| stdout.flush()).ok();
}
