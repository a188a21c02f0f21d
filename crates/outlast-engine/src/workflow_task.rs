//! A workflow task: one turn of workflow code, from the news that make it necessary to its
//! answer.
//!
//! ```text
//!            TaskScheduled            TaskCompleted
//!   Idle --------------> Scheduled ----------------> Idle
//!                            | TaskFailed              ^
//!                            v                         | TaskScheduled, TaskCompleted
//!                         Failing ---------------------+
//!                          ^   | TaskRetry, Unblocked
//!                          +---+
//! ```
//!
//! That code is running is not recorded: TaskStarted is written together with the answer, so a
//! crash in a slice leaves a task that is simply tried again. The first failure of a streak is
//! an event, later ones only a fact; messages do not reset the pause between tries, a new process
//! does not wait for it. Code that was stuck and came back is tried again at once; each further time
//! after a longer pause.

use alloc::boxed::Box;
use core::time::Duration;

use minicbor::{Decode, Encode};
use outlast_model::event::TaskFailedCause;
use outlast_model::id::Attempt;
use outlast_model::time::doubled;
use outlast_model::{Fact, Failure, Timestamp, limits};

/// Where the task of a run stands.
#[derive(Clone, Debug, Default, PartialEq, Encode, Decode)]
pub enum State {
    /// Workflow code has seen everything.
    #[default]
    #[n(0)]
    Idle,
    /// Workflow code has something to see.
    #[n(1)]
    Scheduled,
    /// It could not go on.
    #[n(2)]
    Failing(#[n(0)] Box<Streak>),
}

/// Failures in a row.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct Streak {
    /// Failed attempts so far.
    #[n(0)]
    pub attempts: Attempt,
    /// Since when.
    #[n(1)]
    pub since: Timestamp,
    /// Why, for a program.
    #[n(2)]
    pub cause: TaskFailedCause,
    /// Why, for a person.
    #[n(3)]
    pub failure: Failure,
    /// The next try; `None`: blocked until something changes.
    #[n(4)]
    pub next_try: Option<Timestamp>,
}

impl Streak {
    /// Whether a new process, which may have new code, does not wait until something changes or a
    /// pause is over. `crashes`: how often a process died in this code; a try at once would forget
    /// them.
    pub fn is_for_a_new_process(&self, crashes: u32, now: Timestamp) -> bool {
        match (self.next_try, self.cause) {
            (Some(next), _) => next > now && crashes == 0,
            (
                None,
                TaskFailedCause::NonDeterminism
                | TaskFailedCause::BadCommand
                | TaskFailedCause::Stuck,
            ) => true,
            (
                None,
                TaskFailedCause::Quarantined
                | TaskFailedCause::WorkerUnhandledFailure
                | TaskFailedCause::UnhandledCommand,
            ) => false,
        }
    }

    /// The same failures, to be tried again then.
    pub(crate) fn postponed(&self, until: Timestamp) -> Fact {
        Fact::TaskRetry {
            attempt: self.attempts,
            cause: self.cause,
            failure: self.failure.clone(),
            next_try: Some(until),
        }
    }
}

/// What happens to the task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// There is news.
    News,
    /// A worker asks whether to run workflow code.
    Ask,
    /// The code waits again.
    Completed,
    /// The code could not go on.
    Failed(TaskFailedCause),
    /// Somebody wants a blocked run to try again.
    Retry,
    /// Code that was given up as stuck has come back.
    Returned,
}

/// What follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Schedule a task.
    Schedule,
    /// Run workflow code.
    HandOut,
    /// Record the completion.
    Complete,
    /// Record the completion of a task that failed before: as this attempt.
    CompleteRetried(Attempt),
    /// Record the first failure of a streak.
    FirstFailure,
    /// Record a further failure: this attempt, to be tried again then.
    NextFailure(Attempt, Option<Timestamp>),
    /// Lift the block.
    Unblock,
    /// Lift it then.
    UnblockAt(Timestamp),
    /// Nothing.
    Ignore,
    /// This cannot be: there is no task.
    Unexpected,
}

