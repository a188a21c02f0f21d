//! What is left of a run whose history is not whole.
//!
//! Nothing goes on from here: such a run is set aside. It is enough to end it, to tell those it
//! knew, and to show what it was.

use outlast_engine::Run;
use outlast_engine::request::Window;
use outlast_model::Payload;
use outlast_model::task::RunNo;
use outlast_model::view::{Description, RunOutcome};

use crate::read;
use crate::store::{Loaded, ReadError, RunRow, Store};

/// What is left.
pub(crate) enum Rest {
    /// All of it: the store has it as it should be, only memory contradicted itself, or a snapshot.
    Whole(Box<Run>),
    /// As it was at some time before the damage.
    Part(Box<Run>),
    /// Not even its beginning.
    Nothing,
}

/// Brings back what is left. The error is never [`ReadError::Damaged`].
pub(crate) fn salvage(store: &dyn Store, no: RunNo, window: Window) -> Result<Rest, ReadError> {
    let mut from_snapshot = None;
    match store.load(no) {
        Ok(loaded) => match read::fold(&loaded, 0, window) {
            Ok(run) => return Ok(Rest::Whole(Box::new(run))),
            Err(_) => from_snapshot = part(&loaded, window),
        },
        Err(ReadError::Damaged { .. }) => {}
        Err(error @ (ReadError::Missing | ReadError::Failed { .. })) => return Err(error),
    }
    if let Some(run) = from_snapshot {
        return Ok(Rest::Part(Box::new(run)));
    }
    let blobs = match store.history(no) {
        Ok(blobs) => blobs,
        Err(ReadError::Damaged { .. }) => return Ok(Rest::Nothing),
        Err(error @ (ReadError::Missing | ReadError::Failed { .. })) => return Err(error),
    };
    let left = Run::load_part(None, &blobs, window);
    Ok(left.map_or(Rest::Nothing, |run| Rest::Part(Box::new(run))))
}

/// From the snapshot on, if that can be read.
fn part(loaded: &Loaded, window: Window) -> Option<Run> {
    let (_, snapshot) = loaded.snapshot.as_ref()?;
    Run::load_part(Some(snapshot), &loaded.blobs, window)
}

/// A run that was ended although it could not be read: its row says that, and a note the rest.
pub(crate) fn description(
    store: &dyn Store,
    row: &RunRow,
    outcome: RunOutcome,
    damage: &ReadError,
) -> Description {
    let input = match salvage(store, row.no, Window::default()) {
        Ok(Rest::Whole(run) | Rest::Part(run)) => run.started().input.clone(),
        Ok(Rest::Nothing) | Err(_) => Payload::null(),
    };
    Description {
        summary: read::summary(row),
        input,
        outcome: Some(outcome),
        waiting: Vec::new(),
        trouble: None,
        notes: vec![format!(
            "its history cannot be read ({damage}); what is left of it stays in the file"
        )],
        unhandled_signals: 0,
        unread: Vec::new(),
    }
}
