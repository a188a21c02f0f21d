//! The store port on SQLite: one file, one owner, one writer connection, a few readers.
//!
//! A commit is one transaction of the log (WAL, synchronous FULL), durable when it returns.
//! Reading order: `schema` of the file, `connect` (the settings that make a commit
//! durable), `writer` (who may write), `commit`, `post`, `read`, and `index` (ids, written behind).
//! Beside it: `lock` and `place` (one owner, on a disk whose locks work), `watch` (the files are
//! still ours) and `rescue` (if not), `touch` (a log is made sure of) and `log` (it belongs to its file), `held` (another program
//! reads without end), `check` (for a doctor).
//!
//! Only SQLite may touch the files while they are open: closing a descriptor of them drops the
//! locks SQLite holds in this process.

mod check;
mod commit;
mod connect;
mod error;
mod held;
mod index;
mod live;
mod lock;
mod log;
mod place;
mod pool;
mod post;
mod read;
mod reader;
mod rescue;
mod row;
mod schema;
mod touch;
mod watch;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use outlast_model::id::{RunId, WorkflowId};
use outlast_model::post::PostNo;
use outlast_model::task::RunNo;
use outlast_model::view::ListFilter;

pub use check::Report;
pub use error::OpenError;
pub use held::HeldLog;
pub use reader::Reader;
#[cfg(feature = "planted")]
pub use touch::witness;
pub use touch::{Touch, Witness};

use crate::store::{Boot, Commit, CommitError, Loaded, ReadError, RunRow, Store};
use error::{unreadable, unreadable_run};
use held::Teller;
use index::Tail;
use place::Place;
use pool::Pool;
use writer::{Busy, Writer};

/// Settings of a database that have a good default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenOptions {
    /// Opens the file even where locks cannot be trusted. Two owners then destroy it.
    pub allow_network_file_system: bool,
    /// How large the file may become; past it commits are refused as on a full disk.
    pub max_bytes: Option<u64>,
    /// New runs that wait in memory for their index entries. More make cheaper writes, more
    /// memory and more to read after a crash.
    pub index_batch: usize,
    /// A log of so many pages is copied into the database. More are copied together, and read
    /// after a crash.
    pub log_pages: u32,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            allow_network_file_system: false,
            max_bytes: None,
            index_batch: 32_768,
            log_pages: 1000,
        }
    }
}

/// Runs in a SQLite file that this process owns.
#[derive(Debug)]
pub struct SqliteStore {
    path: PathBuf,
    index_batch: usize,
    writer: Mutex<Writer>,
    tail: Mutex<Tail>,
    readers: Pool,
    teller: Teller,
}

