//! Whether the log beside a database belongs to it, looked at before SQLite opens either.
//!
//! SQLite replays any log that it finds beside a file. If a backup was put in the place of a
//! database that crashed, and the log stayed, that destroys the backup. What tells them apart:
//!
//! - Every database has a random name (`store`) and a number that rises (`generation`): in the
//!   first transaction of each owner, and in the first transaction behind each complete
//!   checkpoint, which is the one that begins the log anew. Both are in the table `meta`, whose
//!   only page is the second one of the file.
//! - The first frame of that page in a log was built on the page of the file, since a log is begun
//!   only when all of the log before it is in the file, synced. So an honest file is at most one
//!   generation behind that frame, and it got nothing since that the log does not have. A file
//!   that is further behind is an older copy, one that is ahead of the whole log had another log.
//! - A file has its mark as one with a log (bytes 18 and 19) before it ever has a log. A file
//!   made by `VACUUM INTO` does not have it.
//! - A file is never empty while its log is not.
//!
//! A copy made page by page within the life of this very log is not found, and need not be: the
//! log replayed over it gives what the log gives over the original.
//!
//! What cannot be read is no evidence. Where a page holds several cells of one name, left by
//! reordering, the one that speaks for the file counts.
//!
//! The log has no locks. The file has, and closing it drops those of all connections in this
//! process; so it is not looked at while one has it open (see `live`).

use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};

use super::connect::PAGE_BYTES;
use super::live;
use super::place::Place;

/// The page that the table `meta` is.
const META: u32 = 2;
const PAGE: usize = PAGE_BYTES as usize;
const HEADER: usize = 32;
const FRAME_HEADER: usize = 24;

/// Why a log does not belong to its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stale {
    /// The file is a copy from before this log, or of another database.
    Older,
    /// The file is empty, and the log is not.
    Emptied,
}

/// Looks at both. What is not there, or cannot be made sense of, is left to SQLite.
pub(super) fn judge(place: &Place) -> io::Result<Option<Stale>> {
    let Some(log) = open(&place.wal)?.map(Log::read).transpose()?.flatten() else {
        return Ok(None);
    };
    live::unless_open(&place.db, || compare(place, &log)).unwrap_or(Ok(None))
}

fn compare(place: &Place, log: &Log) -> io::Result<Option<Stale>> {
    let Some(mut file) = open(&place.db)? else {
        return Ok(None);
    };
    let length = file.seek(SeekFrom::End(0))?;
    if length == 0 {
        return Ok(Some(Stale::Emptied));
    }
    if length < 2 * PAGE_BYTES {
        return Ok(None);
    }
    let mut pages = vec![0; 2 * PAGE];
    file.rewind()?;
    file.read_exact(&mut pages)?;
    Ok(log.is_stale(&pages).then_some(Stale::Older))
}

