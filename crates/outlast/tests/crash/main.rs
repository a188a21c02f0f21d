//! A crash at every store call, over named scenarios, on the real SQLite store.
//!
//! For each scenario the calls of a clean run are counted; then, for every call and every way to
//! fail there, the process is cut off at that call, what is on its disk is opened by a new one,
//! the client repeats what was not acknowledged, and the judge compares what was acknowledged,
//! what was done and what is recorded. Virtual time: a pause costs nothing.
#![allow(dead_code, reason = "some parts only the power suite uses")]

#[path = "../support/mod.rs"]
mod support;

mod client;
mod family;
mod judge;
mod life;
mod message;
mod outside;
mod script;
mod speech;
mod world;

use life::{Cut, Fate, live};
use outlast_service::faulty::{Fault, Lie};
use script::{Scenario, all};
use support::cached;

/// Scenarios short enough for a second crash at every call of the recovery.
const TWICE: [&str; 12] = [
    "one activity",
    "attempts, one",
    "signals",
    "step",
    "cancel with clean-up",
    "undo",
    "update",
    "update with start, and end",
    "new runs in a storm",
    "child",
    "signals between runs",
    "answer by token",
];

/// The two ways to die at a call.
const KILLS: [Cut; 2] = [Cut::Crash(Fault::Before), Cut::Crash(Fault::After)];

/// Runs the scenario once for every call and fault.
fn cut_everywhere(scenario: &Scenario, faults: &[Cut]) {
    let clean = live(scenario, &[], Lie::None);
    let complaints = judge::judge(scenario, &clean, None);
    assert!(
        complaints.is_empty(),
        "{}: {complaints:#?}\n{clean}",
        scenario.name
    );
    let mut deaths = 0;
    for call in 1..=clean.calls {
        for fault in faults {
            let story = live(scenario, &[Fate { call, cut: *fault }], Lie::None);
            let complaints = judge::judge(scenario, &story, Some(&clean));
            assert!(
                complaints.is_empty(),
                "{}, {fault:?} at call {call} of {}: {complaints:#?}\n{story}",
                scenario.name,
                clean.calls
            );
            deaths += story.deaths;
        }
    }
    // How commits are cut depends on timing, as does how often a client looks at a run, so that a
    // late call may not come; as many as half the commits must.
    assert!(
        2 * u64::from(deaths) >= clean.commits,
        "{deaths} deaths at {} commits",
        clean.commits
    );
}

fn scenario(name: &str) -> &'static Scenario {
    let found = all().find(|scenario| scenario.name == name);
    found.expect("a scenario of this name")
}

macro_rules! scenarios {
    ($($test:ident: $name:literal,)*) => {
        $(
            #[test]
            fn $test() {
                cut_everywhere(scenario($name), &Cut::ALL);
            }
        )*

        #[test]
        fn every_scenario_has_its_test() {
            let tested = [$($name),*];
            assert!(tested.len() >= 15);
            for scenario in all() {
                assert!(tested.contains(&scenario.name), "{}", scenario.name);
            }
        }
    };
}

