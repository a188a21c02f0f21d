//! Every reason why a run does not move, made to happen, and what is then said about it: one
//! table, so that a change of words or of order is seen.

mod blocked;
#[path = "../takeover/gate.rs"]
mod gate;
#[path = "../support/mod.rs"]
mod support;
mod waiting;

use std::fmt::Write;

use outlast::Handle;
use outlast::why::Answer;

use support::drive;

/// The reasons of the closed list.
const REASONS: usize = 25;

/// What is said in one situation.
struct Case {
    what: &'static str,
    answers: Vec<Answer>,
}

impl Case {
    fn new(what: &'static str, answers: Vec<Answer>) -> Self {
        Self { what, answers }
    }

    /// As a run says it.
    async fn of<T, E>(what: &'static str, run: &Handle<T, E>) -> Self {
        let found = run.describe().await.expect("it is there");
        let run_id = found.summary.run_id.to_string();
        let mut answers = run.why().await.expect("it is known");
        for answer in &mut answers {
            answer.text = answer.text.replace(&run_id, "RUN");
        }
        Self::new(what, answers)
    }

    /// Times that are real are not the same twice.
    fn in_real_time(mut self) -> Self {
        for answer in &mut self.answers {
            answer.text = without_numbers(&without_since(&answer.text));
        }
        self
    }
}

/// When it began.
fn without_since(text: &str) -> String {
    match text.split_once(", first ") {
        Some((what, rest)) => match rest.split_once(", ") {
            Some((_, rest)) => format!("{what}, {rest}"),
            None => text.to_owned(),
        },
        None => text.to_owned(),
    }
}

fn without_numbers(text: &str) -> String {
    let mut plain = String::new();
    for letter in text.chars() {
        if !letter.is_ascii_digit() {
            plain.push(letter);
        } else if !plain.ends_with('N') {
            plain.push('N');
        }
    }
    plain.replace("N.N", "N").replace(" ms", " s")
}

/// Lines of this file move.
fn without_lines(text: &str) -> String {
    let mut parts = text.split(".rs:");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = part.trim_start_matches(|letter: char| letter.is_ascii_digit());
        plain.push_str(".rs:N");
        plain.push_str(rest.strip_prefix('N').unwrap_or(rest));
    }
    plain
}

#[test]
fn each_reason_happens_and_says_what_would_help() {
    drive(async {
        let mut cases = waiting::cases().await;
        cases.extend(blocked::cases().await);
        let mut names: Vec<&str> = Vec::new();
        let mut table = String::new();
        for case in &cases {
            writeln!(table, "{}", case.what).expect("writes to a string");
            for answer in &case.answers {
                let (name, text) = (answer.reason.name(), without_lines(&answer.text));
                writeln!(table, "  {name}: {text}").expect("writes to a string");
                writeln!(table, "    -> {}", answer.next).expect("writes to a string");
                names.push(name);
            }
        }
        names.sort_unstable();
        names.dedup();
        insta::assert_snapshot!(table);
        assert_eq!(names.len(), REASONS, "{names:?}");
    });
}
