//! When the runs of a shard that were thrown back for want of room try again: one first, more when
//! that was written. Measured by a clock that does not jump.
//!
//! ```text
//!         refused                  the pause is over: one tries
//!  Ample ---------> Waiting(pause) ----------------------------> Trying
//!    ^                  ^                                        |  |  |
//!    |                  +---------------- refused: pause x 2 ----+  |  | written, others wait, or the
//!    +---------- written, nobody waits -----------------------------+  | pause is over: twice as many
//!                                                                 <----+
//! ```

use std::time::{Duration, Instant};

use super::reopen::PAUSE;

/// The first pause.
const FIRST: Duration = Duration::from_millis(10);
/// A pause is longer than the one before if that was not so long ago.
const CALM: Duration = Duration::from_secs(10);

/// Whether there is room, as far as a shard knows.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Room {
    state: State,
    /// The last pause, and when there was no room.
    refused: Option<(Instant, Duration)>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// Nothing says that there is none.
    #[default]
    Ample,
    /// Nobody tries before then.
    Waiting { until: Instant },
    /// So many try; the disk was so far when they began.
    Trying {
        until: Instant,
        count: usize,
        durable: u64,
    },
}

impl Room {
    /// Whether nothing says that there is none.
    pub(super) fn is_ample(&self) -> bool {
        self.state == State::Ample
    }

    /// There was no room.
    pub(super) fn refused(&mut self, now: Instant) {
        let last = self.refused;
        let pause = match (self.state, last) {
            // What fails while others wait says nothing new.
            (State::Waiting { .. }, Some((_, pause))) => pause,
            (State::Ample | State::Trying { .. }, Some((at, pause)))
                if now.saturating_duration_since(at) < CALM =>
            {
                (pause * 2).min(PAUSE)
            }
            (State::Ample | State::Waiting { .. } | State::Trying { .. }, _) => FIRST,
        };
        self.refused = Some((now, pause));
        self.state = match self.state {
            waiting @ State::Waiting { .. } => waiting,
            State::Ample | State::Trying { .. } => State::Waiting { until: now + pause },
        };
    }

    /// How many may try now, if any may. The disk is so far, and some wait or none do.
    pub(super) fn look(&mut self, now: Instant, durable: u64, is_short: bool) -> Option<usize> {
        let (is_over, before) = match self.state {
            State::Ample => return None,
            State::Waiting { until } => (until <= now, None),
            State::Trying {
                until,
                count,
                durable: since,
            } if durable > since => {
                if !is_short {
                    self.state = State::Ample;
                    return None;
                }
                (until <= now || durable > since, Some(count))
            }
            State::Trying { until, count, .. } => (until <= now, Some(count)),
        };
        if !is_over {
            return None;
        }
        if !is_short {
            // Those that tried had nothing to write.
            self.state = State::Ample;
            return None;
        }
        let count = before.map_or(1, |count| count.saturating_mul(2));
        let pause = self.refused.map_or(FIRST, |(_, pause)| pause);
        self.state = State::Trying {
            until: now + pause,
            count,
            durable,
        };
        Some(count)
    }

    /// How long until that is worth a look.
    pub(super) fn again(&self, now: impl FnOnce() -> Instant) -> Option<Duration> {
        match self.state {
            State::Ample => None,
            State::Waiting { until } | State::Trying { until, .. } => {
                Some(until.saturating_duration_since(now()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(begin: Instant, millis: u64) -> Instant {
        begin + Duration::from_millis(millis)
    }

    #[test]
    fn one_tries_first_and_more_when_it_was_written() {
        let (mut room, begin) = (Room::default(), crate::clock::instant());
        assert_eq!(room.look(begin, 7, true), None);
        room.refused(begin);
        assert_eq!(room.look(after(begin, 9), 7, true), None);
        assert_eq!(room.look(after(begin, 10), 7, true), Some(1));
        assert_eq!(
            room.look(after(begin, 11), 7, true),
            None,
            "not written yet"
        );
        assert_eq!(room.look(after(begin, 12), 8, true), Some(2));
        assert_eq!(room.look(after(begin, 13), 9, true), Some(4));
        assert_eq!(room.look(after(begin, 14), 10, false), None);
        assert!(room.is_ample());
    }

    #[test]
    fn pauses_grow_to_a_second_while_there_is_no_room() {
        let (mut room, begin) = (Room::default(), crate::clock::instant());
        let mut now = begin;
        let mut pauses = Vec::new();
        for _ in 0..9 {
            room.refused(now);
            let pause = room.again(|| now).expect("it waits");
            pauses.push(pause.as_millis());
            now += pause;
            assert_eq!(room.look(now, 1, true), Some(1));
        }
        assert_eq!(pauses, [10, 20, 40, 80, 160, 320, 640, 1000, 1000]);
    }

    #[test]
    fn a_large_commit_among_small_ones_is_not_tried_ever_faster() {
        let (mut room, begin) = (Room::default(), crate::clock::instant());
        room.refused(begin);
        assert_eq!(room.look(after(begin, 10), 1, true), Some(1));
        // A small one was written, the large one is under way.
        assert_eq!(room.look(after(begin, 11), 2, false), None);
        room.refused(after(begin, 12));
        let pause = room.again(|| after(begin, 12));
        assert_eq!(pause, Some(Duration::from_millis(20)));
    }

    #[test]
    fn whoever_had_nothing_to_write_keeps_nobody_waiting() {
        let (mut room, begin) = (Room::default(), crate::clock::instant());
        room.refused(begin);
        assert_eq!(room.look(after(begin, 10), 1, true), Some(1));
        assert_eq!(room.look(after(begin, 20), 1, true), Some(2));
        assert_eq!(room.look(after(begin, 40), 1, false), None);
        assert!(room.is_ample());
    }
}
