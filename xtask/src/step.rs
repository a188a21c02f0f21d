//! One step of a plan: run it, time it, stop at the first that fails.

use std::process::Command;
use std::time::{Duration, Instant};

/// An environment variable and its value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Knob<'a>(pub(crate) &'static str, pub(crate) &'a str);

/// Something that must succeed.
pub(crate) struct Step<'a> {
    pub(crate) name: &'static str,
    pub(crate) action: Action<'a>,
    pub(crate) env: &'static [Knob<'static>],
}

/// How a step is carried out.
pub(crate) enum Action<'a> {
    /// Cargo with these arguments.
    Cargo(&'static [&'static str]),
    /// Cargo with these arguments and those of the command line.
    CargoWith(&'static [&'static str], &'a [&'a str]),
    /// In this process.
    Check(fn() -> Result<(), Skip>),
}

/// Why a check did not succeed.
pub(crate) enum Skip {
    /// What it needs is not installed; that is no failure.
    NotHere(&'static str),
    /// It failed.
    Failed(String),
}

/// Runs all steps, and then says where the time went.
pub(crate) fn run_all(steps: &[Step<'_>], knobs: &[Knob<'_>]) -> Result<(), String> {
    let mut times: Vec<(&str, Duration)> = Vec::new();
    for step in steps {
        times.push((step.name, timed(step, knobs)?));
    }
    println!();
    for (name, time) in &times {
        println!("{:>8.1} s  {name}", time.as_secs_f64());
    }
    let all: Duration = times.iter().map(|(_, time)| *time).sum();
    println!(
        "{:>8.1} s  in all: {} steps, none failed",
        all.as_secs_f64(),
        times.len()
    );
    Ok(())
}

/// Runs one step.
pub(crate) fn run_one(step: &Step<'_>, knobs: &[Knob<'_>]) -> Result<(), String> {
    timed(step, knobs).map(|_| ())
}

fn timed(step: &Step<'_>, knobs: &[Knob<'_>]) -> Result<Duration, String> {
    println!("== {}", step.name);
    let begin = Instant::now();
    let outcome = match step.action {
        Action::Cargo(args) => cargo(args, &merged(step, knobs)).map_err(Skip::Failed),
        Action::CargoWith(args, rest) => {
            cargo(&[args, rest].concat(), &merged(step, knobs)).map_err(Skip::Failed)
        }
        Action::Check(check) => check(),
    };
    let time = begin.elapsed();
    match outcome {
        Ok(()) => println!("== {}: ok, {:.1} s", step.name, time.as_secs_f64()),
        Err(Skip::NotHere(why)) => println!("== {}: skipped, {why}", step.name),
        Err(Skip::Failed(why)) => return Err(format!("== {}: FAILED\n{why}", step.name)),
    }
    Ok(time)
}

/// What a person set in the environment wins over the plan.
fn merged<'a>(step: &Step<'_>, knobs: &[Knob<'a>]) -> Vec<Knob<'a>> {
    let given = |knob: &Knob<'_>| std::env::var_os(knob.0).is_some();
    let planned = knobs.iter().copied().filter(|knob| !given(knob));
    step.env.iter().copied().chain(planned).collect()
}

/// Runs the cargo that runs us.
pub(crate) fn cargo(args: &[&str], knobs: &[Knob<'_>]) -> Result<(), String> {
    let program = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let mut command = Command::new(program);
    command
        .args(args)
        .envs(knobs.iter().map(|knob| (knob.0, knob.1)));
    let told = format!("cargo {}", args.join(" "));
    let status = command.status().map_err(|e| format!("{told}: {e}"))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("{told}: {status}"))
    }
}
