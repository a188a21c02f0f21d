//! Power cuts: scenarios are recorded below SQLite, and every disk that could be there after a cut
//! is opened, read, checked, and gone on from.
//!
//! Each disk is opened by the production store: it must not be refused, its check finds nothing,
//! every call that was acknowledged before the cut is there, nothing is there twice, nothing was done
//! in the world that is not on record. Some recoveries are recorded as well, and cut. Then the
//! engine goes on to the end, and the judge of the crash suite looks at all of it: once for each
//! content that the store port tells and each state of the world outside, since the engine sees
//! nothing else of a disk.
//!
//! `OUTLAST_POWER_IMAGES` says how many disks, `OUTLAST_POWER_SEED` which, `OUTLAST_POWER_SCENARIO`
//! of which scenario only, `OUTLAST_POWER_CUT` and `OUTLAST_POWER_THROW` which one disk of it; `cargo
//! xtask power` sets them. What an engine does depends on its threads as well: a disk that fails
//! is kept, and named.
#![cfg(feature = "planted")]
#![allow(clippy::print_stdout, reason = "its progress and its verdict are read")]
#![allow(dead_code, reason = "parts of the crash suite are used, not all")]

#[path = "../support/mod.rs"]
mod support;

#[path = "../crash/client.rs"]
mod client;
#[path = "../crash/family.rs"]
mod family;
#[path = "../crash/judge.rs"]
mod judge;
#[path = "../crash/life.rs"]
mod life;
#[path = "../crash/message.rs"]
mod message;
#[path = "../crash/outside.rs"]
mod outside;
#[path = "../crash/script.rs"]
mod script;
#[path = "../crash/speech.rs"]
mod speech;
#[path = "../crash/world.rs"]
mod world;

mod bare;
mod cut;
mod exam;
mod faults;
mod planted;
mod player;
mod tape;

use std::io;
use std::path::Path;
use std::sync::{Mutex, PoisonError, RwLock};

use bare::Bare;
use cut::{Subject, Tally, Wanted};
use outlast_service::sqlite::{Touch, witness};
use outlast_vfs::{Beside, Call, Fault, How, beside};
use tape::Plan;

/// Disks of a run without a knob.
const FEW: usize = 2_000;
/// Scenarios of the crash suite that also run with a fault, and at the how manieth call.
const FAULTY: [&str; 8] = [
    "one activity",
    "sequence",
    "signals",
    "step",
    "timers",
    "child",
    "update",
    "many runs",
];

fn knob(name: &str) -> Option<usize> {
    std::env::var(name).ok()?.parse().ok()
}

/// A process that is being made has the locks of this one for a moment: stores are not opened here
/// meanwhile.
static MAKING: RwLock<()> = RwLock::new(());

/// Opens stores, beside others that do.
fn beside_others<T>(work: impl FnOnce() -> T) -> T {
    let _made = MAKING.read().unwrap_or_else(PoisonError::into_inner);
    work()
}

/// Makes a process, or several.
fn alone<T>(make: impl FnOnce() -> T) -> T {
    let _making = MAKING.write().unwrap_or_else(PoisonError::into_inner);
    make()
}

/// What the store does by itself is on record as well.
fn hear(path: &Path, touch: Touch<'_>) -> io::Result<()> {
    let what = match touch {
        Touch::Write { at, bytes } => Beside::Write { at, bytes },
        Touch::Sync => Beside::Sync,
        Touch::SyncDirectory => Beside::SyncDirectory,
    };
    beside(path, what)
}

/// Everything that is recorded.
fn subjects() -> Vec<Subject> {
    let plain = script::all().map(|scenario| Plan::new(scenario, scenario.name));
    let faulty = FAULTY.iter().flat_map(|name| {
        let scenario = script::all().find(|scenario| scenario.name == *name);
        let scenario = scenario.expect("a scenario of this name");
        let failing = [1, 2, 3].map(|at| Plan {
            fault: Some(Fault::once(Call::Sync, at, How::Broken)),
            ..Plan::new(scenario, &format!("{name}, sync {at} fails"))
        });
        let copying = Plan::new(scenario, &format!("{name}, checkpoints")).copying();
        let failing_copy = Plan {
            fault: Some(Fault {
                ending: ".db",
                ..Fault::once(Call::Sync, 1, How::Broken)
            }),
            ..Plan::new(scenario, &format!("{name}, a checkpoint fails")).copying()
        };
        failing.into_iter().chain([copying, failing_copy])
    });
    let bare = Bare::all().map(Subject::Bare);
    bare.chain(plain.chain(faulty).map(Subject::Engine))
        .collect()
}

/// Runs all subjects, two at a time.
fn run(subjects: &[Subject], wanted: Wanted, seed: u64) -> Tally {
    witness(Some(hear));
    let (next, tally) = (Mutex::new(subjects.iter()), Mutex::new(Tally::default()));
    let work = || {
        loop {
            let Some(subject) = next.lock().expect("not poisoned").next() else {
                return;
            };
            let found = beside_others(|| cut::cut(subject, wanted, seed));
            let mut tally = tally.lock().expect("not poisoned");
            tally.add(found);
            tally.tell(subject.name(), subjects.len());
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(work);
        scope.spawn(work);
    });
    tally.into_inner().expect("not poisoned")
}

#[test]
fn no_power_cut_loses_anything() {
    if std::env::var(exam::FRESH).is_ok() {
        return;
    }
    let images = knob("OUTLAST_POWER_IMAGES").unwrap_or(FEW);
    let seed = knob("OUTLAST_POWER_SEED").unwrap_or(1) as u64;
    let scenario = std::env::var("OUTLAST_POWER_SCENARIO").ok();
    let mut subjects = subjects();
    subjects.retain(|subject| {
        scenario
            .as_deref()
            .is_none_or(|name| subject.name() == name)
    });
    assert!(!subjects.is_empty(), "no scenario is called {scenario:?}");
    let wanted = match (knob("OUTLAST_POWER_CUT"), knob("OUTLAST_POWER_THROW")) {
        (Some(cut), Some(throw)) => Wanted::One { cut, throw },
        _ => Wanted::Many(images.div_ceil(subjects.len())),
    };
    let mut tally = run(&subjects, wanted, seed);
    let fresh = tally.open_afresh();
    println!("{}", tally.details());
    println!("{}", tally.complaints.join("\n"));
    println!("{}", tally.verdict());
    assert!(
        tally.complaints.is_empty(),
        "\n{}\n",
        tally.complaints.join("\n")
    );
    if scenario.is_none() {
        assert!(tally.scenarios >= 40 && fresh >= 200, "{}", tally.details());
        assert!(tally.distinct() >= images, "{}", tally.verdict());
        assert!(
            tally.unsynced * 3 >= tally.distinct(),
            "{}",
            tally.details()
        );
    }
}

#[test]
fn a_fresh_process_sees_what_this_one_does() {
    let Ok(dir) = std::env::var(exam::FRESH) else {
        let (here, there) = (life::scratch(), life::scratch());
        let seen = exam::examine(here.path()).expect("a new file");
        let made = alone(|| exam::begin_afresh(there.path()));
        let again = made.and_then(exam::end_afresh);
        assert_eq!(again, Ok(seen.logical));
        return;
    };
    let seen = exam::examine(dir.as_ref()).expect("the disk is taken");
    println!("seen: {}", seen.logical);
}
