//! `--cfg shuttle` for crates of ours under test: the code that runs, with locks that try every order.
//!
//! As a flag of the compiler it would make every dependency anew, which takes longer than all the rest
//! of it. So we stand in for the compiler of the workspace and say it there.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};

use crate::lanes::RESULT;
use crate::lint::COMPILER;
use crate::step::{Knob, Skip, exit_code, succeeds, this_program};

/// Tells us that we are called as the compiler.
const CALLED: &str = "OUTLAST_XTASK_SHUTTLE";

/// Who stands in for the compiler.
pub(crate) struct Weaver {
    stand_in: String,
}

impl Weaver {
    pub(crate) fn find() -> Result<Self, String> {
        let stand_in = this_program()?;
        Ok(Self { stand_in })
    }

    /// What cargo is told, with what it is told anyway.
    pub(crate) fn with<'a>(&'a self, knobs: &[Knob<'a>]) -> Vec<Knob<'a>> {
        let mine = [Knob(COMPILER, &self.stand_in), Knob(CALLED, "1")];
        mine.into_iter().chain(knobs.iter().copied()).collect()
    }
}

/// Tests that are not compiled do not fail: of each crate some must have run.
pub(crate) fn check_that_some_ran(log: &Path) -> Result<(), Skip> {
    let text = fs::read_to_string(log).unwrap_or_default();
    if has_empty_run(&text) {
        let why = "no interleaving was tried: the tests were compiled without `--cfg shuttle`";
        return Err(Skip::Failed(why.into()));
    }
    Ok(())
}

fn has_empty_run(text: &str) -> bool {
    let results = text.lines().filter(|line| line.starts_with(RESULT));
    let mut filled = results.map(|line| !line.contains(" 0 passed")).peekable();
    filled.peek().is_none() || !filled.all(|is_filled| is_filled)
}

/// Does what the compiler is asked for, if we are called as the compiler: it is the first word.
pub(crate) fn stand_in() -> Option<ExitCode> {
    std::env::var_os(CALLED)?;
    let mut words = std::env::args_os().skip(1);
    let mut compiler = Command::new(words.next()?);
    let words: Vec<OsString> = words.collect();
    compiler.args(&words);
    // What a crate under test needs of others has the locks it always has.
    if words.iter().any(|word| word == "--test") {
        compiler.args(["--cfg", "shuttle"]);
    }
    Some(exit_code(succeeds(&mut compiler)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_without_tests_is_seen() {
        let ran = "test result: ok. 10 passed; 0 failed\n";
        let none = "test result: ok. 0 passed; 0 failed\n";
        assert!(!has_empty_run(&[ran, ran].concat()));
        assert!(has_empty_run(&[ran, none].concat()));
        assert!(has_empty_run("error: no such command"));
    }
}
