//! The scenarios: what their clients do, and the code they run.
//!
//! Every workflow takes the name of its case, by which steps find the world, and gives a text
//! that does not depend on crashes, unless the scenario says so.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use outlast::model::Event;
use outlast::model::event::TaskFailedCause;
use outlast::prelude::*;
use outlast::testing::replay;
use outlast::{ConflictPolicy, Description, Settings};
use outlast_service::store::Store;

use crate::client::Client;
use crate::support::cached;
use crate::world::World;
use crate::{family, message, outside};

type Script = for<'a> fn(&'a Client) -> Pin<Box<dyn Future<Output = ()> + 'a>>;

/// A scenario.
#[derive(Clone, Copy)]
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) script: Script,
    pub(crate) settings: fn() -> Settings,
    /// Texts that a crash may put in place of the usual one.
    pub(crate) or_else: &'static [&'static str],
    /// Whether the texts are lists whose order a failure of the store may change: of messages sent
    /// at once, those that were refused are sent again, later than the others.
    pub(crate) may_reorder: bool,
    /// How often each step may be tried in all, if that is bounded.
    pub(crate) most: usize,
}

/// One that a crash must not change.
pub(crate) const fn scenario(name: &'static str, script: Script) -> Scenario {
    Scenario {
        name,
        script,
        settings: Settings::default,
        or_else: &[],
        may_reorder: false,
        most: usize::MAX,
    }
}

macro_rules! script {
    (|$client:ident| $body:block) => {
        |$client| Box::pin(async move { $body })
    };
}

pub(crate) use script;

/// All of them.
pub(crate) fn all() -> impl Iterator<Item = &'static Scenario> {
    let single = SCENARIOS.iter().chain(message::SCENARIOS);
    single.chain(family::SCENARIOS).chain(outside::SCENARIOS)
}

