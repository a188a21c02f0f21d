//! One registered queue: where it stands, its handles, and the lines in which pollers wait.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use outlast_model::QueueName;
use tokio::runtime::Handle as Runtime;
use tokio::sync::watch;

use super::backoff::{Backoff, Chance};
use super::entry::{Effect, Input, Refused, State};
use super::generation::{Call, Generation, Then};
use super::line::Line;
use crate::bus::Bus;
use crate::clock;
use crate::event::WorkerEvent;
use crate::handle::{CompleteError, OpenError, PolledActivation, PolledActivity, QueueOptions};

/// What all queues of an owner have in common.
#[derive(Clone)]
pub(super) struct Common {
    pub(super) runtime: Runtime,
    pub(super) backoff: Backoff,
    pub(super) open_tries: u32,
    pub(super) chance: Chance,
    pub(super) bus: Bus,
}

/// One registered queue.
pub(super) struct Queue {
    pub(super) options: QueueOptions,
    pub(super) common: Common,
    pub(super) state: watch::Sender<State>,
    /// Nothing of it is left.
    pub(super) is_gone: watch::Sender<bool>,
    pub(super) activations: Line<PolledActivation>,
    pub(super) activities: Line<PolledActivity>,
    /// Why it is not open.
    failure: Mutex<Option<OpenError>>,
    /// What was wrong with its last handle.
    fault: Mutex<Option<String>>,
    /// Since when the backend does not answer.
    away: Mutex<Option<Instant>>,
    has_opened: AtomicBool,
    /// The handles that can take answers, by number: the one in service and those that are
    /// coming to their end.
    generations: Mutex<BTreeMap<u64, Arc<Generation>>>,
    attendance: AtomicUsize,
}

impl Queue {
    pub(super) fn new(options: QueueOptions, common: Common, state: State) -> Self {
        Self {
            options,
            common,
            state: watch::Sender::new(state),
            is_gone: watch::Sender::new(false),
            activations: Line::default(),
            activities: Line::default(),
            failure: Mutex::new(None),
            fault: Mutex::new(None),
            away: Mutex::new(None),
            has_opened: AtomicBool::new(false),
            generations: Mutex::new(BTreeMap::new()),
            attendance: AtomicUsize::new(0),
        }
    }

    /// Applies an input from anywhere; what it calls for at once is done.
    ///
    /// # Errors
    /// The request is refused.
    pub(super) fn apply(&self, input: Input) -> Result<Effect, Refused> {
        let mut answer = Err(Refused::Unexpected);
        self.state.send_modify(|state| {
            answer = state.apply(input).map(|(next, effect)| {
                *state = next;
                effect
            });
        });
        if answer == Ok(Effect::Stop)
            && let Some(current) = self.current()
        {
            current.stop();
        }
        answer
    }

    /// The same, for whoever only wants to know whether it was accepted.
    pub(super) fn request(&self, input: Input) -> bool {
        self.apply(input).is_ok()
    }

    /// Waits until nothing of it is left.
    pub(super) async fn gone(&self) {
        let mut gone = self.is_gone.subscribe();
        // The sender is ours: it does not go away unannounced.
        drop(gone.wait_for(|gone| *gone).await);
    }

    /// A handle is broken: it is stopped and opened anew, if it is still the one in service.
    pub(super) fn broken(&self, generation: &Generation, text: String) {
        generation.is_broken.store(true, Ordering::Relaxed);
        *lock(&self.fault) = Some(text);
        if self
            .current()
            .is_some_and(|it| it.number == generation.number)
        {
            self.request(Input::Recycle);
        }
        generation.stop();
    }

    /// The newest handle.
    pub(super) fn current(&self) -> Option<Arc<Generation>> {
        self.generations()
            .last_key_value()
            .map(|(_, it)| it.clone())
    }

    pub(super) fn generation(&self, number: u64) -> Option<Arc<Generation>> {
        self.generations().get(&number).cloned()
    }

    pub(super) fn add(&self, generation: Arc<Generation>) {
        self.generations().insert(generation.number, generation);
    }

    pub(super) fn remove(&self, number: u64) {
        self.generations().remove(&number);
    }

    pub(super) fn answer_through(&self, generation: &Arc<Generation>, call: Call, then: Then) {
        let (bus, queue) = (self.common.bus.clone(), self.options.queue.clone());
        let subject = call.subject();
        generation.answer(
            call,
            Box::new(move |taken| {
                if let Err(error) = &taken {
                    bus.emit(dropped(queue, &subject, error));
                }
                then(taken);
            }),
        );
    }

    /// The handle of an answer is gone: the backend hands the work out again.
    pub(super) fn answer_dropped(&self, call: &Call, then: Then) {
        let error = CompleteError::Gone("its handle has stopped".into());
        let queue = self.options.queue.clone();
        self.common
            .bus
            .emit(dropped(queue, &call.subject(), &error));
        then(Err(error));
    }

    pub(super) fn pause_after(&self, failures: u32) -> Duration {
        let drawn = (self.common.chance)();
        self.common.backoff.after(failures, drawn)
    }

    /// Whether somebody has promised to take everything that arrives.
    pub(super) fn is_attended(&self) -> bool {
        self.attendance.load(Ordering::Acquire) > 0
    }

    pub(super) fn attend(&self) {
        self.attendance.fetch_add(1, Ordering::AcqRel);
    }

    pub(super) fn leave(&self) {
        self.attendance.fetch_sub(1, Ordering::AcqRel);
        // What nobody takes any more holds nobody up.
        self.activations.left();
        self.activities.left();
    }

    pub(super) fn failed(&self, error: OpenError) {
        *lock(&self.failure) = Some(error);
    }

    pub(super) fn failure(&self) -> Option<OpenError> {
        lock(&self.failure).clone()
    }

    fn generations(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Generation>>> {
        lock(&self.generations)
    }
}

/// What somebody should know.
impl Queue {
    /// A handle is open: the first, or another one.
    pub(super) fn tell_opened(&self) {
        self.tell_back();
        let queue = self.options.queue.clone();
        let event = if self.has_opened.swap(true, Ordering::AcqRel) {
            let fault = lock(&self.fault).take();
            let reason = fault.unwrap_or_else(|| "somebody asked for it".into());
            WorkerEvent::QueueRecycled { queue, reason }
        } else {
            WorkerEvent::QueueRegistered { queue }
        };
        self.common.bus.emit(event);
    }

    /// The queue is gone.
    pub(super) fn tell_closed(&self) {
        if self.has_opened.load(Ordering::Acquire) {
            let queue = self.options.queue.clone();
            self.common
                .bus
                .emit(WorkerEvent::QueueUnregistered { queue });
        }
    }

    /// The backend did not answer.
    pub(super) fn tell_away(&self, error: String, retry_in: Duration) {
        lock(&self.away).get_or_insert_with(clock::now);
        self.common.bus.emit(WorkerEvent::BackendUnavailable {
            backend: self.backend(),
            error,
            retry_in,
        });
    }

    /// The backend answers, again or still.
    pub(super) fn tell_back(&self) {
        let since = lock(&self.away).take();
        if let Some(since) = since {
            self.common.bus.emit(WorkerEvent::BackendBack {
                backend: self.backend(),
                away: clock::now().duration_since(since),
            });
        }
    }

    fn backend(&self) -> String {
        format!("the backend of queue {}", self.options.queue)
    }
}

/// An answer found no taker.
pub(crate) fn dropped(queue: QueueName, subject: &str, error: &CompleteError) -> WorkerEvent {
    let text = format!("the answer to {subject} was dropped: {error}");
    WorkerEvent::AnswerDropped { queue, text }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
