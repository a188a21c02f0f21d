//! Why a database file cannot be opened: one variant per remedy, each with a code to search for
//! and the fix in its text. And how what SQLite says becomes what the port says.

use std::fmt;
use std::path::{Path, PathBuf};

use outlast_model::task::RunNo;
use rusqlite::ErrorCode;

use crate::store::ReadError;

/// Why the database was not opened. Nothing was changed in it. Its text
/// begins with its code, which would be lost on the way to whoever reads it.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Another owner has it.
    #[error("OL-4101: {0} is in use by {1}: one process owns a file; stop that one, or start and signal runs from within it; `outlast ls --db {0}` looks into it meanwhile", path.display(), holder(*pid))]
    InUse {
        /// The database.
        path: PathBuf,
        /// Its owner, if it could be read.
        pid: Option<u32>,
    },
    /// This very process has it.
    #[error("OL-4120: {} is open in this process already: use the application that has it (an `App` can be cloned), or stop that one with `app.shutdown().await` before it is opened again", path.display())]
    OpenHere {
        /// The database.
        path: PathBuf,
    },
    /// Written by a newer Outlast.
    #[error("OL-4102: {} has format {found}, this build knows up to {supported}: use the newer build", path.display())]
    Newer {
        /// The database.
        path: PathBuf,
        /// Its format.
        found: i32,
        /// The newest format this build knows.
        supported: i32,
    },
    /// Somebody else's file.
    #[error("OL-4103: {} is not an Outlast database and is left as it is: choose another path", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// No right to write.
    #[error("OL-4104: {} or its directory cannot be written: grant this user write access to both", path.display())]
    ReadOnly {
        /// The database.
        path: PathBuf,
    },
    /// A file system whose locks cannot be trusted.
    #[error("OL-4105: {} is on {kind}, where file locks cannot be trusted: use a local disk, or set allow_network_file_system", path.display())]
    NetworkFileSystem {
        /// The database.
        path: PathBuf,
        /// The kind of file system.
        kind: String,
    },
    /// The file is not as it was written.
    #[error("OL-4106: {} is damaged ({reason}): keep a copy of it and restore a backup", path.display())]
    Damaged {
        /// The database.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// No room.
    #[error("OL-4107: no room for {}: free some space and open it again", path.display())]
    Full {
        /// The database.
        path: PathBuf,
    },
    /// A SQLite with known data loss.
    #[error(
        "OL-4108: SQLite {found} can lose commits, {needed} or newer is needed: build with the feature `bundled`"
    )]
    OldSqlite {
        /// What is linked.
        found: String,
        /// What is needed.
        needed: &'static str,
    },
    /// A directory, or for a reader the file, does not exist.
    #[error("OL-4109: {} does not exist: create it, or correct the path", path.display())]
    Missing {
        /// What is missing.
        path: PathBuf,
    },
    /// Part of the path is no directory.
    #[error("OL-4110: {} is not a directory: correct the path", path.display())]
    NotADirectory {
        /// What is none.
        path: PathBuf,
    },
    /// The path names a directory.
    #[error("OL-4111: {} is a directory: name a file in it", path.display())]
    IsADirectory {
        /// The directory.
        path: PathBuf,
    },
    /// The log beside the file is not its own: a backup was put in the place of a file that had
    /// not been closed in order.
    #[error("OL-4113: {}-wal does not belong to {}, which is another or an older copy; nothing was changed: remove {}-wal and open again to go on with this copy, or put back the file the log belongs to", path.display(), path.display(), path.display())]
    StaleLog {
        /// The database.
        path: PathBuf,
    },
    /// The file was emptied, and its log was not.
    #[error("OL-4114: {} is empty and {}-wal is not; nothing was changed: put back the file, or remove both and restore a backup", path.display(), path.display())]
    Emptied {
        /// The database.
        path: PathBuf,
    },
    /// The file under an owner is gone. It is not made anew.
    #[error("OL-4115: {} is gone: move it back, or stop this process and restore a backup", path.display())]
    Gone {
        /// The database.
        path: PathBuf,
    },
    /// In the place of the file of an owner is another database, or an older copy of it.
    #[error("OL-4116: {} is not the database this process owns, but another or an older copy; nothing was changed: put back the file, or restart this process to go on with the copy", path.display())]
    NotOurs {
        /// The database.
        path: PathBuf,
    },
    /// The file of an owner lost its end.
    #[error("OL-4117: {} is shorter than this process left it; nothing was changed: put back the file, or stop this process, remove {}-wal and restore a backup", path.display(), path.display())]
    Shortened {
        /// The database.
        path: PathBuf,
    },
    /// Anything else the system said.
    #[error("OL-4112: {} cannot be opened: {reason}", path.display())]
    Other {
        /// The database.
        path: PathBuf,
        /// What it said.
        reason: String,
    },
}

