//! The calls of SQLite: each goes to the system's file system, and on the tape.
//!
//! A file of ours is a [`Shim`] with the system's file behind it in the same piece of memory, whose
//! size SQLite learns from the registration. Nothing here panics: SQLite could not go on.
#![allow(unsafe_code, reason = "SQLite calls a file system through C pointers")]

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::PathBuf;
use std::ptr;
use std::sync::{Arc, Once};
use std::time::Duration;

use rusqlite::ffi::{self, sqlite3_file, sqlite3_int64, sqlite3_io_methods, sqlite3_vfs};

use crate::inject::{Call, How, code};
use crate::lab::{Watch, watching};
use crate::record::{FileNo, Op};

/// The name under which SQLite knows us.
const NAME: &CStr = c"outlast-lab";

static INSTALLED: Once = Once::new();

/// Puts itself between SQLite and the files, for every connection of this process from now on.
pub fn install() {
    INSTALLED.call_once(|| {
        // SAFETY: without a name SQLite gives its default, which lives as long as the process. The
        // copy differs in what is set here; the functions that are kept (of names, time and
        // chance) do not look at the pointer they are called with. It is leaked: SQLite keeps it.
        unsafe {
            let below = ffi::sqlite3_vfs_find(ptr::null());
            let mut vfs = ptr::read(below);
            vfs.szOsFile += SHIM_BYTES;
            vfs.pNext = ptr::null_mut();
            vfs.zName = NAME.as_ptr();
            vfs.pAppData = below.cast();
            vfs.xOpen = Some(open);
            vfs.xDelete = Some(delete);
            vfs.xSleep = Some(sleep);
            ffi::sqlite3_vfs_register(Box::leak(Box::new(vfs)), 1);
        }
    });
}

/// What SQLite sees of a file; the system's file follows.
#[repr(C)]
struct Shim {
    base: sqlite3_file,
    /// Null if nobody watches.
    taped: *mut Taped,
}

const SHIM_BYTES: c_int = 16;
const _: () = assert!(size_of::<Shim>() == 16, "the system's file is aligned");

/// A file that is recorded.
struct Taped {
    watch: Arc<Watch>,
    name: String,
    file: FileNo,
    /// The next sync is one of the directory too: so SQLite does for a log that it may have made.
    is_new: bool,
}

impl Taped {
    fn meet(&self, call: Call) -> Option<How> {
        self.watch.meet(call, &self.name)
    }
}

/// The system's file behind ours.
fn below(file: *mut sqlite3_file) -> *mut sqlite3_file {
    file.cast::<u8>().wrapping_add(size_of::<Shim>()).cast()
}

/// What is recorded of a file, if anything.
///
/// # Safety
/// `file` was opened by [`open`] and is not closed, and SQLite uses it from one thread at a time.
unsafe fn taped<'a>(file: *mut sqlite3_file) -> Option<&'a mut Taped> {
    // SAFETY: `open` put a box there or null, and `close` is the last call for a file.
    unsafe { (*file.cast::<Shim>()).taped.as_mut() }
}

/// Calls the system's method of the same name.
macro_rules! pass {
    ($file:expr, $method:ident $(, $arg:expr)*) => {{
        let below = below($file);
        // SAFETY: `open` had the system open its file there; the arguments are SQLite's own.
        unsafe {
            match (*(*below).pMethods).$method {
                Some(method) => method(below $(, $arg)*),
                None => ffi::SQLITE_IOERR,
            }
        }
    }};
}

