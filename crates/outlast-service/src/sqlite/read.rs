//! Everything that is read back, on a connection that only reads.
//!
//! A run is loaded by walking its chain from the head in the row, one primary-key read per
//! commit, as far back as its snapshot. What is found is held against what the row says: a blob
//! too many, too few or missing is damage with a name, never a shorter history.

use std::collections::BTreeSet;

use outlast_model::id::{RunId, WorkflowId};
use outlast_model::task::RunNo;
use outlast_model::view::ListFilter;
use rusqlite::{Connection, OptionalExtension, params_from_iter};

use super::error::{unreadable, unreadable_run};
use super::row::{self, COLUMNS, OPEN_BEHIND, count, int};
use super::{index, post};
use crate::store::{Boot, CommitNo, Loaded, ReadError, RunRow};
use outlast_model::Status;
use outlast_model::id::Version;

const LIST_DEFAULT: usize = 100;

/// Every open run, and the counters.
pub(super) fn boot(conn: &Connection) -> rusqlite::Result<Boot> {
    let number = |sql: &str| conn.query_row(sql, (), |row| count(row, 0));
    let mut open = Vec::new();
    for part in open_parts(conn)? {
        let sql = format!("SELECT {COLUMNS} FROM run WHERE {part} ORDER BY id");
        let mut statement = conn.prepare(&sql)?;
        for row in statement.query_map((), row::read)? {
            open.push(row?);
        }
    }
    // A head whose blob is gone is in use: no other run's blob may take its number.
    let last_head = open.iter().map(|row| row.state.head).max();
    let last_blob = CommitNo(number("SELECT ifnull(max(id), 0) FROM hist")?);
    Ok(Boot {
        last_commit: last_blob.max(last_head.unwrap_or_default()),
        open,
        last_run: RunNo(number("SELECT ifnull(max(id), 0) FROM run")?),
        was_clean: number("SELECT value FROM meta WHERE key = 'clean'")? == 1,
        posts: post::all(conn)?,
        last_post: post::mark(conn)?,
    })
}

/// The open runs in two parts, older ones first: those the index of open runs has, and those that
/// their rows tell of. As text: that index is chosen only for a constant.
fn open_parts(conn: &Connection) -> rusqlite::Result<[String; 2]> {
    let open = Status::Running.number();
    let watermark = index::watermark(conn)?.0;
    Ok([
        format!("status = {open} AND id <= {watermark}"),
        format!("status IN ({OPEN_BEHIND}, {open}) AND id > {watermark}"),
    ])
}

/// What brings a run's state back.
pub(super) fn load(conn: &Connection, run: RunNo) -> Result<Loaded, ReadError> {
    let lost = |e: rusqlite::Error| unreadable_run(run, &e);
    let tx = conn.unchecked_transaction().map_err(lost)?;
    let row = row_of(&tx, run).map_err(lost)?.ok_or(ReadError::Missing)?;
    let Some((version, head, data)) = snapshot_of(&tx, run).map_err(lost)? else {
        let (blobs, numbers) = links(&tx, &row, CommitNo(0), row.state.version.0)?;
        return Ok(Loaded {
            row,
            snapshot: None,
            blobs,
            numbers,
            before: CommitNo(0),
        });
    };
    let count = after_snapshot(&row, version)?;
    let (blobs, numbers) = links(&tx, &row, head, count)?;
    Ok(Loaded {
        row,
        snapshot: Some((version, data)),
        blobs,
        numbers,
        before: head,
    })
}

/// All blobs of a run, oldest first.
pub(super) fn history(conn: &Connection, run: RunNo) -> Result<Vec<Vec<u8>>, ReadError> {
    let lost = |e: rusqlite::Error| unreadable_run(run, &e);
    let tx = conn.unchecked_transaction().map_err(lost)?;
    let row = row_of(&tx, run).map_err(lost)?.ok_or(ReadError::Missing)?;
    chain(&tx, &row, CommitNo(0), row.state.version.0)
}

/// Runs of a workflow id, newest first: those in the table and those that wait for it.
pub(super) fn find(
    conn: &Connection,
    workflow_id: &WorkflowId,
    limit: usize,
    mut runs: BTreeSet<RunNo>,
) -> Result<Vec<RunRow>, ReadError> {
    let lost = |e: rusqlite::Error| unreadable(&e);
    let sql = "SELECT run FROM wf WHERE workflow_id = ?1 ORDER BY run DESC LIMIT ?2";
    let mut statement = conn.prepare_cached(sql).map_err(lost)?;
    let most = i64::try_from(limit).unwrap_or(i64::MAX);
    let found = statement
        .query_map((workflow_id.as_str(), most), |row| count(row, 0).map(RunNo))
        .map_err(lost)?;
    for run in found {
        runs.insert(run.map_err(lost)?);
    }
    let newest = runs.into_iter().rev().take(limit);
    newest
        .filter_map(|run| {
            row_of(conn, run)
                .map_err(|e| unreadable_run(run, &e))
                .transpose()
        })
        .collect()
}

/// The number of a run whose index entry is written.
pub(super) fn number_of(conn: &Connection, run_id: RunId) -> rusqlite::Result<Option<RunNo>> {
    let mut statement = conn.prepare_cached("SELECT run FROM rid WHERE run_id = ?1")?;
    statement
        .query_row([run_id.0.to_be_bytes()], |row| count(row, 0).map(RunNo))
        .optional()
}

