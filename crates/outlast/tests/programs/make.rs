//! Random programs: small, and dense in meetings of the things that can meet.

use outlast_model::{CancelMode, ChildCancel, ParentClose};

use super::ast::{Call, Care, Check, End, Kid, Moment, Name, News, Node, Program, What, Wish};
use super::rng::Rng;

/// Nodes of a program, about.
const SIZE: u32 = 10;
const DEPTH: u32 = 3;
/// The signal that has handlers; the others are received.
const HANDLED: Name = Name::X;

/// The program of a seed.
pub fn program(seed: u64) -> Program {
    let mut rng = Rng::new(seed);
    let runs = if rng.chance(12) { 2 } else { 1 };
    let parts = (0..runs).map(|_| Maker::new(&mut rng).part()).collect();
    let count = rng.range(3, 18);
    let news = (0..count).map(|_| news(&mut rng)).collect();
    Program { seed, parts, news }
}

struct Maker<'a> {
    rng: &'a mut Rng,
    left: u32,
}

impl<'a> Maker<'a> {
    fn new(rng: &'a mut Rng) -> Self {
        Self { rng, left: SIZE }
    }

    /// Handlers first, mostly: then there is somebody for the news.
    fn part(&mut self) -> Vec<Node> {
        let mut nodes = Vec::new();
        for _ in 0..self.rng.below(3) {
            nodes.push(self.handler(0));
        }
        let count = self.rng.range(1, 4);
        nodes.extend((0..count).map(|_| self.node(0)));
        nodes
    }

    fn node(&mut self, depth: u32) -> Node {
        self.left = self.left.saturating_sub(1);
        if depth >= DEPTH || self.left == 0 {
            return self.leaf(depth);
        }
        match self.rng.below(28) {
            0 => Node::Seq(self.nodes(depth)),
            1 | 2 => Node::Join(self.nodes(depth)),
            3 => Node::Unordered(self.nodes(depth)),
            4 | 5 => Node::Select(self.nodes(depth)),
            6 => Node::Timeout(self.rng.range(1, 5), self.nodes(depth)),
            7 => Node::Spawn(self.care(), self.nodes(depth)),
            8 => Node::SpawnThenCancel(self.moment(), self.nodes(depth)),
            9 => Node::Scope(self.care(), self.nodes(depth)),
            10 => Node::ScopeThenCancel(self.moment(), self.nodes(depth)),
            11 => Node::Shield(self.nodes(depth)),
            12 => Node::Locked(self.nodes(depth)),
            13 => self.handler(depth),
            14 => Node::Permitted(self.nodes(depth)),
            15 => Node::FirstOk(self.nodes(depth)),
            16 => Node::FirstN(2, self.nodes(depth)),
            17 => Node::Limited(2, self.nodes(depth)),
            _ => self.leaf(depth),
        }
    }

    fn nodes(&mut self, depth: u32) -> Vec<Node> {
        let count = self.rng.pick(&[1, 2, 2, 3, 3, 4]);
        (0..count).map(|_| self.node(depth + 1)).collect()
    }

    fn handler(&mut self, depth: u32) -> Node {
        let end = self.rng.pick(&[End::Warn, End::Abandon, End::Finish]);
        let name = self.name();
        match self.rng.below(10) {
            0..=3 => Node::OnSignal(HANDLED, end, self.nodes(depth + 1)),
            4..=7 => {
                let check = self.rng.pick(&[Check::None, Check::Content, Check::State]);
                Node::OnUpdate(name, check, end, self.nodes(depth + 1))
            }
            8 => Node::OnAnySignal,
            _ => Node::OnAnyUpdate,
        }
    }

