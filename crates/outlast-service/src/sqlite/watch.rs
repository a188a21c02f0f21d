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
    files: Files,
    /// The longest that the database was seen: it never becomes shorter.
    length: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Files {
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
    /// The database lost its end, or all of it.
    Shortened,
    /// Other files are there, or this is another process.
    Replaced,
}

type FileId = (u64, u64);

impl Watch {
    /// Remembers the files. The log must exist: after the first write.
    pub(super) fn start(place: &Place) -> Self {
        let (files, length) = Files::of(place);
        Self { files, length }
    }

    /// Compares them with what is there now.
    pub(super) fn look(&mut self, place: &Place) -> Sight {
        let (now, length) = Files::of(place);
        let then = &self.files;
        // Before the log is looked at: what it holds must not go into such a file.
        if now.pid == then.pid && now.db.is_some() && now.db == then.db && length < self.length {
            return Sight::Shortened;
        }
        if now == *then {
            self.length = length;
            return Sight::Intact;
        }
        let is_same_or_gone =
            |then: Option<FileId>, now: Option<FileId>| now.is_none() || now == then;
        if now.pid == then.pid
            && now.db == then.db
            && is_same_or_gone(then.log, now.log)
            && is_same_or_gone(then.log_index, now.log_index)
        {
            return Sight::LogGone;
        }
        if now.pid == then.pid && now.db.is_none() {
            return Sight::Gone;
        }
        Sight::Replaced
    }

    /// How long the database was.
    pub(super) fn length(&self) -> u64 {
        self.length
    }
}

impl Files {
    /// Those that are there, and how long the database is.
    fn of(place: &Place) -> (Self, u64) {
        let db = found(&place.db);
        let id = |found: Option<Found>| found.map(|found| found.id);
        let files = Self {
            pid: std::process::id(),
            db: id(db),
            log: id(found(&place.wal)),
            log_index: id(found(&place.shm)),
        };
        (files, db.map_or(0, |db| db.length))
    }
}

/// How long a file is now.
pub(super) fn length_of(path: &Path) -> u64 {
    found(path).map_or(0, |found| found.length)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Found {
    id: FileId,
    length: u64,
}

/// Asks for nothing but which file it is, and how long. Where that cannot be asked for alone, for
/// everything.
#[cfg(target_os = "linux")]
fn found(path: &Path) -> Option<Found> {
    use rustix::fs::{AtFlags, CWD, StatxFlags, makedev, statx};
    match statx(
        CWD,
        path,
        AtFlags::empty(),
        StatxFlags::INO | StatxFlags::SIZE,
    ) {
        Ok(found) => Some(Found {
            id: (
                makedev(found.stx_dev_major, found.stx_dev_minor),
                found.stx_ino,
            ),
            length: found.stx_size,
        }),
        Err(_) => asked_for_all(path),
    }
}

#[cfg(not(target_os = "linux"))]
fn found(path: &Path) -> Option<Found> {
    asked_for_all(path)
}

#[cfg(unix)]
fn asked_for_all(path: &Path) -> Option<Found> {
    use std::os::unix::fs::MetadataExt;
    let found = std::fs::metadata(path).ok()?;
    Some(Found {
        id: (found.dev(), found.ino()),
        length: found.len(),
    })
}

/// Elsewhere an open file cannot be removed: that it is there is enough.
#[cfg(not(unix))]
fn asked_for_all(path: &Path) -> Option<Found> {
    let found = std::fs::metadata(path).ok()?;
    Some(Found {
        id: (0, 0),
        length: found.len(),
    })
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn both_ways_to_ask_name_the_same_file() {
        let dir = tempfile::tempdir().expect("makes");
        let path = dir.path().join("a");
        std::fs::write(&path, "a").expect("writes");
        assert_eq!(found(&path), asked_for_all(&path));
        assert_eq!(length_of(&path), 1);
        std::fs::remove_file(&path).expect("removes");
        assert_eq!(found(&path), None);
    }
}