/// The row of a run.
pub(super) fn row_of(conn: &Connection, run: RunNo) -> rusqlite::Result<Option<RunRow>> {
    let sql = format!("SELECT {COLUMNS} FROM run WHERE id = ?1");
    conn.prepare_cached(&sql)?
        .query_row([int(run.0)], row::read)
        .optional()
}

/// Runs that match, newest first, all older than `end`.
pub(super) fn list(
    conn: &Connection,
    filter: &ListFilter,
    end: Option<RunNo>,
) -> rusqlite::Result<Vec<RunRow>> {
    let parts = match filter.status {
        None => vec!["true".to_owned()],
        Some(Status::Running) => open_parts(conn)?.into_iter().rev().collect(),
        Some(status) => vec![format!("status = {}", status.number())],
    };
    let mut rows = Vec::new();
    for part in parts {
        let limit = match filter.limit {
            0 => LIST_DEFAULT,
            limit => limit,
        };
        let rest = limit - rows.len();
        rows.extend(list_part(conn, filter, end, &part, rest)?);
    }
    Ok(rows)
}

fn list_part(
    conn: &Connection,
    filter: &ListFilter,
    end: Option<RunNo>,
    part: &str,
    limit: usize,
) -> rusqlite::Result<Vec<RunRow>> {
    let mut sql = format!("SELECT {COLUMNS} FROM run WHERE id < ?1 AND {part}");
    if filter.workflow_type.is_some() {
        sql.push_str(" AND type = ?2");
    }
    sql.push_str(&format!(
        " ORDER BY id DESC LIMIT {}",
        i64::try_from(limit).unwrap_or(i64::MAX)
    ));
    let mut values = vec![rusqlite::types::Value::from(
        end.map_or(i64::MAX, |run| int(run.0)),
    )];
    values.extend(
        filter
            .workflow_type
            .iter()
            .map(|t| t.as_str().to_owned().into()),
    );
    conn.prepare(&sql)?
        .query_map(params_from_iter(values), row::read)?
        .collect()
}

/// The runs of this workflow id past the watermark, for a reader that has no tail in memory.
pub(super) fn unindexed_runs(
    conn: &Connection,
    id: &WorkflowId,
) -> rusqlite::Result<BTreeSet<RunNo>> {
    let sql = "SELECT id FROM run WHERE id > ?1 AND workflow_id = ?2";
    let watermark = index::watermark(conn)?;
    let mut statement = conn.prepare_cached(sql)?;
    statement
        .query_map((int(watermark.0), id.as_str()), |row| {
            count(row, 0).map(RunNo)
        })?
        .collect()
}

/// The same for a run id.
pub(super) fn unindexed_number(conn: &Connection, id: RunId) -> rusqlite::Result<Option<RunNo>> {
    let sql = "SELECT id FROM run WHERE id > ?1 AND run_id = ?2";
    let watermark = index::watermark(conn)?;
    let mut statement = conn.prepare_cached(sql)?;
    let found = (int(watermark.0), id.0.to_be_bytes());
    statement
        .query_row(found, |row| count(row, 0).map(RunNo))
        .optional()
}

type Snapshot = (Version, CommitNo, Vec<u8>);

pub(super) fn snapshot_of(conn: &Connection, run: RunNo) -> rusqlite::Result<Option<Snapshot>> {
    let sql = "SELECT version, head, data FROM snap WHERE run = ?1";
    conn.prepare_cached(sql)?
        .query_row([int(run.0)], |row| {
            Ok((
                Version(count(row, 0)?),
                CommitNo(count(row, 1)?),
                row.get(2)?,
            ))
        })
        .optional()
}

/// How many blobs follow a snapshot of this version.
pub(super) fn after_snapshot(row: &RunRow, version: Version) -> Result<u64, ReadError> {
    row.state
        .version
        .0
        .checked_sub(version.0)
        .ok_or_else(|| ReadError::Damaged {
            run: row.no,
            reason: format!(
                "its snapshot has version {version}, its row {}",
                row.state.version
            ),
        })
}

/// The `count` blobs from the head back to `until`, which is not part of it, oldest first.
pub(super) fn chain(
    conn: &Connection,
    row: &RunRow,
    until: CommitNo,
    count: u64,
) -> Result<Vec<Vec<u8>>, ReadError> {
    links(conn, row, until, count).map(|(blobs, _)| blobs)
}

/// The same with their numbers.
fn links(
    conn: &Connection,
    row: &RunRow,
    until: CommitNo,
    count: u64,
) -> Result<(Vec<Vec<u8>>, Vec<CommitNo>), ReadError> {
    let run = row.no;
    let lost = |e: rusqlite::Error| unreadable_run(run, &e);
    let damaged = |reason: String| ReadError::Damaged { run, reason };
    let mut statement = conn
        .prepare_cached("SELECT prev, data FROM hist WHERE id = ?1")
        .map_err(lost)?;
    let (mut blobs, mut numbers) = (Vec::new(), Vec::new());
    let mut at = row.state.head;
    for _ in 0..count {
        let link = statement
            .query_row([int(at.0)], |row| {
                Ok((CommitNo(row::count(row, 0)?), row.get(1)?))
            })
            .optional()
            .map_err(lost)?;
        let Some((prev, data)) = link else {
            return Err(damaged(format!(
                "commit {} of its history is missing",
                at.0
            )));
        };
        blobs.push(data);
        numbers.push(at);
        at = prev;
    }
    if at != until {
        let reason = format!("its history does not end after the {count} commits its row tells of");
        return Err(damaged(reason));
    }
    blobs.reverse();
    numbers.reverse();
    Ok((blobs, numbers))
}
