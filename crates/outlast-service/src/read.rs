//! Reading runs back: state, events, outcomes and descriptions, with damage named.

use outlast_engine::request::Window;
use outlast_engine::{Input, Run, close, describe, repeated};
use outlast_model::id::{RequestId, RunId, UpdateId, WorkflowId};
use outlast_model::start::UpdateReply;
use outlast_model::task::RunNo;
use outlast_model::view::{Description, RunOutcome, RunRef, Summary, Trouble};
use outlast_model::{Event, EventKind, Record, Refusal, Status, record};

use crate::entry::Unsnapped;
use crate::layers::Layers;
use crate::salvage;
use crate::store::{Attention, Loaded, ReadError, RunRow, Store};

/// The store cannot answer now.
pub(crate) fn unavailable(error: &ReadError) -> Refusal {
    Refusal::Unavailable {
        reason: error.to_string(),
    }
}

/// Why a run cannot be shown: it is damaged, or the store cannot answer now.
pub(crate) fn unreadable(run_id: RunId, error: &ReadError) -> Refusal {
    match error {
        ReadError::Damaged { .. } => Refusal::Quarantined {
            run_id,
            reason: error.to_string(),
        },
        ReadError::Missing | ReadError::Failed { .. } => unavailable(error),
    }
}

/// A run's state; the error says whether the run is at fault or the store.
pub(crate) fn bring(store: &dyn Store, no: RunNo, shard: u32) -> Result<Run, ReadError> {
    fetch(store, no, shard, Window::default()).map(|fetched| fetched.run)
}

/// A run's state, and what it was brought back from.
pub(crate) struct Fetched {
    pub(crate) run: Run,
    pub(crate) unsnapped: Unsnapped,
    pub(crate) layers: Layers,
}

pub(crate) fn fetch(
    store: &dyn Store,
    no: RunNo,
    shard: u32,
    window: Window,
) -> Result<Fetched, ReadError> {
    let loaded = store.load(no)?;
    let run =
        fold(&loaded, shard, window).map_err(|reason| ReadError::Damaged { run: no, reason })?;
    let bytes: usize = loaded.blobs.iter().map(Vec::len).sum();
    let snapshot = loaded.snapshot.as_ref().map_or(0, |(_, data)| data.len());
    Ok(Fetched {
        run,
        unsnapped: Unsnapped {
            blobs: loaded.blobs.len() as u64,
            bytes: bytes as u64,
            snapshot: snapshot as u64,
        },
        layers: Layers::of(&loaded),
    })
}

pub(crate) fn fold(loaded: &Loaded, shard: u32, window: Window) -> Result<Run, String> {
    let snapshot = loaded.snapshot.as_ref().map(|(_, bytes)| bytes.as_slice());
    let mut run = Run::load_with(snapshot, &loaded.blobs, window).map_err(|e| e.to_string())?;
    run.placed(shard, loaded.row.no, loaded.row.state.bytes);
    if run.events() != loaded.row.state.events {
        return Err(format!(
            "its row says {} events, its blobs have {}",
            loaded.row.state.events,
            run.events()
        ));
    }
    Ok(run)
}

/// A run's history; the error says whether the run is at fault or the store.
pub(crate) fn recall(store: &dyn Store, no: RunNo) -> Result<Vec<Event>, ReadError> {
    let blobs = store.history(no)?;
    decode(&blobs).map_err(|reason| ReadError::Damaged { run: no, reason })
}

fn decode(blobs: &[Vec<u8>]) -> Result<Vec<Event>, String> {
    let mut events = Vec::new();
    for blob in blobs {
        for record in record::decode(blob).map_err(|e| e.to_string())? {
            if let Record::Event(event) = record {
                events.push(event);
            }
        }
    }
    Ok(events)
}

/// The request that started a run.
pub(crate) fn start_request_id(store: &dyn Store, no: RunNo) -> Result<Option<RequestId>, Refusal> {
    let blobs = match store.history(no) {
        Ok(blobs) => blobs,
        // Nobody can say any more: its id must not be lost with it.
        Err(ReadError::Damaged { .. }) => return Ok(None),
        Err(error @ (ReadError::Missing | ReadError::Failed { .. })) => {
            return Err(unavailable(&error));
        }
    };
    let first = blobs.first().and_then(|blob| record::decode(blob).ok());
    let first = first.and_then(|records| records.into_iter().next());
    Ok(first.and_then(|first| match first {
        Record::Event(Event {
            kind: EventKind::Started(started),
            ..
        }) => started.request_id.clone(),
        Record::Event(_) | Record::Fact(_) => None,
    }))
}

/// The row of a run that is not open in memory.
pub(crate) fn row_of(store: &dyn Store, run: &RunRef) -> Result<RunRow, Refusal> {
    let missing = || Refusal::NotFound {
        what: run.workflow_id.as_str().to_owned(),
    };
    match run.run_id {
        None => {
            let rows = store
                .find(&run.workflow_id, 1)
                .map_err(|e| unavailable(&e))?;
            rows.into_iter().next().ok_or_else(missing)
        }
        Some(id) => {
            let row = store.find_run(id).map_err(|e| unavailable(&e))?;
            row.filter(|row| row.workflow_id == run.workflow_id)
                .ok_or_else(|| Refusal::NotFound {
                    what: id.to_string(),
                })
        }
    }
}

