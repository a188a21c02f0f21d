//! All attempts that this worker was given and that have not ended: who runs, and who waits in a
//! chunk to begin. Each can be told to stop.
//!
//! What is known of an attempt is made when it begins, by the thread that begins it: where
//! hundreds are handed out at once, the thread that hands them out has other things to do. One that
//! is told something before is known from then on.
//!
//! Locks are taken in this order: running, chunks, one chunk.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use foldhash::HashMap;
use outlast_model::task::{AttemptToken, StopReason};

use crate::chunk::{Chunk, Start};
use crate::event::AttemptIn;
use crate::life::Life;
use crate::queue::Queues;

/// Who runs.
pub(crate) type Running = HashMap<AttemptToken, Arc<Life>>;

/// All attempts that were given and have not ended.
pub(crate) struct Roll {
    queues: Arc<Queues>,
    running: Mutex<Running>,
    chunks: Mutex<Vec<Arc<Chunk>>>,
    /// Threads on their way to the backend with the ends of attempts that are no longer here.
    reports: AtomicUsize,
}

/// Held from before an attempt leaves the roll until the backend has heard of its end.
pub(crate) struct Report<'a>(&'a AtomicUsize);

impl Drop for Report<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Release);
    }
}

impl Roll {
    pub(crate) fn new(queues: Arc<Queues>) -> Self {
        Self {
            queues,
            running: Mutex::default(),
            chunks: Mutex::default(),
            reports: AtomicUsize::new(0),
        }
    }

    pub(crate) fn running(&self) -> MutexGuard<'_, Running> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// In any order.
    pub(crate) fn all_running(&self) -> Vec<(AttemptToken, Arc<Life>)> {
        let running = self.running();
        let all = running.iter().map(|(token, life)| (*token, life.clone()));
        all.collect()
    }

    /// These are known from here on.
    pub(crate) fn enter(&self, starts: &mut [Start]) {
        let mut running = self.running();
        for start in starts {
            self.known(&mut running, start);
        }
    }

    /// What is known of one that begins.
    pub(crate) fn life(&self, start: &mut Start) -> Arc<Life> {
        match start.life.take() {
            Some(life) => life,
            None => self.known(&mut self.running(), start).clone(),
        }
    }

    /// These wait to begin.
    pub(crate) fn wait(&self, chunk: Arc<Chunk>) {
        self.chunks().push(chunk);
    }

    /// Their turn has come.
    pub(crate) fn begin(&self, chunk: &Chunk, now: Instant) {
        let mut running = self.running();
        chunk.begin(now);
        chunk.for_each_waiting(|start| {
            self.known(&mut running, start);
        });
    }

    /// All of them have begun, or were taken.
    pub(crate) fn leave(&self, chunk: &Arc<Chunk>) {
        self.chunks().retain(|other| !Arc::ptr_eq(other, chunk));
    }

    /// Tells one to stop.
    pub(crate) fn stop(&self, token: AttemptToken, reason: StopReason) {
        let mut running = self.running();
        if let Some(life) = running.get(&token) {
            return life.stop.fire(reason);
        }
        self.for_each_waiting(|start| {
            if start.token() == token {
                self.known(&mut running, start).stop.fire(reason);
            }
        });
    }

    /// Tells all to stop.
    pub(crate) fn stop_all(&self, reason: StopReason) {
        let mut running = self.running();
        self.for_each_waiting(|start| {
            self.known(&mut running, start);
        });
        drop(running);
        for (_, life) in self.all_running() {
            life.stop.fire(reason);
        }
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        let running = self.running();
        let mut count = running.len();
        self.for_each_waiting(|start| count += usize::from(start.life.is_none()));
        count
    }

