//! Attempts that one task of the runtime begins, one after the other. What has ended and what has
//! not begun is kept where others find it: neither must wait behind an attempt whose code does not
//! come back, and whoever waits to begin may be told not to.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use outlast_model::QueueName;
use outlast_model::task::{
    ActivityOrder, ActivityTask, AttemptOutcome, AttemptResult, AttemptToken, StepTask,
};

use crate::event::AttemptIn;
use crate::life::Life;

/// A task that has been at it for so long is held up by one of its attempts.
const HELD: Duration = Duration::from_millis(10);

/// An attempt that is about to begin.
pub(crate) struct Start {
    pub(crate) work: Work,
    /// What is known of it from the moment it begins, or is told something before that.
    pub(crate) life: Option<Arc<Life>>,
}

/// What an attempt runs.
pub(crate) enum Work {
    Activity(Box<ActivityTask>),
    Ordered(ActivityOrder),
    Step(StepTask),
}

impl Start {
    pub(crate) fn new(work: Work) -> Self {
        Self { work, life: None }
    }

    pub(crate) fn token(&self) -> AttemptToken {
        self.work.token()
    }

    pub(crate) fn name(&self) -> AttemptIn {
        match &self.work {
            Work::Activity(task) => AttemptIn::from(&**task),
            Work::Ordered(order) => AttemptIn::from(&order.task()),
            Work::Step(task) => AttemptIn::from(task),
        }
    }

    pub(crate) fn handed_back(&self) -> AttemptOutcome {
        let (token, result) = (self.token(), AttemptResult::HandedBack);
        AttemptOutcome { token, result }
    }
}

impl Work {
    pub(crate) fn token(&self) -> AttemptToken {
        match self {
            Self::Activity(task) => task.token,
            Self::Ordered(order) => order.token,
            Self::Step(task) => task.token,
        }
    }

    /// Whose code it is, and whose slot it holds.
    pub(crate) fn queue(&self) -> &QueueName {
        match self {
            Self::Activity(task) => &task.queue,
            Self::Ordered(order) => &order.activity.queue,
            Self::Step(task) => &task.queue,
        }
    }
}

/// Attempts of one task of the runtime.
pub(crate) struct Chunk(Mutex<State>);

struct State {
    begun: Option<Instant>,
    ended: Vec<AttemptOutcome>,
    waiting: VecDeque<Start>,
}

impl Chunk {
    pub(crate) fn new(starts: Vec<Start>) -> Self {
        Self(Mutex::new(State {
            begun: None,
            ended: Vec::with_capacity(starts.len()),
            waiting: starts.into(),
        }))
    }

    /// Its task has come to it.
    pub(crate) fn begin(&self, now: Instant) {
        self.lock().begun = Some(now);
    }

    /// All that have not begun.
    pub(crate) fn for_each_waiting(&self, tell: impl FnMut(&mut Start)) {
        self.lock().waiting.iter_mut().for_each(tell);
    }

    /// Keeps what has ended, gives what begins next.
    pub(crate) fn next(&self, ended: Option<AttemptOutcome>) -> Option<Start> {
        let mut state = self.lock();
        state.ended.extend(ended);
        state.waiting.pop_front()
    }

    /// Takes all there is: what has ended, and what has not begun.
    pub(crate) fn take(&self) -> (Vec<AttemptOutcome>, Vec<Start>) {
        let mut state = self.lock();
        let ended = std::mem::take(&mut state.ended);
        (ended, std::mem::take(&mut state.waiting).into())
    }

    /// Whether one of its attempts holds it up.
    pub(crate) fn is_held(&self, now: Instant) -> bool {
        let begun = self.lock().begun;
        begun.is_some_and(|begun| now.saturating_duration_since(begun) > HELD)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
