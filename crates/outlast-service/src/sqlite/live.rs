//! Whether a database is open in this process: by readers of ours, or by a connection of the
//! program's own, which may be the one that makes its backups.
//!
//! Whoever opens the file without SQLite meanwhile, and closes it, drops the locks of all of them.
//! Worse, SQLite believes that the process has them and takes none for the connection it opens
//! next: another program could empty the log under a live owner.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

static OPEN: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// As long as it lives the file counts as read.
#[derive(Debug)]
pub(super) struct Live {
    path: PathBuf,
}

impl Live {
    /// A reader opens this file.
    pub(super) fn new(path: &Path) -> Self {
        let path = path.to_owned();
        open().push(path.clone());
        Self { path }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        let mut open = open();
        if let Some(at) = open.iter().position(|path| *path == self.path) {
            open.swap_remove(at);
        }
    }
}

/// Does this while nobody here has the file open, or not at all. Readers of ours that come
/// meanwhile wait.
pub(super) fn unless_open<T>(path: &Path, look: impl FnOnce() -> T) -> Option<T> {
    let readers = open();
    if readers.iter().any(|open| open == path) || has_descriptor(path) {
        return None;
    }
    let seen = look();
    drop(readers);
    Some(seen)
}

/// Where the system lists the open files of this process.
#[cfg(unix)]
const DESCRIPTORS: [&str; 2] = ["/proc/self/fd", "/dev/fd"];

/// Whether this process has the file open. Where that cannot be asked, no.
#[cfg(unix)]
fn has_descriptor(path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let id = |path: &Path| {
        let found = std::fs::metadata(path).ok()?;
        Some((found.dev(), found.ino()))
    };
    let all = DESCRIPTORS
        .iter()
        .find_map(|all| std::fs::read_dir(all).ok());
    let (Some(wanted), Some(all)) = (id(path), all) else {
        return false;
    };
    let mut files = all.filter_map(|one| id(&one.ok()?.path()));
    files.any(|file| file == wanted)
}

/// Elsewhere locks belong to the descriptor, and closing another drops none.
#[cfg(not(unix))]
fn has_descriptor(_: &Path) -> bool {
    false
}

fn open() -> MutexGuard<'static, Vec<PathBuf>> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}
