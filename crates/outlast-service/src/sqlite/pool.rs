//! A few connections that only read, so that readers never wait for a commit.
//!
//! A reader keeps the log from beginning anew as long as it reads. One that is in the way of a log
//! which has become long is interrupted, and reads again from the start.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use rusqlite::{Connection, InterruptHandle};

use super::connect;
use super::live::Live;
use crate::store::ReadError;

/// Connections kept for the next reader; more may be in use at once.
const KEPT: usize = 4;

/// So often a read that was interrupted begins again. Between two interruptions the log grows by
/// many megabytes, so this is enough for all but the longest.
const TRIES: usize = 10;

/// Connections that nobody uses at the moment, and how to stop those in use.
#[derive(Debug, Default)]
pub(super) struct Pool {
    idle: Mutex<Idle>,
    released: Condvar,
}

#[derive(Debug, Default)]
struct Idle {
    /// Raised when all connections are let go, so that one in use then does not come back.
    generation: u64,
    is_open: bool,
    is_held: bool,
    connections: Vec<Reading>,
    in_use: Vec<Arc<Stop>>,
}

#[derive(Debug)]
struct Reading {
    conn: Connection,
    stop: Arc<Stop>,
    /// After the connection: as long as that has the file open.
    _live: Live,
}

/// Stops what a connection does.
struct Stop {
    handle: InterruptHandle,
    is_pulled: AtomicBool,
}

impl std::fmt::Debug for Stop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stop")
            .field("is_pulled", &self.is_pulled)
            .finish_non_exhaustive()
    }
}

impl Reading {
    fn new(path: &Path) -> Result<Self, ReadError> {
        let live = Live::new(path);
        let conn = connect::reader(path)?;
        let stop = Arc::new(Stop {
            handle: conn.get_interrupt_handle(),
            is_pulled: AtomicBool::new(false),
        });
        Ok(Self {
            conn,
            stop,
            _live: live,
        })
    }
}

impl Pool {
    /// From now on reads are answered.
    pub(super) fn open(&self) {
        self.idle().is_open = true;
    }

    /// Lets all connections go; those in use when their reader is done.
    pub(super) fn close(&self) {
        let mut idle = self.idle();
        idle.generation += 1;
        idle.is_open = false;
        idle.connections.clear();
    }

    /// Stops everything that is being read while this is done; it begins again afterwards.
    pub(super) fn without_readers<T>(&self, act: impl FnOnce() -> T) -> T {
        let mut idle = self.idle();
        idle.is_held = true;
        for stop in &idle.in_use {
            stop.is_pulled.store(true, Ordering::Release);
            stop.handle.interrupt();
        }
        drop(idle);
        let done = act();
        self.idle().is_held = false;
        self.released.notify_all();
        done
    }

    /// Waits while nothing may be read.
    fn held(&self) -> MutexGuard<'_, Idle> {
        let is_held = |idle: &mut Idle| idle.is_held;
        self.released
            .wait_while(self.idle(), is_held)
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads with one of them.
    pub(super) fn read<T>(
        &self,
        path: &Path,
        read: impl Fn(&Connection) -> Result<T, ReadError>,
    ) -> Result<T, ReadError> {
        let (generation, reading) = self.take(path)?;
        let mut answer = read(&reading.conn);
        for _ in 1..TRIES {
            let was_pulled = reading.stop.is_pulled.swap(false, Ordering::AcqRel);
            if answer.is_ok() || !was_pulled {
                break;
            }
            drop(self.held());
            answer = read(&reading.conn);
        }
        self.put(generation, reading);
        answer
    }

    fn take(&self, path: &Path) -> Result<(u64, Reading), ReadError> {
        let (generation, kept) = {
            let mut idle = self.held();
            if !idle.is_open {
                return Err(ReadError::Failed {
                    reason: "the store is closed".to_owned(),
                });
            }
            (idle.generation, idle.connections.pop())
        };
        let reading = match kept {
            Some(reading) => reading,
            None => Reading::new(path)?,
        };
        reading.stop.is_pulled.store(false, Ordering::Release);
        self.idle().in_use.push(reading.stop.clone());
        Ok((generation, reading))
    }

    fn put(&self, generation: u64, reading: Reading) {
        let mut idle = self.idle();
        idle.in_use.retain(|stop| !Arc::ptr_eq(stop, &reading.stop));
        if idle.generation == generation && idle.connections.len() < KEPT {
            idle.connections.push(reading);
        }
    }

    fn idle(&self) -> MutexGuard<'_, Idle> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
