//! The indexes of workflow ids, run ids and open runs, written behind.
//!
//! Random keys inserted one by one dirty a page each and cost half the throughput. So new runs
//! wait in memory, and when enough have come together they are frozen, sorted and written in
//! slices that ride along with later commits: neighbours in the order share pages, nothing needs
//! a sync of its own, and no commit carries more than a few entries per run it starts.
//!
//! Open runs have an index that SQLite keeps by itself, of all rows with the status of an open run.
//! A commit that starts or ends a run would write a page of it, for a run that is over in a moment.
//! So a new run has another status at first, which that index leaves out, and gets the right one
//! when its ids are written, if it is still open then.
//!
//! The watermark in `meta` says up to which run number the tables are complete; runs past it
//! are read from the run rows at boot. A run that comes late, with a number the frozen batch
//! already covers, is written at once. Inserting twice is harmless, so a crash between two
//! slices only repeats them.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use foldhash::{HashMap, HashMapExt};
use outlast_model::id::{RunId, WorkflowId};
use outlast_model::task::RunNo;
use rusqlite::Connection;

use super::row::{OPEN_BEHIND, count, int};
use crate::store::{Commit, Expect, RunRow};

/// Entries written per run that a group starts. Each run has two and a quarter, so a batch is down
/// before the next one is full.
const ENTRIES_PER_START: usize = 4;

const INSERT_WORKFLOW: &str = "INSERT OR IGNORE INTO wf(workflow_id, run) VALUES (?1, ?2)";
const INSERT_RUN_ID: &str = "INSERT OR IGNORE INTO rid(run_id, run) VALUES (?1, ?2)";
const LIST_OPEN: &str = "UPDATE run SET status = 1 WHERE id > ?1 AND id <= ?2 AND status = 0";
const SET_WATERMARK: &str = "UPDATE meta SET value = ?1 WHERE key = 'indexed'";

/// Rows that are looked through for open runs in place of one entry. Few, since all of them may be
/// open: then each is written, and a group of many starts must not take long.
const ROWS_PER_ENTRY: u64 = 4;

/// Runs the tables may not have yet.
#[derive(Debug)]
pub(super) struct Tail {
    /// Runs in a batch.
    capacity: usize,
    /// Every run up to here is in the tables, in `frozen`, or written at once.
    covered: RunNo,
    fresh: Fresh,
    frozen: Option<Frozen>,
}

#[derive(Debug)]
struct Fresh {
    by_workflow: HashMap<WorkflowId, Vec<RunNo>>,
    by_run: HashMap<RunId, RunNo>,
    newest: RunNo,
}

#[derive(Debug)]
struct Frozen {
    sorted: Arc<Sorted>,
    /// Entries that are durable.
    written: usize,
}

/// Entries in the order of their tables: first all workflow ids, then all run ids, then the open
/// runs among these rows, so many at a time.
#[derive(Debug)]
struct Sorted {
    workflows: Vec<(WorkflowId, RunNo)>,
    runs: Vec<(RunId, RunNo)>,
    /// Not one of them.
    before: RunNo,
    newest: RunNo,
}

/// What one entry says.
enum Entry<'s> {
    Workflow(&'s WorkflowId, RunNo),
    Run(RunId, RunNo),
    Open(Range<u64>),
}

/// What one transaction writes for the index.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// New runs up to here are late, and complete from the start.
    covered: RunNo,
    late: Vec<(WorkflowId, RunId, RunNo)>,
    slice: Option<(Arc<Sorted>, Range<usize>)>,
}

impl Tail {
    /// Nothing waits; the tables are complete up to `watermark`.
    pub(super) fn new(capacity: usize, watermark: RunNo) -> Self {
        Self {
            capacity: capacity.max(1),
            covered: watermark,
            fresh: Fresh::new(),
            frozen: None,
        }
    }

    /// A run found past the watermark.
    pub(super) fn add(&mut self, workflow_id: WorkflowId, run_id: RunId, run: RunNo) {
        self.fresh.add(workflow_id, run_id, run);
    }

