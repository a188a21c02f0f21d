//! The owner's side: who may write, and what a failure does to that.
//!
//! ```text
//! Closed --open--> Opened --boot--> Owned --close--> Closed
//!                                     +--failure--> Failed --reopen--> Owned
//! ```
//!
//! After a failure nothing is written until the files were closed and opened again, because
//! whether the last group is on the disk is not known. What the log shows then may be in the
//! page cache only: a sync that failed is not made good by the next one. So reopening copies the
//! log into the database and syncs that before anything is built on it.

use outlast_model::post::PostNo;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, Transaction, TransactionBehavior};

use super::connect::{self, PAGE_BYTES};
use super::error::{OpenError, unreadable};
use super::index::{self, Batch, Tail};
use super::lock::Ownership;
use super::place::Place;
use super::watch::{Sight, Watch};
use super::{commit, post, read};
use crate::store::{Boot, Commit, CommitError, ReadError};

/// The one writer of a database.
#[derive(Debug)]
pub(super) struct Writer {
    place: Place,
    state: State,
    ownership: Option<Ownership>,
    max_bytes: Option<u64>,
    /// Posts to be removed. They ride along with the next group: not worth a sync of their own.
    forgotten: Vec<PostNo>,
}

#[derive(Debug)]
enum State {
    Closed,
    Opened(Connection),
    Owned(Connection, Watch),
    Failed(String),
}

impl Writer {
    /// Takes the lock and opens the file, made and brought to today's format if need be.
    pub(super) fn open(place: Place, max_bytes: Option<u64>) -> Result<Self, OpenError> {
        let mut writer = Self {
            place,
            state: State::Closed,
            ownership: None,
            max_bytes,
            forgotten: Vec::new(),
        };
        writer.connect()?;
        Ok(writer)
    }

    /// Takes possession. Whatever state the writer was in, it is open after this.
    pub(super) fn boot(&mut self, index_batch: usize) -> Result<(Boot, Tail), ReadError> {
        match &self.state {
            State::Opened(_) | State::Owned(..) => {}
            State::Closed => self.connect()?,
            State::Failed(_) => self.reconnect()?,
        }
        let conn = match std::mem::replace(&mut self.state, State::Closed) {
            State::Opened(conn) | State::Owned(conn, _) => conn,
            State::Closed | State::Failed(_) => {
                return Err(ReadError::Failed {
                    reason: "the store is closed".to_owned(),
                });
            }
        };
        match possess(&conn, index_batch, &self.forgotten) {
            Ok(found) => {
                self.forgotten.clear();
                // The mark just written made the log, if it was not there.
                self.state = State::Owned(conn, Watch::start(&self.place));
                Ok(found)
            }
            Err(e) => {
                self.state = State::Opened(conn);
                Err(unreadable(&e))
            }
        }
    }

    /// Closes and opens everything, then [`boot`](Self::boot).
    pub(super) fn reopen(&mut self, index_batch: usize) -> Result<(Boot, Tail), ReadError> {
        self.fail("being opened again".to_owned());
        self.boot(index_batch)
    }

    /// Writes the group and its part of the index.
    pub(super) fn commit(&mut self, group: &[Commit], index: &Batch) -> Result<(), CommitError> {
        let outcome = match &self.state {
            State::Owned(conn, watch) => match watch.look(&self.place) {
                Sight::Intact => commit::write(conn, group, index, &self.forgotten),
                Sight::LogGone => failed(rescue(conn)),
                Sight::Replaced => failed("the files of the database were replaced under it"),
            },
            State::Closed | State::Opened(_) => return failed("not booted, or closed"),
            State::Failed(reason) => return failed(reason),
        };
        match &outcome {
            Ok(()) => self.forgotten.clear(),
            Err(CommitError::Failed { reason }) => self.fail(reason.clone()),
            Err(CommitError::Conflict { .. } | CommitError::Full) => {}
        }
        outcome
    }

    /// Remembers what nobody will take.
    pub(super) fn forget(&mut self, posts: &[PostNo]) -> Result<(), CommitError> {
        match &self.state {
            State::Owned(..) => self.forgotten.extend_from_slice(posts),
            State::Closed | State::Opened(_) => return failed("not booted, or closed"),
            State::Failed(reason) => return failed(reason),
        }
        Ok(())
    }

    /// Whether the files are still those that were opened.
    pub(super) fn is_intact(&self) -> bool {
        match &self.state {
            State::Owned(_, watch) => watch.look(&self.place) == Sight::Intact,
            State::Closed | State::Opened(_) => true,
            State::Failed(_) => false,
        }
    }

