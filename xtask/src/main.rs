//! The words a newcomer needs: `test`, `bless`, `sim`, `program`, `temporal`, `compare`,
//! `versus`, `power`, `torture`.
//!
//! `cargo xtask test` is what every change must pass, here and on the build machine. It needs
//! nothing but a toolchain: what is not installed (a target without std, cargo-deny) is replaced
//! or skipped, and said so.
//!
//! The list of what runs is in [`plan`]; this file only reads the command line.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line tool"
)]

mod compare;
mod docs;
mod lanes;
mod licence;
mod lint;
mod plan;
mod power;
mod python;
mod shuttle;
mod step;
mod suites;
mod temporal;
mod temporal_tool;
mod versus;

use std::path::Path;
use std::process::ExitCode;
use std::thread;
use std::time::Instant;

use docs::Scribe;
use lanes::Job;
use lint::Linter;
use shuttle::Weaver;
use step::{Knob, Output, Skip, Step};
use suites::Suite;
use temporal::Server;

const USAGE: &str = "\
usage: cargo xtask <word>

  test [--full]              everything a change must pass; --full turns the knobs up
  bless [cargo test args]    rewrite snapshots and compile-fail texts, add missing golden files
  sim --seed N [--bug NAME]  repeat one simulated run, or let it find one planted bug
  program --seed N           repeat one random program, printed
  temporal                   start a Temporal server as the tests do, until enter is pressed
  compare                    Outlast beside the official SDK on one Temporal server
  power [--images N]         disks as power cuts could leave them, each opened and judged;
                             --scenario NAME --seed N --cut N --throw N repeat one of them
  versus COMMIT [WORKLOAD..] what the present tree costs beside that commit
  torture                    crash and kill tests with the knobs turned up";

fn main() -> ExitCode {
    if let Some(done) = docs::stand_in().or_else(shuttle::stand_in) {
        return done;
    }
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let outcome = enter_root().and_then(|()| run(&words));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

/// Cargo runs us where the caller stands; every path in the plan starts at the root.
fn enter_root() -> Result<(), String> {
    let package = std::env::var("CARGO_MANIFEST_DIR").map_err(|_| "run me as `cargo xtask`")?;
    let root = Path::new(&package)
        .parent()
        .ok_or("xtask lies in no workspace")?;
    std::env::set_current_dir(root).map_err(|e| format!("{}: {e}", root.display()))
}

fn run(words: &[&str]) -> Result<(), String> {
    match words {
        ["test"] => test(plan::USUAL, None),
        ["test", "--full"] => full(),
        ["temporal"] => serve(),
        ["compare"] => compare::run(),
        ["bless", rest @ ..] => alone(&plan::bless(rest), &[]),
        ["sim", rest @ ..] => sim(rest),
        ["program", "--seed", seed] => {
            let knob = seed_knob("OUTLAST_PROGRAM", seed)?;
            alone(&plan::program(), &[knob])
        }
        ["power", rest @ ..] => power::run(rest),
        ["versus", commit, workloads @ ..] => versus::run(commit, workloads),
        ["torture"] => step::run_all(plan::TORTURE, plan::FULL).map(drop),
        _ => Err(USAGE.into()),
    }
}

/// The long forms, other languages too, and then the comparison.
fn full() -> Result<(), String> {
    let python = python::find()?;
    test(plan::FULL, python.as_deref())?;
    alone(&plan::PAGES, &[])?;
    compare::run()
}

fn alone(step: &Step<'_>, knobs: &[Knob<'_>]) -> Result<(), String> {
    step::run_one(step, knobs).map(drop)
}

