//! A task queue as a worker serves it: its code, its settings, its slots. Each is on its own: one
//! that is full, or whose supplier of slots fails, leaves the others alone.

use std::collections::BTreeMap;
use std::sync::Arc;

use outlast_model::QueueName;
use outlast_model::task::{Permit, SlotKind};

use crate::bus::Bus;
use crate::registry::Registry;
use crate::settings::{Settings, SlotPolicy};
use crate::slots::load::{Machine, Probe};
use crate::slots::resource::{ResourceLimits, ResourceSlots};
use crate::slots::{SlotSupplier, Slots, Supply};

/// What is to be served on one task queue.
#[derive(Clone, Default)]
pub struct QueueSpec {
    /// Its code.
    pub registry: Registry,
    /// Its settings.
    pub settings: Settings,
    /// Suppliers of slots that take the place of its settings, by kind.
    pub suppliers: BTreeMap<SlotKind, Arc<dyn SlotSupplier>>,
}

impl std::fmt::Debug for QueueSpec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("QueueSpec")
            .field("registry", &self.registry)
            .finish_non_exhaustive()
    }
}

/// A task queue that is served.
#[derive(Debug)]
pub struct Queue {
    /// Its name.
    pub name: QueueName,
    /// Its code.
    pub registry: Registry,
    /// Its settings.
    pub settings: Settings,
    /// Its slots.
    pub slots: Slots,
}

impl Queue {
    fn new(name: QueueName, spec: QueueSpec, probe: &Arc<dyn Probe>, bus: Bus) -> Self {
        let supply = |kind| match spec.suppliers.get(&kind) {
            Some(supplier) => Supply::Custom(supplier.clone()),
            None => supply(&spec.settings, kind, probe),
        };
        let supplies = [SlotKind::Workflow, SlotKind::Activity, SlotKind::Step].map(supply);
        let slots = Slots::new(name.clone(), supplies, bus);
        Self {
            name,
            registry: spec.registry,
            settings: spec.settings,
            slots,
        }
    }

    /// Whether more slices than it has slots for could run on so many threads.
    pub fn limits_slices(&self, threads: usize) -> bool {
        let most = self.slots.most(SlotKind::Workflow);
        let is_fixed = self.settings.slots == SlotPolicy::Fixed;
        !is_fixed || most.is_none_or(|most| most < threads)
    }
}

/// What the settings say about one kind of slot.
fn supply(settings: &Settings, kind: SlotKind, probe: &Arc<dyn Probe>) -> Supply {
    let most = match kind {
        SlotKind::Workflow => settings.workflow_slots,
        SlotKind::Activity => settings.activity_slots,
        SlotKind::Step => settings.step_slots,
    };
    match settings.slots {
        SlotPolicy::Fixed => Supply::Fixed(most),
        SlotPolicy::Resource => {
            let limits = ResourceLimits {
                least: settings.slots_least.min(most),
                most,
                memory: settings.slots_memory,
                processor: settings.slots_processor,
                ramp: settings.slots_ramp,
            };
            Supply::Resource(Arc::new(ResourceSlots::new(limits, probe.clone())))
        }
    }
}

/// The task queues of one worker.
#[derive(Debug, Default)]
pub struct Queues {
    by_name: BTreeMap<QueueName, Arc<Queue>>,
}

impl Queues {
    /// All that is to be served; what somebody should know goes to the bus.
    pub fn new(specs: BTreeMap<QueueName, QueueSpec>, bus: &Bus) -> Self {
        let probe: Arc<dyn Probe> = Arc::new(Machine::default());
        let queues = specs.into_iter().map(|(name, spec)| {
            let queue = Arc::new(Queue::new(name.clone(), spec, &probe, bus.clone()));
            (name, queue)
        });
        Self {
            by_name: queues.collect(),
        }
    }

    /// One queue with this code and these settings.
    pub fn single(name: QueueName, registry: Registry, settings: Settings) -> Self {
        let spec = QueueSpec {
            registry,
            settings,
            ..QueueSpec::default()
        };
        Self::new(BTreeMap::from([(name, spec)]), &Bus::default())
    }

    /// The queue of this name.
    pub fn get(&self, name: &QueueName) -> Option<&Arc<Queue>> {
        self.by_name.get(name)
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Queue>> {
        self.by_name.values()
    }

    /// Takes a slot of a queue; one that nobody serves has none.
    pub fn take_slot(&self, name: &QueueName, kind: SlotKind) -> Permit {
        self.get(name)
            .map_or(Permit::Full, |queue| queue.slots.take(kind))
    }

    /// Gives a slot back.
    pub fn return_slot(&self, name: &QueueName, kind: SlotKind) {
        if let Some(queue) = self.get(name) {
            queue.slots.give(kind);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(change: impl FnOnce(&mut Settings)) -> QueueSpec {
        let mut spec = QueueSpec::default();
        change(&mut spec.settings);
        spec
    }

    #[test]
    fn a_full_queue_leaves_the_others_their_slots() {
        let queues = Queues::new(
            BTreeMap::from([
                ("small".into(), with(|s| s.activity_slots = 1)),
                ("large".into(), with(|s| s.activity_slots = 3)),
            ]),
            &Bus::default(),
        );
        let take = |name: &str| queues.take_slot(&name.into(), SlotKind::Activity);
        assert_eq!(
            [take("small"), take("small")],
            [Permit::Taken, Permit::Full]
        );
        assert_eq!(
            [take("large"), take("large")],
            [Permit::Taken, Permit::Taken]
        );
        queues.return_slot(&"small".into(), SlotKind::Activity);
        assert_eq!(take("small"), Permit::Taken);
        assert_eq!(take("elsewhere"), Permit::Full);
    }

    #[test]
    fn slices_are_counted_only_where_threads_could_outnumber_slots() {
        let queues = Queues::new(
            BTreeMap::from([
                ("usual".into(), QueueSpec::default()),
                ("narrow".into(), with(|s| s.workflow_slots = 2)),
                ("by-load".into(), with(|s| s.slots = SlotPolicy::Resource)),
            ]),
            &Bus::default(),
        );
        let limits = |name: &str, threads| {
            let queue = queues.get(&name.into()).expect("it is served");
            queue.limits_slices(threads)
        };
        assert!(!limits("usual", 8));
        assert!(!limits("narrow", 2));
        assert!(limits("narrow", 3));
        assert!(limits("by-load", 1));
    }
}