    /// Somebody takes attempts out and tells the backend. Until then the roll is not silent: a
    /// worker that went down between the two would never say what it knows.
    pub(crate) fn report(&self) -> Report<'_> {
        self.reports.fetch_add(1, Ordering::Relaxed);
        Report(&self.reports)
    }

    /// Whether nobody is left and the backend has heard of all.
    pub(crate) fn is_silent(&self) -> bool {
        // In this order: whoever was taken out before the count is seen here, since the lock of
        // those who run was passed on behind the beginning of the report.
        self.count() == 0 && self.reports.load(Ordering::Acquire) == 0
    }

    /// All of them, for people.
    pub(crate) fn names(&self) -> Vec<AttemptIn> {
        let running = self.running();
        let name = |(token, life): (&AttemptToken, &Arc<Life>)| (*token, life.name(*token));
        let mut names: Vec<(AttemptToken, AttemptIn)> = running.iter().map(name).collect();
        self.for_each_waiting(|start| {
            if start.life.is_none() {
                names.push((start.token(), start.name()));
            }
        });
        names.sort_by_key(|(token, _)| *token);
        names.into_iter().map(|(_, name)| name).collect()
    }

    /// Chunks that one of their attempts holds up.
    pub(crate) fn held(&self, now: Instant) -> Vec<Arc<Chunk>> {
        let mut chunks = self.chunks().clone();
        chunks.retain(|chunk| chunk.is_held(now));
        chunks
    }

    fn known<'a>(&self, running: &mut Running, start: &'a mut Start) -> &'a Arc<Life> {
        let Start { work, life } = start;
        life.get_or_insert_with(|| {
            let life = Arc::new(Life::new(work, &self.queues));
            running.insert(work.token(), life.clone());
            life
        })
    }

    fn for_each_waiting(&self, mut tell: impl FnMut(&mut Start)) {
        for chunk in self.chunks().iter() {
            chunk.for_each_waiting(&mut tell);
        }
    }

    fn chunks(&self) -> MutexGuard<'_, Vec<Arc<Chunk>>> {
        self.chunks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunk::Work;
    use crate::clock;
    use outlast_model::task::{AttemptKind, StepTask};
    use outlast_model::{Attempt, QueueName, RunId, Seq, StepName};

    fn token(seq: u32) -> AttemptToken {
        AttemptToken {
            shard: 0,
            run: outlast_model::task::RunNo(1),
            kind: AttemptKind::Step,
            seq: Seq(seq),
            attempt: Attempt::FIRST,
            incarnation: outlast_model::Incarnation::default(),
        }
    }

    fn starts(count: u32) -> Vec<Start> {
        let start = |seq| {
            Start::new(Work::Step(StepTask {
                token: token(seq),
                run_id: RunId(7),
                name: StepName::new("step"),
                queue: QueueName::new("default"),
            }))
        };
        (1..=count).map(start).collect()
    }

    fn known_and_all(roll: &Roll) -> (usize, usize) {
        let known = roll.running().len();
        (known, roll.count())
    }

    fn reason(roll: &Roll, seq: u32) -> Option<StopReason> {
        let running = roll.running();
        running.get(&token(seq)).and_then(|life| life.stop.reason())
    }

    #[test]
    fn one_that_waits_can_be_told_to_stop_and_hears_it_when_it_begins() {
        let roll = Roll::new(Arc::default());
        let chunk = Arc::new(Chunk::new(starts(3)));
        roll.wait(chunk.clone());
        assert_eq!(known_and_all(&roll), (0, 3));
        roll.stop(token(2), StopReason::Cancelled);
        assert_eq!(known_and_all(&roll), (1, 3));
        roll.begin(&chunk, clock::now());
        assert_eq!(known_and_all(&roll), (3, 3));
        let told: Vec<_> = (1..=3).map(|seq| reason(&roll, seq)).collect();
        assert_eq!(told, [None, Some(StopReason::Cancelled), None]);
        let mut second = chunk.next(None).and_then(|_| chunk.next(None));
        let life = second.as_mut().map(|start| roll.life(start));
        let heard = life.and_then(|life| life.stop.reason());
        assert_eq!(heard, Some(StopReason::Cancelled), "the very same life");
    }

    #[test]
    fn all_are_counted_named_and_stopped_whether_they_run_or_wait() {
        let roll = Roll::new(Arc::default());
        let mut few = starts(2);
        roll.enter(&mut few[..1]);
        let mut rest = starts(4);
        roll.wait(Arc::new(Chunk::new(rest.split_off(1))));
        assert_eq!(roll.count(), 4);
        let seqs: Vec<u32> = roll.names().iter().map(|name| name.seq.0).collect();
        assert_eq!(seqs, [1, 2, 3, 4]);
        roll.stop_all(StopReason::Shutdown);
        assert!((1..=4).all(|seq| reason(&roll, seq) == Some(StopReason::Shutdown)));
        assert_eq!(roll.count(), 4, "each once");
    }
}
