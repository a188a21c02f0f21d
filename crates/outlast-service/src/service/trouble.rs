//! Whether the store takes what is decided. Whoever runs user code hears once that it does not,
//! and once that it does again.
//!
//! ```text
//!        failed            reopened, no room: every shard tries once more
//!  Well -------> Reopening ------------------------------------------> Short
//!   ^                |                                                   | |
//!   |   reopened     |                                         failed    | |
//!   +----------------+                Reopening <------------------------+ |
//!   +--------------------------------------------------------------------+
//!       something was written, or no shard has anything to write
//! ```
//!
//! A store that was full is back when it took something. A shard that has nothing to write can
//! prove nothing, and must not keep an application from being asked: it counts as if it had.

use std::collections::BTreeSet;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Duration;

use outlast_model::Timestamp;

use super::Service;
use super::commit::PAUSE;
use crate::store::CommitError;
use crate::sync::{AtomicBool, Mutex};

/// Where the store stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum State {
    /// It takes what it is given, as far as anybody knows.
    #[default]
    Well,
    /// It failed and is being opened anew.
    Reopening { since: Timestamp },
    /// It had no room. These shards have not looked since whether they have something to write.
    Short {
        since: Timestamp,
        untried: BTreeSet<usize>,
    },
}

/// What happens to it.
#[derive(Clone, Copy, Debug)]
enum Input {
    /// A group was not taken.
    Failed(Timestamp),
    /// It is open again.
    Reopened,
    /// It is open again and had no room; there are so many shards.
    ReopenedShort(usize),
    /// A group was taken.
    Written,
    /// This shard has nothing to write and waits for nothing to be written.
    Idle(usize),
}

/// What somebody should hear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum News {
    Away,
    Back { since: Timestamp },
}

impl State {
    fn decide(self, input: Input) -> (Self, Option<News>) {
        match (self, input) {
            (Self::Well, Input::Failed(since)) => (Self::Reopening { since }, Some(News::Away)),
            (
                Self::Well,
                Input::Reopened | Input::ReopenedShort(_) | Input::Written | Input::Idle(_),
            ) => (Self::Well, None),
            (Self::Reopening { since }, Input::Reopened) => {
                (Self::Well, Some(News::Back { since }))
            }
            (Self::Reopening { since }, Input::ReopenedShort(shards)) => {
                let untried = (0..shards).collect();
                (Self::Short { since, untried }, None)
            }
            (
                state @ Self::Reopening { .. },
                Input::Failed(_) | Input::Written | Input::Idle(_),
            ) => (state, None),
            (Self::Short { since, .. }, Input::Failed(_)) => (Self::Reopening { since }, None),
            (Self::Short { since, .. }, Input::Written) => (Self::Well, Some(News::Back { since })),
            (Self::Short { since, mut untried }, Input::Idle(shard)) => {
                untried.remove(&shard);
                if untried.is_empty() {
                    return (Self::Well, Some(News::Back { since }));
                }
                (Self::Short { since, untried }, None)
            }
            (state @ Self::Short { .. }, Input::Reopened | Input::ReopenedShort(_)) => {
                (state, None)
            }
        }
    }
}

/// Whether the store takes what is decided.
#[derive(Debug, Default)]
pub(super) struct Trouble {
    /// Looked at for each commit: whether the rest is worth a look.
    is_away: AtomicBool,
    state: Mutex<State>,
}

impl Trouble {
    fn hear(&self, input: Input) -> Option<News> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (next, news) = std::mem::take(&mut *state).decide(input);
        self.is_away.store(next != State::Well, Ordering::Release);
        *state = next;
        news
    }

    fn is_away(&self) -> bool {
        self.is_away.load(Ordering::Acquire)
    }
}

impl Service {
    /// A group was not taken.
    pub(super) fn store_failed(&self, error: &CommitError) {
        if self.trouble.hear(Input::Failed(self.clock.now())).is_some() {
            self.outlet.store_away(error, PAUSE);
        }
    }

    /// The store is open again; after it had no room that says little.
    pub(super) fn store_reopened(&self, error: &CommitError) {
        self.tell_if_back(match error {
            CommitError::Full => Input::ReopenedShort(self.cells.len()),
            CommitError::Failed { .. } | CommitError::Conflict { .. } => Input::Reopened,
        });
    }

    /// A group was taken.
    pub(super) fn store_wrote(&self) {
        if self.trouble.is_away() {
            self.tell_if_back(Input::Written);
        }
    }

    /// A shard is about to sleep; `is_idle`: not because it waits out a pause.
    pub(super) fn shard_sleeps(&self, shard: usize, is_idle: bool) {
        if self.trouble.is_away() && is_idle && self.queue.is_settled() {
            self.tell_if_back(Input::Idle(shard));
        }
    }

    fn tell_if_back(&self, input: Input) {
        if let Some(News::Back { since }) = self.trouble.hear(input) {
            let away: Duration = self.clock.now().since(since);
            self.outlet.store_back(away);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const THEN: Timestamp = Timestamp(7);
    const LATER: Timestamp = Timestamp(9);

    /// Every state against every input.
    #[test]
    fn transition_table() {
        let short = |untried: &[usize]| State::Short {
            since: THEN,
            untried: untried.iter().copied().collect(),
        };
        let reopening = State::Reopening { since: THEN };
        let back = Some(News::Back { since: THEN });
        let table = [
            (
                State::Well,
                Input::Failed(THEN),
                reopening.clone(),
                Some(News::Away),
            ),
            (State::Well, Input::Reopened, State::Well, None),
            (State::Well, Input::ReopenedShort(2), State::Well, None),
            (State::Well, Input::Written, State::Well, None),
            (State::Well, Input::Idle(0), State::Well, None),
            (
                reopening.clone(),
                Input::Failed(LATER),
                reopening.clone(),
                None,
            ),
            (reopening.clone(), Input::Reopened, State::Well, back),
            (
                reopening.clone(),
                Input::ReopenedShort(2),
                short(&[0, 1]),
                None,
            ),
            (reopening.clone(), Input::Written, reopening.clone(), None),
            (reopening.clone(), Input::Idle(0), reopening.clone(), None),
            (short(&[0, 1]), Input::Failed(LATER), reopening, None),
            (short(&[0, 1]), Input::Reopened, short(&[0, 1]), None),
            (
                short(&[0, 1]),
                Input::ReopenedShort(2),
                short(&[0, 1]),
                None,
            ),
            (short(&[0, 1]), Input::Written, State::Well, back),
            (short(&[0, 1]), Input::Idle(0), short(&[1]), None),
            (short(&[1]), Input::Idle(0), short(&[1]), None),
            (short(&[1]), Input::Idle(1), State::Well, back),
        ];
        for (state, input, next, news) in table {
            let decided = state.clone().decide(input);
            assert_eq!(decided, (next, news), "{state:?} and {input:?}");
        }
    }

    #[test]
    fn what_goes_wrong_again_and_again_is_said_once() {
        let trouble = Trouble::default();
        assert_eq!(trouble.hear(Input::Failed(THEN)), Some(News::Away));
        for _ in 0..3 {
            assert_eq!(trouble.hear(Input::ReopenedShort(1)), None);
            assert_eq!(trouble.hear(Input::Failed(LATER)), None);
            assert!(trouble.is_away());
        }
        trouble.hear(Input::ReopenedShort(1));
        let back = trouble.hear(Input::Written);
        assert_eq!(back, Some(News::Back { since: THEN }));
        assert!(!trouble.is_away());
    }
}
