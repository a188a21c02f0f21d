//! Where a database lies: its files, and whether that is a place where locks work.
//!
//! Everything here is done before SQLite opens the file. Afterwards nobody but SQLite may open
//! the database, its log or its index: only `stat` is allowed.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::error::OpenError;
use super::lock::private;
use super::touch;

/// The files of one database, under the one name that no link hides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) db: PathBuf,
    pub(super) wal: PathBuf,
    pub(super) shm: PathBuf,
    pub(super) lock: PathBuf,
}

impl Place {
    /// Follows links, so that two names of one database share one lock.
    pub(super) fn resolve(path: &Path) -> Result<Self, OpenError> {
        let db = match std::fs::metadata(path) {
            Ok(found) if found.is_dir() => {
                return Err(OpenError::IsADirectory {
                    path: path.to_owned(),
                });
            }
            Ok(_) => path
                .canonicalize()
                .map_err(|e| OpenError::from_io(path, &e))?,
            Err(e) if e.kind() == ErrorKind::NotFound => in_directory(path)?,
            Err(e) => return Err(OpenError::from_io(path, &e)),
        };
        Ok(Self {
            wal: beside(&db, "-wal"),
            shm: beside(&db, "-shm"),
            lock: beside(&db, ".lock"),
            db,
        })
    }

    /// Makes the empty file, private from its first moment on. SQLite gives its log and index
    /// the same mode.
    pub(super) fn create(&self) -> Result<(), OpenError> {
        match private(OpenOptions::new().write(true).create_new(true)).open(&self.db) {
            Ok(_) => {
                touch::sync_directory_of(&self.db).map_err(|e| OpenError::from_io(&self.db, &e))
            }
            Err(e) if e.kind() == ErrorKind::AlreadyExists => Ok(()),
            Err(e) => Err(OpenError::from_io(&self.db, &e)),
        }
    }

    /// Refuses files that are there and may not be read or written, before anything is done to any
    /// of them. Asks only: the index of the log has locks that opening it could drop.
    pub(super) fn require_access(&self) -> Result<(), OpenError> {
        for path in [&self.db, &self.wal, &self.shm] {
            if is_denied(path) {
                let path = path.clone();
                return Err(OpenError::ReadOnly { path });
            }
        }
        Ok(())
    }

    /// Refuses file systems on which two machines can hold the same lock.
    pub(super) fn refuse_network(&self) -> Result<(), OpenError> {
        let Ok(mounts) = std::fs::read_to_string("/proc/self/mountinfo") else {
            return Ok(());
        };
        match network_kind(&mounts, &self.db) {
            None => Ok(()),
            Some(kind) => Err(OpenError::NetworkFileSystem {
                path: self.db.clone(),
                kind,
            }),
        }
    }
}

#[cfg(target_os = "linux")]
fn is_denied(path: &Path) -> bool {
    use rustix::fs::{Access, AtFlags, CWD, accessat};
    let wanted = Access::READ_OK | Access::WRITE_OK;
    accessat(CWD, path, wanted, AtFlags::EACCESS) == Err(rustix::io::Errno::ACCESS)
}

/// Elsewhere SQLite finds out.
#[cfg(not(target_os = "linux"))]
fn is_denied(_: &Path) -> bool {
    false
}

fn in_directory(path: &Path) -> Result<PathBuf, OpenError> {
    let parent = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        Some(_) | None => Path::new("."),
    };
    let found = std::fs::metadata(parent).map_err(|e| OpenError::from_io(parent, &e))?;
    if !found.is_dir() {
        return Err(OpenError::NotADirectory {
            path: parent.to_owned(),
        });
    }
    let parent = parent
        .canonicalize()
        .map_err(|e| OpenError::from_io(parent, &e))?;
    let Some(name) = path.file_name() else {
        return Err(OpenError::IsADirectory {
            path: path.to_owned(),
        });
    };
    Ok(parent.join(name))
}

fn beside(db: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(db);
    name.push(ending);
    PathBuf::from(name)
}

const NETWORK: [&str; 14] = [
    "9p",
    "afs",
    "ceph",
    "cifs",
    "fuse.glusterfs",
    "fuse.rclone",
    "fuse.s3fs",
    "fuse.sshfs",
    "gpfs",
    "lustre",
    "nfs",
    "nfs4",
    "smb3",
    "smbfs",
];

/// The kind of the network file system that holds this path, if one does. The last mount over
/// the longest part of the path is the one in force.
fn network_kind(mounts: &str, path: &Path) -> Option<String> {
    let holder = mounts
        .lines()
        .filter_map(mount)
        .filter(|(at, _)| path.starts_with(at))
        .max_by_key(|(at, _)| at.components().count());
    let (_, kind) = holder?;
    NETWORK.contains(&kind).then(|| kind.to_owned())
}

/// Where something is mounted and what: fields 5 and the first after the lone dash.
fn mount(line: &str) -> Option<(PathBuf, &str)> {
    let (left, right) = line.split_once(" - ")?;
    let at = left.split(' ').nth(4)?;
    let kind = right.split(' ').next()?;
    Some((PathBuf::from(unescape(at)), kind))
}

/// Blanks and backslashes of a mount point are written as three octal digits.
fn unescape(text: &str) -> String {
    text.replace("\\040", " ")
        .replace("\\011", "\t")
        .replace("\\012", "\n")
        .replace("\\134", "\\")
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw
40 22 0:35 / /mnt/team\\040share rw,relatime shared:2 - nfs4 server:/x rw
41 40 254:2 / /mnt/team\\040share/local rw - xfs /dev/vdb rw
42 22 0:36 / /mnt/win rw - 9p C: rw
";

    #[test]
    fn the_innermost_mount_decides_what_a_path_lies_on() {
        let kind = |path: &str| network_kind(MOUNTS, Path::new(path));
        assert_eq!(kind("/home/a.db"), None);
        assert_eq!(kind("/mnt/team share/a.db"), Some("nfs4".to_owned()));
        assert_eq!(kind("/mnt/team share/local/a.db"), None);
        assert_eq!(kind("/mnt/win/a.db"), Some("9p".to_owned()));
        assert_eq!(kind("/mnt/windows/a.db"), None);
    }
}
