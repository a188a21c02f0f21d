//! What the events of a worker add up to: the fold of all of them, so that health, state and
//! metrics cannot say anything else than the log did.
//!
//! New -starting-> Starting -started-> Running -stopping-> Stopping(phase) -stopped-> Stopped
//!
//! Beside the phase it holds what is wrong now: backends that do not answer, a store that takes
//! nothing, runs that are stuck, zombies.

use std::collections::{BTreeMap, BTreeSet};

use outlast_model::task::AttemptKind;
use outlast_model::{Attempt, QueueName, RunId, Seq, WorkflowType};

use crate::event::{AttemptIn, StopPhase, Stuck, WorkerEvent};

/// How far the life of a worker is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Life {
    /// It was made and takes no work.
    #[default]
    New,
    /// Its threads are being started.
    Starting,
    /// It works.
    Running,
    /// It goes down.
    Stopping(StopPhase),
    /// It is down.
    Stopped,
}

type AttemptKey = (RunId, AttemptKind, Seq, Attempt);

/// What the events so far add up to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// How far its life is.
    pub life: Life,
    /// Queues that it serves.
    pub queues: BTreeSet<QueueName>,
    /// Backends that do not answer, and what they said.
    pub away: BTreeMap<String, String>,
    /// What the store said that takes nothing at the moment.
    pub store: Option<String>,
    /// Runs whose code was given up and has not come back.
    pub stuck: BTreeMap<RunId, Stuck>,
    /// Workflow types that are blocked, and how many threads have not come back from their code.
    pub blocked_types: BTreeMap<WorkflowType, usize>,
    /// Too many zombies: it goes down.
    pub is_over_zombie_limit: bool,
    /// The async runtime that it was started on has ended: it goes down.
    pub is_without_runtime: bool,
    /// Workers that have started and not stopped: on a cluster each queue has one.
    workers: usize,
    /// Threads that came back before it was heard that they were given up: the one is told by the
    /// thread, the other by the watchdog.
    early: BTreeSet<(RunId, String)>,
    zombies: BTreeMap<AttemptKey, AttemptIn>,
    counts: BTreeMap<&'static str, u64>,
}

impl Standing {
    /// Attempts that should have ended and have not.
    pub fn zombies(&self) -> impl ExactSizeIterator<Item = &AttemptIn> {
        self.zombies.values()
    }

    /// How often each kind of event happened, by name.
    pub fn counts(&self) -> &BTreeMap<&'static str, u64> {
        &self.counts
    }

    /// Takes one event in. Says whether there is something new but the count.
    pub(crate) fn hear(&mut self, event: &WorkerEvent) -> bool {
        *self.counts.entry(event.name()).or_default() += 1;
        match event {
            WorkerEvent::Starting => self.workers == 0 && self.enter(Life::Starting),
            WorkerEvent::Started { .. } => {
                self.workers += 1;
                self.enter(Life::Running)
            }
            WorkerEvent::Stopping { phase, .. } => self.enter(Life::Stopping(*phase)),
            WorkerEvent::Stopped { .. } => {
                self.workers = self.workers.saturating_sub(1);
                self.workers == 0 && self.enter(Life::Stopped)
            }
            WorkerEvent::QueueRegistered { queue } => self.queues.insert(queue.clone()),
            WorkerEvent::QueueUnregistered { queue } => self.queues.remove(queue),
            WorkerEvent::BackendUnavailable { backend, error, .. } => {
                let said = self.away.insert(backend.clone(), error.clone());
                said.as_ref() != Some(error)
            }
            WorkerEvent::BackendBack { backend, .. } => self.away.remove(backend).is_some(),
            WorkerEvent::StoreAway { error, .. } => {
                self.store.replace(error.clone()).as_ref() != Some(error)
            }
            WorkerEvent::StoreBack { .. } => self.store.take().is_some(),
            WorkerEvent::StuckGivenUp(stuck) => self.give_up(stuck),
            WorkerEvent::ThreadReturned(stuck) => self.take_back(stuck),
            WorkerEvent::TypeBlocked {
                workflow_type,
                threads,
            } => {
                let before = self.blocked_types.insert(workflow_type.clone(), *threads);
                before.is_none()
            }
            WorkerEvent::TypeReleased { workflow_type } => {
                self.blocked_types.remove(workflow_type).is_some()
            }
            WorkerEvent::Zombie { attempt, .. } => {
                let before = self.zombies.insert(key(attempt), attempt.clone());
                before.is_none()
            }
            // One that is given up is still there: nobody waits for it any longer.
            WorkerEvent::ZombieEnded { attempt, .. } => {
                self.zombies.remove(&key(attempt)).is_some()
            }
            WorkerEvent::ZombieLimit { .. } => {
                !std::mem::replace(&mut self.is_over_zombie_limit, true)
            }
            WorkerEvent::RuntimeGone => !std::mem::replace(&mut self.is_without_runtime, true),
            WorkerEvent::ThreadFailed { .. }
            | WorkerEvent::QueueRecycled { .. }
            | WorkerEvent::SlowSlice(_)
            | WorkerEvent::ShardTakenOver { .. }
            | WorkerEvent::DeadlockWarning(_)
            | WorkerEvent::CancelIgnored { .. }
            | WorkerEvent::ZombieGivenUp { .. }
            | WorkerEvent::PanicCaught { .. }
            | WorkerEvent::CodeWarning { .. }
            | WorkerEvent::TaskFailed { .. }
            | WorkerEvent::RunBlocked { .. }
            | WorkerEvent::NotRegistered { .. }
            | WorkerEvent::FailsAgain { .. }
            | WorkerEvent::Evicted { .. }
            | WorkerEvent::SlotsExhausted { .. }
            | WorkerEvent::AnswerDropped { .. }
            | WorkerEvent::PartRestarted { .. }
            | WorkerEvent::LogHeld { .. }
            | WorkerEvent::Missed { .. } => false,
        }
    }

    fn give_up(&mut self, stuck: &Stuck) -> bool {
        if self.early.remove(&(stuck.run.run_id, stuck.thread.clone())) {
            return false;
        }
        self.stuck.insert(stuck.run.run_id, stuck.clone());
        true
    }

    fn take_back(&mut self, stuck: &Stuck) -> bool {
        let run_id = stuck.run.run_id;
        if self.stuck.get(&run_id).map(|known| &known.thread) == Some(&stuck.thread) {
            return self.stuck.remove(&run_id).is_some();
        }
        self.early.insert((run_id, stuck.thread.clone()));
        false
    }

    fn enter(&mut self, phase: Life) -> bool {
        std::mem::replace(&mut self.life, phase) != phase
    }
}

