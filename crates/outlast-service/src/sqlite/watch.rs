//! Notices when the files under an open database are no longer those it opened.
//!
//! Another copy of SQLite in this process, a careless backup tool or a fork can make a log
//! vanish while commits into it still succeed; they would be acknowledged and lost. Three `stat`
//! calls of 1 us before each group notice it: a hundredth of a group of one. `stat` only: opening
//! the files would cause what it looks for.
//!
//! They must not ask for the times of a file. Since Linux 6.13 whoever asks makes the next write
//! take a time of its own, so that the difference can be seen; the log's inode is then dirty at
//! every sync and written with it, which is half a sync more.

use std::path::Path;

use super::place::Place;

/// The files as they were when the store was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Watch {
    pid: u32,
    db: Option<FileId>,
    log: Option<FileId>,
    log_index: Option<FileId>,
}

/// What became of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sight {
    /// Nothing: the same files in the same process.
    Intact,
    /// The log or its index was removed. No other is in its place.
    LogGone,
    /// The database was moved away or removed.
    Gone,
    /// Other files are there, or this is another process.
    Replaced,
}

type FileId = (u64, u64);

impl Watch {
    /// Remembers the files. The log must exist: after the first write.
    pub(super) fn start(place: &Place) -> Self {
        Self {
            pid: std::process::id(),
            db: id_of(&place.db),
            log: id_of(&place.wal),
            log_index: id_of(&place.shm),
        }
    }

    /// Compares them with what is there now.
    pub(super) fn look(&self, place: &Place) -> Sight {
        let now = Self::start(place);
        if now == *self {
            return Sight::Intact;
        }
        let is_same_or_gone =
            |then: Option<FileId>, now: Option<FileId>| now.is_none() || now == then;
        if now.pid == self.pid
            && now.db == self.db
            && is_same_or_gone(self.log, now.log)
            && is_same_or_gone(self.log_index, now.log_index)
        {
            return Sight::LogGone;
        }
        if now.pid == self.pid && now.db.is_none() {
            return Sight::Gone;
        }
        Sight::Replaced
    }
}

/// Asks for nothing but which file it is. Where that cannot be asked for alone, for everything.
#[cfg(target_os = "linux")]
fn id_of(path: &Path) -> Option<FileId> {
    use rustix::fs::{AtFlags, CWD, StatxFlags, makedev, statx};
    match statx(CWD, path, AtFlags::empty(), StatxFlags::INO) {
        Ok(found) => Some((
            makedev(found.stx_dev_major, found.stx_dev_minor),
            found.stx_ino,
        )),
        Err(_) => whole_id_of(path),
    }
}

#[cfg(not(target_os = "linux"))]
fn id_of(path: &Path) -> Option<FileId> {
    whole_id_of(path)
}

#[cfg(unix)]
fn whole_id_of(path: &Path) -> Option<FileId> {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(path)
        .ok()
        .map(|found| (found.dev(), found.ino()))
}

/// Elsewhere an open file cannot be removed: that it is there is enough.
#[cfg(not(unix))]
fn whole_id_of(path: &Path) -> Option<FileId> {
    std::fs::metadata(path).ok().map(|_| (0, 0))
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn both_ways_to_ask_name_the_same_file() {
        let dir = tempfile::tempdir().expect("makes");
        let path = dir.path().join("a");
        std::fs::write(&path, "a").expect("writes");
        assert_eq!(id_of(&path), whole_id_of(&path));
        assert!(id_of(&path).is_some());
        std::fs::remove_file(&path).expect("removes");
        assert_eq!(id_of(&path), None);
    }
}
