//! How a worker stands right now: what its events add up to, and the numbers of this moment.

use std::time::Duration;

use outlast_model::QueueName;
use outlast_model::task::SlotKind;

use crate::standing::{Life, Standing};
use crate::worker::Worker;

/// Slots and what they are called. Slices are counted only where they could outnumber their slots.
const KINDS: [(SlotKind, &str); 3] = [
    (SlotKind::Workflow, "slice"),
    (SlotKind::Activity, "activity"),
    (SlotKind::Step, "step"),
];

/// The slots of one kind of one task queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotState {
    /// The queue.
    pub queue: QueueName,
    /// `slice`, `activity` or `step`.
    pub kind: &'static str,
    /// In use.
    pub used: usize,
    /// There are at most, if that is known.
    pub slots: Option<usize>,
}

/// One engine thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadState {
    /// The shard it drives or drove.
    pub shard: usize,
    /// For how long it has been inside one part of a task: a slice of workflow code, or a recorded
    /// activation that is replayed.
    pub inside: Option<Duration>,
    /// Whether it was abandoned: what it still produces does not count.
    pub is_given_up: bool,
    /// Instances it holds.
    pub cached: usize,
}

/// How a worker stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerState {
    /// What its events add up to: phase, queues, what is wrong.
    pub standing: Standing,
    /// Shards that want a thread.
    pub shards: usize,
    /// Engine threads that are there.
    pub threads: Vec<ThreadState>,
    /// Engine threads that hold a stack: at work, stuck, or ended and not yet joined.
    pub stacks: usize,
    /// Threads that may take over a shard, at the most.
    pub spare_threads: usize,
    /// Slots by queue and kind.
    pub slots: Vec<SlotState>,
    /// Attempts that run, steps among them.
    pub attempts: usize,
}

impl WorkerState {
    /// Together with another worker of the same application; its shards are counted on.
    #[must_use]
    pub fn beside(mut self, other: Self) -> Self {
        let first = self.shards;
        let theirs = other.threads.into_iter().map(|thread| ThreadState {
            shard: first + thread.shard,
            ..thread
        });
        self.threads.extend(theirs);
        self.shards += other.shards;
        self.stacks += other.stacks;
        self.spare_threads += other.spare_threads;
        self.slots.extend(other.slots);
        self.attempts += other.attempts;
        self
    }

    /// Instances in memory.
    pub fn cached(&self) -> usize {
        self.threads.iter().map(|thread| thread.cached).sum()
    }

    /// How many slots of activities a queue has, if all of them are taken.
    pub fn full_activity_slots(&self, queue: &QueueName) -> Option<usize> {
        let is_it = |slots: &&SlotState| slots.queue == *queue && slots.kind == "activity";
        let slots = self.slots.iter().find(is_it)?;
        slots.slots.filter(|most| slots.used >= *most)
    }

    /// Shards whose every thread has been inside user code for so long: nobody answers there.
    pub fn silent_shards(&self, limit: Duration) -> Vec<usize> {
        if self.standing.life != Life::Running {
            return Vec::new();
        }
        let answers = |thread: &&ThreadState| {
            !thread.is_given_up && thread.inside.is_none_or(|inside| inside < limit)
        };
        let mine = |shard| self.threads.iter().filter(move |t| t.shard == shard);
        // A thread that has just been started is not known yet.
        let is_silent =
            |shard: &usize| mine(*shard).next().is_some() && !mine(*shard).any(|t| answers(&t));
        (0..self.shards).filter(is_silent).collect()
    }
}

impl Worker {
    /// How it stands.
    pub fn state(&self) -> WorkerState {
        let settings = self.settings();
        let slots = self.queues().iter().flat_map(|queue| {
            KINDS.map(|(kind, name)| SlotState {
                queue: queue.name.clone(),
                kind: name,
                used: queue.slots.used(kind),
                slots: queue.slots.most(kind),
            })
        });
        WorkerState {
            standing: self.bus().standing(),
            shards: self.shards(),
            threads: self.threads_now(),
            stacks: self.stacks(),
            spare_threads: settings.spare_threads,
            slots: slots.collect(),
            attempts: self.attempts(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::WorkerEvent;

    fn state(inside: Option<Duration>) -> WorkerState {
        let mut standing = Standing::default();
        standing.hear(&WorkerEvent::Started { shards: 1 });
        let thread = ThreadState {
            shard: 0,
            inside,
            is_given_up: false,
            cached: 3,
        };
        WorkerState {
            standing,
            shards: 1,
            threads: vec![thread],
            stacks: 1,
            spare_threads: 2,
            slots: Vec::new(),
            attempts: 4,
        }
    }

    #[test]
    fn workers_of_one_application_add_up_and_each_shard_answers_for_itself() {
        let (limit, stuck) = (Duration::from_secs(2), Duration::from_secs(9));
        let both = state(None).beside(state(Some(stuck)));
        assert_eq!((both.shards, both.attempts, both.cached()), (2, 8, 6));
        assert_eq!(both.stacks, 2);
        assert_eq!(
            (both.spare_threads, both.silent_shards(limit)),
            (4, vec![1])
        );
    }
}
