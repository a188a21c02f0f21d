//! Ten thousand worlds: the engine, the runtime and the model store under seeds, with virtual
//! time, crashes, lost replies, small caches and clocks that jump.
//!
//! `OUTLAST_SIM_SEEDS` says how many seeds run; `OUTLAST_SIM_SEED` runs one and tells all about
//! it; `OUTLAST_SIM_BUG` plants a bug first, which must then be found. A seed that fails says how
//! to repeat it.
#![expect(clippy::print_stdout, reason = "a seed is told to a person")]

#[path = "sim/found.rs"]
mod found;
#[path = "sim/found_between.rs"]
mod found_between;
#[path = "sim/found_read.rs"]
mod found_read;
#[path = "sim/found_room.rs"]
mod found_room;
mod sim;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use sim::driver::{Report, Simulation};
use sim::marker::Markers;

/// Failing seeds after which the rest is not worth waiting for.
const TELLING: usize = 5;
/// So many seeds reach every situation.
const ENOUGH: u64 = 5_000;

fn knob(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn has_bug() -> bool {
    std::env::var_os("OUTLAST_SIM_BUG").is_some()
}

/// Runs one seed; code that panics is as wrong as code that lies.
fn run(seed: u64, is_told: bool) -> Result<Report, String> {
    let ran = catch_unwind(AssertUnwindSafe(|| Simulation::new(seed, is_told).run()));
    ran.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        Err(format!("panicked: {}", text.unwrap_or_default()))
    })
}

/// Some seeds run twice: the same seed must be the same world.
fn run_guarded(seed: u64) -> Result<Report, String> {
    let report = run(seed, false)?;
    if seed.is_multiple_of(100) && run(seed, false)?.hash != report.hash {
        return Err("the same seed gave another world".into());
    }
    Ok(report)
}

/// Injected panics are expected; everybody else's are told.
fn hush() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let is_ours = info
            .payload()
            .downcast_ref::<String>()
            .is_some_and(|text| text == sim::program::PANIC);
        if !is_ours {
            usual(info);
        }
    }));
}

#[test]
fn nothing_goes_wrong_whatever_happens() {
    if has_bug() {
        return;
    }
    hush();
    if let Some(seed) = knob("OUTLAST_SIM_SEED") {
        let report = run(seed, true).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
        println!("seed {seed}: hash {:016x}", report.hash);
        return;
    }
    let seeds = knob("OUTLAST_SIM_SEEDS").unwrap_or(10_000);
    let (markers, failures) = run_all(seeds);
    let told: Vec<String> = failures
        .iter()
        .map(|(seed, why)| {
            format!("seed {seed}: {why}\n  repeat with: cargo xtask sim --seed {seed}")
        })
        .collect();
    assert!(told.is_empty(), "\n{}", told.join("\n"));
    let missing = markers.missing();
    assert!(
        seeds < ENOUGH || missing.is_empty(),
        "never happened in {seeds} seeds: {missing:?}"
    );
}

/// All seeds, on two threads: a simulation knows only its own.
fn run_all(seeds: u64) -> (Markers, Vec<(u64, String)>) {
    let next = AtomicU64::new(0);
    let (markers, failures) = (Mutex::new(Markers::default()), Mutex::new(Vec::new()));
    let work = || {
        while failures.lock().expect("not poisoned").len() < TELLING {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds {
                return;
            }
            match run_guarded(seed) {
                Ok(report) => markers.lock().expect("not poisoned").merge(&report.markers),
                Err(why) => failures.lock().expect("not poisoned").push((seed, why)),
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(work);
        scope.spawn(work);
    });
    (
        markers.into_inner().expect("not poisoned"),
        failures.into_inner().expect("not poisoned"),
    )
}

/// Shows that silence means something: each bug is planted in a process of its own, since the
/// switch is global, and must be found.
#[cfg(feature = "planted")]
mod planted {
    use super::{hush, knob, run};
    use outlast_model::planted::{Bug, plant};

    /// Seeds within which a planted bug must show.
    const HUNT: u64 = 10_000;

    #[test]
    fn every_planted_bug_is_found() {
        let Ok(name) = std::env::var("OUTLAST_SIM_BUG") else {
            if knob("OUTLAST_SIM_SEED").is_none() {
                Bug::ALL.into_iter().for_each(hunt_apart);
            }
            return;
        };
        let bug = Bug::ALL
            .into_iter()
            .find(|bug| format!("{bug:?}").eq_ignore_ascii_case(&name))
            .unwrap_or_else(|| panic!("no bug is called {name}; there are {:?}", Bug::ALL));
        hush();
        plant(Some(bug));
        let seeds = match knob("OUTLAST_SIM_SEED") {
            Some(seed) => seed..=seed,
            None => 0..=HUNT,
        };
        let is_told = seeds.clone().count() == 1;
        let found = seeds
            .clone()
            .find_map(|seed| run(seed, is_told).err().map(|why| (seed, why)));
        let Some((seed, why)) = found else {
            panic!("{bug:?} was not found in {seeds:?}");
        };
        println!(
            "{bug:?} found: {why}\n  repeat with: cargo xtask sim --seed {seed} --bug {bug:?}"
        );
    }

    fn hunt_apart(bug: Bug) {
        let me = std::env::current_exe().expect("a test has a program");
        let hunted = std::process::Command::new(me)
            .args([
                "--exact",
                "planted::every_planted_bug_is_found",
                "--nocapture",
            ])
            .env("OUTLAST_SIM_BUG", format!("{bug:?}"))
            .output()
            .expect("a test can run itself");
        let text = String::from_utf8_lossy(&hunted.stdout);
        let told = text.lines().find(|line| line.contains("found:"));
        println!("{}", told.unwrap_or_default());
        assert!(hunted.status.success(), "{bug:?} was not found:\n{text}");
    }
}
