//! Cuts a recording: builds the disks, has each examined, counts.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use outlast_vfs::{Cutter, Dice, Disk, Image, Lab, Tape};

use crate::bare::{self, Bare};
use crate::exam::{Seen, examine, examine_afresh};
use crate::life::scratch;
use crate::tape::{self, Plan};

/// One of so many recoveries is recorded and cut as well.
const RECOVERIES: usize = 20;
/// Disks of a recovery that is cut.
const OF_A_RECOVERY: usize = 12;
/// Disks of each scenario that a process of its own opens as well.
const FRESH: usize = 2;
/// Throws for a disk that was not seen before.
const THROWS: usize = 4;

/// What is recorded and cut.
pub(crate) enum Subject {
    Bare(Bare),
    Engine(Plan),
}

impl Subject {
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Bare(bare) => bare.name,
            Self::Engine(plan) => &plan.name,
        }
    }

    /// How many of so many disks: fewer if they are large.
    fn share(&self, count: usize) -> usize {
        match self {
            Self::Bare(bare) if bare.is_large() => count / 5,
            Self::Bare(_) | Self::Engine(_) => count,
        }
    }
}

enum Recording {
    Bare(bare::Recording),
    Engine(Box<tape::Recording>),
}

impl Recording {
    fn tape(&self) -> &Tape {
        match self {
            Self::Bare(recording) => &recording.tape,
            Self::Engine(recording) => &recording.tape,
        }
    }

    fn judge(&self, seen: &Seen, mark: Option<usize>) -> Vec<String> {
        match self {
            Self::Bare(recording) => recording.judge(seen, mark),
            Self::Engine(recording) => recording.judge(seen, mark),
        }
    }

    fn key(&self, mark: Option<usize>) -> (usize, usize) {
        match self {
            Self::Bare(_) => bare::Recording::key(mark),
            Self::Engine(recording) => recording.key(mark),
        }
    }

    fn go_on(&self, seen: &Seen, mark: Option<usize>, files: &Path) -> Vec<String> {
        match self {
            Self::Bare(_) => bare::Recording::go_on(seen, files),
            Self::Engine(recording) => recording.go_on(seen, mark, files),
        }
    }
}

/// What was found.
#[derive(Default)]
pub(crate) struct Tally {
    images: usize,
    hashes: BTreeSet<u64>,
    /// Different ones that are neither all that was synced nor all that was written.
    pub(crate) partial: usize,
    pub(crate) scenarios: usize,
    /// Disks that a process of its own is to open, and what was seen of them here.
    afresh: Vec<(tempfile::TempDir, u64, String)>,
    fresh: usize,
    continued: usize,
    recoveries: usize,
    lost: usize,
    doubled: usize,
    damaged: usize,
    pub(crate) complaints: Vec<String>,
}

impl Tally {
    pub(crate) fn add(&mut self, other: Self) {
        self.images += other.images;
        self.hashes.extend(other.hashes);
        self.partial += other.partial;
        self.scenarios += other.scenarios;
        self.afresh.extend(other.afresh);
        self.continued += other.continued;
        self.recoveries += other.recoveries;
        self.lost += other.lost;
        self.doubled += other.doubled;
        self.damaged += other.damaged;
        self.complaints.extend(other.complaints);
    }

    pub(crate) fn distinct(&self) -> usize {
        self.hashes.len()
    }

    /// Has disks opened by processes of their own. Nothing else may happen here meanwhile: a process
    /// that is being made holds all locks of this one for a moment.
    pub(crate) fn open_afresh(&mut self) -> usize {
        for (dir, logical, place) in std::mem::take(&mut self.afresh) {
            self.fresh += 1;
            let told = examine_afresh(dir.path());
            if told != Ok(logical) {
                self.damaged += 1;
                let why = format!("{place}: a fresh process sees something else: {told:?}");
                self.complaints.push(why);
            }
        }
        self.fresh
    }

    pub(crate) fn details(&self) -> String {
        format!(
            "partial={} recoveries={} fresh={} continued={}",
            self.partial, self.recoveries, self.fresh, self.continued
        )
    }

    pub(crate) fn verdict(&self) -> String {
        format!(
            "verdict: images={} distinct={} scenarios={} lost={} doubled={} damaged={}",
            self.images,
            self.distinct(),
            self.scenarios,
            self.lost,
            self.doubled,
            self.damaged
        )
    }
}

/// Records the subject and examines so many disks of it.
pub(crate) fn cut(subject: &Subject, count: usize, seed: u64) -> Tally {
    let mut tally = Tally {
        scenarios: 1,
        ..Tally::default()
    };
    let recording = match subject {
        Subject::Bare(bare) => Recording::Bare(bare.record()),
        Subject::Engine(plan) => match plan.record() {
            Ok(recording) => Recording::Engine(Box::new(recording)),
            Err(why) => {
                tally.complaints.push(format!("{}: {why}", plan.name));
                return tally;
            }
        },
    };
    let mut bench = Bench {
        name: subject.name(),
        recording: &recording,
        seed,
        tally,
        known: BTreeSet::new(),
    };
    bench.all(subject.share(count));
    bench.tally
}

