//! The instances of one engine thread, of all task queues: each queue has its share of runs and
//! of history bytes, and who was used longest ago leaves first. Evicting one loses nothing, but runs
//! destructors of the user: what leaves is handed out, for whoever drops it under watch.

use std::collections::{BTreeMap, HashMap};

use outlast_model::{QueueName, RunId};
use outlast_runtime::{Instance, SliceWatch, Unwatched};

use crate::bus::Bus;
use crate::event::{EvictCause, RunIn, Severity, WorkerEvent};
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
    run: RunIn,
    queue: QueueName,
    used: u64,
    bytes: u64,
}

/// An instance that leaves memory. Its destructors are code of the user.
pub(crate) struct Leaving {
    pub(crate) run: RunIn,
    instance: Instance,
    queue: QueueName,
    cause: EvictCause,
    bus: Bus,
}

impl Leaving {
    /// Drops it.
    pub(crate) fn drop_watched(self, watch: &dyn SliceWatch) {
        self.instance.evict_watched(watch);
        tell(&self.bus, self.run.run_id, self.queue, self.cause);
    }
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
        (run, queue): (RunIn, &QueueName),
        instance: Instance,
        events: u64,
    ) -> Vec<Leaving> {
        self.uses += 1;
        let (bytes, run_id) = (events * EVENT_BYTES, run.run_id);
        let Some(share) = self.shares.get_mut(queue) else {
            let (queue, cause) = (queue.clone(), EvictCause::Runs);
            return vec![self.leaving(run, instance, queue, cause)];
        };
        share.bytes += bytes;
        share.by_use.insert(self.uses, run_id);
        let cached = Cached {
            instance,
            run,
            queue: queue.clone(),
            used: self.uses,
            bytes,
        };
        self.runs.insert(run_id, cached);
        let mut leaving = Vec::new();
        while let Some((oldest, cause)) = self.surplus(queue) {
            leaving.extend(self.evict(oldest, cause));
        }
        leaving
    }

    /// An instance leaves memory, if it is there.
    pub(crate) fn evict(&mut self, run_id: RunId, cause: EvictCause) -> Option<Leaving> {
        let cached = self.remove(run_id)?;
        Some(self.leaving(cached.run, cached.instance, cached.queue, cause))
    }

    /// The thread leaves, and all of them with it, in the order of their runs.
    pub(crate) fn leave(&mut self) -> Vec<Leaving> {
        let mut all: Vec<RunId> = self.runs.keys().copied().collect();
        all.sort();
        all.into_iter()
            .filter_map(|run_id| self.evict(run_id, EvictCause::Thread))
            .collect()
    }

    /// An instance was not put back.
    pub(crate) fn gone(&self, run_id: RunId, queue: &QueueName, cause: EvictCause) {
        tell(&self.bus, run_id, queue.clone(), cause);
    }

    fn leaving(
        &self,
        run: RunIn,
        instance: Instance,
        queue: QueueName,
        cause: EvictCause,
    ) -> Leaving {
        Leaving {
            run,
            instance,
            queue,
            cause,
            bus: self.bus.clone(),
        }
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
        for leaving in self.leave() {
            leaving.drop_watched(&Unwatched);
        }
    }
}

fn tell(bus: &Bus, run_id: RunId, queue: QueueName, cause: EvictCause) {
    bus.meter().evicted(cause);
    bus.emit_with(Severity::Debug, || WorkerEvent::Evicted {
        run_id,
        queue,
        cause,
    });
}
