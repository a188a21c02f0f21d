//! A handle on the cluster. It complains about polls that are dropped in flight or doubled.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use outlast_model::task::AttemptResult;
use outlast_model::{Payload, RunId};
use outlast_worker::handle::{
    BackendToken, BoxFuture, CompleteError, Completion, Handle, PollError, PolledActivation,
    PolledActivity, QueueOptions,
};
use tokio::time::Instant;

use super::Fake;
use super::world::World;

pub(super) struct FakeHandle {
    fake: Fake,
    number: u64,
    polls: [AtomicBool; 2],
}

impl FakeHandle {
    pub(super) fn open(fake: Fake, options: &QueueOptions) -> Self {
        let number = fake.change(|world| world.open(options));
        Self {
            fake,
            number,
            polls: Default::default(),
        }
    }

    fn complain(&self, text: &str) {
        let number = self.number;
        self.fake
            .change(|world| world.complaints.push(format!("handle {number}: {text}")));
    }

    async fn poll<T>(&self, kind: usize, look: impl Fn(&mut World) -> Option<T>) -> T {
        let mut polling = Polling::begin(self, kind);
        loop {
            let news = self.fake.inner.news.notified();
            tokio::pin!(news);
            news.as_mut().enable();
            let (found, expiry) = {
                let mut world = self.fake.world();
                (look(&mut world), world.next_expiry())
            };
            if let Some(found) = found {
                polling.is_answered = true;
                self.fake.inner.news.notify_waiters();
                return found;
            }
            let until = expiry.unwrap_or_else(|| Instant::now() + Duration::from_secs(3_600));
            drop(tokio::time::timeout_at(until, news).await);
        }
    }
}

impl Handle for FakeHandle {
    fn poll_activation(&self) -> BoxFuture<'_, Result<PolledActivation, PollError>> {
        Box::pin(self.poll(0, |world| world.activation(self.number)))
    }

    fn complete_activation(
        &self,
        run_id: RunId,
        completion: Completion,
    ) -> BoxFuture<'_, Result<(), CompleteError>> {
        Box::pin(async move {
            let held = self.fake.change(|world| {
                world.completing += 1;
                world.most_completing = world.most_completing.max(world.completing);
                world.held.get(&run_id).cloned()
            });
            match held {
                Some(gate) => gate.notified().await,
                None => tokio::task::yield_now().await,
            }
            self.fake.change(|world| {
                world.completing -= 1;
                world.complete(self.number, run_id, completion)
            })
        })
    }

    fn poll_activity(&self) -> BoxFuture<'_, Result<PolledActivity, PollError>> {
        Box::pin(self.poll(1, |world| world.attempt(self.number)))
    }

    fn complete_activity(
        &self,
        token: BackendToken,
        result: AttemptResult,
    ) -> BoxFuture<'_, Result<(), CompleteError>> {
        Box::pin(async move {
            match self.fake.change(|world| world.answer_gates.pop_front()) {
                Some(gate) => gate.notified().await,
                None => tokio::task::yield_now().await,
            }
            self.fake.change(|world| {
                if world.lost_answers > 0 {
                    world.lost_answers -= 1;
                    return Ok(());
                }
                world.ended(self.number, &token, result)
            })
        })
    }

    fn heartbeat(&self, _token: &BackendToken, details: Payload) {
        self.fake.change(|world| world.heartbeats.push(details));
    }

    fn request_eviction(&self, run_id: RunId) {
        self.fake.change(|world| world.evict(self.number, run_id));
    }

    fn initiate_shutdown(&self) {
        self.fake.change(|world| {
            if let Some(handle) = world.handles.get_mut(&self.number) {
                handle.is_stopping = true;
            }
        });
    }

    fn finalize(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            match self.fake.change(|world| world.final_gates.pop_front()) {
                Some(gate) => gate.notified().await,
                None => tokio::task::yield_now().await,
            }
            self.fake.change(|world| {
                if let Some(handle) = world.handles.get_mut(&self.number) {
                    handle.is_final = true;
                }
            });
        })
    }
}

/// A poll under way.
struct Polling<'a> {
    handle: &'a FakeHandle,
    kind: usize,
    is_answered: bool,
}

impl<'a> Polling<'a> {
    fn begin(handle: &'a FakeHandle, kind: usize) -> Self {
        if handle.polls[kind].swap(true, Ordering::SeqCst) {
            handle.complain("two polls of one kind at a time");
        }
        Self {
            handle,
            kind,
            is_answered: false,
        }
    }
}

impl Drop for Polling<'_> {
    fn drop(&mut self) {
        self.handle.polls[self.kind].store(false, Ordering::SeqCst);
        if !self.is_answered && !std::thread::panicking() {
            self.handle.complain("a poll was dropped in flight");
        }
    }
}
