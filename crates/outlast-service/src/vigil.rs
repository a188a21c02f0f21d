//! Whether a thread with nothing to do watches its letter box for a moment before it sleeps.
//!
//! To wake a sleeper costs whoever brings the mail a system call, and the sleeper 20 to 40 us on a
//! small virtual machine: more than all our code for a step. Where the last waits were short the
//! next one is likely to be short too, and then watching is quicker and costs less CPU than falling
//! asleep and being woken. A wait that outlasts the watch ends the habit, so a process that has
//! little to do sleeps.
//!
//! ```text
//! Sleeps --ENOUGH short waits--> Watches --one long wait--> Sleeps
//! ```
//!
//! Only outcomes of attempts are watched for. Callers are many threads, which need the core that a
//! watch would take; on one core nobody watches at all, for the same reason.

use std::time::Duration;

/// A watch is no longer than this. A quick attempt is back after 50 us, the first of many after 100;
/// where threads are slow to wake, after twice that.
const WATCH: Duration = Duration::from_micros(250);

/// Short waits, one after the other, that make a habit.
const ENOUGH: u8 = 2;

/// Whose mail a thread with nothing to do can expect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expects {
    /// That of attempts it has handed out.
    Outcomes,
    /// That of whoever comes.
    Calls,
}

/// The habit of one letter box.
#[derive(Debug)]
pub(crate) struct Vigil {
    is_alone: bool,
    short: u8,
}

impl Default for Vigil {
    fn default() -> Self {
        let cores = std::thread::available_parallelism();
        // What tries interleavings has a time of its own, in which no watch would end.
        Self::new(cfg!(shuttle) || cores.is_ok_and(|cores| cores.get() < 2))
    }
}

impl Vigil {
    fn new(is_alone: bool) -> Self {
        Self { is_alone, short: 0 }
    }

    /// Whether there is one core, which a watch would take from others.
    pub(crate) fn is_alone(&self) -> bool {
        self.is_alone
    }

    /// How long to watch before a wait that may take until `limit`, if at all.
    pub(crate) fn length(&self, expects: Expects, limit: Option<Duration>) -> Option<Duration> {
        let is_habit = match expects {
            Expects::Outcomes => self.short >= ENOUGH && !self.is_alone,
            Expects::Calls => false,
        };
        is_habit.then(|| limit.map_or(WATCH, |limit| limit.min(WATCH)))
    }

    /// So long a wait took, watching and sleeping together.
    pub(crate) fn waited(&mut self, expects: Expects, time: Duration) {
        match (expects, time < WATCH) {
            (Expects::Outcomes, true) => self.short = ENOUGH.min(self.short + 1),
            (Expects::Outcomes, false) => self.short = 0,
            (Expects::Calls, true | false) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Expects::{Calls, Outcomes};

    const SHORT: Duration = Duration::from_micros(30);
    const LONG: Duration = Duration::from_millis(1);

    #[test]
    fn short_waits_make_a_habit_and_a_long_one_ends_it() {
        let mut vigil = Vigil::new(false);
        let table = [
            (SHORT, false),
            (SHORT, true),
            (SHORT, true),
            (LONG, false),
            (SHORT, false),
            (LONG, false),
            (SHORT, false),
            (SHORT, true),
        ];
        for (at, (time, watches)) in table.into_iter().enumerate() {
            vigil.waited(Outcomes, time);
            assert_eq!(vigil.length(Outcomes, None).is_some(), watches, "row {at}");
            assert_eq!(vigil.length(Calls, None), None, "row {at}");
        }
    }

    #[test]
    fn callers_are_not_watched_for() {
        let mut vigil = Vigil::new(false);
        (0..3).for_each(|_| vigil.waited(Calls, SHORT));
        assert_eq!(vigil.length(Calls, None), None);
        vigil.waited(Outcomes, SHORT);
        vigil.waited(Outcomes, SHORT);
        vigil.waited(Calls, LONG);
        assert_eq!(vigil.length(Outcomes, None), Some(WATCH), "the habit stays");
    }

    #[test]
    fn a_watch_ends_when_something_is_due() {
        let mut vigil = Vigil::new(false);
        vigil.waited(Outcomes, SHORT);
        vigil.waited(Outcomes, SHORT);
        assert_eq!(vigil.length(Outcomes, Some(SHORT)), Some(SHORT));
        assert_eq!(vigil.length(Outcomes, Some(LONG)), Some(WATCH));
    }

    #[test]
    fn on_one_core_nobody_watches() {
        let mut vigil = Vigil::new(true);
        (0..3).for_each(|_| vigil.waited(Outcomes, SHORT));
        assert_eq!(vigil.length(Outcomes, None), None);
    }
}
