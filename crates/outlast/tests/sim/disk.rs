//! What is durable, read back without the code under test: the witness of every check.

use std::collections::BTreeMap;
use std::sync::Mutex;

use outlast_engine::Run;
use outlast_model::post::PostNo;
use outlast_model::task::RunNo;
use outlast_model::view::{ListFilter, RunOutcome};
use outlast_model::{Event, Fact, Record, WorkflowId, record};
use outlast_service::memory::MemoryStore;
use outlast_service::store::{RunRow, Store};

/// The store behind all processes of a simulation.
#[derive(Debug, Default)]
pub struct Disk {
    pub store: MemoryStore,
    /// Decoded records; blobs are only ever added.
    decoded: Mutex<BTreeMap<RunNo, (usize, Vec<Record>)>>,
}

impl Disk {
    pub fn new() -> Self {
        Self {
            store: MemoryStore::new(),
            decoded: Mutex::default(),
        }
    }

    /// Whether the store keeps this post.
    pub fn has_post(&self, no: PostNo) -> bool {
        self.store.posts().contains(&no)
    }

    /// Every run, newest first.
    pub fn rows(&self) -> Vec<RunRow> {
        let filter = ListFilter {
            limit: usize::MAX,
            ..ListFilter::default()
        };
        self.store.list(&filter).unwrap_or_default()
    }

    pub fn runs_of(&self, workflow_id: &WorkflowId) -> Vec<RunRow> {
        self.store.find(workflow_id, usize::MAX).unwrap_or_default()
    }

    /// Looks at all records of a run.
    pub fn with_records<R>(&self, no: RunNo, look: impl FnOnce(&[Record]) -> R) -> R {
        let blobs = self.store.history(no).unwrap_or_default();
        let mut decoded = self.decoded.lock().expect("one thread");
        let (count, records) = decoded.entry(no).or_default();
        for blob in blobs.iter().skip(*count) {
            records.extend(record::decode(blob).expect("what was written decodes"));
        }
        *count = blobs.len();
        look(records)
    }

    /// Whether any record of the run is like this.
    pub fn has(&self, no: RunNo, is_like: impl Fn(&Record) -> bool) -> bool {
        self.with_records(no, |records| records.iter().any(is_like))
    }

    pub fn history(&self, no: RunNo) -> Vec<Event> {
        self.with_records(no, |records| {
            records.iter().filter_map(event).cloned().collect()
        })
    }

    /// How the run ended, if that is durable.
    pub fn outcome(&self, no: RunNo) -> Option<RunOutcome> {
        self.with_records(no, |records| {
            let last = records.iter().rev().find_map(event)?;
            outlast_engine::close::outcome(&last.kind)
        })
    }

    /// The run from all its blobs, and from its snapshot if there is one.
    pub fn load_both(&self, no: RunNo) -> Result<(Run, Option<Run>), String> {
        let blobs = self.store.history(no).map_err(|e| e.to_string())?;
        let whole = Run::load(None, &blobs).map_err(|e| e.to_string())?;
        let loaded = self.store.load(no).map_err(|e| e.to_string())?;
        let Some((_, bytes)) = &loaded.snapshot else {
            return Ok((whole, None));
        };
        let short = Run::load(Some(bytes), &loaded.blobs).map_err(|e| e.to_string())?;
        Ok((whole, Some(short)))
    }
}

pub fn event(record: &Record) -> Option<&Event> {
    match record {
        Record::Event(event) => Some(event),
        Record::Fact(_) => None,
    }
}

pub fn fact(record: &Record) -> Option<&Fact> {
    match record {
        Record::Fact(fact) => Some(fact),
        Record::Event(_) => None,
    }
}
