//! Whether the store takes what is decided. Whoever runs user code hears once that it does not,
//! and once that it does again.
//!
//! ```text
//!            no room                 as much was written, and nothing was refused for a while;
//!   Well ---------------> Short      or nothing was refused for twice as long
//!   ^ ^                   | | ^ no room: again   |
//!   | +-------------------+-+-+------------------+
//!   |                       | failed
//!   |      failed           v
//!   |   Well ----------> Reopening
//!   +--------------------------+ reopened
//! ```
//!
//! While there is little room small commits may be written and large ones not: that is one
//! trouble, not many. A store that has nothing to write can prove nothing, and must not keep an
//! application from being asked: after a while it counts as well. If that was wrong the next
//! while is longer. All of it is measured by a clock that does not jump.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::Service;
use super::reopen::PAUSE;
use crate::clock::{self, Sleep};
use crate::store::CommitError;
use crate::sync::{AtomicBool, Mutex};

/// So long nothing must have been refused at first, and at most. Half of it is enough if as much
/// was written as was refused.
const CALM: Duration = Duration::from_secs(2);
const LONGEST_CALM: Duration = Duration::from_secs(64);
/// Trouble that comes back within this time is the old one.
const AGAIN: Duration = Duration::from_mins(2);

/// Where the store stands.
#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    /// It takes what it is given, as far as anybody knows.
    Well {
        /// When that turned out last, after so long a calm.
        calmed: Option<(Instant, Duration)>,
    },
    /// It failed and is being opened anew.
    Reopening { since: Instant },
    /// It had no room.
    Short {
        since: Instant,
        /// For the last time.
        last: Instant,
        /// For so much.
        weight: usize,
        /// As much was written since.
        has_written: bool,
        /// So long nothing must be refused.
        calm: Duration,
    },
}

impl Default for State {
    fn default() -> Self {
        Self::Well { calmed: None }
    }
}

/// What happens to it.
#[derive(Clone, Copy, Debug)]
enum Input<'a> {
    /// There was no room for so much.
    NoRoom(usize),
    /// It failed for this reason.
    Failed(&'a CommitError),
    /// It is open again.
    Reopened,
    /// So much was written.
    Written(usize),
    /// A shard has nothing to write.
    Idle,
}

/// What somebody should hear.
#[derive(Clone, Debug, PartialEq, Eq)]
enum News {
    Away(CommitError),
    Back { after: Duration },
}

impl State {
    fn decide(self, input: Input<'_>, now: Instant) -> (Self, Option<News>) {
        match (self, input) {
            (Self::Well { calmed }, Input::NoRoom(weight)) => {
                let short = Self::Short {
                    since: now,
                    last: now,
                    weight,
                    has_written: false,
                    calm: next_calm(calmed, now),
                };
                (short, Some(News::Away(CommitError::Full)))
            }
            (Self::Well { .. }, Input::Failed(error)) => {
                let away = News::Away(error.clone());
                (Self::Reopening { since: now }, Some(away))
            }
            (state @ Self::Well { .. }, Input::Reopened | Input::Written(_) | Input::Idle) => {
                (state, None)
            }
            (Self::Reopening { since }, Input::Reopened) => back(since, now, None),
            (
                state @ Self::Reopening { .. },
                Input::NoRoom(_) | Input::Failed(_) | Input::Written(_) | Input::Idle,
            ) => (state, None),
            (
                Self::Short {
                    since,
                    weight,
                    calm,
                    ..
                },
                Input::NoRoom(more),
            ) => {
                let short = Self::Short {
                    since,
                    last: now,
                    weight: weight.max(more),
                    has_written: false,
                    calm,
                };
                (short, None)
            }
            (Self::Short { since, .. }, Input::Failed(_)) => (Self::Reopening { since }, None),
            (state @ Self::Short { .. }, Input::Reopened) => (state, None),
            (state @ Self::Short { .. }, Input::Written(weight)) => state.calms_down(weight, now),
            (state @ Self::Short { .. }, Input::Idle) => state.calms_down(0, now),
        }
    }

    /// So much was written since there was no room.
    fn calms_down(mut self, written: usize, now: Instant) -> (Self, Option<News>) {
        if let Self::Short {
            since,
            last,
            weight,
            has_written,
            calm,
        } = &mut self
        {
            *has_written |= written >= *weight;
            let enough = if *has_written { *calm / 2 } else { *calm };
            if now.saturating_duration_since(*last) >= enough {
                return back(*since, now, Some(*calm));
            }
        }
        (self, None)
    }
}

/// Trouble that comes back soon is believed to be over later.
fn next_calm(calmed: Option<(Instant, Duration)>, now: Instant) -> Duration {
    match calmed {
        Some((at, calm)) if now.saturating_duration_since(at) < AGAIN => {
            (calm * 2).min(LONGEST_CALM)
        }
        Some(_) | None => CALM,
    }
}

