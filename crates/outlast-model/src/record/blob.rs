//! The records of one commit as bytes.
//!
//! Event ids are counted from the first one, times are distances from the blob's own. Code that
//! asks for many things at once mostly asks for the same thing many times: in a blob of many
//! records an activity that is like the one before it is its number and its input, and attempts
//! that are handed out one after the other are a count. Such a blob has version 2, and a fan-out
//! writes a third of the bytes. A small one says everything in full, and any build can read it.

use alloc::string::ToString;
use alloc::vec::Vec;

use minicbor::encode::{Error, Write};
use minicbor::{Decode, Encode, Encoder};

use super::{Damaged, Fact, IN_FULL, Record, VERSION, framed, unframe};
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

#[derive(Encode, Decode)]
struct Body<T> {
    #[n(0)]
    first_event: EventId,
    #[n(1)]
    time: Timestamp,
    #[n(2)]
    items: T,
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

/// Records and the time that theirs are distances from.
struct InFull<'a>(&'a [Record], Timestamp);

impl<C> Encode<C> for InFull<'_> {
    fn encode<W: Write>(&self, e: &mut Encoder<W>, ctx: &mut C) -> Result<(), Error<W::Error>> {
        let Self(records, from) = self;
        e.array(records.len() as u64)?;
        for record in *records {
            full(record, *from).encode(e, ctx)?;
        }
        Ok(())
    }
}

/// The same in short.
struct InShort<'a>(&'a [Record], Timestamp);

impl<C> Encode<C> for InShort<'_> {
    fn encode<W: Write>(&self, e: &mut Encoder<W>, ctx: &mut C) -> Result<(), Error<W::Error>> {
        let Self(records, from) = self;
        e.begin_array()?;
        let (mut last, mut rest) = (None, *records);
        while let [record, others @ ..] = rest {
            rest = others;
            match (scheduled(record), last) {
                (Some((time, this)), Some(last)) if is_alike(this, last) => {
                    ItemRef::Alike(distance(time, *from), this.seq, &this.input).encode(e, ctx)?;
                }
                (this, _) => {
                    full(record, *from).encode(e, ctx)?;
                    last = this.map(|(_, this)| this).or(last);
                }
            }
            let more = started_too(record, others);
            if more > 0 {
                ItemRef::StartedToo(more).encode(e, ctx)?;
                rest = &others[more as usize..];
            }
        }
        e.end()?;
        Ok(())
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
    let first = records.iter().find_map(|r| match r {
        Record::Event(e) => Some(e),
        Record::Fact(_) => None,
    });
    let (first_event, time) = first.map_or((EventId(0), Timestamp(0)), |e| (e.id, e.time));
    let bytes = records.len() * RECORD_BYTES;
    if records.len() <= FEW {
        let items = InFull(records, time);
        let body = Body {
            first_event,
            time,
            items,
        };
        return framed(IN_FULL, &body, bytes);
    }
    let items = InShort(records, time);
    let body = Body {
        first_event,
        time,
        items,
    };
    framed(VERSION, &body, bytes)
}

/// Decodes the records of one commit.
///
/// # Errors
/// [`Damaged`] says what is wrong with the bytes.
pub fn decode(blob: &[u8]) -> Result<Vec<Record>, Damaged> {
    let body: Body<Vec<Item>> = unframe(blob)?;
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
