//! Reads the whole file and names everything that is not as it was written.

use minicbor::{Decode, Decoder, decode};
use outlast_model::record;
use rusqlite::Connection;

use super::error::unreadable;
use super::post;
use super::read::{after_snapshot, chain, snapshot_of};
use super::row::{self, COLUMNS, count};
use crate::store::{CommitNo, ReadError, RunRow};

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Runs read.
    pub runs: u64,
    /// Commits read.
    pub commits: u64,
    /// Posts read.
    pub posts: u64,
    /// One line for each thing that is wrong.
    pub damage: Vec<String>,
}

impl Report {
    /// Whether nothing is wrong.
    pub fn is_sound(&self) -> bool {
        self.damage.is_empty()
    }
}

/// One consistent view of everything: pages, chains, checksums, the index, posts. Takes as long
/// as reading the file, and the log cannot be reset meanwhile.
pub(super) fn check(conn: &Connection) -> Result<Report, ReadError> {
    let lost = |e: rusqlite::Error| unreadable(&e);
    let tx = conn.unchecked_transaction().map_err(lost)?;
    let mut report = Report {
        damage: pages(&tx).map_err(lost)?,
        ..Report::default()
    };
    runs(&tx, &mut report).map_err(lost)?;
    let held = tx
        .query_row("SELECT count(*) FROM hist", (), |row| count(row, 0))
        .map_err(lost)?;
    if report.is_sound() && held != report.commits {
        let reason = format!("{} commits belong to no run", held.abs_diff(report.commits));
        report.damage.push(reason);
    }
    report.damage.extend(unindexed(&tx).map_err(lost)?);
    report.damage.extend(unlisted(&tx).map_err(lost)?);
    posts(&tx, &mut report).map_err(lost)?;
    Ok(report)
}

fn pages(conn: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut statement = conn.prepare("PRAGMA quick_check")?;
    let lines: Vec<String> = statement
        .query_map((), |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    Ok(lines.into_iter().filter(|line| line != "ok").collect())
}

fn runs(conn: &Connection, report: &mut Report) -> rusqlite::Result<()> {
    let mut statement = conn.prepare(&format!("SELECT {COLUMNS} FROM run"))?;
    let mut rows = statement.query(())?;
    while let Some(found) = rows.next()? {
        report.runs += 1;
        let outcome = match row::read(found) {
            Ok(row) => run(conn, &row),
            Err(e) => Err(format!("a run row cannot be read: {e}")),
        };
        match outcome {
            Ok(commits) => report.commits += commits,
            Err(damage) => report.damage.push(damage),
        }
    }
    Ok(())
}

/// How many commits a sound run has.
fn run(conn: &Connection, row: &RunRow) -> Result<u64, String> {
    let told = |e: ReadError| e.to_string();
    let blobs = chain(conn, row, CommitNo(0), row.state.version.0).map_err(told)?;
    for (at, blob) in blobs.iter().enumerate() {
        whole(blob).map_err(|e| format!("run {}: commit {} of it: {e}", row.no.0, at + 1))?;
    }
    let snapshot = snapshot_of(conn, row.no).map_err(|e| format!("run {}: {e}", row.no.0))?;
    if let Some((version, head, data)) = snapshot {
        let count = after_snapshot(row, version).map_err(told)?;
        chain(conn, row, head, count).map_err(told)?;
        whole(&data).map_err(|e| format!("run {}: its snapshot: {e}", row.no.0))?;
    }
    Ok(row.state.version.0)
}

/// Runs the watermark vouches for that the tables do not have.
fn unindexed(conn: &Connection) -> rusqlite::Result<Option<String>> {
    let sql = "SELECT count(*) FROM run \
         WHERE id <= (SELECT value FROM meta WHERE key = 'indexed') \
         AND (NOT EXISTS (SELECT 1 FROM wf WHERE wf.workflow_id = run.workflow_id AND wf.run = run.id) \
              OR NOT EXISTS (SELECT 1 FROM rid WHERE rid.run_id = run.run_id AND rid.run = run.id))";
    let missing = conn.query_row(sql, (), |row| count(row, 0))?;
    Ok((missing > 0).then(|| format!("{missing} runs are not in the index of ids")))
}

/// Open runs the watermark vouches for that the index of open runs does not have: nobody would
/// take them up again.
fn unlisted(conn: &Connection) -> rusqlite::Result<Option<String>> {
    let sql = "SELECT count(*) FROM run \
         WHERE status = 0 AND id <= (SELECT value FROM meta WHERE key = 'indexed')";
    let missing = conn.query_row(sql, (), |row| count(row, 0))?;
    Ok((missing > 0).then(|| format!("{missing} open runs are not in the index of open runs")))
}

/// Posts that nobody took: each whole, and none with a number that could be given again.
fn posts(conn: &Connection, report: &mut Report) -> rusqlite::Result<()> {
    for (no, data) in post::all(conn)? {
        report.posts += 1;
        if let Err(e) = whole(&data) {
            report.damage.push(format!("post {}: {e}", no.0));
        }
    }
    let sql = "SELECT count(*) FROM post WHERE id > (SELECT value FROM meta WHERE key = 'posts')";
    let past = conn.query_row(sql, (), |row| count(row, 0))?;
    if past > 0 {
        let reason = format!("{past} posts have numbers past the mark of numbers in use");
        report.damage.push(reason);
    }
    Ok(())
}

/// Whether a framed value is whole, whatever it holds.
fn whole(blob: &[u8]) -> Result<(), record::Damaged> {
    record::unframe::<Anything>(blob).map(|_| ())
}

struct Anything;

impl<'b, C> Decode<'b, C> for Anything {
    fn decode(d: &mut Decoder<'b>, _: &mut C) -> Result<Self, decode::Error> {
        d.skip()?;
        Ok(Self)
    }
}