    /// What the transaction of this group has to write.
    pub(super) fn plan(&mut self, group: &[Commit]) -> Batch {
        // First of all: what is covered decides who is late.
        self.freeze(self.capacity);
        let mut batch = Batch {
            covered: self.covered,
            ..Batch::default()
        };
        let mut starts = 0;
        for row in group
            .iter()
            .filter(|c| c.expect == Expect::New)
            .map(|c| &c.row)
        {
            starts += 1;
            if row.no <= self.covered {
                batch
                    .late
                    .push((row.workflow_id.clone(), row.run_id, row.no));
            }
        }
        batch.slice = self.slice(starts * ENTRIES_PER_START);
        batch
    }

    /// The group and its batch are durable.
    pub(super) fn committed(&mut self, group: &[Commit], batch: &Batch) {
        for row in group
            .iter()
            .filter(|c| c.expect == Expect::New)
            .map(|c| &c.row)
        {
            if row.no > self.covered {
                self.fresh.add(row.workflow_id.clone(), row.run_id, row.no);
            }
        }
        if let (Some(frozen), Some((sorted, range))) = (&mut self.frozen, &batch.slice) {
            frozen.written = range.end;
            if range.end == sorted.len() {
                self.frozen = None;
            }
        }
    }

    /// Everything that waits, in one or two batches; the second is empty when the first has all.
    pub(super) fn flush(&mut self) -> [Batch; 2] {
        let slice = self.slice(usize::MAX);
        self.frozen = None;
        self.freeze(1);
        let rest = self.slice(usize::MAX);
        self.frozen = None;
        [slice, rest].map(|slice| Batch {
            slice,
            ..Batch::default()
        })
    }

    /// The runs of this workflow id that wait.
    pub(super) fn runs_of(&self, workflow_id: &WorkflowId) -> BTreeSet<RunNo> {
        let fresh = self
            .fresh
            .by_workflow
            .get(workflow_id)
            .into_iter()
            .flatten()
            .copied();
        let frozen = self
            .frozen
            .iter()
            .flat_map(|f| f.sorted.runs_of(workflow_id));
        fresh.chain(frozen).collect()
    }

    /// The number of this run, if it waits.
    pub(super) fn run(&self, run_id: RunId) -> Option<RunNo> {
        let fresh = self.fresh.by_run.get(&run_id).copied();
        fresh.or_else(|| self.frozen.as_ref().and_then(|f| f.sorted.run(run_id)))
    }

    fn freeze(&mut self, least: usize) {
        if self.frozen.is_none() && self.fresh.by_run.len() >= least {
            let fresh = std::mem::replace(&mut self.fresh, Fresh::new());
            let before = self.covered;
            self.covered = before.max(fresh.newest);
            self.frozen = Some(Frozen {
                sorted: Arc::new(fresh.sorted(before)),
                written: 0,
            });
        }
    }

    fn slice(&self, entries: usize) -> Option<(Arc<Sorted>, Range<usize>)> {
        let frozen = self.frozen.as_ref()?;
        let end = frozen
            .written
            .saturating_add(entries)
            .min(frozen.sorted.len());
        (end > frozen.written).then(|| (Arc::clone(&frozen.sorted), frozen.written..end))
    }
}

impl Fresh {
    fn new() -> Self {
        Self {
            by_workflow: HashMap::new(),
            by_run: HashMap::new(),
            newest: RunNo(0),
        }
    }

    fn add(&mut self, workflow_id: WorkflowId, run_id: RunId, run: RunNo) {
        self.by_workflow.entry(workflow_id).or_default().push(run);
        self.by_run.insert(run_id, run);
        self.newest = self.newest.max(run);
    }

    fn sorted(self, before: RunNo) -> Sorted {
        let pairs = |(id, runs): (WorkflowId, Vec<RunNo>)| {
            runs.into_iter().map(move |run| (id.clone(), run))
        };
        let mut workflows: Vec<_> = self.by_workflow.into_iter().flat_map(pairs).collect();
        workflows.sort_unstable();
        let mut runs: Vec<_> = self.by_run.into_iter().collect();
        runs.sort_unstable();
        Sorted {
            workflows,
            runs,
            before,
            newest: self.newest,
        }
    }
}