scenarios! {
    one_activity: "one activity",
    a_sequence: "sequence",
    a_fan_out: "fan-out",
    timers: "timers",
    attempts_without_end: "attempts, no end",
    attempts_with_a_bound: "attempts, three",
    a_single_attempt: "attempts, one",
    an_attempt_that_is_handed_back: "attempts, handed back",
    heartbeats: "heartbeats",
    a_step: "step",
    a_step_with_retries: "step with retries",
    signals: "signals",
    handlers: "handlers",
    cancel_with_clean_up: "cancel with clean-up",
    terminate: "terminate",
    undo: "undo",
    run_timeout: "run timeout",
    id_reuse: "id reuse",
    duplicate_start: "duplicate start",
    replacing_start: "replacing start",
    a_race: "race",
    branches: "branches",
    failing_code: "failing code",
    many_runs: "many runs",
    nothing_cached: "nothing cached",
    few_slots: "few slots",
    poison: "poison",
    signal_with_start: "signal with start",
    signal_with_start_and_end: "signal with start, and end",
    an_update: "update",
    an_accepted_update: "update, accepted",
    a_rejected_update: "update, rejected",
    update_with_start: "update with start",
    update_with_start_and_end: "update with start, and end",
    an_update_whose_run_ends: "update and end",
    a_query: "query",
    promises: "promises",
    new_runs_in_a_storm: "new runs in a storm",
    new_runs_with_signals_left: "new runs with signals left",
    new_runs_with_updates: "new runs with updates",
    updates_of_runs_that_went_on: "updates of runs that went on",
    patches: "patches",
    a_child: "child",
    a_failing_child: "child, failed",
    a_cancelled_child: "child, cancelled",
    a_child_of_a_cancelled_parent: "child, parent cancelled",
    children_whose_parent_ends: "child, parent ends",
    a_child_of_a_terminated_parent: "child, parent terminated",
    a_child_whose_id_is_taken: "child, id taken",
    a_grandchild: "grandchild",
    a_child_in_new_runs: "child in new runs",
    signals_between_runs: "signals between runs",
    signals_to_nobody: "signals to nobody",
    cancel_between_runs: "cancel between runs",
    headers: "headers",
    two_that_play: "two that play",
    an_answer_by_token: "answer by token",
    a_failure_by_token: "failure by token",
    a_report_by_token_and_a_time_out: "report by token, and time out",
    an_answer_by_token_that_is_too_late: "answer by token, too late",
}

#[test]
fn with_nothing_in_memory_it_is_the_same() {
    for scenario in all() {
        let settings = || cached(0);
        cut_everywhere(
            &Scenario {
                settings,
                ..*scenario
            },
            &KILLS,
        );
    }
}

#[test]
fn a_second_crash_in_the_recovery_changes_nothing() {
    for name in TWICE {
        let scenario = scenario(name);
        let clean = live(scenario, &[], Lie::None);
        for (first, cut) in (1..=clean.calls).flat_map(|call| KILLS.map(|cut| (call, cut))) {
            let once = live(scenario, &[Fate { call: first, cut }], Lie::None);
            for (call, second) in (1..=once.calls).flat_map(|call| KILLS.map(|cut| (call, cut))) {
                let fates = [Fate { call: first, cut }, Fate { call, cut: second }];
                let story = live(scenario, &fates, Lie::None);
                let complaints = judge::judge(scenario, &story, Some(&clean));
                assert!(
                    complaints.is_empty(),
                    "{name}, {fates:?}: {complaints:#?}\n{story}"
                );
            }
        }
    }
}

#[test]
fn a_process_that_dies_while_it_stops_loses_no_more_than_any_other() {
    let deaths = [Fault::Before, Fault::After].map(Cut::DieStopping);
    for name in [
        "one activity",
        "attempts, one",
        "attempts, three",
        "attempts, handed back",
        "heartbeats",
        "step",
        "signals",
        "few slots",
    ] {
        let scenario = scenario(name);
        let clean = live(scenario, &[], Lie::None);
        for call in 1..=clean.calls {
            for cut in deaths {
                let story = live(scenario, &[Fate { call, cut }], Lie::None);
                let complaints = judge::judge(scenario, &story, Some(&clean));
                assert!(
                    complaints.is_empty(),
                    "{name}, {cut:?} at call {call}: {complaints:#?}\n{story}"
                );
            }
        }
    }
}

#[test]
fn the_judge_finds_a_store_that_loses() {
    for name in ["one activity", "signals", "sequence", "update", "child"] {
        let clean = live(scenario(name), &[], Lie::None);
        let story = live(scenario(name), &[], Lie::Loses { every: 2 });
        let complaints = judge::judge(scenario(name), &story, Some(&clean));
        let is_lost = |line: &String| line.starts_with("lost") || line.starts_with("stuck");
        assert!(
            complaints.iter().any(is_lost),
            "{name}: {complaints:?}\n{story}"
        );
    }
}

#[test]
fn the_judge_finds_a_store_that_doubles() {
    for name in ["one activity", "timers", "step", "update"] {
        let clean = live(scenario(name), &[], Lie::None);
        let story = live(scenario(name), &[], Lie::Doubles);
        let complaints = judge::judge(scenario(name), &story, Some(&clean));
        let is_doubled = |line: &String| line.starts_with("duplicated");
        assert!(
            complaints.iter().any(is_doubled),
            "{name}: {complaints:?}\n{story}"
        );
    }
}
