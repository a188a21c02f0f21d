//! The workflow that a chaos run kills: two activities at once, one with bounded attempts, one
//! that can be undone, a step, a timer, a child, messages, updates, questions; some trips go on as
//! a new run. It returns what it saw, so that the judge can compare it with the ledger.

use std::io;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use outlast::RetryPolicy;
use outlast::prelude::*;
use serde::{Deserialize, Serialize};

use super::Planted;
use super::pen::Pen;
use super::record::{ChildNo, Effect, LedgerSeq, Record};
use crate::lot::mix;

/// More attempts than any run of this harness can use up.
pub(crate) const ATTEMPTS: u32 = 10_000;

/// Lets a trip end.
pub(crate) const FINISH: Signal<()> = signal("finish");

/// The world of the activities.
#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) pen: Pen,
    pub(crate) child: ChildNo,
    pub(crate) seed: u64,
    /// Attempts in a hundred that fail.
    pub(crate) fail: u64,
    pub(crate) planted: Option<Planted>,
}

/// What an activity is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Errand {
    pub(crate) token: u64,
}

/// What an activity returns: the number of its `Begin`, and what its undo must know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Mark {
    pub(crate) begin: u64,
    pub(crate) token: u64,
}

/// What a trip saw.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Digest {
    pub(crate) key: String,
    pub(crate) token: u64,
    /// The marks of take, pay, look and note, in this order.
    pub(crate) marks: Vec<Mark>,
    /// How long the timer took, by the workflow's clock.
    pub(crate) slept_ms: u64,
    /// The values of all messages and updates.
    pub(crate) values: Vec<u64>,
    /// What the child returned.
    pub(crate) leg: Option<Mark>,
}

/// What a run of a trip is told: its name, and what the run before it saw.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ticket {
    pub(crate) key: String,
    pub(crate) seen: Option<Digest>,
}

impl Ticket {
    pub(crate) fn first(key: &str) -> Self {
        let key = key.to_owned();
        Self { key, seen: None }
    }
}

/// One trip in so many goes on as a new run.
const CONTINUES: u64 = 3;

/// The id of a trip's child.
pub(crate) fn leg_of(trip: &str) -> String {
    format!("{trip}/leg")
}

/// How long a trip sleeps.
pub(crate) const NAP: Duration = Duration::from_millis(8);

/// The state of a trip: values that came by message.
#[derive(Debug, Default)]
pub(crate) struct Trip {
    values: Vec<u64>,
}

#[workflow]
impl Trip {
    #[init]
    fn new(ticket: &Ticket) -> Self {
        let seen = ticket.seen.as_ref();
        Self {
            values: seen.map(|seen| seen.values.clone()).unwrap_or_default(),
        }
    }

    pub(crate) async fn run(ctx: Ctx<Self>, ticket: Ticket) -> Result<Digest> {
        play_trick();
        let Ticket { key, seen } = ticket;
        let is_first = seen.is_none();
        let mut digest = match seen {
            // What the run before saw is all that is left to say, after a while.
            Some(seen) => {
                ctx.sleep(NAP).await?;
                seen
            }
            None => travel(ctx, &key).await?,
        };
        digest.values = ctx.with(|trip| trip.values.clone());
        if is_first && digest.token.is_multiple_of(CONTINUES) {
            let seen = Some(digest);
            return ctx.continue_as_new(Ticket { key, seen });
        }
        Ok(digest)
    }

    #[signal]
    pub(crate) fn add(&mut self, value: u64) {
        self.values.push(value);
    }

    #[update]
    pub(crate) fn enter(&mut self, value: u64) -> u64 {
        self.values.push(value);
        value
    }

    #[query]
    pub(crate) fn values(&self) -> Vec<u64> {
        self.values.clone()
    }
}

async fn travel(ctx: Ctx<Trip>, key: &str) -> Result<Digest> {
    let errand = Errand {
        token: ctx.random(),
    };
    let often = often();
    let bounded = RetryPolicy {
        max_attempts: ATTEMPTS,
        ..often.clone()
    };
    let taken = ctx.run(take, &errand).retry(often.clone()).undo(give_back);
    let paid = ctx.run(pay, &errand).retry(bounded);
    let (taken, paid) = (taken.await?, paid.await?);
    // Of the default's pauses the seventh is longer than the driver's patience.
    let noted = ctx.step("note", note(ctx, errand.token));
    let noted = noted.retry(often.clone()).await?;
    let leg = ctx.child(leg, &errand).id(leg_of(key));
    let before = ctx.now();
    ctx.sleep(NAP).await?;
    let slept = ctx.now().duration_since(before).unwrap_or_default();
    let looked = ctx.run(look, &errand).retry(often).await?;
    let leg = leg.await?;
    ctx.recv(FINISH).await?;
    Ok(Digest {
        key: key.to_owned(),
        token: errand.token,
        marks: vec![taken, paid, looked, noted],
        slept_ms: u64::try_from(slept.as_millis()).unwrap_or(u64::MAX),
        values: Vec::new(),
        leg: Some(leg),
    })
}

