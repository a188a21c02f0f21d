//! Runs that wait, as they should: for time, for others, for somebody to take them.

use outlast::model::view::Waiting;
use outlast::prelude::*;
use outlast::why::{Around, reasons};
use outlast::{App, Description, Settings, WorkflowDef};
use tokio::sync::Notify;

use crate::Case;
use crate::support::until;

/// Ends what does not listen.
static ENOUGH: Notify = Notify::const_new();

const GO: Signal<u64> = signal("go");
/// Known, and served by nobody here.
const ELSEWHERE: WorkflowDef<(), ()> = WorkflowDef::new("elsewhere");

#[activity]
async fn fails() -> Result<()> {
    Err("the bank did not answer")?
}

/// Does not listen.
#[activity(start_to_close = "1h")]
async fn works() -> Result<()> {
    ENOUGH.notified().await;
    Ok(())
}

#[activity(start_to_close = "1h")]
async fn approve(ctx: ActivityCtx) -> Result<()> {
    Err(ctx.complete_later().into())
}

#[workflow]
async fn one(ctx: Ctx, what: String) -> Result<()> {
    match what.as_str() {
        "fails" => ctx.run(fails, ()).await?,
        "works" => ctx.run(works, ()).await?,
        "approve" => ctx.run(approve, ()).await?,
        "step" => {
            let step = ctx.step("pack", || async {
                ENOUGH.notified().await;
                Ok(())
            });
            step.await?;
        }
        "timer" => ctx.sleep(3.days()).await?,
        "message" => drop(ctx.recv(GO).await?),
        "child" => ctx.child(one, "message").id("order-7").await?,
        _ => {}
    }
    Ok(())
}

#[derive(Default)]
struct Slow;

#[workflow]
impl Slow {
    async fn run(ctx: Ctx<Self>) -> Result<()> {
        ctx.recv(GO).await?;
        Ok(())
    }

    #[update]
    async fn change(ctx: Ctx<Self>) -> Result<()> {
        ctx.sleep(1.hours()).await?;
        Ok(())
    }
}

#[derive(Default)]
struct Patient {
    is_asked: bool,
}

#[workflow]
impl Patient {
    async fn run(ctx: Ctx<Self>) -> Result<()> {
        ctx.wait_until(|patient| patient.is_asked).await?;
        Ok(())
    }

    #[signal]
    fn ask(&mut self) {
        self.is_asked = true;
    }

    #[signal]
    fn doubt(&mut self) -> Result<()> {
        Err("it does not doubt")?
    }
}

async fn start(settings: Settings) -> App {
    let env = TestEnv::new().settings(settings).report(|_| ());
    let env = env.activity(fails).activity(works).activity(approve);
    let env = env.workflow(one).workflow(Slow::run);
    env.workflow(Patient::run).start().await
}

fn is_running(run: &Description) -> bool {
    let is_it = |waiting: &Waiting| matches!(waiting, Waiting::ActivityRunning { .. });
    run.waiting.iter().any(is_it)
}

pub(crate) async fn cases() -> Vec<Case> {
    let app = start(Settings::default()).await;
    let mut cases = Vec::new();
    let ended = app.start(one, "nothing").id("ended").await;
    let ended = ended.expect("it starts");
    ended.result().await.expect("it ends");
    cases.push(Case::of("it has ended", &ended).await);
    for (what, name, is_there) in WAITS {
        let run = app.start(one, name).id(name).await.expect("it starts");
        until(&run, |d| d.waiting.iter().any(is_there)).await;
        cases.push(Case::of(what, &run).await);
    }
    cases.push(updating(&app).await);
    cases.push(patient(&app).await);
    let far = app.start(ELSEWHERE, ()).queue("far").await;
    let far = far.expect("it is accepted");
    cases.push(Case::of("nobody serves its queue", &far).await);
    cases.push(away(&app).await);
    ENOUGH.notify_waiters();
    app.shutdown().await;
    cases.extend(busy().await);
    cases
}

