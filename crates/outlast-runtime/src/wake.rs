//! Wakers of a run's tasks, and the net for wakes that do not belong here.
//!
//! ```text
//!           wake, in a slice of the run
//!   Idle --------------------------------> Queued --poll--> Idle
//!     \                                      |
//!      +--------------- task ends -----------+--> Done   (wakes are ignored)
//! ```
//!
//! A wake from another thread or from outside a slice is foreign: something that is not durable
//! drives the workflow, and a replay would not see it. Inside a slice it fails the task; between
//! slices the bell asks for a task, which then fails. The flag is written before `in_slice` is
//! read, and read after `in_slice` is cleared, so that no foreign wake falls between.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Wake;

use outlast_model::RunId;

use crate::program::ForeignWake;
use crate::slab::{self, Address};
use crate::sync::{AtomicBool, AtomicU8, AtomicU32};

/// Names a task of an instance, in order of creation; main is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TaskId(pub(crate) u32);

/// What all wakers of an instance share.
pub(crate) struct Bell {
    run_id: RunId,
    foreign: ForeignWake,
    in_slice: AtomicBool,
    /// The first task a foreign wake was for, plus one; 0 while there was none.
    rung_for: AtomicU32,
    is_gone: AtomicBool,
}

impl Bell {
    pub(crate) fn new(run_id: RunId, foreign: ForeignWake) -> Self {
        Self {
            run_id,
            foreign,
            in_slice: AtomicBool::new(false),
            rung_for: AtomicU32::new(0),
            is_gone: AtomicBool::new(false),
        }
    }

    /// A slice begins.
    pub(crate) fn slice_begins(&self) {
        self.in_slice.store(true, Ordering::SeqCst);
    }

    /// A slice ends. Look at [`rung_for`](Self::rung_for) afterwards.
    pub(crate) fn slice_ends(&self) {
        self.in_slice.store(false, Ordering::SeqCst);
    }

    /// The task that something foreign woke, if that happened.
    pub(crate) fn rung_for(&self) -> Option<TaskId> {
        self.rung_for
            .load(Ordering::SeqCst)
            .checked_sub(1)
            .map(TaskId)
    }

    /// The instance is gone: its wakers have nothing to wake.
    pub(crate) fn silence(&self) {
        self.is_gone.store(true, Ordering::SeqCst);
    }

    fn ring(&self, task: TaskId) {
        let first = self.rung_for.compare_exchange(
            0,
            task.0.saturating_add(1),
            Ordering::SeqCst,
            Ordering::SeqCst,
        );
        if first.is_ok() && !self.in_slice.load(Ordering::SeqCst) {
            (self.foreign)(self.run_id);
        }
    }
}

const IDLE: u8 = 0;
const QUEUED: u8 = 1;
const DONE: u8 = 2;

/// The waker of one task.
pub(crate) struct TaskWaker {
    address: Address,
    task: TaskId,
    place: AtomicU8,
    bell: Arc<Bell>,
}

impl TaskWaker {
    /// The waker of a task that is in the ready queue.
    pub(crate) fn queued(address: Address, task: TaskId, bell: Arc<Bell>) -> Arc<Self> {
        Arc::new(Self {
            address,
            task,
            place: AtomicU8::new(QUEUED),
            bell,
        })
    }

    /// The task left the ready queue and is about to be polled.
    pub(crate) fn unqueue(&self) {
        self.place.store(IDLE, Ordering::Relaxed);
    }

    /// The task has ended.
    pub(crate) fn done(&self) {
        self.place.store(DONE, Ordering::Relaxed);
    }
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.place.load(Ordering::Relaxed) == DONE || self.bell.is_gone.load(Ordering::Relaxed) {
            return;
        }
        if !slab::is_entered(self.address) {
            self.bell.ring(self.task);
            return;
        }
        if self.place.swap(QUEUED, Ordering::Relaxed) == IDLE
            && let Some(shared) = slab::find(self.address)
        {
            shared.push_ready(self.task);
        }
    }
}

#[cfg(all(test, shuttle))]
mod interleavings;
