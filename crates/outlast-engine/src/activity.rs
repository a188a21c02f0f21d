//! An activity, from the command that asks for it to the event that closes it.
//!
//! ```text
//!                           AttemptStarted
//!  (asked) ---> Waiting --------------------> Running --AttemptLeft--> Outside
//!                 ^  |     AttemptHandedBack,   |  |                     |  |
//!                 |  |      AttemptFailed       |  | outcome, timeout    |  |
//!                 +--|--------------------------+--|---------------------+  |
//!                    | cancel, timeout             v                        |
//!                    +-----------------------> Closing <--answer, timeout---+
//!                                                 +--flush--> (gone)
//! ```
//!
//! Retries leave no events: the history gets one ActivityStarted with the outcome, naming the
//! attempt that gave it. `Closing` is only seen while workflow code runs and the outcome waits in
//! the buffer; otherwise an activity is gone with its outcome.
//!
//! `Outside`: the attempt's code has returned and somebody who has its token will answer. No
//! process runs it, so none can lose it; its timeouts go on.
//!
//! Why handing out is recorded in the commit that makes it possible: a crash then consumes the
//! attempt, so that a bounded number of attempts is never exceeded.

use minicbor::{Decode, Encode};
use outlast_model::event::ActivityScheduled;
use outlast_model::failure::{Failure, RetryState, TimeoutKind, type_name};
use outlast_model::id::{Attempt, Incarnation};
use outlast_model::task::AttemptResult;
use outlast_model::{Payload, Shared, Timestamp};

use crate::retry;

/// Where an activity stands.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub enum State {
    /// Its next attempt waits for its time, a worker or a slot.
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
        /// Since when.
        #[n(2)]
        since: Timestamp,
        /// When it last reported.
        #[n(3)]
        beat: Timestamp,
    },
    /// Its outcome waits in the buffer.
    #[n(2)]
    Closing,
    /// The code of an attempt has returned; somebody outside will answer.
    #[n(3)]
    Outside {
        /// Which one.
        #[n(0)]
        attempt: Attempt,
        /// The process that ran it: part of what names the attempt.
        #[n(1)]
        incarnation: Incarnation,
        /// Since when it is open.
        #[n(2)]
        since: Timestamp,
        /// When anybody last reported.
        #[n(3)]
        beat: Timestamp,
    },
}

/// What happens to an activity.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// One of its times may have come.
    Clock,
    /// It got a slot.
    HandOut,
    /// This attempt ended.
    Outcome(Attempt, Incarnation, AttemptResult),
    /// This attempt reports.
    Heartbeat(Attempt, Incarnation, Payload),
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
    /// Keep what it reported.
    Beat(Payload),
    /// The same attempt waits again: nothing came of it, and it is not counted.
    HandBack,
    /// The attempt stays open without a worker.
    Leave,
    /// Another attempt follows; stop the running one if it is named.
    Retry(Failure, Timestamp, Option<(Attempt, Incarnation)>),
    /// It is over; stop the running attempt if it is named.
    Close(Outcome, Option<(Attempt, Incarnation)>),
    /// Tell the running attempt that it should stop.
    Stop(Attempt, Incarnation),
    /// Nothing, until then.
    Wait(Option<Timestamp>),
    /// Nothing: it lost a race, or is not of this attempt.
    Ignore,
}

/// How an activity closes. `attempt`: the one that gave the outcome, if any started.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The attempt that gave it.
    pub attempt: Option<Attempt>,
    /// What it is.
    pub ending: Ending,
}

/// The ways to close.
#[derive(Clone, Debug, PartialEq)]
pub enum Ending {
    /// With a result.
    Completed(Payload),
    /// Failed for good.
    Failed(Failure, RetryState),
    /// Out of time for good.
    TimedOut(Failure, RetryState),
    /// Stopped because it was asked to.
    Canceled(Option<Payload>),
}

