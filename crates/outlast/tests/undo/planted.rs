//! Shows that silence means something: an undo that is forgotten and one that runs twice are found.
//!
//! A planted bug is on for the whole process, so each is hunted in a process of its own.

use outlast_model::planted::{Bug, plant};

use super::{Met, World, judge};

/// Programs within which a planted bug must show.
const HUNT: u64 = 200;

#[test]
fn every_planted_bug_is_found() {
    let Ok(name) = std::env::var("OUTLAST_UNDO_BUG") else {
        return Bug::UNDO.into_iter().for_each(hunt_apart);
    };
    let bug = Bug::UNDO
        .into_iter()
        .find(|bug| format!("{bug:?}") == name)
        .unwrap_or_else(|| panic!("no bug is called {name}; there are {:?}", Bug::UNDO));
    plant(Some(bug));
    let mut met = Met::default();
    let found = (0..HUNT).find_map(|seed| {
        let played = World::new(seed).play(seed);
        let why = played.and_then(|story| judge(&story, &mut met)).err()?;
        Some((seed, why))
    });
    let (seed, why) = found.unwrap_or_else(|| panic!("{bug:?} was not found in {HUNT} programs"));
    let is_of_the_ledger = why.starts_with("effect ") && why.contains("undone");
    assert!(is_of_the_ledger, "{bug:?} broke something else: {why}");
    println!("{bug:?} found: program {seed}: {why}");
}

fn hunt_apart(bug: Bug) {
    let me = std::env::current_exe().expect("a test has a program");
    let hunted = std::process::Command::new(me)
        .args([
            "--exact",
            "planted::every_planted_bug_is_found",
            "--nocapture",
        ])
        .env("OUTLAST_UNDO_BUG", format!("{bug:?}"))
        .output()
        .expect("a test can run itself");
    let text = String::from_utf8_lossy(&hunted.stdout);
    let told = text.lines().find(|line| line.contains("found:"));
    println!("{}", told.unwrap_or_default());
    assert!(hunted.status.success(), "{bug:?} was not found:\n{text}");
}
