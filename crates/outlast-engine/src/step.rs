//! A step: an activity whose code travels as a closure inside the workflow's instance.
//!
//! ```text
//!  (asked) --StepScheduled--> Waiting <--StepFailed-- Running
//!                                |  ----StepStarted-->  |
//!                                | <--StepHandedBack--- |
//!                     cancel     |                      | outcome
//!                                +-----> Resolved <-----+
//!                                           | next task delivers it
//!                                      StepRecorded --> (gone)
//! ```
//!
//! No event says that a step was asked for; its one event is the outcome, written among the
//! commands of the task that delivered it, so that replay resolves it at the same point.

use minicbor::{Decode, Encode};
use outlast_model::event::Site;
use outlast_model::id::{Attempt, Incarnation, StepName};
use outlast_model::job::Resolution;
use outlast_model::task::AttemptResult;
use outlast_model::{Failure, StepOptions, Timestamp};

use crate::retry;

/// Where a step stands.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub enum State {
    /// Its next attempt waits for its time or for a slot.
    #[n(0)]
    Waiting {
        /// The attempt that comes next.
        #[n(0)]
        attempt: Attempt,
        /// Not before.
        #[n(1)]
        due: Timestamp,
    },
    /// An attempt runs.
    #[n(1)]
    Running {
        /// Which one.
        #[n(0)]
        attempt: Attempt,
        /// In which process.
        #[n(1)]
        incarnation: Incarnation,
    },
    /// It has its outcome, which workflow code has not seen.
    #[n(2)]
    Resolved {
        /// The attempt that gave it.
        #[n(0)]
        attempt: Attempt,
        /// The outcome.
        #[n(1)]
        outcome: Resolution,
    },
}

/// What happens to a step.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// Its time may have come.
    Clock,
    /// It got a slot.
    HandOut,
    /// This attempt ended.
    Outcome(Attempt, Incarnation, AttemptResult),
    /// Workflow code asks it to stop.
    Cancel,
    /// A new process looks at it.
    Recover(Incarnation),
}

/// What follows.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// It wants a slot.
    Ready,
    /// Hand out this attempt.
    Start(Attempt),
    /// Another attempt follows.
    Retry(Failure, Timestamp),
    /// The same attempt waits again: nothing came of it, and it is not counted.
    HandBack,
    /// It has its outcome.
    Resolve(Resolution),
    /// The running attempt should stop.
    Stop(Attempt, Incarnation),
    /// Nothing, yet.
    Wait(Timestamp),
    /// Nothing: it lost a race, or is not of this attempt.
    Ignore,
}

/// A step of a run.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct Step {
    /// Its name.
    #[n(0)]
    pub name: StepName,
    /// Retries.
    #[n(1)]
    pub options: StepOptions,
    /// The call.
    #[n(2)]
    pub site: Site,
    /// Where it stands.
    #[n(3)]
    pub state: State,
}

impl Step {
    /// Decides one input. Pure: same arguments, same answer.
    pub fn decide(&self, input: Input, now: Timestamp) -> Verdict {
        match (&self.state, input) {
            (State::Waiting { due, .. }, Input::Clock) if now >= *due => Verdict::Ready,
            (State::Waiting { due, .. }, Input::Clock) => Verdict::Wait(*due),
            // Like an activity: the first was due when it was asked for.
            (State::Waiting { attempt, due }, Input::HandOut)
                if now >= *due || *attempt == Attempt::FIRST =>
            {
                Verdict::Start(*attempt)
            }
            (State::Waiting { due, .. }, Input::HandOut) => Verdict::Wait(*due),
            // Never started, so it never runs.
            (State::Waiting { .. }, Input::Cancel) => Verdict::Resolve(Resolution::Canceled(None)),

            (
                State::Running {
                    attempt,
                    incarnation,
                },
                Input::Outcome(a, i, result),
            ) if a == *attempt && i == *incarnation => self.outcome(*attempt, result, now),
            (
                State::Running {
                    attempt,
                    incarnation,
                },
                Input::Cancel,
            ) => Verdict::Stop(*attempt, *incarnation),
            (State::Running { incarnation, .. }, Input::Recover(i)) if i == *incarnation => {
                Verdict::Ignore
            }
            (State::Running { attempt, .. }, Input::Recover(_)) => self.outcome(
                *attempt,
                AttemptResult::Failed(crate::activity::worker_lost()),
                now,
            ),

            (
                State::Running { .. } | State::Waiting { .. } | State::Resolved { .. },
                Input::Outcome(..),
            )
            | (State::Running { .. }, Input::Clock | Input::HandOut)
            | (State::Waiting { .. }, Input::Recover(_))
            | (
                State::Resolved { .. },
                Input::Clock | Input::HandOut | Input::Cancel | Input::Recover(_),
            ) => Verdict::Ignore,
        }
    }

