//! The rules for children, messages to other runs, updates, patches and successors.

use outlast_model::event::CancelOf;
use outlast_model::grammar::Rule;
use outlast_model::{EventKind, Seq};

use super::{after_turn, then, turn, verdict};
use crate::samples::{
    admitted_update_accepted, cancel_delivered, cancel_failed, cancel_initiated, child_canceled,
    child_completed, child_failed, child_initiated, child_start_failed, child_started,
    child_terminated, child_timed_out, completed, continued_as_new, continued_child, patched,
    signal_delivered, signal_failed, signal_initiated, signaled, started, task_failed,
    task_scheduled, timer_started, update_accepted, update_admitted, update_completed,
    update_failed,
};

const CHILD: CancelOf = CancelOf::Child(Seq(1));
const OTHER: CancelOf = CancelOf::External(Seq(1));

fn initiated() -> Vec<EventKind> {
    after_turn([child_initiated(1)])
}

fn running() -> Vec<EventKind> {
    then(initiated(), [child_started(1)])
}

fn every_outcome() -> [EventKind; 5] {
    [
        child_completed(1),
        child_failed(1),
        child_canceled(1),
        child_timed_out(1),
        child_terminated(1),
    ]
}

/// Breaks of a rule at the last event, which is where they belong.
fn broken_at_the_end(kinds: Vec<EventKind>) -> Option<Rule> {
    let last = u64::try_from(kinds.len()).expect("a short history");
    let (event, rule) = verdict(kinds)?;
    assert_eq!(event, last);
    Some(rule)
}

#[test]
fn a_child_starts_and_ends_in_every_way() {
    assert_eq!(
        verdict(then(initiated(), [child_start_failed(1), signaled("a")])),
        None
    );
    for outcome in every_outcome() {
        assert_eq!(
            verdict(then(running(), [signaled("a"), outcome.clone()])),
            None,
            "{outcome:?}"
        );
    }
}

#[test]
fn a_child_is_initiated_once_by_a_completed_task() {
    assert_eq!(
        broken_at_the_end(after_turn([child_initiated(1), child_initiated(1)])),
        Some(Rule::SeqTwice)
    );
    assert_eq!(
        broken_at_the_end(vec![started(), child_initiated(1)]),
        Some(Rule::CommandPlace)
    );
    // Kinds count on their own.
    assert_eq!(
        verdict(after_turn([
            child_initiated(1),
            timer_started(1),
            signal_initiated(1)
        ])),
        None
    );
}

#[test]
fn a_child_starts_after_it_was_initiated_and_once() {
    for start in [child_started(1), child_start_failed(1)] {
        assert_eq!(
            broken_at_the_end(then(after_turn([]), [start.clone()])),
            Some(Rule::NeverScheduled)
        );
        for before in [child_started(1), child_start_failed(1)] {
            let twice = then(initiated(), [before, start.clone()]);
            assert_eq!(broken_at_the_end(twice), Some(Rule::ChildStartTwice));
        }
    }
}

#[test]
fn a_child_ends_once_and_only_if_it_started() {
    for outcome in every_outcome() {
        let cases = [
            (after_turn([]), Rule::NeverScheduled),
            (initiated(), Rule::ChildNotStarted),
            (
                then(initiated(), [child_start_failed(1)]),
                Rule::OutcomeTwice,
            ),
            (then(running(), [child_completed(1)]), Rule::OutcomeTwice),
        ];
        for (before, rule) in cases {
            assert_eq!(
                broken_at_the_end(then(before, [outcome.clone()])),
                Some(rule),
                "{outcome:?}"
            );
        }
    }
}

#[test]
fn a_cancel_of_a_child_names_one_that_has_not_ended() {
    for open in [initiated(), running()] {
        let asked = then(open, turn([cancel_initiated(CHILD)]));
        assert_eq!(verdict(asked), None);
    }
    let ended = [
        then(initiated(), [child_start_failed(1)]),
        then(running(), [child_completed(1)]),
    ];
    for before in ended {
        let late = then(before, turn([cancel_initiated(CHILD)]));
        assert_eq!(broken_at_the_end(late), Some(Rule::OutcomeTwice));
    }
    assert_eq!(
        broken_at_the_end(after_turn([cancel_initiated(CHILD)])),
        Some(Rule::NeverScheduled)
    );
}

