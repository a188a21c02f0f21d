//! The write-once cell an operation waits on, and what cancelling it does.
//!
//! ```text
//!            flush            outcome
//!   Unsent ---------> Sent ------------> Resolved --poll--> Taken
//!     |  cancel        |  cancel            ^
//!     |                +------> Canceling --+  outcome, or a follow-up job
//!     |                |  timer, abandon, what nobody can be told
//!     +----------------+--------------------+  at once
//! ```
//!
//! Cancelling before the command was sent takes the command back: the number is used, nobody is
//! told. A cell is written once: a late outcome finds it filled and is ignored.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::Waker;

use outlast_model::event::Site;
use outlast_model::line::Numbered;
use outlast_model::{
    ActivityType, CancelMode, ChildCancel, Command, PromiseId, Resolution, Seq, SignalName,
    StepName, WorkflowId,
};

use crate::child::ChildSubject;
use crate::program::StepCode;
use crate::scope::Node;
use crate::undo::UndoPlan;
use crate::wake::TaskId;

/// What kind of operation. The order is the order in which cancels of one moment are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// An activity.
    Activity,
    /// A timer.
    Timer,
    /// A step.
    Step,
    /// A child workflow.
    Child,
    /// A message to another run.
    ExternalSignal,
    /// A request to another run to stop.
    ExternalCancel,
    /// A wait for a promise: local, its number is in no command.
    Promise,
    /// A wait for a signal: local, its number is in no command.
    Recv,
}

impl Kind {
    /// Its name, for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Activity => "activity",
            Self::Timer => "timer",
            Self::Step => "step",
            Self::Child => "child",
            Self::ExternalSignal => "external signal",
            Self::ExternalCancel => "external cancel",
            Self::Promise => "promise",
            Self::Recv => "recv",
        }
    }

    /// How many kinds there are.
    pub(crate) const COUNT: usize = 8;
}

/// Names an operation of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) kind: Kind,
    pub(crate) seq: Seq,
}

impl Numbered for Key {
    fn behind(self, first: Self) -> usize {
        self.seq.behind(first.seq)
    }
}

/// Where an operation stands.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum State {
    /// Its command waits in the buffer, at this place.
    Unsent {
        /// The place.
        at: usize,
    },
    /// Its outcome is open.
    Sent,
    /// It was asked to stop; a job will say how it ended.
    Canceling,
    /// It has its outcome.
    Resolved(Resolution),
    /// Whoever waited has seen the outcome, or nobody ever will.
    Taken,
}

/// Who wants it to stop, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// Code, or its scope, in the mode of the operation.
    Asked(Mode),
    /// Its future was dropped: nobody waits any more.
    Dropped,
}

/// What a cancel means for whoever waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// The request is sent, the future resolves cancelled.
    Try,
    /// The request is sent, the outcome counts.
    Wait,
    /// Nobody is told.
    Abandon,
    /// The request is sent, the future resolves when it has arrived. For children only.
    RequestOnly,
}

impl From<CancelMode> for Mode {
    fn from(mode: CancelMode) -> Self {
        match mode {
            CancelMode::Try => Self::Try,
            CancelMode::Wait => Self::Wait,
            CancelMode::Abandon => Self::Abandon,
        }
    }
}

impl From<ChildCancel> for Mode {
    fn from(mode: ChildCancel) -> Self {
        match mode {
            ChildCancel::Try => Self::Try,
            ChildCancel::Wait => Self::Wait,
            ChildCancel::Abandon => Self::Abandon,
            ChildCancel::RequestOnly => Self::RequestOnly,
        }
    }
}

/// What a cancel does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Nothing: it has ended, or is asked already.
    Nothing,
    /// The command is taken back, the cell filled at once.
    Withdraw,
    /// A request is sent; the outcome fills the cell.
    Request,
    /// A request is sent; a follow-up activation of the same task fills the cell.
    RequestThenFollowUp,
    /// A request is sent, the cell filled at once.
    RequestAndFill,
    /// Nobody is told, the cell filled at once.
    Fill,
}

