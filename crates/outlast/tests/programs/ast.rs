//! Programs as data: what a workflow does, and what happens to it.
//!
//! A program is one workflow, in one part for each run of its chain, and the news it gets. Its
//! text is the report of a failing case, so it reads like the code it stands for.

use std::fmt::{self, Write};

use outlast_model::{CancelMode, ChildCancel, ParentClose};

/// A workflow and what happens to it.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// Names the run, and with it its random numbers.
    pub seed: u64,
    /// The code of each run of the chain; all but the last continue as new.
    pub parts: Vec<Vec<Node>>,
    /// The news, in order; what follows is decided by the world: everything comes to an end.
    pub news: Vec<News>,
}

/// How an activity is called.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Call {
    pub cancel: CancelMode,
    /// 0: without end.
    pub attempts: u32,
    pub is_undone: bool,
    /// Its failure is the failure of the code around it.
    pub is_vital: bool,
}

/// How a child is asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Kid {
    pub cancel: ChildCancel,
    pub close: ParentClose,
    /// Whether its start is awaited first.
    pub is_start_awaited: bool,
}

/// What becomes of a handler at the end of main.
pub use outlast_runtime::HandlerEnd as End;

/// One thing a program does.
#[derive(Clone, Debug, PartialEq)]
pub enum Node {
    Activity(Call),
    Timer(u64),
    /// Tried at most so often.
    Step(u32),
    Receive(Name),
    Child(Kid),
    SignalOther,
    CancelOther,
    Promise(Wish),
    Patched(Name),
    Deprecated(Name),
    /// Random numbers, the time, and whether it is cancelled.
    Draw,
    Yield,
    Fail,
    /// Adds to a counter in the state.
    Write(Name),
    /// Waits until a counter has come so far.
    Until(Name, u64),
    /// Waits for a condition that panics when it is tested again.
    UntilPanic,
    /// Waits until a counter has come so far, or so many seconds.
    UntilOrLate(Name, u64, u64),
    /// Asks, waits a moment, cancels, awaits.
    Regret(Box<Node>, Moment),
    /// Asks and waits for nobody.
    Detach(Call),
    OnSignal(Name, End, Vec<Node>),
    OnAnySignal,
    OnUpdate(Name, Check, End, Vec<Node>),
    OnAnyUpdate,
    Seq(Vec<Node>),
    Join(Vec<Node>),
    /// As they complete, in a `FuturesUnordered`.
    Unordered(Vec<Node>),
    Select(Vec<Node>),
    Timeout(u64, Vec<Node>),
    Spawn(Care, Vec<Node>),
    /// Spawns a branch and cancels it after a moment.
    SpawnThenCancel(Moment, Vec<Node>),
    Scope(Care, Vec<Node>),
    /// A scope that cancels itself after a moment.
    ScopeThenCancel(Moment, Vec<Node>),
    Shield(Vec<Node>),
    /// Holds the lock of the run meanwhile.
    Locked(Vec<Node>),
    /// One of two permits of the run.
    Permitted(Vec<Node>),
    FirstOk(Vec<Node>),
    FirstN(usize, Vec<Node>),
    /// At most so many at a time.
    Limited(usize, Vec<Node>),
    /// Sends a word to whoever takes one.
    Send,
    Take,
    /// Writes the cell of the run; the first one counts.
    Put,
    AwaitPut,
}

/// Names of signals, updates, counters and patches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Name {
    X,
    Y,
    Z,
}

/// Which promise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Wish {
    Named(Name),
    Unnamed,
}

/// How an update is checked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Check {
    None,
    /// By its content.
    Content,
    /// By the state: a counter must have been written.
    State,
}

/// Whether a failure stays where it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Care {
    Together,
    Supervised,
}

/// When a change of mind comes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Moment {
    /// In the same poll.
    Now,
    /// In the same slice, if all goes well.
    Yielded,
    /// After a timer.
    Later,
    /// When it is surely over: after its outcome was awaited in part.
    AfterSignal,
}

/// One thing that happens to a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct News {
    pub what: What,
    /// Which one, among what is open.
    pub pick: u8,
    /// Whether the next news comes at the same time.
    pub has_company: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum What {
    AttemptCompletes,
    AttemptFails,
    AttemptCancels,
    TimePasses,
    Signal(Name),
    Update(Name),
    /// The update before, once more.
    UpdateAgain,
    Query,
    Settle(Name),
    Reject(Name),
    /// A child starts, then ends; a message or request to others arrives.
    OthersSucceed,
    OthersFail,
    Cancel,
}

impl Name {
    pub const ALL: [Self; 3] = [Self::X, Self::Y, Self::Z];

    pub fn text(self) -> &'static str {
        match self {
            Self::X => "x",
            Self::Y => "y",
            Self::Z => "z",
        }
    }
}

