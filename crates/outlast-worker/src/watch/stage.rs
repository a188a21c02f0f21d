//! How far beyond its time a piece of user code has gone.
//!
//! ```text
//!   Fast --long--> Slow --late--> Warned --over--> GivenUp
//!                    |                               ^
//!                    +-------------over--------------+
//! ```
//!
//! Slow, Warned and GivenUp each know whether the shard still waits for this thread: while the code
//! *holds* it up a spare thread is asked for, until one has taken it over (*relieved*). Both go
//! their own way, since there may be no spare thread at the moment.
//!
//! Which time counts for what. *Long* is a slice over `fast_slice`: the thread itself notices
//! between two polls. It *holds* its shard up when one poll is over `fast_slice`, or the whole slice
//! over four times that: many short polls are usual where many branches wait. *Late* and *over*
//! (`deadlock_warning`, `deadlock_timeout`) are measured for one part of the task: a recorded
//! activation that is replayed, a question, and everything else together. So the rebuild of a long
//! history frees its shard like any other slice, but is not stuck while it gets on.

use super::stage::Stage::{Fast, GivenUp, Slow, Warned};

/// Whether the shard waits for this thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shard {
    /// Nobody else drives it.
    Waits,
    /// A spare thread does.
    Relieved,
}

/// How far it has gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// As most: nobody minds.
    Fast,
    /// What the run was given is kept and acknowledged, so that no caller waits for its code.
    Slow(Shard),
    /// Somebody was told.
    Warned(Shard),
    /// Whatever it still produces is thrown away; it ends before its next poll.
    GivenUp(Shard),
}

/// What the clock says, and what became of the shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Input {
    /// The slice is over `fast_slice`.
    Long,
    /// It holds its shard up.
    Holds,
    /// A spare thread has taken the shard over.
    Relieved,
    /// It is over `deadlock_warning`.
    Late,
    /// It is over `deadlock_timeout`.
    Over,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// Nothing.
    Nothing,
    /// The run goes over to the slow path.
    GoSlow,
    /// A spare thread is to take the shard over.
    TakeOver,
    /// Somebody should know.
    Warn,
    /// The task fails, the thread is abandoned.
    GiveUp,
}

impl Stage {
    /// Applies one input. Nothing is skipped: what is over its limit goes over to the slow path
    /// first.
    pub(crate) fn apply(self, input: Input) -> (Self, Act) {
        use Shard::{Relieved, Waits};
        match (self, input) {
            (Fast, Input::Long | Input::Holds | Input::Late | Input::Over) => {
                (Slow(Waits), Act::GoSlow)
            }
            (Slow(Waits) | Warned(Waits) | GivenUp(Waits), Input::Holds) => (self, Act::TakeOver),
            (Slow(Waits), Input::Relieved) => (Slow(Relieved), Act::Nothing),
            (Warned(Waits), Input::Relieved) => (Warned(Relieved), Act::Nothing),
            (GivenUp(Waits), Input::Relieved) => (GivenUp(Relieved), Act::Nothing),
            (Slow(shard), Input::Late) => (Warned(shard), Act::Warn),
            (Slow(shard) | Warned(shard), Input::Over) => (GivenUp(shard), Act::GiveUp),

            (Fast, Input::Relieved)
            | (Slow(_) | Warned(_) | GivenUp(_), Input::Long)
            | (Slow(Relieved) | Warned(Relieved) | GivenUp(Relieved), Input::Holds)
            | (Slow(Relieved) | Warned(Relieved) | GivenUp(Relieved), Input::Relieved)
            | (Warned(_) | GivenUp(_), Input::Late)
            | (GivenUp(_), Input::Over) => (self, Act::Nothing),
        }
    }

    /// Whether its thread is lost for the time being: another one drives the shard, or will.
    pub(crate) fn is_lost(self) -> bool {
        match self {
            Slow(Shard::Relieved) | Warned(Shard::Relieved) | GivenUp(_) => true,
            Fast | Slow(Shard::Waits) | Warned(Shard::Waits) => false,
        }
    }

    /// Whether nobody waits for it any more.
    pub(crate) fn is_given_up(self) -> bool {
        match self {
            GivenUp(_) => true,
            Fast | Slow(_) | Warned(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write;

    const STAGES: [Stage; 7] = [
        Fast,
        Slow(Shard::Waits),
        Slow(Shard::Relieved),
        Warned(Shard::Waits),
        Warned(Shard::Relieved),
        GivenUp(Shard::Waits),
        GivenUp(Shard::Relieved),
    ];
    const INPUTS: [Input; 5] = [
        Input::Long,
        Input::Holds,
        Input::Relieved,
        Input::Late,
        Input::Over,
    ];

    /// Every stage against every input: a reviewer reads this table, not the match.
    #[test]
    fn stages_of_watched_code_are_those_of_the_table() {
        let mut table = String::new();
        for stage in STAGES {
            for input in INPUTS {
                let (next, act) = stage.apply(input);
                writeln!(table, "{stage:?} | {input:?} => {next:?} + {act:?}")
                    .expect("writes to a string");
            }
        }
        insta::assert_snapshot!(table);
    }

    #[test]
    fn everything_is_done_once_however_often_the_watchdog_looks() {
        let (mut stage, mut acts) = (Fast, Vec::new());
        for _ in 0..5 {
            for input in INPUTS {
                let (next, act) = stage.apply(input);
                acts.push(act);
                stage = next;
            }
        }
        for once in [Act::GoSlow, Act::TakeOver, Act::Warn, Act::GiveUp] {
            let times = acts.iter().filter(|act| **act == once).count();
            assert_eq!(times, 1, "{once:?}");
        }
    }

    #[test]
    fn a_shard_without_a_spare_thread_asks_for_one_until_it_has_it() {
        let (mut stage, mut asked) = (Fast, 0);
        for input in [Input::Long, Input::Late, Input::Over] {
            stage = stage.apply(input).0;
            let (next, act) = stage.apply(Input::Holds);
            asked += u32::from(act == Act::TakeOver);
            stage = next;
        }
        assert_eq!((stage, asked), (GivenUp(Shard::Waits), 3));
    }
}
