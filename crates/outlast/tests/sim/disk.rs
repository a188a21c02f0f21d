//! What is durable, read back without the code under test: the witness of every check.

use std::collections::BTreeMap;
use std::sync::Mutex;

use outlast_engine::Run;
use outlast_model::post::PostNo;
use outlast_model::task::RunNo;
use outlast_model::view::{ListFilter, RunOutcome};
use outlast_model::{Event, Fact, Record, WorkflowId, record};
use outlast_service::memory::MemoryStore;
use outlast_service::store::{Commit, RunRow, Store};

/// The store behind all processes of a simulation.
#[derive(Debug, Default)]
pub struct Disk {
    pub store: MemoryStore,
    /// Decoded records, blob by blob. Only the newest blobs may go away again.
    decoded: Mutex<BTreeMap<RunNo, Decoded>>,
    /// Records that were durable until others took their place.
    replaced: Mutex<BTreeMap<RunNo, Vec<Record>>>,
}

/// What was decoded: each blob with the end of its records.
#[derive(Debug, Default)]
struct Decoded {
    known: Vec<(Vec<u8>, usize)>,
    records: Vec<Record>,
}

impl Disk {
    pub fn new() -> Self {
        Self {
            store: MemoryStore::new(),
            decoded: Mutex::default(),
            replaced: Mutex::default(),
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
        let Decoded { known, records } = decoded.entry(no).or_default();
        let same = known
            .iter()
            .zip(&blobs)
            .take_while(|((old, _), new)| old == *new);
        let same = same.count();
        known.truncate(same);
        records.truncate(known.last().map_or(0, |(_, end)| *end));
        for blob in blobs.into_iter().skip(same) {
            records.extend(record::decode(&blob).expect("what was written decodes"));
            known.push((blob, records.len()));
        }
        look(records)
    }

    /// Whether any record of the run is like this, or was before another took its place.
    pub fn has(&self, no: RunNo, is_like: impl Fn(&Record) -> bool) -> bool {
        let replaced = self.replaced.lock().expect("one thread");
        let mut replaced = replaced.get(&no).into_iter().flatten();
        replaced.any(&is_like) || self.with_records(no, |records| records.iter().any(is_like))
    }

    /// The blobs that go away when this group is written, its own included.
    pub fn going(&self, group: &[Commit]) -> Vec<(RunNo, Vec<u8>)> {
        let replacing = group.iter().filter(|commit| !commit.replaces.is_empty());
        let going = replacing.flat_map(|commit| {
            let no = commit.row.no;
            let kept = self.store.load(no).ok();
            let kept = kept.map(|kept| kept.numbers.into_iter().zip(kept.blobs));
            let own = group.iter().map(|own| (own.id, own.blob.clone()));
            let all = kept.into_iter().flatten().chain(own);
            let going = all.filter(|(id, _)| commit.replaces.contains(id));
            going.map(|(_, blob)| (no, blob)).collect::<Vec<_>>()
        });
        going.collect()
    }

    /// They are gone.
    pub fn gone(&self, blobs: Vec<(RunNo, Vec<u8>)>) {
        let mut replaced = self.replaced.lock().expect("one thread");
        for (no, blob) in blobs {
            let records = record::decode(&blob).expect("what was written decodes");
            replaced.entry(no).or_default().extend(records);
        }
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
