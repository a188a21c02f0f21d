//! Scenarios of the store alone: what an engine cannot be brought to do at a chosen moment.

use std::collections::BTreeMap;
use std::path::Path;

use outlast::model::record;
use outlast_service::conformance::{follow, start};
use outlast_service::sqlite::SqliteStore;
use outlast_service::store::{Commit, CommitError, Store};
use outlast_vfs::{Call, Fault, How, Lab, Lasting, Tape};
use rusqlite::Connection;

use crate::exam::Seen;
use crate::life::scratch;

/// How a store is treated.
#[derive(Clone, Copy)]
pub(crate) struct Bare {
    pub(crate) name: &'static str,
    play: fn(&mut Player),
}

/// Commits, reopened and tried again after every failure, as the service does.
pub(crate) struct Player {
    store: Option<SqliteStore>,
    lab: Lab,
    dir: std::path::PathBuf,
    last: BTreeMap<u64, Commit>,
    commits: u64,
    acknowledged: BTreeMap<u64, u64>,
    marks: Vec<BTreeMap<u64, u64>>,
}

/// What is on record.
pub(crate) struct Recording {
    pub(crate) tape: Tape,
    /// By mark: the version of each run that was acknowledged.
    marks: Vec<BTreeMap<u64, u64>>,
    /// The version of each run that was ever asked for.
    most: BTreeMap<u64, u64>,
}

/// Failures in a row after which a store counts as one that never recovers.
const TRIES: usize = 20;

impl Bare {
    pub(crate) const ALL: [Self; 19] = [
        bare("commits", |p| p.work(8)),
        bare("a stop and a start", |p| {
            p.work(4);
            p.stop();
            p.work(4);
        }),
        bare("a start without a stop", |p| {
            p.work(4);
            p.die();
            p.work(4);
        }),
        bare("a failed sync", |p| p.failing(Call::Sync, 1, "")),
        bare("a failed sync, later", |p| p.failing(Call::Sync, 3, "")),
        bare("failed syncs", |p| {
            p.failing(Call::Sync, 2, "");
            p.failing(Call::Sync, 1, "");
        }),
        bare("a failed sync, twice", |p| {
            p.lab.arm(Fault::once(Call::Sync, 2, How::Broken));
            p.lab.arm(Fault::once(Call::Sync, 3, How::Broken));
            p.work(6);
        }),
        bare("a failed sync, then of the file", |p| {
            p.lab.arm(wal(Fault::once(Call::Sync, 2, How::Broken)));
            p.lab.arm(db(Fault::once(Call::Sync, 1, How::Broken)));
            p.work(6);
        }),
        bare("a failed sync at a stop", |p| {
            p.work(4);
            p.lab.arm(db(Fault::once(Call::Sync, 1, How::Broken)));
            p.stop();
            p.work(4);
        }),
        bare("a failed write", |p| p.failing(Call::Write, 3, "")),
        bare("a failed truncation", |p| {
            p.failing(Call::Sync, 2, "");
            p.failing(Call::Truncate, 1, "");
            p.stop();
            p.work(2);
        }),
        bare("a full disk and its end", |p| p.full(How::Full)),
        bare("short writes and their end", |p| p.full(How::Short)),
        bare("a checkpoint", |p| p.checkpoint()),
        bare("a backup", |p| p.backup()),
        bare("format 1", |p| p.migrate(1)),
        bare("format 2", |p| p.migrate(2)),
        bare("format 3", |p| p.migrate(3)),
        bare("format 4", |p| p.migrate(4)),
    ];

    /// Whether its files are a hundred times as large as others.
    pub(crate) fn is_large(&self) -> bool {
        self.name == "a checkpoint"
    }

    pub(crate) fn record(&self) -> Recording {
        let dir = scratch();
        let mut player = Player {
            store: None,
            lab: Lab::on(dir.path()).expect("a directory to watch"),
            dir: dir.path().to_owned(),
            last: BTreeMap::new(),
            commits: 0,
            acknowledged: BTreeMap::new(),
            marks: Vec::new(),
        };
        (self.play)(&mut player);
        player.stop();
        let most = player
            .last
            .iter()
            .map(|(run, last)| (*run, last.row.state.version.0));
        Recording {
            most: most.collect(),
            tape: player.lab.tape(),
            marks: player.marks,
        }
    }
}

const fn bare(name: &'static str, play: fn(&mut Player)) -> Bare {
    Bare { name, play }
}

fn wal(fault: Fault) -> Fault {
    Fault {
        ending: "-wal",
        ..fault
    }
}

fn db(fault: Fault) -> Fault {
    Fault {
        ending: ".db",
        ..fault
    }
}

impl Player {
    /// So many new runs and as many further commits.
    fn work(&mut self, count: u64) {
        for _ in 0..count {
            self.commits += 1;
            let run = self.commits;
            self.write(&start(run, self.commits, &format!("w{run}")));
            let older = self.last.values().nth(self.last.len() / 2).cloned();
            self.commits += 1;
            if let Some(older) = older {
                self.write(&follow(&older, self.commits));
            }
        }
    }

    fn failing(&mut self, call: Call, at: u64, ending: &'static str) {
        self.work(2);
        let fault = Fault::once(call, at, How::Broken);
        self.lab.arm(Fault { ending, ..fault });
        self.work(3);
        self.lab.lift();
    }