    /// Writes the rest of the index and the mark of an orderly stop, and lets the file go.
    pub(super) fn close(&mut self, index: &[Batch]) -> Result<(), ReadError> {
        let state = std::mem::replace(&mut self.state, State::Closed);
        let outcome = match state {
            State::Closed | State::Opened(_) => Ok(()),
            State::Owned(conn, _) => {
                finish(conn, index, &self.forgotten).map_err(|e| unreadable(&e))
            }
            State::Failed(reason) => Err(ReadError::Failed { reason }),
        };
        self.forgotten.clear();
        self.ownership = None;
        outcome
    }

    /// How large the database may become.
    pub(super) fn set_max_bytes(&mut self, max_bytes: Option<u64>) -> Result<(), ReadError> {
        self.max_bytes = max_bytes;
        match &self.state {
            State::Opened(conn) | State::Owned(conn, _) => {
                limit(conn, max_bytes).map_err(|e| unreadable(&e))
            }
            State::Closed | State::Failed(_) => Ok(()),
        }
    }

    fn connect(&mut self) -> Result<(), OpenError> {
        if self.ownership.is_none() {
            self.ownership = Some(Ownership::take(&self.place.lock, &self.place.db)?);
        }
        let path = &self.place.db;
        self.place.create()?;
        let conn = connect::writer(path)?;
        limit(&conn, self.max_bytes).map_err(|e| OpenError::from_sqlite(path, &e))?;
        self.state = State::Opened(conn);
        Ok(())
    }

    fn reconnect(&mut self) -> Result<(), ReadError> {
        let State::Failed(reason) = &self.state else {
            return Ok(());
        };
        let reason = reason.clone();
        self.connect()?;
        let State::Opened(conn) = &self.state else {
            return Ok(());
        };
        let settled = checkpoint(conn);
        if let Ok(Busy::No) = settled {
            return Ok(());
        }
        self.fail(reason);
        Err(settled.map_or_else(
            |e| unreadable(&e),
            |_| ReadError::Failed {
                reason: "a reader holds an old view of the database: try again".to_owned(),
            },
        ))
    }

    fn fail(&mut self, reason: String) {
        let state = std::mem::replace(&mut self.state, State::Failed(reason));
        if let State::Opened(conn) | State::Owned(conn, _) = state {
            // Its log may not be the one on the disk any more: nothing of it goes to the file.
            // If even this setting fails, the connection is of no more use than before.
            conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)
                .ok();
        }
    }
}

/// Whether a reader kept a checkpoint from being complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Busy {
    No,
    Yes,
}

/// Copies the whole log into the database, synced, and empties it.
fn checkpoint(conn: &Connection) -> rusqlite::Result<Busy> {
    let sql = "PRAGMA wal_checkpoint(TRUNCATE)";
    let is_busy: bool = conn.query_row(sql, (), |row| row.get(0))?;
    Ok(if is_busy { Busy::Yes } else { Busy::No })
}

/// The log was removed, but this connection still holds it, and there is no other that somebody
/// could have written to: what it has goes into the database.
fn rescue(conn: &Connection) -> &'static str {
    match checkpoint(conn) {
        Ok(Busy::No) => "the log of the database was removed; all it held was saved",
        Ok(Busy::Yes) | Err(_) => "the log of the database was removed, and could not be saved",
    }
}

fn possess(
    conn: &Connection,
    index_batch: usize,
    forgotten: &[PostNo],
) -> rusqlite::Result<(Boot, Tail)> {
    let tx = Transaction::new_unchecked(conn, TransactionBehavior::Immediate)?;
    post::remove(&tx, forgotten)?;
    let boot = read::boot(&tx)?;
    let tail = index::rebuild(&tx, index_batch)?;
    tx.execute("UPDATE meta SET value = 0 WHERE key = 'clean'", ())?;
    tx.commit()?;
    Ok((boot, tail))
}

fn finish(conn: Connection, index: &[Batch], forgotten: &[PostNo]) -> rusqlite::Result<()> {
    let tx = Transaction::new_unchecked(&conn, TransactionBehavior::Immediate)?;
    post::remove(&tx, forgotten)?;
    for batch in index {
        batch.write(&tx)?;
    }
    tx.execute("UPDATE meta SET value = 1 WHERE key = 'clean'", ())?;
    tx.commit()?;
    // A reader may keep the log from being emptied; the next owner does it.
    checkpoint(&conn)?;
    conn.close().map_err(|(_, e)| e)
}

fn limit(conn: &Connection, max_bytes: Option<u64>) -> rusqlite::Result<()> {
    // SQLite's own limit, the largest number of pages a file can have; 0 would change nothing.
    let pages = max_bytes.map_or(4_294_967_294, |bytes| (bytes / PAGE_BYTES).max(1));
    conn.query_row(&format!("PRAGMA max_page_count = {pages}"), (), |_| Ok(()))
}

fn failed(reason: &str) -> Result<(), CommitError> {
    Err(CommitError::Failed {
        reason: reason.to_owned(),
    })
}
