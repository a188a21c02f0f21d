//! Looking at a file beside its living owner, or without one: lists, descriptions, histories.
//!
//! Every answer comes from short reads of what is committed; between two of them the owner may
//! have gone on. A description is therefore taken again until nothing moved under it.

use std::path::Path;

use outlast_model::id::{RunId, WorkflowId};
use outlast_model::post::PostNo;
use outlast_model::task::RunNo;
use outlast_model::view::{Description, ListFilter, RunRef, Summary};
use outlast_model::{Event, Refusal};

use crate::read;
use crate::sqlite::{OpenError, Reader, SqliteStore};
use crate::store::{Boot, Commit, CommitError, Loaded, ReadError, RunRow, Store};

/// Rows of one short read while a prefix is looked for.
const PAGE: usize = 1_000;
/// How often a description is taken before a busy run is shown as it was last seen.
const TRIES: usize = 20;

/// A file that is only looked at.
#[derive(Debug)]
pub struct Inspector {
    view: View,
}

/// What a text given for a run stands for.
#[derive(Clone, Debug, PartialEq)]
pub enum Found {
    /// This run.
    One(Box<Summary>),
    /// Several begin like this; some of them.
    Several(Vec<Summary>),
}

impl Inspector {
    /// Opens the file to look at it.
    ///
    /// # Errors
    /// [`OpenError`] names the reason and the fix.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        let view = View(SqliteStore::open_reader(path)?);
        Ok(Self { view })
    }

    /// Runs that match, newest first.
    ///
    /// # Errors
    /// [`Refusal::Unavailable`] when the file cannot be read.
    pub fn list(&self, filter: &ListFilter) -> Result<Vec<Summary>, Refusal> {
        let rows = self.view.list(filter).map_err(|e| read::unavailable(&e))?;
        Ok(rows.iter().map(read::summary).collect())
    }

    /// The run that a person means: the newest run of a workflow id, a run id, or a beginning
    /// of either that no other has.
    ///
    /// # Errors
    /// [`Refusal::NotFound`] when there is none.
    pub fn find(&self, text: &str) -> Result<Found, Refusal> {
        if let Some(row) = self.exactly(text)? {
            return Ok(Found::One(Box::new(read::summary(&row))));
        }
        let mut matches = self.beginning_with(text)?;
        match matches.len() {
            0 => Err(Refusal::NotFound { what: text.into() }),
            1 => Ok(Found::One(Box::new(matches.remove(0)))),
            _ => Ok(Found::Several(matches)),
        }
    }

    /// How a run stands.
    ///
    /// # Errors
    /// [`Refusal::NotFound`], or [`Refusal::Quarantined`] when it cannot be read.
    pub fn describe(&self, run: &RunRef) -> Result<Description, Refusal> {
        let mut description = self.glance(run)?;
        for _ in 1..TRIES {
            let row = read::row_of(&self.view, run)?;
            if read::summary(&row) == description.summary {
                break;
            }
            description = self.glance(run)?;
        }
        Ok(description)
    }

    fn glance(&self, run: &RunRef) -> Result<Description, Refusal> {
        read::describe(&self.view, run, |_| None)
    }

    /// A run's history, as far as it is durable.
    ///
    /// # Errors
    /// [`Refusal::NotFound`], or [`Refusal::Quarantined`] when it cannot be read.
    pub fn history(&self, run: &RunRef) -> Result<Vec<Event>, Refusal> {
        let row = read::row_of(&self.view, run)?;
        let run_id = row.run_id;
        read::recall(&self.view, row.no).map_err(|error| Refusal::Quarantined {
            run_id,
            reason: error.to_string(),
        })
    }

    fn exactly(&self, text: &str) -> Result<Option<RunRow>, Refusal> {
        let newest = self.view.find(&WorkflowId::new(text), 1);
        if let Some(row) = newest
            .map_err(|e| read::unavailable(&e))?
            .into_iter()
            .next()
        {
            return Ok(Some(row));
        }
        match text.parse::<RunId>() {
            Ok(id) => self.view.find_run(id).map_err(|e| read::unavailable(&e)),
            Err(_) => Ok(None),
        }
    }

    /// Runs whose id or workflow id begins so, the newest of each workflow id; stops at some.
    fn beginning_with(&self, text: &str) -> Result<Vec<Summary>, Refusal> {
        let mut matches: Vec<Summary> = Vec::new();
        let mut filter = ListFilter {
            limit: PAGE,
            ..ListFilter::default()
        };
        loop {
            let page = self.list(&filter)?;
            let is_last = page.len() < PAGE;
            filter.before = page.last().map(|run| run.run_id);
            for run in page {
                let is_known = matches.iter().any(|m| m.workflow_id == run.workflow_id);
                let is_run = run.run_id.to_string().starts_with(text);
                if is_run || !is_known && run.workflow_id.as_str().starts_with(text) {
                    matches.push(run);
                }
            }
            if is_last || matches.len() > 10 {
                return Ok(matches);
            }
        }
    }
}

/// A reader in the shape of the port, for what this crate reads through it. It cannot write.
#[derive(Debug)]
struct View(Reader);

const LOOKS_ONLY: &str = "the file was opened to look at it";

impl Store for View {
    fn boot(&self) -> Result<Boot, ReadError> {
        Err(ReadError::Failed {
            reason: LOOKS_ONLY.into(),
        })
    }

    fn commit(&self, _: &[Commit]) -> Result<(), CommitError> {
        Err(CommitError::Failed {
            reason: LOOKS_ONLY.into(),
        })
    }

    fn forget(&self, _: &[PostNo]) -> Result<(), CommitError> {
        Err(CommitError::Failed {
            reason: LOOKS_ONLY.into(),
        })
    }

    fn load(&self, run: RunNo) -> Result<Loaded, ReadError> {
        self.0.load(run)
    }

    fn history(&self, run: RunNo) -> Result<Vec<Vec<u8>>, ReadError> {
        self.0.history(run)
    }

    fn find(&self, workflow_id: &WorkflowId, limit: usize) -> Result<Vec<RunRow>, ReadError> {
        self.0.find(workflow_id, limit)
    }

    fn find_run(&self, run_id: RunId) -> Result<Option<RunRow>, ReadError> {
        self.0.find_run(run_id)
    }

    fn list(&self, filter: &ListFilter) -> Result<Vec<RunRow>, ReadError> {
        self.0.list(filter)
    }

    fn reopen(&self) -> Result<Boot, ReadError> {
        self.boot()
    }

    fn close(&self) -> Result<(), ReadError> {
        Ok(())
    }
}
