//! The one owner of all handles of polled backends: every call on a handle is made here.
//!
//! Why: whoever polls, runs slices or runs attempts can die at any moment. A handle in their hands
//! would be left behind with a poll in flight, and what that poll brings would be lost. So polls
//! run in tasks of the owner, and a poller only waits in line: what comes while it dies goes to
//! the next. Slow calls (open, stop, answers) run in tasks of their own as well; no request waits
//! behind another.
//!
//! Reading order: [`entry`] (the life of a queue), `tend` (who lives it), `pump` and `line` (from
//! the backend to a poller), `generation` (answers).

pub mod backoff;
pub mod entry;
mod generation;
mod line;
mod pump;
mod queue;
mod tend;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use outlast_model::task::AttemptResult;
use outlast_model::{Payload, QueueName, RunId};

pub use backoff::{Backoff, Chance};
pub use entry::RegisterError;
pub use generation::Then;
pub use line::Polled;

use crate::bus::Bus;
use crate::handle::{
    BackendToken, CompleteError, Completion, Connector, PollError, PolledActivation,
    PolledActivity, QueueOptions,
};
use entry::{Input, Refused, State};
use generation::{Call, Generation};
pub(crate) use queue::dropped;
use queue::{Common, Queue};
use tend::Tender;

/// Owns all handles of an application. Cheap to clone.
#[derive(Clone)]
pub struct Owner {
    inner: Arc<Inner>,
}

struct Inner {
    connector: Arc<dyn Connector>,
    common: Common,
    numbers: Arc<AtomicU64>,
    queues: Mutex<Queues>,
}

#[derive(Default)]
struct Queues {
    by_name: BTreeMap<QueueName, Arc<Queue>>,
    is_down: bool,
}

/// How an owner behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnerSettings {
    /// The pauses after failures.
    pub backoff: Backoff,
    /// How often the first handle of a queue is tried before its registration fails.
    pub open_tries: u32,
}

impl Default for OwnerSettings {
    fn default() -> Self {
        Self {
            backoff: Backoff::default(),
            open_tries: 10,
        }
    }
}

impl Owner {
    /// Owns nothing yet. Its tasks run on this runtime; what somebody should know goes to the
    /// bus.
    pub fn new(
        connector: Arc<dyn Connector>,
        runtime: tokio::runtime::Handle,
        settings: OwnerSettings,
        chance: Chance,
        bus: Bus,
    ) -> Self {
        let common = Common {
            runtime,
            backoff: settings.backoff,
            open_tries: settings.open_tries,
            chance,
            bus,
        };
        let inner = Arc::new(Inner {
            connector,
            common,
            numbers: Arc::default(),
            queues: Mutex::default(),
        });
        Self { inner }
    }

    /// Registers a queue; answers when its handle is open. Goes on if it is dropped.
    ///
    /// # Errors
    /// It is registered already, also by a registration under way; the backend refuses it, or
    /// cannot be reached; or it was unregistered before it was open.
    pub async fn register(&self, options: QueueOptions) -> Result<(), RegisterError> {
        let queue = self.enter(options)?;
        let mut state = queue.state.subscribe();
        let settled = state.wait_for(|state| *state != State::Opening).await;
        let state = settled.map_or(State::Absent, |state| *state);
        match state {
            State::Open | State::Recycling | State::Reopening => Ok(()),
            State::Opening | State::Closing => {
                Err(RegisterError::Unregistered(Box::new(queue.options.clone())))
            }
            State::Absent => {
                // So that another try is not refused.
                queue.gone().await;
                Err(queue.failure().map_or_else(
                    || RegisterError::Unregistered(Box::new(queue.options.clone())),
                    RegisterError::Open,
                ))
            }
        }
    }

    /// Unregisters a queue: at once nobody counts it as registered; answers when the backend has
    /// stopped. A queue that is not registered is fine. Goes on if it is dropped.
    pub async fn unregister(&self, queue: &QueueName) {
        let Some(queue) = self.queue(queue) else {
            return;
        };
        queue.request(Input::Unregister);
        queue.gone().await;
    }

    /// Whether somebody wants this queue served. A poller that was told of a shutdown asks here
    /// whether to ask again.
    pub fn is_registered(&self, queue: &QueueName) -> bool {
        self.queue(queue)
            .is_some_and(|queue| queue.state.borrow().is_registered())
    }

    /// Where a queue stands.
    pub fn state(&self, queue: &QueueName) -> State {
        self.queue(queue)
            .map_or(State::Absent, |queue| *queue.state.borrow())
    }

    /// Closes a queue's handle and opens another one: a repair. Says whether the queue is
    /// registered.
    pub fn recycle(&self, queue: &QueueName) -> bool {
        self.queue(queue)
            .is_some_and(|queue| queue.request(Input::Recycle))
    }

    /// Refuses new queues and unregisters all; answers when all backends have stopped.
    pub async fn shutdown(&self) {
        let names: Vec<QueueName> = {
            let mut queues = self.inner.queues();
            queues.is_down = true;
            queues.by_name.keys().cloned().collect()
        };
        for name in &names {
            if let Some(queue) = self.queue(name) {
                queue.request(Input::Unregister);
            }
        }
        for name in &names {
            self.unregister(name).await;
        }
    }

    /// Waits for the next activation of a queue. Can be dropped at any moment.
    ///
    /// # Errors
    /// [`PollError::Shutdown`]: ask again if the queue is still registered.
    pub async fn next_activation(
        &self,
        queue: &QueueName,
    ) -> Result<Polled<PolledActivation>, PollError> {
        let queue = self.queue(queue).ok_or(PollError::Shutdown)?;
        queue.activations.next().await
    }