    fn leaf(&mut self, depth: u32) -> Node {
        match self.rng.below(30) {
            0..=3 => Node::Activity(self.call()),
            4..=6 => Node::Timer(self.rng.range(1, 6)),
            7 | 8 => Node::Step(self.attempts()),
            9 | 10 => Node::Receive(self.received()),
            11 | 12 => Node::Child(self.kid()),
            13 => Node::SignalOther,
            14 => Node::CancelOther,
            15 => Node::Promise(self.wish()),
            16 => Node::Patched(self.name()),
            17 => Node::Deprecated(self.name()),
            18 => Node::Draw,
            19 => Node::Yield,
            20 => Node::Write(self.name()),
            21 => Node::Until(self.name(), self.rng.range(1, 2)),
            22 => Node::UntilOrLate(self.name(), self.rng.range(1, 3), self.rng.range(1, 6)),
            23 | 24 if depth < DEPTH + 1 => {
                let node = Box::new(self.regretted());
                Node::Regret(node, self.moment())
            }
            25 => Node::Detach(self.call()),
            26 if self.rng.chance(50) => Node::Put,
            26 => Node::UntilPanic,
            27 => Node::Take,
            28 => Node::AwaitPut,
            _ if self.rng.chance(30) => Node::Fail,
            _ => Node::Send,
        }
    }

    /// Something with a `cancel()`.
    fn regretted(&mut self) -> Node {
        match self.rng.below(8) {
            0..=2 => Node::Activity(self.call()),
            3 => Node::Timer(self.rng.range(1, 4)),
            4 => Node::Step(self.attempts()),
            5 => Node::Receive(self.received()),
            6 => Node::Child(self.kid()),
            _ => Node::Promise(self.wish()),
        }
    }

    fn call(&mut self) -> Call {
        Call {
            cancel: self
                .rng
                .pick(&[CancelMode::Try, CancelMode::Wait, CancelMode::Abandon]),
            attempts: self.attempts(),
            is_undone: self.rng.chance(25),
            is_vital: self.rng.chance(20),
        }
    }

    fn kid(&mut self) -> Kid {
        Kid {
            cancel: self.rng.pick(&[
                ChildCancel::Wait,
                ChildCancel::Try,
                ChildCancel::Abandon,
                ChildCancel::RequestOnly,
            ]),
            close: self.rng.pick(&[
                ParentClose::Terminate,
                ParentClose::Abandon,
                ParentClose::RequestCancel,
            ]),
            is_start_awaited: self.rng.chance(40),
        }
    }

    fn wish(&mut self) -> Wish {
        match self.rng.below(3) {
            0 => Wish::Unnamed,
            _ => Wish::Named(self.name()),
        }
    }

    fn attempts(&mut self) -> u32 {
        self.rng.pick(&[0, 1, 1, 2])
    }

    /// A signal has a handler or is received: both are refused.
    fn received(&mut self) -> Name {
        match self.name() {
            HANDLED => Name::Y,
            other => other,
        }
    }

    fn name(&mut self) -> Name {
        self.rng.pick(&[Name::X, Name::X, Name::Y, Name::Z])
    }

    fn care(&mut self) -> Care {
        self.rng.pick(&[Care::Together, Care::Supervised])
    }

    fn moment(&mut self) -> Moment {
        self.rng.pick(&[
            Moment::Now,
            Moment::Yielded,
            Moment::Later,
            Moment::Later,
            Moment::AfterSignal,
        ])
    }
}

fn news(rng: &mut Rng) -> News {
    let name = rng.pick(&[Name::X, Name::X, Name::Y, Name::Z]);
    let what = match rng.below(40) {
        0..=9 => What::AttemptCompletes,
        10 | 11 => What::AttemptFails,
        12 => What::AttemptCancels,
        13..=17 => What::TimePasses,
        18..=22 => What::Signal(name),
        23..=26 => What::Update(name),
        27 => What::UpdateAgain,
        28 | 29 => What::Query,
        30 | 31 => What::Settle(name),
        32 => What::Reject(name),
        33..=36 => What::OthersSucceed,
        37 | 38 => What::OthersFail,
        _ => What::Cancel,
    };
    News {
        what,
        pick: u8::try_from(rng.below(256)).unwrap_or(0),
        has_company: rng.chance(35),
    }
}
