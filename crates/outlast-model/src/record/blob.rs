//! The records of one commit as bytes.
//!
//! Event ids are counted from the first one, times are distances from the blob's own. Code that
//! asks for many things at once mostly asks for the same thing many times: in a blob of many
//! records an activity that is like the one before it is its number and its input, and attempts
//! that are handed out one after the other are a count. Such a blob has version 2, and a fan-out
//! writes a third of the bytes. A small one says everything in full, and any build can read it.

use alloc::string::ToString;
use alloc::vec::Vec;
use core::convert::Infallible;

use minicbor::encode::Error;
use minicbor::{Decode, Encode, Encoder};

use super::{Damaged, Fact, HEADER, IN_FULL, Record, VERSION, framed_by, unframe};
use crate::event::{ActivityScheduled, Event, EventKind};
use crate::id::{Attempt, EventId, Incarnation, Seq};
use crate::limits;
use crate::payload::Payload;
use crate::shared::Shared;
use crate::time::Timestamp;

/// A blob with more records than this says what is like the one before it in short.
const FEW: usize = 8;
/// A guess, so that a blob does not grow by copying: a record with a small payload has less.
const RECORD_BYTES: usize = 96;

#[derive(Decode)]
struct Body {
    #[n(0)]
    first_event: EventId,
    #[n(1)]
    time: Timestamp,
    #[n(2)]
    items: Vec<Item>,
}