    /// Waits for the next attempt of a queue. Can be dropped at any moment.
    ///
    /// # Errors
    /// [`PollError::Shutdown`]: ask again if the queue is still registered.
    pub async fn next_activity(
        &self,
        queue: &QueueName,
    ) -> Result<Polled<PolledActivity>, PollError> {
        let queue = self.queue(queue).ok_or(PollError::Shutdown)?;
        queue.activities.next().await
    }

    /// Promises that whatever arrives on this queue will be taken, until the promise is dropped.
    pub fn attend(&self, queue: &QueueName) -> Option<Attendance> {
        let queue = self.queue(queue)?;
        queue.attend();
        Some(Attendance { queue })
    }
}

/// Answers. Each runs in a task of the owner.
impl Owner {
    /// Answers an activation through the handle it came from.
    pub fn complete_activation(
        &self,
        queue: &QueueName,
        generation: u64,
        run_id: RunId,
        completion: Completion,
        then: Then,
    ) {
        self.answer(
            queue,
            generation,
            Call::Activation(run_id, completion),
            then,
        );
    }

    /// Answers an attempt through the handle it came from.
    pub fn complete_activity(
        &self,
        queue: &QueueName,
        generation: u64,
        token: BackendToken,
        result: AttemptResult,
        then: Then,
    ) {
        self.answer(queue, generation, Call::Activity(token, result), then);
    }

    /// A running attempt reports; in vain if its handle is gone.
    pub fn heartbeat(
        &self,
        queue: &QueueName,
        generation: u64,
        token: &BackendToken,
        details: Payload,
    ) {
        if let Some((_, generation)) = self.generation(queue, generation) {
            generation.tell(|handle| handle.heartbeat(token, details));
        }
    }

    /// Asks for a run to be evicted; in vain if its handle is gone, and its cache with it.
    pub fn request_eviction(&self, queue: &QueueName, generation: u64, run_id: RunId) {
        if let Some((_, generation)) = self.generation(queue, generation) {
            generation.tell(|handle| handle.request_eviction(run_id));
        }
    }

    pub(crate) fn bus(&self) -> &Bus {
        &self.inner.common.bus
    }

    pub(crate) fn pause_after(&self, failures: u32) -> Duration {
        let common = &self.inner.common;
        common.backoff.after(failures, (common.chance)())
    }

    fn answer(&self, name: &QueueName, number: u64, call: Call, then: Then) {
        match self.generation(name, number) {
            Some((queue, generation)) => queue.answer_through(&generation, call, then),
            None => match self.queue(name) {
                Some(queue) => queue.answer_dropped(&call, then),
                None => then(Err(CompleteError::Gone(format!(
                    "queue {name} is not registered"
                )))),
            },
        }
    }

    fn generation(&self, name: &QueueName, number: u64) -> Option<(Arc<Queue>, Arc<Generation>)> {
        let queue = self.queue(name)?;
        let generation = queue.generation(number)?;
        Some((queue, generation))
    }

    fn queue(&self, name: &QueueName) -> Option<Arc<Queue>> {
        self.inner.queues().by_name.get(name).cloned()
    }

    /// The registration, up to where it takes long.
    fn enter(&self, options: QueueOptions) -> Result<Arc<Queue>, RegisterError> {
        let mut queues = self.inner.queues();
        if queues.is_down {
            return Err(RegisterError::Down);
        }
        let before = queues
            .by_name
            .get(&options.queue)
            .map_or(State::Absent, |queue| match *queue.state.borrow() {
                // Its last call has not ended.
                State::Absent => State::Closing,
                state @ (State::Opening
                | State::Open
                | State::Recycling
                | State::Reopening
                | State::Closing) => state,
            });
        let (state, effect) = match before.apply(Input::Register) {
            Ok(entered) => entered,
            Err(Refused::Closing) => return Err(RegisterError::Closing(Box::new(options))),
            Err(Refused::Registered | Refused::Unknown | Refused::Unexpected) => {
                return Err(RegisterError::Registered(Box::new(options)));
            }
        };
        let queue = Arc::new(Queue::new(options, self.inner.common.clone(), state));
        let name = queue.options.queue.clone();
        queues.by_name.insert(name.clone(), queue.clone());
        let tender = Tender {
            queue: queue.clone(),
            connector: self.inner.connector.clone(),
            numbers: self.inner.numbers.clone(),
            failures: 0,
            pause: Duration::ZERO,
            ending: Vec::new(),
        };
        let (inner, it) = (Arc::downgrade(&self.inner), queue.clone());
        drop(self.inner.common.runtime.spawn(async move {
            tender.tend(effect).await;
            if let Some(inner) = inner.upgrade() {
                inner.queues().by_name.remove(&name);
            }
            it.is_gone.send_replace(true);
        }));
        Ok(queue)
    }
}

impl Inner {
    fn queues(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let queues = self.inner.queues();
        let states = queues.by_name.iter();
        f.debug_map()
            .entries(states.map(|(name, queue)| (name, *queue.state.borrow())))
            .finish()
    }
}

/// The promise of [`Owner::attend`].
pub struct Attendance {
    queue: Arc<Queue>,
}

impl Drop for Attendance {
    fn drop(&mut self) {
        self.queue.leave();
    }
}

impl fmt::Debug for Attendance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Attendance")
            .field(&self.queue.options.queue)
            .finish()
    }
}
