//! The thread that polls attempts first.
//!
//! Whoever spawns a task from outside wakes a worker of the async runtime, and that worker wakes
//! another before it polls, since more may be waiting. For one attempt at a time the second
//! wake-up is wasted, and it costs as much as all our work on the attempt. So a few attempts go
//! to a thread of our own: one wake-up, and most are done. One that is not goes on as a task of
//! the runtime.
//!
//! ```text
//! Idle --offer--> Given --> Busy --done--> Idle
//! ```
//!
//! Nothing ever waits for this thread: while it is busy, which code that blocks can make long,
//! everything goes to the runtime. To the code it is a thread of the runtime like the others: what is
//! a mistake there (`block_on`) is one here, so that no mistake shows only under load.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Waker};

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::unconstrained;

/// Attempts that are begun and polled once; what does not end then is spawned.
pub(crate) type Job = Box<dyn FnOnce(&mut Context<'_>) + Send>;

/// More attempts than this are work for the runtime, with all its threads.
pub(crate) const FEW: usize = 8;

/// The thread's letter box. The thread leaves when it is dropped.
pub(crate) struct Opener(Arc<Desk>);

#[derive(Default)]
struct Desk {
    state: Mutex<State>,
    bell: Condvar,
}

#[derive(Default)]
enum State {
    /// Also before the thread is there and after it has left.
    #[default]
    Busy,
    Idle,
    Given(Job),
    Stopped,
}

impl Opener {
    /// Starts the thread. A runtime that has only the thread of its caller keeps everything
    /// there: tests with a clock of their own count on it.
    pub(crate) fn start(runtime: &Handle) -> Self {
        let desk = Arc::new(Desk::default());
        if runtime.runtime_flavor() != RuntimeFlavor::CurrentThread {
            let (mine, runtime) = (desk.clone(), runtime.clone());
            let thread = std::thread::Builder::new().name("outlast-opener".into());
            // Without it everything goes to the runtime.
            drop(thread.spawn(move || mine.work(&runtime)));
        }
        Self(desk)
    }

    /// Gives the job to the thread if it is idle, else back.
    pub(crate) fn offer(&self, job: Job) -> Result<(), Job> {
        let mut state = self.0.lock();
        match &*state {
            State::Idle => *state = State::Given(job),
            State::Busy | State::Given(_) | State::Stopped => return Err(job),
        }
        drop(state);
        self.0.bell.notify_one();
        Ok(())
    }
}

impl Drop for Opener {
    fn drop(&mut self) {
        *self.0.lock() = State::Stopped;
        self.0.bell.notify_one();
    }
}

impl Desk {
    fn work(&self, runtime: &Handle) {
        // One future that never waits, for the life of the thread: without a budget, since tokio
        // grants one for each poll, and this is the only one.
        runtime.block_on(unconstrained(async {
            // Whoever is polled here and waits is polled again where it can be woken.
            let mut cx = Context::from_waker(Waker::noop());
            while let Some(job) = self.next() {
                job(&mut cx);
            }
        }));
    }

    fn next(&self) -> Option<Job> {
        let mut state = self.lock();
        loop {
            match std::mem::take(&mut *state) {
                State::Given(job) => return Some(job),
                State::Stopped => return None,
                State::Busy | State::Idle => *state = State::Idle,
            }
            let woken = self.bell.wait(state);
            state = woken.unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    fn patiently(opener: &Opener, make: impl Fn() -> Job) {
        let mut job = make();
        while let Err(back) = opener.offer(job) {
            job = back;
            std::thread::yield_now();
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_thread_that_is_busy_takes_nothing_and_is_idle_again_when_it_is_done() {
        let opener = Opener::start(&Handle::current());
        let (begun, has_begun) = mpsc::channel();
        let (end, may_end) = mpsc::channel::<()>();
        let may_end = Mutex::new(Some(may_end));
        patiently(&opener, || {
            let begun = begun.clone();
            let may_end = may_end.lock().expect("ours").take();
            Box::new(move |_| {
                begun.send(Handle::try_current().is_ok()).expect("listens");
                if let Some(end) = may_end {
                    end.recv().expect("is told");
                }
            })
        });
        assert_eq!(has_begun.recv(), Ok(true), "inside the runtime");
        assert!(opener.offer(Box::new(|_| {})).is_err(), "busy");
        end.send(()).expect("waits");
        let (done, is_done) = mpsc::channel();
        patiently(&opener, || {
            let done = done.clone();
            Box::new(move |_| done.send(()).expect("listens"))
        });
        assert_eq!(is_done.recv(), Ok(()));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn what_may_not_be_done_on_a_thread_of_the_runtime_may_not_be_done_here() {
        let opener = Opener::start(&Handle::current());
        let (sender, said) = mpsc::channel();
        patiently(&opener, || {
            let sender = sender.clone();
            Box::new(move |_| {
                let blocks = || Handle::current().block_on(async {});
                let blocked = std::panic::catch_unwind(blocks);
                sender.send(blocked.is_ok()).expect("listens");
            })
        });
        assert_eq!(said.recv(), Ok(false), "it panicked");
        let blocks = || Handle::current().block_on(async {});
        let there = tokio::spawn(async move { blocks() });
        assert!(there.await.is_err(), "as it does there");
    }

    #[tokio::test]
    async fn a_runtime_of_one_thread_keeps_everything_there() {
        let opener = Opener::start(&Handle::current());
        assert!(opener.offer(Box::new(|_| {})).is_err());
    }
}
