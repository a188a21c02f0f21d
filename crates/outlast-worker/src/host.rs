//! What a worker asks of the process it lives in: to hear where code panics, and that the async
//! runtime it was started on lives as long as it does.
//!
//! A runtime that ends drops its tasks in silence: attempts under way are gone, those that begin
//! never come to their first poll. A task of ours is dropped with them and says so. The end of the
//! program looks the same for a moment, so the owner has that long to stop the worker itself.

use std::sync::{Arc, Once, Weak};
use std::time::Duration;

use tokio::task::AbortHandle;

use crate::event::WorkerEvent;
use crate::shutdown::{Pace, Phase};
use crate::worker::Worker;

/// From here on panics of workflow code are known by their line. Set once; a program that sets a
/// hook of its own later replaces this one, and only the line is lost.
pub(crate) fn hear_panics() {
    static SET: Once = Once::new();
    if std::thread::panicking() {
        // A hook cannot be set now.
        return;
    }
    SET.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            outlast_runtime::panic::began_at(panic.location());
            before(panic);
        }));
    });
}

/// How long the owner has to stop the worker whose runtime ends.
const PATIENCE: Duration = Duration::from_millis(100);

/// A task of the runtime that ends with it.
#[derive(Debug)]
pub(crate) struct Tether(AbortHandle);

impl Tether {
    pub(crate) fn fasten(worker: &Arc<Worker>) -> Self {
        let cut = Cut(Arc::downgrade(worker));
        let task = worker.dispatcher.runtime.spawn(async move {
            std::future::pending::<()>().await;
            drop(cut);
        });
        Self(task.abort_handle())
    }
}

impl Drop for Tether {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Dropped when the runtime is, or when the worker has stopped.
struct Cut(Weak<Worker>);

impl Drop for Cut {
    fn drop(&mut self) {
        let serving = |worker: &Arc<Worker>| worker.phase() == Phase::Serving;
        if let Some(worker) = self.0.upgrade().filter(serving) {
            // What would begin now would be lost.
            worker.dispatcher.drain();
            let me = Arc::downgrade(&worker);
            drop(worker.spawn("outlast-unfit", move || stop_unless_stopped(&me)));
        }
    }
}

fn stop_unless_stopped(worker: &Weak<Worker>) {
    let Some(worker) = worker.upgrade() else {
        return;
    };
    if worker.ending.leaves_within(Phase::Serving, PATIENCE) {
        return;
    }
    worker.bus().emit(WorkerEvent::RuntimeGone);
    // Nothing that runs can finish.
    worker.hurry(Pace::Hurried);
    worker.act_unfit();
}
