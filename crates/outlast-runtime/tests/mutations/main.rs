//! The mutation corpus: changes that people make to workflow code, each replayed against a
//! history that the unchanged code wrote. What differs is found at the first place, named on
//! both sides with the line that asks for it; what may be tuned is told and does not stop a run.
#![allow(
    dead_code,
    clippy::result_large_err,
    reason = "the scripted backend is shared with the tests of the law"
)]

#[path = "../it/backend.rs"]
mod backend;
mod change;
mod family;
#[path = "../it/flow.rs"]
mod flow;

use outlast_model::event::{CancelOf, ChildEvent, ExternalEvent, TaskFailedCause};
use outlast_model::promise::Settlement;
use outlast_model::task::PROMISE_SIGNAL;
use outlast_model::{Event, EventKind, Headers, Payload, Resolution, Seq};
use outlast_runtime::{ReplayChecks, TaskFailure, Unwatched, replay};

use backend::Backend;
use change::{Change, Expect};
use family::order;
use flow::no_foreign;

/// The life of one order, as the unchanged code lives it.
fn history() -> Vec<Event> {
    let mut backend = Backend::started(order(Change::Unchanged));
    let null = || Resolution::Completed(Payload::null());
    // Everything at once: the payment wins the race because it is asked first.
    backend
        .signal("paid", "")
        .signal("note", "")
        .complete(1, "");
    backend.update("u1", "change", "").turn();
    backend.complete(3, "").turn();
    backend
        .resolve_step(1, null())
        .resolve_step(2, null())
        .turn();
    backend.complete(2, "").fire(2).turn();
    backend.child_started(1).child_completed(1, "");
    let (seq, of) = (Seq(1), CancelOf::External(Seq(1)));
    backend.external(ExternalEvent::SignalDelivered { seq });
    backend
        .external(ExternalEvent::CancelDelivered { of })
        .turn();
    backend.complete(4, "").turn();
    backend.fire(3).child_started(2).turn();
    backend.fire(4).turn();
    let of = CancelOf::Child(Seq(2));
    backend.external(ExternalEvent::CancelDelivered { of });
    backend.child(ChildEvent::Canceled { seq: Seq(2) });
    backend.complete(7, "").turn();
    let (id, outcome) = ("approval".into(), Ok(Payload::null()));
    let input = Settlement { id, outcome }.encode().expect("it is JSON");
    backend.stimulus(EventKind::Signaled {
        name: PROMISE_SIGNAL.into(),
        input,
        request_id: None,
        headers: Headers::new(),
    });
    backend.turn();
    backend.complete(8, "").turn();
    backend.signal("approved", "").turn();
    backend.complete(9, "").turn();
    assert!(backend.is_closed, "{}", backend.failure());
    backend.history
}

/// What a replay of the history by this form of the code says.
fn replayed(change: Change, checks: ReplayChecks) -> Result<Vec<String>, TaskFailure> {
    let flow = order(change);
    let history = history();
    let replay = || replay(&history, &flow, &no_foreign(), &Unwatched, checks);
    if change == Change::RandomSelect {
        // Luck repeats itself sometimes.
        replay()?;
    }
    replay().map(|mut instance| instance.warnings())
}

/// The text with every place replaced by what stands there, without the remedy.
fn plain(text: &str) -> String {
    let source: Vec<&str> = include_str!("family.rs").lines().collect();
    let end = text.find("\n  remedy:").unwrap_or(text.len());
    let mut pieces = text[..end].split("crates/outlast-runtime/tests/mutations/family.rs:");
    let mut plain = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let digits = piece
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(piece.len());
        let line: usize = piece[..digits].parse().expect("a line number");
        plain.push_str(&format!(
            "[{}]{}",
            source[line - 1].trim(),
            &piece[digits..]
        ));
    }
    plain
}

fn found(change: Change, checks: ReplayChecks) -> String {
    let failed = match replayed(change, checks) {
        Ok(warnings) => panic!("{change:?} is not found: {warnings:?}"),
        Err(failed) => failed,
    };
    assert_eq!(failed.cause, TaskFailedCause::NonDeterminism, "{change:?}");
    failed.failure.message.clone()
}

#[test]
fn the_corpus_has_sixty_changes_and_more() {
    assert!(Change::ALL.len() >= 60, "{}", Change::ALL.len());
    let differs = Change::ALL
        .iter()
        .filter(|(_, expect)| *expect == Expect::Found);
    assert!(differs.count() >= 60);
}

#[test]
fn unchanged_code_replays_without_a_word() {
    for strict in [false, true] {
        let warnings = replayed(Change::Unchanged, ReplayChecks { strict }).expect("replays");
        assert_eq!(warnings, [""; 0]);
    }
}

/// The table: each change, what the history has and what the code does instead, with the line.
#[test]
fn every_change_is_found_at_its_place() {
    let mut table = String::new();
    for (change, expect) in Change::ALL {
        let told = match expect {
            Expect::Found => plain(&found(*change, ReplayChecks::default())),
            Expect::Warned => {
                let warnings = replayed(*change, ReplayChecks::default());
                let warnings = warnings.unwrap_or_else(|why| panic!("{change:?}: {why}"));
                assert!(!warnings.is_empty(), "{change:?} is told");
                plain(&warnings.join("\n"))
            }
            Expect::Fine => {
                let warnings = replayed(*change, ReplayChecks { strict: true });
                let warnings = warnings.unwrap_or_else(|why| panic!("{change:?}: {why}"));
                assert_eq!(warnings, [""; 0], "{change:?}");
                "goes on".into()
            }
        };
        let told = told
            .strip_prefix("the code does not do what its history says\n")
            .unwrap_or(&told);
        table.push_str(&format!("{expect:?} {change:?}\n{told}\n\n"));
    }
    insta::assert_snapshot!(table);
}

/// What differs names the code's side, and the history's if it has one there.
#[test]
fn both_sides_of_a_difference_are_named() {
    for (change, _) in Change::ALL
        .iter()
        .filter(|(_, expect)| *expect == Expect::Found)
    {
        let text = found(*change, ReplayChecks::default());
        let has_both = text.contains("\n  history: ") && text.contains("\n  code:    ");
        let is_unknown = text.contains("the history resolves");
        assert!(has_both || is_unknown, "{change:?}: {text}");
        assert!(
            text.contains("remedy: ") || is_unknown,
            "{change:?}: {text}"
        );
    }
}

#[test]
fn what_is_only_told_stops_a_strict_replay() {
    for (change, _) in Change::ALL
        .iter()
        .filter(|(_, expect)| *expect == Expect::Warned)
    {
        let warnings = replayed(*change, ReplayChecks::default()).expect("goes on");
        let text = found(*change, ReplayChecks { strict: true });
        let difference = warnings[0].rsplit(": ").next().expect("says what");
        assert!(text.contains(difference), "{change:?}: {text}");
    }
}

/// Three reports as a person gets them: one changed, one missing, one extra.
#[test]
fn a_report_is_a_small_difference() {
    for change in [Change::RenameActivity, Change::KeepTimer, Change::AddChild] {
        let text = found(change, ReplayChecks::default());
        let (told, remedy) = text.split_once("\n  remedy:").expect("says what to do");
        let text = format!("{}\n  remedy:{remedy}", plain(told));
        insta::assert_snapshot!(format!("report_{change:?}"), text);
    }
}
