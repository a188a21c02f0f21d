//! One bad history per rule, and the shapes that must pass.

mod between;

use outlast_model::EventKind::{self, TaskCompleted, TaskStarted};
use outlast_model::grammar::{Rule, check};
use outlast_model::{EventId, Timestamp};

use crate::samples::{
    activity_cancel_requested, activity_canceled, activity_completed, activity_failed,
    activity_scheduled, activity_started, activity_timed_out, cancel_requested, completed, failed,
    history, signaled, started, step_completed, task_failed, task_scheduled, terminated,
    timer_canceled, timer_fired, timer_started,
};

/// A run whose first turn gave these commands.
fn after_turn(commands: impl IntoIterator<Item = EventKind>) -> Vec<EventKind> {
    let mut kinds = vec![started(), task_scheduled(1), TaskStarted, TaskCompleted];
    kinds.extend(commands);
    kinds
}

fn then(mut kinds: Vec<EventKind>, more: impl IntoIterator<Item = EventKind>) -> Vec<EventKind> {
    kinds.extend(more);
    kinds
}

/// One more turn with these commands.
fn turn(commands: impl IntoIterator<Item = EventKind>) -> Vec<EventKind> {
    then(
        vec![task_scheduled(1), TaskStarted, TaskCompleted],
        commands,
    )
}

/// The first break of a rule, as `event: rule`.
fn verdict(kinds: Vec<EventKind>) -> Option<(u64, Rule)> {
    check(&history(kinds)).err().map(|v| (v.event.0, v.rule))
}

#[test]
fn every_legal_shape_passes() {
    let good: Vec<(&str, Vec<EventKind>)> = vec![
        ("started only", vec![started()]),
        ("a task waits", vec![started(), task_scheduled(1)]),
        (
            "messages while a task waits",
            vec![started(), task_scheduled(1), signaled("a")],
        ),
        ("an empty turn", after_turn([])),
        ("one activity", then(one_activity(), turn([completed()]))),
        ("a failed task is scheduled anew", failed_then_retried()),
        (
            "messages behind the commands",
            then(after_turn([timer_started(1)]), [signaled("a")]),
        ),
        ("cancelled before it started", cancelled_activity([])),
        (
            "cancelled while it ran",
            cancelled_activity([activity_started(1)]),
        ),
        ("timed out before it started", timed_out_activity()),
        (
            "a timer fired",
            then(after_turn([timer_started(1)]), [timer_fired(1)]),
        ),
        (
            "a timer cancelled",
            then(after_turn([timer_started(1)]), turn([timer_canceled(1)])),
        ),
        (
            "kinds count on their own",
            after_turn([activity_scheduled(1), timer_started(1), step_completed(1)]),
        ),
        (
            "asked to stop, and did",
            then(
                vec![started(), cancel_requested()],
                turn([EventKind::Canceled]),
            ),
        ),
        ("an error", after_turn([failed()])),
        ("terminated at once", vec![started(), terminated()]),
        (
            "out of time while a task waits",
            vec![started(), task_scheduled(1), EventKind::TimedOut],
        ),
        (
            "terminated right behind a turn",
            after_turn([timer_started(1), terminated()]),
        ),
    ];
    for (name, kinds) in good {
        assert_eq!(verdict(kinds), None, "{name}");
    }
}

fn one_activity() -> Vec<EventKind> {
    then(
        after_turn([activity_scheduled(1)]),
        [activity_started(1), activity_completed(1)],
    )
}

fn failed_then_retried() -> Vec<EventKind> {
    let failed = [
        started(),
        task_scheduled(1),
        TaskStarted,
        task_failed(),
        signaled("a"),
    ];
    then(
        failed.into(),
        [task_scheduled(2), TaskStarted, TaskCompleted, completed()],
    )
}

fn cancelled_activity(attempt: impl IntoIterator<Item = EventKind>) -> Vec<EventKind> {
    let asked = then(
        after_turn([activity_scheduled(1)]),
        turn([activity_cancel_requested(1)]),
    );
    then(then(asked, attempt), [activity_canceled(1)])
}