/// The answer to a message for a run that is not open: refused, unless the same request had its
/// effect before the end.
pub(crate) fn not_open(
    store: &dyn Store,
    run: &RunRef,
    input: &Input,
    window: Window,
) -> Result<(), Refusal> {
    let row = row_of(store, run)?;
    if has_request(input) {
        match fetch(store, row.no, 0, window) {
            Ok(ended) => {
                if let Some(answer) = repeated(&ended.run, input) {
                    return answer;
                }
            }
            // It can only be said that it has ended.
            Err(ReadError::Damaged { .. }) => {}
            Err(error @ (ReadError::Missing | ReadError::Failed { .. })) => {
                return Err(unavailable(&error));
            }
        }
    }
    Err(Refusal::RunClosed {
        workflow_id: row.workflow_id,
        run_id: row.run_id,
        status: row.state.status,
    })
}

/// Whether it could be a message that came before.
fn has_request(input: &Input) -> bool {
    let (Input::Signal { request_id, .. } | Input::Cancel { request_id, .. }) = input else {
        return false;
    };
    request_id.is_some()
}

/// How a run ended. Its newest blob says so; of one that was terminated its row says enough, since
/// that is how a run ends that cannot be read.
pub(crate) fn outcome(store: &dyn Store, row: &RunRow) -> Result<RunOutcome, Refusal> {
    let last = match store.history(row.no) {
        Ok(blobs) => blobs.last().map(|blob| decode(std::slice::from_ref(blob))),
        Err(error @ ReadError::Damaged { .. }) => Some(Err(error.to_string())),
        Err(error @ (ReadError::Missing | ReadError::Failed { .. })) => {
            return Err(unavailable(&error));
        }
    };
    let missing = || Refusal::NotFound {
        what: row.no.0.to_string(),
    };
    match last.ok_or_else(missing)? {
        Ok(events) => {
            let last = events.last().and_then(|event| close::outcome(&event.kind));
            last.ok_or_else(missing)
        }
        Err(damage) if row.state.status == Status::Terminated => Ok(RunOutcome::Terminated {
            reason: format!("why cannot be read: {damage}"),
        }),
        Err(reason) => Err(Refusal::Unavailable { reason }),
    }
}

/// Whose end it is, and how.
pub(crate) fn ended(store: &dyn Store, no: RunNo) -> Result<(WorkflowId, RunOutcome), Refusal> {
    let row = store.load(no).map_err(|e| unavailable(&e))?.row;
    Ok((row.workflow_id.clone(), outcome(store, &row)?))
}

/// What a run that is not open says about an update: what it answered, or that it is closed.
pub(crate) fn update(
    store: &dyn Store,
    run: &RunRef,
    id: &UpdateId,
) -> Result<UpdateReply, Refusal> {
    let row = row_of(store, run)?;
    let closed = Refusal::RunClosed {
        workflow_id: row.workflow_id.clone(),
        run_id: row.run_id,
        status: row.state.status,
    };
    let ended = match bring(store, row.no, 0) {
        Ok(ended) => ended,
        // What it answered is lost; that it has ended is not.
        Err(ReadError::Damaged { .. }) if !row.state.status.is_open() => return Err(closed),
        Err(error) => return Err(unreadable(row.run_id, &error)),
    };
    if let Some(earlier) = ended.accepted_before(id) {
        let run = RunRef {
            workflow_id: row.workflow_id,
            run_id: Some(earlier),
        };
        return update(store, &run, id);
    }
    crate::shard::known_update(&ended, id).ok_or(closed)
}

/// A run that is not in memory, described from the store. `missing` says what it needs that is
/// not here.
pub(crate) fn describe(
    store: &dyn Store,
    run: &RunRef,
    missing: impl FnOnce(&Run) -> Option<Trouble>,
) -> Result<Description, Refusal> {
    let row = row_of(store, run)?;
    let state = match bring(store, row.no, 0) {
        Ok(state) => state,
        Err(error @ ReadError::Damaged { .. }) if row.state.status == Status::Terminated => {
            let outcome = outcome(store, &row)?;
            return Ok(salvage::description(store, &row, outcome, &error));
        }
        Err(error) => return Err(unreadable(row.run_id, &error)),
    };
    let outcome = match row.state.status.is_open() {
        true => None,
        false => Some(outcome(store, &row)?),
    };
    Ok(description(&row, &state, outcome, missing(&state)))
}

/// Everything about one run but its history.
pub(crate) fn description(
    row: &RunRow,
    run: &Run,
    outcome: Option<RunOutcome>,
    missing: Option<Trouble>,
) -> Description {
    let mut summary = summary(row);
    summary.is_blocked |= missing.is_some();
    Description {
        summary,
        input: run.started().input.clone(),
        outcome,
        waiting: describe::waiting(run),
        trouble: describe::trouble(run).or(missing),
        notes: describe::notes(run),
        unhandled_signals: run.unhandled_signals(),
        unread: describe::unread(run),
    }
}

/// A row as a line of a list.
pub(crate) fn summary(row: &RunRow) -> Summary {
    Summary {
        workflow_id: row.workflow_id.clone(),
        run_id: row.run_id,
        workflow_type: row.workflow_type.clone(),
        queue: row.queue.clone(),
        status: row.state.status,
        is_blocked: row.state.attention.has(Attention::BLOCKED),
        started: row.started,
        closed: row.state.closed,
        events: row.state.events,
        bytes: row.state.bytes,
        wake: row.state.wake,
        first_run: row.first_run,
    }
}
