//! A store that crashes on call, and a store that lies: for tests of whatever trusts a store.
//!
//! A cut at call k is a process that dies there: every later call fails, and the test boots a new
//! service on the store inside. Only commits and loads count, so that a scenario has the same
//! numbers each time. The lies (a group dropped, an outcome written twice) are what no judge of a
//! history may overlook; they exist to test the judges. A lost group loses its posts with it. Posts
//! are not doubled: their receivers know a post that comes twice, so there is nothing to find.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use outlast_model::event::{ChildEvent, EventKind, ExternalEvent, UpdateEvent};
use outlast_model::id::{RunId, Version, WorkflowId};
use outlast_model::planted::{Bug, is_planted};
use outlast_model::post::PostNo;
use outlast_model::record::{self, Fact, Record};
use outlast_model::task::RunNo;
use outlast_model::view::ListFilter;

use crate::memory::MemoryStore;
use crate::store::{Boot, Commit, CommitError, CommitNo, Expect, Loaded, ReadError, RunRow, Store};

/// What happens at a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The process dies before anything is written.
    Before,
    /// The process dies after the commit, before it knows.
    After,
    /// The disk is full, this once. Nothing to a read.
    Full,
}

/// How a store deceives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lie {
    /// Not at all.
    #[default]
    None,
    /// Every so many groups one is not written and yet acknowledged.
    Loses {
        /// Every how many.
        every: u64,
    },
    /// A commit with an outcome is written twice, the second time under a number of its own.
    Doubles,
}

type Leak = Box<dyn Fn(&Commit) + Send + Sync>;

/// A store around another, with faults.
pub struct FaultyStore<S> {
    inner: S,
    plan: Mutex<Plan>,
    leak: Option<Leak>,
}

#[derive(Debug, Default)]
struct Plan {
    calls: u64,
    groups: u64,
    cut: Option<(u64, Fault)>,
    is_dead: bool,
    lie: Lie,
    doubles: Doubles,
}

/// What the wrapper knows and the service does not: how far each run is ahead of the service, and
/// which blob really follows one that was written twice.
#[derive(Clone, Debug, Default)]
struct Doubles {
    ahead: BTreeMap<RunNo, u64>,
    twins: BTreeMap<CommitNo, CommitNo>,
    next: u64,
}

/// Far past any number a service gives out in a test.
const DOUBLES_FROM: u64 = 1 << 40;

/// What becomes of one call.
enum Fate {
    Go,
    Dead,
    Fault(Fault),
}

impl FaultyStore<MemoryStore> {
    /// Around memory, with which [`Bug::SnapshotNewerThanHistory`] works: the snapshot of a
    /// commit that a crash throws away stays.
    pub fn memory(store: MemoryStore) -> Self {
        let disk = store.clone();
        let leak: Leak = Box::new(move |commit| disk.keep_snapshot(commit));
        Self {
            leak: Some(leak),
            ..Self::new(store)
        }
    }
}

impl<S: Store> FaultyStore<S> {
    /// Without a fault for now.
    pub fn new(inner: S) -> Self {
        Self {
            inner,
            plan: Mutex::default(),
            leak: None,
        }
    }

    /// Arms a fault for the call of this number, the first being 1.
    pub fn fail_at(&self, call: u64, fault: Fault) {
        self.plan().cut = Some((call, fault));
    }

    /// From now on the store deceives.
    pub fn lie(&self, lie: Lie) {
        self.plan().lie = lie;
    }

    /// The process dies now.
    pub fn kill(&self) {
        self.plan().is_dead = true;
    }

    /// Commits and loads so far.
    pub fn calls(&self) -> u64 {
        self.plan().calls
    }

    /// Whether the process has died.
    pub fn is_dead(&self) -> bool {
        self.plan().is_dead
    }

    /// The store inside, which no fault touches.
    pub fn inner(&self) -> &S {
        &self.inner
    }

    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn alive(&self) -> Result<&S, ReadError> {
        if self.is_dead() {
            Err(ReadError::Failed {
                reason: DEAD.to_owned(),
            })
        } else {
            Ok(&self.inner)
        }
    }

    fn leak_snapshots(&self, group: &[Commit]) {
        if let Some(leak) = self
            .leak
            .as_ref()
            .filter(|_| is_planted(Bug::SnapshotNewerThanHistory))
        {
            group.iter().for_each(leak);
        }
    }

    fn commit_lying(&self, group: &[Commit]) -> Result<(), CommitError> {
        let mut plan = self.plan();
        plan.groups += 1;
        match plan.lie {
            Lie::None => {}
            Lie::Loses { every } if plan.groups.is_multiple_of(every) => return Ok(()),
            Lie::Loses { .. } => {}
            Lie::Doubles => {
                let mut doubles = plan.doubles.clone();
                self.inner.commit(&doubles.double(group))?;
                plan.doubles = doubles;
                return Ok(());
            }
        }
        drop(plan);
        self.inner.commit(group)
    }
}

impl<S: Store> Store for FaultyStore<S> {
    fn boot(&self) -> Result<Boot, ReadError> {
        let boot = self.alive()?.boot()?;
        self.plan().doubles = Doubles::after(&boot);
        Ok(boot)
    }

    fn commit(&self, group: &[Commit]) -> Result<(), CommitError> {
        let dead = Err(CommitError::Failed {
            reason: DEAD.to_owned(),
        });
        let fate = self.plan().next();
        match fate {
            Fate::Go => self.commit_lying(group),
            Fate::Dead => dead,
            Fate::Fault(Fault::Full) => Err(CommitError::Full),
            Fate::Fault(Fault::Before) => {
                self.leak_snapshots(group);
                dead
            }
            Fate::Fault(Fault::After) => self.commit_lying(group).and(dead),
        }
    }

