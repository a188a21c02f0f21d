//! The store port: what a driver must do, which is to write decisions atomically and to read
//! them back. No rule of a run lives behind it.
//!
//! A run is one row and a chain of blobs: each commit appends one blob, names the blob before
//! it, and moves the row's head, all or nothing. Rows carry what must be found without loading a
//! run: ids, status, the next due time.

use outlast_model::id::{Epoch, QueueName, RunId, Version, WorkflowId, WorkflowType};
use outlast_model::post::PostNo;
use outlast_model::task::RunNo;
use outlast_model::view::ListFilter;
use outlast_model::{Status, Timestamp};

/// The number of a commit, given by the service, rising. 0 is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommitNo(pub u64);

/// What is known of a run without loading it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunRow {
    /// Its number in this store.
    pub no: RunNo,
    /// The user's id.
    pub workflow_id: WorkflowId,
    /// The run.
    pub run_id: RunId,
    /// Its type.
    pub workflow_type: WorkflowType,
    /// Its task queue.
    pub queue: QueueName,
    /// When it began.
    pub started: Timestamp,
    /// The first run of its chain, if that is another.
    pub first_run: Option<RunId>,
    /// What changes with each commit.
    pub state: RowState,
}

/// The part of a row that each commit writes anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowState {
    /// Where the run stands.
    pub status: Status,
    /// Blobs of its chain. One that takes the place of others may leave it as it was: what tells
    /// two states apart is the head.
    pub version: Version,
    /// The fence.
    pub epoch: Epoch,
    /// The newest blob of its chain.
    pub head: CommitNo,
    /// Events in its history.
    pub events: u64,
    /// Bytes of its blobs.
    pub bytes: u64,
    /// When it ended.
    pub closed: Option<Timestamp>,
    /// When it wants to look at the clock again.
    pub wake: Option<Timestamp>,
    /// What must be looked at when the store is opened.
    pub attention: Attention,
}

/// Reasons to load a run when the store is opened; a run with none sleeps on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attention(pub u8);

impl Attention {
    /// A workflow task is pending.
    pub const TASK: Self = Self(1);
    /// Attempts of activities are pending or running.
    pub const ATTEMPTS: Self = Self(2);
    /// Steps are pending or running: the instance must be rebuilt.
    pub const STEPS: Self = Self(4);
    /// The process may have died in this run's slice.
    pub const ARMED: Self = Self(8);
    /// Its code cannot go on by itself.
    pub const BLOCKED: Self = Self(16);

    /// Both.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether all of `other` are among these.
    pub fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether there is none.
    pub fn is_none(self) -> bool {
        self.0 == 0
    }
}

/// What a commit expects to find. Anything else is a conflict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// No row of this number.
    New,
    /// The row at exactly this version and epoch.
    At(Version, Epoch),
}

/// One decision on its way to the disk.
#[derive(Clone, Debug)]
pub struct Commit {
    /// Its own number.
    pub id: CommitNo,
    /// The blob of the same run before it; 0 for the first.
    pub prev: CommitNo,
    /// The newest blobs of the run whose place it takes, newest first: they are gone with it, and
    /// `prev` is the one before them. No snapshot stands on any of them.
    pub replaces: Vec<CommitNo>,
    /// What must be there.
    pub expect: Expect,
    /// The row as it shall be. For [`Expect::At`] only `no` and `state` are written.
    pub row: RunRow,
    /// The records, framed and checked (see `outlast_model::record`).
    pub blob: Vec<u8>,
    /// The run's state after this commit, framed; a cache.
    pub snapshot: Option<Vec<u8>>,
    /// What the run says to others, framed like the blob: kept until a commit takes it. A number
    /// that is in use fails the store.
    pub posts: Vec<(PostNo, Vec<u8>)>,
    /// What others said to it and had its effect in this commit. One that is not there any more
    /// is no conflict.
    pub taken: Vec<PostNo>,
    /// Written together with the commit before it in the group, or not at all: a run and the one
    /// that continues it.
    pub is_joined: bool,
}

impl Commit {
    /// The head that the row must have.
    pub fn found_head(&self) -> CommitNo {
        self.replaces.first().copied().unwrap_or(self.prev)
    }

