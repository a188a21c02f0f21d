//! Every kind of record and post as bytes that were written once and must be read for ever.
//!
//! `golden/v1/NAME.hex` holds a blob, `NAME.txt` beside it what it says; `golden/v2` has those
//! that say what is alike in short. A new kind gets its
//! files with `cargo xtask bless`. Bytes that are there are never rewritten: if their test fails,
//! stored runs no longer load, and the code is wrong, not the file. What they say may gain a line:
//! a field that was added, at its default.

use std::fmt::{Debug, Write as _};
use std::fs;
use std::path::PathBuf;

use outlast_model::post::{Post, PostBody};
use outlast_model::record::{self, Damaged};
use outlast_model::{Attempt, Event, EventId, EventKind, Fact, Incarnation, Payload, Record, Seq};

use crate::samples::{
    BEGIN, activity_scheduled, continued_child, every_fact, every_kind, every_post,
    inherited_with_times, noted_rest, of_an_edition, post_with_headers, with_headers,
};

#[test]
fn every_event_kind_is_read_as_it_was_written() {
    for kind in every_kind() {
        // Temporal has one name for both markers.
        let is_patch = matches!(kind, EventKind::Patched { .. });
        let marker = if is_patch { "-Patch" } else { "" };
        let name = format!("event-{}{marker}", kind.name());
        held_record(&name, &event(kind));
    }
}

#[test]
fn a_run_with_parent_and_predecessor_is_read_as_it_was_written() {
    held_record(
        "event-WorkflowExecutionStarted-ContinuedChild",
        &event(continued_child()),
    );
}

#[test]
fn the_edition_a_run_began_under_is_read_as_it_was_written() {
    held_record(
        "event-WorkflowExecutionStarted-Edition",
        &event(of_an_edition()),
    );
}

#[test]
fn what_travels_with_a_call_is_read_as_it_was_written() {
    for kind in every_kind().into_iter().filter_map(with_headers) {
        let name = format!("event-{}-Headers", kind.name());
        held_record(&name, &event(kind));
    }
    for post in every_post().into_iter().filter_map(post_with_headers) {
        let name = format!("post-{}-Headers", post_name(&post.body));
        held(&name, &post, record::frame::<Post>, record::unframe::<Post>);
    }
}

#[test]
fn every_fact_is_read_as_it_was_written() {
    for fact in every_fact() {
        held_record(&format!("fact-{}", fact_name(&fact)), &Record::Fact(fact));
    }
}

#[test]
fn where_a_run_rests_is_read_as_it_was_written() {
    held_record("fact-Noted-Rest", &Record::Fact(noted_rest()));
}

#[test]
fn when_inherited_requests_had_their_effect_is_read_as_it_was_written() {
    held_record("fact-Inherited-Seen", &Record::Fact(inherited_with_times()));
}

#[test]
fn every_post_is_read_as_it_was_written() {
    for post in every_post() {
        let name = format!("post-{}", post_name(&post.body));
        held(&name, &post, record::frame::<Post>, record::unframe::<Post>);
    }
}

#[test]
fn what_is_alike_is_read_as_it_was_written() {
    let write = |records: &Vec<Record>| record::encode(records);
    held("../v2/fan-out", &fan_out(), write, record::decode);
}

/// Five activities of one kind, two of another, and all are handed out.
fn fan_out() -> Vec<Record> {
    let scheduled = (1..=7).map(|seq| {
        let EventKind::ActivityScheduled(mut scheduled) = activity_scheduled(seq) else {
            unreachable!("it says so");
        };
        scheduled.input = Payload::encode(&seq).expect("encodes");
        if seq > 5 {
            scheduled.options.heartbeat = None;
        }
        Record::Event(Event {
            id: EventId(u64::from(40 + seq)),
            time: BEGIN,
            kind: EventKind::ActivityScheduled(scheduled),
        })
    });
    let started = (1..=7).map(|seq| {
        Record::Fact(Fact::AttemptStarted {
            seq: Seq(seq),
            attempt: Attempt::FIRST,
            incarnation: Incarnation(9),
            at: BEGIN,
        })
    });
    scheduled.chain(started).collect()
}

fn event(kind: EventKind) -> Record {
    Record::Event(Event {
        id: EventId(41),
        time: BEGIN,
        kind,
    })
}

/// A new variant does not compile until it has a name here, and then a sample.
fn fact_name(fact: &Fact) -> &'static str {
    match fact {
        Fact::AttemptStarted { .. } => "AttemptStarted",
        Fact::AttemptFailed { .. } => "AttemptFailed",
        Fact::AttemptLeft { .. } => "AttemptLeft",
        Fact::Heartbeat { .. } => "Heartbeat",
        Fact::StepScheduled { .. } => "StepScheduled",
        Fact::StepStarted { .. } => "StepStarted",
        Fact::StepFailed { .. } => "StepFailed",
        Fact::StepResolved { .. } => "StepResolved",
        Fact::Buffered { .. } => "Buffered",
        Fact::TaskRetry { .. } => "TaskRetry",
        Fact::SliceArmed => "SliceArmed",
        Fact::Unblocked => "Unblocked",
        Fact::EpochRaised { .. } => "EpochRaised",
        Fact::SliceDisarmed => "SliceDisarmed",
        Fact::Inherited { .. } => "Inherited",
        Fact::UpdatesInherited { .. } => "UpdatesInherited",
        Fact::Noted { .. } => "Noted",
        Fact::UpdateRejected { .. } => "UpdateRejected",
        Fact::AttemptHandedBack { .. } => "AttemptHandedBack",
        Fact::StepHandedBack { .. } => "StepHandedBack",
        Fact::ClockBehind { .. } => "ClockBehind",
        Fact::BeganBehind { .. } => "BeganBehind",
    }
}

