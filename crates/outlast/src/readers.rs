//! Threads that read the store for callers, such as lists and histories.
//!
//! Their own: activities may take every thread of the async runtime's pool for as long as they like,
//! and whoever looks for the reason must still be answered. They come when there is something to
//! read, at most a few, and leave when there was nothing for a while, or with the last client.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use outlast_runtime::panic::discard;

type Job = Box<dyn FnOnce() + Send>;

/// A store answers more readers at once hardly faster.
const MOST: usize = 4;
/// How long a thread stays without work.
const STAY: Duration = Duration::from_secs(10);

/// Hands jobs to its threads.
#[derive(Default)]
pub(crate) struct Readers(Arc<Desk>);

#[derive(Default)]
struct Desk {
    state: Mutex<State>,
    bell: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    threads: usize,
    idle: usize,
    is_closed: bool,
}

impl Readers {
    /// Runs the job on one of the threads; here, if there is no room for any.
    pub(crate) fn give(&self, job: Job) {
        let mut state = self.0.lock();
        state.jobs.push_back(job);
        if state.jobs.len() > state.idle && state.threads < MOST {
            state.threads += 1;
            drop(state);
            self.begin_thread();
        } else {
            drop(state);
            self.0.bell.notify_one();
        }
    }

    fn begin_thread(&self) {
        let desk = self.0.clone();
        let thread = std::thread::Builder::new().name("outlast-reader".into());
        if thread.spawn(move || desk.work()).is_ok() {
            return;
        }
        let mut state = self.0.lock();
        state.threads -= 1;
        let alone = (state.threads == 0).then(|| state.jobs.pop_front());
        drop(state);
        if let Some(Some(job)) = alone {
            job();
        }
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.is_closed = true;
        let left = std::mem::take(&mut state.jobs);
        drop(state);
        self.0.bell.notify_all();
        // Whoever waits for them hears that nobody will come.
        drop(left);
    }
}

impl Desk {
    fn work(&self) {
        while let Some(job) = self.next() {
            if let Err(panic) = catch_unwind(AssertUnwindSafe(job)) {
                // Whoever waits for it hears that it is gone; the thread reads on.
                discard(panic);
            }
        }
    }

    /// The next job; `None` when the thread is to leave, which then counts no more.
    fn next(&self) -> Option<Job> {
        let mut state = self.lock();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                return Some(job);
            }
            if state.is_closed {
                break;
            }
            state.idle += 1;
            let woken = self.bell.wait_timeout(state, STAY);
            let (back, waited) = woken.unwrap_or_else(PoisonError::into_inner);
            state = back;
            state.idle -= 1;
            if waited.timed_out() && state.jobs.is_empty() {
                break;
            }
        }
        state.threads -= 1;
        None
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Receiver, Sender, channel};

    /// A job that says that it runs, and ends when it is told to.
    fn held(begun: &Sender<usize>, n: usize) -> (Job, Sender<()>) {
        let (begun, (end, may_end)) = (begun.clone(), channel());
        let job = Box::new(move || {
            begun.send(n).expect("listens");
            may_end.recv().expect("is told");
        });
        (job, end)
    }

    fn next_ones(begun: &Receiver<usize>, count: usize) -> Vec<usize> {
        let mut ones: Vec<usize> = begun.iter().take(count).collect();
        ones.sort_unstable();
        ones
    }

    #[test]
    fn a_few_read_at_once_and_the_others_wait_for_their_threads() {
        let readers = Readers::default();
        let (begun, has_begun) = channel();
        let (jobs, ends): (Vec<Job>, Vec<_>) = (0..MOST + 2).map(|n| held(&begun, n)).unzip();
        jobs.into_iter().for_each(|job| readers.give(job));
        assert_eq!(next_ones(&has_begun, MOST), [0, 1, 2, 3]);
        assert!(has_begun.try_recv().is_err(), "no more than that");
        ends[1].send(()).expect("waits");
        assert_eq!(has_begun.recv(), Ok(MOST));
        ends[0].send(()).expect("waits");
        assert_eq!(has_begun.recv(), Ok(MOST + 1));
        assert_eq!(readers.0.lock().threads, MOST);
    }

    #[test]
    fn a_job_that_panics_costs_no_thread_and_an_idle_thread_is_used_again() {
        let readers = Readers::default();
        let (sender, receiver) = channel();
        readers.give(Box::new(|| std::panic::panic_any(())));
        while readers.0.lock().idle == 0 {
            std::thread::yield_now();
        }
        readers.give(Box::new(move || sender.send(()).expect("listens")));
        assert_eq!(receiver.recv(), Ok(()));
        assert_eq!(readers.0.lock().threads, 1);
    }

    #[test]
    fn threads_leave_with_the_last_client_and_jobs_that_wait_are_dropped() {
        let readers = Readers::default();
        let (begun, has_begun) = channel();
        let (jobs, ends): (Vec<Job>, Vec<_>) = (0..=MOST).map(|n| held(&begun, n)).unzip();
        jobs.into_iter().for_each(|job| readers.give(job));
        assert_eq!(next_ones(&has_begun, MOST).len(), MOST);
        let desk = readers.0.clone();
        drop(readers);
        let (last, others) = ends.split_last().expect("some");
        assert!(last.send(()).is_err(), "it was dropped");
        for end in others {
            end.send(()).expect("waits");
        }
        while desk.lock().threads > 0 {
            std::thread::yield_now();
        }
    }
}
