//! One transaction writes exactly the group: rows by compare-and-set, blobs, snapshots, posts. No
//! `if` about the rules of a run.
//!
//! Statements live as long as the connection, in its cache, and are looked up once per group,
//! not per row. Keeping them outside the cache would need a thread that owns connection and
//! statements together (and so a hop per commit, also for the thread that could commit by
//! itself) or `unsafe`; the look-ups measure 1 us per group, which a group of one does not
//! notice beside its sync and a group of a hundred does not notice at all.

use outlast_model::planted::{Bug, is_planted};
use outlast_model::post::PostNo;
use outlast_model::task::RunNo;
use rusqlite::{CachedStatement, Connection, ErrorCode};

use super::index::Batch;
use super::post;
use super::row::{self, int, micros};
use super::writer::{LogState, raise_generation};
use crate::store::{Commit, CommitError, CommitNo, Expect, RowState, RunRow};

const BEGIN: &str = "BEGIN IMMEDIATE";
const COMMIT: &str = "COMMIT";
const ROLLBACK: &str = "ROLLBACK";

const INSERT_RUN: &str = "INSERT INTO run(id, status, version, epoch, head, events, bytes, \
     closed, wake, attention, started, run_id, type, queue, workflow_id, first_run) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)";

const UPDATE_RUN: &str = "UPDATE run SET status = ?1, version = ?2, epoch = ?3, head = ?4, \
     events = ?5, bytes = ?6, closed = ?7, wake = ?8, attention = ?9 \
     WHERE id = ?10 AND version = ?11 AND epoch = ?12 AND head = ?13";

/// The same for a run that was open and stays so, whether the index of open runs has it or not. A
/// statement that does not set the status leaves that index alone, which is a tenth of the work.
const UPDATE_OPEN_RUN: &str = "UPDATE run SET version = ?2, epoch = ?3, head = ?4, \
     events = ?5, bytes = ?6, closed = ?7, wake = ?8, attention = ?9 \
     WHERE id = ?10 AND version = ?11 AND epoch = ?12 AND head = ?13 AND status <= ?1";

/// [`UPDATE_RUN`] without the fence: see [`Bug::StaleEpochAccepted`].
const UPDATE_RUN_UNFENCED: &str = "UPDATE run SET status = ?1, version = ?2, epoch = ?3, \
     head = ?4, events = ?5, bytes = ?6, closed = ?7, wake = ?8, attention = ?9 \
     WHERE id = ?10 AND version = ?11 AND ?12 = ?12 AND head = ?13";

const INSERT_BLOB: &str = "INSERT INTO hist(id, prev, data) VALUES (?1, ?2, ?3)";

const REMOVE_BLOB: &str = "DELETE FROM hist WHERE id = ?1 AND prev = ?2";

const PUT_SNAPSHOT: &str = "INSERT INTO snap(run, version, head, data) VALUES (?1, ?2, ?3, ?4) \
     ON CONFLICT(run) DO UPDATE \
     SET version = excluded.version, head = excluded.head, data = excluded.data";

/// Writes the group and what rides along with it, durable when it returns.
pub(super) fn write(
    conn: &Connection,
    group: &[Commit],
    index: &Batch,
    forgotten: &[PostNo],
    log: LogState,
) -> Result<(), CommitError> {
    run(conn, BEGIN)?;
    let written = write_all(conn, group, index)
        .and_then(|()| post::remove(conn, forgotten).map_err(|e| lost(&e)))
        .and_then(|()| post::write(conn, group))
        .and_then(|()| index.write(conn).map_err(|e| lost(&e)))
        .and_then(|()| mark(conn, log).map_err(|e| lost(&e)))
        .and_then(|()| run(conn, COMMIT));
    if written.is_err() && !conn.is_autocommit() {
        // A transaction that cannot be undone leaves a connection nobody can trust.
        run(conn, ROLLBACK).map_err(|e| CommitError::Failed {
            reason: e.to_string(),
        })?;
    }
    written
}

/// A transaction that begins a log says so: see the module `log`.
fn mark(conn: &Connection, log: LogState) -> rusqlite::Result<()> {
    match log {
        LogState::Going => Ok(()),
        LogState::Copied => raise_generation(conn),
    }
}

fn write_all(conn: &Connection, group: &[Commit], index: &Batch) -> Result<(), CommitError> {
    let mut statements = Statements::of(conn).map_err(|e| lost(&e))?;
    group
        .iter()
        .try_for_each(|commit| statements.write(commit, index))
}

struct Statements<'c> {
    conn: &'c Connection,
    insert_run: CachedStatement<'c>,
    update_open_run: CachedStatement<'c>,
    update_run: CachedStatement<'c>,
    insert_blob: CachedStatement<'c>,
    put_snapshot: CachedStatement<'c>,
}