/// An activity of a run.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct Activity {
    /// What was asked for.
    #[n(0)]
    pub scheduled: Shared<ActivityScheduled>,
    /// When.
    #[n(1)]
    pub at: Timestamp,
    /// Where it stands.
    #[n(2)]
    pub state: State,
    /// Workflow code asked it to stop.
    #[n(3)]
    pub is_cancel_requested: bool,
    /// How its last attempt failed.
    #[n(4)]
    pub last_failure: Option<Failure>,
    /// What it last reported.
    #[n(5)]
    pub heartbeat_details: Option<Payload>,
    /// Since when the next attempt waits.
    #[n(6)]
    pub waiting_since: Timestamp,
}

/// The failure of an attempt whose process is gone.
pub fn worker_lost() -> Failure {
    Failure::application(
        type_name::WORKER_LOST,
        "the process that ran this attempt is gone",
    )
}

impl Activity {
    /// As it is right after it was asked for.
    pub fn new(scheduled: Shared<ActivityScheduled>, at: Timestamp) -> Self {
        Self {
            scheduled,
            at,
            state: State::Waiting {
                attempt: Attempt::FIRST,
                due: at,
            },
            is_cancel_requested: false,
            last_failure: None,
            heartbeat_details: None,
            waiting_since: at,
        }
    }

    /// Decides one input. Pure: same arguments, same answer.
    pub fn decide(&self, input: Input, now: Timestamp) -> Verdict {
        match (&self.state, input) {
            (State::Waiting { attempt, due }, Input::Clock) => self.waiting(*attempt, *due, now),
            // A first attempt was due when it was asked for; the clock may have gone back since.
            (State::Waiting { attempt, due }, Input::HandOut)
                if now >= *due || *attempt == Attempt::FIRST =>
            {
                Verdict::Start(*attempt)
            }
            (State::Waiting { .. }, Input::HandOut) => Verdict::Wait(self.deadline()),
            // Not running counts as stopped: between two attempts as well.
            (State::Waiting { .. }, Input::Cancel) => {
                let ending = Ending::Canceled(None);
                Verdict::Close(
                    Outcome {
                        attempt: None,
                        ending,
                    },
                    None,
                )
            }

            (State::Running { since, beat, .. }, Input::Clock) => {
                self.running(self.open(), (*since, *beat), now)
            }
            (State::Outside { since, beat, .. }, Input::Clock) => {
                self.running(None, (*since, *beat), now)
            }
            (State::Running { attempt, .. }, Input::Outcome(a, i, result))
                if self.is_fenced(a, i) =>
            {
                self.worker_says(*attempt, result, now)
            }
            (State::Outside { attempt, .. }, Input::Outcome(a, i, result))
                if self.is_fenced(a, i) =>
            {
                self.outcome(*attempt, result, now)
            }
            (
                State::Running { .. } | State::Outside { .. },
                Input::Heartbeat(attempt, incarnation, details),
            ) if self.is_open(attempt, incarnation) => Verdict::Beat(details),
            (
                State::Running {
                    attempt,
                    incarnation,
                    ..
                },
                Input::Cancel,
            ) => Verdict::Stop(*attempt, *incarnation),
            (State::Running { incarnation, .. }, Input::Recover(i)) if i == *incarnation => {
                Verdict::Ignore
            }
            (State::Running { attempt, .. }, Input::Recover(_)) => self.lost(*attempt, now),

            // Whoever answers hears of it with the next report; no process can be lost.
            (State::Outside { .. }, Input::Cancel | Input::Recover(_) | Input::HandOut)
            | (
                State::Running { .. } | State::Waiting { .. } | State::Outside { .. },
                Input::Outcome(..) | Input::Heartbeat(..),
            )
            | (State::Running { .. }, Input::HandOut)
            | (State::Waiting { .. }, Input::Recover(_))
            | (
                State::Closing,
                Input::Clock
                | Input::HandOut
                | Input::Outcome(..)
                | Input::Heartbeat(..)
                | Input::Cancel
                | Input::Recover(_),
            ) => Verdict::Ignore,
        }
    }

