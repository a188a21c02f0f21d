//! Runs replay under the edition of the rules they began under.
//!
//! `golden/edition-N/KIND.hex` holds the history of a run that the code of that edition has
//! recorded. Files that are there are never rewritten: if one no longer replays, open runs of its
//! edition break. `OUTLAST_BLESS=1` adds those of the newest edition.

mod story;
#[path = "../support/mod.rs"]
mod support;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use outlast::model::view::Waiting;
use outlast::model::{Edition, Event, EventKind, Record, record};
use outlast::prelude::*;
use outlast::testing::{TestClock, replay, replay_from_cluster};
use outlast::{App, Handle};
use tokio::sync::Semaphore;

use story::{GO, Gate, charge, refund, shipment, story};
use support::{drive, judge, names, until};

/// What is done to a run while it is recorded.
#[derive(Clone, Copy, PartialEq)]
enum Deed {
    /// Its call may end.
    Open,
    /// An hour passes, and its code has seen that.
    Hour,
    /// It is asked to stop, and its code has seen that.
    Cancel,
    /// A day passes, and its code has seen that.
    Day,
    /// The child may end.
    Ship,
}

const KINDS: [(&str, &[Deed]); 11] = [
    ("done", &[Deed::Open]),
    ("select", &[Deed::Hour, Deed::Open]),
    ("timeout", &[Deed::Hour, Deed::Open]),
    ("drop", &[Deed::Hour, Deed::Open]),
    ("cancel", &[Deed::Cancel, Deed::Open]),
    ("cancel that waits", &[Deed::Cancel, Deed::Open]),
    ("abandon", &[Deed::Hour, Deed::Open]),
    ("branch", &[Deed::Hour, Deed::Open]),
    ("child", &[Deed::Hour, Deed::Ship]),
    (
        "shield with a timeout",
        &[Deed::Cancel, Deed::Day, Deed::Day],
    ),
    (
        "block that cleans up",
        &[Deed::Cancel, Deed::Day, Deed::Day],
    ),
];

/// Records a run with the code and the rules of today.
fn recorded(kind: &'static str, deeds: &[Deed]) -> Vec<Event> {
    drive(async {
        let shut = || Arc::new(Semaphore::new(0));
        let (came, passes) = (shut(), shut());
        let gate = Gate { came, passes };
        let env = TestEnv::new().state(gate.clone());
        let env = env.activity(charge).activity(refund);
        let env = env.workflow(story).workflow(shipment);
        let clock = env.clock();
        let app = env.start().await;
        let run = app.start(story, kind).id("story").await.expect("it starts");
        at_rest(&run, &clock, false).await;
        if deeds.contains(&Deed::Open) {
            // A call that is told to stop before its code has begun does not begin.
            drop(gate.came.acquire().await);
        }
        for deed in deeds {
            match deed {
                Deed::Open => gate.passes.add_permits(1),
                Deed::Hour => clock.advance(&app, 1.hours()),
                Deed::Day => clock.advance(&app, 1.days()),
                Deed::Cancel => run.cancel().await.expect("it is durable"),
                Deed::Ship => ship(&app).await,
            }
            at_rest(&run, &clock, matches!(deed, Deed::Open | Deed::Ship)).await;
        }
        // Closed already, if it was asked to stop.
        let told = run.send(GO, ()).await;
        run.result().await.expect_err("it fails in the end");
        drop(told);
        let history = run.history().await.expect("it has a history");
        judge(story, &history);
        history
    })
}

async fn ship(app: &App) {
    let told = app.get(shipment, "shipment").send(GO, ()).await;
    drop(told);
}

/// Waits until its code has seen what there is, and nothing is left that could end by itself but
/// what the gate holds.
async fn at_rest(run: &Handle<(), Error>, clock: &TestClock, is_open: bool) {
    let now = clock.now();
    until(run, |found| {
        !found.waiting.iter().any(|waiting| match waiting {
            Waiting::Task => true,
            Waiting::Timer { due, .. } => *due <= now,
            Waiting::ActivityPending { .. } | Waiting::ActivityRunning { .. } => is_open,
            Waiting::Child { is_started, .. } => is_open || !is_started,
            Waiting::CancelExternal { .. } => true,
            Waiting::ActivityOutside { .. }
            | Waiting::Step { .. }
            | Waiting::SignalExternal { .. }
            | Waiting::Update { .. }
            | Waiting::Message { .. } => false,
        })
    })
    .await;
}

/// The edition that new runs begin under.
const NEWEST: u32 = Edition::NEWEST.0;

fn path(edition: u32, kind: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/editions/golden");
    let file = format!("edition-{edition}/{}.hex", kind.replace(' ', "-"));
    folder.join(file)
}

fn golden(edition: u32, kind: &str) -> Vec<Event> {
    let path = path(edition, kind);
    let hex = fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{}: {error}; OUTLAST_BLESS=1 adds it", path.display()));
    let digits: Vec<u32> = hex.chars().filter_map(|c| c.to_digit(16)).collect();
    let bytes: Vec<u8> = digits
        .chunks(2)
        .map(|pair| u8::try_from(pair[0] * 16 + pair[1]).expect("two digits"))
        .collect();
    let records = record::decode(&bytes).expect("it is read as it was written");
    let event = |record| match record {
        Record::Event(event) => event,
        Record::Fact(fact) => panic!("not an event: {fact:?}"),
    };
    records.into_iter().map(event).collect()
}