#[expect(
    clippy::disallowed_methods,
    reason = "before SQLite opens the file, and not while anybody here has it open"
)]
fn open(path: &std::path::Path) -> io::Result<Option<File>> {
    match File::open(path) {
        Ok(file) => Ok(Some(file)),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

/// What a log says of the file it was begun for. It has at least one whole transaction.
#[derive(Debug)]
struct Log {
    /// The first and the last page of `meta` in its whole transactions.
    meta: Option<(Vec<u8>, Vec<u8>)>,
}

impl Log {
    /// `None` for a log that replays nothing.
    fn read(mut file: File) -> io::Result<Option<Self>> {
        let mut header = [0; HEADER];
        if !fill(&mut file, &mut header)? {
            return Ok(None);
        }
        let Some(mut sums) = Sums::of(&header) else {
            return Ok(None);
        };
        let mut frame = vec![0; FRAME_HEADER + PAGE];
        let (mut meta, mut pending, mut is_any) = (None, None, false);
        while fill(&mut file, &mut frame)? && sums.accepts(&header, &frame) {
            if word(&frame, 0) == META {
                pending = Some(frame[FRAME_HEADER..].to_vec());
            }
            // A transaction that has no end does not count.
            let is_end = word(&frame, 4) != 0;
            is_any |= is_end;
            if is_end && let Some(page) = pending.take() {
                let first = meta.map_or_else(|| page.clone(), |(first, _)| first);
                meta = Some((first, page));
            }
        }
        Ok(is_any.then_some(Self { meta }))
    }

    /// `pages`: the first two of the file.
    fn is_stale(&self, pages: &[u8]) -> bool {
        let (first, meta) = pages.split_at(PAGE);
        if !first.starts_with(b"SQLite format 3\0") {
            return false;
        }
        if first[18..20] == [1, 1] {
            return true;
        }
        let Some((logged, newest)) = &self.meta else {
            return false;
        };
        let stores = (values(meta, "store"), values(logged, "store"));
        if let ([there], [here]) = (&stores.0[..], &stores.1[..])
            && there != here
        {
            return true;
        }
        let there = values(meta, "generation");
        let first = values(logged, "generation").into_iter().min();
        let last = values(newest, "generation").into_iter().max();
        let (Some(oldest), Some(newest), Some(first), Some(last)) =
            (there.iter().min(), there.iter().max(), first, last)
        else {
            return false;
        };
        newest.saturating_add(1) < first || *oldest > last
    }
}

/// Fills the buffer, or says that the file ends before.
fn fill(file: &mut File, buffer: &mut [u8]) -> io::Result<bool> {
    match file.read_exact(buffer) {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == ErrorKind::UnexpectedEof => Ok(false),
        Err(e) => Err(e),
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes[at..at + 4]
        .iter()
        .fold(0, |word, byte| word << 8 | u32::from(*byte))
}

/// The checksum that runs through a log.
struct Sums {
    is_big_endian: bool,
    sums: (u32, u32),
}

impl Sums {
    /// `None` if this is no header of a log with pages of our size.
    fn of(header: &[u8; HEADER]) -> Option<Self> {
        let is_big_endian = match word(header, 0) {
            0x377f_0682 => false,
            0x377f_0683 => true,
            _ => return None,
        };
        let mut sums = Self {
            is_big_endian,
            sums: (0, 0),
        };
        sums.add(&header[..24]);
        let is_whole = sums.sums == (word(header, 24), word(header, 28));
        (is_whole && word(header, 8) as usize == PAGE).then_some(sums)
    }

    /// Whether this is the next frame of the log.
    fn accepts(&mut self, header: &[u8; HEADER], frame: &[u8]) -> bool {
        if frame[8..16] != header[16..24] {
            return false;
        }
        self.add(&frame[..8]);
        self.add(&frame[FRAME_HEADER..]);
        self.sums == (word(frame, 16), word(frame, 20))
    }

    fn add(&mut self, bytes: &[u8]) {
        let number = |four: &[u8]| {
            let number = word(four, 0);
            if self.is_big_endian {
                number
            } else {
                number.swap_bytes()
            }
        };
        let (mut one, mut two) = self.sums;
        for eight in bytes.chunks_exact(8) {
            one = one.wrapping_add(number(&eight[..4])).wrapping_add(two);
            two = two.wrapping_add(number(&eight[4..])).wrapping_add(one);
        }
        self.sums = (one, two);
    }
}

/// The values of this key in a page of `meta`, as its cells have them: the length of the head, the
/// types of key and value, the key, the value.
fn values(page: &[u8], key: &str) -> Vec<i64> {
    let Ok(key_type) = u8::try_from(13 + 2 * key.len()) else {
        return Vec::new();
    };
    let head = 3 + key.len();
    // The last cell may end with the page.
    let padded = [page, &[0; 8]].concat();
    let cells = padded
        .windows(head + 8)
        .filter(|cell| cell[0] == 3 && cell[1] == key_type && &cell[3..head] == key.as_bytes());
    cells
        .filter_map(|cell| number(cell[2], &cell[head..]))
        .collect()
}

/// An integer of this type.
fn number(kind: u8, bytes: &[u8]) -> Option<i64> {
    let length = match kind {
        8 => return Some(0),
        9 => return Some(1),
        1..=4 => usize::from(kind),
        5 => 6,
        6 => 8,
        _ => return None,
    };
    let sign = if bytes[0] & 0x80 == 0 { 0 } else { -1 };
    let add = |number: i64, byte: &u8| number << 8 | i64::from(*byte);
    Some(bytes[..length].iter().fold(sign, add))
}