fn key(attempt: &AttemptIn) -> AttemptKey {
    (attempt.run_id, attempt.kind, attempt.seq, attempt.attempt)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::tests::{all, zombies};
    use std::time::Duration;

    #[test]
    fn every_event_counts_once() {
        let mut standing = Standing::default();
        let events = all();
        for event in &events {
            standing.hear(event);
        }
        assert_eq!(standing.counts().len(), events.len());
        assert!(standing.counts().values().all(|count| *count == 1));
    }

    #[test]
    fn a_life_goes_from_new_to_stopped() {
        let mut standing = Standing::default();
        let mut lives = vec![standing.life];
        for event in all() {
            if standing.hear(&event) && lives.last() != Some(&standing.life) {
                lives.push(standing.life);
            }
        }
        let stopping = Life::Stopping(StopPhase::Cancelling);
        let life = [Life::New, Life::Starting, Life::Running, stopping];
        assert_eq!(lives, [life.as_slice(), &[Life::Stopped]].concat());
    }

    #[test]
    fn of_several_workers_the_first_starts_and_the_last_stops() {
        let (started, stopped) = (
            WorkerEvent::Started { shards: 1 },
            WorkerEvent::Stopped {
                left_behind: Vec::new(),
            },
        );
        let starting = WorkerEvent::Starting;
        let mut standing = Standing::default();
        let mut life = |event: &WorkerEvent| {
            standing.hear(event);
            standing.life
        };
        assert_eq!(
            [life(&starting), life(&started)],
            [Life::Starting, Life::Running]
        );
        assert_eq!([life(&starting), life(&started)], [Life::Running; 2]);
        assert_eq!(
            [life(&stopped), life(&stopped)],
            [Life::Running, Life::Stopped]
        );
    }

    #[test]
    fn what_is_wrong_is_forgotten_when_it_is_right_again() {
        let mut standing = Standing::default();
        let mut heard = |event: &WorkerEvent| standing.hear(event);
        for event in all() {
            heard(&event);
        }
        assert!(standing.away.is_empty() && standing.stuck.is_empty());
        assert!(standing.blocked_types.is_empty());
        assert_eq!(standing.store, None);
        assert!(standing.queues.is_empty());
        assert_eq!(standing.zombies().len(), 0);
    }

    #[test]
    fn a_thread_that_is_back_before_it_is_heard_that_it_was_given_up_is_not_stuck() {
        let mut standing = Standing::default();
        let events = all();
        let is_back = |event: &&WorkerEvent| matches!(event, WorkerEvent::ThreadReturned(_));
        let Some(WorkerEvent::ThreadReturned(stuck)) = events.iter().find(is_back) else {
            panic!("there is one of each");
        };
        standing.hear(&WorkerEvent::ThreadReturned(stuck.clone()));
        standing.hear(&WorkerEvent::StuckGivenUp(stuck.clone()));
        assert!(standing.stuck.is_empty());
        standing.hear(&WorkerEvent::StuckGivenUp(stuck.clone()));
        assert_eq!(standing.stuck.len(), 1, "once more, and not back yet");
    }

    #[test]
    fn a_zombie_that_is_given_up_is_still_there() {
        let events = zombies(Duration::from_secs(1));
        let mut standing = Standing::default();
        for event in &events {
            if !matches!(event, WorkerEvent::ZombieEnded { .. }) {
                standing.hear(event);
            }
        }
        assert_eq!(standing.zombies().len(), 1);
        assert!(standing.is_over_zombie_limit);
    }
}
