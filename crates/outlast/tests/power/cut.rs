//! Cuts a recording: builds the disks, has each examined, counts.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use outlast_vfs::{Cutter, Dice, Disk, Image, Lab, Tape};

use crate::alone;
use crate::bare::{self, Bare};
use crate::exam::{Seen, begin_afresh, end_afresh, examine};
use crate::life::scratch;
use crate::player::MOVED;
use crate::tape::{self, Plan};

/// One of so many recoveries is recorded and cut as well.
const RECOVERIES: usize = 30;
/// Disks of a recovery that is cut.
const OF_A_RECOVERY: usize = 12;
/// Disks of each scenario that a process of its own opens as well.
const FRESH: usize = 2;
/// Processes at once.
const AT_ONCE: usize = 8;
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

/// A disk, what was seen of it, and where it was cut.
type Afresh = (tempfile::TempDir, u64, String);

/// What was found.
#[derive(Default)]
pub(crate) struct Tally {
    images: usize,
    hashes: BTreeSet<u64>,
    /// Different ones that are not just all that was synced.
    pub(crate) unsynced: usize,
    /// Those of them that are not all that was written either.
    partial: usize,
    pub(crate) scenarios: usize,
    /// Disks that a process of its own is to open, and what was seen of them here.
    afresh: Vec<Afresh>,
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
        self.unsynced += other.unsynced;
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

    /// Has disks opened by processes of their own, some at a time.
    pub(crate) fn open_afresh(&mut self) -> usize {
        for some in std::mem::take(&mut self.afresh).chunks(AT_ONCE) {
            let begin = |(dir, ..): &Afresh| begin_afresh(dir.path());
            let made: Vec<_> = alone(|| some.iter().map(begin).collect());
            for ((_, logical, place), child) in some.iter().zip(made) {
                self.fresh += 1;
                let told = child.and_then(end_afresh);
                if told != Ok(*logical) {
                    self.damaged += 1;
                    let why = format!("{place}: a fresh process sees something else: {told:?}");
                    self.complaints.push(why);
                }
            }
        }
        self.fresh
    }

    /// Says how far it is.
    pub(crate) fn tell(&self, name: &str, all: usize) {
        let (scenarios, distinct) = (self.scenarios, self.distinct());
        println!("power: {scenarios} of {all} scenarios, {distinct} disks ({name})");
    }

    pub(crate) fn details(&self) -> String {
        format!(
            "unsynced={} partial={} recoveries={} fresh={} continued={}",
            self.unsynced, self.partial, self.recoveries, self.fresh, self.continued
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

/// Which disks of a recording are examined.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wanted {
    /// So many, spread over all places where the power can go.
    Many(usize),
    /// The one of this throw behind so many calls, and all that its recovery can leave.
    One { cut: usize, throw: usize },
}

/// Records the subject and examines disks of it.
pub(crate) fn cut(subject: &Subject, wanted: Wanted, seed: u64) -> Tally {
    let mut tally = Tally {
        scenarios: 1,
        ..Tally::default()
    };
    let recording = match subject {
        Subject::Bare(bare) => bare.record().map(Recording::Bare),
        Subject::Engine(plan) => plan.record().map(Box::new).map(Recording::Engine),
    };
    let recording = match recording {
        Ok(recording) => recording,
        Err(why) => {
            tally.lost += 1;
            tally.complaints.push(format!("{}: {why}", subject.name()));
            return tally;
        }
    };
    let mut bench = Bench {
        name: subject.name(),
        recording: &recording,
        seed,
        tally,
        known: BTreeSet::new(),
        examined: BTreeSet::new(),
        cut: 0,
    };
    match wanted {
        Wanted::Many(count) => bench.all(count),
        Wanted::One { cut, throw } => bench.only(cut, throw),
    }
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
    /// What was examined: the disk, and the state of the world.
    examined: BTreeSet<(u64, (usize, usize))>,
    /// Different disks of the scenario itself, recoveries left out.
    cut: usize,
}

impl Bench<'_> {
    /// Spreads the disks over all places where the power can go.
    fn all(&mut self, count: usize) {
        let tape = self.recording.tape();
        let cuts = tape.ops.len();
        let mut cutter = Cutter::new(tape);
        for cut in tape.cuts() {
            let due = (count * cut).div_ceil(cuts);
            if due <= self.cut {
                continue;
            }
            cutter.advance(cut);
            for throw in 0..(due - self.cut) * THROWS {
                if self.cut >= due || (throw > 0 && !cutter.has_choice()) {
                    break;
                }
                let mut dice = Dice::new(&[self.seed, cut as u64, throw as u64]);
                self.one(&cutter.image(&mut dice), cut, throw);
            }
        }
    }

    /// The disk that a complaint was about.
    fn only(&mut self, cut: usize, throw: usize) {
        let tape = self.recording.tape();
        let mut cutter = Cutter::new(tape);
        cutter.advance(cut);
        let image = cutter.image(&mut Dice::new(&[self.seed, cut as u64, throw as u64]));
        self.one(&image, cut, throw);
        self.recovery(&image.disk, (cut, throw), tape.mark_before(cut));
    }

    fn one(&mut self, image: &Image, cut: usize, throw: usize) {
        let mark = self.recording.tape().mark_before(cut);
        // The same disk again is worth a look if more was acknowledged meanwhile.
        if !self.examined.insert((image.hash, self.recording.key(mark))) {
            return;
        }
        if self.count(image) {
            self.cut += 1;
            if self.cut % RECOVERIES == RECOVERIES / 3 {
                self.recovery(&image.disk, (cut, throw), mark);
            }
        }
        let found = self.examine(&image.disk, mark, (cut, throw));
        self.complain(&found, &image.disk, (cut, throw));
    }

    fn count(&mut self, image: &Image) -> bool {
        self.tally.images += 1;
        let is_new = self.tally.hashes.insert(image.hash);
        self.tally.unsynced += usize::from(is_new && image.is_unsynced);
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
        let dir = laid_out(disk);
        let seen = match examine(dir.path()) {
            Ok(seen) => seen,
            Err(why) => return vec![why],
        };
        if self.tally.afresh.len() < FRESH && self.tally.images.is_multiple_of(3) {
            let again = laid_out(disk);
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
        let dir = laid_out(disk);
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
                self.complain(&found, &image.disk, at);
            }
        }
    }

    fn complain(&mut self, found: &[String], disk: &Disk, (cut, throw): (usize, usize)) {
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
                 repeat with: cargo xtask power --scenario \"{}\" --seed {} --cut {cut} --throw {throw}",
                self.name,
                kept.display(),
                self.name,
                self.seed
            ));
        }
    }
}

/// The disk in a directory. A file that was taken from its owner is put back, as the owner says.
fn laid_out(disk: &Disk) -> tempfile::TempDir {
    let dir = scratch();
    disk.write(dir.path()).expect("a disk can be written");
    let (path, moved) = (dir.path().join("runs.db"), dir.path().join(MOVED));
    if moved.exists() && !path.exists() {
        std::fs::rename(&moved, &path).expect("it can be put back");
    }
    dir
}

fn keep(name: &str, (cut, throw): (usize, usize), disk: &Disk) -> PathBuf {
    let name = name.replace([' ', ','], "-");
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("power/{name}-{cut}-{throw}"));
    let written = std::fs::create_dir_all(&dir).and_then(|()| disk.write(&dir));
    written.expect("a disk can be kept");
    dir
}