/// Where disks of one recording are examined.
struct Bench<'a> {
    name: &'a str,
    recording: &'a Recording,
    seed: u64,
    tally: Tally,
    /// What was gone on from: the content, and the state of the world.
    known: BTreeSet<(u64, (usize, usize))>,
}

impl Bench<'_> {
    /// Spreads the disks over all places where the power can go.
    fn all(&mut self, count: usize) {
        let tape = self.recording.tape();
        let cuts = tape.ops.len();
        let mut cutter = Cutter::new(tape);
        for cut in tape.cuts() {
            let due = (count * cut).div_ceil(cuts);
            if due <= self.tally.distinct() {
                continue;
            }
            cutter.advance(cut);
            let wanted = due - self.tally.distinct();
            for throw in 0..wanted * THROWS {
                if self.tally.distinct() >= due || (throw > 0 && !cutter.has_choice()) {
                    break;
                }
                let mut dice = Dice::new(&[self.seed, cut as u64, throw as u64]);
                let image = cutter.image(&mut dice);
                // The same disk again is worth a look if more was acknowledged meanwhile.
                if self.tally.hashes.contains(&image.hash) && throw > 0 {
                    continue;
                }
                self.one(&image, cut, throw);
            }
        }
    }

    fn one(&mut self, image: &Image, cut: usize, throw: usize) {
        let mark = self.recording.tape().mark_before(cut);
        if self.count(image) && self.tally.images.is_multiple_of(RECOVERIES) {
            self.recovery(&image.disk, (cut, throw), mark);
        }
        let found = self.examine(&image.disk, mark, (cut, throw));
        self.complain(found, &image.disk, (cut, throw));
    }

    fn count(&mut self, image: &Image) -> bool {
        self.tally.images += 1;
        let is_new = self.tally.hashes.insert(image.hash);
        self.tally.partial += usize::from(is_new && image.is_partial);
        is_new
    }

    /// Opens a disk and goes on from it, if nobody went on from one like it.
    fn examine(
        &mut self,
        disk: &Disk,
        mark: Option<usize>,
        (cut, throw): (usize, usize),
    ) -> Vec<String> {
        let dir = scratch();
        disk.write(dir.path()).expect("a disk can be written");
        let seen = match examine(dir.path()) {
            Ok(seen) => seen,
            Err(why) => return vec![why],
        };
        if self.tally.afresh.len() < FRESH && self.tally.images.is_multiple_of(7) {
            let again = scratch();
            disk.write(again.path()).expect("a disk can be written");
            let place = format!("{}, cut at call {cut}, throw {throw}", self.name);
            self.tally.afresh.push((again, seen.logical, place));
        }
        let mut found = self.recording.judge(&seen, mark);
        let key = (seen.logical, self.recording.key(mark));
        if found.is_empty() && self.known.insert(key) {
            self.tally.continued += 1;
            found = self.recording.go_on(&seen, mark, dir.path());
        }
        found
    }

    /// Records how a disk is opened, and cuts that.
    fn recovery(&mut self, disk: &Disk, at: (usize, usize), mark: Option<usize>) {
        let dir = scratch();
        disk.write(dir.path()).expect("a disk can be written");
        let lab = Lab::on(dir.path()).expect("a directory to watch");
        if examine(dir.path()).is_err() {
            return;
        }
        self.tally.recoveries += 1;
        let tape = lab.tape();
        let mut cutter = Cutter::new(&tape);
        for number in 1..=OF_A_RECOVERY {
            let cut = tape.ops.len() * number / OF_A_RECOVERY;
            cutter.advance(cut);
            let seeds = [self.seed, at.0 as u64, at.1 as u64, cut as u64];
            let image = cutter.image(&mut Dice::new(&seeds));
            if self.count(&image) {
                let found = self.examine(&image.disk, mark, at);
                self.complain(found, &image.disk, at);
            }
        }
    }

    fn complain(&mut self, found: Vec<String>, disk: &Disk, (cut, throw): (usize, usize)) {
        let Some(first) = found.first() else { return };
        let tally = &mut self.tally;
        let counter = match first.split(':').next() {
            Some("damaged") => &mut tally.damaged,
            Some("duplicated") => &mut tally.doubled,
            _ => &mut tally.lost,
        };
        *counter += 1;
        if tally.complaints.len() < 3 {
            let kept = keep(self.name, (cut, throw), disk);
            tally.complaints.push(format!(
                "{}, cut at call {cut}, throw {throw}: {found:#?}\n  the disk is kept in {}\n  \
                 repeat with: cargo xtask power --scenario \"{}\" --seed {}",
                self.name,
                kept.display(),
                self.name,
                self.seed
            ));
        }
    }
}

fn keep(name: &str, (cut, throw): (usize, usize), disk: &Disk) -> PathBuf {
    let name = name.replace([' ', ','], "-");
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("power/{name}-{cut}-{throw}"));
    let written = std::fs::create_dir_all(&dir).and_then(|()| disk.write(&dir));
    written.expect("a disk can be kept");
    dir
}
