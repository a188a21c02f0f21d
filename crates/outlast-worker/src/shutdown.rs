//! The end of a worker, in phases.
//!
//! ```text
//!  Serving --begin--> Finishing --quiet------------------> Evicting --quiet, time is up--> Stopped
//!                        | time is up, hurry                  ^
//!                        v                                    |
//!                    Cancelling --quiet, time is up-----------+
//!
//!  from every phase between: hard stop --> Stopped
//! ```
//!
//! First nothing new is taken: what was claimed and has not begun is handed back, what runs may
//! finish. Then what still runs is told to stop, and is handed back when it does. Then instances
//! leave memory and the engine threads leave. Whatever outlasts all of that is named and left
//! behind: a library does not end its host.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use outlast_model::task::StopReason;

use crate::clock;
use crate::event::{StopPhase, WorkerEvent};
use crate::worker::Worker;

/// How often a stopping worker looks whether it is quiet.
const LOOK: Duration = Duration::from_millis(1);

/// Where a worker stands between its start and its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// It takes work.
    #[default]
    Serving,
    /// It takes none; what runs may finish.
    Finishing,
    /// What still runs was told to stop.
    Cancelling,
    /// Instances leave memory, threads leave.
    Evicting,
    /// Nobody waits for it any more.
    Stopped,
}

/// What moves it on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// It should stop.
    Begin,
    /// It should not wait for what runs to finish.
    Hurry,
    /// What this phase waits for has happened.
    Quiet,
    /// This phase has lasted as long as it may.
    TimeUp,
    /// All of it has.
    HardStop,
}

/// What is done on the way into the next phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Nothing.
    Nothing,
    /// The backend hands out nothing new; what has not begun is handed back.
    StopPolling,
    /// Running attempts are told to stop.
    Cancel,
    /// Engine threads keep what was said to them, drop their instances and leave.
    Leave,
}

impl Phase {
    /// Applies one input. Pure: same arguments, same answer.
    pub fn apply(self, input: Input) -> (Self, Act) {
        use Phase::{Cancelling, Evicting, Finishing, Serving, Stopped};
        match (self, input) {
            (Serving, Input::Begin) => (Finishing, Act::StopPolling),
            // Nobody has asked it to stop.
            (Serving, Input::Hurry | Input::Quiet | Input::TimeUp | Input::HardStop) => {
                (Serving, Act::Nothing)
            }

            (Finishing, Input::Quiet) => (Evicting, Act::Leave),
            (Finishing, Input::Hurry | Input::TimeUp) => (Cancelling, Act::Cancel),

            (Cancelling, Input::Quiet | Input::TimeUp) => (Evicting, Act::Leave),

            (Evicting, Input::Quiet | Input::TimeUp | Input::HardStop) => (Stopped, Act::Nothing),

            // Threads that can leave should, though nobody waits for them.
            (Finishing | Cancelling, Input::HardStop) => (Stopped, Act::Leave),

            // Asked again, or asked to hurry where there is nothing left to skip.
            (phase @ (Finishing | Cancelling | Evicting), Input::Begin)
            | (phase @ (Cancelling | Evicting), Input::Hurry) => (phase, Act::Nothing),

            (
                Stopped,
                Input::Begin | Input::Hurry | Input::Quiet | Input::TimeUp | Input::HardStop,
            ) => (Stopped, Act::Nothing),
        }
    }
}

/// How much time a stopping worker has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pace {
    /// What runs may finish.
    #[default]
    Orderly,
    /// What runs is told to stop at once, and may do so.
    Hurried,
    /// What runs is told to stop, and nobody waits: whoever asks holds up the very threads that
    /// it runs on.
    Abrupt,
}

/// How the end of a worker is asked for, by any thread.
#[derive(Debug, Default)]
pub(crate) struct Ending {
    state: Mutex<(Phase, Pace)>,
    bell: Condvar,
}

impl Ending {
    pub(crate) fn phase(&self) -> Phase {
        self.lock().0
    }

    fn enter(&self, phase: Phase) {
        self.lock().0 = phase;
        self.bell.notify_all();
    }

    fn hurry(&self, pace: Pace) {
        let mut state = self.lock();
        state.1 = state.1.max(pace);
        drop(state);
        self.bell.notify_all();
    }

    fn pace(&self) -> Pace {
        self.lock().1
    }

