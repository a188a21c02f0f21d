//! One step of a plan: run it, time it, say how it went.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus};
use std::time::{Duration, Instant};

use crate::temporal::runs;

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

/// Where the output of something goes.
#[derive(Clone, Copy)]
pub(crate) enum Output<'a> {
    /// To whoever called us.
    Shown,
    /// To a file: several things run at once.
    Kept(&'a Path),
}

/// Steps and how long they took.
pub(crate) type Times = Vec<(String, Duration)>;

/// Runs all steps, one after the other, and stops at the first that fails.
pub(crate) fn run_all(steps: &[Step<'_>], knobs: &[Knob<'_>]) -> Result<Times, String> {
    let mut times = Times::new();
    for step in steps {
        times.push((step.name.into(), run_one(step, knobs)?));
    }
    Ok(times)
}

/// Runs one step.
pub(crate) fn run_one(step: &Step<'_>, knobs: &[Knob<'_>]) -> Result<Duration, String> {
    println!("== {}", step.name);
    let begin = Instant::now();
    let outcome = act(step, knobs, Output::Shown);
    let time = begin.elapsed();
    told(step.name, outcome, time)?;
    Ok(time)
}

/// Carries a step out.
pub(crate) fn act(step: &Step<'_>, knobs: &[Knob<'_>], output: Output<'_>) -> Result<(), Skip> {
    match step.action {
        Action::Cargo(args) => cargo(args, &merged(step.env, knobs), output).map_err(Skip::Failed),
        Action::CargoWith(args, rest) => {
            let args = [args, rest].concat();
            cargo(&args, &merged(step.env, knobs), output).map_err(Skip::Failed)
        }
        Action::Check(check) => check(),
    }
}

/// Says how something went.
pub(crate) fn told(name: &str, outcome: Result<(), Skip>, time: Duration) -> Result<(), String> {
    match outcome {
        Ok(()) => println!("== {name}: ok, {:.1} s", time.as_secs_f64()),
        Err(Skip::NotHere(why)) => println!("== {name}: skipped, {why}"),
        Err(Skip::Failed(why)) => return Err(format!("== {name}: FAILED\n{why}")),
    }
    Ok(())
}

/// Where the time went.
pub(crate) fn tell_times(times: &Times, all: Duration) {
    println!();
    for (name, time) in times {
        println!("{:>8.1} s  {name}", time.as_secs_f64());
    }
    println!(
        "{:>8.1} s  in all: {} steps, none failed",
        all.as_secs_f64(),
        times.len()
    );
}

/// What a person set in the environment wins over the plan.
pub(crate) fn merged<'a>(env: &[Knob<'static>], knobs: &[Knob<'a>]) -> Vec<Knob<'a>> {
    let given = |knob: &Knob<'_>| std::env::var_os(knob.0).is_some();
    let planned = knobs.iter().copied().filter(|knob| !given(knob));
    env.iter().copied().chain(planned).collect()
}

/// The cargo that runs us.
pub(crate) fn cargo_program() -> PathBuf {
    std::env::var_os("CARGO").map_or_else(|| "cargo".into(), PathBuf::from)
}

/// Another program of the toolchain: it lies beside cargo, or in the PATH.
pub(crate) fn toolchain_program(name: &str) -> Option<String> {
    let beside = cargo_program().with_file_name(name);
    let found = [beside, PathBuf::from(name)]
        .into_iter()
        .find(|program| runs(program, &["--version"]))?;
    Some(found.display().to_string())
}

/// Where we are, for cargo to call us in place of a program of the toolchain.
pub(crate) fn this_program() -> Result<String, String> {
    let program = std::env::current_exe().map_err(|e| format!("where am I? {e}"))?;
    Ok(program.display().to_string())
}

/// Whether this command succeeds; what it says is said.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    command.status().as_ref().is_ok_and(ExitStatus::success)
}

/// What a program that stands in for another says in the end.
pub(crate) fn exit_code(is_done: bool) -> ExitCode {
    if is_done {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Runs cargo.
pub(crate) fn cargo(args: &[&str], knobs: &[Knob<'_>], output: Output<'_>) -> Result<(), String> {
    let mut command = Command::new(cargo_program());
    command.args(args);
    run(
        &mut command,
        &format!("cargo {}", args.join(" ")),
        knobs,
        output,
    )
}

/// Runs a command that must succeed.
pub(crate) fn run(
    command: &mut Command,
    told: &str,
    knobs: &[Knob<'_>],
    output: Output<'_>,
) -> Result<(), String> {
    command.envs(knobs.iter().map(|knob| (knob.0, knob.1)));
    if let Output::Kept(path) = output {
        let file = File::create(path).map_err(|e| format!("{}: {e}", path.display()))?;
        let copy = file.try_clone().map_err(|e| e.to_string())?;
        command
            .stdin(std::process::Stdio::null())
            .stdout(file)
            .stderr(copy);
    }
    let status = command.status().map_err(|e| format!("{told}: {e}"))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("{told}: {status}"))
    }
}
