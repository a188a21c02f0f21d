//! The law of the runtime, for random programs: live = replay from zero = rebuilt after any
//! slice = any beginning continued live = slow path. The same commands, the same winners, the
//! same final state, whatever the program and whatever happens to it.
//!
//! `OUTLAST_PROGRAMS` says how many programs run; `OUTLAST_PROGRAM` runs one and prints it. A
//! program that fails is made small first, and printed with the command that repeats it.
#![expect(clippy::print_stdout, reason = "a program is told to a person")]
#![allow(
    unreachable_pub,
    clippy::wildcard_enum_match_arm,
    reason = "a test binary; its world looks for what it knows"
)]

mod ast;
mod bench;
mod code;
mod desk;
mod handler;
mod judge;
mod make;
mod marker;
#[cfg(feature = "planted")]
mod planted;
#[path = "../sim/rng.rs"]
#[allow(dead_code, reason = "shared with the simulator")]
mod rng;
mod shrink;
mod world;

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use ast::Program;
use judge::judge;

/// Failing programs after which the rest is not worth waiting for.
const TELLING: usize = 3;
/// So many programs meet everything there is to meet.
const ENOUGH: u64 = 5_000;

fn knob(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Panics that programs ask for are expected; everybody else's are told.
fn hush() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let text = info.payload().downcast_ref::<String>();
        let text = text.map(String::as_str);
        let text = text.or(info.payload().downcast_ref::<&str>().copied());
        if text != Some(desk::PANIC) {
            usual(info);
        }
    }));
}

/// What all programs together have shown.
#[derive(Default)]
struct Findings {
    seen: BTreeSet<&'static str>,
    replays: u64,
    failures: Vec<String>,
}

#[test]
fn live_is_replay_is_rebuilt_is_slow() {
    if std::env::var_os("OUTLAST_PROGRAM_BUG").is_some() {
        return;
    }
    hush();
    if let Some(seed) = knob("OUTLAST_PROGRAM") {
        let program = make::program(seed);
        println!("{program}");
        return judge(&program)
            .map(drop)
            .unwrap_or_else(|why| panic!("{why}"));
    }
    let programs = knob("OUTLAST_PROGRAMS").unwrap_or(2_000);
    let findings = run_all(programs);
    assert!(
        findings.failures.is_empty(),
        "\n{}",
        findings.failures.join("\n")
    );
    println!("{programs} programs, {} replays", findings.replays);
    if programs < ENOUGH {
        return;
    }
    let missing: Vec<&&str> = marker::ALL
        .iter()
        .filter(|name| !findings.seen.contains(**name))
        .collect();
    assert!(missing.is_empty(), "never happened: {missing:?}");
    assert!(
        findings.replays > programs,
        "every program was replayed without a false alarm"
    );
}

/// All programs, on two threads: a program knows only its own.
fn run_all(programs: u64) -> Findings {
    let next = AtomicU64::new(0);
    let findings = Mutex::new(Findings::default());
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            let is_over = findings.lock().expect("not poisoned").failures.len() >= TELLING;
            if seed >= programs || is_over {
                break;
            }
            let judged = judge(&make::program(seed)).map_err(|why| told(seed, why));
            let mut findings = findings.lock().expect("not poisoned");
            match judged {
                Ok(verdict) => findings.replays += verdict.replays,
                Err(failure) => findings.failures.push(failure),
            }
        }
        let mut findings = findings.lock().expect("not poisoned");
        findings.seen.extend(desk::take_seen());
    };
    std::thread::scope(|scope| {
        scope.spawn(work);
        scope.spawn(work);
    });
    findings.into_inner().expect("not poisoned")
}

/// A failing program, made small.
fn told(seed: u64, why: String) -> String {
    let fails = |program: &Program| judge(program).err();
    let (program, why) = shrink::shrink(&make::program(seed), why, &fails);
    format!("program {seed}: {why}\n{program}repeat with: cargo xtask program --seed {seed}")
}