    fn full(&mut self, how: How) {
        self.work(3);
        self.lab.arm(Fault {
            lasting: Lasting::UntilLifted,
            ..Fault::once(Call::Write, 2, how)
        });
        self.work(2);
        self.work(3);
    }

    /// Enough for the log to be copied into the file, and begun anew.
    fn checkpoint(&mut self) {
        self.work(2);
        for _ in 0..14 {
            self.commits += 1;
            let run = self.commits;
            let mut large = start(run, self.commits, &format!("w{run}"));
            large.snapshot = Some(record::frame(&"x".repeat(600_000)));
            self.write(&large);
        }
        self.work(2);
    }

    fn backup(&mut self) {
        self.work(3);
        let beside = Connection::open(self.dir.join("runs.db")).expect("opens");
        let copy = self.dir.join("backup.db");
        let taken = beside.execute("VACUUM INTO ?1", [copy.to_string_lossy()]);
        taken.expect("a backup beside the owner");
        drop(beside);
        self.work(3);
    }

    /// Makes the file what an older release would have left, and works on it.
    fn migrate(&mut self, format: i32) {
        self.work(3);
        self.stop();
        let conn = Connection::open(self.dir.join("runs.db")).expect("opens");
        if format == 1 {
            conn.execute_batch(
                "ALTER TABLE run DROP COLUMN first_run; DROP TABLE post;
                 DELETE FROM meta WHERE key = 'posts'",
            )
            .expect("goes back");
        }
        conn.pragma_update(None, "user_version", format)
            .expect("goes back");
        drop(conn);
        // How the file came to be so is not on record.
        self.lab = Lab::on(&self.dir).expect("a directory to watch");
        self.lab.mark(self.marks.len() - 1);
        self.work(3);
    }

    /// Commits until it is acknowledged.
    fn write(&mut self, commit: &Commit) {
        let run = commit.row.no.0;
        self.last.insert(run, commit.clone());
        for _ in 0..TRIES {
            if self.store.is_none() {
                self.open();
            }
            let Some(store) = &self.store else { continue };
            match store.commit(std::slice::from_ref(commit)) {
                Ok(()) => return self.acknowledge(commit),
                Err(CommitError::Full) => self.lab.lift(),
                Err(CommitError::Conflict { .. }) => panic!("nobody else writes"),
                Err(CommitError::Failed { .. }) => {
                    if store.reopen().is_err() {
                        continue;
                    }
                    let found = store.find_run(commit.row.run_id).expect("reads");
                    if found.is_some_and(|row| row.state.version == commit.row.state.version) {
                        return self.acknowledge(commit);
                    }
                }
            }
        }
        panic!("the store does not recover");
    }

    fn acknowledge(&mut self, commit: &Commit) {
        let version = commit.row.state.version.0;
        self.acknowledged.insert(commit.row.no.0, version);
        self.marks.push(self.acknowledged.clone());
        self.lab.mark(self.marks.len() - 1);
    }

    fn open(&mut self) {
        let path = self.dir.join("runs.db");
        let opened = SqliteStore::open(&path).ok();
        self.store = opened.filter(|store| store.boot().is_ok());
    }

    /// An orderly stop, whatever comes of it.
    fn stop(&mut self) {
        if let Some(store) = self.store.take() {
            store.close().ok();
        }
    }

    fn die(&mut self) {
        self.store = None;
    }
}

impl Recording {
    pub(crate) fn judge(&self, seen: &Seen, mark: Option<usize>) -> Vec<String> {
        let damage = seen.damage.iter().map(|line| format!("damaged: {line}"));
        let mut complaints: Vec<String> = damage.collect();
        let versions: BTreeMap<u64, u64> = seen
            .runs
            .iter()
            .map(|(row, _)| (row.no.0, row.state.version.0))
            .collect();
        for (run, version) in mark
            .and_then(|mark| self.marks.get(mark))
            .into_iter()
            .flatten()
        {
            let found = versions.get(run).copied().unwrap_or(0);
            if found < *version {
                complaints.push(format!("lost: run {run} is at {found}, not at {version}"));
            }
        }
        for (run, version) in versions {
            let most = self.most.get(&run).copied().unwrap_or(0);
            if version > most {
                complaints.push(format!(
                    "duplicated: run {run} is at {version}, not at {most}"
                ));
            }
        }
        complaints
    }

    pub(crate) fn key(mark: Option<usize>) -> (usize, usize) {
        (mark.map_or(0, |mark| mark + 1), 0)
    }

    /// The next owner writes on.
    pub(crate) fn go_on(seen: &Seen, files: &Path) -> Vec<String> {
        let store = match SqliteStore::open(files.join("runs.db")) {
            Ok(store) => store,
            Err(e) => return vec![format!("damaged: {e}")],
        };
        let boot = match store.boot() {
            Ok(boot) => boot,
            Err(e) => return vec![format!("damaged: {e}")],
        };
        let (run, commit) = (boot.last_run.0 + 1, boot.last_commit.0 + 1);
        let fresh = start(run, commit, "later");
        let group = [fresh.clone(), follow(&fresh, commit + 1)];
        if let Err(e) = store.commit(&group) {
            return vec![format!("lost: the next commit is refused: {e}")];
        }
        match store.check() {
            Ok(report) if report.is_sound() && report.runs == seen.runs.len() as u64 + 1 => {
                Vec::new()
            }
            Ok(report) => vec![format!("damaged: {report:?}")],
            Err(e) => vec![format!("damaged: {e}")],
        }
    }
}
