//! The owner's side: who may write, and what a failure does to that.
//!
//! ```text
//! Closed --open--> Opened --boot--> Owned --close--> Closed
//!                                     +--failure--> Failed --reopen--> Owned
//! ```
//!
//! After a failure nothing is written until the files were closed and opened again, because
//! whether the last group is on the disk is not known. What the log shows then may be in the
//! page cache only: a sync that failed is not made good by the next one, nor is it known to the
//! process that comes after one that died. So before SQLite opens a log it is written again, byte
//! for byte, and synced; then a page is written that always changes (the generation) and synced
//! with the log. Only then anything is answered. If the power goes,
//!
//! - before the log is synced, the disk has the frames that were synced once, and any of the others,
//!   which count as far as they are a whole: nothing was built on them, nothing was copied from them;
//! - while the log is copied into the database, the log is whole, and repairs what is half there;
//! - after the log was cut off and before the head of the new one is synced (SQLite writes no frame
//!   before), the old log may be back: whole, it gives what the database has already;
//! - behind the head, frames of the old log have another salt and do not count, and the new ones
//!   count when they are whole, which they are from the sync of the commit on.
//!
//! A checkpoint that fails leaves the log as it is, and its count of copied frames: the next one
//! writes those pages again. The group it came behind is durable, and answered; the store is opened
//! again before the next one. SQLite would not say that it failed, so it is not left to SQLite.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use outlast_model::planted::{Bug, is_planted};
use outlast_model::post::PostNo;
use rusqlite::config::DbConfig;
use rusqlite::hooks::Wal;
use rusqlite::{Connection, ErrorCode, Transaction, TransactionBehavior};

use super::connect::{self, PAGE_BYTES};
use super::error::{OpenError, unreadable};
use super::held::HeldLog;
use super::index::{self, Batch, Tail};
use super::lock::Ownership;
use super::log::{self, Stale};
use super::place::Place;
use super::watch::{self, Sight, Watch};
use super::{OpenOptions, commit, post, read, rescue, touch};
use crate::store::{Boot, Commit, CommitError, ReadError};

/// A log of so many frames, 32 MiB, is begun anew even if readers must be stopped for it.
const LONG_FRAMES: u32 = 4096;
/// One of so many, 64 MiB, is longer than it should be.
const HELD_FRAMES: u32 = 2 * LONG_FRAMES;
/// How long a commit waits for readers then.
const MOMENT: Duration = Duration::from_millis(50);

/// The one writer of a database.
#[derive(Debug)]
pub(super) struct Writer {
    place: Place,
    state: State,
    ownership: Option<Ownership>,
    max_bytes: Option<u64>,
    /// So many frames are copied into the database.
    log_pages: u32,
    /// The database that was taken possession of last.
    owned: Option<Identity>,
    /// How long its file was.
    length: u64,
    log: LogState,
    /// Frames in the log after the last commit.
    frames: Arc<AtomicU32>,
    /// So many are too many.
    long: u32,
    held: Held,
    /// Posts to be removed. They ride along with the next group: not worth a sync of their own.
    forgotten: Vec<PostNo>,
}

/// Which database a file is, and how new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity {
    store: i64,
    generation: i64,
}

impl Identity {
    fn next(self) -> Self {
        Self {
            generation: self.generation + 1,
            ..self
        }
    }
}

/// Whether the next transaction begins a log, as far as can be said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LogState {
    /// It goes on with the one there is.
    Going,
    /// All of it is in the database.
    Copied,
}

