//! Clippy as the compiler of our own crates: its driver is the compiler with more to say, and what it
//! builds is as good. Linting apart from building would mean that everything, all dependencies too,
//! is read twice.

use crate::step::{Knob, toolchain_program};

/// Cargo's word for a program that stands in for the compiler where the code is ours.
pub(crate) const COMPILER: &str = "RUSTC_WORKSPACE_WRAPPER";
/// What clippy is told beside what the compiler is told.
const ARGS: &str = "CLIPPY_ARGS";
const DENY: &str = "-Dwarnings";

/// The driver, found.
pub(crate) struct Linter {
    driver: String,
}

impl Linter {
    pub(crate) fn find() -> Result<Self, String> {
        let driver = toolchain_program("clippy-driver");
        let driver = driver.ok_or("clippy is not installed: rustup component add clippy")?;
        Ok(Self { driver })
    }

    /// What cargo is told, with what it is told anyway.
    pub(crate) fn with<'a>(&'a self, knobs: &[Knob<'a>]) -> Vec<Knob<'a>> {
        let mine = [Knob(COMPILER, &self.driver), Knob(ARGS, DENY)];
        mine.into_iter().chain(knobs.iter().copied()).collect()
    }
}
