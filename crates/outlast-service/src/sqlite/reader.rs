//! A view of a database beside its living owner: for commands that only look.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use outlast_model::id::{RunId, WorkflowId};
use outlast_model::task::RunNo;
use outlast_model::view::ListFilter;
use rusqlite::Connection;

use super::check::{self, Report};
use super::connect;
use super::error::{OpenError, unreadable};
use super::live::Live;
use super::place::Place;
use super::{read, schema};
use crate::store::{Loaded, ReadError, RunRow};

/// Reads without owning: takes no lock, writes nothing, sees what is committed.
#[derive(Debug)]
pub struct Reader {
    conn: Mutex<Connection>,
    /// After the connection: as long as that has the file open.
    _live: Live,
}

impl Reader {
    pub(super) fn open(path: &Path) -> Result<Self, OpenError> {
        connect::refuse_old_sqlite(rusqlite::version_number(), rusqlite::version())?;
        let place = Place::resolve(path)?;
        if !place.db.exists() {
            return Err(OpenError::Missing { path: place.db });
        }
        let live = Live::new(&place.db);
        let conn = connect::reader(&place.db)?;
        let format = schema::identify(&conn, &place.db)?;
        if format == 0 {
            // Not one run yet, and not for a reader to make the tables.
            return Err(OpenError::Foreign { path: place.db });
        }
        schema::view(&conn, format).map_err(|e| OpenError::from_sqlite(&place.db, &e))?;
        Ok(Self {
            conn: Mutex::new(conn),
            _live: live,
        })
    }

    /// What brings a run's state back.
    ///
    /// # Errors
    /// When there is no such run or it cannot be read.
    pub fn load(&self, run: RunNo) -> Result<Loaded, ReadError> {
        read::load(&self.conn(), run)
    }

    /// All blobs of a run, oldest first.
    ///
    /// # Errors
    /// When there is no such run or it cannot be read.
    pub fn history(&self, run: RunNo) -> Result<Vec<Vec<u8>>, ReadError> {
        read::history(&self.conn(), run)
    }

    /// Every run of this workflow id, newest first, at most `limit`.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn find(&self, workflow_id: &WorkflowId, limit: usize) -> Result<Vec<RunRow>, ReadError> {
        let conn = self.conn();
        let tx = conn.unchecked_transaction().map_err(|e| unreadable(&e))?;
        let waiting = read::unindexed_runs(&tx, workflow_id).map_err(|e| unreadable(&e))?;
        read::find(&tx, workflow_id, limit, waiting)
    }

    /// The run with this id.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn find_run(&self, run_id: RunId) -> Result<Option<RunRow>, ReadError> {
        let conn = self.conn();
        let lost = |e: rusqlite::Error| unreadable(&e);
        let tx = conn.unchecked_transaction().map_err(lost)?;
        match number_of(&tx, run_id).map_err(lost)? {
            Some(run) => read::row_of(&tx, run).map_err(lost),
            None => Ok(None),
        }
    }

    /// Runs that match, newest first.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn list(&self, filter: &ListFilter) -> Result<Vec<RunRow>, ReadError> {
        let conn = self.conn();
        let lost = |e: rusqlite::Error| unreadable(&e);
        let tx = conn.unchecked_transaction().map_err(lost)?;
        let end = match filter.before {
            None => None,
            Some(id) => match number_of(&tx, id).map_err(lost)? {
                Some(run) => Some(run),
                None => return Ok(Vec::new()),
            },
        };
        read::list(&tx, filter, end).map_err(lost)
    }

    /// Reads the whole file and names all damage.
    ///
    /// # Errors
    /// When the file cannot be read at all.
    pub fn check(&self) -> Result<Report, ReadError> {
        check::check(&self.conn())
    }

    fn conn(&self) -> MutexGuard<'_, Connection> {
        self.conn.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn number_of(conn: &Connection, run_id: RunId) -> rusqlite::Result<Option<RunNo>> {
    match read::number_of(conn, run_id)? {
        Some(run) => Ok(Some(run)),
        None => read::unindexed_number(conn, run_id),
    }
}
