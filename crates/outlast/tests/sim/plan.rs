//! Random workflow programs, as data: a run's program is its input, so that it is the same on
//! every replay and in every process.

use std::time::Duration;

use outlast_model::options::{ChildCancel, ParentClose};
use outlast_model::start::ReusePolicy;
use outlast_model::{ActivityOptions, CancelMode, ChildOptions, RetryPolicy};
use serde::{Deserialize, Serialize};

use super::program::Diary;
use super::rng::Rng;

/// Workflows that others speak to: those that clients start, some that only children are, and
/// one that is never there.
pub const OTHERS: [&str; 6] = ["w0", "w1", "w2", "c0", "c1", "nobody"];
const NOBODY: u8 = 5;

/// One program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    pub body: Vec<Node>,
    /// What the run goes on with, as a new one.
    pub next: Option<Box<Plan>>,
    /// What the runs before it saw.
    pub diary: Diary,
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
    /// Starts a child.
    Child(Box<ChildCall>),
    /// Sends one of the signals to another workflow.
    Tell(u8, u8),
    /// Asks another workflow to stop.
    Stop(u8),
    /// Waits for a promise.
    Promise(u8),
    /// Waits until so many messages were logged, or for a while.
    Until(u8),
    /// Asks for a patch.
    Patch(u8),
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

impl Node {
    fn alone(self) -> Self {
        let all = |nodes: Vec<Self>| nodes.into_iter().map(Self::alone).collect();
        match self {
            Self::Child(_) => Self::Draw,
            Self::Seq(nodes) => Self::Seq(all(nodes)),
            Self::Join(nodes) => Self::Join(all(nodes)),
            Self::Select(nodes) => Self::Select(all(nodes)),
            Self::Shield(node) => Self::Shield(Box::new(node.alone())),
            Self::Spawn(node) => Self::Spawn(Box::new(node.alone())),
            leaf => leaf,
        }
    }
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

/// How a child is called.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChildCall {
    /// Its id is one of the others', or its own.
    pub id: Option<u8>,
    pub plan: Plan,
    pub how: Manner,
    pub cancel: u8,
    pub close: u8,
    pub reuse: u8,
    /// In seconds, 0 for none.
    pub timeout: u64,
}

/// What a parent does with its child.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Manner {
    /// Waits for its end.
    Await,
    /// Changes its mind after a while.
    Regret,
    /// Changes its mind at once.
    RegretAtOnce,
    /// Waits until it runs.
    Started,
    /// Lets it go.
    Detach,
}

impl ChildCall {
    pub fn options(&self) -> ChildOptions {
        ChildOptions {
            queue: None,
            priority: None,
            run_timeout: (self.timeout > 0).then(|| Duration::from_secs(self.timeout)),
            parent_close: match self.close {
                0 => ParentClose::Terminate,
                1 => ParentClose::RequestCancel,
                _ => ParentClose::Abandon,
            },
            cancel: match self.cancel {
                0 => ChildCancel::Try,
                1 => ChildCancel::Wait,
                2 => ChildCancel::RequestOnly,
                _ => ChildCancel::Abandon,
            },
            reuse: match self.reuse {
                0 => ReusePolicy::AllowDuplicateFailedOnly,
                1 => ReusePolicy::RejectDuplicate,
                _ => ReusePolicy::AllowDuplicate,
            },
        }
    }
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
            priority: None,
        }
    }
}

/// What a program may contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variety {
    /// Everything.
    Full,
    /// Everything, but no word to runs that are not its own children: who comes first there
    /// depends on how fast each is.
    Family,
}

impl Plan {
    pub fn random(rng: &mut Rng, variety: Variety) -> Self {
        let is_social = rng.chance(60);
        let mut maker = Maker {
            rng,
            variety,
            is_social,
            left: 9,
            generations: 2,
        };
        maker.plan(4)
    }

    /// The same without children: nobody competes with the run.
    #[must_use]
    pub fn alone(mut self) -> Self {
        let body = std::mem::take(&mut self.body);
        self.body = body.into_iter().map(Node::alone).collect();
        self.next = self.next.map(|next| Box::new(next.alone()));
        self
    }

    /// A plan that ends with its body.
    pub fn of(body: Vec<Node>) -> Self {
        Self {
            body,
            next: None,
            diary: Diary::default(),
        }
    }
}

struct Maker<'a> {
    rng: &'a mut Rng,
    variety: Variety,
    /// Whether it speaks to others.
    is_social: bool,
    left: u32,
    /// How deep children may have children.
    generations: u32,
}

impl Maker<'_> {
    fn plan(&mut self, most: u64) -> Plan {
        let count = self.rng.range(1, most);
        let body = (0..count).map(|_| self.node(0)).collect();
        let goes_on = self.is_social && self.left > 0 && self.rng.chance(30);
        let next = goes_on.then(|| Box::new(self.plan(2)));
        Plan {
            next,
            ..Plan::of(body)
        }
    }

    fn node(&mut self, depth: u32) -> Node {
        self.left = self.left.saturating_sub(1);
        if self.is_social && self.rng.chance(35) {
            return self.social();
        }
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

    fn social(&mut self) -> Node {
        let other = match self.variety {
            Variety::Full => u8::try_from(self.rng.index(OTHERS.len())).unwrap_or(0),
            Variety::Family => NOBODY,
        };
        match self.rng.below(12) {
            0..=3 if self.generations > 0 => self.child(other),
            4..=6 => Node::Tell(other, u8::try_from(self.rng.below(4)).unwrap_or(0)),
            7 => Node::Stop(other),
            8 => Node::Promise(u8::try_from(self.rng.below(2)).unwrap_or(0)),
            9 => Node::Until(u8::try_from(self.rng.range(1, 3)).unwrap_or(1)),
            10 => Node::Recv(self.rng.chance(50)),
            _ => Node::Patch(u8::try_from(self.rng.below(2)).unwrap_or(0)),
        }
    }

    fn child(&mut self, other: u8) -> Node {
        self.generations -= 1;
        let plan = self.plan(2);
        self.generations += 1;
        let rng = &mut *self.rng;
        let mut below = |n: u64| u8::try_from(rng.below(n)).unwrap_or(0);
        let (cancel, close, reuse) = (below(4), below(3), below(4));
        Node::Child(Box::new(ChildCall {
            id: (other != NOBODY && rng.chance(70)).then_some(other),
            plan,
            how: rng.pick(&[
                Manner::Await,
                Manner::Await,
                Manner::Await,
                Manner::Regret,
                Manner::Regret,
                Manner::RegretAtOnce,
                Manner::Started,
                Manner::Detach,
            ]),
            cancel,
            close,
            reuse,
            timeout: if rng.chance(15) { rng.range(5, 300) } else { 0 },
        }))
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
        let mut some = |percent: u64, low: u64, high: u64| {
            if rng.chance(percent) {
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
            is_rare: rng.chance(15),
            is_undone: rng.chance(20),
        }
    }
}