impl State {
    /// Decides one input. Pure: same arguments, same answer.
    pub fn decide(&self, input: Input, now: Timestamp) -> Verdict {
        match (self, input) {
            (Self::Idle, Input::News) => Verdict::Schedule,
            // The code sees it with everything else when its turn comes.
            (Self::Scheduled | Self::Failing(_), Input::News) => Verdict::Ignore,

            (Self::Idle, Input::Ask) => Verdict::Ignore,
            (Self::Scheduled, Input::Ask) => Verdict::HandOut,
            (Self::Failing(streak), Input::Ask) => {
                if streak.next_try.is_some_and(|t| now >= t) {
                    Verdict::HandOut
                } else {
                    Verdict::Ignore
                }
            }

            (Self::Scheduled, Input::Completed) => Verdict::Complete,
            (Self::Failing(streak), Input::Completed) => {
                Verdict::CompleteRetried(streak.attempts.next())
            }

            (Self::Scheduled, Input::Failed(_)) => Verdict::FirstFailure,
            (Self::Failing(streak), Input::Failed(cause)) => {
                let attempt = streak.attempts.next();
                Verdict::NextFailure(attempt, next_try(cause, attempt, now))
            }

            (Self::Failing(_), Input::Retry) => Verdict::Unblock,
            // It may try again; if it was stuck before, not at once.
            (Self::Failing(streak), Input::Returned) => match (streak.next_try, streak.attempts) {
                (Some(_), _) => Verdict::Ignore,
                (None, Attempt::FIRST) => Verdict::Unblock,
                (None, Attempt(n)) => Verdict::UnblockAt(now.after(pause(n.saturating_sub(1)))),
            },
            (Self::Idle | Self::Scheduled, Input::Retry | Input::Returned) => Verdict::Ignore,

            (Self::Idle, Input::Completed | Input::Failed(_)) => Verdict::Unexpected,
        }
    }

    /// Whether code is pending: a task waits, runs or is to be tried again.
    pub fn is_pending(&self) -> bool {
        match self {
            Self::Idle => false,
            Self::Scheduled | Self::Failing(_) => true,
        }
    }

    /// Whether an update may wait for it without being written: it runs soon, or never ran.
    pub fn takes_updates_unwritten(&self) -> bool {
        match self {
            Self::Idle | Self::Scheduled => true,
            Self::Failing(_) => false,
        }
    }

    /// The failures in a row, if any.
    pub fn streak(&self) -> Option<&Streak> {
        match self {
            Self::Failing(streak) => Some(streak),
            Self::Idle | Self::Scheduled => None,
        }
    }
}

/// When a failed task is tried again: one second, doubling to ten minutes; never by itself when
/// the same code would fail the same way.
pub fn next_try(cause: TaskFailedCause, attempt: Attempt, now: Timestamp) -> Option<Timestamp> {
    if !cause.is_transient() {
        return None;
    }
    Some(now.after(pause(attempt.0)))
}

/// The pause after this many failures in a row.
fn pause(failures: u32) -> Duration {
    let (first, longest) = (limits::TASK_BACKOFF_FIRST, limits::TASK_BACKOFF_MAX);
    doubled(first, failures.saturating_sub(1), longest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write;
    use std::string::String;

    fn streak(attempts: u32, cause: TaskFailedCause, next_try: Option<Timestamp>) -> Streak {
        Streak {
            attempts: Attempt(attempts),
            since: Timestamp(0),
            cause,
            failure: Failure::panic("p"),
            next_try,
        }
    }

    #[test]
    fn a_new_process_tries_what_new_code_may_have_mended() {
        use TaskFailedCause::{
            BadCommand, NonDeterminism, Quarantined, Stuck, UnhandledCommand,
            WorkerUnhandledFailure,
        };
        let blocked = |cause| streak(1, cause, None).is_for_a_new_process(0, Timestamp(50));
        for cause in [NonDeterminism, BadCommand, Stuck] {
            assert!(blocked(cause), "{cause:?}");
        }
        for cause in [Quarantined, WorkerUnhandledFailure, UnhandledCommand] {
            assert!(!blocked(cause), "{cause:?}");
        }
        let pausing = streak(9, WorkerUnhandledFailure, Some(Timestamp(100)));
        assert!(pausing.is_for_a_new_process(0, Timestamp(99)));
        assert!(
            !pausing.is_for_a_new_process(0, Timestamp(100)),
            "it is due"
        );
        assert!(!pausing.is_for_a_new_process(1, Timestamp(99)), "it kills");
    }

    /// Every state against every input: a reviewer reads this table, not the match.
    #[test]
    fn transition_table() {
        let failing = |attempts, next_try| {
            let cause = TaskFailedCause::WorkerUnhandledFailure;
            State::Failing(Box::new(streak(attempts, cause, next_try)))
        };
        let states = [
            ("Idle", State::Idle),
            ("Scheduled", State::Scheduled),
            ("Failing(1, due 100)", failing(1, Some(Timestamp(100)))),
            ("Failing(20, due 100)", failing(20, Some(Timestamp(100)))),
            ("Failing(1, blocked)", failing(1, None)),
            ("Failing(3, blocked)", failing(3, None)),
        ];
        let inputs = [
            Input::News,
            Input::Ask,
            Input::Completed,
            Input::Failed(TaskFailedCause::WorkerUnhandledFailure),
            Input::Failed(TaskFailedCause::NonDeterminism),
            Input::Retry,
            Input::Returned,
        ];
        let mut table = String::new();
        for (name, state) in &states {
            for input in inputs {
                for now in [Timestamp(99), Timestamp(100)] {
                    let verdict = state.decide(input, now);
                    writeln!(table, "{name} | {input:?} | t={} => {verdict:?}", now.0)
                        .expect("writes to a string");
                }
            }
        }
        insta::assert_snapshot!(table);
    }
}
