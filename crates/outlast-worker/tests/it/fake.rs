//! A polled backend in memory: a small cluster, and a handle on it that behaves as a Temporal
//! core worker does. It keeps the histories of runs as batches of jobs with the commands they
//! gave, replays them to a handle that has not got the run, hands out activities, and hands both
//! out again when nobody has answered in time. It can be told to fail.
//!
//! Whatever a worker does that breaks the contract is kept as a complaint.

mod handle;
mod world;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use outlast_model::event::Started;
use outlast_model::shared::Shared;
use outlast_model::{Edition, Headers, Job, Payload, QueueName, RunId};
use outlast_worker::handle::{BoxFuture, Connector, Handle, OpenError, PollError, QueueOptions};
use tokio::sync::Notify;

use handle::FakeHandle;
pub(crate) use world::{Run, World};

/// The cluster.
#[derive(Clone, Default)]
pub(crate) struct Fake {
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    world: Mutex<World>,
    news: Notify,
}

/// What becomes of an opening.
#[derive(Clone, Debug)]
pub(crate) enum Opening {
    /// It fails.
    Fails(OpenError),
    /// It panics.
    Panics,
    /// It waits until the gate is opened.
    Waits(Arc<Notify>),
    /// It takes so long.
    Takes(Duration),
}

impl Fake {
    pub(crate) fn new() -> Self {
        let fake = Self::default();
        fake.world().timeout = Duration::from_secs(10);
        fake
    }

    pub(crate) fn world(&self) -> MutexGuard<'_, World> {
        let world = self.inner.world.lock();
        // A poll that panics as told does so in here.
        world.unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the cluster; whoever polls looks again.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut World) -> T) -> T {
        let changed = change(&mut self.world());
        self.inner.news.notify_waiters();
        changed
    }

    /// Starts a run of this type.
    pub(crate) fn start(&self, queue: &str, number: u128, workflow_type: &str) -> RunId {
        let run_id = RunId(number);
        let started = started(queue, run_id, workflow_type);
        self.change(|world| {
            world.runs.insert(
                run_id,
                Run {
                    queue: queue.into(),
                    pending: vec![Job::Initialize(Shared::new(started))],
                    ..Run::default()
                },
            );
        });
        run_id
    }

    /// Waits until all runs have ended.
    pub(crate) async fn all_ended(&self) {
        loop {
            let news = self.inner.news.notified();
            if self.world().runs.values().all(|run| run.result.is_some()) {
                return;
            }
            news.await;
        }
    }

    /// Waits until this holds.
    pub(crate) async fn until(&self, holds: impl Fn(&World) -> bool) {
        loop {
            let news = self.inner.news.notified();
            if holds(&self.world()) {
                return;
            }
            news.await;
        }
    }

    /// The next polls for activations fail like this.
    pub(crate) fn fail_polls(&self, errors: impl IntoIterator<Item = PollError>) {
        self.change(|world| world.poll_faults.extend(errors));
    }

    /// The next openings go like this.
    pub(crate) fn openings(&self, openings: impl IntoIterator<Item = Opening>) {
        self.change(|world| world.openings.extend(openings));
    }

    /// Nothing broke the contract.
    #[track_caller]
    pub(crate) fn is_content(&self) {
        let complaints = self.world().complaints.clone();
        assert!(complaints.is_empty(), "{complaints:#?}");
    }
}

impl Connector for Fake {
    fn open<'a>(
        &'a self,
        options: &'a QueueOptions,
    ) -> BoxFuture<'a, Result<Arc<dyn Handle>, OpenError>> {
        Box::pin(async move {
            let opening = self.change(|world| {
                world.opened += 1;
                world.openings.pop_front()
            });
            match opening {
                None => {}
                Some(Opening::Fails(error)) => return Err(error),
                Some(Opening::Panics) => panic!("the opening panics as told"),
                Some(Opening::Waits(gate)) => gate.notified().await,
                Some(Opening::Takes(time)) => tokio::time::sleep(time).await,
            }
            let handle: Arc<dyn Handle> = Arc::new(FakeHandle::open(self.clone(), options));
            Ok(handle)
        })
    }
}

pub(crate) fn options(queue: &str) -> QueueOptions {
    QueueOptions::new(QueueName::new(queue))
}

fn started(queue: &str, run_id: RunId, workflow_type: &str) -> Started {
    Started {
        workflow_id: format!("w-{run_id}").as_str().into(),
        run_id,
        workflow_type: workflow_type.into(),
        queue: queue.into(),
        input: Payload::null(),
        request_id: None,
        run_timeout: None,
        parent: None,
        first_run_id: None,
        continued_from: None,
        headers: Headers::default(),
        priority: None,
        edition: Some(Edition::NEWEST),
    }
}
