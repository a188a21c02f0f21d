//! `outlast demo --chaos`: a worker process is killed again and again, at random moments and at
//! named points, and a judge says whether anything acknowledged was lost, anything happened that
//! nobody asked for, or anything was recorded twice.
//!
//! ```text
//! driver (this process) --requests--> worker (killed) --records--> ledger (never killed)
//!        \--------------------------records-----------------------/
//! ```
//!
//! The driver acts as the clients: it repeats a request with the same id until it is answered.
//! At the end the judge compares the ledger with the histories in the file.

mod driver;
mod fleet;
mod judge;
pub(crate) mod ledger;
mod moment;
mod pen;
mod record;
mod script;
mod trip;
mod verdict;
pub(crate) mod worker;

use std::path::{Path, PathBuf};

use crate::stop::Stop;
use crate::{clock, out};

use driver::Driver;

/// A fault that the judge must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Planted {
    /// The worker says "done" before the library did
    EarlyAck,
    /// Every effect happens twice
    DoubleEffect,
}

/// What to do, as far as the command line says.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) db: Option<PathBuf>,
    pub(crate) runs: Option<u64>,
    pub(crate) kills: Option<u64>,
    pub(crate) seed: Option<u64>,
    pub(crate) fail: u8,
    pub(crate) planted: Option<Planted>,
}

impl Plan {
    /// Kills and runs that go well together: some runs are open at every kill.
    fn size(&self) -> (u64, u64) {
        match (self.runs, self.kills) {
            (None, None) => (200, 100),
            (Some(runs), None) => (runs, (runs / 2).max(1)),
            (None, Some(kills)) => (kills.saturating_mul(2).max(20), kills),
            (Some(runs), Some(kills)) => (runs, kills),
        }
    }
}

/// Runs it and says the verdict.
pub(crate) fn run(plan: &Plan) -> Result<(), Stop> {
    let (runs, kills) = plan.size();
    let seed = plan.seed.unwrap_or_else(|| clock::wall().0 % 1_000_000);
    let room = Room::new(plan.db.as_deref())?;
    out::line(&format!(
        "chaos: seed {seed}, {runs} runs, {kills} kills, in {}",
        room.show()
    ));
    let mut driver = Driver::start(plan, &room, seed)?;
    driver.drive()?;
    let story = driver.finish()?;
    let verdict = verdict::of(&room, story)?;
    out::line(&verdict.report());
    out::line(&verdict.line());
    if verdict.is_clean() {
        room.leave();
        return Ok(());
    }
    let again = format!("outlast demo --chaos --runs {runs} --kills {kills} --seed {seed}");
    Err(Stop::Failure(format!(
        "not clean; files kept in {}; again: {again}",
        room.show()
    )))
}

/// Where the files are.
#[derive(Debug)]
pub(crate) struct Room {
    dir: PathBuf,
    db: PathBuf,
    is_ours: bool,
}

impl Room {
    fn new(db: Option<&Path>) -> Result<Self, Stop> {
        if let Some(db) = db {
            if db.exists() {
                let text = format!(
                    "{} exists: a chaos run needs a file of its own",
                    db.display()
                );
                return Err(Stop::Refused(text));
            }
            let dir = db.parent().filter(|p| !p.as_os_str().is_empty());
            let dir = dir.unwrap_or(Path::new(".")).to_owned();
            return Ok(Self {
                dir,
                db: db.to_owned(),
                is_ours: false,
            });
        }
        let name = format!(
            "outlast-chaos-{}-{}",
            std::process::id(),
            clock::wall().0 % 1_000_000
        );
        let dir = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&dir)?;
        let db = dir.join("chaos.db");
        Ok(Self {
            dir,
            db,
            is_ours: true,
        })
    }

    pub(crate) fn db(&self) -> &Path {
        &self.db
    }

    pub(crate) fn ledger(&self) -> PathBuf {
        self.beside("ledger")
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.beside("socket")
    }

    fn beside(&self, what: &str) -> PathBuf {
        self.db.with_extension(what)
    }

    fn show(&self) -> String {
        self.dir.display().to_string()
    }

    /// Nothing is left of a clean run in a directory of our own.
    fn leave(&self) {
        std::fs::remove_file(self.socket()).ok();
        if self.is_ours {
            std::fs::remove_dir_all(&self.dir).ok();
        }
    }
}