    /// Whether this attempt is open: its outcome would count.
    pub fn is_open(&self, attempt: Attempt, incarnation: Incarnation) -> bool {
        self.open() == Some((attempt, incarnation))
    }

    fn is_fenced(&self, attempt: Attempt, incarnation: Incarnation) -> bool {
        use outlast_model::planted::{Bug, is_planted};
        self.is_open(attempt, incarnation) || is_planted(Bug::AttemptNotFenced)
    }

    /// The attempt whose outcome would count, if there is one.
    pub fn open(&self) -> Option<(Attempt, Incarnation)> {
        match &self.state {
            State::Running {
                attempt,
                incarnation,
                ..
            }
            | State::Outside {
                attempt,
                incarnation,
                ..
            } => Some((*attempt, *incarnation)),
            State::Waiting { .. } | State::Closing => None,
        }
    }

    /// The next time at which the clock may change something.
    pub fn deadline(&self) -> Option<Timestamp> {
        let options = &self.scheduled.options;
        let after = |from: Timestamp, d: Option<core::time::Duration>| d.map(|d| from.after(d));
        let own = match &self.state {
            State::Waiting { due, .. } => {
                let to_start = after(self.waiting_since, options.schedule_to_start);
                earliest(Some(*due), to_start)
            }
            State::Running { since, beat, .. } | State::Outside { since, beat, .. } => earliest(
                after(*since, options.start_to_close),
                after(*beat, options.heartbeat),
            ),
            State::Closing => return None,
        };
        earliest(own, self.expires())
    }

    /// The deadline of one that already waits for a slot: its due time is behind it.
    pub fn deadline_in_queue(&self) -> Option<Timestamp> {
        let to_start = self.scheduled.options.schedule_to_start;
        earliest(
            to_start.map(|d| self.waiting_since.after(d)),
            self.expires(),
        )
    }

    fn expires(&self) -> Option<Timestamp> {
        self.scheduled
            .options
            .schedule_to_close
            .map(|d| self.at.after(d))
    }

    fn waiting(&self, attempt: Attempt, due: Timestamp, now: Timestamp) -> Verdict {
        let started = (attempt != Attempt::FIRST).then(|| Attempt(attempt.0 - 1));
        let to_start = self.scheduled.options.schedule_to_start;
        let to_start = to_start.map(|d| self.waiting_since.after(d));
        let expires = self.expires();
        // What passed first counts, however late it is looked at. Both at once is the usual case
        // of an activity that names only the whole: no worker took it.
        if to_start.is_some_and(|t| now >= t && expires.is_none_or(|whole| t <= whole)) {
            return self.late(started, TimeoutKind::ScheduleToStart, None);
        }
        if expires.is_some_and(|t| now >= t) {
            return self.late(started, TimeoutKind::ScheduleToClose, None);
        }
        if now >= due {
            Verdict::Ready
        } else {
            Verdict::Wait(self.deadline())
        }
    }

    fn running(
        &self,
        stop: Option<(Attempt, Incarnation)>,
        (since, beat): (Timestamp, Timestamp),
        now: Timestamp,
    ) -> Verdict {
        let Some((attempt, _)) = self.open() else {
            return Verdict::Ignore;
        };
        let options = &self.scheduled.options;
        if self.expires().is_some_and(|t| now >= t) {
            return self.late(Some(attempt), TimeoutKind::ScheduleToClose, stop);
        }
        if options
            .start_to_close
            .is_some_and(|d| now >= since.after(d))
        {
            return self.failed(attempt, self.timeout(TimeoutKind::StartToClose), stop, now);
        }
        if options.heartbeat.is_some_and(|d| now >= beat.after(d)) {
            return self.failed(attempt, self.timeout(TimeoutKind::Heartbeat), stop, now);
        }
        Verdict::Wait(self.deadline())
    }