fn post_name(body: &PostBody) -> &'static str {
    match body {
        PostBody::StartChild(_) => "StartChild",
        PostBody::Signal { .. } => "Signal",
        PostBody::Cancel { .. } => "Cancel",
        PostBody::Terminate { .. } => "Terminate",
        PostBody::ChildStarted { .. } => "ChildStarted",
        PostBody::ChildEnded { .. } => "ChildEnded",
        PostBody::SignalDelivered { .. } => "SignalDelivered",
        PostBody::CancelDelivered { .. } => "CancelDelivered",
    }
}

/// The numbers records are stored under. Never change one; a gap is a number that was given up.
#[test]
fn the_samples_leave_no_kind_out() {
    let kinds: Vec<Vec<u8>> = every_kind().iter().map(event_numbers).collect();
    let plain = [
        1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 25, 26, 27, 28,
    ];
    let child = (29..=36).map(|number| vec![100, number]);
    let external = [22, 23, 24, 37, 38, 39].map(|number| vec![101, number]);
    let update = [41, 43, 47].map(|number| vec![102, number]);
    let expected: Vec<Vec<u8>> = (plain.map(|number| vec![number]).into_iter())
        .chain(child)
        .chain(external)
        .chain(update)
        .chain([vec![103]])
        .collect();
    let sorted = |mut numbers: Vec<Vec<u8>>| {
        numbers.sort();
        numbers
    };
    assert_eq!(sorted(kinds), sorted(expected));
    let facts: Vec<u8> = every_fact()
        .iter()
        .map(|f| tag(&minicbor::to_vec(f).expect("encodes")))
        .collect();
    assert_eq!(facts, (0..22).collect::<Vec<u8>>());
    let posts: Vec<u8> = every_post()
        .iter()
        .map(|p| tag(&minicbor::to_vec(&p.body).expect("encodes")))
        .collect();
    assert_eq!(posts, (0..8).collect::<Vec<u8>>());
}

/// The number of the kind, and Temporal's own where a kind is a family.
fn event_numbers(kind: &EventKind) -> Vec<u8> {
    let bytes = minicbor::to_vec(kind).expect("encodes");
    let mut decoder = minicbor::Decoder::new(&bytes);
    let mut numbers = vec![variant(&mut decoder)];
    let families = 100..=102;
    if families.contains(&numbers[0]) {
        numbers.push(variant(&mut decoder));
    }
    numbers
}

fn tag(bytes: &[u8]) -> u8 {
    variant(&mut minicbor::Decoder::new(bytes))
}

/// A variant is an array of its number and the array of its fields.
fn variant(decoder: &mut minicbor::Decoder<'_>) -> u8 {
    decoder.array().expect("a variant is an array");
    let number = decoder.u8().expect("a variant begins with its number");
    decoder.array().expect("its fields are an array");
    number
}

fn held_record(name: &str, sample: &Record) {
    let write = |record: &Record| record::encode(std::slice::from_ref(record));
    let read = |blob: &[u8]| {
        let mut records = record::decode(blob)?;
        assert_eq!(records.len(), 1, "{name}");
        Ok(records.remove(0))
    };
    held(name, sample, write, read);
}

fn held<T: Debug + PartialEq>(
    name: &str,
    sample: &T,
    write: impl Fn(&T) -> Vec<u8>,
    read: impl Fn(&[u8]) -> Result<T, Damaged>,
) {
    let (hex, text) = (golden(name, "hex"), golden(name, "txt"));
    let said = format!("{sample:#?}\n");
    if is_blessing() {
        if !hex.exists() {
            fs::write(&hex, to_hex(&write(sample))).expect("writes the golden bytes");
        }
        fs::write(&text, &said).expect("writes what they say");
    }
    let stored = fs::read_to_string(&hex)
        .unwrap_or_else(|_| panic!("{name} has no golden file: run `cargo xtask bless`"));
    let found = read(&from_hex(&stored)).unwrap_or_else(|e| panic!("{name}: {e}"));
    assert_eq!(&found, sample, "{name}");
    assert_eq!(
        fs::read_to_string(&text).expect("what it says"),
        said,
        "{name}"
    );
    assert_eq!(
        to_hex(&write(&found)),
        stored,
        "{name} is written differently now"
    );
}

#[expect(
    clippy::disallowed_methods,
    reason = "a switch of the test, not of the model"
)]
fn is_blessing() -> bool {
    std::env::var("OUTLAST_BLESS").is_ok()
}

fn golden(name: &str, extension: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v1");
    folder.join(format!("{name}.{extension}"))
}

/// Sixteen bytes a line: a changed field is a changed line.
fn to_hex(blob: &[u8]) -> String {
    let mut text = String::new();
    for line in blob.chunks(16) {
        for byte in line {
            write!(text, "{byte:02x}").expect("writes to a string");
        }
        text.push('\n');
    }
    text
}

fn from_hex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text.chars().filter_map(|c| c.to_digit(16)).collect();
    let byte = |pair: &[u32]| u8::try_from(pair[0] * 16 + pair[1]).expect("two digits");
    digits.chunks_exact(2).map(byte).collect()
}