/// Whether another program keeps the log from beginning anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    /// Not that it were known.
    No,
    /// Yes, and somebody was told.
    Told,
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
    pub(super) fn open(place: Place, options: &OpenOptions) -> Result<Self, OpenError> {
        let ownership = Some(Ownership::take(&place.lock, &place.db)?);
        let mut writer = Self {
            place,
            state: State::Closed,
            ownership,
            max_bytes: options.max_bytes,
            log_pages: options.log_pages,
            owned: None,
            length: 0,
            log: LogState::Going,
            frames: Arc::default(),
            long: LONG_FRAMES,
            held: Held::No,
            forgotten: Vec::new(),
        };
        writer.place.create()?;
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
        match self.possess(&conn, index_batch) {
            Ok(found) => {
                self.forgotten.clear();
                self.log = LogState::Going;
                // The mark just written made the log, if it was not there.
                self.state = State::Owned(conn, Watch::start(&self.place));
                Ok(found)
            }
            Err(e) => {
                self.state = State::Opened(conn);
                self.fail(e.to_string());
                Err(e)
            }
        }
    }

    /// Reads what is there and writes the mark of an owner, all of it on the disk when it returns.
    fn possess(
        &mut self,
        conn: &Connection,
        index_batch: usize,
    ) -> Result<(Boot, Tail), ReadError> {
        let lost = |e: rusqlite::Error| unreadable(&e);
        let tx = Transaction::new_unchecked(conn, TransactionBehavior::Immediate).map_err(lost)?;
        let found = identity(&tx).map_err(lost)?;
        if self
            .owned
            .is_some_and(|owned| found.store != owned.store || found.generation < owned.generation)
        {
            let path = self.place.db.clone();
            return Err(OpenError::NotOurs { path }.into());
        }
        post::remove(&tx, &self.forgotten).map_err(lost)?;
        let boot = read::boot(&tx).map_err(lost)?;
        let tail = index::rebuild(&tx, index_batch).map_err(lost)?;
        tx.execute("UPDATE meta SET value = 0 WHERE key = 'clean'", ())
            .map_err(lost)?;
        if !is_planted(Bug::ReopenUnsynced) {
            raise_generation(&tx).map_err(lost)?;
        }
        let owned = identity(&tx).map_err(lost)?;
        tx.commit().map_err(lost)?;
        // SQLite synced the directory for the log, but does not say whether it could.
        touch::sync_directory_of(&self.place.wal)
            .map_err(|e| OpenError::from_io(&self.place.db, &e))?;
        self.owned = Some(owned);
        Ok((boot, tail))
    }

    /// Closes and opens everything, then [`boot`](Self::boot).
    pub(super) fn reopen(&mut self, index_batch: usize) -> Result<(Boot, Tail), ReadError> {
        self.fail("being opened again".to_owned());
        self.boot(index_batch)
    }

    /// Writes the group and its part of the index.
    pub(super) fn commit(&mut self, group: &[Commit], index: &Batch) -> Result<(), CommitError> {
        let outcome = match &mut self.state {
            State::Owned(conn, watch) => match watch.look(&self.place) {
                Sight::Intact => commit::write(conn, group, index, &self.forgotten, self.log),
                Sight::LogGone => failed(rescue(conn)),
                Sight::Gone => {
                    let saved = rescue::save(conn, &self.place);
                    failed(&format!("{}; {saved}", gone(&self.place)))
                }
                Sight::Shortened => {
                    let path = self.place.db.clone();
                    let saved = rescue::save(conn, &self.place);
                    failed(&format!("{}; {saved}", OpenError::Shortened { path }))
                }
                Sight::Replaced => {
                    let saved = rescue::save(conn, &self.place);
                    let path = self.place.db.display();
                    failed(&format!("the files of {path} were replaced; {saved}"))
                }
            },
            State::Closed | State::Opened(_) => return failed("not booted, or closed"),
            State::Failed(reason) => return failed(reason),
        };
        match &outcome {
            Ok(()) => self.written(),
            Err(CommitError::Failed { reason }) => self.fail(reason.clone()),
            Err(CommitError::Conflict { .. } | CommitError::Full) => {}
        }
        outcome
    }

    /// A group is on the disk. When the log has become long, it is copied into the database.
    fn written(&mut self) {
        self.forgotten.clear();
        if self.log == LogState::Copied {
            self.log = LogState::Going;
            self.owned = self.owned.map(Identity::next);
        }
        let State::Owned(conn, _) = &self.state else {
            return;
        };
        let frames = self.frames.load(Ordering::Relaxed);
        if frames < LONG_FRAMES {
            // It has begun anew, or never was long.
            (self.long, self.held) = (LONG_FRAMES, Held::No);
        }
        if frames < self.log_pages {
            return;
        }
        match copy(conn) {
            Ok(log) => self.log = log,
            // It is tried again behind the next group.
            Err(e) if is_passing(&e) => {}
            Err(e) => self.fail(format!("a checkpoint failed: {e}")),
        }
    }

    /// Whether readers that overlap have kept the log from beginning anew for too long.
    pub(super) fn is_log_long(&self) -> bool {
        self.frames.load(Ordering::Relaxed) >= self.long
    }

    /// Copies the log and has the next transaction begin it anew. Readers that began before are
    /// waited for, a moment: new ones read the database alone and are not in the way.
    pub(super) fn begin_log_anew(&mut self) -> Busy {
        let State::Owned(conn, _) = &self.state else {
            return Busy::No;
        };
        let outcome = conn
            .busy_timeout(MOMENT)
            .and_then(|()| run_checkpoint(conn, "PRAGMA wal_checkpoint(RESTART)"));
        let restored = conn.busy_timeout(connect::BUSY);
        match outcome.and_then(|busy| restored.map(|()| busy)) {
            Ok(Busy::No) => {
                self.log = LogState::Copied;
                self.frames.store(0, Ordering::Relaxed);
                (self.long, self.held) = (LONG_FRAMES, Held::No);
                Busy::No
            }
            Ok(Busy::Yes) => Busy::Yes,
            Err(e) if is_passing(&e) => Busy::Yes,
            Err(e) => {
                self.fail(format!("a checkpoint failed: {e}"));
                Busy::No
            }
        }
    }

    /// The reader in the way is none of ours: it is waited for again when the log has grown. Says
    /// so, once, when it has become too long.
    pub(super) fn wait_for_a_longer_log(&mut self) -> Option<HeldLog> {
        let frames = self.frames.load(Ordering::Relaxed);
        self.long = frames + frames / 4;
        if frames < HELD_FRAMES || self.held == Held::Told {
            return None;
        }
        self.held = Held::Told;
        Some(HeldLog {
            path: self.place.db.clone(),
            bytes: u64::from(frames) * PAGE_BYTES,
        })
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
            State::Owned(_, watch) => watch.clone().look(&self.place) == Sight::Intact,
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
        self.length = 0;
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
        if is_planted(Bug::CreatedOnReopen) {
            self.place.create()?;
        }
        self.prepare()?;
        let mut conn = connect::writer(path)?;
        let frames = self.frames.clone();
        frames.store(0, Ordering::Relaxed);
        let count = move |_: &mut Wal, now| {
            frames.store(u32::try_from(now).unwrap_or(0), Ordering::Relaxed);
            Ok(())
        };
        conn.wal_hook(Some(count))
            .map_err(|e| OpenError::from_sqlite(path, &e))?;
        limit(&conn, self.max_bytes).map_err(|e| OpenError::from_sqlite(path, &e))?;
        self.state = State::Opened(conn);
        Ok(())
    }

    /// What must be so before SQLite opens the files.
    fn prepare(&self) -> Result<(), OpenError> {
        let path = self.place.db.clone();
        let lost = |e: std::io::Error| OpenError::from_io(&self.place.db, &e);
        if !self.place.db.exists() {
            // SQLite would remove the log.
            return Err(gone(&self.place));
        }
        self.place.require_access()?;
        match log::judge(&self.place).map_err(lost)? {
            None => {}
            Some(Stale::Older) => return Err(OpenError::StaleLog { path }),
            Some(Stale::Emptied) => return Err(OpenError::Emptied { path }),
        }
        if watch::length_of(&path) < self.length {
            // SQLite would fill it up with what the log has, and nothing.
            return Err(OpenError::Shortened { path });
        }
        if is_planted(Bug::ReopenUnsynced) {
            return Ok(());
        }
        touch::write_again(&self.place.wal).map_err(lost)
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
        // A reader may keep the log from being emptied: it is whole, and stays.
        checkpoint(conn).map(|_| ()).map_err(|e| {
            self.fail(reason);
            unreadable(&e)
        })
    }

    fn fail(&mut self, reason: String) {
        let state = std::mem::replace(&mut self.state, State::Failed(reason));
        if let State::Owned(_, watch) = &state {
            self.length = watch.length();
        }
        if let State::Opened(conn) | State::Owned(conn, _) = state {
            // Its log may not be the one on the disk any more: nothing of it goes to the file.
            // If even this setting fails, the connection is of no more use than before.
            conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)
                .ok();
        }
    }
}

