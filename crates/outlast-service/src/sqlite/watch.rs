//! Notices when the files under an open database are no longer those it opened.
//!
//! Another copy of SQLite in this process, a careless backup tool or a fork can make a log
//! vanish while commits into it still succeed; they would be acknowledged and lost. Two `stat`
//! calls (1.5 us together) before each group notice it. `stat` only: opening the files would
//! cause what it looks for.

use std::path::Path;

use super::place::Place;

/// The files as they were when the store was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Watch {
    pid: u32,
    db: Option<FileId>,
    wal: Option<FileId>,
}

type FileId = (u64, u64);

impl Watch {
    /// Remembers the files. The log must exist: after the first write.
    pub(super) fn start(place: &Place) -> Self {
        Self {
            pid: std::process::id(),
            db: id_of(&place.db),
            wal: id_of(&place.wal),
        }
    }

    /// Whether they are still the same, in the same process.
    pub(super) fn is_intact(&self, place: &Place) -> bool {
        *self == Self::start(place)
    }
}

#[cfg(unix)]
fn id_of(path: &Path) -> Option<FileId> {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(path)
        .ok()
        .map(|found| (found.dev(), found.ino()))
}

/// Elsewhere an open file cannot be removed: that it is there is enough.
#[cfg(not(unix))]
fn id_of(path: &Path) -> Option<FileId> {
    std::fs::metadata(path).ok().map(|_| (0, 0))
}
