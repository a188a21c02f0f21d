//! Slots: the right to run one attempt or step. Lent to the backend, which takes one before it
//! records that an attempt is handed out.

use std::sync::atomic::{AtomicUsize, Ordering};

use outlast_model::task::AttemptKind;

/// Free slots by kind.
#[derive(Debug)]
pub struct Slots {
    activities: AtomicUsize,
    steps: AtomicUsize,
}

impl Slots {
    /// So many of each.
    pub fn new(activities: usize, steps: usize) -> Self {
        Self {
            activities: AtomicUsize::new(activities),
            steps: AtomicUsize::new(steps),
        }
    }

    /// Takes one, if there is one.
    pub fn take(&self, kind: AttemptKind) -> bool {
        let take = |free: usize| free.checked_sub(1);
        self.of(kind)
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, take)
            .is_ok()
    }

    /// Gives one back.
    pub fn give(&self, kind: AttemptKind) {
        self.of(kind).fetch_add(1, Ordering::AcqRel);
    }

    /// How many are free.
    pub fn free(&self, kind: AttemptKind) -> usize {
        self.of(kind).load(Ordering::Acquire)
    }

    fn of(&self, kind: AttemptKind) -> &AtomicUsize {
        match kind {
            AttemptKind::Activity => &self.activities,
            AttemptKind::Step => &self.steps,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_taken_once() {
        let slots = Slots::new(1, 0);
        assert!(slots.take(AttemptKind::Activity));
        assert!(!slots.take(AttemptKind::Activity));
        assert!(!slots.take(AttemptKind::Step));
        slots.give(AttemptKind::Activity);
        assert!(slots.take(AttemptKind::Activity));
    }
}
