//! Every kind of record as bytes that were written once and must be read for ever.
//!
//! `golden/v1/NAME.hex` holds a blob, `NAME.txt` beside it what it says. A new kind gets its
//! files with `cargo xtask bless`. A file that is there is never rewritten: if its test fails,
//! stored runs no longer load, and the code is wrong, not the file.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use outlast_model::record;
use outlast_model::{Event, EventId, EventKind, Fact, Record};

use crate::samples::{BEGIN, every_fact, every_kind};

#[test]
fn every_event_kind_is_read_as_it_was_written() {
    for kind in every_kind() {
        let name = format!("event-{}", kind.name());
        held(
            &name,
            &Record::Event(Event {
                id: EventId(41),
                time: BEGIN,
                kind,
            }),
        );
    }
}

#[test]
fn every_fact_is_read_as_it_was_written() {
    for fact in every_fact() {
        held(&format!("fact-{}", fact_name(&fact)), &Record::Fact(fact));
    }
}

/// A new variant does not compile until it has a name here, and then a sample.
fn fact_name(fact: &Fact) -> &'static str {
    match fact {
        Fact::AttemptStarted { .. } => "AttemptStarted",
        Fact::AttemptFailed { .. } => "AttemptFailed",
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
    }
}

/// The numbers records are stored under. Never change one; a gap is a number that was given up.
#[test]
fn the_samples_leave_no_kind_out() {
    let number = |kind: &EventKind| tag(&minicbor::to_vec(kind).expect("encodes"));
    let kinds: Vec<u8> = every_kind().iter().map(number).collect();
    let temporal = [
        1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 25, 26, 27,
    ];
    assert_eq!(kinds, temporal);
    let facts: Vec<u8> = every_fact()
        .iter()
        .map(|f| tag(&minicbor::to_vec(f).expect("encodes")))
        .collect();
    assert_eq!(facts, (0..13).collect::<Vec<u8>>());
}

/// A variant is an array whose first item is its number.
fn tag(bytes: &[u8]) -> u8 {
    let mut decoder = minicbor::Decoder::new(bytes);
    decoder.array().expect("a variant is an array");
    decoder.u8().expect("a variant begins with its number")
}

fn held(name: &str, sample: &Record) {
    let (hex, text) = (golden(name, "hex"), golden(name, "txt"));
    let said = format!("{sample:#?}\n");
    if !hex.exists() && is_blessing() {
        let blob = record::encode(std::slice::from_ref(sample));
        fs::write(&hex, to_hex(&blob)).expect("writes the golden bytes");
        fs::write(&text, &said).expect("writes what they say");
    }
    let stored = fs::read_to_string(&hex)
        .unwrap_or_else(|_| panic!("{name} has no golden file: run `cargo xtask bless`"));
    let blob = from_hex(&stored);
    let records = record::decode(&blob).unwrap_or_else(|e| panic!("{name}: {e}"));
    assert_eq!(records, std::slice::from_ref(sample), "{name}");
    assert_eq!(
        fs::read_to_string(&text).expect("what it says"),
        said,
        "{name}"
    );
    assert_eq!(
        to_hex(&record::encode(&records)),
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
