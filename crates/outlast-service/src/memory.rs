//! The store port in memory: the oracle that drivers are compared with, and the simulator's disk.
//!
//! A handle is cheap to clone and every clone sees the same runs. So a crash is: drop the
//! service, keep a clone, boot a new service on it. Nothing here survives the process, and
//! everything else is as a driver must do it, down to which error wins.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use outlast_model::id::{RunId, Version, WorkflowId};
use outlast_model::planted::{Bug, is_planted};
use outlast_model::post::PostNo;
use outlast_model::task::RunNo;
use outlast_model::view::ListFilter;

use crate::store::{Boot, Commit, CommitError, CommitNo, Expect, Loaded, ReadError, RunRow, Store};

/// Runs in a limit of 0.
const LIST_DEFAULT: usize = 100;

/// Runs that live in memory. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct MemoryStore {
    shared: Arc<Mutex<Data>>,
}

#[derive(Debug, Default)]
struct Data {
    possession: Possession,
    is_clean: bool,
    rows: BTreeMap<RunNo, RunRow>,
    blobs: BTreeMap<CommitNo, Blob>,
    snapshots: BTreeMap<RunNo, Snapshot>,
    by_workflow: BTreeMap<WorkflowId, BTreeSet<RunNo>>,
    by_run: BTreeMap<RunId, RunNo>,
    posts: BTreeMap<PostNo, Vec<u8>>,
    last_post: PostNo,
}

/// Whether commits are taken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Possession {
    /// Nobody has booted.
    #[default]
    None,
    /// Somebody has.
    Owned,
    /// A commit failed; the owner must reopen.
    Failed(String),
}

/// Blobs and their numbers.
type Chain = (Vec<Vec<u8>>, Vec<CommitNo>);

#[derive(Debug)]
struct Blob {
    prev: CommitNo,
    data: Vec<u8>,
}

#[derive(Debug)]
struct Snapshot {
    version: Version,
    head: CommitNo,
    data: Vec<u8>,
}

impl MemoryStore {
    /// An empty store, as if closed in order.
    pub fn new() -> Self {
        let store = Self::default();
        store.data().is_clean = true;
        store
    }

    /// The posts it keeps, for an auditor.
    pub fn posts(&self) -> Vec<PostNo> {
        self.data().posts.keys().copied().collect()
    }

    /// Keeps the snapshot of a commit that is itself thrown away: what
    /// [`Bug::SnapshotNewerThanHistory`] does at a crash.
    /// Flips a bit in the newest blob of a run, as a bad disk would; for tests.
    pub fn damage(&self, run: RunNo) {
        let mut kept = self.data();
        let head = kept.rows.get(&run).map(|row| row.state.head);
        let blob = head.and_then(|head| kept.blobs.get_mut(&head));
        if let Some(byte) = blob.and_then(|blob| blob.data.last_mut()) {
            *byte ^= 1;
        }
    }

    pub(crate) fn keep_snapshot(&self, commit: &Commit) {
        self.data().put_snapshot(commit);
    }

    fn data(&self) -> MutexGuard<'_, Data> {
        // Every change is made at the end of a call, at once: a panic leaves nothing half done.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store for MemoryStore {
    fn boot(&self) -> Result<Boot, ReadError> {
        let mut data = self.data();
        let was_clean = std::mem::replace(&mut data.is_clean, false);
        data.possession = Possession::Owned;
        Ok(Boot {
            open: data
                .rows
                .values()
                .filter(|r| r.state.status.is_open())
                .cloned()
                .collect(),
            last_run: data.rows.keys().next_back().copied().unwrap_or_default(),
            last_commit: data.last_commit(),
            was_clean,
            posts: data
                .posts
                .iter()
                .map(|(no, post)| (*no, post.clone()))
                .collect(),
            last_post: data.last_post,
        })
    }

    fn commit(&self, group: &[Commit]) -> Result<(), CommitError> {
        let mut data = self.data();
        data.require_owner()?;
        match data.check(group).and_then(|()| data.check_posts(group)) {
            Ok(()) => {
                for commit in group {
                    data.write(commit);
                }
                Ok(())
            }
            Err(error) => {
                if let CommitError::Failed { reason } = &error {
                    data.possession = Possession::Failed(reason.clone());
                }
                Err(error)
            }
        }
    }

    fn forget(&self, posts: &[PostNo]) -> Result<(), CommitError> {
        let mut data = self.data();
        data.require_owner()?;
        posts.iter().for_each(|post| {
            data.posts.remove(post);
        });
        Ok(())
    }

