//! Attempts that a polled backend has handed to this worker, until they end.
//!
//! The backend names an attempt in its own bytes; the worker by a token of the model. This is the
//! table between the two. The backend knows how many slots there are and hands out no more; an
//! attempt that finds none all the same waits here, and is the first to go when one is free.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use outlast_model::QueueName;
use outlast_model::task::{AttemptKind, AttemptToken, Permit, RunNo, StopReason};

use crate::dispatch::Dispatch;
use crate::handle::{BackendToken, PolledActivity, PolledAttempt};
use crate::owner::Polled;

/// Where an attempt is to be answered.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Claim {
    pub(super) generation: u64,
    pub(super) token: BackendToken,
}

/// Attempts under way.
#[derive(Default)]
pub(super) struct Claims {
    count: u64,
    by_number: BTreeMap<RunNo, Claim>,
    by_token: BTreeMap<BackendToken, AttemptToken>,
    waiting: VecDeque<PolledAttempt>,
    is_asking_again: bool,
}

/// What follows from something that arrived.
#[derive(Debug)]
pub(super) enum Arrived {
    /// An attempt stands in line for its slot.
    InLine,
    /// An attempt that runs is told to stop.
    Stop(AttemptToken, StopReason),
    /// An attempt that had not begun is over.
    NeverBegan(Claim),
    /// It is about an attempt that has ended.
    Nothing,
}

impl Claims {
    pub(super) fn arrive(&mut self, polled: Polled<PolledActivity>) -> Arrived {
        let Polled { generation, item } = polled;
        match item {
            PolledActivity::Start(token, attempt) => {
                self.claim(Claim { generation, token }, attempt);
                Arrived::InLine
            }
            PolledActivity::Cancel(token, reason) => self.cancel(&token, reason),
        }
    }

    fn claim(&mut self, claim: Claim, mut attempt: PolledAttempt) {
        self.count += 1;
        let token = token_mut(&mut attempt);
        token.run = RunNo(self.count);
        self.by_token.insert(claim.token.clone(), *token);
        self.by_number.insert(token.run, claim);
        self.waiting.push_back(attempt);
    }

    fn cancel(&mut self, token: &BackendToken, reason: StopReason) -> Arrived {
        let Some(token) = self.by_token.get(token).copied() else {
            return Arrived::Nothing;
        };
        let number = self
            .waiting
            .iter_mut()
            .position(|attempt| token_mut(attempt).run == token.run);
        let Some(number) = number else {
            return Arrived::Stop(token, reason);
        };
        self.waiting.remove(number);
        self.end(token)
            .map_or(Arrived::Nothing, Arrived::NeverBegan)
    }

    /// Those that find a slot, in their order; and when the others should ask again, unless
    /// somebody will already.
    pub(super) fn begin(
        &mut self,
        queue: &QueueName,
        mut take_slot: impl FnMut(AttemptKind) -> Permit,
    ) -> (Vec<Dispatch>, Option<Duration>) {
        let mut begun = Vec::new();
        let mut left = VecDeque::new();
        let mut again: Option<Duration> = None;
        for mut attempt in self.waiting.drain(..) {
            match take_slot(token_mut(&mut attempt).kind) {
                Permit::Taken => begun.push(started(queue, attempt)),
                // The end of another attempt asks again.
                Permit::Full => left.push_back(attempt),
                Permit::Later(pause) => {
                    again = Some(again.map_or(pause, |other| other.min(pause)));
                    left.push_back(attempt);
                }
            }
        }
        self.waiting = left;
        let again = again.filter(|_| !self.is_asking_again);
        self.is_asking_again |= again.is_some();
        (begun, again)
    }

    /// Somebody asks again now.
    pub(super) fn asks_again(&mut self) {
        self.is_asking_again = false;
    }

    pub(super) fn get(&self, token: AttemptToken) -> Option<&Claim> {
        self.by_number.get(&token.run)
    }

    /// How many are under way.
    pub(super) fn len(&self) -> usize {
        self.by_number.len()
    }

    /// The attempt has ended: where to say so. Once.
    pub(super) fn end(&mut self, token: AttemptToken) -> Option<Claim> {
        let claim = self.by_number.remove(&token.run)?;
        self.by_token.remove(&claim.token);
        Some(claim)
    }
}

fn started(queue: &QueueName, attempt: PolledAttempt) -> Dispatch {
    match attempt {
        PolledAttempt::Activity(mut task) => {
            task.queue = queue.clone();
            Dispatch::Activity(task)
        }
        PolledAttempt::Step(mut task) => {
            task.queue = queue.clone();
            Dispatch::Step(task)
        }
    }
}

/// The attempt that is to start.
pub(super) fn token_of(work: &Dispatch) -> Option<AttemptToken> {
    match work {
        Dispatch::Activity(task) => Some(task.token),
        Dispatch::Ordered(order) => Some(order.token),
        Dispatch::Step(task) => Some(task.token),
        Dispatch::Stop(..) => None,
    }
}

fn token_mut(attempt: &mut PolledAttempt) -> &mut AttemptToken {
    match attempt {
        PolledAttempt::Activity(task) => &mut task.token,
        PolledAttempt::Step(task) => &mut task.token,
    }
}
