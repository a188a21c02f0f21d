//! Slots of one task queue: the right to run one slice, attempt or step. Lent to the backend,
//! which takes one before it claims anything, so that nothing is claimed that cannot run.
//!
//! Three kinds of supply: a fixed number; as many as memory and processor allow
//! ([`ResourceSlots`]); or whatever a [`SlotSupplier`] of the user's own
//! says. A supplier that panics grants nothing for a while and is reported; it takes nobody down.

pub mod load;
pub mod resource;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use outlast_model::QueueName;
use outlast_model::task::{Permit, SlotKind};
use outlast_runtime::panic;

use crate::bus::Bus;
use crate::event::{PanicIn, Severity, WorkerEvent};
use resource::ResourceSlots;

/// When a supplier that panicked is asked again.
const AFTER_PANIC: Duration = Duration::from_secs(1);

/// Decides who may run, for one kind of slot of one task queue.
pub trait SlotSupplier: Send + Sync {
    /// Whether one more may run. Called before anything is claimed, on a thread that must not
    /// wait: it answers at once.
    fn take(&self, ask: &Ask<'_>) -> Permit;

    /// One that was taken is free again.
    fn give(&self, ask: &Ask<'_>);
}

/// Who asks for a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask<'a> {
    /// The task queue.
    pub queue: &'a QueueName,
    /// For what.
    pub kind: SlotKind,
    /// Slots of this kind that this queue uses now, without this one.
    pub used: usize,
}

/// How the slots of one kind are supplied.
#[derive(Clone)]
pub enum Supply {
    /// So many.
    Fixed(usize),
    /// As many as the machine can take.
    Resource(Arc<ResourceSlots>),
    /// As somebody else says.
    Custom(Arc<dyn SlotSupplier>),
}

impl std::fmt::Debug for Supply {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Fixed(count) => write!(f, "Fixed({count})"),
            Self::Resource(slots) => slots.fmt(f),
            Self::Custom(_) => f.write_str("Custom"),
        }
    }
}

/// The slots of one task queue.
#[derive(Debug)]
pub struct Slots {
    queue: QueueName,
    workflows: Pool,
    activities: Pool,
    steps: Pool,
    bus: Bus,
}

#[derive(Debug)]
struct Pool {
    supply: Supply,
    used: AtomicUsize,
    /// Whether it was said that there are none, since one was given back.
    is_said: AtomicBool,
}

impl Slots {
    /// Of a queue: of workflows, activities and steps.
    pub fn new(queue: QueueName, [workflows, activities, steps]: [Supply; 3], bus: Bus) -> Self {
        let pool = |supply| Pool {
            supply,
            used: AtomicUsize::new(0),
            is_said: AtomicBool::new(false),
        };
        Self {
            queue,
            workflows: pool(workflows),
            activities: pool(activities),
            steps: pool(steps),
            bus,
        }
    }

    /// Takes one, if there is one.
    pub fn take(&self, kind: SlotKind) -> Permit {
        let pool = self.of(kind);
        let permit = match pool.supply {
            Supply::Fixed(count) => pool.take_below(count),
            Supply::Resource(_) | Supply::Custom(_) => self.take_by_asking(pool, kind),
        };
        if permit != Permit::Taken && !pool.is_said.swap(true, Ordering::Relaxed) {
            let queue = self.queue.clone();
            let event = || WorkerEvent::SlotsExhausted {
                queue,
                kind: name(kind),
            };
            self.bus.emit_with(Severity::Debug, event);
        }
        permit
    }

    fn take_by_asking(&self, pool: &Pool, kind: SlotKind) -> Permit {
        let used = pool.used.fetch_add(1, Ordering::AcqRel);
        let permit = self.ask(pool, kind, used, |supplier, ask| supplier.take(ask));
        let permit = permit.unwrap_or(Permit::Later(AFTER_PANIC));
        if permit != Permit::Taken {
            pool.used.fetch_sub(1, Ordering::AcqRel);
        }
        permit
    }

    /// Gives one back.
    pub fn give(&self, kind: SlotKind) {
        let pool = self.of(kind);
        let before = pool.used.fetch_sub(1, Ordering::AcqRel);
        if pool.is_said.load(Ordering::Relaxed) {
            pool.is_said.store(false, Ordering::Relaxed);
        }
        if !matches!(pool.supply, Supply::Fixed(_)) {
            let used = before.saturating_sub(1);
            // One that panics here is asked again like any other.
            let _given: Option<()> = self.ask(pool, kind, used, |supplier, ask| supplier.give(ask));
        }
    }

    /// How many are in use.
    pub fn used(&self, kind: SlotKind) -> usize {
        self.of(kind).used.load(Ordering::Acquire)
    }

