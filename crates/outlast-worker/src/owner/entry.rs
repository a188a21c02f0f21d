//! The life of one registered queue.
//!
//! ```text
//!            register           opened
//!   Absent ----------> Opening --------> Open <-----opened----- Reopening
//!     ^ ^                |  |              |  \                  ^     |
//!     | +--gave up-------+  |              |   +--stopped--------+     |
//!     |                     |              | recycle             |     |
//!     |                     | unregister   +-----> Recycling ----+     |
//!     |                     v unregister                 | unregister  |
//!     +---stopped-------- Closing <----------------------+-------------+
//! ```
//!
//! Why an opening that nobody wants any more is waited for: a handle that opens after its queue
//! was unregistered must be shut down again, or the backend would hand work to nobody.

use crate::handle::QueueOptions;

/// Where a queue stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Not registered.
    Absent,
    /// Registered; its first handle is being opened.
    Opening,
    /// In service.
    Open,
    /// Its handle is being stopped, another will take its place.
    Recycling,
    /// In between two handles.
    Reopening,
    /// Not registered any more; what is under way comes to its end.
    Closing,
}

/// What happens to a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// Somebody wants it served.
    Register,
    /// Nobody wants it served.
    Unregister,
    /// Its handle is broken, or somebody says so.
    Recycle,
    /// The pause before an opening is over.
    Due,
    /// A handle is open.
    Opened,
    /// A handle could not be opened.
    Failed {
        /// It is not worth another try.
        is_final: bool,
    },
    /// Both polls of the handle have ended.
    Stopped,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing, or somebody is at it.
    Nothing,
    /// Pause as long as the failures so far call for, then [`Input::Due`].
    Pause,
    /// Open a handle, then [`Input::Opened`] or [`Input::Failed`].
    Open,
    /// Poll the handle until it has stopped, then [`Input::Stopped`].
    Serve,
    /// Tell the handle to stop.
    Stop,
    /// Nobody wants this handle: tell it to stop, and poll it until it has.
    Dismiss,
    /// The queue is gone: whoever waits for it hears so.
    End,
}

/// Why a request was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It is registered, or about to be.
    Registered,
    /// It is being unregistered.
    Closing,
    /// It is not registered.
    Unknown,
    /// This cannot happen in this state: a bug of the owner.
    Unexpected,
}

impl State {
    /// Applies one input.
    ///
    /// # Errors
    /// The request is refused; nothing has changed.
    pub fn apply(self, input: Input) -> Result<(Self, Effect), Refused> {
        use State::{Absent, Closing, Open, Opening, Recycling, Reopening};
        Ok(match (self, input) {
            (Absent, Input::Register) => (Opening, Effect::Pause),
            (Absent, Input::Unregister) => (Absent, Effect::Nothing),

            (Opening | Reopening, Input::Due) => (self, Effect::Open),
            (Opening | Reopening, Input::Opened) => (Open, Effect::Serve),
            (Opening, Input::Failed { is_final: true }) => (Absent, Effect::End),
            (Opening, Input::Failed { is_final: false }) => (Opening, Effect::Pause),
            // It was in service before: whatever is wrong may heal.
            (Reopening, Input::Failed { .. }) => (Reopening, Effect::Pause),

            (Open, Input::Unregister) => (Closing, Effect::Stop),
            (Open, Input::Recycle) => (Recycling, Effect::Stop),
            // The backend stopped by itself.
            (Open | Recycling, Input::Stopped) => (Reopening, Effect::Pause),

            // A fresh handle is on its way already.
            (Opening | Recycling | Reopening, Input::Recycle) => (self, Effect::Nothing),
            (Opening | Recycling | Reopening | Closing, Input::Unregister) => {
                (Closing, Effect::Nothing)
            }

            (Closing, Input::Opened) => (Closing, Effect::Dismiss),
            (Closing, Input::Due | Input::Failed { .. } | Input::Stopped) => (Absent, Effect::End),

            (Opening | Open | Recycling | Reopening, Input::Register) => {
                return Err(Refused::Registered);
            }
            (Closing, Input::Register) => return Err(Refused::Closing),
            (Absent | Closing, Input::Recycle) => return Err(Refused::Unknown),
            (Absent, Input::Due | Input::Opened | Input::Failed { .. } | Input::Stopped)
            | (Opening | Reopening, Input::Stopped)
            | (Open | Recycling, Input::Due | Input::Opened | Input::Failed { .. }) => {
                return Err(Refused::Unexpected);
            }
        })
    }

    /// Whether somebody wants it served.
    pub fn is_registered(self) -> bool {
        match self {
            Self::Opening | Self::Open | Self::Recycling | Self::Reopening => true,
            Self::Absent | Self::Closing => false,
        }
    }
}