/// Everything, with a Temporal server beside the suites if there can be one. It may have to be built
/// first, which takes as long as building the suites.
fn test(knobs: &[Knob<'static>], python: Option<&str>) -> Result<(), String> {
    let begin = Instant::now();
    let mut times = step::run_all(plan::FIRST, &[])?;
    let (linter, scribe, weaver) = (Linter::find()?, Scribe::find()?, Weaver::find()?);
    let once = plan::ONCE.iter().filter(|_| temporal::is_build_machine());
    let once: Vec<Knob<'_>> = once.copied().collect();
    let (server, built) = thread::scope(|scope| {
        let server = scope.spawn(Server::find);
        let built = suites::build(&[plan::BUILD, plan::PROFILE].concat(), &linter.with(&once));
        (server.join(), built)
    });
    let server = server.map_err(|_| "the search for a server panicked")??;
    let (suites, time) = built?;
    times.push(("build".into(), time));
    let told = server.iter().flat_map(Server::knobs);
    let python = python.map(|path| Knob(python::PYTHON, path));
    let knobs = knobs.iter().copied().chain(once);
    let knobs: Vec<Knob<'_>> = knobs.chain(told).chain(python).collect();
    let is_waiting = |suite: &&Suite| plan::WAITING.contains(&suite.name.as_str());
    let (waiting, mut busy): (Vec<&Suite>, Vec<&Suite>) = suites.iter().partition(is_waiting);
    let place = |suite: &&Suite| plan::LONGEST.iter().position(|name| *name == suite.name);
    busy.sort_by_key(|suite| place(suite).unwrap_or(plan::LONGEST.len()));
    let suite = |suite| of_suite(suite, &knobs);
    let checked = scribe.with(&linter.with(&knobs));
    let woven = weaver.with(&knobs);
    let checks = plan::CHECKS.iter().map(|step| of_step(step, &checked));
    let row = checks.chain([of_interleavings(&woven)]);
    times.extend(lanes::run(
        busy.into_iter().map(suite).collect(),
        row.collect(),
        waiting.into_iter().map(suite).collect(),
    )?);
    step::tell_times(&times, begin.elapsed());
    Ok(())
}

fn of_step<'a>(step: &'a Step<'a>, knobs: &'a [Knob<'a>]) -> Job<'a> {
    Job {
        name: step.name.into(),
        work: Box::new(move |log| step::act(step, knobs, Output::Kept(log))),
    }
}

fn of_interleavings<'a>(knobs: &'a [Knob<'a>]) -> Job<'a> {
    let Job { name, work } = of_step(&plan::INTERLEAVINGS, knobs);
    let work = move |log: &Path| work(log).and_then(|()| shuttle::check_that_some_ran(log));
    Job {
        name,
        work: Box::new(work),
    }
}

fn of_suite<'a>(suite: &'a Suite, knobs: &'a [Knob<'a>]) -> Job<'a> {
    Job {
        name: suite.name.clone(),
        work: Box::new(move |log| {
            let knobs = step::merged(plan::TESTING, knobs);
            suite.run(&knobs, log).map_err(Skip::Failed)
        }),
    }
}

/// A Temporal server to try things on, until the input ends.
fn serve() -> Result<(), String> {
    let server = Server::find()?.ok_or("there is no Temporal server to start")?;
    println!("{}={}", temporal::ADDRESS, server.address());
    println!("press enter to stop it");
    let mut line = String::new();
    std::io::stdin()
        .read_line(&mut line)
        .map_err(|e| e.to_string())?;
    Ok(())
}

const SIM_SEED: &str = "OUTLAST_SIM_SEED";

fn sim(words: &[&str]) -> Result<(), String> {
    let knobs = match words {
        ["--seed", seed] => vec![seed_knob(SIM_SEED, seed)?],
        ["--seed", seed, "--bug", bug] => {
            vec![seed_knob(SIM_SEED, seed)?, Knob("OUTLAST_SIM_BUG", bug)]
        }
        _ => return Err(USAGE.into()),
    };
    alone(&plan::sim(), &knobs)
}

fn seed_knob<'a>(name: &'static str, seed: &'a str) -> Result<Knob<'a>, String> {
    match seed.parse::<u64>() {
        Ok(_) => Ok(Knob(name, seed)),
        Err(_) => Err(format!("--seed {seed:?} is not a number")),
    }
}
