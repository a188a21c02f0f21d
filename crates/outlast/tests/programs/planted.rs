//! Shows that silence means something: what is planted must be found, by a small program.
//!
//! A planted bug is on for the whole process, so each is hunted in a process of its own. Luck in
//! the order of a select is the bug of workflow code; the others are bugs of the runtime.

use outlast_model::planted::{Bug, plant};

use super::{desk, hush, judge::judge, make, told};

/// Programs within which a planted bug must show.
const HUNT: u64 = 1_500;
/// News and nodes of a program that a person can read.
const READABLE: usize = 20;
const LUCK: &str = "RandomSelect";

#[test]
fn every_planted_bug_is_found_by_a_small_program() {
    let Ok(name) = std::env::var("OUTLAST_PROGRAM_BUG") else {
        hunt_apart(LUCK);
        return Bug::REPLAY
            .into_iter()
            .for_each(|bug| hunt_apart(&format!("{bug:?}")));
    };
    hush();
    match Bug::REPLAY
        .into_iter()
        .find(|bug| format!("{bug:?}") == name)
    {
        Some(bug) => plant(Some(bug)),
        None if name == LUCK => desk::load_the_dice(),
        None => panic!(
            "no bug is called {name}; there are {LUCK} and {:?}",
            Bug::REPLAY
        ),
    }
    let found = (0..HUNT).find_map(|seed| {
        let why = judge(&make::program(seed)).err()?;
        Some(told(seed, why))
    });
    let told = found.unwrap_or_else(|| panic!("{name} was not found in {HUNT} programs"));
    assert!(told.lines().count() < READABLE, "not small:\n{told}");
    println!("{name} found: {told}");
}

fn hunt_apart(name: &str) {
    let me = std::env::current_exe().expect("a test has a program");
    let hunted = std::process::Command::new(me)
        .args([
            "--exact",
            "planted::every_planted_bug_is_found_by_a_small_program",
            "--nocapture",
        ])
        .env("OUTLAST_PROGRAM_BUG", name)
        .output()
        .expect("a test can run itself");
    let text = String::from_utf8_lossy(&hunted.stdout);
    let told = text.split_once(" found:").map(|(_, told)| told);
    println!("{name}:{}", told.unwrap_or_default());
    assert!(hunted.status.success(), "{name} was not found:\n{text}");
}
