//! Carries events of a worker to whoever listens.
//!
//! Emitting never waits and never fails: a listener is called on the thread where the thing
//! happened and its panics are caught; a subscriber has a bounded queue, and one that is too slow
//! loses the oldest events and learns how many. What nobody asked for costs one relaxed load.
//! What events add up to is kept here as well: see [`Standing`].

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use outlast_runtime::panic::discard;
use tokio::sync::broadcast::{self, error::RecvError, error::TryRecvError};
use tokio::sync::watch;

use crate::event::{Severity, WorkerEvent};
use crate::meter::Meter;
use crate::standing::Standing;

/// Events that wait for one subscriber.
const QUEUE: usize = 1_024;
/// Above every severity: nobody listens.
const NOBODY: u8 = u8::MAX;

/// Carries events to whoever listens. Cheap to clone.
#[derive(Clone, Default)]
pub struct Bus {
    inner: Arc<Inner>,
}

struct Inner {
    /// The lowest severity that somebody wants.
    wanted: AtomicU8,
    listeners: Mutex<Arc<Vec<Listener>>>,
    standing: watch::Sender<Standing>,
    meter: Meter,
}

impl Default for Inner {
    fn default() -> Self {
        Self {
            wanted: AtomicU8::new(NOBODY),
            listeners: Mutex::default(),
            standing: watch::Sender::default(),
            meter: Meter::default(),
        }
    }
}

#[derive(Clone)]
struct Listener {
    least: Severity,
    ear: Ear,
}

#[derive(Clone)]
enum Ear {
    Call(Arc<dyn Fn(&WorkerEvent) + Send + Sync>),
    Queue(broadcast::Sender<Arc<WorkerEvent>>),
}

impl std::fmt::Debug for Bus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bus")
            .field("listeners", &self.listeners().len())
            .finish()
    }
}

impl Bus {
    /// Whether somebody wants events of this severity.
    pub fn wants(&self, severity: Severity) -> bool {
        severity as u8 >= self.inner.wanted.load(Ordering::Relaxed)
    }

    /// Tells whoever wants to know.
    pub fn emit(&self, event: WorkerEvent) {
        let severity = event.severity();
        let standing = &self.inner.standing;
        standing.send_if_modified(|standing| standing.hear(&event));
        if !self.wants(severity) {
            return;
        }
        let listeners = self.listeners().clone();
        let event = Arc::new(event);
        for listener in listeners.iter().filter(|l| severity >= l.least) {
            match &listener.ear {
                // It is called on threads that must outlive it.
                Ear::Call(call) => discard(catch_unwind(AssertUnwindSafe(|| call(&event)))),
                // Nobody is there any more: it leaves with the next change.
                Ear::Queue(queue) => drop(queue.send(event.clone())),
            }
        }
    }

    /// As [`emit`](Self::emit), for events that happen all the time: they are not even made, nor
    /// counted, unless somebody wants them.
    pub fn emit_with(&self, severity: Severity, event: impl FnOnce() -> WorkerEvent) {
        if self.wants(severity) {
            self.emit(event());
        }
    }

    /// Calls this for every event of at least this severity, on the thread where it happens: it
    /// must come back at once. What takes longer belongs into a subscription.
    pub fn listen(&self, least: Severity, call: impl Fn(&WorkerEvent) + Send + Sync + 'static) {
        let ear = Ear::Call(Arc::new(call));
        self.add(Listener { least, ear });
    }

    /// Events of at least this severity from now on.
    pub fn subscribe(&self, least: Severity) -> Events {
        let (queue, events) = broadcast::channel(QUEUE);
        let ear = Ear::Queue(queue);
        self.add(Listener { least, ear });
        Events { events }
    }

    /// What the events so far add up to.
    pub fn standing(&self) -> Standing {
        self.inner.standing.borrow().clone()
    }

    /// Says when that changes.
    pub fn watch(&self) -> watch::Receiver<Standing> {
        self.inner.standing.subscribe()
    }

    /// What is counted while user code runs.
    pub fn meter(&self) -> &Meter {
        &self.inner.meter
    }

