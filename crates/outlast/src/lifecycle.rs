//! The life of an application: a repair, and its end.

use outlast_model::QueueName;
use outlast_worker::Pace;
use tokio::sync::oneshot;

use crate::client::App;
use crate::embedded::Running;
use crate::error::{Error, Result};
use crate::signals::ShutdownSignal;

/// How an application ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stopped {
    /// What was still in user code when nobody waited any longer, by name. Nothing it still does
    /// counts.
    pub left_behind: Vec<String>,
    /// Whether it was asked three times, and did not wait for its end.
    pub is_forced: bool,
}

impl Stopped {
    /// For a `main` that should fail when something did not end.
    ///
    /// # Errors
    /// Names what did not end.
    pub fn into_result(self) -> Result<()> {
        if self.is_forced {
            return Err(Error::msg("stopped by force: what ran is tried again"));
        }
        if self.left_behind.is_empty() {
            return Ok(());
        }
        let all = self.left_behind.join("; ");
        Err(Error::msg(format!("stopped, but this did not end: {all}")))
    }
}

impl App {
    /// A repair: the pollers of this queue begin anew, and its connection to the cluster is
    /// replaced. What they had in hand goes on, and is answered over the old one; what was on its
    /// way to us comes again by its time limit. It happens by itself when a connection breaks
    /// ([`WorkerEvent::QueueRecycled`](crate::WorkerEvent)). Says whether the queue is served here
    /// over a connection; embedded, there is none.
    pub fn recycle(&self, queue: &str) -> bool {
        let queue = QueueName::new(queue);
        self.running()
            .is_some_and(|running| running.recycle(&queue))
    }

    /// Stops in order: no new work is handed out; running attempts may finish; then they are told
    /// to stop, and are handed back; instances leave memory; the store is closed. Each phase has a
    /// time, see the settings `shutdown.*`, and so has the whole: a listener or a store that does
    /// not come back is named and left behind too. Runs go on when the application starts again.
    ///
    /// It goes on when the future is dropped. Asked for twice, both wait for the same end.
    pub async fn shutdown(&self) -> Stopped {
        self.stop(Pace::Orderly).await
    }

    /// As [`shutdown`](Self::shutdown), but running attempts are told to stop at once. Also for a
    /// shutdown that is under way.
    pub async fn shutdown_now(&self) -> Stopped {
        self.stop(Pace::Hurried).await
    }

    /// As [`shutdown`](Self::shutdown); the next signal makes it a
    /// [`shutdown_now`](Self::shutdown_now), the one after that returns at once.
    pub async fn shutdown_with(&self, signal: &mut ShutdownSignal) -> Stopped {
        let ending = self.shutdown();
        tokio::pin!(ending);
        tokio::select! {
            stopped = &mut ending => return stopped,
            () = signal.recv() => {}
        }
        if let Some(running) = self.running() {
            running.hurry(Pace::Hurried);
        }
        tokio::select! {
            stopped = &mut ending => stopped,
            () = signal.recv() => Stopped { is_forced: true, ..Stopped::default() },
        }
    }

    /// On a thread of its own: it needs no runtime, and goes on if nobody waits.
    async fn stop(&self, pace: Pace) -> Stopped {
        let Some(running) = self
            .kept()
            .cloned()
            .and_then(|k| k.downcast::<Running>().ok())
        else {
            return Stopped::default();
        };
        let (sender, ended) = oneshot::channel();
        let kept = running.clone();
        let stop = move || {
            let left_behind = running.stop_in_time(pace);
            // Whoever asked may no longer listen.
            drop(sender.send(left_behind));
        };
        let thread = std::thread::Builder::new().name("outlast-stop".into());
        let left_behind = match thread.spawn(stop) {
            Ok(_) => {
                drop(kept);
                ended.await.unwrap_or_default()
            }
            // No room for a thread: here, then.
            Err(_) => kept.stop(pace).to_vec(),
        };
        if let Some(witness) = self.witness() {
            witness.speak();
        }
        Stopped {
            left_behind,
            is_forced: false,
        }
    }

    /// Returns when too many attempts ignore that they should stop: the application goes down by
    /// itself then, and what it left behind says why.
    pub(crate) async fn is_unfit(&self) {
        let Some(running) = self.running() else {
            return std::future::pending().await;
        };
        let mut standing = running.worker.bus().watch();
        // A bus that is gone says nothing more.
        drop(standing.wait_for(|s| s.is_over_zombie_limit).await);
    }

    /// Commits and groups of commits so far.
    #[doc(hidden)]
    pub fn written(&self) -> (u64, u64) {
        let service = self.running().and_then(|it| it.service.as_ref());
        service.map_or((0, 0), |service| service.written())
    }

    /// Makes the engine look at the clock.
    pub(crate) fn look(&self) {
        if let Some(service) = self.running().and_then(|it| it.service.as_ref()) {
            service.look();
        }
    }

    pub(crate) fn running(&self) -> Option<&Running> {
        self.kept()?.downcast_ref::<Running>()
    }
}
