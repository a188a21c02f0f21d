//! Who plays scenarios of the store alone: commits until each is acknowledged, opening the store
//! again after every failure, as the service does.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use outlast::model::record;
use outlast_service::conformance::{follow, start};
use outlast_service::sqlite::{OpenOptions, SqliteStore};
use outlast_service::store::{Commit, CommitError, Store};
use outlast_vfs::{Call, Fault, How, Lab, Lasting, slept};
use rusqlite::Connection;

/// Failures in a row after which a store counts as one that never recovers.
const TRIES: usize = 20;
/// Failures in a row after which a full disk has room again, if nobody was told that it is full.
const PATIENCE: usize = 3;

/// How long SQLite may wait for locks before there is an answer, of the time it asks for: what else
/// takes time depends on the machine.
const PROMPT: Duration = Duration::from_secs(2);

/// What is done about a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Remedy {
    /// The store is opened again.
    Reopen,
    /// The process is gone at the first one, and another opens the store.
    Die,
}

/// The version of each run.
pub(crate) type Versions = BTreeMap<u64, u64>;

pub(crate) struct Player {
    store: Option<SqliteStore>,
    options: OpenOptions,
    pub(crate) lab: Lab,
    dir: PathBuf,
    remedy: Remedy,
    last: BTreeMap<u64, Commit>,
    commits: u64,
    acknowledged: Versions,
    /// What was acknowledged, by mark.
    pub(crate) marks: Vec<Versions>,
    /// Why it was given up, if it was.
    pub(crate) gave_up: Option<String>,
}

impl Player {
    /// In a directory that is empty, or holds a file of an older format, with three runs.
    pub(crate) fn new(dir: &Path, log_pages: u32, format: Option<i32>) -> Self {
        let mut player = Self::unrecorded(dir, log_pages);
        if let Some(format) = format {
            player.work(3);
            player.stop();
            go_back(dir, format).expect("an older file can be made");
            // How the file came to be so is not on record.
            player.lab = Lab::on(dir).expect("a directory to watch");
            player.lab.mark(player.marks.len() - 1);
        }
        player
    }

    fn unrecorded(dir: &Path, log_pages: u32) -> Self {
        Self {
            store: None,
            options: OpenOptions {
                log_pages,
                ..OpenOptions::default()
            },
            lab: Lab::on(dir).expect("a directory to watch"),
            dir: dir.to_owned(),
            remedy: Remedy::Reopen,
            last: BTreeMap::new(),
            commits: 0,
            acknowledged: BTreeMap::new(),
            marks: Vec::new(),
            gave_up: None,
        }
    }

    /// What was acknowledged so far.
    pub(crate) fn acknowledged(&self) -> &Versions {
        &self.acknowledged
    }

    /// The version of each run that was ever asked for.
    pub(crate) fn most(&self) -> Versions {
        let of = |(run, last): (&u64, &Commit)| (*run, last.row.state.version.0);
        self.last.iter().map(of).collect()
    }

    /// So many new runs and as many further commits.
    pub(crate) fn work(&mut self, count: u64) {
        for _ in 0..count {
            self.begin(None);
            let older = self.last.values().nth(self.last.len() / 2).cloned();
            self.commits += 1;
            if let Some(older) = older {
                self.write(&follow(&older, self.commits));
            }
        }
    }

    /// A new run, with a snapshot of this length.
    fn begin(&mut self, snapshot: Option<usize>) {
        self.commits += 1;
        let run = self.commits;
        let mut first = start(run, self.commits, &format!("w{run}"));
        first.snapshot = snapshot.map(|length| record::frame(&"x".repeat(length)));
        self.write(&first);
    }

    /// Commits of many pages each.
    pub(crate) fn large(&mut self, count: usize) {
        for _ in 0..count {
            self.begin(Some(60_000));
        }
    }

    /// Work, and more with a fault to come, at files whose name ends so.
    pub(crate) fn failing(&mut self, call: Call, at: u64, ending: &'static str) {
        self.work(2);
        let fault = Fault::once(call, at, How::Broken);
        self.lab.arm(Fault { ending, ..fault });
        self.work(3);
    }

    /// Work, and more on a disk that is full until that was said.
    pub(crate) fn full(&mut self, how: How, ending: &'static str) {
        self.work(3);
        self.lab.arm(Fault {
            lasting: Lasting::UntilLifted,
            ending,
            ..Fault::once(Call::Write, 2, how)
        });
        self.work(5);
    }