impl State {
    /// Decides a cancel: the table of the runtime's law.
    pub(crate) fn cancel(&self, kind: Kind, wish: Wish) -> Verdict {
        use Kind::{Activity, Child, ExternalCancel, ExternalSignal, Promise, Recv, Step, Timer};
        use Wish::{Asked, Dropped};
        match (self, kind, wish) {
            (
                Self::Canceling | Self::Resolved(_) | Self::Taken,
                Activity | Timer | Step | Child | ExternalSignal | ExternalCancel | Promise | Recv,
                Asked(_) | Dropped,
            ) => Verdict::Nothing,
            (
                Self::Unsent { .. },
                Activity | Timer | Step | Child | ExternalSignal | ExternalCancel | Promise | Recv,
                Asked(_) | Dropped,
            ) => Verdict::Withdraw,

            (Self::Sent, Activity | Child, Asked(Mode::Try)) => Verdict::RequestThenFollowUp,
            // The one resolves by its outcome, the other by the word that it was told.
            (Self::Sent, Activity | Child, Asked(Mode::Wait | Mode::RequestOnly)) => {
                Verdict::Request
            }
            (Self::Sent, Activity | Child, Asked(Mode::Abandon)) => Verdict::Fill,
            // Nobody waits for the follow-up, so none is needed.
            (Self::Sent, Activity | Child, Dropped) => Verdict::RequestAndFill,

            (Self::Sent, Timer, Asked(_) | Dropped) => Verdict::RequestAndFill,
            // The cell stays: the step's code is needed until its outcome is recorded.
            (Self::Sent, Step, Asked(_) | Dropped) => Verdict::Request,
            // What is on its way to another run cannot be called back; a promise stays open.
            (Self::Sent, ExternalSignal | ExternalCancel | Promise | Recv, Asked(_) | Dropped) => {
                Verdict::Fill
            }
        }
    }

    /// Whether the outcome is there.
    pub(crate) fn is_filled(&self) -> bool {
        match self {
            Self::Resolved(_) | Self::Taken => true,
            Self::Unsent { .. } | Self::Sent | Self::Canceling => false,
        }
    }
}

/// What an operation is about: what outlives its command.
pub(crate) enum Subject {
    Activity {
        name: ActivityType,
        cancel: Cell<CancelMode>,
    },
    Timer,
    Step {
        name: StepName,
        code: StepCode,
    },
    Child(ChildSubject),
    ExternalSignal {
        name: SignalName,
        target: WorkflowId,
    },
    ExternalCancel {
        target: WorkflowId,
    },
    Promise {
        id: PromiseId,
    },
    Recv {
        name: SignalName,
    },
}

/// The cell of one operation.
pub(crate) struct OperationCell {
    pub(crate) key: Key,
    pub(crate) site: Site,
    pub(crate) subject: Subject,
    /// The poll it was made in: its options may change until that poll ends.
    pub(crate) born: u64,
    pub(crate) state: RefCell<State>,
    pub(crate) scope: RefCell<Rc<Node>>,
    pub(crate) waker: RefCell<Option<Waker>>,
    /// The task that last polled it.
    pub(crate) awaited_by: Cell<Option<TaskId>>,
    /// Boxed: most have none, and a cell is made for every operation.
    pub(crate) undo: RefCell<Option<Box<UndoPlan>>>,
    /// Whether a cancel had an effect on it.
    pub(crate) is_cancelled: Cell<bool>,
    /// Whether a future waits on it.
    pub(crate) is_owned: Cell<bool>,
}

impl OperationCell {
    /// Whether it is open, and its future is there.
    pub(crate) fn is_awaited(&self) -> bool {
        self.is_owned.get() && !self.state.borrow().is_filled()
    }

