//! The instances of one engine thread, of all task queues: each queue has its share of runs and
//! of history bytes, and who was used longest ago leaves first. Evicting one loses nothing.

use std::collections::{BTreeMap, HashMap};

use outlast_model::{QueueName, RunId};
use outlast_runtime::Instance;

use crate::bus::Bus;
use crate::event::{EvictCause, Severity, WorkerEvent};
use crate::queue::Queues;

/// Bytes that one event of an instance's history is counted as.
const EVENT_BYTES: u64 = 160;

/// The instances of one engine thread.
pub(crate) struct Cache {
    runs: HashMap<RunId, Cached>,
    /// By queue: what it may keep and what it keeps, least recently used first.
    shares: BTreeMap<QueueName, Share>,
    uses: u64,
    bus: Bus,
}

struct Cached {
    instance: Instance,
    queue: QueueName,
    used: u64,
    bytes: u64,
}

#[derive(Clone, Default)]
struct Share {
    most_runs: usize,
    most_bytes: u64,
    bytes: u64,
    by_use: BTreeMap<u64, RunId>,
}

impl Share {
    fn is_over(&self) -> Option<EvictCause> {
        if self.by_use.len() > self.most_runs {
            Some(EvictCause::Runs)
        } else if self.bytes > self.most_bytes {
            Some(EvictCause::Bytes)
        } else {
            None
        }
    }
}

impl Cache {
    /// For one of so many engine threads.
    pub(crate) fn new(queues: &Queues, threads: usize, bus: Bus) -> Self {
        let threads = threads.max(1);
        let shares = queues.iter().map(|queue| {
            let share = Share {
                most_runs: queue.settings.cached_runs.div_ceil(threads),
                most_bytes: queue.settings.cached_bytes.div_ceil(threads as u64),
                ..Share::default()
            };
            (queue.name.clone(), share)
        });
        Self {
            runs: HashMap::new(),
            shares: shares.collect(),
            uses: 0,
            bus,
        }
    }

    /// An empty one with the same limits.
    pub(crate) fn spare(&self) -> Self {
        let shares = self.shares.iter().map(|(queue, share)| {
            let share = Share {
                most_runs: share.most_runs,
                most_bytes: share.most_bytes,
                ..Share::default()
            };
            (queue.clone(), share)
        });
        Self {
            runs: HashMap::new(),
            shares: shares.collect(),
            uses: 0,
            bus: self.bus.clone(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.runs.len()
    }

    pub(crate) fn take(&mut self, run_id: RunId) -> Option<Instance> {
        self.remove(run_id).map(|cached| cached.instance)
    }

    /// Keeps an instance; says who had to leave for it.
    pub(crate) fn put(
        &mut self,
        (run_id, queue): (RunId, &QueueName),
        instance: Instance,
        events: u64,
    ) -> Vec<RunId> {
        self.uses += 1;
        let bytes = events * EVENT_BYTES;
        let Some(share) = self.shares.get_mut(queue) else {
            return vec![run_id];
        };
        share.bytes += bytes;
        share.by_use.insert(self.uses, run_id);
        let cached = Cached {
            instance,
            queue: queue.clone(),
            used: self.uses,
            bytes,
        };
        self.runs.insert(run_id, cached);
        let mut evicted = Vec::new();
        while let Some((oldest, cause)) = self.surplus(queue) {
            self.evict(oldest, cause);
            evicted.push(oldest);
        }
        evicted
    }

    /// An instance leaves memory, if it is there.
    pub(crate) fn evict(&mut self, run_id: RunId, cause: EvictCause) {
        if let Some(cached) = self.remove(run_id) {
            drop(cached.instance);
            self.tell(run_id, cached.queue, cause);
        }
    }

    /// An instance was not put back.
    pub(crate) fn gone(&self, run_id: RunId, queue: &QueueName, cause: EvictCause) {
        self.tell(run_id, queue.clone(), cause);
    }

    fn tell(&self, run_id: RunId, queue: QueueName, cause: EvictCause) {
        let event = || WorkerEvent::Evicted {
            run_id,
            queue,
            cause,
        };
        self.bus.meter().evicted(cause);
        self.bus.emit_with(Severity::Debug, event);
    }

    fn surplus(&self, queue: &QueueName) -> Option<(RunId, EvictCause)> {
        let share = self.shares.get(queue)?;
        let cause = share.is_over()?;
        let (_, oldest) = share.by_use.first_key_value()?;
        Some((*oldest, cause))
    }

    fn remove(&mut self, run_id: RunId) -> Option<Cached> {
        let cached = self.runs.remove(&run_id)?;
        if let Some(share) = self.shares.get_mut(&cached.queue) {
            share.by_use.remove(&cached.used);
            share.bytes -= cached.bytes;
        }
        Some(cached)
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        let mut all: Vec<(RunId, QueueName)> = self
            .runs
            .drain()
            .map(|(run_id, cached)| (run_id, cached.queue))
            .collect();
        all.sort();
        for (run_id, queue) in all {
            self.tell(run_id, queue, EvictCause::Thread);
        }
    }
}