    /// Whether it is in another phase before this time is over.
    pub(crate) fn leaves_within(&self, phase: Phase, time: Duration) -> bool {
        let state = self.lock();
        let is_there = |state: &mut (Phase, Pace)| state.0 == phase;
        let waited = self.bell.wait_timeout_while(state, time, is_there);
        let (_state, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        !waited.timed_out()
    }

    /// A moment passes, or somebody is in a hurry.
    fn pause(&self) {
        let state = self.lock();
        let waited = self.bell.wait_timeout(state, LOOK);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    fn lock(&self) -> MutexGuard<'_, (Phase, Pace)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Worker {
    /// How far it is on its way down.
    pub fn phase(&self) -> Phase {
        self.ending.phase()
    }

    /// A stop, under way or to come, takes no more time than this.
    pub fn hurry(&self, pace: Pace) {
        self.ending.hurry(pace);
    }

    /// Stops in phases and returns what is left behind, by name. Called by one thread, which
    /// waits; [`hurry`](Self::hurry) is for the others.
    pub fn stop(&self) -> Vec<String> {
        let begun = clock::now();
        let mut since = begun;
        let mut phase = self.advance(Phase::Serving, Input::Begin);
        while phase != Phase::Stopped {
            match self.heard(phase, begun, since) {
                Some(input) => {
                    phase = self.advance(phase, input);
                    since = clock::now();
                }
                None => self.ending.pause(),
            }
        }
        let left_behind = self.dismiss();
        let stopped = left_behind.clone();
        self.bus().emit(WorkerEvent::Stopped { left_behind });
        stopped
    }

    /// What moves it on now, if anything does.
    fn heard(&self, phase: Phase, begun: Instant, since: Instant) -> Option<Input> {
        let now = clock::now();
        let pace = self.ending.pace();
        if self.is_quiet(phase) {
            Some(Input::Quiet)
        } else if now.duration_since(begun) >= self.settings.shutdown_hard_stop {
            Some(Input::HardStop)
        } else if phase == Phase::Finishing && pace > Pace::Orderly {
            Some(Input::Hurry)
        } else if now.duration_since(since) >= self.time_for(phase, pace) {
            Some(Input::TimeUp)
        } else {
            None
        }
    }

    fn time_for(&self, phase: Phase, pace: Pace) -> Duration {
        match phase {
            Phase::Finishing => self.settings.shutdown_grace,
            Phase::Cancelling if pace == Pace::Abrupt => Duration::ZERO,
            Phase::Cancelling => self.settings.shutdown_cancel,
            Phase::Evicting => self.settings.shutdown_evictions,
            Phase::Serving | Phase::Stopped => Duration::MAX,
        }
    }

    fn is_quiet(&self, phase: Phase) -> bool {
        match phase {
            Phase::Finishing | Phase::Cancelling => {
                self.dispatcher.is_silent() && self.is_at_rest()
            }
            // Whoever is in a hurry does not wait for code that ignores that it should stop.
            Phase::Evicting if self.ending.pace() > Pace::Orderly => self.is_deserted(false),
            Phase::Evicting => self.is_deserted(true) && self.dispatcher.undead() == 0,
            Phase::Serving | Phase::Stopped => false,
        }
    }

    fn advance(&self, phase: Phase, input: Input) -> Phase {
        let (next, act) = phase.apply(input);
        self.ending.enter(next);
        let attempts = self.attempts();
        let told = match next {
            Phase::Finishing => Some(StopPhase::Finishing),
            Phase::Cancelling => Some(StopPhase::Cancelling),
            Phase::Evicting => Some(StopPhase::Evicting),
            Phase::Stopped if input == Input::HardStop => Some(StopPhase::HardStop),
            Phase::Stopped | Phase::Serving => None,
        };
        if let Some(phase) = told {
            self.bus().emit(WorkerEvent::Stopping { phase, attempts });
        }
        match act {
            Act::Nothing => {}
            Act::StopPolling => self.stop_polling(),
            Act::Cancel => self.dispatcher.stop_all(StopReason::Shutdown),
            Act::Leave => self.leave(),
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write;

    const PHASES: [Phase; 5] = [
        Phase::Serving,
        Phase::Finishing,
        Phase::Cancelling,
        Phase::Evicting,
        Phase::Stopped,
    ];
    const INPUTS: [Input; 5] = [
        Input::Begin,
        Input::Hurry,
        Input::Quiet,
        Input::TimeUp,
        Input::HardStop,
    ];

    /// Every phase against every input: a reviewer reads this table, not the match.
    #[test]
    fn transition_table() {
        let mut table = String::new();
        for phase in PHASES {
            for input in INPUTS {
                let (next, act) = phase.apply(input);
                writeln!(table, "{phase:?} | {input:?} => {next:?} + {act:?}")
                    .expect("writes to a string");
            }
        }
        insta::assert_snapshot!(table);
    }

    #[test]
    fn a_worker_that_is_told_so_often_enough_stops() {
        for first in INPUTS {
            for second in [Input::Quiet, Input::TimeUp, Input::HardStop] {
                let mut phase = Phase::Serving.apply(Input::Begin).0;
                phase = phase.apply(first).0;
                for _ in 0..3 {
                    phase = phase.apply(second).0;
                }
                assert_eq!(phase, Phase::Stopped, "{first:?}, then {second:?}");
            }
        }
    }
}
