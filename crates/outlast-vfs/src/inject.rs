//! Which calls fail, and how.

use std::ffi::c_int;
use std::io;

use rusqlite::ffi;

/// Numbers of Linux and of all systems like it.
const EIO: i32 = 5;
const ENOSPC: i32 = 28;

/// A kind of call that can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Call {
    /// A file is opened, or made.
    Open,
    /// Bytes are read.
    Read,
    /// Bytes are written.
    Write,
    /// A file is shortened.
    Truncate,
    /// A file is synced, and its directory if it is new.
    Sync,
    /// A directory is synced, by the program itself.
    SyncDirectory,
    /// A name is removed.
    Delete,
    /// The index of the log is mapped.
    Map,
}

impl Call {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Open,
        Self::Read,
        Self::Write,
        Self::Truncate,
        Self::Sync,
        Self::SyncDirectory,
        Self::Delete,
        Self::Map,
    ];
}

/// What becomes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// The device does not answer: EIO.
    Broken,
    /// There is no room: ENOSPC.
    Full,
    /// Half of a write is there when the room ends; any other call as [`How::Full`].
    Short,
    /// Nothing is done, and it is said to be done. No disk does this to us: a bug of ours would.
    Skipped,
    /// The process is gone: nothing is done any more, and nobody hears of it.
    Gone,
}

/// For how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lasting {
    /// This once.
    Once,
    /// For so many such calls from then on.
    For(u64),
    /// For every such call from then on, until the lab is told that all is well.
    UntilLifted,
}

/// A fault that is to come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// At which kind of call.
    pub call: Call,
    /// At the how manieth of them from now on, the first being 1.
    pub at: u64,
    /// How.
    pub how: How,
    /// For how long.
    pub lasting: Lasting,
    /// Only at files whose name ends so; others are not counted.
    pub ending: &'static str,
}

impl Fault {
    /// The n-th call of this kind fails, once, whichever file it is about.
    pub fn once(call: Call, at: u64, how: How) -> Self {
        Self {
            call,
            at,
            how,
            lasting: Lasting::Once,
            ending: "",
        }
    }
}

/// A fault and how many of its calls have been.
#[derive(Debug)]
pub(crate) struct Armed {
    fault: Fault,
    seen: u64,
}

impl Armed {
    pub(crate) fn new(fault: Fault) -> Self {
        Self { fault, seen: 0 }
    }

    /// Whether it is still to come: a process that is gone counts as gone from the first.
    pub(crate) fn is_to_come(&self) -> bool {
        match self.fault.lasting {
            Lasting::Once | Lasting::For(_) => true,
            Lasting::UntilLifted => self.seen < self.fault.at && self.fault.how != How::Gone,
        }
    }

    /// What this call meets, if it meets anything.
    pub(crate) fn meet(&mut self, call: Call, name: &str) -> Option<How> {
        if self.fault.call != call || !name.ends_with(self.fault.ending) {
            return None;
        }
        self.seen += 1;
        let is_it = match self.fault.lasting {
            Lasting::Once => self.seen == self.fault.at,
            Lasting::For(count) => (self.fault.at..self.fault.at + count).contains(&self.seen),
            Lasting::UntilLifted => self.seen >= self.fault.at,
        };
        is_it.then_some(self.fault.how)
    }
}

/// What SQLite is told by its own file system on Unix when the system says so.
pub(crate) fn code(call: Call, how: How) -> c_int {
    match (call, how) {
        (_, How::Skipped) => ffi::SQLITE_OK,
        (_, How::Gone) => ffi::SQLITE_IOERR,
        (Call::Open, How::Broken | How::Full | How::Short) => ffi::SQLITE_CANTOPEN,
        (Call::Read, How::Broken | How::Full | How::Short) => ffi::SQLITE_IOERR_READ,
        (Call::Write, How::Broken) => ffi::SQLITE_IOERR_WRITE,
        (Call::Write, How::Full | How::Short) => ffi::SQLITE_FULL,
        (Call::Truncate, How::Broken | How::Full | How::Short) => ffi::SQLITE_IOERR_TRUNCATE,
        (Call::Sync, How::Broken | How::Full | How::Short) => ffi::SQLITE_IOERR_FSYNC,
        (Call::SyncDirectory, How::Broken | How::Full | How::Short) => ffi::SQLITE_IOERR_DIR_FSYNC,
        (Call::Delete, How::Broken | How::Full | How::Short) => ffi::SQLITE_IOERR_DELETE,
        (Call::Map, How::Broken) => ffi::SQLITE_IOERR_SHMMAP,
        (Call::Map, How::Full | How::Short) => ffi::SQLITE_IOERR_SHMSIZE,
    }
}

/// What the system itself says then; nothing if the call is only skipped.
pub(crate) fn refusal(how: How) -> Option<io::Error> {
    match how {
        How::Broken | How::Gone => Some(io::Error::from_raw_os_error(EIO)),
        How::Full | How::Short => Some(io::Error::from_raw_os_error(ENOSPC)),
        How::Skipped => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_strikes_at_its_call_and_at_no_other() {
        let mut armed = Armed::new(Fault {
            ending: "-wal",
            ..Fault::once(Call::Write, 2, How::Full)
        });
        assert_eq!(armed.meet(Call::Write, "a-wal"), None);
        assert_eq!(armed.meet(Call::Sync, "a-wal"), None);
        assert_eq!(armed.meet(Call::Write, "a"), None);
        assert_eq!(armed.meet(Call::Write, "a-wal"), Some(How::Full));
        assert_eq!(armed.meet(Call::Write, "a-wal"), None);
    }

    #[test]
    fn a_fault_can_last_for_some_calls() {
        let mut armed = Armed::new(Fault {
            lasting: Lasting::For(2),
            ..Fault::once(Call::Write, 2, How::Full)
        });
        let met: Vec<bool> = (0..5)
            .map(|_| armed.meet(Call::Write, "a").is_some())
            .collect();
        assert_eq!(met, [false, true, true, false, false]);
    }

    #[test]
    fn a_fault_that_lasts_strikes_until_it_is_lifted() {
        let mut armed = Armed::new(Fault {
            lasting: Lasting::UntilLifted,
            ..Fault::once(Call::Write, 2, How::Full)
        });
        let met: Vec<bool> = (0..4)
            .map(|_| armed.meet(Call::Write, "a").is_some())
            .collect();
        assert_eq!(met, [false, true, true, true]);
    }
}