    fn load(&self, run: RunNo) -> Result<Loaded, ReadError> {
        let data = self.data();
        let row = data.rows.get(&run).ok_or(ReadError::Missing)?.clone();
        let Some(snapshot) = data.snapshots.get(&run) else {
            let (blobs, numbers) = data.chain(&row, CommitNo(0), row.state.version.0)?;
            return Ok(Loaded {
                row,
                snapshot: None,
                blobs,
                numbers,
                before: CommitNo(0),
            });
        };
        let kept = Some((snapshot.version, snapshot.data.clone()));
        let Some(count) = row.state.version.0.checked_sub(snapshot.version.0) else {
            if is_planted(Bug::SnapshotNewerThanHistory) {
                return Ok(Loaded {
                    row,
                    snapshot: kept,
                    blobs: Vec::new(),
                    numbers: Vec::new(),
                    before: snapshot.head,
                });
            }
            return Err(damaged(run, "its snapshot is newer than its history"));
        };
        let (blobs, numbers) = data.chain(&row, snapshot.head, count)?;
        Ok(Loaded {
            row,
            snapshot: kept,
            blobs,
            numbers,
            before: snapshot.head,
        })
    }

    fn history(&self, run: RunNo) -> Result<Vec<Vec<u8>>, ReadError> {
        let data = self.data();
        let row = data.rows.get(&run).ok_or(ReadError::Missing)?;
        let (blobs, _) = data.chain(row, CommitNo(0), row.state.version.0)?;
        Ok(blobs)
    }

    fn find(&self, workflow_id: &WorkflowId, limit: usize) -> Result<Vec<RunRow>, ReadError> {
        let data = self.data();
        let runs = data.by_workflow.get(workflow_id).into_iter().flatten();
        Ok(runs
            .rev()
            .take(limit)
            .filter_map(|no| data.rows.get(no))
            .cloned()
            .collect())
    }

    fn find_run(&self, run_id: RunId) -> Result<Option<RunRow>, ReadError> {
        let data = self.data();
        Ok(data
            .by_run
            .get(&run_id)
            .and_then(|no| data.rows.get(no))
            .cloned())
    }

    fn list(&self, filter: &ListFilter) -> Result<Vec<RunRow>, ReadError> {
        let data = self.data();
        let end = match filter.before {
            None => RunNo(u64::MAX),
            Some(id) => match data.by_run.get(&id) {
                Some(no) => *no,
                None => return Ok(Vec::new()),
            },
        };
        let limit = if filter.limit == 0 {
            LIST_DEFAULT
        } else {
            filter.limit
        };
        let matches = |row: &&RunRow| {
            filter.status.is_none_or(|s| s == row.state.status)
                && filter
                    .workflow_type
                    .as_ref()
                    .is_none_or(|t| *t == row.workflow_type)
        };
        Ok(data
            .rows
            .range(..end)
            .rev()
            .map(|(_, r)| r)
            .filter(matches)
            .take(limit)
            .cloned()
            .collect())
    }

    fn reopen(&self) -> Result<Boot, ReadError> {
        self.boot()
    }

    fn close(&self) -> Result<(), ReadError> {
        let mut data = self.data();
        match std::mem::take(&mut data.possession) {
            Possession::None => Ok(()),
            Possession::Owned => {
                data.is_clean = true;
                Ok(())
            }
            // Whether the last group of a failed store is there is not known: not a clean stop.
            Possession::Failed(reason) => Err(ReadError::Failed { reason }),
        }
    }
}

impl Data {
    fn require_owner(&self) -> Result<(), CommitError> {
        match &self.possession {
            Possession::Owned => Ok(()),
            Possession::None => Err(failed("not booted, or closed")),
            Possession::Failed(reason) => Err(failed(reason)),
        }
    }

    /// A head whose blob is gone is in use: no other run's blob may take its number.
    fn last_commit(&self) -> CommitNo {
        let open = self.rows.values().filter(|r| r.state.status.is_open());
        let last_head = open.map(|row| row.state.head).max();
        let last_blob = self.blobs.keys().next_back().copied();
        last_head.max(last_blob).unwrap_or_default()
    }