impl SqliteStore {
    /// Opens the file, or makes it, and takes ownership.
    ///
    /// # Errors
    /// [`OpenError`] names the reason and the fix; the file is as it was.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        Self::open_with(path, &OpenOptions::default())
    }

    /// The same with other settings.
    ///
    /// # Errors
    /// [`OpenError`] names the reason and the fix; the file is as it was.
    pub fn open_with(path: impl AsRef<Path>, options: &OpenOptions) -> Result<Self, OpenError> {
        connect::refuse_old_sqlite(rusqlite::version_number(), rusqlite::version())?;
        let place = Place::resolve(path.as_ref())?;
        if !options.allow_network_file_system {
            place.refuse_network()?;
        }
        let path = place.db.clone();
        let writer = Mutex::new(Writer::open(place, options)?);
        let index_batch = options.index_batch;
        let tail = Mutex::new(Tail::new(index_batch, RunNo(0)));
        Ok(Self {
            path,
            index_batch,
            writer,
            tail,
            readers: Pool::default(),
            teller: Teller::default(),
        })
    }

    /// A view of the file that takes no lock and writes nothing, beside the owner or without one.
    ///
    /// # Errors
    /// [`OpenError::Missing`] when there is no such file; else as for [`open`](Self::open).
    pub fn open_reader(path: impl AsRef<Path>) -> Result<Reader, OpenError> {
        Reader::open(path.as_ref())
    }

    /// Where the file is, without links.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Changes how large the file may become.
    ///
    /// # Errors
    /// When SQLite does not take the setting.
    pub fn set_max_bytes(&self, max_bytes: Option<u64>) -> Result<(), ReadError> {
        self.writer().set_max_bytes(max_bytes)
    }

    /// From now on this is called, by the thread that commits, when another program has been reading
    /// for so long that the log cannot begin anew: once, until it could.
    pub fn when_log_is_held(&self, tell: impl Fn(&HeldLog) + Send + Sync + 'static) {
        self.teller.set(Box::new(tell));
    }

    /// Whether the files under the open database are still those it opened. A commit asks this
    /// by itself.
    pub fn is_intact(&self) -> bool {
        self.writer().is_intact()
    }

    /// Reads the whole file and names all damage.
    ///
    /// # Errors
    /// When the file cannot be read at all.
    pub fn check(&self) -> Result<Report, ReadError> {
        self.read(check::check)
    }

    /// Puts what a boot found in place. The writer is held meanwhile.
    fn booted(&self, found: (Boot, Tail)) -> Boot {
        let (boot, tail) = found;
        *self.tail() = tail;
        self.readers.open();
        boot
    }

    /// The number of a run. First those that wait: what has left them is in the table.
    fn number_of(&self, run_id: RunId) -> Result<Option<RunNo>, ReadError> {
        let waiting = self.tail().run(run_id);
        if waiting.is_some() {
            return Ok(waiting);
        }
        self.read(|conn| read::number_of(conn, run_id).map_err(|e| unreadable(&e)))
    }

    fn read<T>(
        &self,
        read: impl Fn(&rusqlite::Connection) -> Result<T, ReadError>,
    ) -> Result<T, ReadError> {
        self.readers.read(&self.path, read)
    }

    fn writer(&self) -> MutexGuard<'_, Writer> {
        // A panic while it was held leaves an open transaction at worst, which the next commit
        // cannot begin over: it fails, and the store is opened again.
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tail(&self) -> MutexGuard<'_, Tail> {
        self.tail.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store for SqliteStore {
    fn boot(&self) -> Result<Boot, ReadError> {
        let mut writer = self.writer();
        Ok(self.booted(writer.boot(self.index_batch)?))
    }

    fn commit(&self, group: &[Commit]) -> Result<(), CommitError> {
        let mut writer = self.writer();
        let batch = self.tail().plan(group);
        writer.commit(group, &batch)?;
        self.tail().committed(group, &batch);
        if writer.is_log_long() && writer.begin_log_anew() == Busy::Yes {
            // Readers of ours let it through and read again. Others cannot be asked.
            let again = self.readers.without_readers(|| writer.begin_log_anew());
            if again == Busy::Yes
                && let Some(held) = writer.wait_for_a_longer_log()
            {
                drop(writer);
                self.teller.tell(&held);
            }
        }
        Ok(())
    }

    fn forget(&self, posts: &[PostNo]) -> Result<(), CommitError> {
        self.writer().forget(posts)
    }

    fn load(&self, run: RunNo) -> Result<Loaded, ReadError> {
        self.read(|conn| read::load(conn, run))
    }

    fn history(&self, run: RunNo) -> Result<Vec<Vec<u8>>, ReadError> {
        self.read(|conn| read::history(conn, run))
    }

    fn find(&self, workflow_id: &WorkflowId, limit: usize) -> Result<Vec<RunRow>, ReadError> {
        // First those that wait: what has left them is in the table.
        let waiting = self.tail().runs_of(workflow_id);
        self.read(|conn| read::find(conn, workflow_id, limit, waiting.clone()))
    }

    fn find_run(&self, run_id: RunId) -> Result<Option<RunRow>, ReadError> {
        let Some(run) = self.number_of(run_id)? else {
            return Ok(None);
        };
        self.read(|conn| read::row_of(conn, run).map_err(|e| unreadable_run(run, &e)))
    }

    fn list(&self, filter: &ListFilter) -> Result<Vec<RunRow>, ReadError> {
        let end = match filter.before {
            None => None,
            Some(id) => match self.number_of(id)? {
                Some(run) => Some(run),
                None => return Ok(Vec::new()),
            },
        };
        self.read(|conn| read::list(conn, filter, end).map_err(|e| unreadable(&e)))
    }

    fn reopen(&self) -> Result<Boot, ReadError> {
        let mut writer = self.writer();
        self.readers.close();
        Ok(self.booted(writer.reopen(self.index_batch)?))
    }

    fn close(&self) -> Result<(), ReadError> {
        let mut writer = self.writer();
        // Readers first: the last connection to go is the one that may empty the log.
        self.readers.close();
        let index = self.tail().flush();
        writer.close(&index)
    }
}
