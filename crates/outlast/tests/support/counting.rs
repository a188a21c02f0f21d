//! A store that counts what is asked of it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use outlast::ListFilter;
use outlast::model::post::PostNo;
use outlast::model::task::RunNo;
use outlast::model::{RunId, WorkflowId};
use outlast_service::store::{Boot, Commit, CommitError, Loaded, ReadError, RunRow, Store};

/// A store around another, with counters.
pub(crate) struct Counting<S> {
    inner: S,
    calls: AtomicU64,
    groups: AtomicU64,
    commits: AtomicU64,
    largest: AtomicU64,
    sync: Duration,
}

impl<S: Store> Counting<S> {
    pub(crate) fn new(inner: S) -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            inner,
            calls: zero(),
            groups: zero(),
            commits: zero(),
            largest: zero(),
            sync: Duration::ZERO,
        }
    }

    /// On a disk that takes at least so long for a commit: how much gathers meanwhile must not
    /// depend on how busy the machine is.
    pub(crate) fn on_slow_disk(inner: S, sync: Duration) -> Self {
        Self {
            sync,
            ..Self::new(inner)
        }
    }

    /// Calls of any kind.
    pub(crate) fn calls(&self) -> u64 {
        self.calls.load(Ordering::SeqCst)
    }

    /// Transactions.
    pub(crate) fn groups(&self) -> u64 {
        self.groups.load(Ordering::SeqCst)
    }

    /// Commits, each of one run.
    pub(crate) fn commits(&self) -> u64 {
        self.commits.load(Ordering::SeqCst)
    }

    /// Bytes of the largest commit.
    pub(crate) fn largest(&self) -> u64 {
        self.largest.load(Ordering::SeqCst)
    }

    fn called(&self) -> &S {
        self.calls.fetch_add(1, Ordering::SeqCst);
        &self.inner
    }
}

impl<S: Store> Store for Counting<S> {
    fn boot(&self) -> Result<Boot, ReadError> {
        self.called().boot()
    }

    fn commit(&self, group: &[Commit]) -> Result<(), CommitError> {
        self.groups.fetch_add(1, Ordering::SeqCst);
        self.commits.fetch_add(group.len() as u64, Ordering::SeqCst);
        for commit in group {
            let bytes = commit.blob.len() as u64;
            self.largest.fetch_max(bytes, Ordering::SeqCst);
        }
        std::thread::sleep(self.sync);
        self.called().commit(group)
    }

    fn forget(&self, posts: &[PostNo]) -> Result<(), CommitError> {
        self.called().forget(posts)
    }

    fn load(&self, run: RunNo) -> Result<Loaded, ReadError> {
        self.called().load(run)
    }

    fn history(&self, run: RunNo) -> Result<Vec<Vec<u8>>, ReadError> {
        self.called().history(run)
    }

    fn find(&self, workflow_id: &WorkflowId, limit: usize) -> Result<Vec<RunRow>, ReadError> {
        self.called().find(workflow_id, limit)
    }

    fn find_run(&self, run_id: RunId) -> Result<Option<RunRow>, ReadError> {
        self.called().find_run(run_id)
    }

    fn list(&self, filter: &ListFilter) -> Result<Vec<RunRow>, ReadError> {
        self.called().list(filter)
    }

    fn reopen(&self) -> Result<Boot, ReadError> {
        self.called().reopen()
    }

    fn close(&self) -> Result<(), ReadError> {
        self.called().close()
    }
}
