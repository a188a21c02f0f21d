//! A run row as SQLite keeps it. SQLite has signed numbers of 64 bits: counters fit, and a time
//! past their end is the end of time.
//!
//! A row must not grow: runs start one after the other, so their rows fill a page to the brim, and
//! one byte more in a few of them splits it. A number takes as many bytes as it needs, a NULL none.
//! So a row that may get a time later holds a place of its width, and closing, which adds a byte to
//! the smaller numbers, takes the place of the next wake-up away.

use outlast_model::id::{Epoch, QueueName, RunId, Version, WorkflowId, WorkflowType};
use outlast_model::task::RunNo;
use outlast_model::{Status, Timestamp};
use rusqlite::Row;
use rusqlite::types::Type;

use crate::store::{Attention, CommitNo, RowState, RunRow};

/// In the order [`read`] takes them.
pub(super) const COLUMNS: &str = "id, status, version, epoch, head, events, bytes, closed, wake, \
     attention, started, run_id, type, queue, workflow_id, first_run";

/// A row of [`COLUMNS`].
pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<RunRow> {
    Ok(RunRow {
        no: RunNo(count(row, 0)?),
        state: state(row)?,
        started: time(row.get(10)?),
        run_id: RunId(u128::from_be_bytes(row.get(11)?)),
        workflow_type: WorkflowType::from(text(row, 12)?),
        queue: QueueName::from(text(row, 13)?),
        workflow_id: WorkflowId::from(text(row, 14)?),
        first_run: row
            .get::<_, Option<_>>(15)?
            .map(|id| RunId(u128::from_be_bytes(id))),
    })
}

/// The status of a run that is open and not yet in the index of open runs (see the module
/// `index`): as wide as that of one which is.
pub(super) const OPEN_BEHIND: u8 = 0;

fn status(row: &Row<'_>) -> rusqlite::Result<Status> {
    let number: u8 = row.get(1)?;
    if number == OPEN_BEHIND {
        return Ok(Status::Running);
    }
    Status::from_number(number).ok_or(rusqlite::Error::IntegralValueOutOfRange(
        1,
        i64::from(number),
    ))
}

fn state(row: &Row<'_>) -> rusqlite::Result<RowState> {
    Ok(RowState {
        status: status(row)?,
        version: Version(count(row, 2)?),
        epoch: Epoch(row.get(3)?),
        head: CommitNo(count(row, 4)?),
        events: count(row, 5)?,
        bytes: count(row, 6)?,
        closed: time_if_any(row.get(7)?),
        wake: time_if_any(row.get(8)?),
        attention: Attention(row.get(9)?),
    })
}

/// A counter.
pub(super) fn count(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    let value: i64 = row.get(column)?;
    u64::try_from(value).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(column, value))
}

fn text<'r>(row: &'r Row<'_>, column: usize) -> rusqlite::Result<&'r str> {
    let value = row.get_ref(column)?;
    value
        .as_str()
        .map_err(|e| rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(e)))
}

/// A counter on its way in.
pub(super) fn int(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// A time on its way in.
pub(super) fn micros(at: Timestamp) -> i64 {
    int(at.0)
}

/// No time yet, as wide as a time.
const PLACE: i64 = i64::MIN;

/// When the run closed, on its way in.
pub(super) fn closed(state: &RowState) -> i64 {
    state.closed.map_or(PLACE, micros)
}

/// When the run wants to be woken, on its way in.
pub(super) fn wake(state: &RowState) -> Option<i64> {
    let place = state.status.is_open().then_some(PLACE);
    state.wake.map(micros).or(place)
}

fn time_if_any(value: Option<i64>) -> Option<Timestamp> {
    value.filter(|value| *value != PLACE).map(time)
}

fn time(value: i64) -> Timestamp {
    if value == i64::MAX {
        Timestamp::MAX
    } else {
        Timestamp(u64::try_from(value).unwrap_or(0))
    }
}
