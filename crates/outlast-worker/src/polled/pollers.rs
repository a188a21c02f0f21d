//! The two pollers of a queue. They take from the owner and put on the board or among the claims;
//! between the two there is no point at which they can die. One that dies elsewhere is reported
//! and begins again; slices and attempts notice nothing. They stay until nothing of the queue is
//! left: a handle that stops still sends what must be answered.

use std::any::Any;
use std::collections::BTreeMap;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, MutexGuard, PoisonError};

use outlast_model::Failure;
use outlast_model::event::TaskFailedCause;
use outlast_model::task::AttemptResult;
use tokio::task::AbortHandle;

use super::Inner;
use crate::event::WorkerEvent;
use crate::handle::{Completion, PolledActivity};
use crate::owner::entry::State;
use crate::running::panicked;

/// Keeps a poller alive until it leaves by itself.
pub(super) fn keep_polling<F>(
    inner: &Arc<Inner>,
    part: &'static str,
    poller: impl Fn(Arc<Inner>) -> F + Send + 'static,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let me = inner.clone();
    drop(inner.runtime.spawn(async move {
        let mut panics = 0;
        loop {
            let task = me.runtime.spawn(poller(me.clone()));
            me.pollers().insert(part, task.abort_handle());
            let Err(error) = task.await else {
                me.pollers().remove(part);
                return;
            };
            panics += u32::from(error.is_panic());
            me.restarted(part, &error.to_string());
            tokio::time::sleep(me.owner.pause_after(panics)).await;
        }
    }));
}

/// From the owner to the board. A place is free before anything is asked for.
pub(super) async fn poll_activations(inner: Arc<Inner>) {
    loop {
        let Ok(place) = inner.places.acquire().await else {
            return;
        };
        let Ok(polled) = inner.owner.next_activation(&inner.queue).await else {
            drop(place);
            if inner.owner.state(&inner.queue) == State::Absent {
                return;
            }
            continue;
        };
        // Given back with the answer.
        place.forget();
        let (generation, run_id) = (polled.generation, polled.item.run_id);
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| inner.arrive(polled))) {
            let completion = Completion::Failed {
                cause: TaskFailedCause::WorkerUnhandledFailure,
                failure: inner.panicked("the poller of activations", panic),
            };
            let (owner, queue) = (&inner.owner, &inner.queue);
            owner.complete_activation(queue, generation, run_id, completion, Box::new(drop));
            inner.places.add_permits(1);
        }
    }
}

/// From the owner to the claims.
pub(super) async fn poll_activities(inner: Arc<Inner>) {
    loop {
        let Ok(polled) = inner.owner.next_activity(&inner.queue).await else {
            if inner.owner.state(&inner.queue) == State::Absent {
                return;
            }
            continue;
        };
        let generation = polled.generation;
        let started = match &polled.item {
            PolledActivity::Start(token, _) => Some(token.clone()),
            PolledActivity::Cancel(..) => None,
        };
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| inner.arrive_attempt(polled))) {
            let failure = inner.panicked("the poller of activities", panic);
            if let Some(token) = started {
                let result = AttemptResult::Failed(failure);
                let (owner, queue) = (&inner.owner, &inner.queue);
                owner.complete_activity(queue, generation, token, result, Box::new(drop));
            }
        }
    }
}

impl Inner {
    /// A panic is reported, and fails what it was about.
    pub(super) fn panicked(&self, part: &'static str, panic: Box<dyn Any + Send>) -> Failure {
        let failure = panicked(panic);
        self.restarted(part, &failure.to_string());
        failure
    }

    fn restarted(&self, part: &'static str, reason: &str) {
        self.owner.bus().emit(WorkerEvent::PartRestarted {
            queue: self.queue.clone(),
            text: format!("{part} begins again: {reason}"),
        });
    }

    pub(super) fn pollers(&self) -> MutexGuard<'_, BTreeMap<&'static str, AbortHandle>> {
        self.pollers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
