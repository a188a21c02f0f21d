//! The letter box of a shard: any thread puts mail in, the engine thread takes all of it at once
//! and sleeps when there is none.

use std::sync::PoisonError;
use std::time::Duration;

use outlast_model::planted::{Bug, is_planted};

use crate::clock::Sleep;
use crate::mail::Mail;
use crate::sync::{Condvar, Mutex, MutexGuard};

/// Mail for one shard.
#[derive(Debug, Default)]
pub struct Inbox {
    state: Mutex<State>,
    bell: Condvar,
}

/// How often the bell had rung when a thread last looked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heard(u64);

#[derive(Debug, Default)]
struct State {
    mail: Vec<Mail>,
    /// Waking somebody who does not sleep would cost a system call for nothing. More than one
    /// sleeps while a shard is taken over: the thread that was replaced may not know it yet.
    sleepers: usize,
    /// How often somebody wanted the engine thread to look, without mail. A count and not a
    /// flag: while a shard is taken over two threads listen, and one must not take the other's
    /// bell away.
    rung: u64,
    /// Only what this process itself has to say is taken.
    is_shut: bool,
    /// Nobody takes mail any more.
    is_closed: bool,
}

impl Inbox {
    /// Puts one piece of mail in. After the end it is dropped, which tells whoever waits for an
    /// answer.
    pub fn put(&self, mail: Mail) {
        let mut state = self.lock();
        if state.is_closed || (state.is_shut && mail.is_from_outside()) {
            drop(state);
            return drop(mail);
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
        state.rung += 1;
        self.wake(state);
    }

    /// Makes the engine thread look.
    pub fn ring(&self) {
        let mut state = self.lock();
        state.rung += 1;
        self.wake(state);
    }

    /// Takes all mail; `into` is emptied first and its space is kept for the next round.
    pub fn take(&self, into: &mut Vec<Mail>) -> Heard {
        into.clear();
        let mut state = self.lock();
        std::mem::swap(&mut state.mail, into);
        Heard(state.rung)
    }

    /// Sleeps until there is mail, the bell has rung since this thread took mail, or the time is
    /// over.
    pub fn sleep(&self, sleep: Sleep, heard: Heard) {
        let limit = match sleep {
            Sleep::No => return,
            Sleep::UntilMail => None,
            Sleep::AtMost(limit) => Some(limit),
        };
        let mut state = self.lock();
        if !state.mail.is_empty() || state.rung != heard.0 {
            return;
        }
        state.sleepers += 1;
        state = self.wait(state, limit);
        state.sleepers -= 1;
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

    /// Wakes all: the one that would be chosen may have been replaced, and takes no mail.
    fn wake(&self, state: MutexGuard<'_, State>) {
        let sleepers = state.sleepers;
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
            let replaced = scope.spawn(move || inbox.sleep(Sleep::UntilMail, heard));
            let driver = scope.spawn(move || inbox.sleep(Sleep::UntilMail, heard));
            while inbox.lock().sleepers < 2 {
                std::thread::yield_now();
            }
            inbox.put(Mail::Look);
            replaced.join().expect("wakes");
            driver.join().expect("wakes");
        });
    }
}
