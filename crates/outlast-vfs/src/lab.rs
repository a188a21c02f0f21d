//! The directories that are watched: their tapes, and the faults that are to come there.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::inject::{Armed, Call, Fault, How, Lasting, refusal};
use crate::record::{FileNo, Op, Tape, is_recorded};

/// Watches one directory, until it is dropped. Files that are open then stay on its tape.
#[derive(Debug)]
pub struct Lab {
    watch: Arc<Watch>,
}

/// What is known of a directory that is watched.
pub(crate) struct Watch {
    dir: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    tape: Tape,
    names: BTreeMap<String, FileNo>,
    files: usize,
    armed: Vec<Armed>,
    struck: u64,
    calls: BTreeMap<Call, u64>,
}

static WATCHED: Mutex<Vec<Arc<Watch>>> = Mutex::new(Vec::new());

impl Lab {
    /// Records what SQLite does in this directory from now on. What is there counts as being on the
    /// disk.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn on(dir: &Path) -> io::Result<Self> {
        crate::install();
        let dir = dir.canonicalize()?;
        let mut state = State::default();
        for entry in std::fs::read_dir(&dir)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if is_recorded(&name) && entry.file_type()?.is_file() {
                state.tape.base.insert(name, std::fs::read(entry.path())?);
            }
        }
        // The same numbers as a cutter gives to the files of the base.
        for name in state.tape.base.keys() {
            state.names.insert(name.clone(), FileNo(state.files));
            state.files += 1;
        }
        let watch = Arc::new(Watch {
            dir,
            state: Mutex::new(state),
        });
        lock(&WATCHED).push(watch.clone());
        Ok(Self { watch })
    }

    /// Leaves a mark on the tape.
    pub fn mark(&self, number: usize) {
        self.watch.push(Op::Mark(number));
    }

    /// What was recorded so far.
    pub fn tape(&self) -> Tape {
        lock(&self.watch.state).tape.clone()
    }

    /// A fault that is to come.
    pub fn arm(&self, fault: Fault) {
        lock(&self.watch.state).armed.push(Armed::new(fault));
    }

    /// The process counts as killed: nothing that it still does has any effect, until
    /// [`lift`](Self::lift).
    pub fn kill(&self) {
        for call in [
            Call::Write,
            Call::Truncate,
            Call::Sync,
            Call::SyncDirectory,
            Call::Delete,
        ] {
            self.arm(Fault {
                lasting: Lasting::UntilLifted,
                ..Fault::once(call, 1, How::Gone)
            });
        }
    }

    /// Faults that have begun to last are over.
    pub fn lift(&self) {
        lock(&self.watch.state).armed.retain(Armed::is_to_come);
    }

    /// No fault is to come any more.
    pub fn disarm(&self) {
        lock(&self.watch.state).armed.clear();
    }

    /// How many calls have met a fault.
    pub fn struck(&self) -> u64 {
        lock(&self.watch.state).struck
    }

    /// How many calls of this kind there were.
    pub fn calls(&self, call: Call) -> u64 {
        let state = lock(&self.watch.state);
        state.calls.get(&call).copied().unwrap_or(0)
    }

    /// Gives a file another name, behind SQLite's back, and records it.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        std::fs::rename(self.watch.dir.join(from), self.watch.dir.join(to))?;
        let mut state = lock(&self.watch.state);
        if let Some(file) = state.names.remove(from) {
            state.names.insert(to.to_owned(), file);
        }
        let (from, to) = (from.to_owned(), to.to_owned());
        state.tape.ops.push(Op::Rename { from, to });
        Ok(())
    }

    /// Removes a file, behind SQLite's back, and records it.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        std::fs::remove_file(self.watch.dir.join(name))?;
        self.watch.deleted(name);
        Ok(())
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        lock(&WATCHED).retain(|watch| !Arc::ptr_eq(watch, &self.watch));
    }
}

/// Something that the program is about to do to a file by itself, beside SQLite.
#[derive(Clone, Copy, Debug)]
pub enum Beside<'a> {
    /// These bytes are written at this place.
    Write {
        /// The place.
        at: u64,
        /// The bytes.
        bytes: &'a [u8],
    },
    /// The file is synced.
    Sync,
    /// The directory of the file is synced.
    SyncDirectory,
}

/// Hears of it, and says what it meets. If nobody watches the directory, nothing.
///
/// # Errors
/// What the system would say, if a fault was to come here.
pub fn beside(path: &Path, what: Beside<'_>) -> io::Result<()> {
    match watching(path) {
        Some((watch, name)) => watch.beside(path, &name, what),
        None => Ok(()),
    }
}

/// Who watches the directory of this file, and the file's name in it.
pub(crate) fn watching(path: &Path) -> Option<(Arc<Watch>, String)> {
    let (dir, name) = (path.parent()?, path.file_name()?.to_str()?);
    let watched = lock(&WATCHED);
    let watch = watched.iter().find(|watch| watch.dir == dir)?;
    is_recorded(name).then(|| (watch.clone(), name.to_owned()))
}

impl Watch {
    /// A call is about to be made: what it meets.
    pub(crate) fn meet(&self, call: Call, name: &str) -> Option<How> {
        let mut state = lock(&self.state);
        *state.calls.entry(call).or_default() += 1;
        let mut met = None;
        for armed in &mut state.armed {
            met = met.or(armed.meet(call, name));
        }
        state.struck += u64::from(met.is_some());
        met
    }

    fn beside(&self, path: &Path, name: &str, what: Beside<'_>) -> io::Result<()> {
        // One that is not known yet was made by the program, if it is there.
        if path.exists() {
            self.opened(name);
        }
        let Some(file) = lock(&self.state).names.get(name).copied() else {
            return Ok(());
        };
        let call = match what {
            Beside::Write { .. } => Call::Write,
            Beside::Sync => Call::Sync,
            Beside::SyncDirectory => Call::SyncDirectory,
        };
        let met = self.meet(call, name);
        match (what, met) {
            (Beside::Write { at, bytes }, None | Some(How::Short)) => {
                let length = if met.is_none() {
                    bytes.len()
                } else {
                    bytes.len() / 2
                };
                let bytes = bytes[..length].to_vec();
                self.push(Op::Write { file, at, bytes });
            }
            (Beside::Sync, None) => self.push(Op::Sync { file }),
            (Beside::Sync, Some(How::Broken | How::Full | How::Short)) => {
                self.push(Op::SyncFailed { file });
            }
            (Beside::SyncDirectory, None) => self.push(Op::SyncDirectory),
            (Beside::Write { .. } | Beside::SyncDirectory, Some(_))
            | (Beside::Sync, Some(How::Skipped | How::Gone)) => {}
        }
        met.and_then(refusal).map_or(Ok(()), Err)
    }

    /// A file was opened; one that is not known was made just before.
    pub(crate) fn opened(&self, name: &str) -> FileNo {
        let mut state = lock(&self.state);
        if let Some(file) = state.names.get(name) {
            return *file;
        }
        let file = FileNo(state.files);
        state.files += 1;
        let name = name.to_owned();
        state.names.insert(name.clone(), file);
        state.tape.ops.push(Op::Create { name, file });
        file
    }

    pub(crate) fn deleted(&self, name: &str) {
        let mut state = lock(&self.state);
        if state.names.remove(name).is_some() {
            let name = name.to_owned();
            state.tape.ops.push(Op::Delete { name });
        }
    }

    pub(crate) fn push(&self, op: Op) {
        lock(&self.state).tape.ops.push(op);
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch")
            .field("dir", &self.dir)
            .finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
