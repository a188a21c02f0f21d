//! Which databases readers of ours have open in this process.

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

/// Whether a reader of ours has this file open.
pub(super) fn is_read_here(path: &Path) -> bool {
    open().iter().any(|open| open == path)
}

fn open() -> MutexGuard<'static, Vec<PathBuf>> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}
