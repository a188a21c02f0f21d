//! Random workflow programs, as data: a run's program is its input, so that it is the same on
//! every replay and in every process.

use std::time::Duration;

use outlast_model::{ActivityOptions, CancelMode, RetryPolicy};
use serde::{Deserialize, Serialize};

use super::rng::Rng;

/// One program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    pub body: Vec<Node>,
}

/// One thing a program does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Node {
    /// Runs an activity.
    Activity(Call),
    /// Runs many activities at once.
    Fan(u8, Call),
    /// Waits so many milliseconds.
    Timer(u64),
    /// Runs a step, at most so often; 0: without end.
    Step(u32),
    /// Waits for a signal of one of two names.
    Recv(bool),
    /// Asks for an activity and changes its mind.
    Regret(Call),
    /// Asks for an activity and waits for nobody.
    Detach(Call),
    /// Draws a random number and looks at the clock.
    Draw,
    /// Ends the run with an error.
    Fail,
    /// One after another.
    Seq(Vec<Node>),
    /// All at once.
    Join(Vec<Node>),
    /// All at once; the first that ends ends the others.
    Select(Vec<Node>),
    /// Out of reach of cancellation.
    Shield(Box<Node>),
    /// Beside everything else.
    Spawn(Box<Node>),
}

/// How an activity is called. Times in seconds, 0 for none.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Call {
    pub attempts: u32,
    pub schedule_to_close: u64,
    pub schedule_to_start: u64,
    pub start_to_close: u64,
    pub heartbeat: u64,
    pub cancel: u8,
    pub is_rare: bool,
    pub is_undone: bool,
}

impl Call {
    /// The type; the rare one is not registered in every process.
    pub fn activity_type(self) -> &'static str {
        if self.is_rare { "rare" } else { "usual" }
    }

    pub fn options(self) -> ActivityOptions {
        let seconds = |n: u64| (n > 0).then(|| Duration::from_secs(n));
        ActivityOptions {
            schedule_to_close: seconds(self.schedule_to_close),
            schedule_to_start: seconds(self.schedule_to_start),
            start_to_close: seconds(self.start_to_close),
            heartbeat: seconds(self.heartbeat),
            retry: RetryPolicy::times(self.attempts),
            cancel: match self.cancel {
                0 => CancelMode::Try,
                1 => CancelMode::Wait,
                _ => CancelMode::Abandon,
            },
            queue: None,
        }
    }
}

/// What a program may contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variety {
    /// Everything.
    Full,
    /// Only what ends in the same order whatever the process does meanwhile.
    Settled,
}

impl Plan {
    pub fn random(rng: &mut Rng, variety: Variety) -> Self {
        let mut maker = Maker {
            rng,
            variety,
            left: 9,
        };
        let count = maker.rng.range(1, 4);
        let body = (0..count).map(|_| maker.node(0)).collect();
        Self { body }
    }
}

struct Maker<'a> {
    rng: &'a mut Rng,
    variety: Variety,
    left: u32,
}

impl Maker<'_> {
    fn node(&mut self, depth: u32) -> Node {
        self.left = self.left.saturating_sub(1);
        let is_leaf = depth >= 3 || self.left == 0;
        match self.rng.below(if is_leaf { 10 } else { 16 }) {
            0..=2 => Node::Activity(self.call()),
            3 => Node::Timer(self.rng.range(1, 90_000)),
            4 => Node::Step(u32::try_from(self.rng.below(3)).unwrap_or(0)),
            5 => Node::Recv(self.rng.chance(50)),
            6 => Node::Regret(self.call()),
            7 => Node::Detach(self.call()),
            8 => Node::Draw,
            9 => self.rare_leaf(),
            10 => Node::Seq(self.nodes(depth)),
            11 | 12 => Node::Join(self.nodes(depth)),
            13 => Node::Select(self.nodes(depth)),
            14 => Node::Shield(Box::new(self.node(depth + 1))),
            _ => Node::Spawn(Box::new(self.node(depth + 1))),
        }
    }

    fn rare_leaf(&mut self) -> Node {
        match self.rng.below(5) {
            0 | 1 => Node::Fail,
            2 => Node::Fan(
                u8::try_from(self.rng.range(4, 12)).unwrap_or(4),
                self.call(),
            ),
            _ => Node::Timer(self.rng.range(1, 3) * 1_000),
        }
    }

    fn nodes(&mut self, depth: u32) -> Vec<Node> {
        let count = self.rng.range(2, 3);
        (0..count).map(|_| self.node(depth + 1)).collect()
    }

    fn call(&mut self) -> Call {
        let rng = &mut *self.rng;
        let full = self.variety == Variety::Full;
        let mut some = |percent: u64, low: u64, high: u64| {
            if full && rng.chance(percent) {
                rng.range(low, high)
            } else {
                0
            }
        };
        let (schedule_to_close, schedule_to_start) = (some(15, 20, 300), some(10, 5, 60));
        let (start_to_close, heartbeat) = (some(40, 2, 60), some(25, 2, 30));
        Call {
            attempts: u32::try_from(rng.below(4)).unwrap_or(0),
            schedule_to_close,
            schedule_to_start,
            start_to_close,
            heartbeat,
            cancel: u8::try_from(rng.below(3)).unwrap_or(0),
            is_rare: full && rng.chance(15),
            is_undone: rng.chance(20),
        }
    }
}
