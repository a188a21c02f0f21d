//! What the dispatcher knows of a running attempt: what it is, whether it was told to stop, and
//! whether its code is being run at this moment.
//!
//! Nothing here costs the attempt more than a few plain stores: most end before anybody looks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use outlast_model::task::{ActivityTask, AttemptToken};
use outlast_model::{ActivityType, RunId, StepName};

use crate::chunk::Work;
use crate::event::AttemptIn;
use crate::queue::{Queue, Queues};
use crate::stop::Stop;

/// A running attempt, seen from outside.
#[derive(Debug)]
pub(crate) struct Life {
    pub(crate) stop: Stop,
    run_id: RunId,
    what: What,
    /// Whose slot it holds.
    queue: Option<Arc<Queue>>,
    /// Odd while its code is being polled. Written by whoever polls, one at a time.
    polls: AtomicU32,
    is_on_thread: AtomicBool,
    is_over: AtomicBool,
}

#[derive(Debug)]
enum What {
    Activity(ActivityType),
    Step(StepName),
}

impl Life {
    /// Of an attempt that is about to begin.
    pub(crate) fn new(work: &Work, queues: &Queues) -> Self {
        let queue = queues.get(work.queue()).cloned();
        match work {
            Work::Activity(task) => Self::of_activity(task, queue),
            Work::Ordered(order) => {
                let what = What::Activity(order.activity.activity_type.clone());
                Self::of(order.run.run_id, what, queue)
            }
            Work::Step(task) => Self::of(task.run_id, What::Step(task.name.clone()), queue),
        }
    }

    /// Of an activity, on a slot of this queue.
    pub(crate) fn of_activity(task: &ActivityTask, queue: Option<Arc<Queue>>) -> Self {
        Self::of(
            task.run_id,
            What::Activity(task.activity_type.clone()),
            queue,
        )
    }

    fn of(run_id: RunId, what: What, queue: Option<Arc<Queue>>) -> Self {
        Self {
            stop: Stop::default(),
            run_id,
            what,
            queue,
            polls: AtomicU32::new(0),
            is_on_thread: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
        }
    }

    /// Its slot is free. Once, by whoever took it out of the running ones.
    pub(crate) fn give_slot(&self, token: AttemptToken) {
        if let Some(queue) = &self.queue {
            queue.slots.give(token.kind.into());
        }
    }

    /// Runs a piece of its code, which must not unwind.
    pub(crate) fn polled<T>(&self, code: impl FnOnce() -> T) -> T {
        self.count();
        let value = code();
        self.count();
        value
    }

    fn count(&self) {
        // One writer at a time: no need for a read-modify-write.
        let polls = self.polls.load(Ordering::Relaxed);
        self.polls.store(polls.wrapping_add(1), Ordering::Relaxed);
    }

    /// Whether its code is being polled, so that nobody can drop it.
    pub(crate) fn is_polled(&self) -> bool {
        self.polls.load(Ordering::Relaxed) % 2 == 1
    }

    /// Its code gets a thread of its own, which holds what this returns until it ends.
    pub(crate) fn on_thread(self: &Arc<Self>) -> OnThread {
        self.is_on_thread.store(true, Ordering::Relaxed);
        OnThread(self.clone())
    }

    /// Whether a thread is still inside its code.
    pub(crate) fn is_loose(&self) -> bool {
        self.is_on_thread.load(Ordering::Relaxed) && !self.is_over()
    }

    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    pub(crate) fn end(&self) {
        self.is_over.store(true, Ordering::Release);
    }

    /// Which attempt it is, for people.
    pub(crate) fn name(&self, token: AttemptToken) -> AttemptIn {
        let name = match &self.what {
            What::Activity(name) => name.as_str(),
            What::Step(name) => name.as_str(),
        };
        AttemptIn {
            run_id: self.run_id,
            kind: token.kind,
            name: name.to_owned(),
            seq: token.seq,
            attempt: token.attempt,
        }
    }
}

/// Held by the thread of a blocking attempt: dropped, whichever way the code ends.
pub(crate) struct OnThread(Arc<Life>);

impl Drop for OnThread {
    fn drop(&mut self) {
        self.0.end();
    }
}