/// Why a queue could not be registered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegisterError {
    /// It is registered, or about to be.
    #[error("OL-4310: queue {queue} is already registered; unregister it first", queue = .0.queue)]
    Registered(Box<QueueOptions>),
    /// The last registration has not come to its end.
    #[error(
        "OL-4311: queue {queue} is being unregistered; wait for that to answer",
        queue = .0.queue
    )]
    Closing(Box<QueueOptions>),
    /// It was unregistered before its handle was open.
    #[error("OL-4312: queue {queue} was unregistered before it was open", queue = .0.queue)]
    Unregistered(Box<QueueOptions>),
    /// The backend did not open a handle.
    #[error(transparent)]
    Open(#[from] crate::handle::OpenError),
    /// The owner has shut down.
    #[error("OL-4313: the application is going down; nothing can be registered any more")]
    Down,
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATES: [State; 6] = [
        State::Absent,
        State::Opening,
        State::Open,
        State::Recycling,
        State::Reopening,
        State::Closing,
    ];
    const INPUTS: [Input; 8] = [
        Input::Register,
        Input::Unregister,
        Input::Recycle,
        Input::Due,
        Input::Opened,
        Input::Failed { is_final: false },
        Input::Failed { is_final: true },
        Input::Stopped,
    ];

    /// Every state against every input.
    const TABLE: &str = "\
Absent + Register: Opening, Pause
Absent + Unregister: Absent, Nothing
Absent + Recycle: refused, Unknown
Absent + Due: refused, Unexpected
Absent + Opened: refused, Unexpected
Absent + Failed { is_final: false }: refused, Unexpected
Absent + Failed { is_final: true }: refused, Unexpected
Absent + Stopped: refused, Unexpected
Opening + Register: refused, Registered
Opening + Unregister: Closing, Nothing
Opening + Recycle: Opening, Nothing
Opening + Due: Opening, Open
Opening + Opened: Open, Serve
Opening + Failed { is_final: false }: Opening, Pause
Opening + Failed { is_final: true }: Absent, End
Opening + Stopped: refused, Unexpected
Open + Register: refused, Registered
Open + Unregister: Closing, Stop
Open + Recycle: Recycling, Stop
Open + Due: refused, Unexpected
Open + Opened: refused, Unexpected
Open + Failed { is_final: false }: refused, Unexpected
Open + Failed { is_final: true }: refused, Unexpected
Open + Stopped: Reopening, Pause
Recycling + Register: refused, Registered
Recycling + Unregister: Closing, Nothing
Recycling + Recycle: Recycling, Nothing
Recycling + Due: refused, Unexpected
Recycling + Opened: refused, Unexpected
Recycling + Failed { is_final: false }: refused, Unexpected
Recycling + Failed { is_final: true }: refused, Unexpected
Recycling + Stopped: Reopening, Pause
Reopening + Register: refused, Registered
Reopening + Unregister: Closing, Nothing
Reopening + Recycle: Reopening, Nothing
Reopening + Due: Reopening, Open
Reopening + Opened: Open, Serve
Reopening + Failed { is_final: false }: Reopening, Pause
Reopening + Failed { is_final: true }: Reopening, Pause
Reopening + Stopped: refused, Unexpected
Closing + Register: refused, Closing
Closing + Unregister: Closing, Nothing
Closing + Recycle: refused, Unknown
Closing + Due: Absent, End
Closing + Opened: Closing, Dismiss
Closing + Failed { is_final: false }: Absent, End
Closing + Failed { is_final: true }: Absent, End
Closing + Stopped: Absent, End
";

    #[test]
    fn transition_table() {
        let mut table = String::new();
        for state in STATES {
            for input in INPUTS {
                let outcome = match state.apply(input) {
                    Ok((next, effect)) => format!("{next:?}, {effect:?}"),
                    Err(why) => format!("refused, {why:?}"),
                };
                table += &format!("{state:?} + {input:?}: {outcome}\n");
            }
        }
        assert_eq!(table, TABLE);
    }

    #[test]
    fn whatever_nobody_wants_ends_absent() {
        for state in STATES {
            let Ok((closing, _)) = state.apply(Input::Unregister) else {
                panic!("unregister is never refused: {state:?}");
            };
            assert!(!closing.is_registered());
            // Whichever of them was under way.
            let opened = closing.apply(Input::Opened).map(|(state, _)| state);
            let lasts = [
                (closing, Input::Due),
                (closing, Input::Failed { is_final: false }),
                (opened.unwrap_or(closing), Input::Stopped),
            ];
            for (state, last) in lasts {
                let end = state.apply(last).map_or(state, |(end, _)| end);
                assert_eq!(end, State::Absent, "{last:?}");
            }
        }
    }
}
