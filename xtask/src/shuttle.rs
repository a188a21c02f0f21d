//! `--cfg shuttle` for crates of ours under test: the code that runs, with locks that try every order.
//!
//! As a flag of the compiler it would make every dependency anew, which takes longer than all the rest
//! of it. So we stand in for the compiler of the workspace and say it there.

use std::ffi::OsString;
use std::process::{Command, ExitCode};

use crate::lint::COMPILER;
use crate::step::{Knob, exit_code, succeeds, this_program};

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