const SCENARIOS: &[Scenario] = &[
    scenario(
        "one activity",
        script!(|client| {
            client.start("one", "a").await;
            client.result("a").await;
        }),
    ),
    scenario(
        "sequence",
        script!(|client| {
            client.start("sequence", "a").await;
            client.result("a").await;
        }),
    ),
    scenario(
        "fan-out",
        script!(|client| {
            client.start("fan", "a").await;
            client.result("a").await;
        }),
    ),
    scenario(
        "timers",
        script!(|client| {
            client.start("timers", "a").await;
            client.result("a").await;
        }),
    ),
    scenario(
        "attempts, no end",
        script!(|client| {
            client.start("stubborn", "a").await;
            client.result("a").await;
        }),
    ),
    scenario(
        "attempts, three",
        script!(|client| {
            client.start("three_times", "a").await;
            client.result("a").await;
        }),
    ),
    Scenario {
        or_else: &["lost"],
        ..scenario(
            "attempts, one",
            script!(|client| {
                client.start("once", "a").await;
                client.result("a").await;
            }),
        )
    },
    Scenario {
        or_else: &["lost"],
        ..scenario(
            "attempts, handed back",
            script!(|client| {
                client.start("lingering", "a").await;
                client.result("a").await;
            }),
        )
    },
    scenario(
        "heartbeats",
        script!(|client| {
            client.start("beats", "a").await;
            client.result("a").await;
        }),
    ),
    scenario(
        "step",
        script!(|client| {
            client.start("stepping", "a").await;
            client.result("a").await;
        }),
    ),
    Scenario {
        most: 4,
        ..scenario(
            "step with retries",
            script!(|client| {
                client.start("step_again", "a").await;
                client.result("a").await;
            }),
        )
    },
    scenario(
        "signals",
        script!(|client| {
            client.start("collect", "a").await;
            client.signal("a", PAID, 1).await;
            client.signal("a", PAID, 2).await;
            client.signal("a", PAID, 3).await;
            client.result("a").await;
        }),
    ),
    scenario(
        "handlers",
        script!(|client| {
            client.start("Tally", "a").await;
            client.signal("a", ADD, 1).await;
            client.signal("a", PRICED, 2).await;
            client.signal("a", PAID, 3).await;
            client.result("a").await;
        }),
    ),
    scenario(
        "cancel with clean-up",
        script!(|client| {
            client.start("cleans_up", "a").await;
            client.cancel("a").await;
            client.result("a").await;
        }),
    ),
    scenario(
        "terminate",
        script!(|client| {
            client.start("endless", "a").await;
            client.terminate("a").await;
            client.result("a").await;
        }),
    ),
    scenario(
        "undo",
        script!(|client| {
            client.start("saga", "a").await;
            client.result("a").await;
        }),
    ),
    scenario(
        "run timeout",
        script!(|client| {
            client
                .start_with("endless_timer", "a", "r", |start| {
                    start.run_timeout(1.hours())
                })
                .await;
            client.result("a").await;
        }),
    ),
    scenario(
        "id reuse",
        script!(|client| {
            client.start_with("one", "a", "first", |start| start).await;
            client.result("a").await;
            client.start_with("one", "a", "first", |start| start).await;
            client.result("a").await;
            client
                .start_with("sequence", "a", "second", |start| start)
                .await;
            client.result("a").await;
        }),
    ),
    scenario(
        "duplicate start",
        script!(|client| {
            client
                .start_with("collect", "a", "first", |start| start)
                .await;
            client
                .start_with("collect", "a", "second", |start| start)
                .await;
            let use_it =
                |start: crate::client::Starting| start.conflict(ConflictPolicy::UseExisting);
            client.start_with("collect", "a", "third", use_it).await;
            client.signal("a", PAID, 6).await;
            client.result("a").await;
        }),
    ),
    scenario(
        "replacing start",
        script!(|client| {
            client
                .start_with("collect", "a", "first", |start| start)
                .await;
            let replace =
                |start: crate::client::Starting| start.conflict(ConflictPolicy::TerminateExisting);
            client.start_with("collect", "a", "second", replace).await;
            client.signal("a", PAID, 6).await;
            client.result("a").await;
        }),
    ),
    scenario(
        "race",
        script!(|client| {
            client.start("race", "a").await;
            client.result("a").await;
        }),
    ),
    scenario(
        "branches",
        script!(|client| {
            client.start("branches", "a").await;
            client.result("a").await;
        }),
    ),
    scenario(
        "failing code",
        script!(|client| {
            client.start("broken", "a").await;
            client.until("a", |run| run.trouble.is_some()).await;
            client.world().fix();
            client.result("a").await;
        }),
    ),
    scenario(
        "many runs",
        script!(|client| {
            let names = ["a", "b", "c", "d", "e"];
            for name in names {
                client.start("sequence", name).await;
            }
            for name in names {
                client.result(name).await;
            }
        }),
    ),
    Scenario {
        settings: few_slots,
        ..scenario(
            "few slots",
            script!(|client| {
                client.start("fan", "a").await;
                client.start("bounded_fan", "b").await;
                client.result("a").await;
                client.result("b").await;
            }),
        )
    },
    scenario(
        "poison",
        script!(|client| {
            client.start("poison", "p").await;
            client.start("sequence", "a").await;
            client.until("p", is_quarantined).await;
            client.result("a").await;
            client.terminate("p").await;
        }),
    ),
    Scenario {
        settings: || cached(0),
        ..scenario(
            "nothing cached",
            script!(|client| {
                client.start("mixture", "a").await;
                client.signal("a", PAID, 5).await;
                client.result("a").await;
            }),
        )
    },
];

fn few_slots() -> Settings {
    Settings {
        activity_slots: 2,
        ..Settings::default()
    }
}

fn is_quarantined(run: &Description) -> bool {
    let cause = run.trouble.as_ref().map(|trouble| trouble.cause);
    cause == Some(TaskFailedCause::Quarantined)
}

pub(crate) type Env = TestEnv<(World, ())>;

