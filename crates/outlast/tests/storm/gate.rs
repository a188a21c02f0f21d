//! A store with a gate before its commits, which also says how many signals of one run came to
//! it at a time: that many were decided and not on disk.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use outlast::ListFilter;
use outlast::model::post::PostNo;
use outlast::model::task::RunNo;
use outlast::model::{EventKind, Record, RunId, WorkflowId, record};
use outlast_service::store::{Boot, Commit, CommitError, Loaded, ReadError, RunRow, Store};

pub(crate) struct Gate<S> {
    inner: S,
    state: Mutex<State>,
    bell: Condvar,
    most: AtomicUsize,
}

#[derive(Default)]
struct State {
    is_shut: bool,
    waits: usize,
}

impl<S: Store> Gate<S> {
    pub(crate) fn new(inner: S) -> Self {
        Self {
            inner,
            state: Mutex::default(),
            bell: Condvar::new(),
            most: AtomicUsize::new(0),
        }
    }

    /// From now on no commit gets through.
    pub(crate) fn shut(&self) {
        self.lock().is_shut = true;
    }

    /// All commits get through.
    pub(crate) fn open(&self) {
        self.lock().is_shut = false;
        self.bell.notify_all();
    }

    /// Returns when a commit stands before the gate.
    pub(crate) fn somebody_waits(&self) {
        let state = self.lock();
        drop(self.bell.wait_while(state, |state| state.waits == 0));
    }

    /// The most signals of one run that came in one transaction.
    pub(crate) fn most(&self) -> usize {
        self.most.load(Ordering::SeqCst)
    }

    fn pass(&self) {
        let mut state = self.lock();
        state.waits += 1;
        self.bell.notify_all();
        let state = self.bell.wait_while(state, |state| state.is_shut);
        state.unwrap_or_else(PoisonError::into_inner).waits -= 1;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Signals in the records of a commit.
fn signals(commit: &Commit) -> usize {
    let records = record::decode(&commit.blob).expect("they can be read");
    let is_signal = |record: &&Record| matches!(record, Record::Event(event) if matches!(event.kind, EventKind::Signaled { .. }));
    records.iter().filter(is_signal).count()
}

impl<S: Store> Store for Gate<S> {
    fn boot(&self) -> Result<Boot, ReadError> {
        self.inner.boot()
    }

    fn commit(&self, group: &[Commit]) -> Result<(), CommitError> {
        self.pass();
        let mut counts: BTreeMap<RunNo, usize> = BTreeMap::new();
        for commit in group {
            *counts.entry(commit.row.no).or_default() += signals(commit);
        }
        let most = counts.into_values().max().unwrap_or(0);
        self.most.fetch_max(most, Ordering::SeqCst);
        self.inner.commit(group)
    }

    fn forget(&self, posts: &[PostNo]) -> Result<(), CommitError> {
        self.inner.forget(posts)
    }

    fn load(&self, run: RunNo) -> Result<Loaded, ReadError> {
        self.inner.load(run)
    }

    fn history(&self, run: RunNo) -> Result<Vec<Vec<u8>>, ReadError> {
        self.inner.history(run)
    }

    fn find(&self, workflow_id: &WorkflowId, limit: usize) -> Result<Vec<RunRow>, ReadError> {
        self.inner.find(workflow_id, limit)
    }

    fn find_run(&self, run_id: RunId) -> Result<Option<RunRow>, ReadError> {
        self.inner.find_run(run_id)
    }

    fn list(&self, filter: &ListFilter) -> Result<Vec<RunRow>, ReadError> {
        self.inner.list(filter)
    }

    fn reopen(&self) -> Result<Boot, ReadError> {
        self.inner.reopen()
    }

    fn close(&self) -> Result<(), ReadError> {
        self.inner.close()
    }
}
