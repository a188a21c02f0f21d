//! What an application says about itself: events, state, health.

use outlast_worker::{Bus, Events, Severity};

use crate::client::App;

impl App {
    /// What its worker does that somebody should know, of at least this severity, from now on.
    pub fn events(&self, least: Severity) -> Events {
        match self.running() {
            Some(running) => running.worker.bus().subscribe(least),
            // Without a worker there is nothing to hear: the subscription has ended.
            None => Bus::default().subscribe(least),
        }
    }
}
