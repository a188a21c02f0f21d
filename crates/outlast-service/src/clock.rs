//! The one place that reads a clock, and the virtual one that tests turn by hand.
//!
//! The engine thread asks the clock how long to sleep. A virtual clock answers by jumping to the
//! next due time when somebody waits for a result and nothing else can happen: days pass in
//! microseconds, and never while a test is between two of its own calls.

use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use outlast_model::{Timestamp, limits};

/// How long a virtual clock waits for the disk before it looks again.
const LOOK: Duration = Duration::from_millis(1);

/// What a shard with nothing to do knows about itself.
#[derive(Clone, Copy, Debug)]
pub struct Lull {
    /// When it must look again.
    pub due: Option<Timestamp>,
    /// Attempts that run somewhere and will report.
    pub attempts_out: usize,
    /// Callers who wait for the end of a run.
    pub waiters: usize,
    /// Something is being written, and may have consequences.
    pub is_writing: bool,
}

/// How long a shard with nothing to do sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sleep {
    /// Until something arrives.
    UntilMail,
    /// Until something arrives, at most so long.
    AtMost(Duration),
    /// Not at all: time has moved.
    No,
}

impl Sleep {
    /// The same, at most so long.
    pub(crate) fn at_most(self, limit: Duration) -> Self {
        match self {
            Self::UntilMail => Self::AtMost(limit),
            Self::AtMost(length) => Self::AtMost(length.min(limit)),
            Self::No => Self::No,
        }
    }
}

/// A source of time.
pub trait Clock: Send + Sync {
    /// The time.
    fn now(&self) -> Timestamp;

    /// How long to sleep.
    fn lull(&self, lull: Lull) -> Sleep;
}

/// Now, for measuring how long something takes.
#[expect(clippy::disallowed_methods, reason = "this is the clock")]
pub(crate) fn instant() -> Instant {
    Instant::now()
}

/// The clock of the machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the clock")]
    fn now(&self) -> Timestamp {
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Timestamp(u64::try_from(since.as_micros()).unwrap_or(u64::MAX))
    }

    fn lull(&self, lull: Lull) -> Sleep {
        match lull.due {
            // The wall clock may jump, so no sleep is longer than the re-arm interval.
            Some(due) => Sleep::AtMost(due.since(self.now()).min(limits::REARM)),
            None => Sleep::UntilMail,
        }
    }
}

/// A clock that stands still until it is moved.
#[derive(Debug)]
pub struct VirtualClock {
    now: Mutex<Timestamp>,
}

impl VirtualClock {
    /// A clock that shows this time.
    pub fn new(now: Timestamp) -> Self {
        Self {
            now: Mutex::new(now),
        }
    }

    /// Moves it.
    pub fn advance(&self, by: Duration) {
        let mut now = self.lock();
        *now = now.after(by);
    }

    /// Sets it, back as well: clocks do that.
    pub fn set(&self, to: Timestamp) {
        *self.lock() = to;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Timestamp> {
        self.now
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Timestamp {
        *self.lock()
    }

    fn lull(&self, lull: Lull) -> Sleep {
        let mut now = self.lock();
        match lull.due {
            Some(due) if due <= *now => Sleep::No,
            // Nobody may ring when it is written: time must not pass before that is known.
            _ if lull.is_writing => Sleep::AtMost(LOOK),
            Some(due) if lull.attempts_out == 0 && lull.waiters > 0 => {
                *now = due;
                Sleep::No
            }
            Some(_) | None => Sleep::UntilMail,
        }
    }
}
