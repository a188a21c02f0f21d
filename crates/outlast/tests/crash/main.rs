//! A crash at every store call, over named scenarios, on the real SQLite store.
//!
//! For each scenario the calls of a clean run are counted; then, for every call and every way to
//! fail there, the process is cut off at that call, what is on its disk is opened by a new one,
//! the client repeats what was not acknowledged, and the judge compares what was acknowledged,
//! what was done and what is recorded. Virtual time: a pause costs nothing.

#[path = "../support/mod.rs"]
mod support;

mod client;
mod judge;
mod life;
mod script;
mod world;

use life::{Cut, Fate, live};
use outlast_service::faulty::{Fault, Lie};
use script::{SCENARIOS, Scenario};
use support::cached;

/// Scenarios short enough for a second crash at every call of the recovery.
const TWICE: [&str; 6] = [
    "one activity",
    "attempts, one",
    "signals",
    "step",
    "cancel with clean-up",
    "undo",
];

/// The two ways to die at a call.
const KILLS: [Cut; 2] = [Cut::Crash(Fault::Before), Cut::Crash(Fault::After)];

/// Runs the scenario once for every call and fault.
fn cut_everywhere(scenario: &Scenario, faults: &[Cut]) {
    let clean = live(scenario, &[], Lie::None);
    let complaints = judge::judge(scenario, &clean, None);
    assert!(complaints.is_empty(), "{}: {complaints:#?}", scenario.name);
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
    // How commits are cut depends on timing, so that a late call may not come; most must.
    assert!(
        u64::from(deaths) >= clean.calls,
        "{deaths} deaths at {} calls",
        clean.calls
    );
}

fn scenario(name: &str) -> &'static Scenario {
    let found = SCENARIOS.iter().find(|scenario| scenario.name == name);
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
            for scenario in SCENARIOS {
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
}

#[test]
fn with_nothing_in_memory_it_is_the_same() {
    for scenario in SCENARIOS {
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
fn the_judge_finds_a_store_that_loses() {
    for name in ["one activity", "signals", "sequence"] {
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
    for name in ["one activity", "timers", "step"] {
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
