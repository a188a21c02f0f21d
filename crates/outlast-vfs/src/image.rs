//! Disks as a power cut could leave them.
//!
//! ```text
//!              written            sync                 (on the disk)
//!   change -------------> Open ----------> Sure
//!                          |
//!                          +--sync failed--> Limbo     (on the disk, or never)
//! ```
//!
//! Everything before the last good sync of a file is there. Of what was done to it since, any part
//! may be: each write whole, not at all, or some of its sectors (512 bytes, neighbours intact), or
//! only the room for it, filled with zeros; each truncation or not. That is done in the order of the
//! calls; as any may be left out, every version that a sector ever had can come out, which is what
//! another order could give. A change that was there when a sync failed stays in doubt for ever:
//! Linux takes it for written, so no later sync brings it to the disk. Names are changed by creation,
//! deletion and renaming; of those since the last sync of the directory any may be there.
//!
//! What of it is there is thrown with dice, in one of several styles, so that rare disks are not
//! rare: the first changes only, all but one, one alone, nothing in doubt, everything in doubt.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use crate::dice::{Dice, hash};
use crate::record::{FileNo, Op, Tape};

const SECTOR: usize = 512;

/// The files of a disk, by their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Disk {
    /// What they hold.
    pub files: BTreeMap<String, Vec<u8>>,
}

impl Disk {
    /// The same for the same files only.
    pub fn hash(&self) -> u64 {
        self.files.iter().fold(0, |sum, (name, bytes)| {
            hash(hash(sum, name.as_bytes()), bytes)
        })
    }

    /// Writes the files into a directory.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn write(&self, dir: &Path) -> io::Result<()> {
        for (name, bytes) in &self.files {
            std::fs::write(dir.join(name), bytes)?;
        }
        Ok(())
    }
}

/// A disk, and how it came about.
#[derive(Clone, Debug)]
pub struct Image {
    /// The disk.
    pub disk: Disk,
    /// Its hash.
    pub hash: u64,
    /// Whether it is not just what was synced.
    pub is_unsynced: bool,
    /// Whether it is neither what was synced nor all that was written.
    pub is_partial: bool,
}

/// Follows a tape and builds the disks that are possible at its place.
#[derive(Debug)]
pub struct Cutter<'a> {
    tape: &'a Tape,
    at: usize,
    files: Vec<File<'a>>,
    /// Names as they are on the disk for sure.
    names: BTreeMap<&'a str, FileNo>,
    /// What was done to names since.
    renamed: Vec<&'a Op>,
    synced: u64,
    everything: u64,
}

#[derive(Debug, Default)]
struct File<'a> {
    /// What is on the disk for sure.
    base: Vec<u8>,
    changes: Vec<(Change<'a>, State)>,
}

#[derive(Clone, Copy, Debug)]
enum Change<'a> {
    Write(usize, &'a [u8]),
    Truncate(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    Sure,
    Limbo,
}

/// Which part of the changes that are not sure is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    Nothing,
    Everything,
    /// The first so many, the next torn.
    First(usize),
    /// All but this one, which is torn.
    AllBut(usize),
    /// This one alone, whole.
    Only(usize),
    /// What is in doubt is lost, all else is there.
    LimboLost,
    /// What is in doubt is there, and nothing else.
    LimboOnly,
    /// Each by itself.
    Any,
    /// Each sector by itself.
    Torn,
}

/// How much of a change is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    None,
    Whole,
    Sectors,
    Zeros,
}

impl<'a> Cutter<'a> {
    /// At the beginning of the tape.
    pub fn new(tape: &'a Tape) -> Self {
        let (mut files, mut names) = (Vec::new(), BTreeMap::new());
        for (name, bytes) in &tape.base {
            names.insert(name.as_str(), FileNo(files.len()));
            files.push(File {
                base: bytes.clone(),
                changes: Vec::new(),
            });
        }
        let mut cutter = Self {
            tape,
            at: 0,
            files,
            names,
            renamed: Vec::new(),
            synced: 0,
            everything: 0,
        };
        cutter.look();
        cutter
    }

    /// Goes on to the place behind so many calls; never back.
    pub fn advance(&mut self, cut: usize) {
        let tape = self.tape;
        while self.at < cut.min(tape.ops.len()) {
            self.follow(&tape.ops[self.at]);
            self.at += 1;
        }
        self.look();
    }

    /// Whether more than one disk is possible here.
    pub fn has_choice(&self) -> bool {
        self.synced != self.everything
    }

    /// A disk that is possible here.
    pub fn image(&self, dice: &mut Dice) -> Image {
        let count = self.unsure().max(1);
        let style = match dice.below(16) {
            0 => Style::Nothing,
            1 => Style::Everything,
            2 | 3 => Style::First(dice.below(count)),
            4 | 5 => Style::AllBut(dice.below(count)),
            6 => Style::Only(dice.below(count)),
            7 | 8 => Style::LimboLost,
            9 => Style::LimboOnly,
            10..=12 => Style::Any,
            _ => Style::Torn,
        };
        let disk = self.build(style, dice);
        let hash = disk.hash();
        let is_partial = hash != self.synced && hash != self.everything;
        Image {
            disk,
            hash,
            is_unsynced: hash != self.synced,
            is_partial,
        }
    }

    /// What is there if nothing is lost.
    pub fn everything(&self) -> Disk {
        self.build(Style::Everything, &mut Dice::new(&[]))
    }

    /// What is there if all is lost that can be.
    pub fn synced(&self) -> Disk {
        self.build(Style::Nothing, &mut Dice::new(&[]))
    }

