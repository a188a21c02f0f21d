//! The tables, and the way from every older format to this one.
//!
//! Layout "chain": `hist` is keyed by the number of the commit, so that commits of many runs fill
//! the same few pages; each blob names the one before it, and the run row names the newest. What
//! is written stays as it is; only the newest blobs of a run go away, with the commit that says
//! what was left of them. No index on a random id is written by a commit: `wf` and `rid` are written
//! behind (see the module `index`), and so is `run_open`, which holds open runs only.
//!
//! A step is never changed once released; the next format is one more entry of the list. A reader
//! cannot take a step, so it sees an older file through views in the shape of the newest.

use std::path::Path;

use rusqlite::Connection;

use super::error::OpenError;

/// "OUTL": how a file says that it is ours.
pub(super) const APPLICATION_ID: i32 = 0x4f55_544c;

/// Step n leads from format n to format n + 1.
const STEPS: [&str; 5] = [
    "
    CREATE TABLE meta(key TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT, WITHOUT ROWID;
    INSERT INTO meta VALUES ('clean', 1), ('indexed', 0);
    CREATE TABLE run(
        id INTEGER PRIMARY KEY,
        status INTEGER NOT NULL,
        version INTEGER NOT NULL,
        epoch INTEGER NOT NULL,
        head INTEGER NOT NULL,
        events INTEGER NOT NULL,
        bytes INTEGER NOT NULL,
        closed INTEGER,
        wake INTEGER,
        attention INTEGER NOT NULL,
        started INTEGER NOT NULL,
        run_id BLOB NOT NULL,
        type TEXT NOT NULL,
        queue TEXT NOT NULL,
        workflow_id TEXT NOT NULL
    ) STRICT;
    CREATE INDEX run_open ON run(id) WHERE status = 1;
    CREATE TABLE hist(id INTEGER PRIMARY KEY, prev INTEGER NOT NULL, data BLOB NOT NULL) STRICT;
    CREATE TABLE snap(
        run INTEGER PRIMARY KEY,
        version INTEGER NOT NULL,
        head INTEGER NOT NULL,
        data BLOB NOT NULL
    ) STRICT;
    CREATE TABLE wf(
        workflow_id TEXT NOT NULL,
        run INTEGER NOT NULL,
        PRIMARY KEY (workflow_id, run)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE rid(run_id BLOB PRIMARY KEY, run INTEGER NOT NULL) STRICT, WITHOUT ROWID;
",
    "
    ALTER TABLE run ADD COLUMN first_run BLOB;
    CREATE TABLE post(id INTEGER PRIMARY KEY, data BLOB NOT NULL) STRICT;
    INSERT INTO meta VALUES ('posts', 0);
",
    // Rows of open runs hold a place for the times they do not have yet (see the module `row`).
    "",
    // Open runs past the watermark have a status that `run_open` leaves out, and large commits say
    // what is alike in short (version 2 of records).
    "",
    // What tells a database from its copies (see the module `log`); blobs may take the place of
    // others, `version` counts those that are there, `bytes` those of events, and records say when
    // the clock was behind.
    "
    INSERT INTO meta VALUES ('store', random());
    INSERT INTO meta VALUES ('generation', 0);
",
];

/// Entry n makes a file of format n + 1 look like one of format n + 2. The stars are read anew when
/// the owner takes the step, and the true column comes first then.
const VIEWS: [&str; STEPS.len() - 1] = [
    "
    CREATE TEMP VIEW run AS SELECT *, NULL AS first_run FROM main.run;
    CREATE TEMP VIEW post AS SELECT 0 AS id, x'' AS data WHERE false;
",
    "",
    "",
    "",
];

/// The format this build writes.
pub(super) fn supported() -> i32 {
    i32::try_from(STEPS.len()).unwrap_or(i32::MAX)
}

/// The format of the file: 0 for an empty one. Refuses files of others and of the future, before
/// anything is written to them.
pub(super) fn identify(conn: &Connection, path: &Path) -> Result<i32, OpenError> {
    let lost = |e: rusqlite::Error| OpenError::from_sqlite(path, &e);
    let pragma = |sql: &str| {
        conn.query_row(sql, (), |row| row.get::<_, i32>(0))
            .map_err(lost)
    };
    let owner = pragma("PRAGMA application_id")?;
    let format = pragma("PRAGMA user_version")?;
    if owner == 0 && format == 0 && pragma("SELECT count(*) FROM sqlite_schema")? == 0 {
        return Ok(0);
    }
    if owner != APPLICATION_ID || format < 0 {
        return Err(OpenError::Foreign {
            path: path.to_owned(),
        });
    }
    if format > supported() {
        let supported = supported();
        return Err(OpenError::Newer {
            path: path.to_owned(),
            found: format,
            supported,
        });
    }
    Ok(format)
}

/// Brings the file to the format of this build, all steps or none.
pub(super) fn migrate(conn: &Connection, from: i32) -> rusqlite::Result<()> {
    if from == supported() {
        return Ok(());
    }
    let tx = conn.unchecked_transaction()?;
    for step in STEPS.iter().skip(usize::try_from(from).unwrap_or(0)) {
        tx.execute_batch(step)?;
    }
    tx.pragma_update(None, "application_id", APPLICATION_ID)?;
    tx.pragma_update(None, "user_version", supported())?;
    tx.commit()
}

/// Makes an older file readable as it is, on a connection that does not write to it.
pub(super) fn view(conn: &Connection, format: i32) -> rusqlite::Result<()> {
    let taken = usize::try_from(format - 1).unwrap_or(0);
    if taken == VIEWS.len() {
        return Ok(());
    }
    // Views of this connection only, yet a connection that only queries refuses them.
    conn.pragma_update(None, "query_only", false)?;
    for views in VIEWS.iter().skip(taken) {
        conn.execute_batch(views)?;
    }
    conn.pragma_update(None, "query_only", true)
}
