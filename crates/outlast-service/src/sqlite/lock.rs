//! One owner per database: a lock file beside it, locked for as long as the store is open.
//!
//! SQLite's own locks order writers, they do not keep a second engine out. The lock is a
//! separate file because closing any descriptor of the database itself would drop the locks that
//! SQLite holds on it in this process. It is never removed: a file that comes and goes can be
//! locked twice.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::Path;

use super::error::OpenError;

/// The right to write. Dropping it gives it back.
#[derive(Debug)]
pub(super) struct Ownership {
    file: File,
}

impl Ownership {
    /// Takes the lock at `lock` for the database at `db`, or says who has it.
    pub(super) fn take(lock: &Path, db: &Path) -> Result<Self, OpenError> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let mut file = private(&mut options)
            .open(lock)
            .map_err(|e| OpenError::from_io(db, &e))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(OpenError::InUse {
                    path: db.to_owned(),
                    pid: pid_in(&mut file),
                });
            }
            Err(TryLockError::Error(e)) => return Err(OpenError::from_io(db, &e)),
        }
        let mut owned = Self { file };
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
