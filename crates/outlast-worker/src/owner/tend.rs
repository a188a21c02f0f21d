//! Looks after one queue from its registration to its end: opens a handle, polls it until it has
//! stopped, opens another. What to do comes from the machine in [`super::entry`]; this only does
//! it. Whatever of the backend panics counts as a failure of the backend.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::task::JoinHandle;

use super::entry::{Effect, Input, State};
use super::generation::Generation;
use super::pump::{Pollable, pump};
use super::queue::Queue;
use crate::handle::{Connector, OpenError, PolledActivation, PolledActivity};

/// Looks after one queue.
pub(super) struct Tender {
    pub(super) queue: Arc<Queue>,
    pub(super) connector: Arc<dyn Connector>,
    /// Counts the handles of all queues.
    pub(super) numbers: Arc<AtomicU64>,
    /// Openings and handles in a row that were in vain.
    pub(super) failures: u32,
    /// Before the next opening.
    pub(super) pause: Duration,
    /// Handles that are coming to their end.
    pub(super) ending: Vec<JoinHandle<()>>,
}

impl Tender {
    /// Until nothing of the queue is left.
    pub(super) async fn tend(mut self, first: Effect) {
        let mut effect = first;
        loop {
            let input = match effect {
                Effect::Pause => self.pause().await,
                Effect::Open => self.open().await,
                Effect::Serve => self.serve().await,
                Effect::Dismiss => {
                    if let Some(fresh) = self.queue.current() {
                        fresh.stop();
                    }
                    self.serve().await
                }
                Effect::End | Effect::Nothing | Effect::Stop => return self.end().await,
            };
            effect = self.queue.apply(input).unwrap_or(Effect::End);
        }
    }

    async fn pause(&self) -> Input {
        let mut state = self.queue.state.subscribe();
        let unwanted = state.wait_for(|state| !state.is_registered());
        // However it ends: the machine knows what is wanted.
        drop(tokio::time::timeout(self.pause, unwanted).await);
        Input::Due
    }

    async fn open(&mut self) -> Input {
        let (queue, connector) = (self.queue.clone(), self.connector.clone());
        let opening = async move { connector.open(&queue.options).await };
        let opened = self.queue.common.runtime.spawn(opening).await;
        let error = match opened {
            Ok(Ok(handle)) => {
                let number = self.numbers.fetch_add(1, Ordering::Relaxed) + 1;
                let runtime = self.queue.common.runtime.clone();
                let generation = Generation::new(number, handle, &self.queue.options, runtime);
                self.queue.add(Arc::new(generation));
                self.queue.tell_opened();
                return Input::Opened;
            }
            Ok(Err(error)) => error,
            Err(panic) => OpenError::Transient(panic.to_string()),
        };
        self.failures += 1;
        let is_final =
            matches!(error, OpenError::Refused(_)) || self.failures >= self.queue.common.open_tries;
        self.pause = self.queue.pause_after(self.failures);
        self.queue.tell_away(error.to_string(), self.pause);
        self.queue.failed(error);
        Input::Failed { is_final }
    }

    /// Polls the newest handle until both polls have ended.
    async fn serve(&mut self) -> Input {
        let Some(generation) = self.queue.current() else {
            return Input::Stopped;
        };
        let polls = [
            self.poll::<PolledActivation>(&generation),
            self.poll::<PolledActivity>(&generation),
        ];
        for poll in polls {
            // It cannot panic: what it watches can.
            drop(poll.await);
        }
        self.count(&generation);
        self.finalize(generation);
        if !self.queue.state.borrow().is_registered() {
            self.all_ended().await;
        }
        Input::Stopped
    }

    /// One of its polls; one that panics is as good as a broken handle.
    fn poll<T: Pollable>(&self, generation: &Arc<Generation>) -> JoinHandle<()> {
        let runtime = &self.queue.common.runtime;
        let (queue, generation) = (self.queue.clone(), generation.clone());
        let polling = runtime.spawn(pump::<T>(queue.clone(), generation.clone()));
        runtime.spawn(async move {
            if let Err(panic) = polling.await {
                queue.broken(&generation, panic.to_string());
            }
            T::line(&queue).ended();
        })
    }

    /// A handle that brought something was worth it; one that only failed calls for a pause.
    fn count(&mut self, generation: &Generation) {
        let is_recycled = *self.queue.state.borrow() == State::Recycling;
        if generation.has_delivered.load(Ordering::Relaxed) {
            self.failures = 0;
        } else if !is_recycled || generation.is_broken.load(Ordering::Relaxed) {
            self.failures += 1;
        }
        self.pause = self.queue.pause_after(self.failures);
    }

    /// Ends a handle: it may wait for answers, which still reach it by its number. Another one
    /// does not wait for that.
    fn finalize(&mut self, generation: Arc<Generation>) {
        let queue = self.queue.clone();
        self.ending.retain(|ending| !ending.is_finished());
        self.ending
            .push(self.queue.common.runtime.spawn(async move {
                let _gone = Gone {
                    queue,
                    number: generation.number,
                };
                generation.handle.finalize().await;
            }));
    }

    async fn all_ended(&mut self) {
        for ending in self.ending.drain(..) {
            // One that panicked has ended too.
            drop(ending.await);
        }
    }

    async fn end(mut self) {
        self.all_ended().await;
        self.queue.activations.close();
        self.queue.activities.close();
        self.queue.tell_closed();
    }
}

/// A handle that takes no more answers, however its end went.
struct Gone {
    queue: Arc<Queue>,
    number: u64,
}

impl Drop for Gone {
    fn drop(&mut self) {
        self.queue.remove(self.number);
    }
}