    fn look(&mut self) {
        self.synced = self.synced().hash();
        self.everything = self.everything().hash();
    }

    fn unsure(&self) -> usize {
        let of = |file: &File<'_>| {
            file.changes
                .iter()
                .filter(|(_, s)| *s != State::Sure)
                .count()
        };
        self.files.iter().map(of).sum::<usize>() + self.renamed.len()
    }

    fn follow(&mut self, op: &'a Op) {
        match op {
            Op::Create { file, .. } => {
                while self.files.len() <= file.0 {
                    self.files.push(File::default());
                }
                self.renamed.push(op);
            }
            Op::Delete { .. } | Op::Rename { .. } => self.renamed.push(op),
            Op::Write { file, at, bytes } => {
                let change = Change::Write(length(*at), bytes);
                self.files[file.0].changes.push((change, State::Open));
            }
            Op::Truncate { file, len } => {
                let change = Change::Truncate(length(*len));
                self.files[file.0].changes.push((change, State::Open));
            }
            Op::Sync { file } => self.files[file.0].settle(State::Sure),
            Op::SyncFailed { file } => self.files[file.0].settle(State::Limbo),
            Op::SyncDirectory => {
                for op in std::mem::take(&mut self.renamed) {
                    rename(&mut self.names, op);
                }
            }
            Op::Mark(_) => {}
        }
    }

    fn build(&self, style: Style, dice: &mut Dice) -> Disk {
        let mut number = 0;
        let mut contents = Vec::with_capacity(self.files.len());
        for file in &self.files {
            let mut bytes = file.base.clone();
            for (change, state) in &file.changes {
                let part = if *state == State::Sure {
                    Part::Whole
                } else {
                    number += 1;
                    part(style, number - 1, *state, dice)
                };
                change.apply(part, &mut bytes, dice);
            }
            contents.push(bytes);
        }
        let mut names = self.names.clone();
        for op in &self.renamed {
            number += 1;
            if part(style, number - 1, State::Open, dice) != Part::None {
                rename(&mut names, op);
            }
        }
        let named = |(name, file): (&str, FileNo)| (name.to_owned(), contents[file.0].clone());
        let files = names.into_iter().map(named).collect();
        Disk { files }
    }
}

impl File<'_> {
    /// A sync: what was open is sure now, or in doubt for ever.
    fn settle(&mut self, into: State) {
        for (_, state) in &mut self.changes {
            if *state == State::Open {
                *state = into;
            }
        }
        // What is in doubt lies below what came later: all of it is kept until all is sure.
        if self.changes.iter().all(|(_, state)| *state == State::Sure) {
            let mut dice = Dice::new(&[]);
            for (change, _) in std::mem::take(&mut self.changes) {
                change.apply(Part::Whole, &mut self.base, &mut dice);
            }
        }
    }
}

impl Change<'_> {
    fn apply(self, part: Part, to: &mut Vec<u8>, dice: &mut Dice) {
        match (self, part) {
            (_, Part::None) => {}
            (Self::Truncate(len), Part::Whole | Part::Sectors | Part::Zeros) => to.resize(len, 0),
            (Self::Write(at, bytes), Part::Whole) => put(to, at, bytes),
            (Self::Write(at, bytes), Part::Zeros) => {
                let end = at + bytes.len();
                if to.len() < end {
                    to.resize(end, 0);
                }
            }
            (Self::Write(at, bytes), Part::Sectors) => {
                let mut from = 0;
                while from < bytes.len() {
                    let end = ((at + from) / SECTOR + 1) * SECTOR - at;
                    let end = end.min(bytes.len());
                    if dice.one_in(2) {
                        put(to, at + from, &bytes[from..end]);
                    }
                    from = end;
                }
            }
        }
    }
}

fn part(style: Style, number: usize, state: State, dice: &mut Dice) -> Part {
    let whole_if = |is_there: bool| if is_there { Part::Whole } else { Part::None };
    match style {
        Style::Nothing => Part::None,
        Style::Everything => Part::Whole,
        Style::First(end) if number == end => Part::Sectors,
        Style::First(end) => whole_if(number < end),
        Style::AllBut(one) if number == one => Part::Sectors,
        Style::AllBut(_) => Part::Whole,
        Style::Only(one) => whole_if(number == one),
        Style::LimboLost => whole_if(state != State::Limbo),
        Style::LimboOnly => whole_if(state == State::Limbo),
        Style::Any | Style::Torn => match dice.below(8) {
            0..=2 => Part::None,
            3 => Part::Zeros,
            _ if style == Style::Torn => Part::Sectors,
            _ => Part::Whole,
        },
    }
}

fn put(to: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    let end = at + bytes.len();
    if to.len() < end {
        to.resize(end, 0);
    }
    to[at..end].copy_from_slice(bytes);
}

fn rename<'a>(names: &mut BTreeMap<&'a str, FileNo>, op: &'a Op) {
    match op {
        Op::Create { name, file } => {
            names.insert(name, *file);
        }
        Op::Delete { name } => {
            names.remove(name.as_str());
        }
        Op::Rename { from, to } => {
            if let Some(file) = names.remove(from.as_str()) {
                names.insert(to, file);
            }
        }
        Op::Write { .. }
        | Op::Truncate { .. }
        | Op::Sync { .. }
        | Op::SyncFailed { .. }
        | Op::SyncDirectory
        | Op::Mark(_) => {}
    }
}

fn length(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