    fn add(&self, listener: Listener) {
        let mut listeners = self.listeners();
        let mut all: Vec<Listener> = listeners.iter().filter(|l| l.is_there()).cloned().collect();
        all.push(listener);
        let wanted = all.iter().map(|l| l.least as u8).min().unwrap_or(NOBODY);
        *listeners = Arc::new(all);
        self.inner.wanted.store(wanted, Ordering::Relaxed);
    }

    fn listeners(&self) -> MutexGuard<'_, Arc<Vec<Listener>>> {
        let locked = self.inner.listeners.lock();
        locked.unwrap_or_else(PoisonError::into_inner)
    }
}

impl Listener {
    fn is_there(&self) -> bool {
        match &self.ear {
            Ear::Call(_) => true,
            Ear::Queue(queue) => queue.receiver_count() > 0,
        }
    }
}

/// A subscription. [`WorkerEvent::Missed`] stands where events were lost because nobody took them.
#[derive(Debug)]
pub struct Events {
    events: broadcast::Receiver<Arc<WorkerEvent>>,
}

impl Events {
    /// The next event; `None` when the worker is gone.
    pub async fn next(&mut self) -> Option<Arc<WorkerEvent>> {
        match self.events.recv().await {
            Ok(event) => Some(event),
            Err(RecvError::Lagged(count)) => Some(Arc::new(WorkerEvent::Missed { count })),
            Err(RecvError::Closed) => None,
        }
    }

    /// The next event, if it is there already.
    pub fn take(&mut self) -> Option<Arc<WorkerEvent>> {
        match self.events.try_recv() {
            Ok(event) => Some(event),
            Err(TryRecvError::Lagged(count)) => Some(Arc::new(WorkerEvent::Missed { count })),
            Err(TryRecvError::Empty | TryRecvError::Closed) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missed(count: u64) -> WorkerEvent {
        WorkerEvent::Missed { count }
    }

    #[test]
    fn what_nobody_wants_is_not_even_made() {
        let bus = Bus::default();
        bus.emit_with(Severity::Error, || unreachable!("nobody listens"));
        bus.listen(Severity::Warning, |_| ());
        bus.emit_with(Severity::Info, || unreachable!("nobody wants it"));
        assert!(bus.wants(Severity::Warning) && !bus.wants(Severity::Info));
    }

    #[test]
    fn a_slow_subscriber_loses_the_oldest_and_learns_how_many() {
        let bus = Bus::default();
        let mut events = bus.subscribe(Severity::Debug);
        for count in 0..QUEUE as u64 + 3 {
            bus.emit(missed(count));
        }
        assert_eq!(
            events.take().as_deref(),
            Some(&missed(3)),
            "three were lost"
        );
        assert_eq!(
            events.take().as_deref(),
            Some(&missed(3)),
            "the oldest left"
        );
        assert_eq!(events.take().as_deref(), Some(&missed(4)));
    }

    #[test]
    fn a_listener_that_panics_harms_nobody() {
        let bus = Bus::default();
        bus.listen(Severity::Debug, |_| panic!("on purpose"));
        let mut events = bus.subscribe(Severity::Info);
        bus.emit(WorkerEvent::Starting);
        assert_eq!(events.take().as_deref(), Some(&WorkerEvent::Starting));
    }

    #[test]
    fn each_hears_what_it_asked_for() {
        let bus = Bus::default();
        let mut loud = bus.subscribe(Severity::Warning);
        let mut all = bus.subscribe(Severity::Debug);
        bus.emit(WorkerEvent::ShardTakenOver { shard: 1 });
        assert!(loud.take().is_none());
        assert!(all.take().is_some());
    }

    #[test]
    fn a_subscription_ends_with_the_worker() {
        let bus = Bus::default();
        let mut events = bus.subscribe(Severity::Debug);
        bus.emit(WorkerEvent::Starting);
        drop(bus);
        assert!(events.take().is_some(), "what was told is not lost");
        assert!(matches!(
            events.events.try_recv(),
            Err(TryRecvError::Closed)
        ));
    }

    #[test]
    fn a_dropped_subscription_is_forgotten() {
        let bus = Bus::default();
        drop(bus.subscribe(Severity::Debug));
        bus.emit(WorkerEvent::Starting);
        bus.listen(Severity::Error, |_| ());
        assert!(!bus.wants(Severity::Warning), "{bus:?}");
    }
}
