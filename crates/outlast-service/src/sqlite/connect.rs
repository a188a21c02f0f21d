//! Connections: which settings make a commit durable, and the proof that they took.
//!
//! A setting that SQLite silently does not take (no room for the log's index, a build without
//! it) would turn every acknowledgement into a guess, so the two that matter are read back.

use std::path::Path;
use std::time::Duration;

use outlast_model::planted::{Bug, is_planted};
use rusqlite::{Connection, OpenFlags};

use super::error::OpenError;
use super::schema;

/// The first SQLite without the log-reset bug that corrupts files.
const SQLITE_NEEDED: &str = "3.51.3";
const SQLITE_FIXED: i32 = 3_051_003;
/// The same fix in the 3.50 line.
const SQLITE_FIXED_3_50: std::ops::Range<i32> = 3_050_007..3_051_000;

/// How long a statement waits for a lock of another connection.
pub(super) const BUSY: Duration = Duration::from_secs(5);
/// More than there are statements: none is ever prepared twice.
const STATEMENTS: usize = 64;

pub(super) const PAGE_BYTES: u64 = 8192;

const WRITER: &str = "
    PRAGMA synchronous = FULL;
    PRAGMA fullfsync = ON;
    PRAGMA checkpoint_fullfsync = ON;
    PRAGMA wal_autocheckpoint = 0;
    PRAGMA journal_size_limit = 67108864;
    PRAGMA cache_size = -8192;
    PRAGMA temp_store = MEMORY;
    PRAGMA trusted_schema = OFF;
    PRAGMA cell_size_check = ON;
    PRAGMA foreign_keys = OFF;
";

const READER: &str = "
    PRAGMA query_only = ON;
    PRAGMA cache_size = -8192;
    PRAGMA temp_store = MEMORY;
    PRAGMA trusted_schema = OFF;
    PRAGMA cell_size_check = ON;
";

/// Refuses a SQLite that is known to lose data.
pub(super) fn refuse_old_sqlite(number: i32, name: &str) -> Result<(), OpenError> {
    if number >= SQLITE_FIXED || SQLITE_FIXED_3_50.contains(&number) {
        return Ok(());
    }
    Err(OpenError::OldSqlite {
        found: name.to_owned(),
        needed: SQLITE_NEEDED,
    })
}

/// The one connection that writes, its file in today's format.
pub(super) fn writer(path: &Path) -> Result<Connection, OpenError> {
    let lost = |e: rusqlite::Error| OpenError::from_sqlite(path, &e);
    let conn = open(path, OpenFlags::SQLITE_OPEN_READ_WRITE).map_err(lost)?;
    let format = schema::identify(&conn, path)?;
    if conn.is_readonly("main").map_err(lost)? {
        return Err(OpenError::ReadOnly {
            path: path.to_owned(),
        });
    }
    // Before the first page is written, or never.
    conn.pragma_update(None, "page_size", i64::try_from(PAGE_BYTES).unwrap_or(0))
        .map_err(lost)?;
    to_the_end(&conn, "PRAGMA journal_mode = WAL").map_err(lost)?;
    conn.execute_batch(WRITER).map_err(lost)?;
    require_durable(&conn, path)?;
    if is_planted(Bug::AnswerUnsynced) {
        conn.pragma_update(None, "synchronous", "NORMAL")
            .map_err(lost)?;
    }
    schema::migrate(&conn, format).map_err(lost)?;
    Ok(conn)
}

/// A connection that only reads, beside an owner that writes.
pub(super) fn reader(path: &Path) -> Result<Connection, OpenError> {
    let lost = |e: rusqlite::Error| OpenError::from_sqlite(path, &e);
    let conn = open(path, OpenFlags::SQLITE_OPEN_READ_ONLY).map_err(lost)?;
    conn.execute_batch(READER).map_err(lost)?;
    Ok(conn)
}

fn open(path: &Path, mode: OpenFlags) -> rusqlite::Result<Connection> {
    let conn = Connection::open_with_flags(path, mode | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    conn.busy_timeout(BUSY)?;
    conn.set_prepared_statement_cache_capacity(STATEMENTS);
    Ok(conn)
}

/// Runs a statement until SQLite says that it is done. Its row comes before what it writes is on the
/// disk; a caller that stops at the row does not hear that this failed.
fn to_the_end(conn: &Connection, sql: &str) -> rusqlite::Result<()> {
    let mut statement = conn.prepare(sql)?;
    let mut rows = statement.query(())?;
    while rows.next()?.is_some() {}
    Ok(())
}

fn require_durable(conn: &Connection, path: &Path) -> Result<(), OpenError> {
    let lost = |e: rusqlite::Error| OpenError::from_sqlite(path, &e);
    let journal: String = conn
        .query_row("PRAGMA journal_mode", (), |row| row.get(0))
        .map_err(lost)?;
    let synchronous: i64 = conn
        .query_row("PRAGMA synchronous", (), |row| row.get(0))
        .map_err(lost)?;
    if journal == "wal" && synchronous == 2 {
        return Ok(());
    }
    let reason = format!("SQLite refuses durable commits: {journal}, synchronous {synchronous}");
    Err(OpenError::Other {
        path: path.to_owned(),
        reason,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_sqlite_with_the_log_reset_fix_is_taken() {
        for (number, is_taken) in [
            (3_046_000, false),
            (3_050_006, false),
            (3_050_007, true),
            (3_051_000, false),
            (3_051_002, false),
            (3_051_003, true),
            (3_054_001, true),
        ] {
            assert_eq!(refuse_old_sqlite(number, "x").is_ok(), is_taken, "{number}");
        }
    }
}