    /// Whether all of the group fits, in order, each commit on top of those before it.
    fn check(&self, group: &[Commit]) -> Result<(), CommitError> {
        let mut rows: BTreeMap<RunNo, &RunRow> = BTreeMap::new();
        // What is before each blob that the group adds; of those it takes away nothing.
        let mut blobs: BTreeMap<CommitNo, Option<CommitNo>> = BTreeMap::new();
        let kept = |id: CommitNo| self.blobs.get(&id).map(|blob| blob.prev);
        for commit in group {
            let run = commit.row.no;
            let row = rows.get(&run).copied().or_else(|| self.rows.get(&run));
            if !fits(commit, row) {
                return Err(CommitError::Conflict { run });
            }
            let known = blobs.insert(commit.id, Some(commit.prev));
            if known.unwrap_or_else(|| kept(commit.id)).is_some() {
                return Err(failed(&format!("commit number {} is in use", commit.id.0)));
            }
            for (replaced, prev) in commit.replaced() {
                let known = blobs.insert(replaced, None);
                if known.unwrap_or_else(|| kept(replaced)) != Some(prev) {
                    return Err(CommitError::Conflict { run });
                }
            }
            rows.insert(run, &commit.row);
        }
        Ok(())
    }

    /// Whether every post of the group, in order, has a number of its own.
    fn check_posts(&self, group: &[Commit]) -> Result<(), CommitError> {
        let mut is_there: BTreeMap<PostNo, bool> = BTreeMap::new();
        for commit in group {
            for (no, _) in &commit.posts {
                let known = is_there.insert(*no, true);
                if known.unwrap_or_else(|| self.posts.contains_key(no)) {
                    return Err(failed(&format!("post number {} is in use", no.0)));
                }
            }
            is_there.extend(commit.taken.iter().map(|no| (*no, false)));
        }
        Ok(())
    }

    fn write(&mut self, commit: &Commit) {
        let row = &commit.row;
        match commit.expect {
            Expect::New => {
                self.by_workflow
                    .entry(row.workflow_id.clone())
                    .or_default()
                    .insert(row.no);
                self.by_run.insert(row.run_id, row.no);
                self.rows.insert(row.no, row.clone());
            }
            Expect::At(..) => {
                if let Some(known) = self.rows.get_mut(&row.no) {
                    known.state = row.state;
                }
            }
        }
        self.blobs.insert(
            commit.id,
            Blob {
                prev: commit.prev,
                data: commit.blob.clone(),
            },
        );
        for replaced in &commit.replaces {
            self.blobs.remove(replaced);
        }
        self.put_snapshot(commit);
        for (no, post) in &commit.posts {
            self.posts.insert(*no, post.clone());
            self.last_post = self.last_post.max(*no);
        }
        for no in &commit.taken {
            self.posts.remove(no);
        }
    }

    fn put_snapshot(&mut self, commit: &Commit) {
        if let Some(data) = &commit.snapshot {
            let version = commit.row.state.version;
            let snapshot = Snapshot {
                version,
                head: commit.id,
                data: data.clone(),
            };
            self.snapshots.insert(commit.row.no, snapshot);
        }
    }

    /// The blobs from the head back to `until`, which is not part of it, oldest first, and their
    /// numbers.
    fn chain(&self, row: &RunRow, until: CommitNo, count: u64) -> Result<Chain, ReadError> {
        let (mut blobs, mut numbers) = (Vec::new(), Vec::new());
        let mut at = row.state.head;
        for _ in 0..count {
            let Some(blob) = self.blobs.get(&at) else {
                return Err(damaged(row.no, "a blob of its history is missing"));
            };
            blobs.push(blob.data.clone());
            numbers.push(at);
            at = blob.prev;
        }
        if at != until {
            return Err(damaged(
                row.no,
                "its history does not have as many blobs as its row says",
            ));
        }
        blobs.reverse();
        numbers.reverse();
        Ok((blobs, numbers))
    }
}

fn fits(commit: &Commit, row: Option<&RunRow>) -> bool {
    match (commit.expect, row) {
        (Expect::New, None) => commit.found_head() == CommitNo(0),
        (Expect::At(version, epoch), Some(row)) => {
            row.state.version == version
                && row.state.head == commit.found_head()
                && (row.state.epoch == epoch || is_planted(Bug::StaleEpochAccepted))
        }
        (Expect::New, Some(_)) | (Expect::At(..), None) => false,
    }
}

fn failed(reason: &str) -> CommitError {
    CommitError::Failed {
        reason: reason.to_owned(),
    }
}

fn damaged(run: RunNo, reason: &str) -> ReadError {
    ReadError::Damaged {
        run,
        reason: reason.to_owned(),
    }
}
