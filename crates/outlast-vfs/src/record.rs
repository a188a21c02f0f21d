//! What was done to the files of a directory, in order.

use std::collections::BTreeMap;

/// One file, whatever its name is: a name that is given anew is another file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileNo(pub usize);

/// Something that was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// A name was given to a new, empty file.
    Create {
        /// The name.
        name: String,
        /// The file.
        file: FileNo,
    },
    /// A name was removed; the file lives on for those who have it open.
    Delete {
        /// The name.
        name: String,
    },
    /// A file got another name, in place of the file that had it.
    Rename {
        /// The name it had.
        from: String,
        /// The name it has.
        to: String,
    },
    /// Bytes were written.
    Write {
        /// Into which file.
        file: FileNo,
        /// Where.
        at: u64,
        /// Which.
        bytes: Vec<u8>,
    },
    /// A file got another length.
    Truncate {
        /// Which file.
        file: FileNo,
        /// The length.
        len: u64,
    },
    /// The file was synced: what was written to it is on the disk.
    Sync {
        /// Which file.
        file: FileNo,
    },
    /// The sync of the file failed: what was written to it since the last one may be on the disk
    /// or may never get there, whatever later syncs say.
    SyncFailed {
        /// Which file.
        file: FileNo,
    },
    /// The directory was synced: names are as they are.
    SyncDirectory,
    /// The test was here.
    Mark(usize),
}

/// What a directory held at first, all of it on the disk, and what was done then.
#[derive(Clone, Debug, Default)]
pub struct Tape {
    /// The files at first.
    pub base: BTreeMap<String, Vec<u8>>,
    /// What was done.
    pub ops: Vec<Op>,
}

impl Tape {
    /// The newest mark before this place, if there is one.
    pub fn mark_before(&self, cut: usize) -> Option<usize> {
        let before = &self.ops[..cut.min(self.ops.len())];
        before.iter().rev().find_map(|op| match op {
            Op::Mark(number) => Some(*number),
            Op::Create { .. }
            | Op::Delete { .. }
            | Op::Rename { .. }
            | Op::Write { .. }
            | Op::Truncate { .. }
            | Op::Sync { .. }
            | Op::SyncFailed { .. }
            | Op::SyncDirectory => None,
        })
    }

    /// The places where the power can go: behind everything that changes what may be there.
    pub fn cuts(&self) -> impl Iterator<Item = usize> {
        1..=self.ops.len()
    }
}

/// Whether a file of this name means anything after a power cut.
pub(crate) fn is_recorded(name: &str) -> bool {
    !name.ends_with("-shm") && !name.ends_with(".lock")
}