    /// The process is gone that ran this attempt. If the time for all attempts passed meanwhile, that
    /// ended it before anybody could see the loss.
    fn lost(&self, attempt: Attempt, now: Timestamp) -> Verdict {
        if self.expires().is_some_and(|t| now >= t) {
            return self.late(Some(attempt), TimeoutKind::ScheduleToClose, None);
        }
        self.failed(attempt, worker_lost(), None, now)
    }

    /// Out of time for good; how its last attempt failed is the cause.
    fn late(
        &self,
        attempt: Option<Attempt>,
        kind: TimeoutKind,
        stop: Option<(Attempt, Incarnation)>,
    ) -> Verdict {
        let failure = match &self.last_failure {
            Some(last) => self.timeout(kind).caused_by(last.clone()),
            None => self.timeout(kind),
        };
        let ending = Ending::TimedOut(failure, RetryState::Timeout);
        Verdict::Close(Outcome { attempt, ending }, stop)
    }

    /// Both may have wanted it to stop; only workflow code wants it not to run again.
    fn handed_back(&self, attempt: Attempt) -> Verdict {
        if !self.is_cancel_requested {
            return Verdict::HandBack;
        }
        let outcome = Outcome {
            attempt: Some(attempt),
            ending: Ending::Canceled(None),
        };
        Verdict::Close(outcome, None)
    }

    fn worker_says(&self, attempt: Attempt, result: AttemptResult, now: Timestamp) -> Verdict {
        match result {
            AttemptResult::HandedBack => self.handed_back(attempt),
            AttemptResult::Later => Verdict::Leave,
            AttemptResult::Completed(_) | AttemptResult::Failed(_) | AttemptResult::Canceled(_) => {
                self.outcome(attempt, result, now)
            }
        }
    }

    fn outcome(&self, attempt: Attempt, result: AttemptResult, now: Timestamp) -> Verdict {
        let ending = match result {
            // Only a worker says so, and only of an attempt that it runs.
            AttemptResult::HandedBack | AttemptResult::Later => return Verdict::Ignore,
            AttemptResult::Completed(payload) => Ending::Completed(payload),
            AttemptResult::Canceled(details) if self.is_cancel_requested => {
                Ending::Canceled(details)
            }
            // Nobody asked: the worker gave up by itself, which is a failure like any other.
            AttemptResult::Canceled(_) => {
                let failure = Failure::application("Canceled", "the attempt stopped by itself");
                return self.failed(attempt, failure, None, now);
            }
            AttemptResult::Failed(failure) => return self.failed(attempt, failure, None, now),
        };
        Verdict::Close(
            Outcome {
                attempt: Some(attempt),
                ending,
            },
            None,
        )
    }

    fn failed(
        &self,
        attempt: Attempt,
        failure: Failure,
        stop: Option<(Attempt, Incarnation)>,
        now: Timestamp,
    ) -> Verdict {
        let circumstances = retry::Circumstances {
            attempt,
            is_cancel_requested: self.is_cancel_requested,
            expires: self.expires(),
            now,
        };
        match retry::decide(&self.scheduled.options.retry, &failure, circumstances) {
            retry::Verdict::Again(due) => Verdict::Retry(failure, due, stop),
            retry::Verdict::Stop(state) => {
                let ending = if matches!(failure.kind, outlast_model::FailureKind::Timeout { .. }) {
                    Ending::TimedOut(failure, state)
                } else {
                    Ending::Failed(failure, state)
                };
                Verdict::Close(
                    Outcome {
                        attempt: Some(attempt),
                        ending,
                    },
                    stop,
                )
            }
        }
    }

    fn timeout(&self, kind: TimeoutKind) -> Failure {
        Failure::timeout(kind, self.heartbeat_details.clone())
    }
}

fn earliest(a: Option<Timestamp>, b: Option<Timestamp>) -> Option<Timestamp> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (Some(t), None) | (None, Some(t)) => Some(t),
        (None, None) => None,
    }
}

#[cfg(test)]
mod tests;