fn timed_out_activity() -> Vec<EventKind> {
    then(after_turn([activity_scheduled(1)]), [activity_timed_out(1)])
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table, one row per rule")]
fn the_order_of_events_is_held() {
    let bad: Vec<(&str, Vec<EventKind>, u64, Rule)> = vec![
        ("nothing at all", vec![], 1, Rule::StartedOnce),
        ("a message first", vec![signaled("a")], 1, Rule::StartedOnce),
        (
            "started twice",
            vec![started(), started()],
            2,
            Rule::StartedOnce,
        ),
        (
            "two tasks",
            vec![started(), task_scheduled(1), task_scheduled(1)],
            3,
            Rule::OneTask,
        ),
        (
            "attempt zero",
            vec![started(), task_scheduled(0)],
            2,
            Rule::AttemptNumber,
        ),
        (
            "a start of no task",
            vec![started(), TaskStarted],
            2,
            Rule::TaskStart,
        ),
        (
            "an outcome of no task",
            vec![started(), TaskCompleted],
            2,
            Rule::TaskOutcome,
        ),
        (
            "no start",
            vec![started(), task_scheduled(1), TaskCompleted],
            3,
            Rule::TaskOutcome,
        ),
        (
            "no outcome",
            vec![started(), task_scheduled(1), TaskStarted],
            4,
            Rule::TaskOutcome,
        ),
        (
            "news in a slice",
            vec![started(), task_scheduled(1), TaskStarted, signaled("a")],
            4,
            Rule::TaskOutcome,
        ),
        (
            "an end in a slice",
            vec![started(), task_scheduled(1), TaskStarted, terminated()],
            4,
            Rule::TaskOutcome,
        ),
        (
            "a command of no task",
            vec![started(), timer_started(1)],
            2,
            Rule::CommandPlace,
        ),
        (
            "a command of a failed task",
            failed_task_with_command(),
            5,
            Rule::CommandPlace,
        ),
        (
            "a command behind news",
            then(after_turn([]), [signaled("a"), timer_started(1)]),
            6,
            Rule::CommandPlace,
        ),
        (
            "an end nobody asked for",
            vec![started(), completed()],
            2,
            Rule::CommandPlace,
        ),
        (
            "failed, then started",
            failed_task_started_again(),
            5,
            Rule::TaskStart,
        ),
        (
            "news behind the end",
            after_turn([completed(), signaled("a")]),
            6,
            Rule::Closed,
        ),
        (
            "two ends",
            after_turn([completed(), terminated()]),
            6,
            Rule::Closed,
        ),
    ];
    for (name, kinds, event, rule) in bad {
        assert_eq!(verdict(kinds), Some((event, rule)), "{name}");
    }
}

fn failed_task_with_command() -> Vec<EventKind> {
    vec![
        started(),
        task_scheduled(1),
        TaskStarted,
        task_failed(),
        timer_started(1),
    ]
}

fn failed_task_started_again() -> Vec<EventKind> {
    vec![
        started(),
        task_scheduled(1),
        TaskStarted,
        task_failed(),
        TaskStarted,
    ]
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table, one row per rule")]
fn every_operation_lives_once() {
    let scheduled = || after_turn([activity_scheduled(1)]);
    let timer = || after_turn([timer_started(1)]);
    let asked = || then(scheduled(), turn([activity_cancel_requested(1)]));
    let bad: Vec<(&str, Vec<EventKind>, u64, Rule)> = vec![
        (
            "activity twice",
            after_turn([activity_scheduled(1), activity_scheduled(1)]),
            6,
            Rule::SeqTwice,
        ),
        (
            "timer twice",
            after_turn([timer_started(1), timer_started(1)]),
            6,
            Rule::SeqTwice,
        ),
        (
            "step twice",
            after_turn([step_completed(1), step_completed(1)]),
            6,
            Rule::SeqTwice,
        ),
        (
            "unknown attempt",
            then(scheduled(), [activity_started(2)]),
            6,
            Rule::NeverScheduled,
        ),
        (
            "unknown outcome",
            then(scheduled(), [activity_timed_out(2)]),
            6,
            Rule::NeverScheduled,
        ),
        (
            "unknown cancel",
            after_turn([activity_cancel_requested(1)]),
            5,
            Rule::NeverScheduled,
        ),
        (
            "unknown timer",
            then(timer(), [timer_fired(2)]),
            6,
            Rule::NeverScheduled,
        ),
        (
            "cancel of unknown timer",
            after_turn([timer_canceled(1)]),
            5,
            Rule::NeverScheduled,
        ),
        (
            "completed by nobody",
            then(scheduled(), [activity_completed(1)]),
            6,
            Rule::NoAttempt,
        ),
        (
            "failed by nobody",
            then(scheduled(), [activity_failed(1)]),
            6,
            Rule::NoAttempt,
        ),
        (
            "started, then news",
            then(scheduled(), [activity_started(1), signaled("a")]),
            7,
            Rule::AttemptOutcome,
        ),
        (
            "started, then another",
            two_attempts(),
            8,
            Rule::AttemptOutcome,
        ),
        (
            "started, then nothing",
            then(scheduled(), [activity_started(1)]),
            7,
            Rule::AttemptOutcome,
        ),
        (
            "started twice",
            then(scheduled(), [activity_started(1), activity_started(1)]),
            7,
            Rule::AttemptOutcome,
        ),
        (
            "second outcome",
            then(one_activity(), [activity_timed_out(1)]),
            8,
            Rule::OutcomeTwice,
        ),
        (
            "second attempt",
            then(one_activity(), [activity_started(1)]),
            8,
            Rule::OutcomeTwice,
        ),
        (
            "cancel of an ended one",
            then(one_activity(), turn([activity_cancel_requested(1)])),
            11,
            Rule::OutcomeTwice,
        ),
        (
            "cancel twice",
            then(asked(), turn([activity_cancel_requested(1)])),
            13,
            Rule::CancelTwice,
        ),
        (
            "cancelled unasked",
            then(scheduled(), [activity_canceled(1)]),
            6,
            Rule::CanceledUnasked,
        ),
        (
            "timer fired twice",
            then(timer(), [timer_fired(1), timer_fired(1)]),
            7,
            Rule::OutcomeTwice,
        ),
        (
            "timer fired and cancelled",
            then(then(timer(), [timer_fired(1)]), turn([timer_canceled(1)])),
            10,
            Rule::OutcomeTwice,
        ),
        (
            "a request twice",
            vec![started(), signaled("a"), signaled("a")],
            3,
            Rule::RequestTwice,
        ),
    ];
    for (name, kinds, event, rule) in bad {
        assert_eq!(verdict(kinds), Some((event, rule)), "{name}");
    }
}

fn two_attempts() -> Vec<EventKind> {
    let scheduled = after_turn([activity_scheduled(1), activity_scheduled(2)]);
    then(scheduled, [activity_started(1), activity_completed(2)])
}

#[test]
fn ids_and_times_are_held() {
    let mut gap = history([started(), task_scheduled(1)]);
    gap[1].id = EventId(3);
    assert_eq!(check(&gap).map_err(|v| v.rule), Err(Rule::DenseIds));

    let mut late = history([started(), task_scheduled(1)]);
    late[0].id = EventId(0);
    assert_eq!(check(&late).map_err(|v| v.rule), Err(Rule::DenseIds));

    let mut back = history([started(), task_scheduled(1)]);
    back[1].time = Timestamp(back[0].time.0 - 1);
    assert_eq!(check(&back).map_err(|v| v.rule), Err(Rule::Time));
}

#[test]
fn a_violation_names_event_and_rule() {
    let violation = check(&history([started(), completed()])).expect_err("an end nobody asked for");
    assert_eq!(
        violation.to_string(),
        "event 2 (WorkflowExecutionCompleted): commands come right behind TaskCompleted"
    );
}