static METHODS: sqlite3_io_methods = sqlite3_io_methods {
    iVersion: 3,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(take_lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(check_reserved_lock),
    xFileControl: Some(file_control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(device_characteristics),
    xShmMap: Some(shm_map),
    xShmLock: Some(shm_lock),
    xShmBarrier: Some(shm_barrier),
    xShmUnmap: Some(shm_unmap),
    xFetch: Some(fetch),
    xUnfetch: Some(unfetch),
};

/// Kinds of files whose directory SQLite syncs with their first sync.
const LOGS: c_int =
    ffi::SQLITE_OPEN_WAL | ffi::SQLITE_OPEN_MAIN_JOURNAL | ffi::SQLITE_OPEN_SUPER_JOURNAL;

unsafe extern "C" fn open(
    vfs: *mut sqlite3_vfs,
    name: *const c_char,
    file: *mut sqlite3_file,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    // SAFETY: SQLite gives its own name or none; `file` has room for a shim and what is behind it,
    // and `install` put the system's file system into pAppData. Without methods nobody closes.
    unsafe {
        let shim = file.cast::<Shim>();
        (*shim).base.pMethods = ptr::null();
        (*shim).taped = ptr::null_mut();
        let found = path(name).and_then(|path| watching(&path));
        let found = found.filter(|_| flags & ffi::SQLITE_OPEN_DELETEONCLOSE == 0);
        let met = found
            .as_ref()
            .and_then(|(watch, name)| watch.meet(Call::Open, name));
        if let Some(how) = met {
            return code(Call::Open, how);
        }
        let system = (*vfs).pAppData.cast::<sqlite3_vfs>();
        let Some(open) = (*system).xOpen else {
            return ffi::SQLITE_CANTOPEN;
        };
        let outcome = open(system, name, below(file), flags, out);
        if outcome != ffi::SQLITE_OK {
            return outcome;
        }
        if let Some((watch, name)) = found {
            let file = watch.opened(&name);
            let is_new = flags & ffi::SQLITE_OPEN_CREATE != 0 && flags & LOGS != 0;
            let taped = Taped {
                watch,
                name,
                file,
                is_new,
            };
            (*shim).taped = Box::into_raw(Box::new(taped));
        }
        (*shim).base.pMethods = &raw const METHODS;
        outcome
    }
}

unsafe extern "C" fn delete(vfs: *mut sqlite3_vfs, name: *const c_char, sync: c_int) -> c_int {
    // SAFETY: as in `open`.
    unsafe {
        let found = path(name).and_then(|path| watching(&path));
        let met = found
            .as_ref()
            .and_then(|(watch, name)| watch.meet(Call::Delete, name));
        if let Some(how) = met {
            return code(Call::Delete, how);
        }
        let system = (*vfs).pAppData.cast::<sqlite3_vfs>();
        let Some(delete) = (*system).xDelete else {
            return ffi::SQLITE_IOERR_DELETE;
        };
        let outcome = delete(system, name, sync);
        if let (Some((watch, name)), ffi::SQLITE_OK) = (found, outcome) {
            watch.deleted(&name);
            if sync != 0 {
                watch.push(Op::SyncDirectory);
            }
        }
        outcome
    }
}

thread_local! {
    static SLEPT: Cell<u64> = const { Cell::new(0) };
}

/// How long SQLite has waited in this thread, for locks, since it began.
pub fn slept() -> Duration {
    Duration::from_micros(SLEPT.get())
}

unsafe extern "C" fn sleep(vfs: *mut sqlite3_vfs, micros: c_int) -> c_int {
    SLEPT.set(SLEPT.get() + u64::try_from(micros).unwrap_or(0));
    // SAFETY: as in `open`.
    unsafe {
        let system = (*vfs).pAppData.cast::<sqlite3_vfs>();
        (*system).xSleep.map_or(0, |sleep| sleep(system, micros))
    }
}

/// The path that SQLite means, if it means one.
///
/// # Safety
/// `name` is null or a C string.
unsafe fn path(name: *const c_char) -> Option<PathBuf> {
    if name.is_null() {
        return None;
    }
    // SAFETY: the caller says so.
    let name = unsafe { CStr::from_ptr(name) };
    Some(PathBuf::from(name.to_str().ok()?))
}

unsafe extern "C" fn close(file: *mut sqlite3_file) -> c_int {
    let outcome = pass!(file, xClose);
    // SAFETY: the last call for this file: the box goes as it came.
    unsafe {
        let shim = file.cast::<Shim>();
        if !(*shim).taped.is_null() {
            drop(Box::from_raw((*shim).taped));
            (*shim).taped = ptr::null_mut();
        }
    }
    outcome
}

unsafe extern "C" fn read(
    file: *mut sqlite3_file,
    to: *mut c_void,
    bytes: c_int,
    at: sqlite3_int64,
) -> c_int {
    // SAFETY: an open file of ours.
    let met = unsafe { taped(file) }.and_then(|taped| taped.meet(Call::Read));
    match met {
        Some(how) => code(Call::Read, how),
        None => pass!(file, xRead, to, bytes, at),
    }
}

unsafe extern "C" fn write(
    file: *mut sqlite3_file,
    from: *const c_void,
    bytes: c_int,
    at: sqlite3_int64,
) -> c_int {
    // SAFETY: an open file of ours.
    let Some(taped) = (unsafe { taped(file) }) else {
        return pass!(file, xWrite, from, bytes, at);
    };
    let met = taped.meet(Call::Write);
    let written = match met {
        None => bytes,
        Some(How::Short) => bytes / 2,
        Some(how) => return code(Call::Write, how),
    };
    let outcome = pass!(file, xWrite, from, written, at);
    if outcome != ffi::SQLITE_OK {
        return outcome;
    }
    let (len, at) = (usize::try_from(written), u64::try_from(at));
    // SAFETY: SQLite has so many bytes there.
    let bytes = unsafe { std::slice::from_raw_parts(from.cast::<u8>(), len.unwrap_or(0)) };
    taped.watch.push(Op::Write {
        file: taped.file,
        at: at.unwrap_or(0),
        bytes: bytes.to_vec(),
    });
    met.map_or(ffi::SQLITE_OK, |how| code(Call::Write, how))
}

unsafe extern "C" fn truncate(file: *mut sqlite3_file, len: sqlite3_int64) -> c_int {
    // SAFETY: an open file of ours.
    let Some(taped) = (unsafe { taped(file) }) else {
        return pass!(file, xTruncate, len);
    };
    if let Some(how) = taped.meet(Call::Truncate) {
        return code(Call::Truncate, how);
    }
    let outcome = pass!(file, xTruncate, len);
    if outcome == ffi::SQLITE_OK {
        taped.watch.push(Op::Truncate {
            file: taped.file,
            len: u64::try_from(len).unwrap_or(0),
        });
    }
    outcome
}

unsafe extern "C" fn sync(file: *mut sqlite3_file, flags: c_int) -> c_int {
    // SAFETY: an open file of ours.
    let Some(taped) = (unsafe { taped(file) }) else {
        return pass!(file, xSync, flags);
    };
    let file_no = taped.file;
    if let Some(how) = taped.meet(Call::Sync) {
        match how {
            How::Broken | How::Full | How::Short => {
                taped.watch.push(Op::SyncFailed { file: file_no });
            }
            How::Skipped | How::Gone => {}
        }
        return code(Call::Sync, how);
    }
    let outcome = pass!(file, xSync, flags);
    if outcome != ffi::SQLITE_OK {
        taped.watch.push(Op::SyncFailed { file: file_no });
        return outcome;
    }
    taped.watch.push(Op::Sync { file: file_no });
    if std::mem::take(&mut taped.is_new) {
        taped.watch.push(Op::SyncDirectory);
    }
    outcome
}

unsafe extern "C" fn shm_map(
    file: *mut sqlite3_file,
    page: c_int,
    bytes: c_int,
    extend: c_int,
    to: *mut *mut c_void,
) -> c_int {
    // SAFETY: an open file of ours.
    let met = unsafe { taped(file) }.and_then(|taped| taped.meet(Call::Map));
    match met {
        Some(how) => code(Call::Map, how),
        None => pass!(file, xShmMap, page, bytes, extend, to),
    }
}

unsafe extern "C" fn shm_barrier(file: *mut sqlite3_file) {
    let below = below(file);
    // SAFETY: as in `pass`.
    unsafe {
        if let Some(barrier) = (*(*below).pMethods).xShmBarrier {
            barrier(below);
        }
    }
}

/// Methods that only pass.
macro_rules! passing {
    ($($name:ident => $method:ident($($arg:ident: $kind:ty),*);)*) => {
        $(unsafe extern "C" fn $name(file: *mut sqlite3_file $(, $arg: $kind)*) -> c_int {
            pass!(file, $method $(, $arg)*)
        })*
    };
}

passing! {
    file_size => xFileSize(to: *mut sqlite3_int64);
    take_lock => xLock(level: c_int);
    unlock => xUnlock(level: c_int);
    check_reserved_lock => xCheckReservedLock(to: *mut c_int);
    file_control => xFileControl(op: c_int, arg: *mut c_void);
    sector_size => xSectorSize();
    device_characteristics => xDeviceCharacteristics();
    shm_lock => xShmLock(at: c_int, n: c_int, flags: c_int);
    shm_unmap => xShmUnmap(delete: c_int);
    fetch => xFetch(at: sqlite3_int64, bytes: c_int, to: *mut *mut c_void);
    unfetch => xUnfetch(at: sqlite3_int64, page: *mut c_void);
}