type Look = fn(&Waiting) -> bool;

const WAITS: [(&str, &str, Look); 7] = [
    ("an attempt failed", "fails", |waiting| {
        matches!(
            waiting,
            Waiting::ActivityPending {
                last_failure: Some(_),
                ..
            }
        )
    }),
    ("an activity runs", "works", |waiting| {
        matches!(waiting, Waiting::ActivityRunning { .. })
    }),
    ("somebody outside answers", "approve", |waiting| {
        matches!(waiting, Waiting::ActivityOutside { .. })
    }),
    ("a step runs", "step", |waiting| {
        matches!(waiting, Waiting::Step { .. })
    }),
    ("a timer runs", "timer", |waiting| {
        matches!(waiting, Waiting::Timer { .. })
    }),
    ("a message is to come", "message", |waiting| {
        matches!(waiting, Waiting::Message { .. })
    }),
    ("a child runs", "child", |waiting| {
        matches!(
            waiting,
            Waiting::Child {
                is_started: true,
                ..
            }
        )
    }),
];

async fn updating(app: &App) -> Case {
    let run = app.start(Slow::run, ()).await.expect("it starts");
    let change = run.clone();
    let change = tokio::spawn(async move { change.change().id("u-1").await });
    let is_there = |waiting: &Waiting| matches!(waiting, Waiting::Update { .. });
    until(&run, |d| d.waiting.iter().any(is_there)).await;
    let case = Case::of("an update runs", &run).await;
    change.abort();
    case
}

/// It rests in a condition, somebody sent it what it does not know, and a handler failed.
async fn patient(app: &App) -> Case {
    let run = app.start(Patient::run, ()).await.expect("it starts");
    for _ in 0..2 {
        run.send(GO, 1).await.expect("it is kept");
    }
    run.doubt().await.expect("it is kept");
    until(&run, |d| d.unhandled_signals == 2 && !d.notes.is_empty()).await;
    Case::of("a condition is to hold", &run).await
}

/// A store that is away answers nobody, so this is asked with what the worker knows.
async fn away(app: &App) -> Case {
    let far = app.start(ELSEWHERE, ()).queue("default").await;
    assert!(far.is_err(), "it is refused");
    let run = app.start(one, "fails").await.expect("it starts");
    let is_due = |waiting: &Waiting| matches!(waiting, Waiting::ActivityPending { .. });
    let found = until(&run, |d| d.waiting.iter().any(is_due)).await;
    let mut worker = app.worker_state().expect("there is a worker");
    worker.standing.store = Some("the disk is full".into());
    let around = Around::Here { worker: &worker };
    let Some(Waiting::ActivityPending { due, .. }) = found.waiting.first() else {
        panic!("{found:?}");
    };
    Case::new("the store is away", reasons(&found, &around, *due, ""))
}

/// One slot, and one who does not give it back; then an end that waits for that one.
async fn busy() -> Vec<Case> {
    let one_slot = Settings {
        activity_slots: 1,
        ..Settings::default()
    };
    let app = start(one_slot).await;
    let first = app.start(one, "works").await.expect("it starts");
    until(&first, is_running).await;
    let run = app.start(one, "works").await.expect("it starts");
    let is_due = |waiting: &Waiting| matches!(waiting, Waiting::ActivityPending { .. });
    until(&run, |d| d.waiting.iter().any(is_due)).await;
    let full = Case::of("all slots are taken", &run).await;
    let ending = app.clone();
    let ending = tokio::spawn(async move { ending.shutdown().await });
    let stopping = loop {
        let case = Case::of("the worker goes down", &run).await;
        if case.answers[0].reason == outlast::why::Reason::ShuttingDown {
            break case;
        }
        tokio::task::yield_now().await;
    };
    ENOUGH.notify_waiters();
    ending.await.expect("no panic");
    vec![full, stopping]
}