    /// How many there are at most, if that is known.
    pub fn most(&self, kind: SlotKind) -> Option<usize> {
        match &self.of(kind).supply {
            Supply::Fixed(count) => Some(*count),
            Supply::Resource(slots) => Some(slots.limits().most),
            Supply::Custom(_) => None,
        }
    }

    /// Asks whoever supplies this pool; nothing if it panics.
    fn ask<T>(
        &self,
        pool: &Pool,
        kind: SlotKind,
        used: usize,
        question: impl FnOnce(&dyn SlotSupplier, &Ask<'_>) -> T,
    ) -> Option<T> {
        let queue = &self.queue;
        let ask = Ask { queue, kind, used };
        let supplier: &dyn SlotSupplier = match &pool.supply {
            Supply::Fixed(_) => return None,
            Supply::Resource(slots) => &**slots,
            Supply::Custom(supplier) => &**supplier,
        };
        let answer = catch_unwind(AssertUnwindSafe(|| question(supplier, &ask)));
        let told = answer.map_err(|payload| {
            self.bus.emit(WorkerEvent::PanicCaught {
                place: PanicIn::Callback("a slot supplier"),
                message: panic::text(payload),
            });
        });
        told.ok()
    }

    fn of(&self, kind: SlotKind) -> &Pool {
        match kind {
            SlotKind::Workflow => &self.workflows,
            SlotKind::Activity => &self.activities,
            SlotKind::Step => &self.steps,
        }
    }
}

impl Pool {
    fn take_below(&self, count: usize) -> Permit {
        let one_more = |used: usize| (used < count).then_some(used + 1);
        match self
            .used
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, one_more)
        {
            Ok(_) => Permit::Taken,
            Err(_) => Permit::Full,
        }
    }
}

fn name(kind: SlotKind) -> &'static str {
    match kind {
        SlotKind::Workflow => "slice",
        SlotKind::Activity => "activity",
        SlotKind::Step => "step",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slots(activities: Supply) -> Slots {
        let supplies = [Supply::Fixed(1), activities, Supply::Fixed(0)];
        Slots::new("q".into(), supplies, Bus::default())
    }

    #[test]
    fn a_slot_is_taken_once() {
        let slots = slots(Supply::Fixed(1));
        assert_eq!(slots.take(SlotKind::Activity), Permit::Taken);
        assert_eq!(slots.take(SlotKind::Activity), Permit::Full);
        assert_eq!(slots.take(SlotKind::Step), Permit::Full);
        assert_eq!(slots.take(SlotKind::Workflow), Permit::Taken);
        slots.give(SlotKind::Activity);
        assert_eq!(slots.used(SlotKind::Activity), 0);
        assert_eq!(slots.take(SlotKind::Activity), Permit::Taken);
    }

    /// Grants while fewer than two are in use, and hears who gives one back.
    struct Two(AtomicUsize);

    impl SlotSupplier for Two {
        fn take(&self, ask: &Ask<'_>) -> Permit {
            assert_eq!((ask.queue.as_str(), ask.kind), ("q", SlotKind::Activity));
            if ask.used < 2 {
                Permit::Taken
            } else {
                Permit::Full
            }
        }

        fn give(&self, ask: &Ask<'_>) {
            self.0.store(ask.used, Ordering::SeqCst);
        }
    }

    #[test]
    fn a_supplier_of_ones_own_decides() {
        let own = Arc::new(Two(AtomicUsize::new(99)));
        let slots = slots(Supply::Custom(own.clone()));
        let all: Vec<Permit> = (0..3).map(|_| slots.take(SlotKind::Activity)).collect();
        assert_eq!(all, [Permit::Taken, Permit::Taken, Permit::Full]);
        slots.give(SlotKind::Activity);
        assert_eq!(own.0.load(Ordering::SeqCst), 1);
        assert_eq!(slots.take(SlotKind::Activity), Permit::Taken);
    }

    struct Broken;

    impl SlotSupplier for Broken {
        fn take(&self, _: &Ask<'_>) -> Permit {
            panic!("no idea")
        }

        fn give(&self, _: &Ask<'_>) {
            panic!("no idea either")
        }
    }

    #[test]
    fn a_supplier_that_panics_grants_nothing_and_leaks_nothing() {
        let slots = slots(Supply::Custom(Arc::new(Broken)));
        let mut events = slots.bus.subscribe(Severity::Warning);
        for _ in 0..3 {
            assert_eq!(slots.take(SlotKind::Activity), Permit::Later(AFTER_PANIC));
        }
        let text = events.take().map(|event| event.to_string());
        assert!(
            text.is_some_and(|text| text.contains("slot supplier") && text.contains("no idea"))
        );
        assert_eq!(slots.used(SlotKind::Activity), 0);
        assert_eq!(slots.take(SlotKind::Workflow), Permit::Taken);
    }
}