    /// What cancelling it means when nobody says more.
    pub(crate) fn mode(&self) -> Mode {
        match &self.subject {
            Subject::Activity { cancel, .. } => cancel.get().into(),
            Subject::Child(child) => child.cancel.get().into(),
            Subject::Timer
            | Subject::Step { .. }
            | Subject::ExternalSignal { .. }
            | Subject::ExternalCancel { .. }
            | Subject::Promise { .. }
            | Subject::Recv { .. } => Mode::Try,
        }
    }

    /// What it is and where it was asked for, for people.
    pub(crate) fn title(&self) -> String {
        let (Key { kind, seq }, site) = (self.key, &self.site);
        let kind = kind.name();
        match &self.subject {
            Subject::Activity { name, .. } => format!("{kind} {seq} `{name}` at {site}"),
            Subject::Timer => format!("{kind} {seq} at {site}"),
            Subject::Step { name, .. } => format!("{kind} {seq} `{name}` at {site}"),
            Subject::Child(child) => format!("{kind} {seq} `{}` at {site}", child.workflow_type),
            Subject::ExternalSignal { name, target } => {
                format!("{kind} {seq} `{name}` to `{target}` at {site}")
            }
            Subject::ExternalCancel { target } => format!("{kind} {seq} of `{target}` at {site}"),
            Subject::Promise { id } => format!("{kind} `{id}` at {site}"),
            Subject::Recv { name } => format!("{kind} `{name}` at {site}"),
        }
    }

    /// The command that asks it to stop, if there is somebody to ask.
    pub(crate) fn cancel_command(&self) -> Option<Command> {
        let seq = self.key.seq;
        match self.key.kind {
            Kind::Activity => Some(Command::RequestCancelActivity { seq }),
            Kind::Timer => Some(Command::CancelTimer { seq }),
            Kind::Step => Some(Command::CancelStep { seq }),
            Kind::Child => Some(Command::CancelChild {
                seq,
                reason: "asked by its parent".into(),
                site: self.site.clone(),
            }),
            Kind::ExternalSignal | Kind::ExternalCancel | Kind::Promise | Kind::Recv => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write;

    /// Every state against every kind and wish: a reviewer reads this table, not the match.
    #[test]
    fn cancellation_table() {
        let kinds: [Kind; Kind::COUNT] = [
            Kind::Activity,
            Kind::Timer,
            Kind::Step,
            Kind::Child,
            Kind::ExternalSignal,
            Kind::ExternalCancel,
            Kind::Promise,
            Kind::Recv,
        ];
        let wishes = [
            Wish::Asked(Mode::Try),
            Wish::Asked(Mode::Wait),
            Wish::Asked(Mode::Abandon),
            Wish::Asked(Mode::RequestOnly),
            Wish::Dropped,
        ];
        let mut table = String::new();
        for kind in kinds {
            write!(table, "{:<16}", kind.name()).expect("writes to a string");
            for wish in wishes {
                let verdict = State::Sent.cancel(kind, wish);
                write!(table, "{verdict:?} ").expect("writes to a string");
                let unsent = State::Unsent { at: 3 };
                assert_eq!(unsent.cancel(kind, wish), Verdict::Withdraw);
                let resolved = State::Resolved(Resolution::Canceled(None));
                for ended in [State::Canceling, resolved, State::Taken] {
                    assert_eq!(ended.cancel(kind, wish), Verdict::Nothing);
                }
            }
            table.push('\n');
        }
        let expected = "\
activity        RequestThenFollowUp Request Fill Request RequestAndFill \n\
timer           RequestAndFill RequestAndFill RequestAndFill RequestAndFill RequestAndFill \n\
step            Request Request Request Request Request \n\
child           RequestThenFollowUp Request Fill Request RequestAndFill \n\
external signal Fill Fill Fill Fill Fill \n\
external cancel Fill Fill Fill Fill Fill \n\
promise         Fill Fill Fill Fill Fill \n\
recv            Fill Fill Fill Fill Fill \n";
        assert_eq!(table, expected);
    }
}