    /// Work, and more by a process that is killed at this call.
    pub(crate) fn killed(&mut self, call: Call, at: u64) {
        self.work(2);
        self.remedy = Remedy::Die;
        self.lab.arm(Fault {
            lasting: Lasting::UntilLifted,
            ..Fault::once(call, at, How::Gone)
        });
        self.work(3);
        self.remedy = Remedy::Reopen;
    }

    /// A copy is made beside the owner, if it can be.
    pub(crate) fn back_up(&self) {
        let copy = self.dir.join("backup.db");
        if let Ok(beside) = Connection::open(self.dir.join("runs.db")) {
            beside
                .execute("VACUUM INTO ?1", [copy.to_string_lossy()])
                .ok();
        }
    }

    /// The file is taken from its owner, who meets that, and put back.
    pub(crate) fn move_away_and_back(&mut self) {
        self.lab.rename("runs.db", MOVED).expect("it is there");
        let is_open = self.store.as_ref().is_some_and(|store| {
            let run = self.commits + 1;
            store.commit(&[start(run, run, "refused")]).is_err() && store.reopen().is_ok()
        });
        // There is nothing to open. If there is, what is written to it counts like all else.
        if is_open {
            self.begin(None);
        }
        self.lab.rename(MOVED, "runs.db").expect("it is there");
    }

    /// Commits until it is acknowledged.
    fn write(&mut self, commit: &Commit) {
        if self.gave_up.is_some() {
            return;
        }
        let run = commit.row.no.0;
        self.last.insert(run, commit.clone());
        let begin = slept();
        for attempt in 0..TRIES {
            if attempt == PATIENCE {
                self.lab.lift();
            }
            let is_written = self.is_written(commit);
            if slept() - begin > PROMPT {
                self.gave_up = Some(format!("no answer in time, run {run}"));
                return;
            }
            if is_written {
                let version = commit.row.state.version.0;
                self.acknowledged.insert(run, version);
                self.marks.push(self.acknowledged.clone());
                return self.lab.mark(self.marks.len() - 1);
            }
        }
        self.gave_up = Some(format!("the store does not recover, run {run}"));
    }

    /// One attempt, and what is to be done if it fails.
    fn is_written(&mut self, commit: &Commit) -> bool {
        if self.store.is_none() {
            self.open();
        }
        let Some(store) = &self.store else {
            return false;
        };
        match store.commit(std::slice::from_ref(commit)) {
            Ok(()) => true,
            Err(CommitError::Full) => {
                self.lab.lift();
                false
            }
            // It was there already, or it will never be.
            Err(CommitError::Conflict { .. }) => is_there(store, commit),
            Err(CommitError::Failed { .. }) if self.remedy == Remedy::Die => {
                self.die();
                false
            }
            Err(CommitError::Failed { .. }) => store.reopen().is_ok() && is_there(store, commit),
        }
    }

    fn open(&mut self) {
        let opened = SqliteStore::open_with(self.dir.join("runs.db"), &self.options).ok();
        self.store = opened.filter(|store| store.boot().is_ok());
    }

    /// An orderly stop, whatever comes of it.
    pub(crate) fn stop(&mut self) {
        if let Some(store) = self.store.take() {
            store.close().ok();
        }
    }

    /// The process is gone, without a word.
    pub(crate) fn die(&mut self) {
        self.lab.kill();
        self.store = None;
        self.lab.lift();
    }
}

/// The name of a file that was taken away.
pub(crate) const MOVED: &str = "moved.db";

/// Whether what was asked for is there, after a failure.
fn is_there(store: &SqliteStore, commit: &Commit) -> bool {
    let found = store.find_run(commit.row.run_id).ok().flatten();
    found.is_some_and(|row| row.state.version == commit.row.state.version)
}

/// Makes a file what an older release would have left.
fn go_back(dir: &Path, format: i32) -> rusqlite::Result<()> {
    let conn = Connection::open(dir.join("runs.db"))?;
    // No older file ever had these: not even the bytes of them stay.
    conn.execute_batch(
        "PRAGMA secure_delete = ON; DELETE FROM meta WHERE key IN ('store', 'generation')",
    )?;
    if format == 1 {
        conn.execute_batch(
            "ALTER TABLE run DROP COLUMN first_run; DROP TABLE post;
             DELETE FROM meta WHERE key = 'posts'",
        )?;
    }
    conn.pragma_update(None, "user_version", format)
}
