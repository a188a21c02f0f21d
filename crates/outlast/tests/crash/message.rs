//! Scenarios of messages: updates, questions, promises, and runs that go on as new ones while
//! messages come.
//!
//! What a run returns names everything it was told, in order, so that a message that was lost,
//! came twice or overtook another shows in the text.

use outlast::model::Event;
use outlast::prelude::*;
use outlast::testing::replay;
use outlast::{Query, Update, query, update};

use crate::script::{Env, PAID, Scenario, scenario, script, work};
use crate::world::World;

const SHUT: Signal<u64> = signal("shut");
const TICK: Signal<u64> = signal("tick");
const ADD: Update<u64, u64> = update("add");
const PRICE: Update<u64, u64> = update("price");
const REFUSE: Update<u64, u64> = update("refuse");
const CLOSE: Update<u64, u64> = update("close");
const HANG: Update<u64, u64> = update("hang");
const LOG: Query<(), String> = query("log");

/// Signals of a storm, updates of a chain.
const STORM: u64 = 12;
const UPDATES: u64 = 10;

pub(crate) const SCENARIOS: &[Scenario] = &[
    scenario(
        "signal with start",
        script!(|client| {
            client.signal_with_start("collect", "a", PAID, 1).await;
            client.signal_with_start("collect", "a", PAID, 2).await;
            client.signal("a", PAID, 3).await;
            client.result("a").await;
        }),
    ),
    scenario(
        "signal with start, and end",
        script!(|client| {
            client.signal_with_start("collect", "a", PAID, 6).await;
            client.result("a").await;
            client.signal_with_start("collect", "a", PAID, 6).await;
            client.signal_and_start("collect", "b", PAID, 3).await;
            client.signal_and_start("collect", "b", PAID, 3).await;
            client.signal("b", PAID, 4).await;
            client.result("b").await;
            client.signal_and_start("collect", "b", PAID, 3).await;
        }),
    ),
    scenario(
        "update",
        script!(|client| {
            client.start("Till", "a").await;
            client.update("a", ADD, 1, "one").await;
            client.update("a", ADD, 2, "two").await;
            client.update("a", ADD, 1, "one").await;
            client.signal("a", SHUT, 0).await;
            client.result("a").await;
            client.update("a", ADD, 2, "two").await;
        }),
    ),
    scenario(
        "update, accepted",
        script!(|client| {
            client.start("Till", "a").await;
            client.accept("a", PRICE, 1, "one").await;
            client.accept("a", ADD, 5, "two").await;
            client.update("a", PRICE, 1, "one").await;
            client.update("a", ADD, 5, "two").await;
            client.signal("a", SHUT, 0).await;
            client.result("a").await;
            client.update("a", PRICE, 1, "one").await;
        }),
    ),
    scenario(
        "update, rejected",
        script!(|client| {
            client.start("Till", "a").await;
            client.update("a", ADD, 0, "one").await;
            client.update("a", ADD, 1, "two").await;
            client.update("a", ADD, 0, "one").await;
            client.update("a", REFUSE, 1, "three").await;
            client.update("a", REFUSE, 1, "three").await;
            client.signal("a", SHUT, 0).await;
            client.result("a").await;
        }),
    ),
    scenario(
        "update with start",
        script!(|client| {
            client.update_with_start("Till", "a", (ADD, 1), "one").await;
            client.update_with_start("Till", "a", (ADD, 2), "two").await;
            client.update_with_start("Till", "a", (ADD, 1), "one").await;
            client.signal("a", SHUT, 0).await;
            client.result("a").await;
        }),
    ),
    scenario(
        "update with start, and end",
        script!(|client| {
            let close = (CLOSE, 7);
            client.update_with_start("Till", "a", close, "one").await;
            client.result("a").await;
            client.update_with_start("Till", "a", close, "one").await;
        }),
    ),
    scenario(
        "update and end",
        script!(|client| {
            client.start("Till", "a").await;
            client.accept("a", HANG, 1, "one").await;
            client.signal("a", SHUT, 0).await;
            client.result("a").await;
            client.update("a", HANG, 1, "one").await;
            client.update("a", HANG, 1, "one").await;
        }),
    ),
    scenario(
        "query",
        script!(|client| {
            client.start("Till", "a").await;
            client.query("a", LOG).await;
            client.update("a", ADD, 1, "one").await;
            client.query("a", LOG).await;
            client.signal("a", SHUT, 0).await;
            client.result("a").await;
            client.query("a", LOG).await;
        }),
    ),
    scenario(
        "promises",
        script!(|client| {
            client.start("approval", "a").await;
            client.resolve("a", "first", 1).await;
            client.resolve("a", "first", 2).await;
            client.reject("a", "second", "no").await;
            client.resolve("a", "second", 3).await;
            client.resolve_token(4).await;
            client.result("a").await;
        }),
    ),
    Scenario {
        may_reorder: true,
        ..scenario(
            "new runs in a storm",
            script!(|client| {
                client.start("Storm", "a").await;
                client.storm("a", TICK, 1..=STORM).await;
                client.result("a").await;
            }),
        )
    },
    Scenario {
        may_reorder: true,
        ..scenario(
            "new runs with signals left",
            script!(|client| {
                client.start("relay", "a").await;
                client.storm("a", TICK, 1..=STORM).await;
                client.result("a").await;
            }),
        )
    },
    scenario(
        "new runs with updates",
        script!(|client| {
            client.start("Links", "a").await;
            for n in 1..=UPDATES {
                client.update("a", ADD, n, &n.to_string()).await;
            }
            client.result("a").await;
            client.start("Links", "a").await;
        }),
    ),
    scenario(
        "updates of runs that went on",
        script!(|client| {
            client.start("Links", "a").await;
            for n in [1, 2, 3, 1, 2, 3, 4, 5, 1, 6, 7, 8, 9] {
                client.update("a", ADD, n, &n.to_string()).await;
            }
            client.update("a", ADD, 1, "1").await;
            client.update("a", ADD, UPDATES, "10").await;
            client.result("a").await;
        }),
    ),
    scenario(
        "patches",
        script!(|client| {
            client.start("changed", "a").await;
            client.signal("a", PAID, 1).await;
            client.result("a").await;
        }),
    ),
];

