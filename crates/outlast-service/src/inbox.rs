//! The letter box of a shard: any thread puts mail in, the engine thread takes all of it at once
//! and sleeps when there is none.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use outlast_model::planted::{Bug, is_planted};

use crate::clock::{self, Sleep};
use crate::mail::Mail;
use crate::sync::{AtomicU64, Condvar, Mutex, MutexGuard};
use crate::vigil::{Expects, Vigil};

/// Mail for one shard.
#[derive(Debug, Default)]
pub struct Inbox {
    state: Mutex<State>,
    bell: Condvar,
    /// How often mail was put in or somebody wanted the engine thread to look. Changed under the
    /// lock; without it, it is a hint to whoever watches. A count and not a flag: while a shard is
    /// taken over two threads listen, and one must not take the other's bell away.
    rung: AtomicU64,
}

/// How often the bell had rung when a thread last took mail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heard(pub(crate) u64);

#[derive(Debug, Default)]
struct State {
    mail: Vec<Mail>,
    /// Waking somebody who does not sleep would cost a system call for nothing. More than one
    /// sleeps while a shard is taken over: the thread that was replaced may not know it yet.
    sleepers: usize,
    vigil: Vigil,
    /// Only what this process itself has to say is taken.
    is_shut: bool,
    /// Nobody takes mail any more.
    is_closed: bool,
}

impl Inbox {
    /// Puts one piece of mail in. After the end it is turned away.
    pub fn put(&self, mail: Mail) {
        let mut state = self.lock();
        if state.is_closed || (state.is_shut && mail.is_from_outside()) {
            drop(state);
            return mail.turn_away();
        }
        if is_planted(Bug::WakeBeforePut) {
            self.wake(state);
            state = self.lock();
            state.mail.push(mail);
            return;
        }
        state.mail.push(mail);
        self.wake(state);
    }

    /// Mail that nobody has taken.
    pub fn len(&self) -> usize {
        self.lock().mail.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Nobody takes mail any more; what is there is dropped.
    pub fn close(&self) {
        let mut state = self.lock();
        state.is_closed = true;
        let mail = std::mem::take(&mut state.mail);
        drop(state);
        drop(mail);
    }

    /// Takes no more mail from outside; what is there, and what attempts say, is still taken.
    pub fn shut(&self) {
        let mut state = self.lock();
        state.is_shut = true;
        self.wake(state);
    }

    /// Makes the engine thread look.
    pub fn ring(&self) {
        self.wake(self.lock());
    }

    /// Takes all mail; `into` is emptied first and its space is kept for the next round.
    pub fn take(&self, into: &mut Vec<Mail>) -> Heard {
        into.clear();
        let mut state = self.lock();
        std::mem::swap(&mut state.mail, into);
        Heard(self.rung.load(Ordering::Relaxed))
    }

    /// Waits until the bell has rung since this thread took mail, or the time is over: watches for
    /// a moment if that has paid of late, then sleeps.
    pub fn sleep(&self, sleep: Sleep, heard: Heard, expects: Expects) {
        let limit = match sleep {
            Sleep::No => return,
            Sleep::UntilMail => None,
            Sleep::AtMost(limit) => Some(limit),
        };
        let mut state = self.lock();
        if self.has_rung_since(heard) {
            return;
        }
        let begun = clock::instant();
        if let Some(length) = state.vigil.length(expects, limit) {
            drop(state);
            self.watch(heard, begun, length);
            state = self.lock();
        }
        if !self.has_rung_since(heard) {
            state.sleepers += 1;
            let rest = limit.map(|limit| limit.saturating_sub(begun.elapsed()));
            state = self.wait(state, rest);
            state.sleepers -= 1;
        }
        state.vigil.waited(expects, begun.elapsed());
    }

    /// Watches for a moment whether the bell rings; does not sleep. On one core that would keep
    /// whoever rings from it.
    pub fn linger(&self, heard: Heard, length: Duration) {
        if !self.lock().vigil.is_alone() {
            self.watch(heard, clock::instant(), length);
        }
    }

    /// A hint, without the lock.
    pub fn has_rung_since(&self, heard: Heard) -> bool {
        self.rung.load(Ordering::Relaxed) != heard.0
    }

    /// Looks until the bell has rung, awake. What it sees is a hint: the lock has the truth.
    fn watch(&self, heard: Heard, begun: Instant, length: Duration) {
        while !self.has_rung_since(heard) && begun.elapsed() < length {
            std::hint::spin_loop();
        }
    }

    fn wait<'a>(
        &self,
        state: MutexGuard<'a, State>,
        limit: Option<Duration>,
    ) -> MutexGuard<'a, State> {
        match limit {
            None => self
                .bell
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner),
            Some(limit) => {
                let waited = self.bell.wait_timeout(state, limit);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
        }
    }

    /// Rings, and wakes all: the one that would be chosen may have been replaced, and takes no mail.
    fn wake(&self, state: MutexGuard<'_, State>) {
        let sleepers = state.sleepers;
        self.rung.fetch_add(1, Ordering::Relaxed);
        drop(state);
        if sleepers > 0 {
            self.bell.notify_all();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mail_wakes_whoever_sleeps_also_while_a_shard_is_taken_over() {
        let inbox = &Inbox::default();
        std::thread::scope(|scope| {
            let heard = inbox.take(&mut Vec::new());
            let replaced =
                scope.spawn(move || inbox.sleep(Sleep::UntilMail, heard, Expects::Calls));
            let driver = scope.spawn(move || inbox.sleep(Sleep::UntilMail, heard, Expects::Calls));
            while inbox.lock().sleepers < 2 {
                std::thread::yield_now();
            }
            inbox.put(Mail::Look);
            replaced.join().expect("wakes");
            driver.join().expect("wakes");
        });
    }

    #[test]
    fn mail_ends_a_watch() {
        let inbox = &Inbox::default();
        std::thread::scope(|scope| {
            let heard = inbox.take(&mut Vec::new());
            let begun = clock::instant();
            let watcher = scope.spawn(move || inbox.watch(heard, begun, Duration::MAX));
            inbox.put(Mail::Look);
            watcher.join().expect("sees it");
        });
    }
}
