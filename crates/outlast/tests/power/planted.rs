//! Shows that silence means something: each bug of a store is planted in a process of its own, since
//! the switch is global, and disks must show it.

use outlast_model::planted::{Bug, plant};

use crate::bare::Bare;
use crate::cut::{Subject, Wanted};

/// The variable that names the bug of this process.
const BUG: &str = "OUTLAST_POWER_BUG";
/// Disks of each scenario within which a bug must show.
const HUNT: usize = 150;

/// The scenario in which a bug must show.
fn ground(bug: Bug) -> &'static str {
    match bug {
        Bug::ReopenUnsynced => "a failed sync, later",
        Bug::CreatedOnReopen => "moved away and back",
        Bug::CheckpointUnsynced => "checkpoints",
        _ => "commits",
    }
}

#[test]
fn every_planted_bug_of_a_store_is_found() {
    let Ok(name) = std::env::var(BUG) else {
        Bug::STORE.into_iter().for_each(hunt_apart);
        return;
    };
    let bug = Bug::STORE
        .into_iter()
        .find(|bug| format!("{bug:?}") == name)
        .expect("a bug of this name");
    let hunted = |plan: Option<Bug>| {
        plant(plan);
        let named = Bare::all().filter(|bare| bare.name == ground(bug));
        let subjects: Vec<Subject> = named.map(Subject::Bare).collect();
        assert_eq!(subjects.len(), 1, "{}", ground(bug));
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
    let hunted = std::process::Command::new(me)
        .args([
            "--exact",
            "planted::every_planted_bug_of_a_store_is_found",
            "--nocapture",
        ])
        .env(BUG, format!("{bug:?}"))
        .output()
        .expect("a test can run itself");
    let text = String::from_utf8_lossy(&hunted.stdout);
    let told = text.lines().find(|line| line.contains("found:"));
    println!("{}", told.unwrap_or_default());
    assert!(
        hunted.status.success() && told.is_some(),
        "{bug:?} was not found:\n{text}\n{}",
        String::from_utf8_lossy(&hunted.stderr)
    );
}