pub(crate) fn register(env: Env) -> Env {
    let env = env.activity(tells).workflow(Till::run).workflow(approval);
    let env = env.workflow(Storm::run).workflow(relay);
    env.workflow(Links::run).workflow(changed)
}

/// Replays a history of one of these types; `None` if it is of another.
pub(crate) fn replay_as(kind: &str, history: &[Event]) -> Option<Result<()>> {
    Some(match kind {
        "Till" => replay(Till::run, history),
        "approval" => replay(approval, history),
        "Storm" => replay(Storm::run, history),
        "relay" => replay(relay, history),
        "Links" => replay(Links::run, history),
        "changed" => replay(changed, history),
        _ => return None,
    })
}

/// Hands a token out.
#[activity]
async fn tells(State(world): State<World>, ctx: ActivityCtx, token: String) -> Result<()> {
    world.act(&ctx);
    world.hand_out(token);
    Ok(())
}

/// Takes updates until it is shut.
#[derive(Default)]
struct Till {
    log: Vec<u64>,
    is_shut: bool,
}

#[workflow]
impl Till {
    async fn run(ctx: Ctx<Self>, _case: String) -> Result<String> {
        ctx.wait_until(|till| till.is_shut).await?;
        Ok(ctx.read(Self::log))
    }

    #[signal]
    fn shut(&mut self, _n: u64) {
        self.is_shut = true;
    }

    #[query]
    fn log(&self) -> String {
        format!("{:?}", self.log)
    }

    #[validator(add)]
    fn can_add(&self, n: &u64) -> Result<()> {
        if *n == 0 {
            Err("nothing to add")?;
        }
        Ok(())
    }

    #[update]
    fn add(&mut self, n: u64) -> u64 {
        self.log.push(n);
        self.log.iter().sum()
    }

    #[update]
    async fn price(ctx: Ctx<Self>, n: u64) -> Result<u64> {
        let price = ctx.run(work, n).await?;
        ctx.sleep(1.hours()).await?;
        ctx.with(|till| till.log.push(price));
        Ok(price)
    }

