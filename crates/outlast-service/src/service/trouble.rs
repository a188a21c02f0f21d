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
enum Input<'a> {
    /// A group was not taken, then and for this reason.
    Failed(Timestamp, &'a CommitError),
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
enum News<'a> {
    Away(&'a CommitError),
    Back { since: Timestamp },
}

impl State {
    fn decide(self, input: Input<'_>) -> (Self, Option<News<'_>>) {
        match (self, input) {
            (Self::Well, Input::Failed(since, error)) => {
                (Self::Reopening { since }, Some(News::Away(error)))
            }
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
                Input::Failed(..) | Input::Written | Input::Idle(_),
            ) => (state, None),
            (Self::Short { since, .. }, Input::Failed(..)) => (Self::Reopening { since }, None),
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
    /// Tells under the lock: what comes first is heard first.
    fn hear(&self, input: Input<'_>, tell: impl FnOnce(News<'_>)) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (next, news) = std::mem::take(&mut *state).decide(input);
        self.is_away.store(next != State::Well, Ordering::Release);
        *state = next;
        if let Some(news) = news {
            tell(news);
        }
    }

    fn is_away(&self) -> bool {
        self.is_away.load(Ordering::Acquire)
    }
}

impl Service {
    /// A group was not taken.
    pub(super) fn store_failed(&self, error: &CommitError) {
        let failed = Input::Failed(self.clock.now(), error);
        self.trouble.hear(failed, |news| self.tell(news));
    }

    /// The store is open again; after it had no room that says little.
    pub(super) fn store_reopened(&self, error: &CommitError) {
        let reopened = match error {
            CommitError::Full => Input::ReopenedShort(self.cells.len()),
            CommitError::Failed { .. } | CommitError::Conflict { .. } => Input::Reopened,
        };
        self.trouble.hear(reopened, |news| self.tell(news));
    }

    /// A group was taken.
    pub(super) fn store_wrote(&self) {
        if self.trouble.is_away() {
            self.trouble.hear(Input::Written, |news| self.tell(news));
        }
    }

    /// This shard has nothing to write and is about to sleep.
    pub(super) fn shard_is_idle(&self, shard: usize) {
        if self.trouble.is_away() && self.queue.is_settled() {
            let idle = Input::Idle(shard);
            self.trouble.hear(idle, |news| self.tell(news));
        }
    }

    fn tell(&self, news: News<'_>) {
        match news {
            News::Away(error) => self.outlet.store_away(error, PAUSE),
            News::Back { since } => self.outlet.store_back(self.clock.now().since(since)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const THEN: Timestamp = Timestamp(7);
    const LATER: Timestamp = Timestamp(9);
    const FULL: &CommitError = &CommitError::Full;

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
                Input::Failed(THEN, FULL),
                reopening.clone(),
                Some(News::Away(FULL)),
            ),
            (State::Well, Input::Reopened, State::Well, None),
            (State::Well, Input::ReopenedShort(2), State::Well, None),
            (State::Well, Input::Written, State::Well, None),
            (State::Well, Input::Idle(0), State::Well, None),
            (
                reopening.clone(),
                Input::Failed(LATER, FULL),
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
            (short(&[0, 1]), Input::Failed(LATER, FULL), reopening, None),
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
        let mut told = Vec::new();
        let mut hear = |input| trouble.hear(input, |news| told.push(format!("{news:?}")));
        for _ in 0..3 {
            hear(Input::Failed(THEN, FULL));
            hear(Input::ReopenedShort(1));
            assert!(trouble.is_away());
        }
        hear(Input::Written);
        assert!(!trouble.is_away());
        assert_eq!(told, ["Away(Full)", "Back { since: Timestamp(7) }"]);
    }
}
