//! Whoever should run it: what is known about them, and whether that is the reason.

use outlast_model::Timestamp;
use outlast_model::view::{Description, Waiting};
use outlast_worker::standing::Life;
use outlast_worker::state::WorkerState;

use super::Reason;

/// What is known about whoever should run it.
#[derive(Clone, Copy, Debug)]
pub enum Around<'a> {
    /// No process does.
    Nobody {
        /// The number of the process that last had its file.
        last: Option<u32>,
    },
    /// Some process may; what it does cannot be seen from here.
    Elsewhere,
    /// This process does.
    Here {
        /// How its worker stands.
        worker: &'a WorkerState,
    },
}

impl Around<'_> {
    /// Why nobody moves it, if something of it is due.
    pub(super) fn reasons(&self, run: &Description, now: Timestamp) -> Vec<(Reason, String)> {
        let is_due = run.waiting.iter().any(|waiting| wants_worker(waiting, now));
        match self {
            Self::Nobody { last } if is_due || run.waiting.iter().any(goes_with_process) => {
                vec![(Reason::NoWorker, nobody(*last))]
            }
            Self::Nobody { .. } | Self::Elsewhere => Vec::new(),
            Self::Here { worker } => {
                let mut reasons = zombies(run, worker);
                if is_due {
                    reasons.extend(not_taken(run, worker));
                    reasons.extend(no_slot(run, worker, now));
                }
                reasons.sort_by_key(|(reason, _)| *reason as u8);
                reasons
            }
        }
    }
}

fn nobody(last: Option<u32>) -> String {
    match last {
        Some(pid) => {
            format!("no process owns the file it is in: the one that did (pid {pid}) is gone")
        }
        None => "no process owns the file it is in".into(),
    }
}

/// Whether it is lost with the process that runs it.
fn goes_with_process(waiting: &Waiting) -> bool {
    match waiting {
        Waiting::ActivityRunning { .. } | Waiting::Step { .. } => true,
        Waiting::Task
        | Waiting::ActivityPending { .. }
        | Waiting::Timer { .. }
        | Waiting::ActivityOutside { .. }
        | Waiting::Child { .. }
        | Waiting::SignalExternal { .. }
        | Waiting::CancelExternal { .. }
        | Waiting::Update { .. }
        | Waiting::Message { .. } => false,
    }
}

/// Whether it would move if somebody took it now.
fn wants_worker(waiting: &Waiting, now: Timestamp) -> bool {
    match waiting {
        Waiting::Task => true,
        Waiting::ActivityPending { due, .. } | Waiting::Timer { due, .. } => *due <= now,
        Waiting::Step { .. }
        | Waiting::ActivityRunning { .. }
        | Waiting::ActivityOutside { .. }
        | Waiting::Child { .. }
        | Waiting::SignalExternal { .. }
        | Waiting::CancelExternal { .. }
        | Waiting::Update { .. }
        | Waiting::Message { .. } => false,
    }
}

fn not_taken(run: &Description, worker: &WorkerState) -> Vec<(Reason, String)> {
    let mut reasons = Vec::new();
    let (standing, queue) = (&worker.standing, &run.summary.queue);
    match standing.life {
        Life::Stopping(_) | Life::Stopped => {
            reasons.push((Reason::ShuttingDown, "the worker goes down".into()));
        }
        Life::New | Life::Starting => {
            reasons.push((Reason::NoWorker, "the worker has not started yet".into()));
        }
        Life::Running if !standing.queues.contains(queue) => {
            let text = format!("no worker here serves queue {queue}");
            reasons.push((Reason::NoWorker, text));
        }
        Life::Running => {}
    }
    if let Some(error) = &standing.store {
        let text = format!("the store takes nothing: {error}");
        reasons.push((Reason::BackendAway, text));
    }
    for (backend, error) in &standing.away {
        let text = format!("{backend} does not answer: {error}");
        reasons.push((Reason::BackendAway, text));
    }
    reasons
}

fn zombies(run: &Description, worker: &WorkerState) -> Vec<(Reason, String)> {
    let run_id = run.summary.run_id;
    let mine = worker.standing.zombies().filter(|z| z.run_id == run_id);
    mine.map(|attempt| {
        let text = format!("{attempt} was told to stop and goes on");
        (Reason::Zombie, text)
    })
    .collect()
}

fn no_slot(run: &Description, worker: &WorkerState, now: Timestamp) -> Option<(Reason, String)> {
    let is_due =
        |waiting: &&Waiting| matches!(waiting, Waiting::ActivityPending { due, .. } if *due <= now);
    run.waiting.iter().find(is_due)?;
    let queue = &run.summary.queue;
    let full = worker.full_activity_slots(queue)?;
    Some((
        Reason::SlotsBusy,
        format!("all {full} slots for activities of queue {queue} are taken"),
    ))
}