    fn forget(&self, posts: &[PostNo]) -> Result<(), CommitError> {
        match self.alive() {
            Ok(inner) => inner.forget(posts),
            Err(_) => Err(CommitError::Failed {
                reason: DEAD.to_owned(),
            }),
        }
    }

    fn load(&self, run: RunNo) -> Result<Loaded, ReadError> {
        let fate = self.plan().next();
        match fate {
            Fate::Go | Fate::Fault(Fault::Full) => {}
            Fate::Dead | Fate::Fault(Fault::Before | Fault::After) => {
                return Err(ReadError::Failed {
                    reason: DEAD.to_owned(),
                });
            }
        }
        let loaded = self.inner.load(run)?;
        // From here on the service builds on what it was told.
        self.plan().doubles.ahead.remove(&run);
        Ok(loaded)
    }

    fn history(&self, run: RunNo) -> Result<Vec<Vec<u8>>, ReadError> {
        self.alive()?.history(run)
    }

    fn find(&self, workflow_id: &WorkflowId, limit: usize) -> Result<Vec<RunRow>, ReadError> {
        self.alive()?.find(workflow_id, limit)
    }

    fn find_run(&self, run_id: RunId) -> Result<Option<RunRow>, ReadError> {
        self.alive()?.find_run(run_id)
    }

    fn list(&self, filter: &ListFilter) -> Result<Vec<RunRow>, ReadError> {
        self.alive()?.list(filter)
    }

    fn reopen(&self) -> Result<Boot, ReadError> {
        let boot = self.alive()?.reopen()?;
        self.plan().doubles = Doubles::after(&boot);
        Ok(boot)
    }

    fn close(&self) -> Result<(), ReadError> {
        self.alive()?.close()
    }
}

impl Plan {
    fn next(&mut self) -> Fate {
        if self.is_dead {
            return Fate::Dead;
        }
        self.calls += 1;
        let Some((_, fault)) = self.cut.filter(|(call, _)| *call == self.calls) else {
            return Fate::Go;
        };
        self.is_dead = match fault {
            Fault::Before | Fault::After => true,
            Fault::Full => false,
        };
        Fate::Fault(fault)
    }
}

impl Doubles {
    fn after(boot: &Boot) -> Self {
        Self {
            ahead: BTreeMap::new(),
            twins: BTreeMap::new(),
            next: boot.last_commit.0 + DOUBLES_FROM,
        }
    }

    /// The group with every outcome twice, and each commit moved on top of what is really there.
    fn double(&mut self, group: &[Commit]) -> Vec<Commit> {
        let mut doubled = Vec::with_capacity(group.len());
        for commit in group {
            let run = commit.row.no;
            let commit = self.moved(commit);
            if has_outcome(&commit.blob) {
                let again = self.again(&commit);
                *self.ahead.entry(run).or_default() += 1;
                self.twins.insert(commit.id, again.id);
                doubled.extend([commit, again]);
            } else {
                doubled.push(commit);
            }
        }
        doubled
    }

    fn moved(&self, commit: &Commit) -> Commit {
        let mut commit = commit.clone();
        let Some(ahead) = self.ahead.get(&commit.row.no).copied() else {
            return commit;
        };
        if let Expect::At(version, _) = &mut commit.expect {
            *version = Version(version.0 + ahead);
        }
        // What others take the place of is no outcome, and so has no twin.
        let twin = self.twins.get(&commit.prev).copied();
        commit.prev = twin.unwrap_or(commit.prev);
        commit.row.state.version.0 += ahead;
        commit
    }

    fn again(&mut self, commit: &Commit) -> Commit {
        let mut again = commit.clone();
        again.id = CommitNo(self.next);
        self.next += 1;
        again.prev = commit.id;
        again.replaces.clear();
        again.expect = Expect::At(commit.row.state.version, commit.row.state.epoch);
        again.row.state.version.0 += 1;
        again.row.state.head = again.id;
        again.snapshot = None;
        again.posts.clear();
        again.taken.clear();
        again.is_joined = true;
        again
    }
}

fn has_outcome(blob: &[u8]) -> bool {
    record::decode(blob).is_ok_and(|records| records.iter().any(is_outcome))
}

fn is_outcome(record: &Record) -> bool {
    match record {
        Record::Event(event) => matches!(
            event.kind,
            EventKind::ActivityCompleted { .. }
                | EventKind::ActivityFailed { .. }
                | EventKind::ActivityTimedOut { .. }
                | EventKind::ActivityCanceled { .. }
                | EventKind::StepRecorded(_)
                | EventKind::TimerFired { .. }
                | EventKind::Child(
                    ChildEvent::StartFailed { .. }
                        | ChildEvent::Started { .. }
                        | ChildEvent::Completed { .. }
                        | ChildEvent::Failed { .. }
                        | ChildEvent::Canceled { .. }
                        | ChildEvent::TimedOut { .. }
                        | ChildEvent::Terminated { .. }
                )
                | EventKind::External(
                    ExternalEvent::CancelFailed { .. }
                        | ExternalEvent::CancelDelivered { .. }
                        | ExternalEvent::SignalFailed { .. }
                        | ExternalEvent::SignalDelivered { .. }
                )
                | EventKind::Update(UpdateEvent::Completed { .. })
        ),
        Record::Fact(fact) => matches!(fact, Fact::StepResolved { .. }),
    }
}

const DEAD: &str = "the process has died";

impl<S: fmt::Debug> fmt::Debug for FaultyStore<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultyStore")
            .field("inner", &self.inner)
            .field("plan", &self.plan)
            .finish_non_exhaustive()
    }
}