/// An application with everything a scenario may need.
pub(crate) fn env(store: Arc<dyn Store>, world: World) -> Env {
    let env = TestEnv::on(store).state(world).report(|_| ());
    let env = env.activity(work).activity(fails_below).activity(rests);
    let env = env.activity(copies).activity(undoes).activity(refuses);
    let env = env.workflow(one).workflow(sequence).workflow(fan);
    let env = env
        .workflow(timers)
        .workflow(stubborn)
        .workflow(three_times);
    let env = env.activity(lingers).workflow(lingering);
    let env = env.workflow(once).workflow(beats).workflow(stepping);
    let env = env
        .workflow(step_again)
        .workflow(collect)
        .workflow(Tally::run);
    let env = env
        .workflow(cleans_up)
        .workflow(endless)
        .workflow(endless_timer);
    let env = env.workflow(saga).workflow(race).workflow(branches);
    let env = env.workflow(broken).workflow(mixture);
    let env = env.workflow(poison).workflow(bounded_fan);
    outside::register(family::register(message::register(env)))
}

/// Replays a history with the code of its type.
pub(crate) fn replay_as(kind: &str, history: &[Event]) -> Result<()> {
    match kind {
        "one" => replay(one, history),
        "sequence" => replay(sequence, history),
        "fan" => replay(fan, history),
        "timers" => replay(timers, history),
        "stubborn" => replay(stubborn, history),
        "three_times" => replay(three_times, history),
        "once" => replay(once, history),
        "lingering" => replay(lingering, history),
        "beats" => replay(beats, history),
        "stepping" => replay(stepping, history),
        "step_again" => replay(step_again, history),
        "collect" => replay(collect, history),
        "Tally" => replay(Tally::run, history),
        "cleans_up" => replay(cleans_up, history),
        "endless" => replay(endless, history),
        "endless_timer" => replay(endless_timer, history),
        "saga" => replay(saga, history),
        "race" => replay(race, history),
        "branches" => replay(branches, history),
        "broken" => replay(broken, history),
        "mixture" => replay(mixture, history),
        "poison" => replay(poison, history),
        "bounded_fan" => replay(bounded_fan, history),
        other => {
            let known = message::replay_as(other, history);
            let known = known.or_else(|| family::replay_as(other, history));
            let known = known.or_else(|| outside::replay_as(other, history));
            known.unwrap_or_else(|| Err(format!("no workflow {other}").into()))
        }
    }
}

#[activity]
pub(crate) async fn work(State(world): State<World>, ctx: ActivityCtx, n: u64) -> Result<u64> {
    world.act(&ctx);
    Ok(n + 1)
}

/// Fails while the attempt is below the given one.
#[activity]
async fn fails_below(State(world): State<World>, ctx: ActivityCtx, first: u32) -> Result<String> {
    world.act(&ctx);
    if ctx.attempt() < first {
        Err("not yet")?;
    }
    Ok("at last".into())
}

#[activity]
async fn rests(State(world): State<World>, ctx: ActivityCtx) -> Result<()> {
    world.act(&ctx);
    Err(ctx.cancelled().await.into())
}

/// Goes on where the last attempt reported to be.
#[activity]
async fn copies(State(world): State<World>, ctx: ActivityCtx) -> Result<u64> {
    world.act(&ctx);
    let from = ctx.last_heartbeat::<u64>().unwrap_or(0);
    ctx.heartbeat(from + 1)?;
    if from < 2 {
        Err("the line broke")?;
    }
    Ok(3)
}

#[activity]
async fn undoes(State(world): State<World>, ctx: ActivityCtx, _n: u64) -> Result<()> {
    world.act(&ctx);
    Ok(())
}

#[activity]
async fn refuses(State(world): State<World>, ctx: ActivityCtx) -> Result<()> {
    world.act(&ctx);
    Err("no").terminal()
}

pub(crate) const PAID: Signal<u64> = signal("paid");
const ADD: Signal<u64> = signal("add");
const PRICED: Signal<u64> = signal("priced");

#[workflow]
async fn one(ctx: Ctx, _case: String) -> Result<String> {
    Ok(ctx.run(work, 1).await?.to_string())
}