#[test]
fn a_child_is_asked_to_stop_once() {
    let asked = then(running(), turn([cancel_initiated(CHILD)]));
    assert_eq!(
        broken_at_the_end(then(asked, turn([cancel_initiated(CHILD)]))),
        Some(Rule::CancelTwice)
    );
}

#[test]
fn a_child_may_end_before_the_word_that_it_was_asked_to_stop() {
    let asked = then(running(), turn([cancel_initiated(CHILD)]));
    assert_eq!(
        verdict(then(asked, [child_canceled(1), cancel_delivered(CHILD)])),
        None
    );
}

#[test]
fn a_request_to_another_run_is_delivered_or_fails_once() {
    let answers = || [cancel_delivered(OTHER), cancel_failed(OTHER)];
    for answer in answers() {
        let asked = after_turn([cancel_initiated(OTHER)]);
        let answered = then(asked, [answer.clone()]);
        assert_eq!(verdict(answered.clone()), None);
        for again in answers() {
            assert_eq!(
                broken_at_the_end(then(answered.clone(), [again])),
                Some(Rule::OutcomeTwice)
            );
        }
        // A request to a child of the same number is another one.
        assert_eq!(
            broken_at_the_end(then(
                then(running(), turn([cancel_initiated(CHILD)])),
                [answer]
            )),
            Some(Rule::NeverScheduled)
        );
    }
    assert_eq!(
        broken_at_the_end(after_turn([
            cancel_initiated(OTHER),
            cancel_initiated(OTHER)
        ])),
        Some(Rule::SeqTwice)
    );
}

#[test]
fn a_message_to_another_run_is_delivered_or_fails_once() {
    let answers = || [signal_delivered(1), signal_failed(1)];
    for answer in answers() {
        assert_eq!(
            broken_at_the_end(then(after_turn([]), [answer.clone()])),
            Some(Rule::NeverScheduled)
        );
        let answered = then(after_turn([signal_initiated(1)]), [answer]);
        assert_eq!(verdict(answered.clone()), None);
        for again in answers() {
            assert_eq!(
                broken_at_the_end(then(answered.clone(), [again])),
                Some(Rule::OutcomeTwice)
            );
        }
    }
    assert_eq!(
        broken_at_the_end(after_turn([signal_initiated(1), signal_initiated(1)])),
        Some(Rule::SeqTwice)
    );
}

/// A run that admitted an update, and a turn: started at 4, commands from 6.
fn admitted() -> Vec<EventKind> {
    then(vec![started(), update_admitted("u")], turn([]))
}

#[test]
fn an_update_lives_with_and_without_being_admitted() {
    let shapes = [
        after_turn([update_accepted("u", 1), update_completed("u")]),
        after_turn([update_accepted("u", 2), update_failed("u")]),
        after_turn([update_accepted("u", 1), completed()]),
        after_turn([update_accepted("u", 1), update_accepted("v", 1)]),
        then(
            after_turn([update_accepted("u", 1), timer_started(1)]),
            turn([update_completed("u")]),
        ),
        admitted(),
        then(admitted(), [admitted_update_accepted("u", 2)]),
        then(
            after_turn([]),
            [
                task_scheduled(1),
                update_admitted("u"),
                update_admitted("v"),
            ],
        ),
    ];
    for kinds in shapes {
        assert_eq!(verdict(kinds.clone()), None, "{kinds:?}");
    }
}

#[test]
fn an_update_is_admitted_once_and_before_it_is_accepted() {
    assert_eq!(
        broken_at_the_end(vec![started(), update_admitted("u"), update_admitted("u")]),
        Some(Rule::AdmittedTwice)
    );
    let accepted = then(admitted(), [admitted_update_accepted("u", 2)]);
    assert_eq!(
        broken_at_the_end(then(accepted, [update_admitted("u")])),
        Some(Rule::AdmittedLate)
    );
    let done = after_turn([update_accepted("u", 1), update_completed("u")]);
    assert_eq!(
        broken_at_the_end(then(done, [update_admitted("u")])),
        Some(Rule::AdmittedLate)
    );
}

