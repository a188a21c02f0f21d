//! Shows that silence means something: each bug of a store is planted in a process of its own, since
//! the switch is global, and disks must show it.

use std::process::{Child, Stdio};

use outlast_model::planted::{Bug, plant};

use crate::alone;
use crate::bare::Bare;
use crate::cut::{Subject, Wanted};

/// The variable that names the bug of this process.
const BUG: &str = "OUTLAST_POWER_BUG";
/// Disks of each scenario within which a bug must show.
const HUNT: usize = 150;

/// Each bug, and the scenario in which it must show.
const GROUNDS: [(Bug, &str); Bug::STORE.len()] = [
    (Bug::ReopenUnsynced, "a failed sync, later"),
    (Bug::CreatedOnReopen, "moved away and back"),
    (Bug::AnswerUnsynced, "commits"),
    (Bug::CheckpointUnsynced, "checkpoints"),
];

#[test]
fn every_planted_bug_of_a_store_is_found() {
    let Ok(name) = std::env::var(BUG) else {
        assert_eq!(GROUNDS.map(|(bug, _)| bug), Bug::STORE);
        Bug::STORE.into_iter().for_each(hunt_apart);
        return;
    };
    let (bug, ground) = GROUNDS
        .into_iter()
        .find(|(bug, _)| format!("{bug:?}") == name)
        .expect("a bug of this name");
    let hunted = |planted: Option<Bug>| {
        plant(planted);
        let named = Bare::all().filter(|bare| bare.name == ground);
        let subjects: Vec<Subject> = named.map(Subject::Bare).collect();
        assert_eq!(subjects.len(), 1, "{ground}");
        crate::run(&subjects, Wanted::Many(HUNT), 1).complaints
    };
    let without = hunted(None);
    assert!(without.is_empty(), "found without a bug: {without:#?}");
    let found = hunted(Some(bug));
    plant(None);
    let first = found.first().expect("the planted bug shows");
    println!("{bug:?} found: {}", first.replace('\n', " "));
}

fn hunt_apart(bug: Bug) {
    let me = std::env::current_exe().expect("a test has a program");
    let mut command = std::process::Command::new(me);
    command
        .args([
            "--exact",
            "planted::every_planted_bug_of_a_store_is_found",
            "--nocapture",
        ])
        .env(BUG, format!("{bug:?}"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let child = alone(|| command.spawn());
    let hunted = child.and_then(Child::wait_with_output);
    let hunted = hunted.expect("a test can run itself");
    let text = String::from_utf8_lossy(&hunted.stdout);
    let told = text.lines().find(|line| line.contains("found:"));
    println!("{}", told.unwrap_or_default());
    assert!(
        hunted.status.success() && told.is_some(),
        "{bug:?} was not found:\n{text}\n{}",
        String::from_utf8_lossy(&hunted.stderr)
    );
}