#[workflow]
async fn sequence(ctx: Ctx, _case: String) -> Result<String> {
    let mut n = 0;
    for _ in 0..4 {
        n = ctx.run(work, n).await?;
    }
    Ok(n.to_string())
}

#[workflow]
async fn fan(ctx: Ctx, _case: String) -> Result<String> {
    let all = futures::future::try_join_all((0..40).map(|n| ctx.run(work, n))).await?;
    Ok(all.into_iter().sum::<u64>().to_string())
}

#[workflow]
async fn bounded_fan(ctx: Ctx, _case: String) -> Result<String> {
    let call = |n| ctx.run(work, n).retry(RetryPolicy::times(3));
    let all = futures::future::try_join_all((0..5).map(call)).await?;
    Ok(all.into_iter().sum::<u64>().to_string())
}

/// Kills every process that runs its second slice.
#[workflow]
async fn poison(ctx: Ctx, case: String) -> Result<String> {
    ctx.run(work, 1).await?;
    World::of(&case).kill();
    Ok("it should not get here".into())
}

#[workflow]
async fn timers(ctx: Ctx, _case: String) -> Result<String> {
    let before = ctx.now();
    ctx.sleep(1.hours()).await?;
    let n = ctx.run(work, 1).await?;
    futures::future::try_join(ctx.sleep(1.days()), ctx.sleep(2.days())).await?;
    let days = ctx.now().duration_since(before)?.as_secs() / 86_400;
    Ok(format!("{n} in {days} days"))
}

#[workflow]
async fn stubborn(ctx: Ctx, _case: String) -> Result<String> {
    Ok(ctx.run(fails_below, 3).await?)
}

#[workflow]
async fn three_times(ctx: Ctx, _case: String) -> Result<String> {
    Ok(ctx.run(fails_below, 2).retry(RetryPolicy::times(4)).await?)
}

#[workflow]
async fn once(ctx: Ctx, _case: String) -> Result<String> {
    match ctx.run(work, 1).retry(RetryPolicy::never()).await {
        Ok(n) => Ok(n.to_string()),
        Err(error) if error.to_string().contains("gone") => Ok("lost".into()),
        Err(error) => Err(error.into()),
    }
}

/// Takes long enough to be told to stop.
#[activity]
async fn lingers(ctx: ActivityCtx, State(world): State<World>) -> Result<u64> {
    world.act(&ctx);
    ctx.heartbeat(1)?;
    ctx.heartbeat(2)?;
    let moment = std::time::Duration::from_millis(3);
    match tokio::time::timeout(moment, ctx.cancelled()).await {
        Ok(cancelled) => Err(cancelled.into()),
        Err(_) => Ok(2),
    }
}

#[workflow]
async fn lingering(ctx: Ctx, _case: String) -> Result<String> {
    match ctx.run(lingers, ()).retry(RetryPolicy::never()).await {
        Ok(n) => Ok(n.to_string()),
        Err(error) if error.to_string().contains("gone") => Ok("lost".into()),
        Err(error) => Err(error.into()),
    }
}

#[workflow]
async fn beats(ctx: Ctx, _case: String) -> Result<String> {
    Ok(ctx.run(copies, ()).heartbeat(10.mins()).await?.to_string())
}

#[workflow]
async fn stepping(ctx: Ctx, case: String) -> Result<String> {
    let first = {
        let case = case.clone();
        ctx.step("first", move || {
            let world = World::of(&case);
            async move { Ok(world.step("first").min(1)) }
        })
    };
    let first = first.await?;
    let second = ctx.step("second", move || {
        let world = World::of(&case);
        async move { Ok(world.step("second").min(1) + first) }
    });
    Ok(second.await?.to_string())
}

#[workflow]
async fn step_again(ctx: Ctx, case: String) -> Result<String> {
    let step = ctx.step("again", move || {
        let world = World::of(&case);
        async move {
            if world.step("again") < 2 {
                Err("not yet")?;
            }
            Ok(7)
        }
    });
    let n: u64 = step.retry(RetryPolicy::times(4)).await?;
    Ok(n.to_string())
}

