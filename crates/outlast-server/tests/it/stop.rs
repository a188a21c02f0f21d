//! How the process ends when code does not stop: in order if it can, with its code in any case.

use std::io::{BufRead as _, BufReader, Lines};
use std::process::{Child, ChildStdout, Command, Stdio};

use crate::support::Room;

/// A process of its own, with what takes seconds by default taking less.
fn worker(room: &Room, line: &str, settings: &[(&str, &str)]) -> Child {
    let mut command = room.command(&format!("deaf-worker --db a.db {line}"));
    let quick = [
        ("OUTLAST_ZOMBIES_ABORT_AFTER", "20ms"),
        ("OUTLAST_ZOMBIES_GRACE", "40ms"),
        ("OUTLAST_SHUTDOWN_GRACE", "20ms"),
        ("OUTLAST_SHUTDOWN_CANCEL", "20ms"),
        ("OUTLAST_SHUTDOWN_EVICTIONS", "20ms"),
        ("OUTLAST_SHUTDOWN_HARD_STOP", "100ms"),
    ];
    command.envs(quick).envs(settings.iter().copied());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("the binary runs")
}

fn ended(child: Child) -> (Option<i32>, String, String) {
    let output = child.wait_with_output().expect("it ends");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    (output.status.code(), out, err)
}

#[test]
fn past_the_limit_of_zombies_the_process_ends_with_code_1_and_names_them() {
    let room = Room::new("stop-zombies");
    let limit = [("OUTLAST_ZOMBIES_LIMIT", "1")];
    let (code, told, error) = ended(worker(&room, "--deaf 2", &limit));
    assert_eq!(code, Some(1), "{told}{error}");
    let at = |text: &str| {
        told.find(text)
            .unwrap_or_else(|| panic!("no {text:?}: {told}"))
    };
    assert!(at("OL-5205") < at("OL-5007"), "in order: {told}");
    assert!(error.contains("this did not end: "), "{error}");
    assert!(error.contains("deaf"), "{error}");
    let runs = room.run("ls --db a.db -o json").json();
    assert_eq!(runs.as_array().map(Vec::len), Some(2), "nothing is lost");
}

#[test]
fn a_shutdown_that_does_not_come_back_is_ended_with_code_1() {
    let room = Room::new("stop-mute");
    let limit = [("OUTLAST_ZOMBIES_LIMIT", "1")];
    let (code, told, error) = ended(worker(&room, "--deaf 2 --mute", &limit));
    assert_eq!(code, Some(1), "{told}{error}");
    assert!(error.contains("a listener of events"), "{error}");
    room.run("ls --db a.db").ok();
}

/// Reads until this is told.
fn hear(lines: &mut Lines<BufReader<ChildStdout>>, text: &str) {
    let told = lines.map_while(Result::ok).any(|line| line.contains(text));
    assert!(told, "{text} was never told");
}

#[test]
fn the_first_signal_stops_in_order_and_the_third_ends_with_code_7() {
    let room = Room::new("stop-signals");
    let patient = [
        ("OUTLAST_ZOMBIES_LIMIT", "0"),
        ("OUTLAST_SHUTDOWN_GRACE", "1m"),
        ("OUTLAST_SHUTDOWN_CANCEL", "1m"),
        ("OUTLAST_SHUTDOWN_EVICTIONS", "1m"),
        ("OUTLAST_SHUTDOWN_HARD_STOP", "3m"),
        // What was told to stop stays an attempt until it is dropped.
        ("OUTLAST_ZOMBIES_ABORT_AFTER", "1m"),
        ("OUTLAST_ZOMBIES_GRACE", "1m"),
    ];
    let mut child = worker(&room, "--deaf 1", &patient);
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let number = child.id().to_string();
    let signal = || {
        let sent = Command::new("kill").args(["-TERM", &number]).status();
        assert!(sent.expect("there is such a command").success());
    };
    hear(&mut lines, "deaf activity 0 has begun");
    signal();
    hear(&mut lines, "finishing");
    signal();
    hear(&mut lines, "cancelling");
    signal();
    let (code, _, error) = ended(child);
    assert_eq!(code, Some(7), "{error}");
    assert!(error.contains("stopped by force"), "{error}");
}
