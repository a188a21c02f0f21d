//! Scenarios of the store alone: what an engine cannot be brought to do at a chosen moment.

use std::collections::BTreeMap;
use std::path::Path;

use outlast_service::conformance::{follow, start};
use outlast_service::sqlite::SqliteStore;
use outlast_service::store::Store;
use outlast_vfs::{Call, Fault, How, Tape};

use crate::exam::Seen;
use crate::life::scratch;
use crate::player::{Player, Versions};

/// How a store is treated.
#[derive(Clone, Copy)]
pub(crate) struct Bare {
    pub(crate) name: &'static str,
    /// The format of the file at first, if there is one.
    format: Option<i32>,
    log_pages: u32,
    pub(crate) play: fn(&mut Player),
}

/// What is on record.
pub(crate) struct Recording {
    pub(crate) tape: Tape,
    /// By mark: the version of each run that was acknowledged.
    marks: Vec<Versions>,
    /// The version of each run that was ever asked for.
    most: Versions,
}

/// A log that is copied in the course of a short scenario, several times.
const SHORT_LOG: u32 = 12;

impl Bare {
    /// Those in which nothing fails.
    pub(crate) const WELL: [Self; 22] = [
        bare("commits", |p| p.work(6)),
        bare("one commit", |p| p.work(1)),
        bare("a stop and a start", |p| {
            p.work(3);
            p.stop();
            p.work(3);
        }),
        bare("stops and starts", |p| {
            for _ in 0..3 {
                p.work(1);
                p.stop();
            }
        }),
        bare("a start without a stop", |p| {
            p.work(3);
            p.die();
            p.work(3);
        }),
        bare("starts without a stop", |p| {
            for _ in 0..3 {
                p.work(1);
                p.die();
            }
        }),
        bare("a backup", |p| {
            p.work(3);
            p.back_up();
            p.work(3);
        }),
        short("checkpoints", |p| p.work(9)),
        short("checkpoints and a stop", |p| {
            p.work(5);
            p.stop();
            p.work(5);
        }),
        short("checkpoints, a start without a stop", |p| {
            p.work(5);
            p.die();
            p.work(5);
        }),
        short("checkpoints and a backup", |p| {
            p.work(4);
            p.back_up();
            p.work(4);
        }),
        short("large commits", |p| p.large(3)),
        short("large commits and small ones", |p| {
            p.large(1);
            p.work(2);
            p.large(1);
            p.work(2);
        }),
        short("large commits, a start without a stop", |p| {
            p.large(1);
            p.die();
            p.large(2);
        }),
        older("format 1", 1),
        older("format 2", 2),
        older("format 3", 3),
        older("format 4", 4),
        older_short("format 1, checkpoints", 1),
        older_short("format 2, checkpoints", 2),
        older_short("format 3, checkpoints", 3),
        older_short("format 4, checkpoints", 4),
    ];

