//! A durable timer, from the command that asks for it to the event that ends it.
//!
//! ```text
//!            TimerStarted            TimerFired
//!  (asked) ---------------> Running ------------> (gone)
//!                              |  clock, while code runs     flush
//!                              +-----------------> Firing ---------> (gone)
//!                              |      TimerCanceled  |
//!                              +---------------------+--> (gone)
//! ```
//!
//! Why a timer is recorded before it runs: the deadline must survive a crash, so nothing may
//! wait on it until the event that carries it is in the history.

use minicbor::{Decode, Encode};
use outlast_model::Timestamp;
use outlast_model::event::Site;

/// Where a timer stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub enum State {
    /// It fires at `due`.
    #[n(0)]
    Running {
        /// When.
        #[n(0)]
        due: Timestamp,
    },
    /// It fired while workflow code ran: the event waits in the buffer.
    #[n(1)]
    Firing,
}

/// What happens to a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// Its time may have come.
    Clock,
    /// Workflow code stops it.
    Cancel,
}

/// What follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It fires.
    Fire,
    /// The clock went back since it was armed: wait for `due`.
    Wait {
        /// Until then.
        due: Timestamp,
    },
    /// It is stopped.
    Cancel,
    /// It fired before the code could know; the cancel wins, since the code has not seen it.
    CancelUnseen,
    /// Nothing.
    Ignore,
}

impl State {
    /// Decides one input. Pure: same arguments, same answer.
    pub fn decide(self, input: Input, now: Timestamp) -> Verdict {
        match (self, input) {
            (Self::Running { due }, Input::Clock) if now >= due => Verdict::Fire,
            (Self::Running { due }, Input::Clock) => Verdict::Wait { due },
            (Self::Running { .. }, Input::Cancel) => Verdict::Cancel,
            (Self::Firing, Input::Clock) => Verdict::Ignore,
            (Self::Firing, Input::Cancel) => Verdict::CancelUnseen,
        }
    }
}

/// A timer of a run.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct Timer {
    /// Where it stands.
    #[n(0)]
    pub state: State,
    /// The call.
    #[n(1)]
    pub site: Site,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write;
    use std::string::String;

    /// Every state against every input: a reviewer reads this table, not the match.
    #[test]
    fn transition_table() {
        let mut table = String::new();
        for state in [
            State::Running {
                due: Timestamp(100),
            },
            State::Firing,
        ] {
            for input in [Input::Clock, Input::Cancel] {
                for now in [Timestamp(99), Timestamp(100)] {
                    let verdict = state.decide(input, now);
                    writeln!(table, "{state:?} | {input:?} | t={} => {verdict:?}", now.0)
                        .expect("writes to a string");
                }
            }
        }
        insta::assert_snapshot!(table);
    }
}