/// Why the database is not to be seen.
fn gone(place: &Place) -> OpenError {
    match std::fs::metadata(&place.db) {
        Err(e) if e.kind() == std::io::ErrorKind::PermissionDenied => {
            OpenError::from_io(&place.db, &e)
        }
        Ok(_) | Err(_) => OpenError::Gone {
            path: place.db.clone(),
        },
    }
}

/// Whether a reader kept a checkpoint from being complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Busy {
    /// No.
    No,
    /// Yes.
    Yes,
}

/// Copies as much of the log into the database as no reader is in the way of, synced.
fn copy(conn: &Connection) -> rusqlite::Result<LogState> {
    if is_planted(Bug::CheckpointUnsynced) {
        conn.pragma_update(None, "synchronous", "OFF")?;
    }
    let sql = "PRAGMA wal_checkpoint(PASSIVE)";
    let counts = conn
        .prepare_cached(sql)?
        .query_row((), |row| Ok((row.get::<_, i64>(1)?, row.get::<_, i64>(2)?)))?;
    if is_planted(Bug::CheckpointUnsynced) {
        conn.pragma_update(None, "synchronous", "FULL")?;
    }
    Ok(if counts.0 == counts.1 {
        LogState::Copied
    } else {
        LogState::Going
    })
}

/// A failure that says nothing of what was written: no room, or a lock.
fn is_passing(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error_code();
    code == Some(ErrorCode::DiskFull) || code == Some(ErrorCode::DatabaseBusy)
}

/// Copies the whole log into the database, synced, and empties it.
fn checkpoint(conn: &Connection) -> rusqlite::Result<Busy> {
    run_checkpoint(conn, "PRAGMA wal_checkpoint(TRUNCATE)")
}

fn run_checkpoint(conn: &Connection, sql: &str) -> rusqlite::Result<Busy> {
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

fn identity(conn: &Connection) -> rusqlite::Result<Identity> {
    let value = |key: &str| {
        conn.query_row("SELECT value FROM meta WHERE key = ?1", [key], |row| {
            row.get(0)
        })
    };
    Ok(Identity {
        store: value("store")?,
        generation: value("generation")?,
    })
}

/// Changes a page whatever is there: see the modules `writer` and `log`.
pub(super) fn raise_generation(conn: &Connection) -> rusqlite::Result<()> {
    let sql = "UPDATE meta SET value = value + 1 WHERE key = 'generation'";
    conn.prepare_cached(sql)?.execute(()).map(|_| ())
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
