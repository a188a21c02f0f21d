//! A few connections that only read, so that readers never wait for a commit.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rusqlite::Connection;

use super::connect;
use super::live::Live;
use crate::store::ReadError;

/// Connections kept for the next reader; more may be in use at once.
const KEPT: usize = 4;

/// Connections that nobody uses at the moment.
#[derive(Debug, Default)]
pub(super) struct Pool {
    idle: Mutex<Idle>,
}

#[derive(Debug, Default)]
struct Idle {
    /// Raised when all connections are let go, so that one in use then does not come back.
    generation: u64,
    is_open: bool,
    connections: Vec<(Connection, Live)>,
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

    /// Reads with one of them.
    pub(super) fn read<T>(
        &self,
        path: &Path,
        read: impl FnOnce(&Connection) -> Result<T, ReadError>,
    ) -> Result<T, ReadError> {
        let (generation, kept) = {
            let mut idle = self.idle();
            if !idle.is_open {
                return Err(ReadError::Failed {
                    reason: "the store is closed".to_owned(),
                });
            }
            (idle.generation, idle.connections.pop())
        };
        let conn = match kept {
            Some(conn) => conn,
            None => (connect::reader(path)?, Live::new(path)),
        };
        let answer = read(&conn.0);
        let mut idle = self.idle();
        if idle.generation == generation && idle.connections.len() < KEPT {
            idle.connections.push(conn);
        }
        answer
    }

    fn idle(&self) -> MutexGuard<'_, Idle> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