    fn outcome(&self, attempt: Attempt, result: AttemptResult, now: Timestamp) -> Verdict {
        match result {
            AttemptResult::Completed(payload) => Verdict::Resolve(Resolution::Completed(payload)),
            AttemptResult::Canceled(details) => Verdict::Resolve(Resolution::Canceled(details)),
            AttemptResult::HandedBack => Verdict::HandBack,
            AttemptResult::Failed(failure) => self.failed(attempt, failure, now),
            // A step has no token that anybody could answer with.
            AttemptResult::Later => {
                let failure = Failure::application("NoOutcome", "the step has no outcome");
                self.failed(attempt, failure, now)
            }
        }
    }

    fn failed(&self, attempt: Attempt, failure: Failure, now: Timestamp) -> Verdict {
        let circumstances = retry::Circumstances {
            attempt,
            is_cancel_requested: false,
            expires: None,
            now,
        };
        match retry::decide(&self.options.retry, &failure, circumstances) {
            retry::Verdict::Again(due) => Verdict::Retry(failure, due),
            retry::Verdict::Stop(state) => Verdict::Resolve(Resolution::Failed(failure, state)),
        }
    }

    /// The attempt it is at.
    pub fn attempt(&self) -> Attempt {
        match &self.state {
            State::Waiting { attempt, .. }
            | State::Running { attempt, .. }
            | State::Resolved { attempt, .. } => *attempt,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use outlast_model::Payload;
    use std::fmt::Write;
    use std::string::String;

    fn step(state: State) -> Step {
        Step {
            name: "s".into(),
            options: StepOptions {
                retry: outlast_model::RetryPolicy::times(2),
            },
            site: Site::default(),
            state,
        }
    }

    /// Every state against every input: a reviewer reads this table, not the match.
    #[test]
    fn transition_table() {
        let (a1, a2, me, other) = (Attempt(1), Attempt(2), Incarnation(1), Incarnation(2));
        let states = [
            State::Waiting {
                attempt: a1,
                due: Timestamp(100),
            },
            State::Running {
                attempt: a1,
                incarnation: me,
            },
            State::Running {
                attempt: a2,
                incarnation: me,
            },
            State::Resolved {
                attempt: a1,
                outcome: Resolution::Canceled(None),
            },
        ];
        let done = AttemptResult::Completed(Payload::null());
        let failed = AttemptResult::Failed(Failure::panic("p"));
        let inputs = [
            Input::Clock,
            Input::HandOut,
            Input::Outcome(a1, me, done.clone()),
            Input::Outcome(a1, other, done),
            Input::Outcome(a1, me, failed.clone()),
            Input::Outcome(a2, me, failed),
            Input::Outcome(a1, me, AttemptResult::HandedBack),
            Input::Outcome(a1, other, AttemptResult::HandedBack),
            Input::Outcome(a1, me, AttemptResult::Later),
            Input::Cancel,
            Input::Recover(me),
            Input::Recover(other),
        ];
        let mut table = String::new();
        for state in &states {
            for input in &inputs {
                for now in [Timestamp(99), Timestamp(100)] {
                    let verdict = step(state.clone()).decide(input.clone(), now);
                    writeln!(table, "{state:?} | {input:?} | t={} => {verdict:?}", now.0)
                        .expect("writes to a string");
                }
            }
        }
        insta::assert_snapshot!(table);
    }
}