impl OpenError {
    /// The code of this failure, the same in every version.
    pub fn code(&self) -> &'static str {
        match self {
            Self::InUse { .. } => "OL-4101",
            Self::OpenHere { .. } => "OL-4120",
            Self::Newer { .. } => "OL-4102",
            Self::Foreign { .. } => "OL-4103",
            Self::ReadOnly { .. } => "OL-4104",
            Self::NetworkFileSystem { .. } => "OL-4105",
            Self::Damaged { .. } => "OL-4106",
            Self::Full { .. } => "OL-4107",
            Self::OldSqlite { .. } => "OL-4108",
            Self::Missing { .. } => "OL-4109",
            Self::NotADirectory { .. } => "OL-4110",
            Self::IsADirectory { .. } => "OL-4111",
            Self::Other { .. } => "OL-4112",
            Self::StaleLog { .. } => "OL-4113",
            Self::Emptied { .. } => "OL-4114",
            Self::Gone { .. } => "OL-4115",
            Self::NotOurs { .. } => "OL-4116",
            Self::Shortened { .. } => "OL-4117",
        }
    }

    /// What SQLite said while the file was opened.
    pub(super) fn from_sqlite(path: &Path, error: &rusqlite::Error) -> Self {
        let path = path.to_owned();
        let reason = error.to_string();
        let Some(code) = error.sqlite_error_code() else {
            return Self::Other { path, reason };
        };
        if code == ErrorCode::NotADatabase {
            Self::Foreign { path }
        } else if code == ErrorCode::DiskFull {
            Self::Full { path }
        } else if code == ErrorCode::ReadOnly || code == ErrorCode::PermissionDenied {
            Self::ReadOnly { path }
        } else if code == ErrorCode::DatabaseCorrupt {
            Self::Damaged { path, reason }
        } else {
            Self::Other { path, reason }
        }
    }

    /// What the system said while a file was looked at or made.
    pub(super) fn from_io(path: &Path, error: &std::io::Error) -> Self {
        use std::io::ErrorKind;
        let kind = error.kind();
        let path = path.to_owned();
        if kind == ErrorKind::NotFound {
            Self::Missing { path }
        } else if kind == ErrorKind::NotADirectory {
            Self::NotADirectory { path }
        } else if kind == ErrorKind::PermissionDenied || kind == ErrorKind::ReadOnlyFilesystem {
            Self::ReadOnly { path }
        } else if kind == ErrorKind::StorageFull || kind == ErrorKind::QuotaExceeded {
            Self::Full { path }
        } else {
            Self::Other {
                path,
                reason: error.to_string(),
            }
        }
    }
}

/// A program that gives up prints this: the sentence, not its parts.
impl fmt::Debug for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<OpenError> for ReadError {
    fn from(error: OpenError) -> Self {
        Self::Failed {
            reason: error.to_string(),
        }
    }
}

/// What SQLite said while something was read that belongs to no single run.
pub(super) fn unreadable(error: &rusqlite::Error) -> ReadError {
    ReadError::Failed {
        reason: error.to_string(),
    }
}

/// What SQLite said while this run was read. A value that no version of Outlast writes is damage
/// as much as a broken page is.
pub(super) fn unreadable_run(run: RunNo, error: &rusqlite::Error) -> ReadError {
    let is_damage = match error.sqlite_error_code() {
        Some(code) => code == ErrorCode::DatabaseCorrupt,
        None => is_odd_value(error),
    };
    let reason = error.to_string();
    if is_damage {
        ReadError::Damaged { run, reason }
    } else {
        ReadError::Failed { reason }
    }
}

fn is_odd_value(error: &rusqlite::Error) -> bool {
    matches!(
        error,
        rusqlite::Error::FromSqlConversionFailure(..)
            | rusqlite::Error::IntegralValueOutOfRange(..)
            | rusqlite::Error::InvalidColumnType(..)
            | rusqlite::Error::Utf8Error(..)
    )
}

fn holder(pid: Option<u32>) -> String {
    pid.map_or_else(
        || "another process".to_owned(),
        |pid| format!("process {pid}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn every() -> [OpenError; 17] {
        let path = || PathBuf::from("a.db");
        let reason = || "no".to_owned();
        let (kind, needed, found) = ("nfs".to_owned(), "3.51", "3.1".to_owned());
        let (pid, supported) = (Some(7), 3);
        [
            OpenError::InUse { path: path(), pid },
            OpenError::OpenHere { path: path() },
            OpenError::Newer {
                path: path(),
                found: 9,
                supported,
            },
            OpenError::Foreign { path: path() },
            OpenError::ReadOnly { path: path() },
            OpenError::NetworkFileSystem { path: path(), kind },
            OpenError::Damaged {
                path: path(),
                reason: reason(),
            },
            OpenError::Full { path: path() },
            OpenError::OldSqlite { found, needed },
            OpenError::Missing { path: path() },
            OpenError::NotADirectory { path: path() },
            OpenError::IsADirectory { path: path() },
            OpenError::StaleLog { path: path() },
            OpenError::Emptied { path: path() },
            OpenError::Gone { path: path() },
            OpenError::NotOurs { path: path() },
            OpenError::Other {
                path: path(),
                reason: reason(),
            },
        ]
    }

    #[test]
    fn every_text_begins_with_its_own_code() {
        for error in every() {
            let text = error.to_string();
            assert!(text.starts_with(&format!("{}: ", error.code())), "{text}");
            assert_eq!(format!("{error:?}"), text);
        }
    }
}
