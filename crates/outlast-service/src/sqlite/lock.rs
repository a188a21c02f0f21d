//! One owner per database: a lock file beside it, locked for as long as the store is open.
//!
//! SQLite's own locks order writers, they do not keep a second engine out. The lock is a
//! separate file because closing any descriptor of the database itself would drop the locks that
//! SQLite holds on it in this process. It is never removed: a file that comes and goes can be
//! locked twice.
//!
//! Whoever is refused is told who has it. That it is this very process cannot be told by its
//! number, which two containers may share: what a process has locked it remembers itself.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::error::OpenError;

/// The right to write. Dropping it gives it back.
#[derive(Debug)]
pub(super) struct Ownership {
    file: File,
    lock: PathBuf,
}

/// The lock files that this process has locked.
static HELD: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn held() -> MutexGuard<'static, Vec<PathBuf>> {
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Ownership {
    /// Takes the lock at `lock` for the database at `db`, or says who has it.
    pub(super) fn take(lock: &Path, db: &Path) -> Result<Self, OpenError> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let mut file = private(&mut options)
            .open(lock)
            .map_err(|e| OpenError::from_io(db, &e))?;
        let mut held = held();
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(refused(&held, lock, db, &mut file)),
            Err(TryLockError::Error(e)) => return Err(OpenError::from_io(db, &e)),
        }
        let lock = lock.to_owned();
        held.push(lock.clone());
        drop(held);
        let mut owned = Self { file, lock };
        owned.sign().map_err(|e| OpenError::from_io(db, &e))?;
        Ok(owned)
    }

    /// Leaves the owner's name, for whoever is refused.
    fn sign(&mut self) -> std::io::Result<()> {
        self.file.set_len(0)?;
        self.file.rewind()?;
        writeln!(self.file, "{}", std::process::id())
    }
}

impl Drop for Ownership {
    /// Given back and forgotten in one step, for whoever opens it next in this process.
    fn drop(&mut self) {
        let mut held = held();
        // Closing the file gives it back as well.
        self.file.unlock().unwrap_or_default();
        if let Some(at) = held.iter().position(|held| *held == self.lock) {
            held.swap_remove(at);
        }
    }
}

fn refused(held: &[PathBuf], lock: &Path, db: &Path, file: &mut File) -> OpenError {
    let path = db.to_owned();
    if held.iter().any(|held| held == lock) {
        return OpenError::OpenHere { path };
    }
    let pid = pid_in(file);
    OpenError::InUse { path, pid }
}

/// Files of a store are for its user only, whatever the umask says.
pub(super) fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    options
}

fn pid_in(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}
