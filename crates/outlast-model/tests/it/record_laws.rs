//! Laws of the stored format: whatever is written is read back, whatever is broken is noticed.

use outlast_model::post::Post;
use outlast_model::record::{self, Damaged, VERSION};
use outlast_model::{
    Attempt, Event, EventId, EventKind, Fact, Incarnation, Payload, Record, Seq, Timestamp,
};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::arbitrary::{post, records};

proptest! {
    #[test]
    fn what_is_written_is_read_back(records in records()) {
        let blob = record::encode(&records);
        prop_assert_eq!(record::decode(&blob), Ok(records.clone()));
        prop_assert_eq!(record::encode(&records), blob);
    }

    #[test]
    fn what_is_history_is_measured_without_facts(records in records(), bytes in 0..50_000_usize) {
        let measured = record::measure(&records);
        prop_assert_eq!(&measured.blob, &record::encode(&records));
        let events: Vec<_> = records.iter().filter(|r| matches!(r, Record::Event(_))).collect();
        prop_assert_eq!(measured.events > 0, !events.is_empty());
        let in_full: usize = events.into_iter().map(record::size).sum();
        prop_assert!(measured.events <= in_full);
        let details = Payload::bytes(vec![7; bytes]);
        let (seq, at) = (Seq(1), Timestamp(1));
        let beat = Record::Fact(Fact::Heartbeat { seq, details, at });
        let mut more = records.clone();
        more.push(beat);
        if (more.len() > 8) == (records.len() > 8) {
            prop_assert_eq!(record::measure(&more).events, measured.events);
        }
    }

    #[test]
    fn a_commit_says_at_its_beginning_whether_it_has_events(records in records()) {
        let has_events = records.iter().any(|r| matches!(r, Record::Event(_)));
        prop_assert_eq!(record::has_events(&record::encode(&records)), has_events);
    }

    #[test]
    fn a_flipped_bit_is_noticed(records in records(), place: prop::sample::Index) {
        let mut blob = record::encode(&records);
        let bit = place.index(blob.len() * 8);
        blob[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(record::decode(&blob).is_err(), "bit {bit}");
    }

    #[test]
    fn a_missing_end_is_noticed(records in records(), place: prop::sample::Index) {
        let blob = record::encode(&records);
        let rest = &blob[..place.index(blob.len())];
        prop_assert!(record::decode(rest).is_err(), "{} of {} bytes", rest.len(), blob.len());
    }

    #[test]
    fn a_post_is_read_back_as_it_was_written(post in post()) {
        let blob = record::frame(&post);
        prop_assert_eq!(record::unframe::<Post>(&blob), Ok(post.clone()));
        prop_assert_eq!(record::frame(&post), blob);
    }

    #[test]
    fn a_damaged_post_is_noticed(post in post(), place: prop::sample::Index, is_cut: bool) {
        let mut blob = record::frame(&post);
        let bit = place.index(blob.len() * 8);
        if is_cut {
            blob.truncate(bit / 8);
        } else {
            blob[bit / 8] ^= 1 << (bit % 8);
        }
        prop_assert!(record::unframe::<Post>(&blob).is_err(), "bit {bit}");
    }

    /// A checksum is no proof of sense: a faulty writer has one too.
    #[test]
    fn nonsense_with_a_good_checksum_is_refused_not_feared(
        records in records(),
        noise in vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
    ) {
        let mut blob = record::encode(&records);
        for (place, byte) in noise {
            let at = 5 + place.index(blob.len() - 5);
            blob[at] = byte;
        }
        let framed = framed(VERSION, &blob[5..]);
        // Whether it still means something does not matter: it must come back.
        let read = record::decode(&framed);
        let is_reached = !matches!(read, Err(Damaged::Checksum { .. } | Damaged::Newer(_)));
        prop_assert!(is_reached);
    }
}

#[test]
fn a_newer_format_is_named_not_guessed() {
    assert_eq!(
        record::decode(&framed(VERSION + 1, b"whatever")),
        Err(Damaged::Newer(VERSION + 1))
    );
}

/// Attempts that are handed out one after the other are a count.
#[test]
fn what_is_alike_is_written_in_short() {
    let alike = |count| -> Vec<Record> {
        let started = |seq| Fact::AttemptStarted {
            seq: Seq(seq),
            attempt: Attempt::FIRST,
            incarnation: Incarnation(1),
            at: Timestamp(5),
        };
        (0..count).map(|seq| Record::Fact(started(seq))).collect()
    };
    let (some, many) = (record::encode(&alike(20)), record::encode(&alike(20_000)));
    assert!(many.len() <= some.len() + 2, "{} bytes", many.len());
    assert_eq!(record::decode(&many), Ok(alike(20_000)));
    let more = alike(50_000);
    assert_eq!(record::decode(&record::encode(&more)), Ok(more));
}

#[test]
fn event_ids_at_the_end_of_numbers_do_not_overflow() {
    let fired = || EventKind::TimerFired { seq: Seq(1) };
    let event = |id| {
        Record::Event(Event {
            id: EventId(id),
            time: Timestamp::MAX,
            kind: fired(),
        })
    };
    let read = record::decode(&record::encode(&[event(u64::MAX), event(0)])).expect("decodes");
    assert_eq!(read.len(), 2);
}

/// A blob as a writer of this version would make it: version, checksum of both, body.
fn framed(version: u8, body: &[u8]) -> Vec<u8> {
    let crc = crc32fast::hash(&[&[version], body].concat());
    [&[version], crc.to_le_bytes().as_slice(), body].concat()
}
