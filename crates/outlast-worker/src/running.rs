//! The code of one attempt, run to its end: with a result, a failure, a panic, or because it was
//! told to stop and then dropped.

use std::any::Any;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use outlast_model::Failure;
use outlast_model::failure::type_name;
use outlast_model::task::{AttemptResult, StopReason};
use outlast_runtime::panic::{self, discard};
use tokio::task::{JoinError, JoinHandle};

use crate::life::Life;
use crate::stop::Stop;

/// The code of an attempt; its panic is a failure like any other.
pub(crate) enum Attempt {
    Async(Pin<Box<dyn Future<Output = AttemptResult> + Send>>),
    Blocking {
        thread: JoinHandle<AttemptResult>,
        /// The code waits there until the thread takes it; dropped with the seat, it never runs.
        _seat: Arc<Seat>,
    },
}

/// Where blocking code waits for its thread.
pub(crate) struct Seat(Mutex<Option<BlockingCode>>);

pub(crate) type BlockingCode = Box<dyn FnOnce() -> AttemptResult + Send>;

impl Seat {
    pub(crate) fn new(code: BlockingCode) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Some(code))))
    }

    fn take(&self) -> Option<BlockingCode> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// What the thread does that a blocking attempt waited for: nothing, if it was told to stop meanwhile.
pub(crate) fn on_thread(seat: &Weak<Seat>, life: &Arc<Life>) -> AttemptResult {
    let Some(inside) = life.enter() else {
        return AttemptResult::Canceled(None);
    };
    let code = seat.upgrade().and_then(|seat| seat.take());
    // Without a seat its task was dropped, and has said so.
    let result = code.map_or(AttemptResult::HandedBack, |code| code());
    drop(inside);
    result
}

impl Attempt {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<AttemptResult> {
        match self {
            Self::Async(future) => catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx)))
                .unwrap_or_else(|panic| Poll::Ready(AttemptResult::Failed(panicked(panic)))),
            Self::Blocking { thread, .. } => Pin::new(thread)
                .poll(cx)
                .map(|ended| ended.unwrap_or_else(|error| AttemptResult::Failed(lost(error)))),
        }
    }
}

/// Runs the attempt to its end; once told to stop it has the grace to do so, then it is dropped
/// at its next await. One that still waits for a thread needs no grace.
pub(crate) async fn until_stopped(
    mut attempt: Attempt,
    life: &Arc<Life>,
    grace: Duration,
) -> AttemptResult {
    // Made when the attempt first waits: most are done before.
    let mut expired: Option<Pin<Box<dyn Future<Output = ()> + Send>>> = None;
    let result = poll_fn(|cx| {
        if let Poll::Ready(result) = life.polled(|| attempt.poll(cx)) {
            return Poll::Ready(explained(result, life));
        }
        let expired = expired.get_or_insert_with(|| Box::pin(grace_is_over(life.clone(), grace)));
        let expired = expired.as_mut().poll(cx);
        expired.map(|()| AttemptResult::Canceled(None))
    })
    .await;
    // Its destructors are its code as well, and may hang or panic.
    life.polled(|| discard(attempt));
    as_asked(result, &life.stop)
}

async fn grace_is_over(life: Arc<Life>, grace: Duration) {
    life.stop.wait().await;
    if life.forgo() {
        return;
    }
    tokio::time::sleep(grace).await;
}

/// An attempt that stopped because its worker goes down, or because an operator holds the activity
/// up, is not cancelled: it is tried again, under its number, by whoever comes next. One that
/// ended in its own way has ended.
pub(crate) fn as_asked(result: AttemptResult, stop: &Stop) -> AttemptResult {
    use StopReason::{Paused, Reset, Shutdown};
    if !matches!(result, AttemptResult::Canceled(_)) {
        return result;
    }
    match stop.reason() {
        Some(Shutdown | Paused | Reset) => AttemptResult::HandedBack,
        Some(_) | None => result,
    }
}

/// Why a thread gave no result.
fn lost(error: JoinError) -> Failure {
    match error.try_into_panic() {
        Ok(panic) => panicked(panic),
        Err(error) => Failure::panic(error.to_string()),
    }
}

/// What tokio says to code that blocks a thread on which async code runs. Its two texts share this part.
const BLOCKS: &str = "while the thread is being used to drive asynchronous tasks";

/// Says who blocked a thread of the runtime, and what to do: tokio only says that.
fn explained(mut result: AttemptResult, life: &Life) -> AttemptResult {
    if let AttemptResult::Failed(failure) = &mut result
        && failure.type_name() == Some(type_name::PANIC)
        && failure.message.contains(BLOCKS)
    {
        let (what, fix) = (life.what(), life.how_to_block());
        let text = format!(
            "{what} blocks a thread that runs async code: {fix} ({})",
            failure.message
        );
        *failure = Failure::panic(text);
    }
    result
}

/// A panic, as a failure.
pub(crate) fn panicked(payload: Box<dyn Any + Send>) -> Failure {
    Failure::panic(panic::text(payload))
}

#[cfg(test)]
mod tests {
    use super::*;
    use StopReason::{Cancelled, NotFound, Paused, Reset, Shutdown, TimedOut};

    #[test]
    fn who_stops_for_an_operator_or_for_the_end_of_its_worker_begins_again_under_its_number() {
        let outcome = |reason, result: AttemptResult| {
            let stop = Stop::default();
            stop.fire(reason);
            as_asked(result, &stop)
        };
        let stopped = AttemptResult::Canceled(None);
        for reason in [Shutdown, Paused, Reset] {
            assert_eq!(outcome(reason, stopped.clone()), AttemptResult::HandedBack);
        }
        for reason in [Cancelled, TimedOut, NotFound] {
            assert_eq!(outcome(reason, stopped.clone()), stopped);
        }
        // Whoever ended in its own way has ended.
        let failed = AttemptResult::Failed(Failure::panic("on its own"));
        assert_eq!(outcome(Paused, failed.clone()), failed);
    }
}
