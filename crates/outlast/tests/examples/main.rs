//! The examples do what they say: each is run as the program it is, twice on one file, and its
//! output is compared; each has tests of its own, which run here.
//!
//! `cargo test` builds examples but runs none of their tests, so they are modules here as well.

use std::path::PathBuf;
use std::process::Command;

#[expect(dead_code, reason = "`main` is run as a program")]
mod inside;

#[test]
fn hello() {
    prints("hello", &["Hello, Rust!"]);
}

#[test]
fn signals_and_queries() {
    let lines = [
        "items in the cart: 2",
        "Kari bought tea and a mug",
        "items, asked after the end: 2",
    ];
    prints("signals_and_queries", &lines);
}

#[test]
fn updates_with_validation() {
    let lines = [
        "transfer of 300 cents",
        "refused: 300 cents are more than the 200 there are",
        "transfer of 50 cents",
        "transfer of 50 cents",
        "left: 150 cents",
    ];
    prints("updates_with_validation", &lines);
}

#[test]
fn interceptors() {
    let lines = [
        "acme: charge",
        "acme: ship",
        "a parcel for acme",
        "initech: charge",
        "initech: ship",
        "a parcel for initech",
    ];
    prints("interceptors", &lines);
}

#[test]
fn select_with_timeout() {
    let lines = [
        "reminder 1",
        "reminder 2",
        "reminder 3",
        "no answer",
        "too late",
        "answer: yes",
    ];
    prints("select_with_timeout", &lines);
}

#[test]
fn fan_out_with_limit() {
    let lines = [
        "20 pages have 131 letters",
        "at most 4 at a time: true",
        "a sample of 3 is enough",
    ];
    prints("fan_out_with_limit", &lines);
}

#[test]
fn cancellation_with_cleanup() {
    let lines = [
        "room 12 is reserved",
        "key of room 12 is back",
        "cancelled: true",
    ];
    prints("cancellation_with_cleanup", &lines);
}

#[test]
fn handlers_outlive_main() {
    let lines = [
        "the desk is closed",
        "copy: printed page 1",
        "repair, the run finished first: true",
        "note: the run has ended while handler of update `repair`..",
    ];
    prints("handlers_outlive_main", &lines);
}

#[test]
fn saga() {
    let lines = [
        "charged 900",
        "booked 12A",
        "ticket for 12A",
        "charged 900",
        "booked 13F",
        "freed 13F",
        "refunded 900",
        "no ticket: there is no row 13",
    ];
    prints("saga", &lines);
}

#[test]
fn human_approval() {
    let lines = [
        "900 cents are paid",
        "the boss cannot say: ask again next year",
    ];
    prints("human_approval", &lines);
}

#[test]
fn subscription() {
    let lines = [
        "month 1: 700 cents",
        "month 2: 700 cents",
        "month 3: 700 cents",
        "over after 3 months",
        "the first run: ContinuedAsNew",
    ];
    prints("subscription", &lines);
}

/// Runs an example where nothing is yet, and again where its file is. A line that ends in `..`
/// may go on.
fn prints(name: &str, lines: &[&str]) {
    let folder = tempfile::tempdir().expect("a folder for its file");
    for _ in 0..2 {
        let output = Command::new(program(name))
            .current_dir(folder.path())
            .output();
        let output = output.expect("it runs");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name} failed: {errors}");
        let printed = String::from_utf8_lossy(&output.stdout);
        let is_as_told = |(line, told): (&str, &&str)| match told.strip_suffix("..") {
            Some(beginning) => line.starts_with(beginning),
            None => line == *told,
        };
        let is_all = printed.lines().count() == lines.len();
        let is_told = is_all && printed.lines().zip(lines).all(is_as_told);
        assert!(is_told, "{name} printed\n{printed}instead of {lines:#?}");
    }
}

/// The program cargo built beside this test.
fn program(name: &str) -> PathBuf {
    let here = std::env::current_exe().expect("this test has a path");
    let built = here.ancestors().nth(2).expect("the folder of the profile");
    let program = built
        .join("examples")
        .join(format!("{name}{}", std::env::consts::EXE_SUFFIX));
    let source = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("examples")
        .join(format!("{name}.rs"));
    let age = |path: &PathBuf| path.metadata().and_then(|m| m.modified()).ok();
    assert!(
        age(&program) >= age(&source),
        "{name} is not built: cargo build -p outlast --examples"
    );
    program
}
