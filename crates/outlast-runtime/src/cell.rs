//! The write-once cell an operation waits on, and what cancelling it does.
//!
//! ```text
//!            flush            outcome
//!   Unsent ---------> Sent ------------> Resolved --poll--> Taken
//!     |  cancel        |  cancel            ^
//!     |                +------> Canceling --+  outcome, or a follow-up job
//!     |                |  timer, abandon, recv
//!     +----------------+--------------------+  at once
//! ```
//!
//! Cancelling before the command was sent takes the command back: the number is used, nobody is
//! told. A cell is written once: a late outcome finds it filled and is ignored.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::Waker;

use outlast_model::event::Site;
use outlast_model::{
    ActivityOptions, ActivityType, CancelMode, Command, Resolution, Seq, SignalName, StepName,
};

use crate::program::StepCode;
use crate::scope::Node;
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
            Self::Recv => "recv",
        }
    }
}

/// Names an operation of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) kind: Kind,
    pub(crate) seq: Seq,
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
    Asked(CancelMode),
    /// Its future was dropped: nobody waits any more.
    Dropped,
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
        use Wish::{Asked, Dropped};
        match (self, kind, wish) {
            (
                Self::Canceling | Self::Resolved(_) | Self::Taken,
                Kind::Activity | Kind::Timer | Kind::Step | Kind::Recv,
                Asked(_) | Dropped,
            ) => Verdict::Nothing,
            (
                Self::Unsent { .. },
                Kind::Activity | Kind::Timer | Kind::Step | Kind::Recv,
                Asked(_) | Dropped,
            ) => Verdict::Withdraw,

            (Self::Sent, Kind::Activity, Asked(CancelMode::Try)) => Verdict::RequestThenFollowUp,
            (Self::Sent, Kind::Activity, Asked(CancelMode::Wait)) => Verdict::Request,
            (Self::Sent, Kind::Activity, Asked(CancelMode::Abandon)) => Verdict::Fill,
            // Nobody waits for the follow-up, so none is needed.
            (Self::Sent, Kind::Activity, Dropped) => Verdict::RequestAndFill,

            (Self::Sent, Kind::Timer, Asked(_) | Dropped) => Verdict::RequestAndFill,
            // The cell stays: the step's code is needed until its outcome is recorded.
            (Self::Sent, Kind::Step, Asked(_) | Dropped) => Verdict::Request,
            (Self::Sent, Kind::Recv, Asked(_) | Dropped) => Verdict::Fill,
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
    Recv {
        name: SignalName,
    },
}

/// How to undo an operation that completed.
pub(crate) struct UndoPlan {
    pub(crate) activity_type: ActivityType,
    pub(crate) options: ActivityOptions,
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
    pub(crate) undo: RefCell<Option<UndoPlan>>,
    /// Whether a cancel had an effect on it.
    pub(crate) is_cancelled: Cell<bool>,
    /// Whether a future waits on it.
    pub(crate) is_owned: Cell<bool>,
}

impl OperationCell {
    /// What cancelling it means when nobody says more.
    pub(crate) fn mode(&self) -> CancelMode {
        match &self.subject {
            Subject::Activity { cancel, .. } => cancel.get(),
            Subject::Timer | Subject::Step { .. } | Subject::Recv { .. } => CancelMode::Try,
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
            Subject::Recv { name } => format!("{kind} `{name}` at {site}"),
        }
    }

    /// The command that asks it to stop; a wait for a signal is nobody else's business.
    pub(crate) fn cancel_command(&self) -> Option<Command> {
        let seq = self.key.seq;
        match self.key.kind {
            Kind::Activity => Some(Command::RequestCancelActivity { seq }),
            Kind::Timer => Some(Command::CancelTimer { seq }),
            Kind::Step => Some(Command::CancelStep { seq }),
            Kind::Recv => None,
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
        let kinds = [Kind::Activity, Kind::Timer, Kind::Step, Kind::Recv];
        let wishes = [
            Wish::Asked(CancelMode::Try),
            Wish::Asked(CancelMode::Wait),
            Wish::Asked(CancelMode::Abandon),
            Wish::Dropped,
        ];
        let mut table = String::new();
        for kind in kinds {
            write!(table, "{:<9}", kind.name()).expect("writes to a string");
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
activity RequestThenFollowUp Request Fill RequestAndFill \n\
timer    RequestAndFill RequestAndFill RequestAndFill RequestAndFill \n\
step     Request Request Request Request \n\
recv     Fill Fill Fill Fill \n";
        assert_eq!(table, expected);
    }
}
