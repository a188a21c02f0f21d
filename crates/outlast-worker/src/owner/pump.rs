//! The poll of one handle and kind: it belongs to the owner and is never dropped in flight.
//!
//! It asks the backend only while a poller waits, so that nothing is claimed that nobody will
//! run; once the handle was told to stop it asks until the backend says that nothing is left.
//! What comes then, and nobody is there to take, is given back by the owner itself.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;

use outlast_model::Failure;
use outlast_model::event::TaskFailedCause;
use outlast_model::failure::type_name;
use outlast_model::task::AttemptResult;

use super::generation::{Call, Generation};
use super::line::{Line, Polled};
use super::queue::Queue;
use crate::handle::{
    BoxFuture, Completion, Handle, PollError, PolledActivation, PolledActivity, PolledWork,
};

/// Something that can be polled for.
pub(super) trait Pollable: Send + Sized + 'static {
    fn poll(handle: &dyn Handle) -> BoxFuture<'_, Result<Self, PollError>>;
    fn line(queue: &Queue) -> &Line<Self>;
    /// The answer that gives it back, if it needs one.
    fn give_back(self) -> Option<Call>;
}

/// Polls until the handle has stopped or is broken.
pub(super) async fn pump<T: Pollable>(queue: Arc<Queue>, generation: Arc<Generation>) {
    let line = T::line(&queue);
    let mut failures = 0;
    loop {
        wanted_or_stopping(line, &generation).await;
        match T::poll(&*generation.handle).await {
            Ok(item) => {
                failures = 0;
                queue.tell_back();
                generation.has_delivered.store(true, Ordering::Relaxed);
                deliver(&queue, &generation, item);
            }
            Err(PollError::Shutdown) => {
                if queue.is_attended() {
                    line.emptied().await;
                }
                return;
            }
            Err(PollError::Transient(text)) => {
                failures += 1;
                let pause = queue.pause_after(failures);
                queue.tell_away(text, pause);
                let mut stopping = generation.is_stopping.subscribe();
                // A handle that is told to stop is asked at once.
                drop(tokio::time::timeout(pause, stopping.wait_for(|is| *is)).await);
            }
            Err(PollError::Fatal(text)) => {
                queue.broken(&generation, text);
                return;
            }
        }
    }
}

async fn wanted_or_stopping<T>(line: &Line<T>, generation: &Generation) {
    let mut wanted = pin!(line.wanted());
    let mut stopping = generation.is_stopping.subscribe();
    let mut stopping = pin!(stopping.wait_for(|is| *is));
    std::future::poll_fn(|cx| {
        if wanted.as_mut().poll(cx).is_ready() || stopping.as_mut().poll(cx).is_ready() {
            return Poll::Ready(());
        }
        Poll::Pending
    })
    .await;
}

fn deliver<T: Pollable>(queue: &Queue, generation: &Arc<Generation>, item: T) {
    let line = T::line(queue);
    if generation.is_stopping() && !queue.is_attended() && !line.has_pollers() {
        if let Some(call) = item.give_back() {
            queue.answer_through(generation, call, Box::new(drop));
        }
        return;
    }
    line.put(Polled {
        generation: generation.number,
        item,
    });
}

impl Pollable for PolledActivation {
    fn poll(handle: &dyn Handle) -> BoxFuture<'_, Result<Self, PollError>> {
        handle.poll_activation()
    }

    fn line(queue: &Queue) -> &Line<Self> {
        &queue.activations
    }

    fn give_back(self) -> Option<Call> {
        let completion = match self.work {
            PolledWork::Evict { .. } => Completion::Evicted,
            PolledWork::Activate(_) | PolledWork::Ask(_) => Completion::Failed {
                cause: TaskFailedCause::WorkerUnhandledFailure,
                failure: Failure::application(type_name::WORKER_LOST, "the worker goes down"),
            },
        };
        Some(Call::Activation(self.run_id, completion))
    }
}

impl Pollable for PolledActivity {
    fn poll(handle: &dyn Handle) -> BoxFuture<'_, Result<Self, PollError>> {
        handle.poll_activity()
    }

    fn line(queue: &Queue) -> &Line<Self> {
        &queue.activities
    }

    fn give_back(self) -> Option<Call> {
        match self {
            Self::Start(token, _) => Some(Call::Activity(token, AttemptResult::HandedBack)),
            // Nobody runs it.
            Self::Cancel(..) => None,
        }
    }
}
