//! What an application says about itself: events, state, health.
//!
//! *Live* means that restarting the process would not help: its engine threads answer, or others
//! took their shards over. *Ready* means that it takes work: started, not stopping, its store and
//! its backends answer. Both come with reasons, each with its next step.

use std::fmt;

use outlast_model::view::Description;
use outlast_service::clock::{Clock as _, SystemClock};
use outlast_worker::standing::{Life, Standing};
use outlast_worker::state::WorkerState;
use outlast_worker::{Bus, Events, Settings, Severity};
use tokio::sync::watch;

use crate::client::App;
use crate::why::{self, Answer, Around};

/// Why an application is not well.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HealthReason {
    /// It has not started yet.
    NotStarted,
    /// It goes down, or is down.
    Stopping,
    /// No thread drives this shard: all of them are inside user code.
    ShardSilent {
        /// Which.
        shard: usize,
    },
    /// The store takes nothing: its disk is full, or it failed and is being opened anew.
    StoreAway {
        /// What it said.
        error: String,
    },
    /// A backend does not answer.
    BackendAway {
        /// Which.
        backend: String,
        /// What it said.
        error: String,
    },
    /// It serves no queue.
    NoQueue,
    /// The tokio runtime that it was started on has ended.
    RuntimeGone,
    /// Too many attempts ignore that they should stop.
    ZombieLimit {
        /// How many.
        zombies: usize,
    },
}

impl HealthReason {
    /// What to do about it.
    pub fn next_step(&self) -> &'static str {
        match self {
            Self::NotStarted => "wait",
            Self::Stopping => "wait for its end; runs go on when it starts again",
            Self::ShardSilent { .. } => {
                "restart the process, and move what blocks workflow code to activities; \
                 raise worker.spare_threads"
            }
            Self::StoreAway { .. } => "look at the disk of the database file; it is tried again",
            Self::BackendAway { .. } => "look at the server and the way to it; it is tried again",
            Self::NoQueue => "register a workflow or an activity",
            Self::RuntimeGone => {
                "start it again on a runtime that lives as long as it does, and stop it before that ends"
            }
            Self::ZombieLimit { .. } => {
                "restart the process, and fix the code that ignores cancellation"
            }
        }
    }

    /// Whether a restart is the remedy.
    fn is_deadly(&self) -> bool {
        match self {
            Self::ShardSilent { .. } | Self::RuntimeGone | Self::ZombieLimit { .. } => true,
            Self::NotStarted
            | Self::Stopping
            | Self::StoreAway { .. }
            | Self::BackendAway { .. }
            | Self::NoQueue => false,
        }
    }
}

impl fmt::Display for HealthReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotStarted => f.write_str("it has not started yet"),
            Self::Stopping => f.write_str("it goes down"),
            Self::ShardSilent { shard } => {
                write!(
                    f,
                    "no thread drives shard {shard}: all are inside user code"
                )
            }
            Self::StoreAway { error } => write!(f, "the store takes nothing: {error}"),
            Self::BackendAway { backend, error } => write!(f, "{backend} does not answer: {error}"),
            Self::NoQueue => f.write_str("it serves no queue"),
            Self::RuntimeGone => f.write_str("the tokio runtime that it was started on has ended"),
            Self::ZombieLimit { zombies } => {
                write!(f, "{zombies} attempts ignore that they should stop")
            }
        }?;
        write!(f, "; {}", self.next_step())
    }
}

/// Whether an application is well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// Restarting it would not help.
    pub live: bool,
    /// It takes work.
    pub ready: bool,
    /// Why not, if not.
    pub reasons: Vec<HealthReason>,
}

impl Health {
    fn of(reasons: Vec<HealthReason>) -> Self {
        Self {
            live: !reasons.iter().any(HealthReason::is_deadly),
            ready: reasons.is_empty(),
            reasons,
        }
    }

    /// From how its worker stands.
    fn judge(state: &WorkerState, limit: std::time::Duration) -> Self {
        let standing = &state.standing;
        let mut reasons = Vec::new();
        match standing.life {
            Life::New | Life::Starting => reasons.push(HealthReason::NotStarted),
            Life::Running if standing.queues.is_empty() => reasons.push(HealthReason::NoQueue),
            Life::Running => {}
            Life::Stopping(_) | Life::Stopped => reasons.push(HealthReason::Stopping),
        }
        let silent = state.silent_shards(limit).into_iter();
        reasons.extend(silent.map(|shard| HealthReason::ShardSilent { shard }));
        if let Some(error) = standing.store.clone() {
            reasons.push(HealthReason::StoreAway { error });
        }
        for (backend, error) in &standing.away {
            let (backend, error) = (backend.clone(), error.clone());
            reasons.push(HealthReason::BackendAway { backend, error });
        }
        if standing.is_without_runtime {
            reasons.push(HealthReason::RuntimeGone);
        }
        if standing.is_over_zombie_limit {
            let zombies = standing.zombies().len();
            reasons.push(HealthReason::ZombieLimit { zombies });
        }
        Self::of(reasons)
    }
}

impl App {
    /// What its worker does that somebody should know, of at least this severity, from now on.
    pub fn events(&self, least: Severity) -> Events {
        match self.running() {
            Some(running) => running.worker.bus().subscribe(least),
            // Without a worker there is nothing to hear: the subscription has ended.
            None => Bus::default().subscribe(least),
        }
    }

    /// How its worker stands; `None` for a client without one.
    pub fn worker_state(&self) -> Option<WorkerState> {
        Some(self.running()?.state())
    }

    /// Says when what is wrong with its worker changes, or how far its life is.
    pub fn watch_state(&self) -> StateWatch {
        let bus = match self.running() {
            Some(running) => running.worker.bus().clone(),
            None => Bus::default(),
        };
        StateWatch { watch: bus.watch() }
    }

    /// Why a run that was just described does not move, seen from this process.
    pub(crate) fn why(&self, run: &Description) -> Vec<Answer> {
        let Some(running) = self.running() else {
            return why::reasons(run, &Around::Elsewhere, SystemClock.now(), "");
        };
        let worker = running.state();
        let around = Around::Here { worker: &worker };
        let service = running.service.as_ref();
        let now = service.map_or_else(|| SystemClock.now(), |service| service.now());
        why::reasons(run, &around, now, "")
    }

    /// Whether it is well. A client without a worker is: there is nothing to restart.
    pub fn health(&self) -> Health {
        let Some(running) = self.running() else {
            return Health::of(Vec::new());
        };
        let limit = running.worker.settings().deadlock_timeout;
        let limit = limit.max(Settings::default().deadlock_warning);
        Health::judge(&running.state(), limit)
    }
}

/// Changes of how a worker stands. Only the newest counts: what came and went meanwhile is in the
/// events.
#[derive(Debug)]
pub struct StateWatch {
    watch: watch::Receiver<Standing>,
}

impl StateWatch {
    /// How it stands, once that has changed; `None` when the worker is gone.
    pub async fn next(&mut self) -> Option<Standing> {
        self.watch.changed().await.ok()?;
        Some(self.watch.borrow_and_update().clone())
    }
}

#[cfg(test)]
mod tests;