    /// Those in which something does.
    pub(crate) const BADLY: [Self; 24] = [
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
        bare("a failed sync of the log, then of the file", |p| {
            p.failing(Call::Sync, 2, "-wal");
            p.failing(Call::Sync, 1, ".db");
            p.work(2);
        }),
        bare("a failed sync of a new file", |p| {
            p.lab.arm(Fault {
                ending: ".db",
                ..Fault::once(Call::Sync, 1, How::Broken)
            });
            p.work(6);
        }),
        bare("a failed sync in recovery", |p| {
            p.work(2);
            p.lab.arm(Fault::once(Call::Sync, 1, How::Broken));
            p.lab.arm(Fault::once(Call::Sync, 2, How::Broken));
            p.lab.arm(Fault::once(Call::Sync, 3, How::Broken));
            p.work(4);
        }),
        bare("a failed sync, then a kill", |p| {
            p.failing(Call::Sync, 1, "");
            p.die();
            p.work(2);
        }),
        bare("a failed sync at a stop", |p| {
            p.work(4);
            p.lab.arm(Fault {
                ending: ".db",
                ..Fault::once(Call::Sync, 1, How::Broken)
            });
            p.stop();
            p.work(4);
        }),
        short("a failed sync of the log, checkpoints", |p| {
            p.failing(Call::Sync, 3, "-wal");
            p.work(5);
        }),
        short("a failed sync of the file in a checkpoint", |p| {
            p.failing(Call::Sync, 1, ".db");
            p.work(5);
        }),
        short("failed syncs of the file in checkpoints", |p| {
            p.failing(Call::Sync, 1, ".db");
            p.failing(Call::Sync, 1, ".db");
            p.failing(Call::Sync, 2, ".db");
        }),
        short("a failed write in a checkpoint", |p| {
            p.failing(Call::Write, 2, ".db");
            p.work(5);
        }),
        bare("a failed write", |p| p.failing(Call::Write, 3, "")),
        bare("a failed truncation", |p| {
            p.failing(Call::Sync, 2, "");
            p.failing(Call::Truncate, 1, "");
            p.stop();
            p.work(2);
        }),
        bare("a full disk and its end", |p| p.full(How::Full, "")),
        bare("short writes and their end", |p| p.full(How::Short, "")),
        short("a full disk in a checkpoint", |p| p.full(How::Full, ".db")),
        short("short writes in a checkpoint", |p| {
            p.full(How::Short, ".db");
        }),
        bare("killed at a write", |p| p.killed(Call::Write, 2)),
        bare("killed at a sync", |p| p.killed(Call::Sync, 1)),
        short("killed at a sync in a checkpoint", |p| {
            p.killed(Call::Sync, 3);
        }),
        bare("moved away and back", |p| {
            p.work(3);
            p.move_away_and_back();
            p.work(3);
        }),
        short("moved away and back, checkpoints", |p| {
            p.work(5);
            p.move_away_and_back();
            p.work(5);
        }),
    ];

    /// All of them.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        Self::WELL.into_iter().chain(Self::BADLY)
    }

    /// Who plays it in this directory.
    pub(crate) fn player(&self, dir: &Path) -> Player {
        Player::new(dir, self.log_pages, self.format)
    }

    pub(crate) fn record(&self) -> Result<Recording, String> {
        let dir = scratch();
        let mut player = self.player(dir.path());
        (self.play)(&mut player);
        player.stop();
        match player.gave_up {
            Some(why) => Err(format!("lost: {why}")),
            None => Ok(Recording {
                most: player.most(),
                tape: player.lab.tape(),
                marks: player.marks,
            }),
        }
    }
}

const fn bare(name: &'static str, play: fn(&mut Player)) -> Bare {
    Bare {
        name,
        format: None,
        log_pages: 1000,
        play,
    }
}

const fn short(name: &'static str, play: fn(&mut Player)) -> Bare {
    Bare {
        log_pages: SHORT_LOG,
        ..bare(name, play)
    }
}

const fn older(name: &'static str, format: i32) -> Bare {
    Bare {
        format: Some(format),
        ..bare(name, |p| p.work(3))
    }
}

const fn older_short(name: &'static str, format: i32) -> Bare {
    Bare {
        format: Some(format),
        ..short(name, |p| p.work(6))
    }
}

/// What is wrong with what a disk holds, if so much was acknowledged and no more was asked for.
pub(crate) fn judge(seen: &Seen, acknowledged: Option<&Versions>, most: &Versions) -> Vec<String> {
    let damage = seen.damage.iter().map(|line| format!("damaged: {line}"));
    let mut complaints: Vec<String> = damage.collect();
    let mut versions: Versions = BTreeMap::new();
    for (row, _) in &seen.runs {
        if versions.insert(row.no.0, row.state.version.0).is_some() {
            complaints.push(format!("duplicated: run {} is there twice", row.no.0));
        }
    }
    for (run, version) in acknowledged.into_iter().flatten() {
        let found = versions.get(run).copied().unwrap_or(0);
        if found < *version {
            complaints.push(format!("lost: run {run} is at {found}, not at {version}"));
        }
    }
    for (run, version) in versions {
        let most = most.get(&run).copied().unwrap_or(0);
        if version > most {
            let what = format!("duplicated: run {run} is at {version}, not at {most}");
            complaints.push(what);
        }
    }
    complaints
}

impl Recording {
    pub(crate) fn judge(&self, seen: &Seen, mark: Option<usize>) -> Vec<String> {
        judge(seen, mark.and_then(|mark| self.marks.get(mark)), &self.most)
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