    /// Blobs that go away with it, each with the one that must be before it.
    pub fn replaced(&self) -> impl Iterator<Item = (CommitNo, CommitNo)> {
        let prevs = self.replaces.iter().skip(1).copied().chain([self.prev]);
        self.replaces.iter().copied().zip(prevs)
    }
}

/// A run as the store has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loaded {
    /// Its row.
    pub row: RunRow,
    /// The newest snapshot and the version it was taken at; never newer than the row.
    pub snapshot: Option<(Version, Vec<u8>)>,
    /// The blobs after the snapshot, oldest first.
    pub blobs: Vec<Vec<u8>>,
    /// Their numbers.
    pub numbers: Vec<CommitNo>,
    /// The blob before them; 0 if they are all.
    pub before: CommitNo,
}

/// What a store says when it is opened by its owner.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Boot {
    /// Every open run.
    pub open: Vec<RunRow>,
    /// The highest run number in use.
    pub last_run: RunNo,
    /// The highest commit number in use.
    pub last_commit: CommitNo,
    /// Whether the last owner closed the store in order.
    pub was_clean: bool,
    /// What runs said to others and nobody took, oldest first.
    pub posts: Vec<(PostNo, Vec<u8>)>,
    /// The highest number of a post that may be in use.
    pub last_post: PostNo,
}

/// Why a group of commits was not written. One variant per remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommitError {
    /// A row was not as expected; nothing of the group was written.
    #[error("run {} is not at the version and epoch this commit expects", run.0)]
    Conflict {
        /// Whose commit.
        run: RunNo,
    },
    /// No room; nothing of the group was written. Goes on when there is room again.
    #[error("the disk or the database file is full")]
    Full,
    /// The store failed: the group may or may not be there. Close, reopen, reload.
    #[error("the store failed: {reason}")]
    Failed {
        /// What it said.
        reason: String,
    },
}

/// Why a read gave no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// There is no such run.
    #[error("no such run")]
    Missing,
    /// What is there is not what was written.
    #[error("run {}: {reason}", run.0)]
    Damaged {
        /// Whose.
        run: RunNo,
        /// What is wrong.
        reason: String,
    },
    /// The store failed.
    #[error("the store failed: {reason}")]
    Failed {
        /// What it said.
        reason: String,
    },
}

/// A place where runs live. All calls block; all may come from any thread; at most one thread
/// commits at a time.
pub trait Store: Send + Sync {
    /// Takes possession: what is open, what the counters are. The store counts as unclean from
    /// here until [`close`](Store::close).
    ///
    /// # Errors
    /// When the store cannot be read or written.
    fn boot(&self) -> Result<Boot, ReadError>;

    /// Writes all commits in one transaction, in order, durable when it returns.
    ///
    /// # Errors
    /// [`CommitError`] says what became of the group.
    fn commit(&self, group: &[Commit]) -> Result<(), CommitError>;

    /// What is needed to bring a run's state back.
    ///
    /// # Errors
    /// When there is no such run or it cannot be read.
    fn load(&self, run: RunNo) -> Result<Loaded, ReadError>;

    /// All blobs of a run, oldest first.
    ///
    /// # Errors
    /// When there is no such run or it cannot be read.
    fn history(&self, run: RunNo) -> Result<Vec<Vec<u8>>, ReadError>;

    /// Every run of this workflow id, newest first, at most `limit`.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn find(&self, workflow_id: &WorkflowId, limit: usize) -> Result<Vec<RunRow>, ReadError>;

    /// The run with this id.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn find_run(&self, run_id: RunId) -> Result<Option<RunRow>, ReadError>;

    /// Runs that match, newest first.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn list(&self, filter: &ListFilter) -> Result<Vec<RunRow>, ReadError>;

    /// Forgets posts that nobody will take: their run is gone and they ask for no answer. Need not
    /// be durable: one that comes back is forgotten again.
    ///
    /// # Errors
    /// As [`commit`](Store::commit).
    fn forget(&self, posts: &[PostNo]) -> Result<(), CommitError>;

    /// After [`CommitError::Failed`]: closes everything and opens it again.
    ///
    /// # Errors
    /// When it cannot be opened; call again later.
    fn reopen(&self) -> Result<Boot, ReadError>;

    /// The owner leaves in order.
    ///
    /// # Errors
    /// When the mark of a clean stop could not be written; nothing is lost by that.
    fn close(&self) -> Result<(), ReadError>;
}