#[test]
fn an_update_is_accepted_once_by_a_completed_task() {
    let accepted = || after_turn([update_accepted("u", 1)]);
    assert_eq!(
        broken_at_the_end(then(accepted(), [update_accepted("u", 1)])),
        Some(Rule::AcceptedTwice)
    );
    let done = then(accepted(), [update_completed("u")]);
    assert_eq!(
        broken_at_the_end(then(done, turn([update_accepted("u", 6)]))),
        Some(Rule::AcceptedTwice)
    );
    assert_eq!(
        broken_at_the_end(vec![started(), update_accepted("u", 1)]),
        Some(Rule::CommandPlace)
    );
}

#[test]
fn an_update_completes_once_and_only_if_it_was_accepted() {
    assert_eq!(
        broken_at_the_end(after_turn([update_completed("u")])),
        Some(Rule::NeverAccepted)
    );
    assert_eq!(
        broken_at_the_end(then(admitted(), [update_completed("u")])),
        Some(Rule::NeverAccepted)
    );
    let done = after_turn([update_accepted("u", 1), update_completed("u")]);
    assert_eq!(
        broken_at_the_end(then(done, [update_failed("u")])),
        Some(Rule::OutcomeTwice)
    );
}

#[test]
fn the_request_of_an_accepted_update_is_written_once() {
    assert_eq!(
        broken_at_the_end(after_turn([admitted_update_accepted("u", 1)])),
        Some(Rule::UpdateRequest)
    );
    assert_eq!(
        broken_at_the_end(then(admitted(), [update_accepted("u", 2)])),
        Some(Rule::UpdateRequest)
    );
}

#[test]
fn an_accepted_update_came_in_before_its_task_started() {
    // Started, TaskScheduled, TaskStarted, TaskCompleted, UpdateAccepted.
    for behind in [0, 3, 4, 5, 6] {
        assert_eq!(
            broken_at_the_end(after_turn([update_accepted("u", behind)])),
            Some(Rule::UpdateBehind),
            "behind {behind}"
        );
    }
    // A task that failed is not the one that accepted it.
    let retried = vec![
        started(),
        task_scheduled(1),
        EventKind::TaskStarted,
        task_failed(),
    ];
    let kinds = then(retried, turn([update_accepted("u", 4)]));
    assert_eq!(verdict(kinds), None);
}

#[test]
fn a_patch_is_recorded_once() {
    assert_eq!(verdict(after_turn([patched("a"), patched("b")])), None);
    assert_eq!(
        broken_at_the_end(then(after_turn([patched("a")]), turn([patched("a")]))),
        Some(Rule::PatchTwice)
    );
    assert_eq!(
        broken_at_the_end(vec![started(), patched("a")]),
        Some(Rule::CommandPlace)
    );
}

#[test]
fn going_on_as_a_new_run_is_an_end() {
    assert_eq!(verdict(after_turn([continued_as_new()])), None);
    assert_eq!(
        broken_at_the_end(after_turn([continued_as_new(), signaled("a")])),
        Some(Rule::Closed)
    );
    assert_eq!(
        broken_at_the_end(vec![started(), continued_as_new()]),
        Some(Rule::CommandPlace)
    );
    assert_eq!(
        verdict(then(vec![continued_child()], turn([completed()]))),
        None
    );
}

#[test]
fn news_of_others_does_not_come_in_the_middle_of_a_slice() {
    let news = [
        child_started(1),
        child_completed(1),
        signal_delivered(1),
        cancel_delivered(OTHER),
        update_admitted("u"),
    ];
    for kind in news {
        let kinds = vec![started(), task_scheduled(1), EventKind::TaskStarted, kind];
        assert_eq!(broken_at_the_end(kinds), Some(Rule::TaskOutcome));
    }
}
