//! What the dispatcher knows of a running attempt: what it is, whether it was told to stop, and
//! whether its code is being run at this moment.
//!
//! ```text
//!            +--- needs a thread ---+
//!            v                      |
//!         Waiting ----- begin ---> Begun ----------- end --> Over
//!          |   |                                              ^
//!          |   +------- enter ---> OnThread -------- end -----+
//!          +----------- forgo ---> Dropped
//! ```
//!
//! One that waits, for its turn or for a thread, is not run once it was told to stop: nothing of it
//! is there that could fail to stop. Who leaves `Waiting` first decides, code or end.
//!
//! Nothing here costs the attempt more than a few plain stores: most end before anybody looks.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

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
    /// A [`Place`].
    place: AtomicU8,
}

/// Where the code of an attempt is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Place {
    /// Nowhere yet: it waits for its turn, or for a thread.
    Waiting,
    /// Polled now and then.
    Begun,
    /// A thread is inside.
    OnThread,
    /// It has come to its end.
    Over,
    /// It ended without having begun.
    Dropped,
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
            place: AtomicU8::new(Place::Waiting as u8),
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

    /// Its turn has come; not if it was told to stop before.
    pub(crate) fn begin(&self) -> bool {
        self.stop.reason().is_none() && self.leaves_waiting(Place::Begun)
    }

    /// Its code needs a thread: until it has one, nothing of it is under way.
    pub(crate) fn needs_thread(&self) {
        self.place.store(Place::Waiting as u8, Ordering::Release);
    }

    /// Its code has a thread, which holds what this returns until it ends; not if it was told to stop
    /// before.
    pub(crate) fn enter(self: &Arc<Self>) -> Option<OnThread> {
        let enters = self.stop.reason().is_none() && self.leaves_waiting(Place::OnThread);
        enters.then(|| OnThread(self.clone()))
    }

    /// Ends it if no code of it is under way: from here on none will be.
    pub(crate) fn forgo(&self) -> bool {
        self.leaves_waiting(Place::Dropped) || self.is_at(Place::Dropped)
    }

    /// Whether no code of it is under way.
    pub(crate) fn is_outside(&self) -> bool {
        self.is_at(Place::Waiting) || self.is_at(Place::Dropped)
    }

    /// Whether a thread is still inside its code.
    pub(crate) fn is_loose(&self) -> bool {
        self.is_at(Place::OnThread)
    }

    pub(crate) fn is_over(&self) -> bool {
        self.is_at(Place::Over)
    }

    pub(crate) fn end(&self) {
        self.place.store(Place::Over as u8, Ordering::Release);
    }

    fn is_at(&self, place: Place) -> bool {
        self.place.load(Ordering::Acquire) == place as u8
    }

    fn leaves_waiting(&self, to: Place) -> bool {
        let (from, to) = (Place::Waiting as u8, to as u8);
        let (done, not) = (Ordering::AcqRel, Ordering::Acquire);
        self.place.compare_exchange(from, to, done, not).is_ok()
    }

    /// What it is an attempt of, for people.
    pub(crate) fn what(&self) -> String {
        match &self.what {
            What::Activity(name) => format!("activity {name}"),
            What::Step(name) => format!("step {name}"),
        }
    }

    /// How its code could block as it should not.
    pub(crate) fn how_to_block(&self) -> &'static str {
        match &self.what {
            What::Activity(_) => {
                "await what it waits for, or declare it as `fn` without `async`, which gets a thread \
                 of its own"
            }
            What::Step(_) => {
                "await what it waits for, or make it an activity that is a `fn` without `async`, \
                 which gets a thread of its own"
            }
        }
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
