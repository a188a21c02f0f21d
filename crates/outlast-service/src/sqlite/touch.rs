//! What the store does to files by itself, beside SQLite: it writes a log again, byte for byte,
//! and syncs files and directories. Few calls, all of them here, so that a test which records
//! what SQLite does can record and fail these too.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::Path;

/// Something that is about to be done to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touch<'a> {
    /// These bytes are written at this place.
    Write {
        /// The place.
        at: u64,
        /// The bytes.
        bytes: &'a [u8],
    },
    /// The file is synced.
    Sync,
    /// The directory is synced.
    SyncDirectory,
}

/// Hears of everything before it is done, and can make it fail.
pub type Witness = fn(&Path, Touch<'_>) -> io::Result<()>;

#[cfg(feature = "planted")]
static WITNESS: std::sync::Mutex<Option<Witness>> = std::sync::Mutex::new(None);

/// From now on this one is told, or nobody. Process-wide, for tests.
#[cfg(feature = "planted")]
pub fn witness(witness: Option<Witness>) {
    *WITNESS
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner) = witness;
}

#[cfg(feature = "planted")]
fn tell(path: &Path, touch: Touch<'_>) -> io::Result<()> {
    let witness = *WITNESS
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    witness.map_or(Ok(()), |witness| witness(path, touch))
}

#[cfg(not(feature = "planted"))]
fn tell(_: &Path, _: Touch<'_>) -> io::Result<()> {
    Ok(())
}

/// So much is read and written at once.
const CHUNK: usize = 1 << 20;

/// Writes what a file shows once more and syncs it. What it shows may be in the page cache only,
/// if a sync failed: then no later sync brings it to the disk, but writing it again does. A file
/// that is not there, or empty, is left alone.
pub(super) fn write_again(path: &Path) -> io::Result<()> {
    let opened = File::options().read(true).write(true).open(path);
    let mut file = match opened {
        Ok(file) => file,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(e),
    };
    let mut chunk = vec![0; CHUNK];
    let mut at = 0;
    loop {
        file.seek(SeekFrom::Start(at))?;
        let length = file.read(&mut chunk)?;
        if length == 0 {
            break;
        }
        let bytes = &chunk[..length];
        tell(path, Touch::Write { at, bytes })?;
        file.seek(SeekFrom::Start(at))?;
        file.write_all(bytes)?;
        at += length as u64;
    }
    if at == 0 {
        return Ok(());
    }
    tell(path, Touch::Sync)?;
    file.sync_all()
}

/// Syncs a file that SQLite has not open.
#[expect(clippy::disallowed_methods, reason = "SQLite has closed it")]
pub(super) fn sync(path: &Path) -> io::Result<()> {
    tell(path, Touch::Sync)?;
    File::open(path)?.sync_all()
}

/// Syncs the directory of a file: that it is there, under this name, is on the disk then.
#[expect(clippy::disallowed_methods, reason = "SQLite locks no directory")]
pub(super) fn sync_directory_of(path: &Path) -> io::Result<()> {
    tell(path, Touch::SyncDirectory)?;
    if cfg!(unix)
        && let Some(directory) = path.parent()
    {
        File::open(directory)?.sync_all()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_written_again_is_as_it_was() {
        let dir = tempfile::tempdir().expect("makes");
        let path = dir.path().join("a");
        write_again(&path).expect("not there");
        assert!(!path.exists(), "and not made");
        for length in [0, 1, CHUNK, 2 * CHUNK + 5] {
            let bytes: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
            std::fs::write(&path, &bytes).expect("writes");
            write_again(&path).expect("writes");
            assert!(std::fs::read(&path).expect("reads") == bytes, "{length}");
        }
        sync(&path).expect("syncs");
        sync_directory_of(&path).expect("syncs");
    }
}