    #[update]
    fn close(&mut self, n: u64) -> u64 {
        self.is_shut = true;
        n
    }

    #[update]
    fn refuse(&mut self, n: u64) -> Result<u64> {
        self.log.push(100 + n);
        Err("never")?
    }

    /// The run ends before it does.
    #[update(unfinished = "abandon")]
    async fn hang(ctx: Ctx<Self>, n: u64) -> Result<u64> {
        ctx.wait_until(|_| false).await?;
        Ok(n)
    }
}

#[workflow]
async fn approval(ctx: Ctx, _case: String) -> Result<String> {
    let first: u64 = ctx.promise_named("first").await?;
    let second = ctx.promise_named::<u64>("second").await;
    let third = ctx.promise::<u64>();
    ctx.run(tells, third.token()).await?;
    let third = third.await?;
    Ok(format!("{first} {} {third}", second.is_err()))
}

/// What a run hands to the next: the name of the case, and what came so far.
fn handed(case: &str, all: &[u64]) -> String {
    let all: Vec<String> = all.iter().map(u64::to_string).collect();
    format!("{case} {}", all.join(" "))
}

fn taken(input: &str) -> (String, Vec<u64>) {
    let mut words = input.split_whitespace();
    let case = words.next().unwrap_or_default().to_owned();
    (case, words.filter_map(|word| word.parse().ok()).collect())
}

/// Goes on as a new run whenever three have come.
struct Storm {
    case: String,
    all: Vec<u64>,
    before: usize,
}

#[workflow]
impl Storm {
    #[init]
    fn new(input: &String) -> Self {
        let (case, all) = taken(input);
        let before = all.len();
        Self { case, all, before }
    }

    async fn run(ctx: Ctx<Self>, _input: String) -> Result<String> {
        ctx.wait_until(|storm| storm.is_over() || storm.all.len() >= storm.before + 3)
            .await?;
        if ctx.read(Self::is_over) {
            return Ok(ctx.read(|storm| format!("{:?}", storm.all)));
        }
        let next = ctx.read(|storm| handed(&storm.case, &storm.all));
        ctx.continue_as_new(next)
    }

    #[signal]
    fn tick(&mut self, n: u64) {
        self.all.push(n);
    }
}

impl Storm {
    fn is_over(&self) -> bool {
        self.all.len() as u64 >= STORM
    }
}

/// Takes two signals and leaves the rest to the next run.
#[workflow]
async fn relay(ctx: Ctx, input: String) -> Result<String> {
    let (case, mut all) = taken(&input);
    for _ in 0..2 {
        all.push(ctx.recv(TICK).await?);
    }
    if all.len() as u64 >= STORM {
        return Ok(format!("{all:?}"));
    }
    ctx.continue_as_new(handed(&case, &all))
}

/// Goes on as a new run after every second update.
struct Links {
    case: String,
    all: Vec<u64>,
    before: usize,
}

#[workflow]
impl Links {
    #[init]
    fn new(input: &String) -> Self {
        let (case, all) = taken(input);
        let before = all.len();
        Self { case, all, before }
    }

    async fn run(ctx: Ctx<Self>, _input: String) -> Result<String> {
        ctx.wait_until(|links| links.all.len() >= links.before + 2)
            .await?;
        if ctx.read(|links| links.all.len() as u64 >= UPDATES) {
            return Ok(ctx.read(|links| format!("{:?}", links.all)));
        }
        let next = ctx.read(|links| handed(&links.case, &links.all));
        ctx.continue_as_new(next)
    }

    #[update]
    fn add(&mut self, n: u64) -> u64 {
        self.all.push(n);
        n * 10
    }
}

/// Two changes: one that old runs must not see, one that all have seen.
#[workflow]
async fn changed(ctx: Ctx, _case: String) -> Result<String> {
    ctx.deprecate_patch("older");
    let mut n = ctx.recv(PAID).await?;
    if ctx.patched("newer") {
        n = ctx.run(work, n).await?;
    }
    let again = ctx.patched("newer");
    Ok(format!("{n} {again}"))
}
