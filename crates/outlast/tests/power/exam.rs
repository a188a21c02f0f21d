//! Opens a disk with the production store and reads all that an engine could ever see of it.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::process::{Child, Stdio};

use outlast::ListFilter;
use outlast::model::{Record, record};
use outlast_service::sqlite::SqliteStore;
use outlast_service::store::{ReadError, RunRow, Store};

use crate::life::Recorded;

/// What a disk holds, after its recovery.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// Each run with its blobs.
    pub(crate) runs: Vec<(RunRow, Vec<Vec<u8>>)>,
    /// What `check` complains of.
    pub(crate) damage: Vec<String>,
    /// A hash of everything the store port tells: engines cannot tell two disks with the same apart.
    pub(crate) logical: u64,
}

/// Opens, boots, checks and reads; then the process is gone, without a word. A disk that is refused
/// is an error.
pub(crate) fn examine(dir: &Path) -> Result<Seen, String> {
    let store = SqliteStore::open(dir.join("runs.db")).map_err(|e| format!("damaged: {e}"))?;
    read(&store).map_err(|e| format!("damaged: {e}"))
}

fn read(store: &SqliteStore) -> Result<Seen, ReadError> {
    let boot = store.boot()?;
    let damage = store.check()?.damage;
    let everything = ListFilter {
        limit: 10_000,
        ..ListFilter::default()
    };
    let mut hasher = DefaultHasher::new();
    format!("{boot:?}").hash(&mut hasher);
    let mut runs = Vec::new();
    for row in store.list(&everything)? {
        let loaded = store.load(row.no)?;
        format!("{:?} {:?}", loaded.row, loaded.snapshot).hash(&mut hasher);
        let blobs = store.history(row.no)?;
        blobs.hash(&mut hasher);
        runs.push((row, blobs));
    }
    Ok(Seen {
        runs,
        damage,
        logical: hasher.finish(),
    })
}

impl Seen {
    /// The runs with their histories.
    pub(crate) fn recorded(&self) -> Vec<Recorded> {
        self.runs.iter().map(decoded).collect()
    }
}

fn decoded((row, blobs): &(RunRow, Vec<Vec<u8>>)) -> Recorded {
    let (mut history, mut damage) = (Vec::new(), None);
    for blob in blobs {
        match record::decode(blob) {
            Ok(records) => history.extend(records.into_iter().filter_map(|record| match record {
                Record::Event(event) => Some(event),
                Record::Fact(_) => None,
            })),
            Err(error) => damage = Some(error.to_string()),
        }
    }
    Recorded {
        row: row.clone(),
        history,
        damage,
    }
}

/// The variable that tells a fresh process which disk to open.
pub(crate) const FRESH: &str = "OUTLAST_POWER_DISK";

/// Has a process of its own do the same.
pub(crate) fn begin_afresh(dir: &Path) -> Result<Child, String> {
    let me = std::env::current_exe().map_err(|e| e.to_string())?;
    std::process::Command::new(me)
        .args([
            "--exact",
            "a_fresh_process_sees_what_this_one_does",
            "--nocapture",
        ])
        .env(FRESH, dir)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|e| e.to_string())
}

/// What it saw.
pub(crate) fn end_afresh(child: Child) -> Result<u64, String> {
    let output = child.wait_with_output().map_err(|e| e.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout);
    let told = text.lines().find_map(|line| line.split_once("seen: "));
    match told.and_then(|(_, number)| number.trim().parse().ok()) {
        Some(logical) => Ok(logical),
        None => Err(format!("damaged: a fresh process says: {text}")),
    }
}