fn often() -> RetryPolicy {
    RetryPolicy::default()
        .initial(1.millis())
        .max_interval(10.millis())
}

/// The child of a trip.
#[workflow]
pub(crate) async fn leg(ctx: Ctx, errand: Errand) -> Result<Mark> {
    Ok(ctx.run(fetch, &errand).retry(often()).await?)
}

#[activity]
pub(crate) async fn fetch(
    ctx: ActivityCtx,
    State(world): State<World>,
    errand: Errand,
) -> Result<Mark> {
    world.attempt(&ctx, "fetch", errand.token).await
}

#[activity]
pub(crate) async fn take(
    ctx: ActivityCtx,
    State(world): State<World>,
    errand: Errand,
) -> Result<Mark> {
    world.attempt(&ctx, "take", errand.token).await
}

/// Undoes `take`; its mark names the effect that it takes back.
#[activity]
pub(crate) async fn give_back(
    ctx: ActivityCtx,
    State(world): State<World>,
    taken: Mark,
) -> Result<Mark> {
    world.attempt(&ctx, "give_back", taken.token).await
}

#[activity]
pub(crate) async fn pay(
    ctx: ActivityCtx,
    State(world): State<World>,
    errand: Errand,
) -> Result<Mark> {
    world.attempt(&ctx, "pay", errand.token).await
}

#[activity]
pub(crate) async fn look(
    ctx: ActivityCtx,
    State(world): State<World>,
    errand: Errand,
) -> Result<Mark> {
    world.attempt(&ctx, "look", errand.token).await
}

type NoteFuture = std::pin::Pin<Box<dyn Future<Output = Result<Mark>> + Send>>;

/// A step has no context: it carries what it must know, and finds its world where the process
/// left it.
fn note(ctx: Ctx<Trip>, token: u64) -> impl Fn() -> NoteFuture + Send + Sync + 'static {
    let (trip, run) = (ctx.id().to_string(), ctx.run_id().to_string());
    move || {
        let (trip, run) = (trip.clone(), run.clone());
        Box::pin(async move {
            let world = super::worker::world()?;
            let child = world.child;
            let name = "note".to_owned();
            world
                .effect(Effect {
                    trip,
                    run,
                    name,
                    attempt: 0,
                    child,
                    token,
                })
                .await
        })
    }
}

impl World {
    async fn attempt(&self, ctx: &ActivityCtx, name: &str, token: u64) -> Result<Mark> {
        let effect = Effect {
            trip: ctx.workflow_id().to_string(),
            run: ctx.run_id().to_string(),
            name: name.into(),
            attempt: ctx.attempt(),
            child: self.child,
            token,
        };
        if self.is_unlucky(&effect) {
            let begin = self.pen.write(Record::Begin(effect)).await?;
            self.pen.write(Record::Fail(begin)).await?;
            return Err(Error::msg("an injected error"));
        }
        if self.planted == Some(Planted::DoubleEffect) {
            self.effect(effect.clone()).await?;
        }
        self.effect(effect).await
    }

    /// Whether this attempt fails. An undo does not: its policy is not ours to choose, and its
    /// pauses are long.
    fn is_unlucky(&self, effect: &Effect) -> bool {
        let name = effect
            .name
            .bytes()
            .fold(0, |sum, byte| mix(sum ^ u64::from(byte)));
        let attempt = mix(u64::from(effect.attempt) ^ mix(self.child.0));
        let lot = mix(self.seed ^ effect.token ^ name ^ attempt);
        effect.name != "give_back" && lot % 100 < self.fail
    }

    /// Begin, the effect, end: each on disk before the next.
    async fn effect(&self, effect: Effect) -> Result<Mark> {
        let token = effect.token;
        let begin = self.pen.write(Record::Begin(effect)).await?;
        let done: io::Result<LedgerSeq> = self.pen.write(Record::Effect(begin)).await;
        done?;
        self.pen.write(Record::End(begin)).await?;
        Ok(Mark {
            begin: begin.0,
            token,
        })
    }
}

/// What workflow code does to reach a point that well-behaved code does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Trick {
    None = 0,
    /// One slice takes long, so that it goes over to the slow path and the writer.
    Dawdle = 1,
    /// One slice panics.
    Panic = 2,
}

static TRICK: AtomicU8 = AtomicU8::new(0);

/// The next slice that begins a trip does this, once.
pub(crate) fn prepare(trick: Trick) {
    TRICK.store(trick as u8, Ordering::SeqCst);
}

fn play_trick() {
    let trick = TRICK.swap(Trick::None as u8, Ordering::SeqCst);
    if trick == Trick::Dawdle as u8 {
        std::thread::sleep(Duration::from_millis(60));
    } else if trick == Trick::Panic as u8 {
        panic!("asked to, by the chaos run");
    }
}