#[workflow]
pub(crate) async fn collect(ctx: Ctx, _case: String) -> Result<String> {
    let mut all = Vec::new();
    while all.iter().sum::<u64>() < 6 {
        all.push(ctx.recv(PAID).await?);
    }
    Ok(format!("{all:?}"))
}

#[derive(Default)]
struct Tally {
    sum: u64,
    open: u32,
}

#[workflow]
impl Tally {
    async fn run(ctx: Ctx<Self>, _case: String) -> Result<String> {
        ctx.recv(PAID).await?;
        while ctx.with(|tally| tally.sum < 4 || tally.open > 0) {
            ctx.sleep(1.mins()).await?;
        }
        Ok(ctx.with(|tally| tally.sum.to_string()))
    }

    #[signal]
    fn add(&mut self, n: u64) {
        self.sum += n;
    }

    #[signal]
    async fn priced(ctx: Ctx<Self>, n: u64) -> Result<()> {
        ctx.with(|tally| tally.open += 1);
        let more = ctx.run(work, n).await?;
        ctx.with(|tally| {
            tally.sum += more;
            tally.open -= 1;
        });
        Ok(())
    }
}

#[workflow]
pub(crate) async fn cleans_up(ctx: Ctx, _case: String) -> Result<String> {
    let waited = ctx.run(rests, ()).await;
    if waited.is_err_and(|error| error.is_cancelled()) {
        ctx.shield(async || {
            ctx.run(work, 1).await?;
            ctx.sleep(1.hours()).await?;
            ctx.run(work, 2).await
        })
        .await?;
    }
    ctx.sleep(1.hours()).await?;
    Ok("not cancelled".into())
}

#[workflow]
async fn endless(ctx: Ctx, _case: String) -> Result<String> {
    ctx.run(rests, ()).await?;
    Ok("ended".into())
}

#[workflow]
pub(crate) async fn endless_timer(ctx: Ctx, _case: String) -> Result<String> {
    ctx.run(work, 1).await?;
    ctx.sleep(9.days()).await?;
    Ok("ended".into())
}

#[workflow]
async fn saga(ctx: Ctx, _case: String) -> Result<String> {
    ctx.run(work, 1).undo(undoes).await?;
    ctx.run(work, 2).undo(undoes).await?;
    ctx.run(refuses, ()).await?;
    Ok("ended".into())
}

#[workflow]
async fn race(ctx: Ctx, _case: String) -> Result<String> {
    let late = ctx.recv(PAID).timeout(1.hours()).await;
    let winner = outlast::select! {
        n = ctx.run(work, 1) => n?,
        _ = ctx.sleep(1.hours()) => 0,
    };
    Ok(format!("{} {winner}", late.is_err_and(|e| e.is_timeout())))
}

#[workflow]
async fn branches(ctx: Ctx, _case: String) -> Result<String> {
    let tasks: Vec<_> = (0..3_u64)
        .map(|n| {
            ctx.spawn(async move {
                ctx.sleep(n.hours()).await?;
                Ok::<_, Error>(ctx.run(work, n).await?)
            })
        })
        .collect();
    let mut all = Vec::new();
    for task in tasks {
        all.push(task.await?);
    }
    Ok(format!("{all:?}"))
}

#[workflow]
async fn broken(ctx: Ctx, case: String) -> Result<String> {
    let n = ctx.run(work, 1).await?;
    assert!(World::of(&case).is_fixed(), "this build is broken");
    Ok(ctx.run(work, n).await?.to_string())
}

#[workflow]
async fn mixture(ctx: Ctx, case: String) -> Result<String> {
    let n = ctx.run(work, 1).await?;
    let step = ctx.step("first", move || {
        let world = World::of(&case);
        async move { Ok(world.step("first").min(1) as u64) }
    });
    let (step, timer) = futures::future::join(step, ctx.sleep(1.hours())).await;
    timer?;
    let paid = ctx.recv(PAID).await?;
    let more = ctx.run(work, paid).await?;
    Ok((n + step? + more).to_string())
}
