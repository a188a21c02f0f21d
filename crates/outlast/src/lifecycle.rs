//! The end of an application.

use crate::client::App;
use crate::embedded::Running;

impl App {
    /// Stops in order: no new work is handed out, running attempts are told, what is decided is
    /// made durable, the store is closed. Runs go on when the application starts again.
    pub async fn shutdown(&self) {
        let Some(keep) = self.kept().cloned() else {
            return;
        };
        let Ok(running) = keep.downcast::<Running>() else {
            return;
        };
        // A task that is lost with its runtime has nothing left to stop.
        drop(tokio::task::spawn_blocking(move || running.stop()).await);
    }

    /// Commits and groups of commits so far.
    #[doc(hidden)]
    pub fn written(&self) -> (u64, u64) {
        self.running()
            .map_or((0, 0), |running| running.service.written())
    }

    /// Makes the engine look at the clock.
    pub(crate) fn look(&self) {
        if let Some(running) = self.running() {
            running.service.look();
        }
    }

    pub(crate) fn running(&self) -> Option<&Running> {
        self.kept()?.downcast_ref::<Running>()
    }
}