fn add(path: &Path, history: Vec<Event>) {
    let records: Vec<Record> = history.into_iter().map(Record::Event).collect();
    let mut text = String::new();
    for (place, byte) in record::encode(&records).iter().enumerate() {
        let end = if place % 48 == 47 { "\n" } else { "" };
        write!(text, "{byte:02x}{end}").expect("writes to a string");
    }
    text.push('\n');
    let folder = path.parent().expect("it has a folder");
    fs::create_dir_all(folder).expect("a folder can be made");
    fs::write(path, text).expect("a file can be written");
}

/// Every beginning of a history that ends between two tasks.
fn beginnings(history: &[Event]) -> impl Iterator<Item = &[Event]> {
    let ends = history.iter().enumerate().skip(2);
    let ends = ends.filter(|(_, event)| matches!(event.kind, EventKind::TaskScheduled { .. }));
    let ends = ends.map(|(place, _)| place);
    ends.chain([history.len()]).map(|end| &history[..end])
}

#[test]
fn what_is_recorded_now_replays_and_is_kept() {
    for (kind, deeds) in KINDS {
        let (path, history) = (path(NEWEST, kind), recorded(kind, deeds));
        if !path.exists() && std::env::var_os("OUTLAST_BLESS").is_some() {
            add(&path, history.clone());
        }
        assert_eq!(names(&golden(NEWEST, kind)), names(&history), "{kind}");
    }
}

#[test]
fn histories_of_every_edition_replay_and_their_beginnings_too() {
    for edition in 1..=NEWEST {
        for (kind, _) in KINDS {
            let history = golden(edition, kind);
            for beginning in beginnings(&history) {
                if let Err(difference) = replay(story, beginning) {
                    panic!("{kind}: {difference}\n{}", names(beginning).join("\n"));
                }
            }
        }
    }
}

/// What today's code and the rules of the newest edition would make of a run of another one.
fn as_newest(mut history: Vec<Event>) -> Vec<Event> {
    if let Some(EventKind::Started(started)) = history.first_mut().map(|event| &mut event.kind) {
        started.edition = Some(Edition::NEWEST);
    }
    history
}

#[test]
fn the_edition_decides_what_a_replay_does() {
    for (kind, _) in KINDS {
        let is_alike = matches!(kind, "done" | "cancel that waits");
        // Options are not what matters here.
        let replayed = replay_from_cluster(story, &as_newest(golden(1, kind)));
        assert_eq!(replayed.is_ok(), is_alike, "{kind}: {replayed:?}");
    }
}

#[test]
fn a_run_of_an_edition_that_is_not_known_says_which_version_it_needs() {
    let mut history = golden(1, "done");
    if let Some(EventKind::Started(started)) = history.first_mut().map(|event| &mut event.kind) {
        started.edition = Some(Edition(Edition::NEWEST.0 + 1));
    }
    let told = replay(story, &history).expect_err("nobody knows its rules");
    assert!(told.to_string().contains("began under edition 3"), "{told}");
}

#[test]
fn what_may_have_been_done_is_undone_since_the_second_edition() {
    for (kind, _) in KINDS {
        let undone = |edition| {
            let history = golden(edition, kind);
            let is_undo = |event: &&Event| {
                matches!(&event.kind, EventKind::ActivityScheduled(call)
                    if call.activity_type.as_str() == "refund")
            };
            history.iter().filter(is_undo).count()
        };
        let has_undo = !kind.contains("shield") && !kind.contains("block");
        let was_undone = matches!(kind, "done" | "cancel that waits");
        assert_eq!(undone(1), usize::from(was_undone), "{kind}");
        assert_eq!(undone(2), usize::from(has_undo), "{kind}");
    }
}

/// How long the timers ran that fired, and those that were cancelled, in days.
fn timers(history: &[Event]) -> (Vec<u64>, Vec<u64>) {
    let mut delays = BTreeMap::new();
    let (mut fired, mut cancelled) = (Vec::new(), Vec::new());
    for event in history {
        if let EventKind::TimerStarted { seq, delay, .. } = &event.kind {
            delays.insert(*seq, delay.as_secs() / 86_400);
        } else if let EventKind::TimerFired { seq } = &event.kind {
            fired.push(delays[seq]);
        } else if let EventKind::TimerCanceled { seq } = &event.kind {
            cancelled.push(delays[seq]);
        }
    }
    (fired, cancelled)
}

#[test]
fn a_limit_of_one_day_ends_clean_up_of_two_days_since_the_second_edition() {
    let kind = "shield with a timeout";
    // The run is cancelled in a sleep of nine days; the limit was not even sent.
    assert_eq!(timers(&golden(1, kind)), (vec![2], vec![9]));
    assert_eq!(timers(&golden(2, kind)), (vec![1], vec![9]));
    // The limit counts from the beginning of the block.
    let kind = "block that cleans up";
    assert_eq!(timers(&golden(1, kind)), (vec![2], vec![1, 0]));
    assert_eq!(timers(&golden(2, kind)), (vec![1], vec![0]));
}
