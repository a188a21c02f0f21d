//! The service's way to the worker: slots, effects, and word of code that nobody has
//! and of a store that takes nothing.
//!
//! Weak: the worker holds the service, and nothing would ever be freed.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use outlast_engine::Effect;
use outlast_model::QueueName;
use outlast_model::task::{Permit, SlotKind};
use outlast_service::outlet::{Lack, Outlet};
use outlast_service::store::CommitError;
use outlast_worker::{Dispatch, Worker, WorkerEvent};

/// The service's way to the worker.
pub(crate) struct Door {
    worker: Weak<Worker>,
    runtime: tokio::runtime::Handle,
    /// What was said to be lacking.
    told: Mutex<BTreeSet<String>>,
}

impl Door {
    pub(crate) fn new(worker: &Arc<Worker>, runtime: tokio::runtime::Handle) -> Self {
        Self {
            worker: Arc::downgrade(worker),
            runtime,
            told: Mutex::default(),
        }
    }
}

impl Door {
    /// On the calling thread, which holds no shard: what comes first is heard first.
    fn emit(&self, event: WorkerEvent) {
        if let Some(worker) = self.worker.upgrade() {
            worker.bus().emit(event);
        }
    }
}

impl Outlet for Door {
    fn take_slot(&self, queue: &QueueName, kind: SlotKind) -> Permit {
        let worker = self.worker.upgrade();
        worker.map_or(Permit::Full, |worker| worker.take_slot(queue, kind))
    }

    fn return_slot(&self, queue: &QueueName, kind: SlotKind) {
        if let Some(worker) = self.worker.upgrade() {
            worker.return_slot(queue, kind);
        }
    }

    fn release(&self, effects: Vec<Effect>) {
        let work = effects.into_iter().filter_map(|effect| match effect {
            Effect::StartActivity(order) => Some(Dispatch::Ordered(order)),
            Effect::StartStep(task) => Some(Dispatch::Step(task)),
            Effect::Stop(token, reason) => Some(Dispatch::Stop(token, reason)),
            Effect::Closed(_) | Effect::Update(..) => None,
        });
        if let Some(worker) = self.worker.upgrade() {
            worker.dispatch(work.collect());
        }
    }

    fn store_away(&self, error: &CommitError, retry_in: Duration) {
        let error = error.to_string();
        self.emit(WorkerEvent::StoreAway { error, retry_in });
    }

    fn store_back(&self, away: Duration) {
        self.emit(WorkerEvent::StoreBack { away });
    }

    fn lacks(&self, lack: &Lack) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if !told.insert(lack.text.clone()) {
            return;
        }
        let Some(worker) = self.worker.upgrade() else {
            return;
        };
        let (bus, queue, text) = (worker.bus().clone(), lack.queue.clone(), lack.text.clone());
        // Not here: the shard waits, and whoever listens may ask it something.
        self.runtime
            .spawn(async move { bus.emit(WorkerEvent::NotRegistered { queue, text }) });
    }
}