#[derive(Decode)]
enum Item {
    #[n(0)]
    Event(#[n(0)] u64, #[n(1)] EventKind),
    #[n(1)]
    Fact(#[n(0)] Fact),
    #[n(2)]
    Alike(#[n(0)] u64, #[n(1)] Seq, #[n(2)] Payload),
    #[n(3)]
    StartedToo(#[n(0)] u32),
}

/// What a borrowed record looks like on its way out: the same bytes as [`Item`], without clones.
#[derive(Encode)]
enum ItemRef<'a> {
    #[n(0)]
    Event(#[n(0)] u64, #[n(1)] &'a EventKind),
    #[n(1)]
    Fact(#[n(0)] &'a Fact),
    /// An activity that differs from the last one in its number and its input.
    #[n(2)]
    Alike(#[n(0)] u64, #[n(1)] Seq, #[n(2)] &'a Payload),
    /// So many attempts more were handed out like the last one, each of the next activity.
    #[n(3)]
    StartedToo(#[n(0)] u32),
}

type Out<'b> = Encoder<&'b mut Vec<u8>>;
type Written<T> = Result<T, Error<Infallible>>;

/// Each record for itself. Says how many bytes are events.
fn in_full(e: &mut Out<'_>, records: &[Record], from: Timestamp) -> Written<usize> {
    e.array(records.len() as u64)?;
    let mut events = 0;
    for record in records {
        let begin = e.writer().len();
        e.encode(full(record, from))?;
        events += of_event(record, e.writer().len() - begin);
    }
    Ok(events)
}

/// The same in short.
fn in_short(e: &mut Out<'_>, records: &[Record], from: Timestamp) -> Written<usize> {
    e.begin_array()?;
    let (mut last, mut rest, mut events) = (None, records, 0);
    while let [record, others @ ..] = rest {
        rest = others;
        let begin = e.writer().len();
        match (scheduled(record), last) {
            (Some((time, this)), Some(last)) if is_alike(this, last) => {
                e.encode(ItemRef::Alike(distance(time, from), this.seq, &this.input))?;
            }
            (this, _) => {
                e.encode(full(record, from))?;
                last = this.map(|(_, this)| this).or(last);
            }
        }
        events += of_event(record, e.writer().len() - begin);
        let more = started_too(record, others);
        if more > 0 {
            e.encode(ItemRef::StartedToo(more))?;
            rest = &others[more as usize..];
        }
    }
    e.end()?;
    Ok(events)
}

fn of_event(record: &Record, bytes: usize) -> usize {
    match record {
        Record::Event(_) => bytes,
        Record::Fact(_) => 0,
    }
}

fn full(record: &Record, from: Timestamp) -> ItemRef<'_> {
    match record {
        Record::Event(event) => ItemRef::Event(distance(event.time, from), &event.kind),
        Record::Fact(fact) => ItemRef::Fact(fact),
    }
}

fn distance(time: Timestamp, from: Timestamp) -> u64 {
    time.0.saturating_sub(from.0)
}

fn scheduled(record: &Record) -> Option<(Timestamp, &ActivityScheduled)> {
    if let Record::Event(event) = record
        && let EventKind::ActivityScheduled(scheduled) = &event.kind
    {
        return Some((event.time, scheduled));
    }
    None
}

fn is_alike(this: &ActivityScheduled, last: &ActivityScheduled) -> bool {
    let ActivityScheduled {
        seq: _,
        activity_type,
        queue,
        input: _,
        options,
        site,
        headers,
    } = this;
    (activity_type, queue, options, site, headers)
        == (
            &last.activity_type,
            &last.queue,
            &last.options,
            &last.site,
            &last.headers,
        )
}

/// How many of those behind it say the same of the activities that follow.
fn started_too(record: &Record, others: &[Record]) -> u32 {
    let Some(first) = started(record) else {
        return 0;
    };
    let is_next = |(offset, other): &(u32, &Record)| {
        let next = Started {
            seq: Seq(first.seq.0.wrapping_add(*offset)),
            ..first
        };
        started(other) == Some(next)
    };
    let few = others.iter().take(limits::PENDING_OPERATIONS);
    let alike = (1..).zip(few).take_while(is_next);
    alike.last().map_or(0, |(offset, _)| offset)
}

/// An attempt that was handed out.
#[derive(Clone, Copy, PartialEq)]
struct Started {
    seq: Seq,
    attempt: Attempt,
    incarnation: Incarnation,
    at: Timestamp,
}

fn started(record: &Record) -> Option<Started> {
    if let Record::Fact(fact) = record
        && let Fact::AttemptStarted {
            seq,
            attempt,
            incarnation,
            at,
        } = *fact
    {
        return Some(Started {
            seq,
            attempt,
            incarnation,
            at,
        });
    }
    None
}

/// Encodes the records of one commit.
pub fn encode(records: &[Record]) -> Vec<u8> {
    measure(records).blob
}

/// A commit as bytes, and how many of them are events: what counts as history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measured {
    /// All of it.
    pub blob: Vec<u8>,
    /// Bytes of its events.
    pub events: usize,
}

/// Encodes the records of one commit and says how much of it is history.
pub fn measure(records: &[Record]) -> Measured {
    let first = records.iter().find_map(|r| match r {
        Record::Event(e) => Some(e),
        Record::Fact(_) => None,
    });
    let (first_event, time) = first.map_or((EventId(0), Timestamp(0)), |e| (e.id, e.time));
    let is_small = records.len() <= FEW;
    let version = if is_small { IN_FULL } else { VERSION };
    let mut events = 0;
    let blob = framed_by(version, records.len() * RECORD_BYTES, |e| {
        // A [`Body`].
        e.array(3)?.encode(first_event)?.encode(time)?;
        let items = if is_small { in_full } else { in_short };
        events = items(e, records, time)?;
        Ok(())
    });
    Measured { blob, events }
}

/// About how many bytes of a commit a record takes.
pub fn size(record: &Record) -> usize {
    let mut bytes = Vec::with_capacity(RECORD_BYTES);
    // Writing to a growing vector cannot fail: its error type has no values.
    let written = minicbor::encode(full(record, Timestamp(0)), &mut bytes);
    debug_assert!(written.is_ok());
    bytes.len()
}

/// Whether a commit has events, by its first bytes: damage is for [`decode`] to find.
pub fn has_events(blob: &[u8]) -> bool {
    let Some(body) = blob.get(HEADER..) else {
        return false;
    };
    let mut decoder = minicbor::Decoder::new(body);
    let first = decoder.array().and_then(|_| decoder.u64());
    first.is_ok_and(|first| first > 0)
}

/// Decodes the records of one commit.
///
/// # Errors
/// [`Damaged`] says what is wrong with the bytes.
pub fn decode(blob: &[u8]) -> Result<Vec<Record>, Damaged> {
    let body: Body = unframe(blob)?;
    let mut reader = Reader {
        next: body.first_event,
        from: body.time,
        last: None,
        records: Vec::with_capacity(body.items.len()),
    };
    for item in body.items {
        reader.take(item)?;
    }
    Ok(reader.records)
}

/// What was said before, which the next item may refer to.
struct Reader {
    next: EventId,
    from: Timestamp,
    last: Option<Shared<ActivityScheduled>>,
    records: Vec<Record>,
}

impl Reader {
    fn take(&mut self, item: Item) -> Result<(), Damaged> {
        match item {
            Item::Event(distance, kind) => {
                if let EventKind::ActivityScheduled(scheduled) = &kind {
                    self.last = Some(scheduled.clone());
                }
                self.event(distance, kind);
            }
            Item::Fact(fact) => self.records.push(Record::Fact(fact)),
            Item::Alike(distance, seq, input) => {
                let last = self.last.as_deref().ok_or_else(|| lost("an activity"))?;
                let this = ActivityScheduled {
                    seq,
                    input,
                    ..last.clone()
                };
                self.event(distance, EventKind::ActivityScheduled(Shared::new(this)));
            }
            Item::StartedToo(more) => self.started_too(more)?,
        }
        Ok(())
    }

    fn event(&mut self, distance: u64, kind: EventKind) {
        let (id, time) = (self.next, Timestamp(self.from.0.saturating_add(distance)));
        self.next.0 = self.next.0.saturating_add(1);
        self.records.push(Record::Event(Event { id, time, kind }));
    }

    fn started_too(&mut self, more: u32) -> Result<(), Damaged> {
        let last = self.records.last().and_then(started);
        let last = last.filter(|_| more as usize <= limits::PENDING_OPERATIONS);
        let Started {
            seq,
            attempt,
            incarnation,
            at,
        } = last.ok_or_else(|| lost("an attempt"))?;
        self.records.extend((1..=more).map(|offset| {
            Record::Fact(Fact::AttemptStarted {
                seq: Seq(seq.0.wrapping_add(offset)),
                attempt,
                incarnation,
                at,
            })
        }));
        Ok(())
    }
}

fn lost(what: &str) -> Damaged {
    Damaged::Malformed(what.to_string() + " like the one before it, but there is none")
}