fn back(since: Instant, now: Instant, calm: Option<Duration>) -> (State, Option<News>) {
    let after = now.saturating_duration_since(since);
    let calmed = calm.map(|calm| (now, calm));
    (State::Well { calmed }, Some(News::Back { after }))
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
    fn hear(&self, input: Input<'_>, now: Instant, tell: impl FnOnce(News)) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (next, news) = std::mem::take(&mut *state).decide(input, now);
        let is_away = match next {
            State::Well { .. } => false,
            State::Reopening { .. } | State::Short { .. } => true,
        };
        self.is_away.store(is_away, Ordering::Release);
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
    /// There was no room for so much.
    pub(super) fn store_is_short(&self, weight: usize) {
        self.hears(Input::NoRoom(weight));
    }

    /// The store failed.
    pub(super) fn store_failed(&self, error: &CommitError) {
        self.hears(Input::Failed(error));
    }

    /// The store is open again.
    pub(super) fn store_reopened(&self) {
        self.hears(Input::Reopened);
    }

    /// Whether the store is in trouble.
    pub(super) fn is_in_trouble(&self) -> bool {
        self.trouble.is_away()
    }

    /// So much was written although the store is in trouble.
    pub(super) fn wrote_in_trouble(&self, weight: usize) {
        self.hears(Input::Written(weight));
    }

    /// A shard has nothing to write and is about to sleep.
    pub(super) fn shard_is_idle(&self) {
        if self.trouble.is_away() && self.queue.is_settled() {
            self.hears(Input::Idle);
        }
    }

    /// Nobody sleeps long before looking whether the trouble is over, or some may try again.
    pub(super) fn in_trouble(&self, sleep: Sleep, again: Option<Duration>) -> Sleep {
        let sleep = match self.trouble.is_away() {
            true => sleep.at_most(PAUSE),
            false => sleep,
        };
        again.map_or(sleep, |again| sleep.at_most(again))
    }

    fn hears(&self, input: Input<'_>) {
        let now = clock::instant();
        self.trouble.hear(input, now, |news| self.tell(&news));
    }

    fn tell(&self, news: &News) {
        match news {
            News::Away(error) => self.outlet.store_away(error, PAUSE),
            News::Back { after } => self.outlet.store_back(*after),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: &CommitError = &CommitError::Full;

    fn short(since: Instant, last: Instant, weight: usize, has_written: bool) -> State {
        State::Short {
            since,
            last,
            weight,
            has_written,
            calm: CALM,
        }
    }

    /// Every state against every input, and the times that matter.
    #[test]
    fn a_store_in_trouble_goes_through_these_states() {
        let then = clock::instant();
        let (soon, half, calm) = (then + CALM / 4, then + CALM / 2, then + CALM);
        let well = State::default();
        let calmed = |at| State::Well {
            calmed: Some((at, CALM)),
        };
        let reopening = State::Reopening { since: then };
        let fresh = short(then, then, 5, false);
        let proven = short(then, then, 5, true);
        let away = |error: &CommitError| Some(News::Away(error.clone()));
        let back = |after: Duration| Some(News::Back { after });
        let table = [
            (&well, Input::NoRoom(5), then, &fresh, away(FULL)),
            (&well, Input::Failed(FULL), then, &reopening, away(FULL)),
            (&well, Input::Reopened, then, &well, None),
            (&well, Input::Written(9), then, &well, None),
            (&well, Input::Idle, then, &well, None),
            (&reopening, Input::NoRoom(5), soon, &reopening, None),
            (&reopening, Input::Failed(FULL), soon, &reopening, None),
            (&reopening, Input::Reopened, half, &well, back(CALM / 2)),
            (&reopening, Input::Written(9), calm, &reopening, None),
            (&reopening, Input::Idle, calm, &reopening, None),
            (
                &fresh,
                Input::NoRoom(9),
                soon,
                &short(then, soon, 9, false),
                None,
            ),
            (
                &proven,
                Input::NoRoom(1),
                soon,
                &short(then, soon, 5, false),
                None,
            ),
            (&fresh, Input::Failed(FULL), soon, &reopening, None),
            (&fresh, Input::Reopened, calm, &fresh, None),
            (&fresh, Input::Written(4), half, &fresh, None),
            (&fresh, Input::Written(5), soon, &proven, None),
            (
                &fresh,
                Input::Written(5),
                half,
                &calmed(half),
                back(CALM / 2),
            ),
            (&fresh, Input::Idle, half, &fresh, None),
            (&fresh, Input::Idle, calm, &calmed(calm), back(CALM)),
            (&proven, Input::Idle, soon, &proven, None),
            (&proven, Input::Idle, half, &calmed(half), back(CALM / 2)),
        ];
        for (state, input, now, next, news) in table {
            let decided = state.clone().decide(input, now);
            assert_eq!(decided, (next.clone(), news), "{state:?} and {input:?}");
        }
    }

    #[test]
    fn small_commits_between_large_ones_that_do_not_fit_are_one_trouble() {
        let trouble = Trouble::default();
        let mut now = clock::instant();
        let mut told = Vec::new();
        let mut hear = |input, now| trouble.hear(input, now, |news| told.push(news));
        for _ in 0..100 {
            hear(Input::NoRoom(4_000), now);
            for _ in 0..4 {
                now += CALM / 5;
                hear(Input::Written(300), now);
                hear(Input::Idle, now);
            }
            assert!(trouble.is_away());
        }
        hear(Input::Written(4_000), now);
        now += CALM;
        hear(Input::Idle, now);
        assert!(!trouble.is_away());
        assert_eq!(told.len(), 2, "{told:?}");
    }

    #[test]
    fn trouble_that_comes_back_again_and_again_is_told_ever_less() {
        let trouble = Trouble::default();
        let mut now = clock::instant();
        let mut told = 0;
        // A large start every five seconds for an hour, and small commits all the time.
        for second in 0..3_600_u64 {
            now += Duration::from_secs(1);
            let input = match second % 5 {
                0 => Input::NoRoom(4_000),
                _ => Input::Written(300),
            };
            trouble.hear(input, now, |_| told += 1);
        }
        assert!(told <= 5, "{told} times");
    }
}