impl Node {
    /// What it is, without its content: the name of its marker.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Activity(_) => "Activity",
            Self::Timer(_) => "Timer",
            Self::Step(_) => "Step",
            Self::Receive(_) => "Receive",
            Self::Child(_) => "Child",
            Self::SignalOther => "SignalOther",
            Self::CancelOther => "CancelOther",
            Self::Promise(_) => "Promise",
            Self::Patched(_) => "Patched",
            Self::Deprecated(_) => "Deprecated",
            Self::Draw => "Draw",
            Self::Yield => "Yield",
            Self::Fail => "Fail",
            Self::Write(_) => "Write",
            Self::Until(..) => "Until",
            Self::UntilOrLate(..) => "UntilOrLate",
            Self::Regret(..) => "Regret",
            Self::Detach(_) => "Detach",
            Self::OnSignal(..) => "OnSignal",
            Self::OnAnySignal => "OnAnySignal",
            Self::OnUpdate(..) => "OnUpdate",
            Self::OnAnyUpdate => "OnAnyUpdate",
            Self::Seq(_) => "Seq",
            Self::Join(_) => "Join",
            Self::Unordered(_) => "Unordered",
            Self::Select(_) => "Select",
            Self::Timeout(..) => "Timeout",
            Self::Spawn(..) => "Spawn",
            Self::SpawnThenCancel(..) => "SpawnThenCancel",
            Self::Scope(..) => "Scope",
            Self::ScopeThenCancel(..) => "ScopeThenCancel",
            Self::Shield(_) => "Shield",
            Self::Locked(_) => "Locked",
            Self::Permitted(_) => "Permitted",
            Self::FirstOk(_) => "FirstOk",
            Self::FirstN(..) => "FirstN",
            Self::Limited(..) => "Limited",
            Self::UntilPanic => "UntilPanic",
            Self::Send => "Send",
            Self::Take => "Take",
            Self::Put => "Put",
            Self::AwaitPut => "AwaitPut",
        }
    }

    /// Its inner nodes.
    pub fn inner(&self) -> Option<&Vec<Self>> {
        match self {
            Self::OnSignal(_, _, inner)
            | Self::OnUpdate(_, _, _, inner)
            | Self::Seq(inner)
            | Self::Join(inner)
            | Self::Unordered(inner)
            | Self::Select(inner)
            | Self::Timeout(_, inner)
            | Self::Spawn(_, inner)
            | Self::SpawnThenCancel(_, inner)
            | Self::Scope(_, inner)
            | Self::ScopeThenCancel(_, inner)
            | Self::Shield(inner)
            | Self::Locked(inner)
            | Self::Permitted(inner)
            | Self::FirstOk(inner)
            | Self::FirstN(_, inner)
            | Self::Limited(_, inner) => Some(inner),
            Self::Activity(_)
            | Self::Timer(_)
            | Self::Step(_)
            | Self::Receive(_)
            | Self::Child(_)
            | Self::SignalOther
            | Self::CancelOther
            | Self::Promise(_)
            | Self::Patched(_)
            | Self::Deprecated(_)
            | Self::Draw
            | Self::Yield
            | Self::Fail
            | Self::Write(_)
            | Self::Until(..)
            | Self::UntilPanic
            | Self::UntilOrLate(..)
            | Self::Regret(..)
            | Self::Detach(_)
            | Self::OnAnySignal
            | Self::OnAnyUpdate
            | Self::Send
            | Self::Take
            | Self::Put
            | Self::AwaitPut => None,
        }
    }

    /// The same, to change.
    pub fn inner_mut(&mut self) -> Option<&mut Vec<Self>> {
        match self {
            Self::OnSignal(_, _, inner)
            | Self::OnUpdate(_, _, _, inner)
            | Self::Seq(inner)
            | Self::Join(inner)
            | Self::Unordered(inner)
            | Self::Select(inner)
            | Self::Timeout(_, inner)
            | Self::Spawn(_, inner)
            | Self::SpawnThenCancel(_, inner)
            | Self::Scope(_, inner)
            | Self::ScopeThenCancel(_, inner)
            | Self::Shield(inner)
            | Self::Locked(inner)
            | Self::Permitted(inner)
            | Self::FirstOk(inner)
            | Self::FirstN(_, inner)
            | Self::Limited(_, inner) => Some(inner),
            _ => None,
        }
    }

    fn write(&self, f: &mut fmt::Formatter<'_>, depth: usize) -> fmt::Result {
        let Some(inner) = self.inner() else {
            return writeln!(f, "{:depth$}{self:?}", "", depth = depth * 2);
        };
        let mut head = format!("{self:?}");
        let list = format!("{inner:?}");
        if let Some(at) = head.rfind(&list) {
            head.truncate(at);
        }
        let head = head.trim_end_matches([' ', ',', '(']);
        let end = if head.contains('(') { ")" } else { "" };
        writeln!(f, "{:depth$}{head}{end} {{", "", depth = depth * 2)?;
        for node in inner {
            node.write(f, depth + 1)?;
        }
        writeln!(f, "{:depth$}}}", "", depth = depth * 2)
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, part) in self.parts.iter().enumerate() {
            writeln!(f, "run {number} {{")?;
            for node in part {
                node.write(f, 1)?;
            }
            writeln!(f, "}}")?;
        }
        let mut line = String::from("news:");
        for News {
            what,
            pick,
            has_company,
        } in &self.news
        {
            let sign = if *has_company { " +" } else { ";" };
            write!(line, " {what:?} #{pick}{sign}")?;
        }
        writeln!(f, "{line}")
    }
}