impl Sorted {
    fn len(&self) -> usize {
        let rows = self.newest.0.saturating_sub(self.before.0);
        let parts = usize::try_from(rows.div_ceil(ROWS_PER_ENTRY)).unwrap_or(usize::MAX);
        self.workflows.len() + self.runs.len() + parts
    }

    fn entry(&self, at: usize) -> Entry<'_> {
        if let Some((id, run)) = self.workflows.get(at) {
            return Entry::Workflow(id, *run);
        }
        let at = at - self.workflows.len();
        if let Some((id, run)) = self.runs.get(at) {
            return Entry::Run(*id, *run);
        }
        let part = (at - self.runs.len()) as u64;
        let before = self.before.0 + part * ROWS_PER_ENTRY;
        Entry::Open(before..self.newest.0.min(before + ROWS_PER_ENTRY))
    }

    fn runs_of(&self, workflow_id: &WorkflowId) -> impl Iterator<Item = RunNo> {
        let first = self.workflows.partition_point(|(id, _)| id < workflow_id);
        let same = self.workflows[first..]
            .iter()
            .take_while(move |(id, _)| id == workflow_id);
        same.map(|(_, run)| *run)
    }

    fn run(&self, run_id: RunId) -> Option<RunNo> {
        let at = self
            .runs
            .binary_search_by_key(&run_id, |(id, _)| *id)
            .ok()?;
        Some(self.runs[at].1)
    }
}

impl Batch {
    /// What the row of a new run says of its status: an open run is listed as one later, unless
    /// it comes late.
    pub(super) fn status_of(&self, run: &RunRow) -> u8 {
        if run.state.status.is_open() && run.no > self.covered {
            return OPEN_BEHIND;
        }
        run.state.status.number()
    }

    /// Writes it, in the transaction the connection is in.
    pub(super) fn write(&self, conn: &Connection) -> rusqlite::Result<()> {
        if self.late.is_empty() && self.slice.is_none() {
            return Ok(());
        }
        // Looked up once, not per entry.
        let mut workflow = conn.prepare_cached(INSERT_WORKFLOW)?;
        let mut run_id = conn.prepare_cached(INSERT_RUN_ID)?;
        for (id, of_run, run) in &self.late {
            workflow.execute((id.as_str(), int(run.0)))?;
            run_id.execute((of_run.0.to_be_bytes(), int(run.0)))?;
        }
        let Some((sorted, range)) = &self.slice else {
            return Ok(());
        };
        let mut open = conn.prepare_cached(LIST_OPEN)?;
        for at in range.clone() {
            match sorted.entry(at) {
                Entry::Workflow(id, run) => workflow.execute((id.as_str(), int(run.0)))?,
                Entry::Run(id, run) => run_id.execute((id.0.to_be_bytes(), int(run.0)))?,
                Entry::Open(rows) => open.execute((int(rows.start), int(rows.end)))?,
            };
        }
        if range.end == sorted.len() {
            conn.prepare_cached(SET_WATERMARK)?
                .execute([int(sorted.newest.0)])?;
        }
        Ok(())
    }
}

/// Up to which run the tables are complete.
pub(super) fn watermark(conn: &Connection) -> rusqlite::Result<RunNo> {
    let sql = "SELECT value FROM meta WHERE key = 'indexed'";
    conn.query_row(sql, (), |row| count(row, 0)).map(RunNo)
}

/// The runs past the watermark, from their rows.
pub(super) fn rebuild(conn: &Connection, capacity: usize) -> rusqlite::Result<Tail> {
    let watermark = watermark(conn)?;
    let mut tail = Tail::new(capacity, watermark);
    let mut statement =
        conn.prepare_cached("SELECT id, run_id, workflow_id FROM run WHERE id > ?1")?;
    let mut rows = statement.query([int(watermark.0)])?;
    while let Some(row) = rows.next()? {
        let workflow_id: String = row.get(2)?;
        let run_id = RunId(u128::from_be_bytes(row.get(1)?));
        tail.add(WorkflowId::new(workflow_id), run_id, RunNo(count(row, 0)?));
    }
    Ok(tail)
}
