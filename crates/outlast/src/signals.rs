//! When a process is asked to stop: by SIGINT or SIGTERM, or by the program itself.

use tokio::sync::mpsc;

/// Hears that the process should stop, each time it is asked.
#[derive(Debug)]
pub struct ShutdownSignal {
    asked: mpsc::UnboundedReceiver<()>,
}

/// Asks a program to stop, in place of a signal. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ShutdownTrigger {
    ask: mpsc::UnboundedSender<()>,
}

impl ShutdownTrigger {
    /// Asks once more.
    pub fn fire(&self) {
        // Where nobody listens any more, it has stopped.
        self.ask.send(()).unwrap_or_default();
    }
}

impl ShutdownSignal {
    /// From here on SIGINT and SIGTERM no longer end the process: they are heard here. Needs a
    /// runtime of tokio with I/O.
    ///
    /// # Errors
    /// When the system does not let signals be heard.
    pub fn listen() -> std::io::Result<Self> {
        let (trigger, signal) = Self::manual();
        #[cfg(unix)]
        {
            use tokio::signal::unix::{SignalKind, signal};
            let mut interrupt = signal(SignalKind::interrupt())?;
            let mut terminate = signal(SignalKind::terminate())?;
            tokio::spawn(async move {
                while !trigger.ask.is_closed() {
                    tokio::select! {
                        _ = interrupt.recv() => trigger.fire(),
                        _ = terminate.recv() => trigger.fire(),
                        () = trigger.ask.closed() => {}
                    }
                }
            });
        }
        #[cfg(not(unix))]
        tokio::spawn(async move {
            while tokio::signal::ctrl_c().await.is_ok() && !trigger.ask.is_closed() {
                trigger.fire();
            }
        });
        Ok(signal)
    }

    /// For programs that are told to stop in another way.
    pub fn manual() -> (ShutdownTrigger, Self) {
        let (ask, asked) = mpsc::unbounded_channel();
        (ShutdownTrigger { ask }, Self { asked })
    }

    /// Waits until the process is asked to stop, or asked again. If nobody can ask any more it
    /// waits for ever. Nothing is lost if it is dropped before.
    pub async fn recv(&mut self) {
        if self.asked.recv().await.is_none() {
            std::future::pending::<()>().await;
        }
    }
}