impl<'c> Statements<'c> {
    fn of(conn: &'c Connection) -> rusqlite::Result<Self> {
        let update = if is_planted(Bug::StaleEpochAccepted) {
            UPDATE_RUN_UNFENCED
        } else {
            UPDATE_RUN
        };
        Ok(Self {
            conn,
            insert_run: conn.prepare_cached(INSERT_RUN)?,
            update_open_run: conn.prepare_cached(UPDATE_OPEN_RUN)?,
            update_run: conn.prepare_cached(update)?,
            insert_blob: conn.prepare_cached(INSERT_BLOB)?,
            put_snapshot: conn.prepare_cached(PUT_SNAPSHOT)?,
        })
    }

    fn write(&mut self, commit: &Commit, index: &Batch) -> Result<(), CommitError> {
        self.write_row(commit, index)?;
        self.insert_blob
            .execute((int(commit.id.0), int(commit.prev.0), &commit.blob))
            .map_err(|e| number_in_use(commit.id, &e))?;
        self.remove_replaced(commit)?;
        let Some(snapshot) = &commit.snapshot else {
            return Ok(());
        };
        let run = int(commit.row.no.0);
        let version = int(commit.row.state.version.0);
        self.put_snapshot
            .execute((run, version, int(commit.id.0), snapshot))
            .map_err(|e| lost(&e))?;
        Ok(())
    }

    /// Few commits replace others: the statement is looked up when one does.
    fn remove_replaced(&self, commit: &Commit) -> Result<(), CommitError> {
        for (replaced, prev) in commit.replaced() {
            let removed = self
                .conn
                .prepare_cached(REMOVE_BLOB)
                .and_then(|mut remove| remove.execute((int(replaced.0), int(prev.0))))
                .map_err(|e| lost(&e))?;
            if removed == 0 {
                return Err(CommitError::Conflict { run: commit.row.no });
            }
        }
        Ok(())
    }

    fn write_row(&mut self, commit: &Commit, index: &Batch) -> Result<(), CommitError> {
        let conflict = CommitError::Conflict { run: commit.row.no };
        match commit.expect {
            Expect::New if commit.found_head() == CommitNo(0) => {
                match self.insert(&commit.row, index.status_of(&commit.row)) {
                    Ok(_) => Ok(()),
                    Err(e) if is_constraint(&e) => Err(conflict),
                    Err(e) => Err(lost(&e)),
                }
            }
            Expect::New => Err(conflict),
            Expect::At(version, epoch) => {
                let found = (int(version.0), epoch.0, int(commit.found_head().0));
                match self.update(commit.row.no, &commit.row.state, found) {
                    Ok(0) => Err(conflict),
                    Ok(_) => Ok(()),
                    Err(e) => Err(lost(&e)),
                }
            }
        }
    }

    fn insert(&mut self, run: &RunRow, status: u8) -> rusqlite::Result<usize> {
        let state = &run.state;
        self.insert_run.execute((
            int(run.no.0),
            status,
            int(state.version.0),
            state.epoch.0,
            int(state.head.0),
            int(state.events),
            int(state.bytes),
            row::closed(state),
            row::wake(state),
            state.attention.0,
            micros(run.started),
            run.run_id.0.to_be_bytes(),
            run.workflow_type.as_str(),
            run.queue.as_str(),
            run.workflow_id.as_str(),
            run.first_run.map(|id| id.0.to_be_bytes()),
        ))
    }

    /// `found`: the version, epoch and head the row must have.
    fn update(
        &mut self,
        run: RunNo,
        state: &RowState,
        found: (i64, u32, i64),
    ) -> rusqlite::Result<usize> {
        let values = (
            state.status.number(),
            int(state.version.0),
            state.epoch.0,
            int(state.head.0),
            int(state.events),
            int(state.bytes),
            row::closed(state),
            row::wake(state),
            state.attention.0,
            int(run.0),
            found.0,
            found.1,
            found.2,
        );
        if state.status.is_open() && self.update_open_run.execute(values)? == 1 {
            return Ok(1);
        }
        self.update_run.execute(values)
    }
}

fn run(conn: &Connection, sql: &str) -> Result<(), CommitError> {
    conn.prepare_cached(sql)
        .and_then(|mut statement| statement.execute(()))
        .map(|_| ())
        .map_err(|e| lost(&e))
}

/// A number that is taken means that the service's counter is behind: booting again corrects it.
fn number_in_use(id: CommitNo, error: &rusqlite::Error) -> CommitError {
    if is_constraint(error) {
        return CommitError::Failed {
            reason: format!("commit number {} is in use", id.0),
        };
    }
    lost(error)
}

pub(super) fn is_constraint(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation)
}

/// A full disk shows before the commit mark is in the log, so nothing of the group is there; of
/// any other failure that cannot be said.
pub(super) fn lost(error: &rusqlite::Error) -> CommitError {
    if error.sqlite_error_code() == Some(ErrorCode::DiskFull) {
        return CommitError::Full;
    }
    CommitError::Failed {
        reason: error.to_string(),
    }
}
